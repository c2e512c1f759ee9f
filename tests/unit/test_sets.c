/* Set commands and set algebra, as a client sees them, with keys on four shards. */
#include "harness.h"

#include "base/rng.h"

#define WRONGTYPE "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"

static int setup(void **state)
{
    *state = harness_new(4, &sets_family, &hashes_family, NULL);
    return 0;
}

static int teardown(void **state)
{
    harness_free(*state);
    return 0;
}

/* Members m0 .. mn-1, or the integers. */
/* Small sets grow one by one through their encodings; large ones in larger steps, since a cold value is built anew with each. */
static void fill(struct harness *h, const char *key, const char *prefix, int n)
{
    struct buf words = {0};
    for (int i = 0, step = 1 + n / 500; i < n; i += step) {
        words.len = 0;
        buf_printf(&words, "SADD %s", key);
        for (int k = i; k < i + step && k < n; k++) buf_printf(&words, " %s%d", prefix, k);
        buf_add_byte(&words, '\0');
        harness_run(h, words.p);
    }
    buf_fini(&words);
    harness_events(h);
}

static void sadd_and_srem_count_what_changed(void **state)
{
    struct harness *h = *state;
    harness_expect(h, "SADD s a b a", ":2\r\n");
    harness_expect(h, "SADD s b c", ":1\r\n");
    harness_expect(h, "SCARD s", ":3\r\n");
    assert_string_equal(harness_events(h), "new s;sadd s;sadd s;");
    harness_expect(h, "SADD s a b c", ":0\r\n");
    harness_expect(h, "SREM s x", ":0\r\n");
    assert_string_equal(harness_events(h), "");
    harness_expect(h, "SREM s a x a", ":1\r\n");
    assert_string_equal(harness_events(h), "srem s;");
    harness_expect(h, "SREM s b c", ":2\r\n");
    assert_string_equal(harness_events(h), "srem s;del s;");
    harness_expect(h, "SCARD s", ":0\r\n");
}

static void a_write_that_changes_nothing_is_no_op(void **state)
{
    struct harness *h = *state;
    harness_run(h, "SADD s a 1");
    harness_run(h, "SADD s 1 a");
    assert_int_equal(h->last.ops, 0);
    harness_run(h, "SREM s x 2");
    assert_int_equal(h->last.ops, 0);
}

static void a_missing_set_is_empty_to_every_reader(void **state)
{
    struct harness *h = *state;
    harness_expect(h, "SCARD no", ":0\r\n");
    harness_expect(h, "SMEMBERS no", "*0\r\n");
    harness_expect(h, "SISMEMBER no a", ":0\r\n");
    harness_expect(h, "SMISMEMBER no a b", "*2\r\n:0\r\n:0\r\n");
    harness_expect(h, "SREM no a", ":0\r\n");
    harness_expect(h, "SPOP no", "$-1\r\n");
    harness_expect(h, "SPOP no 3", "*0\r\n");
    harness_expect(h, "SRANDMEMBER no", "$-1\r\n");
    harness_expect(h, "SRANDMEMBER no 3", "*0\r\n");
    harness_expect(h, "SSCAN no 0", "*2\r\n$1\r\n0\r\n*0\r\n");
    harness_expect(h, "SUNION no nono", "*0\r\n");
    harness_expect(h, "SINTER no", "*0\r\n");
    harness_expect(h, "SDIFF no", "*0\r\n");
    harness_expect(h, "SINTERCARD 1 no", ":0\r\n");
    h->resp = 3;
    harness_expect(h, "SMEMBERS no", "~0\r\n");
    harness_expect(h, "SPOP no", "_\r\n");
    harness_expect(h, "SPOP no 3", "~0\r\n");
    harness_expect(h, "SRANDMEMBER no 3", "*0\r\n");
    harness_expect(h, "SINTER no", "~0\r\n");
}

static void every_command_refuses_another_type(void **state)
{
    static const char *const commands[] = {
        "SADD h a", "SREM h a", "SCARD h", "SMEMBERS h", "SISMEMBER h a", "SMISMEMBER h a", "SPOP h", "SPOP h 0", "SPOP h 2", "SRANDMEMBER h",
        "SRANDMEMBER h 2", "SSCAN h 0", "SMOVE h s a", "SMOVE s h a", "SINTER s h", "SUNION s h", "SDIFF s h", "SINTER no h", "SUNION no h",
        "SDIFF no h", "SINTERSTORE d no h", "SUNIONSTORE d no h", "SDIFFSTORE d no h", "SINTERCARD 2 no h",
    };
    struct harness *h = *state;
    harness_run(h, "HSET h f v");
    harness_run(h, "SADD s a");
    harness_run(h, "SADD d keep");
    harness_events(h);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) harness_expect(h, commands[i], WRONGTYPE);
    assert_string_equal(harness_events(h), "");
    harness_expect(h, "SMEMBERS d", "*1\r\n$4\r\nkeep\r\n");
}

static void members_are_answered_as_a_set(void **state)
{
    struct harness *h = *state;
    harness_run(h, "SADD n 3 1 2");
    harness_expect(h, "SMEMBERS n", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    harness_expect(h, "SISMEMBER n 2", ":1\r\n");
    harness_expect(h, "SISMEMBER n x", ":0\r\n");
    harness_expect(h, "SMISMEMBER n 1 9 3", "*3\r\n:1\r\n:0\r\n:1\r\n");
    h->resp = 3;
    harness_expect(h, "SMEMBERS n", "~3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    harness_expect(h, "SISMEMBER n 2", ":1\r\n");
}

/* ---- SMOVE */

static void smove_moves_over_shards(void **state)
{
    struct harness *h = *state;
    for (int i = 0; i < 20; i++) { /* pairs of keys on all combinations of shards */
        char words[64];
        snprintf(words, sizeof words, "SADD from%d a b", i);
        harness_run(h, words);
        snprintf(words, sizeof words, "SMOVE from%d to%d a", i, i);
        harness_expect(h, words, ":1\r\n");
        harness_expect(h, words, ":0\r\n");
        snprintf(words, sizeof words, "SMEMBERS to%d", i);
        harness_expect(h, words, "*1\r\n$1\r\na\r\n");
        snprintf(words, sizeof words, "SMEMBERS from%d", i);
        harness_expect(h, words, "*1\r\n$1\r\nb\r\n");
    }
}

static void smove_tells_each_change(void **state)
{
    struct harness *h = *state;
    harness_run(h, "SADD s a b");
    harness_run(h, "SADD t a");
    harness_events(h);
    harness_expect(h, "SMOVE s t a", ":1\r\n");
    assert_string_equal(harness_events(h), "srem s;");
    harness_expect(h, "SMOVE s t b", ":1\r\n");
    assert_string_equal(harness_events(h), "srem s;del s;sadd t;");
    harness_expect(h, "SMOVE t t a", ":1\r\n");
    harness_expect(h, "SMOVE t t x", ":0\r\n");
    assert_string_equal(harness_events(h), "");
    harness_run(h, "HSET h f v");
    harness_expect(h, "SMOVE no h a", ":0\r\n");
}

/* ---- random members */

static void spop_takes_what_it_answers(void **state)
{
    static const char *const prefixes[] = {"", "m"};
    struct harness *h = *state;
    for (int p = 0; p < 2; p++) {
        fill(h, "s", prefixes[p], 40);
        for (int left = 39; left >= 0; left--) {
            char words[64], member[32];
            struct slice reply = harness_run(h, "SPOP s");
            const char *text = strchr(reply.p, '\n') + 1;
            snprintf(member, sizeof member, "%.*s", (int)(strchr(text, '\r') - text), text);
            assert_string_equal(harness_events(h), left ? "spop s;" : "spop s;del s;");
            snprintf(words, sizeof words, "SISMEMBER s %s", member);
            harness_expect(h, words, ":0\r\n");
            snprintf(words, sizeof words, ":%d\r\n", left);
            harness_expect(h, "SCARD s", words);
        }
    }
}

static void spop_with_count_takes_that_many(void **state)
{
    struct harness *h = *state;
    fill(h, "s", "m", 300);
    harness_expect_start(h, "SPOP s 20", "*20\r\n");
    harness_expect(h, "SCARD s", ":280\r\n");
    harness_expect_start(h, "SPOP s 250", "*250\r\n");
    harness_expect(h, "SCARD s", ":30\r\n");
    harness_expect(h, "SPOP s 0", "*0\r\n");
    assert_string_equal(harness_events(h), "spop s;spop s;");
    harness_expect_start(h, "SPOP s 31", "*30\r\n");
    assert_string_equal(harness_events(h), "spop s;del s;");
    harness_expect(h, "SCARD s", ":0\r\n");
    fill(h, "n", "", 100);
    h->resp = 3;
    harness_expect_start(h, "SPOP n 99", "~99\r\n");
    harness_expect(h, "SCARD n", ":1\r\n");
    harness_expect_start(h, "SPOP n 1", "~1\r\n");
}

static void counts_are_checked(void **state)
{
    struct harness *h = *state;
    harness_run(h, "SADD s a");
    harness_expect(h, "SPOP s -1", "-ERR value is out of range, must be positive\r\n");
    harness_expect(h, "SPOP no -1", "-ERR value is out of range, must be positive\r\n");
    harness_expect(h, "SPOP s x", "-ERR value is out of range, must be positive\r\n");
    harness_expect(h, "SPOP s 1 2", "-ERR syntax error\r\n");
    harness_expect(h, "SRANDMEMBER s x", "-ERR value is not an integer or out of range\r\n");
    harness_expect(h, "SRANDMEMBER s 1 2", "-ERR syntax error\r\n");
    harness_expect(h, "SRANDMEMBER s -9223372036854775808",
                   "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n");
    harness_expect(h, "SRANDMEMBER s -100000000", "-ERR value is out of range\r\n");
    harness_expect(h, "SRANDMEMBER s 0", "*0\r\n");
    harness_expect(h, "SRANDMEMBER s 9223372036854775807", "*1\r\n$1\r\na\r\n");
    harness_expect(h, "SRANDMEMBER s -3", "*3\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n");
}

/* Counts how often each member PREFIXn of an array reply came. */
static void tally(struct slice reply, size_t want, size_t prefix, uint32_t *hits, uint32_t n)
{
    const char *at = reply.p;
    assert_int_equal(strtoul(at + 1, NULL, 10), want);
    at = strchr(at, '\n') + 1;
    for (size_t i = 0; i < want; i++) {
        at = strchr(at, '\n') + 1;
        unsigned long m = strtoul(at + prefix, NULL, 10);
        assert_true(m < n);
        hits[m]++;
        at = strchr(at, '\n') + 1;
    }
}

static void random_members_are_distinct_and_reach_everyone(void **state)
{
    static const struct { const char *key, *prefix; int members, picks; } cases[] = {
        {"ints", "", 100, 9}, {"ints", "", 100, 90}, {"pack", "m", 60, 7}, {"table", "m", 300, 20}, {"table", "m", 300, 290}, {"table", "m", 300, 300},
    };
    struct harness *h = *state;
    h->check = false;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint32_t total[300] = {0};
        char words[64];
        fill(h, cases[c].key, cases[c].prefix, cases[c].members);
        snprintf(words, sizeof words, "SRANDMEMBER %s %d", cases[c].key, cases[c].picks);
        for (int round = 0; round < 500; round++) {
            uint32_t once[300] = {0};
            tally(harness_run(h, words), (size_t)cases[c].picks, strlen(cases[c].prefix), once, (uint32_t)cases[c].members);
            for (int m = 0; m < cases[c].members; m++) {
                assert_true(once[m] <= 1);
                total[m] += once[m];
            }
        }
        uint32_t mean = (uint32_t)(500 * cases[c].picks / cases[c].members);
        for (int m = 0; m < cases[c].members; m++) assert_in_range(total[m], mean / 5, mean * 4);
    }
    assert_string_equal(harness_events(h), "");
}

/* ---- algebra */

static void algebra_of_three_sets(void **state)
{
    struct harness *h = *state;
    harness_run(h, "SADD a 1 2 3 x y");
    harness_run(h, "SADD b 2 3 4 y z");
    harness_run(h, "SADD c 3 y 9");
    harness_expect_sorted(h, "SUNION a b c", "1 2 3 4 9 x y z");
    harness_expect_sorted(h, "SINTER a b c", "3 y");
    harness_expect_sorted(h, "SDIFF a b c", "1 x");
    harness_expect_sorted(h, "SDIFF a no c", "1 2 x");
    harness_expect_sorted(h, "SDIFF no a", "");
    harness_expect_sorted(h, "SINTER a no b", "");
    harness_expect_sorted(h, "SUNION no c no", "3 9 y");
    harness_expect_sorted(h, "SINTER a a", "1 2 3 x y");
    harness_expect_sorted(h, "SDIFF a a", "");
    h->resp = 3;
    harness_expect_start(h, "SUNION a b", "~7\r\n");
    harness_expect_start(h, "SINTER a b", "~3\r\n");
    harness_expect_start(h, "SDIFF a b", "~2\r\n");
}

static void sintercard_counts_up_to_its_limit(void **state)
{
    struct harness *h = *state;
    fill(h, "a", "m", 200);
    fill(h, "b", "m", 150);
    harness_expect(h, "SINTERCARD 2 a b", ":150\r\n");
    harness_expect(h, "SINTERCARD 2 a b LIMIT 10", ":10\r\n");
    harness_expect(h, "SINTERCARD 2 a b LIMIT 0", ":150\r\n");
    harness_expect(h, "SINTERCARD 2 a no LIMIT 5", ":0\r\n");
    harness_expect(h, "SINTERCARD 1 a limit 500", ":200\r\n");
}

static void sintercard_checks_its_arguments(void **state)
{
    struct harness *h = *state;
    harness_run(h, "SADD a m");
    harness_run(h, "HSET h f v");
    harness_expect(h, "SINTERCARD 0 a", "-ERR numkeys should be greater than 0\r\n");
    harness_expect(h, "SINTERCARD -1 a", "-ERR numkeys should be greater than 0\r\n");
    harness_expect(h, "SINTERCARD x a", "-ERR numkeys should be greater than 0\r\n");
    harness_expect(h, "SINTERCARD 2 a", "-ERR Number of keys can't be greater than number of args\r\n");
    harness_expect(h, "SINTERCARD 9223372036854775807 a", "-ERR Number of keys can't be greater than number of args\r\n");
    harness_expect(h, "SINTERCARD 1 a LIMIT", "-ERR syntax error\r\n");
    harness_expect(h, "SINTERCARD 1 a FOO 1", "-ERR syntax error\r\n");
    harness_expect(h, "SINTERCARD 1 h LIMIT -1", "-ERR LIMIT can't be negative\r\n");
    harness_expect(h, "SINTERCARD 1 a LIMIT x", "-ERR LIMIT can't be negative\r\n");
    harness_expect(h, "SINTERCARD 1", "-ERR wrong number of arguments for 'sintercard' command\r\n");
}

static void results_are_stored_over_anything(void **state)
{
    struct harness *h = *state;
    harness_run(h, "SADD a 1 2 3");
    harness_run(h, "SADD b 2 3 4");
    harness_run(h, "HSET d f v");
    harness_events(h);
    harness_expect(h, "SUNIONSTORE d a b", ":4\r\n");
    assert_string_equal(harness_events(h), "new d;sunionstore d;");
    harness_expect_sorted(h, "SMEMBERS d", "1 2 3 4");
    harness_expect(h, "SINTERSTORE d a b", ":2\r\n");
    harness_expect_sorted(h, "SMEMBERS d", "2 3");
    harness_expect(h, "SDIFFSTORE d a b", ":1\r\n");
    harness_expect_sorted(h, "SMEMBERS d", "1");
}

static void an_empty_result_deletes_the_destination(void **state)
{
    struct harness *h = *state;
    harness_run(h, "SADD a 1");
    harness_run(h, "SADD d old");
    harness_events(h);
    harness_expect(h, "SINTERSTORE d a no", ":0\r\n");
    assert_string_equal(harness_events(h), "del d;");
    harness_expect(h, "SDIFFSTORE d a a", ":0\r\n");
    harness_expect(h, "SUNIONSTORE d no nono", ":0\r\n");
    assert_string_equal(harness_events(h), "");
    harness_run(h, "HSET h f v");
    harness_events(h);
    harness_expect(h, "SINTERSTORE h no", ":0\r\n");
    assert_string_equal(harness_events(h), "del h;");
}

static void the_destination_may_be_a_source(void **state)
{
    struct harness *h = *state;
    fill(h, "a", "m", 300);
    fill(h, "b", "m", 200);
    harness_expect(h, "SINTERSTORE a a b", ":200\r\n");
    harness_expect(h, "SCARD a", ":200\r\n");
    harness_expect(h, "SUNIONSTORE b b a", ":200\r\n");
    harness_expect(h, "SDIFFSTORE b b a", ":0\r\n");
    harness_expect(h, "SCARD b", ":0\r\n");
}

static void a_large_result_is_stored_whole(void **state)
{
    struct harness *h = *state;
    h->check = false;
    fill(h, "a", "m", 6000);
    fill(h, "b", "", 6000);
    harness_expect(h, "SUNIONSTORE d a b", ":12000\r\n");
    harness_expect(h, "SINTERCARD 2 d a", ":6000\r\n");
    harness_expect(h, "SINTERCARD 2 d b", ":6000\r\n");
    harness_expect(h, "SCARD d", ":12000\r\n");
}

static void many_sources_work(void **state)
{
    struct harness *h = *state;
    struct slice argv[41];
    char keys[40][16];
    argv[0] = SLICE("SUNION");
    for (int i = 0; i < 40; i++) {
        char words[64];
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        argv[i + 1] = slice_str(keys[i]);
        snprintf(words, sizeof words, "SADD k%d all own%d", i, i);
        harness_run(h, words);
    }
    assert_memory_equal(harness_argv(h, argv, 41).p, "*41\r\n", 5);
    argv[0] = SLICE("SINTER");
    assert_true(slice_eq(harness_argv(h, argv, 41), SLICE("*1\r\n$3\r\nall\r\n")));
    argv[0] = SLICE("SDIFF");
    assert_true(slice_eq(harness_argv(h, argv, 41), SLICE("*1\r\n$4\r\nown0\r\n")));
}

/* The twin of the algebra: a bit per member. */
static uint64_t bits_of(struct harness *h, const char *words)
{
    uint64_t bits = 0;
    struct slice reply = harness_run(h, words);
    uint32_t hits[64] = {0};
    tally(reply, strtoul(reply.p + 1, NULL, 10), 0, hits, 64);
    for (int i = 0; i < 64; i++) {
        assert_true(hits[i] <= 1);
        bits |= (uint64_t)hits[i] << i;
    }
    return bits;
}

static void algebra_equals_that_of_bits(void **state)
{
    struct harness *h = *state;
    struct rng r;
    rng_init(&r, 5);
    for (int round = 0; round < 100; round++) {
        uint64_t twin[4] = {0};
        h->limits.set_ints = (uint32_t)rng_below(&r, 40);
        h->limits.set_entries = (uint32_t)rng_below(&r, 40);
        for (int k = 0; k < 4; k++) {
            char words[64];
            snprintf(words, sizeof words, "SPOP k%d 100", k);
            harness_run(h, words);
            for (uint64_t n = rng_below(&r, 60); n > 0; n--) {
                int m = (int)rng_below(&r, 64);
                twin[k] |= 1ull << m;
                snprintf(words, sizeof words, "SADD k%d %d", k, m);
                harness_run(h, words);
            }
        }
        assert_true(bits_of(h, "SUNION k0 k1 k2 k3") == (twin[0] | twin[1] | twin[2] | twin[3]));
        assert_true(bits_of(h, "SINTER k0 k1 k2") == (twin[0] & twin[1] & twin[2]));
        assert_true(bits_of(h, "SDIFF k0 k1 k2") == (twin[0] & ~twin[1] & ~twin[2]));
        harness_run(h, "SDIFFSTORE k3 k3 k0");
        assert_true(bits_of(h, "SMEMBERS k3") == (twin[3] & ~twin[0]));
    }
}

/* ---- SSCAN */

static void sscan_walks_everything_once(void **state)
{
    static const struct { const char *key, *prefix; int n; } cases[] = {{"ints", "", 200}, {"pack", "m", 100}, {"table", "m", 700}};
    struct harness *h = *state;
    for (int c = 0; c < 3; c++) {
        uint32_t hits[700] = {0};
        char words[64], cursor[32] = "0";
        int calls = 0;
        fill(h, cases[c].key, cases[c].prefix, cases[c].n);
        do {
            snprintf(words, sizeof words, "SSCAN %s %s COUNT 25", cases[c].key, cursor);
            struct slice reply = harness_run(h, words);
            const char *text = strchr(strchr(reply.p, '$'), '\n') + 1;
            snprintf(cursor, sizeof cursor, "%.*s", (int)(strchr(text, '\r') - text), text);
            const char *items = strchr(text, '*');
            tally(slice_of(items, 1), strtoul(items + 1, NULL, 10), strlen(cases[c].prefix), hits, (uint32_t)cases[c].n);
            assert_true(++calls < 100);
        } while (strcmp(cursor, "0") != 0);
        assert_int_equal(calls > 1, c == 2);
        for (int i = 0; i < cases[c].n; i++) assert_int_equal(hits[i], 1);
    }
}

static void sscan_matches_and_checks(void **state)
{
    struct harness *h = *state;
    harness_run(h, "SADD s apple avocado berry");
    harness_expect(h, "SSCAN s 0 MATCH b*", "*2\r\n$1\r\n0\r\n*1\r\n$5\r\nberry\r\n");
    harness_expect(h, "SSCAN s 0 MATCH a[vx]* COUNT 1", "*2\r\n$1\r\n0\r\n*1\r\n$7\r\navocado\r\n");
    harness_expect(h, "SSCAN s x", "-ERR invalid cursor\r\n");
    harness_expect(h, "SSCAN s 99999999999999999999999", "-ERR invalid cursor\r\n");
    harness_expect(h, "SSCAN s 0 COUNT -1", "-ERR syntax error\r\n");
    harness_expect(h, "SSCAN s 0 NOVALUES", "-ERR syntax error\r\n");
}

static void members_are_any_bytes(void **state)
{
    struct harness *h = *state;
    harness_expect(h, "SADD s \"\" \"\\x00\" \"\\r\\n\" 007", ":4\r\n");
    harness_expect(h, "SISMEMBER s \"\"", ":1\r\n");
    harness_expect(h, "SISMEMBER s 7", ":0\r\n");
    harness_expect(h, "SREM s \"\" \"\\x00\"", ":2\r\n");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sadd_and_srem_count_what_changed),
        TEST(a_write_that_changes_nothing_is_no_op),
        TEST(a_missing_set_is_empty_to_every_reader),
        TEST(every_command_refuses_another_type),
        TEST(members_are_answered_as_a_set),
        TEST(smove_moves_over_shards),
        TEST(smove_tells_each_change),
        TEST(spop_takes_what_it_answers),
        TEST(spop_with_count_takes_that_many),
        TEST(counts_are_checked),
        TEST(random_members_are_distinct_and_reach_everyone),
        TEST(algebra_of_three_sets),
        TEST(sintercard_counts_up_to_its_limit),
        TEST(sintercard_checks_its_arguments),
        TEST(results_are_stored_over_anything),
        TEST(an_empty_result_deletes_the_destination),
        TEST(the_destination_may_be_a_source),
        TEST(a_large_result_is_stored_whole),
        TEST(many_sources_work),
        TEST(algebra_equals_that_of_bits),
        TEST(sscan_walks_everything_once),
        TEST(sscan_matches_and_checks),
        TEST(members_are_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
