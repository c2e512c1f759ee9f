/* The command table and what every command shares: lookup, arity, keys, cursors, arguments. */
#include "harness.h"

static void note_args(struct exec *x) { reply_int(&x->out, x->argc); }

static void ask_timeout(struct exec *x)
{
    int64_t ms;
    if (exec_timeout(x, x->argv[1], &ms)) reply_int(&x->out, ms);
}

static void ask_sub(struct exec *x)
{
    static const char *const lines[] = {"ONE", "    The first.", NULL};
    if (slice_is(x->argv[1], "help"))
        exec_help(x, lines);
    else
        exec_unknown_subcommand(x);
}

static void ask_number(struct exec *x)
{
    int64_t i;
    double d;
    if (!exec_arg_i64(x, x->argv[1], &i) || !exec_arg_f64(x, x->argv[2], &d)) return;
    reply_array(&x->out, 2);
    reply_int(&x->out, i);
    reply_double(&x->out, d);
}

static int keys_from_count(const struct slice *argv, uint32_t argc, uint32_t *at, int max)
{
    if (argc < 3) return -1;
    for (int i = 0; i < (int)argc - 2 && i < max; i++) at[i] = (uint32_t)i + 2;
    return (int)argc - 2;
}

static const struct command rows[] = {
    {.name = "get", .fn = note_args, .arity = 2, .class = CLASS_LOCAL, .first_key = 1, .last_key = 1, .key_step = 1},
    {.name = "mset", .fn = note_args, .arity = -3, .class = CLASS_LOCAL, .first_key = 1, .last_key = -1, .key_step = 2},
    {.name = "blpop", .fn = note_args, .arity = -3, .class = CLASS_LOCAL, .first_key = 1, .last_key = -2, .key_step = 1},
    {.name = "eval", .fn = note_args, .arity = -2, .class = CLASS_LOCAL, .flags = CMD_MOVABLE_KEYS, .keys = keys_from_count},
    {.name = "a_very_long_command_name_ro", .fn = note_args, .arity = -1, .class = CLASS_LOCAL},
    {.name = "ping", .fn = note_args, .arity = -1, .class = CLASS_LOCAL},
    {.name = "timeout", .fn = ask_timeout, .arity = 2, .class = CLASS_LOCAL},
    {.name = "sub", .fn = ask_sub, .arity = -2, .class = CLASS_LOCAL},
    {.name = "number", .fn = ask_number, .arity = 3, .class = CLASS_LOCAL},
};
static const struct command_family family = COMMAND_FAMILY(rows);

static void names_are_found_in_any_case_and_only_whole(void **state)
{
    struct command_table *t = command_table_new(&family, 1);
    assert_int_equal(command_count(t), sizeof rows / sizeof rows[0]);
    for (size_t i = 0; i < command_count(t); i++) {
        const struct command *c = command_at(t, i);
        assert_ptr_equal(command_find(t, slice_str(c->name)), c);
        assert_int_equal(command_index(t, c), i);
        if (i) assert_true(strcmp(command_at(t, i - 1)->name, c->name) < 0);
    }
    assert_string_equal(command_find(t, SLICE("GeT"))->name, "get");
    assert_string_equal(command_find(t, SLICE("A_VERY_LONG_COMMAND_NAME_RO"))->name, "a_very_long_command_name_ro");
    assert_null(command_find(t, SLICE("")));
    assert_null(command_find(t, SLICE("ge")));
    assert_null(command_find(t, SLICE("gett")));
    assert_null(command_find(t, SLICE("g\x05t")));
    assert_null(command_find(t, SLICE("a\x7fvery\x7flong\x7f" "command\x7fname\x7fro")));
    command_table_free(t);
}

static void hundreds_of_names_have_a_slot_each(void **state)
{
    enum { N = 400 };
    static char names[N][24];
    static struct command many[N];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "%c%ccommand%d", 'a' + i % 26, 'a' + i / 26, i);
        many[i] = (struct command){.name = names[i], .fn = note_args, .arity = 1};
    }
    struct command_family f = {many, N};
    struct command_table *t = command_table_new(&f, 1);
    for (int i = 0; i < N; i++) assert_string_equal(command_find(t, slice_str(names[i]))->name, names[i]);
    command_table_free(t);
}

static void keys_are_found_as_the_row_says(void **state)
{
    struct command_table *t = command_table_new(&family, 1);
    struct slice argv[6];
    for (int i = 0; i < 6; i++) argv[i] = SLICE("w");
    uint32_t at[3];
    assert_int_equal(command_keys(command_find(t, SLICE("get")), argv, 2, at, 3), 1);
    assert_int_equal(at[0], 1);
    assert_int_equal(command_keys(command_find(t, SLICE("mset")), argv, 5, at, 3), 2);
    assert_int_equal(at[1], 3);
    assert_int_equal(command_keys(command_find(t, SLICE("blpop")), argv, 6, at, 3), 4); /* more than there is room for */
    assert_int_equal(at[2], 3);
    assert_int_equal(command_keys(command_find(t, SLICE("eval")), argv, 4, at, 3), 2);
    assert_int_equal(command_keys(command_find(t, SLICE("eval")), argv, 2, at, 3), -1);
    assert_int_equal(command_keys(command_find(t, SLICE("ping")), argv, 3, at, 3), 0);
    command_table_free(t);
}

static bool is_lower_name(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || *c == '_')) return false;
    return *name != 0;
}

static void check_row(const struct command *c)
{
    bool movable = c->flags & CMD_MOVABLE_KEYS;
    if (!c->name || !is_lower_name(c->name)) fail_msg("a bad name: %s", c->name ? c->name : "none");
    if (!c->fn || c->arity == 0) fail_msg("%s has no function or arity", c->name);
    if (!c->group || !c->since || !c->summary || !c->args) fail_msg("%s does not tell about itself", c->name);
    if (c->class != CLASS_LOCAL && !(c->flags & (CMD_WRITE | CMD_READONLY))) fail_msg("%s neither reads nor writes", c->name);
    if ((c->flags & CMD_WRITE) && (c->flags & CMD_READONLY)) fail_msg("%s reads only and writes", c->name);
    if (movable != (c->keys != NULL)) fail_msg("%s: movable keys and their function go together", c->name);
    if (c->class == CLASS_KEYED && !movable && (c->first_key < 1 || c->key_step < 1)) fail_msg("%s has no keys", c->name);
}

/* docs/COMMANDS.md and COMMAND DOCS are made from the rows. */
static void every_row_tells_about_itself(void **state)
{
    const struct command_family *const all[] = {&strings_family, &keys_family,    &expiry_family, &lists_family,   &hashes_family,
                                                &sets_family,    &zsets_family,   &zranges_family, &zpops_family,  &zstores_family,
                                                &bits_family,    &hll_family,     &sort_family,    &restore_family};
    enum { N = sizeof all / sizeof all[0] };
    struct command_family joined[N];
    for (size_t i = 0; i < N; i++) joined[i] = *all[i];
    struct command_table *t = command_table_new(joined, N);
    for (size_t i = 0; i < command_count(t); i++) check_row(command_at(t, i));
    assert_true(command_count(t) > 100);
    command_table_free(t);
}

static void bad_arguments_get_the_known_texts(void **state)
{
    struct harness *h = harness_new(1, &family, NULL);
    harness_expect(h, "GET", "-ERR wrong number of arguments for 'get' command\r\n");
    harness_expect(h, "GET a b", "-ERR wrong number of arguments for 'get' command\r\n");
    harness_expect(h, "MSET a", "-ERR wrong number of arguments for 'mset' command\r\n");
    harness_expect(h, "NUMBER x 1", "-ERR value is not an integer or out of range\r\n");
    harness_expect(h, "NUMBER 1 x", "-ERR value is not a valid float\r\n");
    harness_expect(h, "NUMBER 1 0.5", "*2\r\n:1\r\n$3\r\n0.5\r\n");
    harness_expect(h, "SUB x", "-ERR unknown subcommand 'x'. Try SUB HELP.\r\n");
    harness_expect(h, "SUB help", "*5\r\n+SUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n+ONE\r\n"
                                  "+    The first.\r\n+HELP\r\n+    Print this help.\r\n");
    harness_free(h);
}

static void timeouts_are_seconds_rounded_up_to_milliseconds(void **state)
{
    struct harness *h = harness_new(1, &family, NULL);
    harness_expect(h, "TIMEOUT 0", ":0\r\n");
    harness_expect(h, "TIMEOUT 1.5", ":1500\r\n");
    harness_expect(h, "TIMEOUT 0.0001", ":1\r\n");
    harness_expect(h, "TIMEOUT -1", "-ERR timeout is negative\r\n");
    harness_expect(h, "TIMEOUT x", "-ERR timeout is not a float or out of range\r\n");
    harness_expect(h, "TIMEOUT 9223372036854775807", "-ERR timeout is out of range\r\n");
    harness_expect(h, "TIMEOUT inf", "-ERR timeout is out of range\r\n");
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_in_any_case_and_only_whole),
        cmocka_unit_test(hundreds_of_names_have_a_slot_each),
        cmocka_unit_test(keys_are_found_as_the_row_says),
        cmocka_unit_test(every_row_tells_about_itself),
        cmocka_unit_test(bad_arguments_get_the_known_texts),
        cmocka_unit_test(timeouts_are_seconds_rounded_up_to_milliseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
