/* The TOML reader: every form that configuration files use, and a precise error for everything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/toml.h"

static const struct toml_value *value(const struct toml *doc, const char *table, const char *key)
{
    const struct toml_item *item = toml_find(doc, slice_str(table), slice_str(key));
    if (!item) fail_msg("no [%s] %s", table, key);
    return &item->value;
}

static void the_forms_of_a_configuration_file_are_read(void **state)
{
    static const char source[] = "# Sherd\n"
                                 "port = 6_379 # the usual one\r\n"
                                 "bind = [\n  \"127.0.0.1\", # v4\n  '::1',\n]\n"
                                 "ephemeral=true\n"
                                 "\"quoted key\" = 'C:\\dir'\n"
                                 "ratio = -1.5e3\n"
                                 "mask = 0xFF\n"
                                 "storage.dotted = +7\n"
                                 "\n"
                                 "[storage]\n"
                                 "\tdata_dir = \"./data\\t\\u00e9\\U0001F600\\\"\"\n"
                                 "[ compression . level ]\n"
                                 "empty = []\n"
                                 "deep = [[1, 2], [3]]";
    struct toml doc;
    assert_int_equal(toml_parse(&doc, slice_str(source)), 0);
    assert_int_equal(doc.count, 10);
    assert_int_equal(value(&doc, "", "port")->integer, 6379);
    const struct toml_value *bind = value(&doc, "", "bind");
    assert_int_equal(bind->count, 2);
    assert_true(slice_eq(bind->items[1].text, SLICE("::1")));
    assert_true(value(&doc, "", "ephemeral")->boolean);
    assert_true(slice_eq(value(&doc, "", "quoted key")->text, SLICE("C:\\dir")));
    assert_true(value(&doc, "", "ratio")->real == -1500.0);
    assert_int_equal(value(&doc, "", "mask")->integer, 255);
    assert_int_equal(value(&doc, "storage", "dotted")->integer, 7);
    assert_true(slice_eq(value(&doc, "storage", "data_dir")->text, SLICE("./data\t\xc3\xa9\xf0\x9f\x98\x80\"")));
    assert_int_equal(value(&doc, "compression.level", "empty")->count, 0);
    assert_int_equal(value(&doc, "compression.level", "deep")->items[0].items[1].integer, 2);
    toml_fini(&doc);
}

static void a_value_knows_its_line_and_its_place(void **state)
{
    static const char source[] = "a = 1\n\nb = [ 1,\n 2 ] # two\nc = \"x\"\n[t]\nd = 2\n";
    struct toml doc;
    assert_int_equal(toml_parse(&doc, slice_str(source)), 0);
    const struct toml_item *b = toml_find(&doc, SLICE(""), SLICE("b")), *c = toml_find(&doc, SLICE(""), SLICE("c"));
    assert_int_equal(b->line, 3);
    assert_int_equal(c->line, 5);
    assert_true(slice_eq(slice_of(source + b->from, b->to - b->from), SLICE("[ 1,\n 2 ]")));
    assert_true(slice_eq(slice_of(source + c->from, c->to - c->from), SLICE("\"x\"")));
    assert_memory_equal(source + doc.top_end, "[t]", 3);
    toml_fini(&doc);
}

static void integers_reach_their_limits_and_no_further(void **state)
{
    struct toml doc;
    assert_int_equal(toml_parse(&doc, SLICE("min = -9223372036854775808\nmax = 9223372036854775807\nhex = 0x7fffffffffffffff")), 0);
    assert_true(value(&doc, "", "min")->integer == INT64_MIN);
    assert_true(value(&doc, "", "max")->integer == INT64_MAX);
    assert_true(value(&doc, "", "hex")->integer == INT64_MAX);
    toml_fini(&doc);
}

static void floats_have_their_special_values(void **state)
{
    struct toml doc;
    assert_int_equal(toml_parse(&doc, SLICE("a = inf\nb = -inf\nc = nan\nd = 1e6\ne = 0.5\nf = -0.0")), 0);
    assert_true(isinf(value(&doc, "", "a")->real) && value(&doc, "", "b")->real < 0 && isnan(value(&doc, "", "c")->real));
    assert_true(value(&doc, "", "d")->real == 1e6 && value(&doc, "", "e")->real == 0.5);
    assert_true(signbit(value(&doc, "", "f")->real));
    toml_fini(&doc);
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
    static const struct {
        const char *source;
        unsigned line;
        const char *error;
    } cases[] = {
        {"a = 1\nb = \n", 2, "a value is missing"},
        {"a = 1\na = 2\n", 2, "key 'a' stands twice"},
        {"[t]\na = 1\n[t]\n", 3, "table [t] stands twice"},
        {"a 1", 1, "expected '=' behind the key"},
        {"= 1", 1, "a key is missing"},
        {"a = localhost", 1, "'localhost' is not a value (strings need quotes)"},
        {"a = 1 2", 1, "unexpected text behind the value"},
        {"a = 01", 1, "'01' is not a value (strings need quotes)"},
        {"a = 1__0", 1, "'1__0' is not a value (strings need quotes)"},
        {"a = 9223372036854775808", 1, "integer 9223372036854775808 is too large"},
        {"\n\na = \"x\n", 3, "unterminated string"},
        {"a = \"x", 1, "unterminated string"},
        {"a = \"\\q\"", 1, "unknown escape in a string"},
        {"a = \"\\u12\"", 1, "\\u needs 4 hexadecimal digits"},
        {"a = \"\\ud800\"", 1, "escape is not a Unicode character"},
        {"a = \"\"\"x\"\"\"", 1, "multi-line strings are not supported"},
        {"a = {b = 1}", 1, "inline tables are not supported"},
        {"[[a]]", 1, "arrays of tables are not supported"},
        {"a = 1979-05-27", 1, "dates and times are not supported"},
        {"a = [1 2]", 1, "expected ',' or ']' in an array"},
        {"a = [1,\n\n", 3, "unterminated array"},
        {"a = [,]", 1, "a value is missing"},
        {"[a\nb = 1", 1, "expected ']' behind the table's name"},
        {"a = \x01", 1, "a value is missing"},
        {"a = [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", 1, "arrays nested too deep"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct toml doc;
        assert_int_equal(toml_parse(&doc, slice_str(cases[i].source)), -1);
        assert_string_equal(doc.error, cases[i].error);
        assert_int_equal(doc.error_line, cases[i].line);
        toml_fini(&doc);
    }
}

static void an_empty_source_is_an_empty_document(void **state)
{
    struct toml doc;
    assert_int_equal(toml_parse(&doc, slice_of(NULL, 0)), 0);
    assert_int_equal(doc.count, 0);
    toml_fini(&doc);
}

/* Any cut and any changed byte of a good file gives a document or an error with a line, never anything else. */
static void damaged_files_are_read_or_refused(void **state)
{
    static const char good[] = "port = 1_0\nbind = ['a', \"b\\u0041\"] # c\n[s.t]\nx.y = -1.5e-3\nz = [ [1], [true,false] ]\n";
    struct rng rng;
    rng_init(&rng, 7);
    unsigned refused = 0;
    for (int round = 0; round < 20000; round++) {
        char source[sizeof good];
        memcpy(source, good, sizeof good);
        size_t n = rng_below(&rng, sizeof good);
        for (int k = 0; k < 3 && n; k++) source[rng_below(&rng, n)] = (char)rng_u64(&rng);
        struct toml doc;
        if (toml_parse(&doc, slice_of(source, n)) != 0) {
            assert_true(doc.error_line >= 1 && doc.error[0]);
            refused++;
        }
        toml_fini(&doc);
    }
    assert_true(refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_forms_of_a_configuration_file_are_read),
        cmocka_unit_test(a_value_knows_its_line_and_its_place),
        cmocka_unit_test(integers_reach_their_limits_and_no_further),
        cmocka_unit_test(floats_have_their_special_values),
        cmocka_unit_test(what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(an_empty_source_is_an_empty_document),
        cmocka_unit_test(damaged_files_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
