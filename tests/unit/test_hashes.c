/* Hash commands, as a client sees them. */
#include "harness.h"

#include "base/rng.h"

#define WRONGTYPE "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"

static int setup(void **state)
{
    *state = harness_new(4, &hashes_family, &sets_family, NULL);
    return 0;
}

static int teardown(void **state)
{
    harness_free(*state);
    return 0;
}

/* Fields f0 .. fn-1 with values v0 .. */
static void fill(struct harness *h, const char *key, int n)
{
    char words[64];
    for (int i = 0; i < n; i++) {
        snprintf(words, sizeof words, "HSET %s f%d v%d", key, i, i);
        harness_expect(h, words, ":1\r\n");
    }
    harness_events(h);
}

static void hset_counts_new_fields_only(void **state)
{
    struct harness *h = *state;
    harness_expect(h, "HSET h a 1 b 2", ":2\r\n");
    harness_expect(h, "HSET h a 9 c 3 c 4", ":1\r\n");
    harness_expect(h, "HMGET h a b c d", "*4\r\n$1\r\n9\r\n$1\r\n2\r\n$1\r\n4\r\n$-1\r\n");
    assert_string_equal(harness_events(h), "new h;hset h;hset h;");
}

static void hmset_answers_ok(void **state)
{
    struct harness *h = *state;
    harness_expect(h, "HMSET h a 1 b 2", "+OK\r\n");
    harness_expect(h, "HGET h b", "$1\r\n2\r\n");
}

static void a_field_without_value_is_wrong_arity(void **state)
{
    struct harness *h = *state;
    harness_expect(h, "HSET h a", "-ERR wrong number of arguments for 'hset' command\r\n");
    harness_expect(h, "HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command\r\n");
    harness_expect(h, "HMSET h a 1 b", "-ERR wrong number of arguments for 'hmset' command\r\n");
    harness_expect(h, "HLEN h", ":0\r\n");
}

static void hsetnx_sets_only_what_is_missing(void **state)
{
    struct harness *h = *state;
    harness_expect(h, "HSETNX h a 1", ":1\r\n");
    harness_expect(h, "HSETNX h a 2", ":0\r\n");
    harness_expect(h, "HGET h a", "$1\r\n1\r\n");
    assert_string_equal(harness_events(h), "new h;hset h;");
}

static void a_missing_hash_is_empty_to_every_reader(void **state)
{
    struct harness *h = *state;
    harness_expect(h, "HGET no a", "$-1\r\n");
    harness_expect(h, "HMGET no a b", "*2\r\n$-1\r\n$-1\r\n");
    harness_expect(h, "HGETALL no", "*0\r\n");
    harness_expect(h, "HKEYS no", "*0\r\n");
    harness_expect(h, "HVALS no", "*0\r\n");
    harness_expect(h, "HLEN no", ":0\r\n");
    harness_expect(h, "HEXISTS no a", ":0\r\n");
    harness_expect(h, "HSTRLEN no a", ":0\r\n");
    harness_expect(h, "HDEL no a", ":0\r\n");
    harness_expect(h, "HRANDFIELD no", "$-1\r\n");
    harness_expect(h, "HRANDFIELD no 3", "*0\r\n");
    harness_expect(h, "HSCAN no 0 BAD OPTION", "*2\r\n$1\r\n0\r\n*0\r\n");
    h->resp = 3;
    harness_expect(h, "HGETALL no", "%0\r\n");
    harness_expect(h, "HGET no a", "_\r\n");
}

static void every_command_refuses_another_type(void **state)
{
    static const char *const commands[] = {
        "HSET s a 1", "HMSET s a 1", "HSETNX s a 1", "HGET s a", "HMGET s a", "HDEL s a", "HGETALL s", "HKEYS s", "HVALS s", "HLEN s", "HEXISTS s a",
        "HSTRLEN s a", "HINCRBY s a 1", "HINCRBYFLOAT s a 1", "HRANDFIELD s", "HRANDFIELD s 2 WITHVALUES", "HSCAN s 0",
    };
    struct harness *h = *state;
    harness_run(h, "SADD s m");
    harness_events(h);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) harness_expect(h, commands[i], WRONGTYPE);
    assert_string_equal(harness_events(h), "");
}

static void hdel_counts_and_deletes_the_empty_hash(void **state)
{
    struct harness *h = *state;
    harness_run(h, "HSET h a 1 b 2 c 3");
    harness_events(h);
    harness_expect(h, "HDEL h x", ":0\r\n");
    assert_string_equal(harness_events(h), "");
    harness_expect(h, "HDEL h a x a", ":1\r\n");
    assert_string_equal(harness_events(h), "hdel h;");
    harness_expect(h, "HDEL h b c", ":2\r\n");
    assert_string_equal(harness_events(h), "hdel h;del h;");
    harness_expect(h, "HLEN h", ":0\r\n");
}

static void a_write_that_changes_nothing_is_no_op(void **state)
{
    struct harness *h = *state;
    harness_run(h, "HSET h a 1");
    harness_run(h, "HDEL h x y");
    assert_int_equal(h->last.ops, 0);
    harness_run(h, "HSETNX h a 2");
    assert_int_equal(h->last.ops, 0);
}

static void all_fields_come_as_map_in_resp3_and_flat_in_resp2(void **state)
{
    struct harness *h = *state;
    harness_run(h, "HSET h a 1 b 2");
    harness_expect(h, "HGETALL h", "*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n");
    harness_expect(h, "HKEYS h", "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    harness_expect(h, "HVALS h", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    h->resp = 3;
    harness_expect(h, "HGETALL h", "%2\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n");
    harness_expect(h, "HKEYS h", "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
}

static void lengths_and_existence(void **state)
{
    struct harness *h = *state;
    harness_run(h, "HSET h a hello b \"\"");
    harness_expect(h, "HLEN h", ":2\r\n");
    harness_expect(h, "HSTRLEN h a", ":5\r\n");
    harness_expect(h, "HSTRLEN h b", ":0\r\n");
    harness_expect(h, "HSTRLEN h c", ":0\r\n");
    harness_expect(h, "HEXISTS h b", ":1\r\n");
    harness_expect(h, "HEXISTS h c", ":0\r\n");
}

static void hincrby_adds_and_checks(void **state)
{
    struct harness *h = *state;
    harness_expect(h, "HINCRBY h n 5", ":5\r\n");
    harness_expect(h, "HINCRBY h n -7", ":-2\r\n");
    harness_expect(h, "HGET h n", "$2\r\n-2\r\n");
    assert_string_equal(harness_events(h), "new h;hincrby h;hincrby h;");
    harness_run(h, "HSET h max 9223372036854775807 min -9223372036854775808 word x space \" 1\"");
    harness_expect(h, "HINCRBY h max 1", "-ERR increment or decrement would overflow\r\n");
    harness_expect(h, "HINCRBY h min -1", "-ERR increment or decrement would overflow\r\n");
    harness_expect(h, "HINCRBY h word 1", "-ERR hash value is not an integer\r\n");
    harness_expect(h, "HINCRBY h space 1", "-ERR hash value is not an integer\r\n");
    harness_expect(h, "HINCRBY h n 1.5", "-ERR value is not an integer or out of range\r\n");
    harness_expect(h, "HGET h max", "$19\r\n9223372036854775807\r\n");
}

static void hincrbyfloat_adds_and_checks(void **state)
{
    struct harness *h = *state;
    harness_expect(h, "HINCRBYFLOAT h n 10.5", "$4\r\n10.5\r\n");
    harness_expect(h, "HINCRBYFLOAT h n 0.1", "$4\r\n10.6\r\n");
    harness_expect(h, "HINCRBYFLOAT h n -10.6", "$1\r\n0\r\n");
    harness_expect(h, "HINCRBYFLOAT h n 5.0e3", "$4\r\n5000\r\n");
    assert_string_equal(harness_events(h), "new h;hincrbyfloat h;hincrbyfloat h;hincrbyfloat h;hincrbyfloat h;");
    harness_run(h, "HSET h word x");
    harness_expect(h, "HINCRBYFLOAT h word 1", "-ERR hash value is not a float\r\n");
    harness_expect(h, "HINCRBYFLOAT h n x", "-ERR value is not a valid float\r\n");
    harness_expect(h, "HINCRBYFLOAT h n inf", "-ERR value is NaN or Infinity\r\n");
    harness_run(h, "HSET h huge 1.18973149535723176e4932");
    harness_expect(h, "HINCRBYFLOAT h huge 1.18973149535723176e4932", "-ERR increment would produce NaN or Infinity\r\n");
}

static void large_hashes_answer_like_small_ones(void **state)
{
    struct harness *h = *state;
    fill(h, "big", 300);
    harness_expect(h, "HLEN big", ":300\r\n");
    harness_expect(h, "HGET big f299", "$4\r\nv299\r\n");
    harness_expect(h, "HSET big f299 other", ":0\r\n");
    harness_expect(h, "HGET big f299", "$5\r\nother\r\n");
    harness_expect_start(h, "HGETALL big", "*600\r\n");
    harness_expect(h, "HDEL big f0 f1 f0", ":2\r\n");
    harness_expect(h, "HLEN big", ":298\r\n");
}

/* ---- random fields */

static void one_random_field_is_a_field(void **state)
{
    struct harness *h = *state;
    harness_run(h, "HSET h a 1");
    harness_expect(h, "HRANDFIELD h", "$1\r\na\r\n");
    harness_expect(h, "HRANDFIELD h 0", "*0\r\n");
    harness_expect(h, "HRANDFIELD h 5", "*1\r\n$1\r\na\r\n");
    harness_expect(h, "HRANDFIELD h -2", "*2\r\n$1\r\na\r\n$1\r\na\r\n");
    harness_expect(h, "HRANDFIELD h 1 WITHVALUES", "*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    h->resp = 3;
    harness_expect(h, "HRANDFIELD h 1 withvalues", "*1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    harness_expect(h, "HRANDFIELD h -2 WITHVALUES", "*2\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    harness_expect(h, "HRANDFIELD h 1", "*1\r\n$1\r\na\r\n");
}

static void hrandfield_checks_its_arguments(void **state)
{
    struct harness *h = *state;
    harness_run(h, "HSET h a 1");
    harness_expect(h, "HRANDFIELD h x", "-ERR value is not an integer or out of range\r\n");
    harness_expect(h, "HRANDFIELD h 1 foo", "-ERR syntax error\r\n");
    harness_expect(h, "HRANDFIELD h 1 WITHVALUES foo", "-ERR syntax error\r\n");
    harness_expect(h, "HRANDFIELD h -9223372036854775808",
                   "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n");
    harness_expect(h, "HRANDFIELD h -9223372036854775807 WITHVALUES", "-ERR value is out of range\r\n");
    harness_expect(h, "HRANDFIELD h 9223372036854775807 WITHVALUES", "-ERR value is out of range\r\n");
    harness_expect(h, "HRANDFIELD h -100000000", "-ERR value is out of range\r\n");
    harness_expect(h, "HRANDFIELD h 9223372036854775807", "*1\r\n$1\r\na\r\n");
}

/* Counts how often each field fN of a reply came; fails if it is not an array of `want` such fields. */
static void tally(struct slice reply, size_t want, uint32_t *hits, uint32_t n)
{
    const char *at = reply.p;
    assert_int_equal(strtoul(at + 1, NULL, 10), want);
    for (size_t i = 0; i < want; i++) {
        at = strchr(at, 'f') + 1;
        unsigned long f = strtoul(at, NULL, 10);
        assert_true(f < n);
        hits[f]++;
    }
}

static void distinct_picks_are_distinct_and_reach_everyone(void **state)
{
    static const struct { int fields, picks; } cases[] = {{50, 7}, {50, 49}, {300, 20}, {300, 250}, {300, 300}};
    struct harness *h = *state;
    h->check = false;
    fill(h, "small", 50);
    fill(h, "big", 300);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint32_t total[300] = {0};
        char words[64];
        snprintf(words, sizeof words, "HRANDFIELD %s %d", cases[c].fields == 50 ? "small" : "big", cases[c].picks);
        for (int round = 0; round < 500; round++) {
            uint32_t once[300] = {0};
            tally(harness_run(h, words), (size_t)cases[c].picks, once, (uint32_t)cases[c].fields);
            for (int f = 0; f < cases[c].fields; f++) {
                assert_true(once[f] <= 1);
                total[f] += once[f];
            }
        }
        uint32_t mean = (uint32_t)(500 * cases[c].picks / cases[c].fields);
        for (int f = 0; f < cases[c].fields; f++) assert_in_range(total[f], mean / 5, mean * 4);
    }
}

static void repeating_picks_reach_everyone(void **state)
{
    struct harness *h = *state;
    fill(h, "small", 50);
    uint32_t hits[50] = {0};
    tally(harness_run(h, "HRANDFIELD small -5000"), 5000, hits, 50);
    for (int f = 0; f < 50; f++) assert_in_range(hits[f], 50, 200);
}

/* ---- HSCAN */

static void a_small_hash_is_scanned_at_once(void **state)
{
    struct harness *h = *state;
    harness_run(h, "HSET h a 1 b 2 ab 3");
    harness_expect(h, "HSCAN h 0 COUNT 1", "*2\r\n$1\r\n0\r\n*6\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n$2\r\nab\r\n$1\r\n3\r\n");
    harness_expect(h, "HSCAN h 0 MATCH a*", "*2\r\n$1\r\n0\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$2\r\nab\r\n$1\r\n3\r\n");
    harness_expect(h, "HSCAN h 0 match ?b novalues", "*2\r\n$1\r\n0\r\n*1\r\n$2\r\nab\r\n");
    harness_expect(h, "HSCAN h 0 MATCH x", "*2\r\n$1\r\n0\r\n*0\r\n");
}

static void hscan_checks_its_arguments(void **state)
{
    struct harness *h = *state;
    harness_run(h, "HSET h a 1");
    harness_expect(h, "HSCAN h x", "-ERR invalid cursor\r\n");
    harness_expect(h, "HSCAN no x", "-ERR invalid cursor\r\n");
    harness_expect(h, "HSCAN h 0 COUNT 0", "-ERR syntax error\r\n");
    harness_expect(h, "HSCAN h 0 COUNT x", "-ERR value is not an integer or out of range\r\n");
    harness_expect(h, "HSCAN h 0 COUNT", "-ERR syntax error\r\n");
    harness_expect(h, "HSCAN h 0 MATCH", "-ERR syntax error\r\n");
    harness_expect(h, "HSCAN h 0 FOO", "-ERR syntax error\r\n");
    harness_expect(h, "HSCAN h", "-ERR wrong number of arguments for 'hscan' command\r\n");
}

static void scanning_a_large_hash_gives_everything_once(void **state)
{
    struct harness *h = *state;
    uint32_t hits[500] = {0};
    char words[64], cursor[32] = "0";
    int calls = 0;
    fill(h, "big", 500);
    do {
        snprintf(words, sizeof words, "HSCAN big %s COUNT 20 NOVALUES", cursor);
        struct slice reply = harness_run(h, words);
        const char *text = strchr(reply.p, '$');
        text = strchr(text, '\n') + 1;
        snprintf(cursor, sizeof cursor, "%.*s", (int)(strchr(text, '\r') - text), text);
        const char *items = strchr(text, '*');
        tally(slice_of(items, reply.n - (size_t)(items - reply.p)), strtoul(items + 1, NULL, 10), hits, 500);
        assert_true(++calls < 100);
    } while (strcmp(cursor, "0") != 0);
    assert_true(calls > 5);
    for (int f = 0; f < 500; f++) assert_int_equal(hits[f], 1);
}

static void fields_and_values_are_any_bytes(void **state)
{
    struct harness *h = *state;
    harness_expect(h, "HSET h \"\\x00\\r\\n\" \"\\xff\\x00\" \"\" \"\"", ":2\r\n");
    struct slice reply = harness_run(h, "HGET h \"\\x00\\r\\n\"");
    assert_true(slice_eq(reply, SLICE("$2\r\n\xff\x00\r\n")));
    harness_expect(h, "HGET h \"\"", "$0\r\n\r\n");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hset_counts_new_fields_only),
        TEST(hmset_answers_ok),
        TEST(a_field_without_value_is_wrong_arity),
        TEST(hsetnx_sets_only_what_is_missing),
        TEST(a_missing_hash_is_empty_to_every_reader),
        TEST(every_command_refuses_another_type),
        TEST(hdel_counts_and_deletes_the_empty_hash),
        TEST(a_write_that_changes_nothing_is_no_op),
        TEST(all_fields_come_as_map_in_resp3_and_flat_in_resp2),
        TEST(lengths_and_existence),
        TEST(hincrby_adds_and_checks),
        TEST(hincrbyfloat_adds_and_checks),
        TEST(large_hashes_answer_like_small_ones),
        TEST(one_random_field_is_a_field),
        TEST(hrandfield_checks_its_arguments),
        TEST(distinct_picks_are_distinct_and_reach_everyone),
        TEST(repeating_picks_reach_everyone),
        TEST(a_small_hash_is_scanned_at_once),
        TEST(hscan_checks_its_arguments),
        TEST(scanning_a_large_hash_gives_everything_once),
        TEST(fields_and_values_are_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
