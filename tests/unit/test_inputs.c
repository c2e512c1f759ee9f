/* Rows of CSV and JSON lines, rows kept in a spool, page sizes and tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/rng.h"
#include "snapshot/csvrow.h"
#include "snapshot/input.h"
#include "snapshot/inputspool.h"
#include "snapshot/jsonrow.h"
#include "snapshot/pagefile.h"
#include "snapshot/pagesize.h"
#include "snapshot/tokens.h"

/* ---- files */

struct file {
    char path[64];
};

static void write_file(struct file *f, const char *ending, struct slice bytes)
{
    snprintf(f->path, sizeof f->path, "/tmp/sherd-inputs-XXXXXX%s", ending);
    int fd = mkstemps(f->path, (int)strlen(ending));
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.p, bytes.n), bytes.n);
    close(fd);
}

/* All rows as "key=value|", "!why|" for a bad one. */
static void read_all(struct input *in, struct buf *out)
{
    struct input_row row;
    struct buf why = {0};
    for (enum input_result r; (r = input_next(in, &row, &why)) != INPUT_END; why.len = 0) {
        if (r == INPUT_ROW) {
            buf_add_slice(out, row.key);
            buf_add_str(out, row.key_form == INPUT_KEY_NUMBER ? "#" : "=");
            buf_add_slice(out, row.value);
        } else {
            const char *colon = memchr(why.p, ':', why.len);
            buf_add_str(out, "!");
            buf_add(out, colon, (size_t)(why.p + why.len - colon));
        }
        buf_add_byte(out, '|');
        if (r == INPUT_FAILED) break;
    }
    buf_fini(&why);
}

static void expect_rows(const char *ending, struct slice bytes, const struct input_options *o, const char *rows)
{
    struct file f;
    struct buf out = {0}, error = {0};
    write_file(&f, ending, bytes);
    struct input *in = input_open(f.path, o, &error);
    if (in) read_all(in, &out);
    else buf_printf(&out, "?%.*s", (int)error.len, error.p + strlen(f.path));
    buf_add_byte(&out, '\0');
    assert_string_equal(out.p, rows);
    input_free(in);
    unlink(f.path);
    buf_fini(&out);
    buf_fini(&error);
}

/* ---- CSV */

static void csv_fields_come_out_of_their_quotes(void **state)
{
    struct input_options o = {0};
    expect_rows(".csv", SLICE("key,value\n1,a\n\"2\",\"b,\"\"c\"\"\"\r\n3,\"x\ny\"\n\n4,\n5,z"), &o, "1=a|2=b,\"c\"|3=x\ny|4=|5=z|");
    expect_rows(".csv", SLICE("\xef\xbb\xbfvalue,other,key\r\n\"\",q,1\r\n"), &o, "1=|");
    expect_rows(".tsv", SLICE("key\tvalue\n1\ta,b\n"), &o, "1=a,b|");
}

static void csv_faults_are_told_with_their_line(void **state)
{
    struct input_options o = {0};
    expect_rows(".csv", SLICE("key,value\n\"a\nb\",1\nx\"y,2\n\"q\"r,3\n1,2,3\n4,ok\n\"never"), &o,
                "a\nb=1|!:4: a quote inside a field that does not begin with one|!:5: something other than a separator behind a closing quote|!:6: 3 fields, the header has 2|"
                "4=ok|!:8: a quote that is never closed|");
}

static void csv_headers_must_have_what_is_wanted(void **state)
{
    struct input_options o = {.fields = {.key = "id"}};
    expect_rows(".csv", SLICE("key,value\n1,2\n"), &o, "?:1: no field 'id' in the header, which has: key value");
    o.fields.key = "key";
    expect_rows(".csv", SLICE("key,value,key\n1,2\n"), &o, "?:1: the header has the field 'key' twice");
    expect_rows(".csv", SLICE(""), &o, "?: empty: a header with the names of the fields is needed");
}

static void csv_values_become_json(void **state)
{
    const char *const json[] = {"b", "value"};
    struct input_options o = {.fields = {.json = json, .n_json = 2}};
    expect_rows(".csv", SLICE("key,value,b\n1,caf\xc3\xa9,\"q\"\"\"\n2,\xff,x\n"), &o, "1={\"b\":\"q\\\"\",\"value\":\"caf\\u00e9\"}|!:3: a field of the JSON value is not UTF-8|");
}

/* Random fields, written as CSV should be, come back; whole or with the end of the bytes anywhere. */
static void csv_that_was_quoted_reads_back(void **state)
{
    static const char letters[] = "ab,\"\n\r ";
    struct rng r;
    struct csvrow row = {0};
    rng_init(&r, 5);
    for (int round = 0; round < 3000; round++) {
        struct buf text = {0};
        char fields[6][12];
        size_t sizes[6], n = 1 + rng_below(&r, 6);
        for (size_t i = 0; i < n; i++) {
            sizes[i] = rng_below(&r, 8);
            if (i) buf_add_byte(&text, ',');
            buf_add_byte(&text, '"');
            for (size_t k = 0; k < sizes[i]; k++) {
                fields[i][k] = letters[rng_below(&r, sizeof letters - 1)];
                buf_add_byte(&text, fields[i][k]);
                if (fields[i][k] == '"') buf_add_byte(&text, '"');
            }
            buf_add_byte(&text, '"');
        }
        buf_add_str(&text, rng_below(&r, 2) ? "\n" : "\r\n");
        size_t some = 1 + rng_below(&r, text.len - 1);
        assert_int_equal(csvrow_parse(&row, slice_of(text.p, some), ',', false), CSVROW_MORE);
        assert_int_equal(csvrow_parse(&row, buf_slice(&text), ',', round % 2), CSVROW_RECORD);
        assert_int_equal(row.used, text.len);
        assert_int_equal(row.n, n);
        for (size_t i = 0; i < n; i++) assert_true(slice_eq(row.fields[i], slice_of(fields[i], sizes[i])));
        buf_fini(&text);
    }
    csvrow_fini(&row);
}

/* ---- JSON */

static void json_keeps_numbers_exact_and_strings_unescaped(void **state)
{
    struct input_options o = {0};
    expect_rows(".jsonl",
                SLICE("{\"key\": 18446744073709551615, \"value\": \"a\\n\\u00e9\\ud83d\\ude00\"}\n"
                      "{\"value\":1.50, \"key\":\"x\", \"other\":[{}]}\n\n   \n"
                      "{\"key\":\"n\",\"value\":null}\n{\"key\":\"o\",\"value\":{\"a\": [1, 2]}}\n{\"key\":{\"base64\":\"/wE=\"},\"value\":{\"base64\":\"aGk=\"}}\r\n"
                      "{\"key\":\"a\",\"key\":\"b\",\"value\":true}"),
                &o, "18446744073709551615#a\n\xc3\xa9\xf0\x9f\x98\x80|x=1.50|n=|o={\"a\": [1, 2]}|\xff\x01=hi|b=true|");
}

static void json_faults_are_told_with_line_and_column(void **state)
{
    struct input_options o = {0};
    expect_rows(".jsonl",
                SLICE("[1]\n{\"key\":1}\n{\"key\":1.5,\"value\":2}\n{\"key\":true,\"value\":2}\n{\"key\":1,\"value\":\"\\ud800\"}\n{\"key\":01}\n{\"key\":\"a\x01\"}\n{\"key\":1,}\n{\"key\":1} x\n"
                      "{\"key\":\"\\x\"}\n{\"key\":1,\"value\":2"),
                &o,
                "!:1:1: not a JSON object: each line is one|!:2: field 'value': the row has no such field|!:3: field 'key': the key is a number that is no integer|"
                "!:4: field 'key': the key is neither a string nor an integer|!:5: field 'value': half of a surrogate pair stands alone|!:6:10: not a number as JSON has them|"
                "!:7:11: a control character inside a string|!:8:10: the name of a field is missing|!:9:11: something stands behind the object|"
                "!:10:11: an escape that JSON does not have|!:11:19: an object that is never closed|");
}

static void json_values_of_several_fields_are_compact_and_ascii(void **state)
{
    const char *const json[] = {"a", "b", "c"};
    struct input_options o = {.fields = {.json = json, .n_json = 3}};
    expect_rows(".jsonl", SLICE("{\"key\":\"k\",\"c\":{\"z\" : [ 1 , \"caf\xc3\xa9 \\/\" ]},\"a\":1e3}\n"), &o, "k={\"a\":1e3,\"b\":null,\"c\":{\"z\":[1,\"caf\\u00e9 /\"]}}|");
}

static void json_nests_only_so_deep(void **state)
{
    char line[2000] = "{\"key\":";
    size_t at, n = strlen(line);
    memset(line + n, '[', 1000);
    assert_string_equal(jsonrow_parse(slice_of(line, n + 1000), NULL, 0, &at), "nested too deep");
}

/* ---- several inputs */

static void inputs_follow_one_another_and_show_their_format(void **state)
{
    struct input_options o = {0};
    struct file a, b;
    struct buf out = {0};
    write_file(&a, "", SLICE("key,value\n1,a\n"));
    write_file(&b, "", SLICE(" {\"key\":2,\"value\":\"b\"}\n"));
    const char *const paths[] = {a.path, b.path, a.path, "/nowhere/at/all"};
    struct input *in = input_chain(paths, 4, &o);
    read_all(in, &out);
    buf_add_byte(&out, '\0');
    assert_string_equal(out.p, "1=a|2#b|1=a|!: No such file or directory|");
    input_free(in);
    buf_fini(&out);
    unlink(a.path);
    unlink(b.path);
}

static void a_spool_gives_its_rows_back(void **state)
{
    struct inputspool *s;
    struct input *in;
    struct input_row row;
    struct buf why = {0};
    char value[3000];
    assert_int_equal(inputspool_new(&s, NULL, 2), 0);
    for (uint32_t i = 0; i < 3000; i++) {
        struct slice columns[2] = {slice_of(&i, 4), SLICE("c")};
        memset(value, (int)i, sizeof value);
        struct input_row r = {.key = slice_of(&i, 4), .key_form = i % 2 ? INPUT_KEY_NUMBER : INPUT_KEY_WORD, .value = slice_of(value, i % 2999), .columns = columns};
        assert_int_equal(inputspool_add(s, &r), 0);
    }
    assert_int_equal(inputspool_rows(s), 3000);
    assert_int_equal(inputspool_read(s, &in), 0);
    for (uint32_t i = 0; i < 3000; i++) {
        assert_int_equal(input_next(in, &row, &why), INPUT_ROW);
        memset(value, (int)i, sizeof value);
        assert_true(slice_eq(row.key, slice_of(&i, 4)) && slice_eq(row.value, slice_of(value, i % 2999)) && row.key_form == (i % 2 ? INPUT_KEY_NUMBER : INPUT_KEY_WORD));
        assert_true(slice_eq(row.columns[0], slice_of(&i, 4)) && slice_eq(row.columns[1], SLICE("c")));
    }
    assert_int_equal(input_next(in, &row, &why), INPUT_END);
    input_free(in);
}

/* ---- page sizes and tokens */

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void the_page_size_is_that_of_the_rule(void **state)
{
    struct rng r;
    rng_init(&r, 11);
    struct pagesize *p = malloc(sizeof *p);
    for (int round = 0; round < 500; round++) {
        uint64_t sizes[200], key_max = 0, n = 1 + rng_below(&r, 200), top = 1 + rng_below(&r, 20000);
        memset(p, 0, sizeof *p);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t key = rng_below(&r, 300);
            sizes[i] = rng_below(&r, top);
            key_max = key > key_max ? key : key_max;
            pagesize_add(p, key, sizes[i]);
        }
        qsort(sizes, n, sizeof *sizes, by_number);
        uint64_t p95 = sizes[(n * 95 + 99) / 100 - 1];
        assert_int_equal(pagesize_pick(p), pagefile_auto_size(p95, key_max));
    }
    memset(p, 0, sizeof *p);
    assert_int_equal(pagesize_pick(p), 4096);
    free(p);
}

static void tokens_are_numbered_as_they_come_and_sorted_at_the_end(void **state)
{
    struct tokens *t = tokens_new();
    struct router_cel c = {0};
    uint32_t order[300];
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 300; i++) {
            struct router_token x = {.i = (int64_t)(i * 7919 % 300) - 150};
            uint32_t number = tokens_put(t, &x);
            assert_true(round == 0 ? number <= tokens_count(t) : number < 300);
        }
    assert_int_equal(tokens_count(t), 300);
    assert_true(tokens_sort(t, order, &c));
    assert_int_equal(c.tokens, ROUTER_TOKENS_INT);
    for (uint32_t i = 0; i < 300; i++) {
        struct router_token x = {.i = c.ints[i]};
        assert_int_equal(c.ints[i], (int64_t)i - 150);
        assert_int_equal(tokens_put(t, &x), order[i]);
    }
    struct router_token text = {.is_text = true, .text = SLICE("a")};
    tokens_put(t, &text);
    assert_false(tokens_sort(t, order, &c));
    tokens_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_fields_come_out_of_their_quotes),
        cmocka_unit_test(csv_faults_are_told_with_their_line),
        cmocka_unit_test(csv_headers_must_have_what_is_wanted),
        cmocka_unit_test(csv_values_become_json),
        cmocka_unit_test(csv_that_was_quoted_reads_back),
        cmocka_unit_test(json_keeps_numbers_exact_and_strings_unescaped),
        cmocka_unit_test(json_faults_are_told_with_line_and_column),
        cmocka_unit_test(json_values_of_several_fields_are_compact_and_ascii),
        cmocka_unit_test(json_nests_only_so_deep),
        cmocka_unit_test(inputs_follow_one_another_and_show_their_format),
        cmocka_unit_test(a_spool_gives_its_rows_back),
        cmocka_unit_test(the_page_size_is_that_of_the_rule),
        cmocka_unit_test(tokens_are_numbered_as_they_come_and_sorted_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
