/* CEL as a caller sees it: expressions over variables, types, errors with their place, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/rng.h"
#include "cel/cel.h"

static const struct cel_variable columns[] = {
    {SLICE("key"), SLICE("int")},           {SLICE("name"), SLICE("string")}, {SLICE("raw"), SLICE("bytes")},      {SLICE("n"), SLICE("uint")},
    {SLICE("ratio"), SLICE("double")},      {SLICE("flag"), SLICE("bool")},   {SLICE("tags"), SLICE("list(string)")}, {SLICE("row"), SLICE("map(string, dyn)")},
    {SLICE("any"), SLICE("dyn")},           {SLICE("unset"), SLICE("int")},
};

enum { COLUMNS = sizeof columns / sizeof *columns };

static const struct cel_value tag_values[] = {{.kind = CEL_STRING, .text = SLICE("red")}, {.kind = CEL_STRING, .text = SLICE("blue")}};
static const struct cel_entry row_entries[] = {{{.kind = CEL_STRING, .text = SLICE("age")}, {.kind = CEL_INT, .integer = 30}},
                                               {{.kind = CEL_STRING, .text = SLICE("city")}, {.kind = CEL_STRING, .text = SLICE("Bonn")}}};

static void set_values(struct cel_value values[COLUMNS])
{
    const struct cel_value all[COLUMNS] = {
        {.kind = CEL_INT, .integer = 42},
        {.kind = CEL_STRING, .text = SLICE("caf\xc3\xa9")},
        {.kind = CEL_BYTES, .text = {"\0\xff", 2}},
        {.kind = CEL_UINT, .natural = 7},
        {.kind = CEL_DOUBLE, .real = 0.5},
        {.kind = CEL_BOOL, .boolean = true},
        {.kind = CEL_LIST, .list = {tag_values, 2}},
        {.kind = CEL_MAP, .map = {row_entries, 2, NULL}},
        {.kind = CEL_INT, .integer = 5},
        {.kind = CEL_ABSENT},
    };
    memcpy(values, all, sizeof all);
}

static struct cel_program *compiled(const char *text, unsigned flags)
{
    struct cel_env env = {.variables = columns, .count = COLUMNS, .flags = flags};
    struct cel_error error;
    struct cel_program *p = cel_compile(&env, slice_str(text), &error);
    if (!p) fail_msg("%s: %u:%u: %s", text, error.line, error.column, error.message);
    return p;
}

/* The result as CEL writes it, or "error: " with the message. */
static void evaluate(const char *text, unsigned flags, struct buf *out)
{
    struct cel_program *p = compiled(text, flags);
    struct cel_value values[COLUMNS], result;
    struct cel_error error;
    struct scratch s;
    scratch_init(&s);
    set_values(values);
    if (cel_eval(p, values, &s, &result, &error) == 0) cel_value_print(&result, out);
    else buf_printf(out, "error at %u:%u: %s", error.line, error.column, error.message);
    buf_add_byte(out, '\0');
    scratch_fini(&s);
    cel_program_free(p);
}

static void expect_with(const char *text, const char *wanted, unsigned flags)
{
    struct buf out = {0};
    evaluate(text, flags, &out);
    if (strcmp(out.p, wanted) != 0) fail_msg("%s gives %s, not %s", text, out.p, wanted);
    buf_fini(&out);
}

static void expect(const char *text, const char *wanted) { expect_with(text, wanted, 0); }

/* An error with this in its text, wherever it was met. */
static void expect_limit(const char *text, const char *part)
{
    struct buf out = {0};
    evaluate(text, 0, &out);
    if (strncmp(out.p, "error", 5) != 0 || !strstr(out.p, part)) fail_msg("%s gives %s", text, out.p);
    buf_fini(&out);
}

static void expect_type(const char *text, const char *type, enum cel_kind kind)
{
    struct cel_program *p = compiled(text, 0);
    assert_string_equal(cel_program_type(p), type);
    assert_int_equal(cel_program_kind(p), kind);
    cel_program_free(p);
}

static void refuse(const char *text, unsigned line, unsigned column, const char *message)
{
    struct cel_env env = {.variables = columns, .count = COLUMNS};
    struct cel_error error;
    struct cel_program *p = cel_compile(&env, slice_str(text), &error);
    if (p) fail_msg("%s is accepted", text);
    if (error.line != line || error.column != column || strcmp(error.message, message) != 0) {
        fail_msg("%s: %u:%u: %s, not %u:%u: %s", text, error.line, error.column, error.message, line, column, message);
    }
}

static void variables_of_every_type_are_read(void **state)
{
    expect("key + 1", "43");
    expect("name", "\"caf\xc3\xa9\"");
    expect("raw", "b\"\\x00\\xff\"");
    expect("n * 2u", "14u");
    expect("ratio / 2.0", "0.25");
    expect("!flag", "false");
    expect("tags[1]", "\"blue\"");
    expect("row.age == 30 && row['city'] == 'Bonn'", "true");
    expect("has(row.age) && !has(row.name)", "true");
    expect("any + 1", "6");
}

static void a_routing_expression_gives_the_shard_of_the_published_vectors(void **state)
{
    expect("shard_hash(0) == 0xc77b3abb6f87acd9u", "true");
    expect("shard_hash(key) == 0xd5a6f8c838df27c8u", "true");
    expect("shard_hash(-1) % 256u", "19u");
    expect("shard_hash(9223372036854775807) % 256u", "70u");
    expect("shard_hash(-9223372036854775808) % 256u", "95u");
    expect("shard_hash(name) % 256u", "127u");
    expect("shard_hash('hello') == shard_hash(b'hello') && shard_hash('hello') % 256u == 253u", "true");
    expect("shard_hash('') % 256u", "194u");
    expect("shard_hash(b'\\x00') % 256u", "219u");
    expect("shard_hash(42u) == shard_hash(42)", "true");
    expect("shard_hash(9223372036854775808u)", "error at 1:11: shard_hash of a uint above the range of int");
    expect("shard_hash(name + ':' + string(key)) % 8u < 8u", "true");
}

static void types_are_checked_before_anything_runs(void **state)
{
    refuse("shard_hash(key) % 8", 1, 17, "found no matching overload for '_%_' applied to '(uint, int)'");
    refuse("key % 4u", 1, 5, "found no matching overload for '_%_' applied to '(int, uint)'");
    refuse("key + name", 1, 5, "found no matching overload for '_+_' applied to '(int, string)'");
    refuse("1 == 1.0", 1, 3, "found no matching overload for '_==_' applied to '(int, double)'");
    refuse("nobody", 1, 1, "undeclared reference to 'nobody'");
    refuse("f(1)", 1, 2, "undeclared function 'f'");
    refuse("name.size(1)", 1, 10, "found no matching overload for 'size' applied to 'string.(int)'");
    refuse("key ? 1 : 2", 1, 5, "found no matching overload for '_?_:_' applied to '(int, int, int)'");
    refuse("flag && key", 1, 9, "expected type 'bool' but found 'int'");
    refuse("key.field", 1, 4, "type 'int' does not support field selection");
    refuse("key.all(x, true)", 1, 1, "type 'int' cannot be the range of a macro: that is a list or a map");
    refuse("shard_hash(ratio)", 1, 11, "found no matching overload for 'shard_hash' applied to '(double)'");
    refuse("name.matches('(a')", 1, 14, "not a regular expression: missing closing parenthesis");
}

static void a_program_knows_its_type(void **state)
{
    expect_type("shard_hash(key) % 8u", "uint", CEL_UINT);
    expect_type("[1, 2].map(x, string(x))", "list(string)", CEL_LIST);
    expect_type("{'a': [1.5]}", "map(string, list(double))", CEL_MAP);
    expect_type("flag ? row.age : 1", "dyn", CEL_DYN);
    expect_type("[]", "list(dyn)", CEL_LIST);
    expect_type("type(key)", "type(int)", CEL_TYPE);
    expect_type("timestamp('2020-01-01T00:00:00Z') - duration('1h')", "timestamp", CEL_TIMESTAMP);
    expect_type("name", "string", CEL_STRING);
}

static void errors_of_syntax_say_where(void **state)
{
    refuse("", 1, 1, "expected an expression, found the end of the expression");
    refuse("1 +", 1, 4, "expected an expression, found the end of the expression");
    refuse("1 2", 1, 3, "expected an operator, found '2'");
    refuse("key ==\n  == 2", 2, 3, "expected an expression, found '=='");
    refuse("'\xc3\xa9\xc3\xa9' + $", 1, 8, "unexpected character '$'");
    refuse("'abc", 1, 5, "literal does not end");
    refuse("'a\\q'", 1, 4, "no such escape");
    refuse("9223372036854775808", 1, 1, "integer does not fit into 64 bits");
    refuse("if", 1, 1, "'if' is a reserved word");
    refuse("has(key)", 1, 5, "has() asks for a field: has(a.b)");
    refuse("[1].all(x.y, true)", 1, 10, "this argument names a variable: it has to be a simple name");
    refuse("Message{a: 1}", 1, 8, "messages are not supported; maps are: {\"name\": value}");
    refuse("\xff", 1, 1, "expression is not UTF-8");
}

static void an_error_is_shown_with_its_line_and_a_caret(void **state)
{
    static const char text[] = "key >= 0 &&\n  key % 4u == 1u";
    struct cel_env env = {.variables = columns, .count = COLUMNS};
    struct cel_error error;
    assert_null(cel_compile(&env, slice_str(text), &error));
    struct buf out = {0};
    cel_error_print(&error, slice_str(text), &out);
    buf_add_byte(&out, '\0');
    assert_string_equal(out.p, "2:7: found no matching overload for '_%_' applied to '(int, uint)'\n |   key % 4u == 1u\n | ......^\n");
    buf_fini(&out);
}

static void what_does_not_fit_is_an_error_when_evaluated(void **state)
{
    expect("9223372036854775807 + key", "error at 1:21: integer overflow");
    expect("key / 0", "error at 1:5: division by zero");
    expect("n - 8u", "error at 1:3: integer overflow");
    expect("tags[2]", "error at 1:5: index out of bounds");
    expect("row.nobody", "error at 1:4: no such key: 'nobody'");
    expect("any + 'x'", "error at 1:5: no such overload: _+_ for a value of type int and string");
    expect("unset + 1", "error at 1:1: variable has no value");
    expect("key / 0 == 1 || flag", "true");
    expect("flag || key / 0 == 1", "true");
    expect("key / 0 == 1 && !flag", "false");
    expect("ratio / 0.0 > 1e300", "true");
    expect("-5 % 3", "-2");
}

static void numbers_compare_by_value_across_types(void **state)
{
    expect("1u < 2 && 1 < 1.5 && 2.0 > 1u", "true");
    expect("dyn(1) == 1.0 && dyn(1u) == 1", "true");
    expect("dyn(9007199254740993) == 9007199254740992.0", "true");
    expect("{9007199254740993: 1}[dyn(9007199254740992.0)]", "error at 1:22: no such key");
    expect("18446744073709551615u > -1", "true");
    expect("{1: 'a', 2u: 'b'}[dyn(2.0)]", "\"b\"");
    expect("[1, 1u, 1.0].all(x, x == 1)", "true");
}

static void macros_work_on_lists_and_maps(void **state)
{
    expect("tags.exists(t, t == 'red')", "true");
    expect("tags.map(t, t + '!')", "[\"red!\", \"blue!\"]");
    expect("[1, 2, 3].filter(x, x > 1).map(y, y > 2, y * 10)", "[30]");
    expect("row.exists_one(k, k.startsWith('a'))", "true");
    expect("[[1, 2], [3]].map(l, l.map(x, x * key))", "[[42, 84], [126]]");
    expect("[1, 0].all(x, 1 / x > 5)", "false");
    expect("[key].map(key, key + 1)", "[43]");
}

static void large_maps_find_their_keys(void **state)
{
    struct buf text = {0};
    buf_add_byte(&text, '{');
    for (int i = 0; i < 3000; i++) buf_printf(&text, "%s'k%d': %d", i ? ", " : "", i, i);
    buf_add_str(&text, "}['k' + string(key * 10)]");
    buf_add_byte(&text, '\0');
    expect(text.p, "420");
    buf_fini(&text);
    expect("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map(x, {x: 1, 12u: 2, 13: 3, 14: 4, 15: 5, 16: 6, 17: 7, 18: 8, 19: 9}[12.0])[0]", "2");
    expect("{1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7, 8: 8, 9: 9, 9u: 1}", "error at 1:56: a key occurs twice in a map");
}

static void names_may_be_qualified_and_have_a_container(void **state)
{
    struct cel_variable vars[] = {{SLICE("a.b"), SLICE("int")}, {SLICE("b"), SLICE("string")}, {SLICE("a.m"), SLICE("map(string, int)")}};
    struct cel_env env = {.variables = vars, .count = 3, .container = SLICE("a.x")};
    struct cel_error error;
    static const struct {
        const char *text, *type;
    } cases[] = {{"b", "int"}, {".b", "string"}, {"a.b", "int"}, {".a.b", "int"}, {"m.field", "int"}, {"['s'].map(b, b)", "list(string)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cel_program *p = cel_compile(&env, slice_str(cases[i].text), &error);
        if (!p) fail_msg("%s: %s", cases[i].text, error.message);
        assert_string_equal(cel_program_type(p), cases[i].type);
        cel_program_free(p);
    }
}

static void a_variable_of_the_wrong_kind_is_refused(void **state)
{
    struct cel_program *p = compiled("key", 0);
    struct cel_value values[COLUMNS], result;
    struct cel_error error;
    struct scratch s;
    scratch_init(&s);
    set_values(values);
    values[0] = values[1];
    assert_int_equal(cel_eval(p, values, &s, &result, &error), -1);
    assert_string_equal(error.message, "variable 0 is of type string, declared is int");
    scratch_fini(&s);
    cel_program_free(p);
}

static void unchecked_programs_meet_their_errors_when_they_run(void **state)
{
    expect_with("nobody || true", "true", CEL_UNCHECKED);
    expect_with("nobody", "error at 1:1: undeclared reference to 'nobody'", CEL_UNCHECKED);
    expect_with("1 == 1.0", "true", CEL_UNCHECKED);
    expect_with("key % 4u", "error at 1:5: no such overload: _%_ for a value of type int and uint", CEL_UNCHECKED);
    expect_with("f(1) == 2 || flag", "true", CEL_UNCHECKED);
}

static void no_expression_runs_without_end(void **state)
{
    struct buf loops = {0};
    for (int i = 0; i < 8; i++) buf_printf(&loops, "[1,2,3,4,5,6,7,8,9,0].exists(x%d, ", i);
    buf_add_str(&loops, "x0 > 9))))))))");
    buf_add_byte(&loops, '\0');
    expect_limit(loops.p, "evaluation takes more than 1000000 steps");
    buf_fini(&loops);
    expect_limit("[1,2,3,4,5,6,7,8,9,0].map(a, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx').map(b, [b,b,b,b,b,b,b,b].map(c, c+c).map(d, d+d).map(d, d+d).map(d, d+d).map(d, d+d)"
           ".map(d, d+d).map(d, d+d).map(d, d+d).map(d, d+d).map(d, d+d).map(d, d+d).map(d, d+d).map(d, d+d).map(d, d+d).map(d, d+d).map(d, d+d)).size()",
           "evaluation takes more than 16777216 bytes");
    struct buf deep = {0};
    for (int i = 0; i < 5000; i++) buf_add_byte(&deep, '(');
    buf_add_byte(&deep, '\0');
    refuse(deep.p, 1, 251, "expression is nested more than 250 levels deep");
    deep.len = 0;
    for (int i = 0; i < 5000; i++) buf_add_str(&deep, "1+");
    buf_add_str(&deep, "1");
    buf_add_byte(&deep, '\0');
    refuse(deep.p, 1, 500, "expression is nested more than 250 levels deep");
    deep.len = 0;
    for (int i = 0; i < 5000; i++) buf_add_str(&deep, "flag||");
    buf_add_str(&deep, "flag");
    buf_add_byte(&deep, '\0');
    expect(deep.p, "true");
    buf_fini(&deep);
}

/* Types that double with every macro: without a bound the checker would need 2^40 steps. */
static void no_expression_is_checked_without_end(void **state)
{
    struct buf text = {0};
    buf_add_str(&text, "[1]");
    for (int i = 0; i < 40; i++) buf_printf(&text, ".map(x%d, {'k': x%d, 'l': [{'k': x%d}]})", i, i, i);
    buf_add_str(&text, ".size()");
    buf_add_byte(&text, '\0');
    expect(text.p, "1");
    text.len = 0;
    buf_add_str(&text, "[[]]");
    for (int i = 0; i < 60; i++) buf_printf(&text, ".map(x%d, {type(x%d): x%d, type(x%d) : x%d})", i, i, i, i, i);
    buf_add_byte(&text, '\0');
    struct cel_program *p = compiled(text.p, 0);
    cel_program_free(p);
    buf_fini(&text);
}

static void evaluating_again_allocates_nothing(void **state)
{
    struct cel_program *p = compiled("shard_hash(name + ':' + string(key)) % 16u", 0);
    struct cel_value values[COLUMNS], result;
    struct cel_error error;
    struct scratch s;
    scratch_init(&s);
    set_values(values);
    assert_int_equal(cel_eval(p, values, &s, &result, &error), 0);
    const struct scratch_block *first = s.first, *current = s.current;
    size_t used = s.used_bytes;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(cel_eval(p, values, &s, &result, &error), 0);
        assert_true(s.first == first && s.current == current && s.used_bytes == used);
    }
    scratch_fini(&s);
    cel_program_free(p);
}

static void *evaluate_often(void *arg)
{
    struct cel_value values[COLUMNS], result;
    struct cel_error error;
    struct scratch s;
    scratch_init(&s);
    set_values(values);
    uintptr_t right = 0;
    for (int i = 0; i < 2000; i++) {
        values[0].integer = i;
        right += cel_eval(arg, values, &s, &result, &error) == 0 && result.boolean == (i % 3 == 0);
    }
    scratch_fini(&s);
    return (void *)right;
}

static void threads_share_a_program(void **state)
{
    struct cel_program *p = compiled("key % 3 == 0 && (name + string(key)).matches('^caf.[0-9]+$') && key in tags.map(t, key)", 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, evaluate_often, p), 0);
    for (int i = 0; i < 4; i++) {
        void *right;
        assert_int_equal(pthread_join(threads[i], &right), 0);
        assert_int_equal((uintptr_t)right, 2000);
    }
    cel_program_free(p);
}

static void extensions_are_there_when_asked_for(void **state)
{
    static const char *const cases[][2] = {
        {"{'a': 1, 'b': 2}.transformMap(k, v, v > 1, k + string(v))", "{\"b\": \"b2\"}"},
        {"['x', 'y'].transformMapEntry(i, v, {v: i})", "{\"x\": 0, \"y\": 1}"},
        {"['x', 'x'].transformMapEntry(i, v, {v: i})", "error at 1:36: a key occurs twice in a map"},
        {"cel.bind(a, key + 1, a * a)", "1849"},
        {"math.greatest(1, 2u, 2.5) == 2.5 && math.least([3, 2]) == 2", "true"},
        {"math.sqrt(16) + math.abs(-1.0)", "5.0"},
        {"base64.encode(raw) + base64.encode(b'a') + base64.encode(b'abc')", "\"AP8=YQ==YWJj\""},
        {"base64.decode('AP8=') == raw && base64.decode('YWJj') == b'abc'", "true"},
        {"base64.decode('A')", "error at 1:14: not base64"},
        {"'abc'.replace('', '-') + 'abc'.replace('', '-', 2) + 'aXbX'.replace('X', 'yy', 1)", "\"-a-b-c--a-bcayybX\""},
        {"'abc'.split('') + ''.split(',')", "[\"a\", \"b\", \"c\", \"\"]"},
        {"name.reverse()", "\"\xc3\xa9" "fac\""},
        {"name.substring(3, 4) + name.charAt(3)", "\"\xc3\xa9\xc3\xa9\""},
        {"tags.join('+').upperAscii()", "\"RED+BLUE\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect_with(cases[i][0], cases[i][1], CEL_EXTENSIONS);
    refuse("math.abs(key)", 1, 1, "undeclared reference to 'math'");
    refuse("name.reverse()", 1, 13, "undeclared function 'reverse'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_of_every_type_are_read),
        cmocka_unit_test(a_routing_expression_gives_the_shard_of_the_published_vectors),
        cmocka_unit_test(types_are_checked_before_anything_runs),
        cmocka_unit_test(a_program_knows_its_type),
        cmocka_unit_test(errors_of_syntax_say_where),
        cmocka_unit_test(an_error_is_shown_with_its_line_and_a_caret),
        cmocka_unit_test(what_does_not_fit_is_an_error_when_evaluated),
        cmocka_unit_test(numbers_compare_by_value_across_types),
        cmocka_unit_test(macros_work_on_lists_and_maps),
        cmocka_unit_test(large_maps_find_their_keys),
        cmocka_unit_test(names_may_be_qualified_and_have_a_container),
        cmocka_unit_test(a_variable_of_the_wrong_kind_is_refused),
        cmocka_unit_test(unchecked_programs_meet_their_errors_when_they_run),
        cmocka_unit_test(no_expression_runs_without_end),
        cmocka_unit_test(no_expression_is_checked_without_end),
        cmocka_unit_test(evaluating_again_allocates_nothing),
        cmocka_unit_test(threads_share_a_program),
        cmocka_unit_test(extensions_are_there_when_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
