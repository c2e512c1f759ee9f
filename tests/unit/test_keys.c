/* Keys of any type over four shards, and a random walk against a naive twin of the keyspace. */
#include "harness.h"

static struct harness *start(void)
{
    return harness_new(4, &strings_family, &keys_family, &expiry_family, &lists_family, &hashes_family, &sets_family, &zsets_family, NULL);
}

static void keys_are_deleted_counted_and_named(void **state)
{
    struct harness *h = start();
    harness_run(h, "MSET a 1 b 2 c 3 d 4 e 5");
    harness_run(h, "RPUSH l x");
    harness_run(h, "HSET h f v");
    harness_run(h, "SADD s m");
    harness_run(h, "ZADD z 1 m");
    harness_events(h);
    harness_expect(h, "DBSIZE", ":9\r\n");
    harness_expect(h, "EXISTS a a nokey b", ":3\r\n");
    harness_expect(h, "TOUCH a nokey b", ":2\r\n");
    harness_expect(h, "DEL a nokey b a", ":2\r\n");
    harness_expect(h, "UNLINK c", ":1\r\n");
    assert_string_equal(harness_events(h), "del a;del b;del c;");
    harness_expect(h, "TYPE d", "+string\r\n");
    harness_expect(h, "TYPE l", "+list\r\n");
    harness_expect(h, "TYPE h", "+hash\r\n");
    harness_expect(h, "TYPE s", "+set\r\n");
    harness_expect(h, "TYPE z", "+zset\r\n");
    harness_expect(h, "TYPE a", "+none\r\n");
    harness_expect_sorted(h, "KEYS *", "d e h l s z");
    harness_expect_sorted(h, "KEYS [d-h]", "d e h");
    harness_expect_sorted(h, "KEYS nothing*", "");
    harness_free(h);
}

static void expired_keys_are_not_shown(void **state)
{
    struct harness *h = start();
    harness_run(h, "MSET a 1 b 2");
    harness_run(h, "SET gone 1 PX 5");
    h->now_ms += 6;
    harness_expect_sorted(h, "KEYS *", "a b");
    for (int i = 0; i < 50; i++) {
        struct slice got = harness_run(h, "RANDOMKEY");
        assert_true(slice_eq(got, SLICE("$1\r\na\r\n")) || slice_eq(got, SLICE("$1\r\nb\r\n")));
    }
    harness_expect(h, "EXISTS gone", ":0\r\n");
    harness_free(h);
}

static void a_scan_removes_the_expired_keys_that_it_meets(void **state)
{
    struct harness *h = start();
    harness_run(h, "MSET a 1 b 2");
    harness_run(h, "SET gone 1 PX 5");
    harness_run(h, "SET lost 1 PX 5");
    h->now_ms += 6;
    harness_expect_start(h, "SCAN 0 COUNT 100 TYPE list", "*2\r\n$1\r\n0\r\n*0\r\n");
    harness_expect(h, "DBSIZE", ":4\r\n"); /* what it does not look for it leaves alone */
    harness_expect_start(h, "SCAN 0 COUNT 100", "*2\r\n$1\r\n0\r\n*2\r\n");
    harness_expect(h, "DBSIZE", ":2\r\n");
    harness_free(h);
}

static void a_random_key_comes_from_everywhere(void **state)
{
    enum { KEYS = 20, ROUNDS = 4000 };
    struct harness *h = start();
    int seen[KEYS] = {0};
    char words[32];
    harness_expect(h, "RANDOMKEY", "$-1\r\n");
    h->check = false;
    for (int i = 0; i < KEYS; i++) {
        snprintf(words, sizeof words, "SET %02d x", i);
        harness_run(h, words);
    }
    for (int i = 0; i < ROUNDS; i++) seen[atoi(harness_run(h, "RANDOMKEY").p + 4)]++;
    for (int i = 0; i < KEYS; i++) assert_true(seen[i] > ROUNDS / KEYS / 4);
    harness_free(h);
}

/* Scans to the end; marks what was seen by the number in "key:<n>". Gives the number of calls. */
static int scan_all(struct harness *h, const char *options, int *seen, int keys)
{
    char cursor[32] = "0", words[128];
    int calls = 0;
    do {
        snprintf(words, sizeof words, "SCAN %s %s", cursor, options);
        struct slice got = harness_run(h, words);
        char *text = mem_alloc(got.n + 1);
        memcpy(text, got.p, got.n);
        text[got.n] = 0;
        assert_memory_equal(text, "*2\r\n$", 5);
        assert_int_equal(sscanf(text, "*2 $%*d %31s", cursor), 1);
        for (char *k = text; (k = strstr(k, "key:"));) {
            int n = atoi(k += 4);
            assert_true(n >= 0 && n < keys);
            seen[n]++;
        }
        mem_free(text);
        assert_true(++calls < 10000);
    } while (strcmp(cursor, "0") != 0);
    return calls;
}

static void a_scan_meets_every_key_once_on_all_shards(void **state)
{
    enum { KEYS = 500 };
    struct harness *h = start();
    int seen[KEYS] = {0};
    char words[64];
    h->check = false;
    for (int i = 0; i < KEYS; i++) {
        snprintf(words, sizeof words, i % 2 ? "SET key:%d x" : "RPUSH key:%d x", i);
        harness_run(h, words);
    }
    int calls = scan_all(h, "COUNT 20", seen, KEYS);
    assert_true(calls > 8 && calls < 60);
    for (int i = 0; i < KEYS; i++) assert_int_equal(seen[i], 1);
    memset(seen, 0, sizeof seen);
    scan_all(h, "COUNT 1000 TYPE list", seen, KEYS);
    for (int i = 0; i < KEYS; i++) assert_int_equal(seen[i], i % 2 == 0);
    memset(seen, 0, sizeof seen);
    scan_all(h, "MATCH key:1?", seen, KEYS);
    for (int i = 0; i < KEYS; i++) assert_int_equal(seen[i], i >= 10 && i < 20);
    harness_expect(h, "SCAN x", "-ERR invalid cursor\r\n");
    harness_expect(h, "SCAN 0 COUNT 0", "-ERR syntax error\r\n");
    harness_expect(h, "SCAN 0 COUNT x", "-ERR value is not an integer or out of range\r\n");
    harness_expect(h, "SCAN 0 MATCH", "-ERR syntax error\r\n");
    harness_expect(h, "SCAN 0 FOO 1", "-ERR syntax error\r\n");
    h->db = 5;
    harness_expect(h, "SCAN 0", "*2\r\n$1\r\n0\r\n*0\r\n");
    harness_free(h);
}

static void a_renamed_key_takes_its_value_and_expiry_along(void **state)
{
    struct harness *h = start();
    char words[64], want[32];
    harness_expect(h, "RENAME nokey x", "-ERR no such key\r\n");
    harness_expect(h, "RENAMENX nokey nokey", "-ERR no such key\r\n");
    harness_run(h, "RPUSH k0 a b c");
    harness_run(h, "PEXPIRE k0 5000");
    harness_events(h);
    harness_expect(h, "RENAME k0 k0", "+OK\r\n");
    harness_expect(h, "RENAMENX k0 k0", ":0\r\n");
    assert_string_equal(harness_events(h), "");
    for (int i = 0; i < 20; i++) { /* through all pairs of shards */
        snprintf(words, sizeof words, "RENAME k%d k%d", i, i + 1);
        harness_expect(h, words, "+OK\r\n");
        snprintf(want, sizeof want, "k%d", i + 1);
        harness_expect_sorted(h, "KEYS *", want);
    }
    harness_expect(h, "LRANGE k20 0 -1", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n");
    harness_expect(h, "PTTL k20", ":5000\r\n");
    harness_run(h, "SET other v");
    harness_expect(h, "RENAMENX k20 other", ":0\r\n");
    harness_events(h);
    harness_expect(h, "RENAME k20 other", "+OK\r\n");
    assert_string_equal(harness_events(h), "rename_from k20;rename_to other;");
    harness_expect(h, "TYPE other", "+list\r\n");
    harness_expect(h, "RENAMENX other last", ":1\r\n");
    harness_expect_sorted(h, "KEYS *", "last");
    harness_free(h);
}

static void copies_and_moves_reach_other_databases(void **state)
{
    struct harness *h = start();
    harness_run(h, "SET a v EX 50");
    harness_expect(h, "COPY a a", "-ERR source and destination objects are the same\r\n");
    harness_expect(h, "COPY a b DB 99", "-ERR DB index is out of range\r\n");
    harness_expect(h, "COPY a b DB -1", "-ERR DB index is out of range\r\n");
    harness_expect(h, "COPY a b DB x", "-ERR value is not an integer or out of range\r\n");
    harness_expect(h, "COPY a b FOO", "-ERR syntax error\r\n");
    harness_expect(h, "COPY nokey b", ":0\r\n");
    harness_expect(h, "COPY a b", ":1\r\n");
    harness_expect(h, "COPY a b", ":0\r\n");
    harness_run(h, "SET a w");
    harness_expect(h, "COPY a b REPLACE", ":1\r\n");
    harness_expect(h, "GET b", "$1\r\nw\r\n");
    harness_expect(h, "TTL b", ":-1\r\n");
    harness_events(h);
    harness_expect(h, "COPY a a DB 3", ":1\r\n");
    assert_string_equal(harness_events(h), "new a@3;copy_to a@3;");
    harness_expect(h, "MOVE a 0", "-ERR source and destination objects are the same\r\n");
    harness_expect(h, "MOVE a 99999999999", "-ERR value is out of range, value must between -2147483648 and 2147483647\r\n");
    harness_expect(h, "MOVE a 3", ":0\r\n");
    harness_expect(h, "MOVE b 3", ":1\r\n");
    assert_string_equal(harness_events(h), "new b@3;move_from b;move_to b@3;");
    harness_expect_sorted(h, "KEYS *", "a");
    h->db = 3;
    harness_expect_sorted(h, "KEYS *", "a b");
    harness_expect(h, "DBSIZE", ":2\r\n");
    harness_free(h);
}

static void databases_are_flushed_and_swapped_whole(void **state)
{
    struct harness *h = start();
    harness_run(h, "MSET a 1 b 2 c 3");
    h->db = 1;
    harness_run(h, "MSET x 1 y 2");
    harness_expect(h, "SWAPDB 0 1", "+OK\r\n");
    harness_expect_sorted(h, "KEYS *", "a b c");
    harness_expect(h, "SWAPDB 1 1", "+OK\r\n");
    harness_expect(h, "SWAPDB 0 99", "-ERR DB index is out of range\r\n");
    harness_expect(h, "SWAPDB x 1", "-ERR invalid first DB index\r\n");
    harness_expect(h, "SWAPDB 0 y", "-ERR invalid second DB index\r\n");
    harness_expect(h, "FLUSHDB FOO", "-ERR syntax error\r\n");
    harness_expect(h, "FLUSHDB ASYNC", "+OK\r\n");
    harness_expect(h, "DBSIZE", ":0\r\n");
    h->db = 0;
    harness_expect(h, "DBSIZE", ":2\r\n");
    harness_expect(h, "FLUSHALL", "+OK\r\n");
    harness_expect(h, "DBSIZE", ":0\r\n");
    harness_free(h);
}

static void object_names_encodings_as_redis_does(void **state)
{
    struct harness *h = start();
    harness_run(h, "MSET int 12345 short hello long 123456789012345678901234567890123456789012345 notint 0123");
    harness_run(h, "SADD ints 1 2 3");
    harness_run(h, "SADD words a b");
    harness_run(h, "HSET h f v");
    harness_run(h, "ZADD z 1 a");
    harness_run(h, "RPUSH l a");
    harness_expect(h, "OBJECT ENCODING int", "$3\r\nint\r\n");
    harness_expect(h, "OBJECT ENCODING short", "$6\r\nembstr\r\n");
    harness_expect(h, "OBJECT ENCODING notint", "$6\r\nembstr\r\n");
    harness_expect(h, "OBJECT ENCODING long", "$3\r\nraw\r\n");
    harness_expect(h, "OBJECT ENCODING ints", "$6\r\nintset\r\n");
    harness_expect(h, "OBJECT ENCODING words", "$8\r\nlistpack\r\n");
    harness_expect(h, "OBJECT ENCODING h", "$8\r\nlistpack\r\n");
    harness_expect(h, "OBJECT ENCODING z", "$8\r\nlistpack\r\n");
    harness_expect(h, "OBJECT ENCODING l", "$8\r\nlistpack\r\n");
    harness_expect(h, "OBJECT REFCOUNT l", ":1\r\n");
    h->now_ms += 5000;
    harness_expect(h, "OBJECT IDLETIME l", ":5\r\n");
    harness_expect(h, "TOUCH l", ":1\r\n");
    harness_expect(h, "OBJECT IDLETIME l", ":0\r\n");
    harness_expect_start(h, "OBJECT FREQ l", "-ERR An LFU maxmemory policy is not selected");
    h->limits.lfu = true;
    harness_expect_start(h, "OBJECT IDLETIME l", "-ERR An LFU maxmemory policy is selected");
    harness_expect(h, "OBJECT ENCODING nokey", "$-1\r\n");
    harness_expect(h, "OBJECT FOO l", "-ERR unknown subcommand 'FOO'. Try OBJECT HELP.\r\n");
    harness_expect(h, "OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command\r\n");
    harness_expect_start(h, "OBJECT HELP", "*15\r\n+OBJECT <subcommand>");
    harness_free(h);
}

/* ---- the twin: an array of what each key holds */

enum { WALK_KEYS = 24, WALK_STEPS = 6000 };

struct twin {
    bool there[WALK_KEYS];
    int value[WALK_KEYS];
    int64_t expiry_ms[WALK_KEYS]; /* 0: none */
};

static void twin_expire(struct twin *t, int64_t now_ms)
{
    for (int i = 0; i < WALK_KEYS; i++)
        if (t->expiry_ms[i] && now_ms > t->expiry_ms[i]) t->there[i] = false;
}

static void twin_copy(struct twin *t, int from, int to)
{
    t->there[to] = true;
    t->value[to] = t->value[from];
    t->expiry_ms[to] = t->expiry_ms[from];
}

/* One random command on both; gives the twin's answer in want. */
static void walk_step(struct harness *h, struct twin *t, struct rng *rng, char *words, char *want, size_t cap)
{
    int a = (int)rng_below(rng, WALK_KEYS), b = (int)rng_below(rng, WALK_KEYS), v = (int)rng_below(rng, 1000);
    switch (rng_below(rng, 7)) {
    case 0:
        snprintf(words, cap, "SET k%d %d", a, v);
        t->there[a] = true, t->value[a] = v, t->expiry_ms[a] = 0;
        snprintf(want, cap, "+OK\r\n");
        break;
    case 1:
        snprintf(words, cap, "DEL k%d k%d", a, b);
        snprintf(want, cap, ":%d\r\n", t->there[a] + (b != a && t->there[b]));
        t->there[a] = t->there[b] = false;
        break;
    case 2:
        snprintf(words, cap, "RENAME k%d k%d", a, b);
        snprintf(want, cap, t->there[a] ? "+OK\r\n" : "-ERR no such key\r\n");
        if (!t->there[a] || a == b) break;
        twin_copy(t, a, b);
        t->there[a] = false;
        break;
    case 3:
        snprintf(words, cap, "COPY k%d k%d REPLACE", a, b);
        snprintf(want, cap, ":%d\r\n", t->there[a]);
        if (a == b) snprintf(want, cap, "-ERR source and destination objects are the same\r\n");
        else if (t->there[a]) twin_copy(t, a, b);
        break;
    case 4:
        snprintf(words, cap, "PEXPIRE k%d %d", a, v - 100);
        snprintf(want, cap, ":%d\r\n", t->there[a]);
        if (t->there[a]) t->expiry_ms[a] = h->now_ms + v - 100;
        if (t->there[a] && v <= 100) t->there[a] = false;
        break;
    case 5:
        snprintf(words, cap, "INCRBY k%d %d", a, v);
        if (!t->there[a]) t->there[a] = true, t->value[a] = 0, t->expiry_ms[a] = 0;
        t->value[a] += v;
        snprintf(want, cap, ":%d\r\n", t->value[a]);
        break;
    default:
        snprintf(words, cap, "PTTL k%d", a);
        int64_t left = !t->there[a] ? -2 : !t->expiry_ms[a] ? -1 : t->expiry_ms[a] - h->now_ms;
        snprintf(want, cap, ":%lld\r\n", (long long)left);
        break;
    }
}

static void any_walk_agrees_with_the_naive_twin(void **state)
{
    struct harness *h = start();
    struct twin t = {0};
    struct rng rng;
    rng_init(&rng, 23);
    char words[128], want[128];
    for (int i = 0; i < WALK_STEPS; i++) {
        h->now_ms += (int64_t)rng_below(&rng, 30);
        twin_expire(&t, h->now_ms);
        walk_step(h, &t, &rng, words, want, sizeof words);
        harness_expect(h, words, want);
        if (i % 50) continue;
        for (int k = 0; k < WALK_KEYS; k++) {
            snprintf(words, sizeof words, "GET k%d", k);
            int n = snprintf(NULL, 0, "%d", t.value[k]);
            snprintf(want, sizeof want, t.there[k] ? "$%d\r\n%d\r\n" : "$-1\r\n", n, t.value[k]);
            harness_expect(h, words, want);
        }
    }
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_deleted_counted_and_named),
        cmocka_unit_test(expired_keys_are_not_shown),
        cmocka_unit_test(a_scan_removes_the_expired_keys_that_it_meets),
        cmocka_unit_test(a_random_key_comes_from_everywhere),
        cmocka_unit_test(a_scan_meets_every_key_once_on_all_shards),
        cmocka_unit_test(a_renamed_key_takes_its_value_and_expiry_along),
        cmocka_unit_test(copies_and_moves_reach_other_databases),
        cmocka_unit_test(databases_are_flushed_and_swapped_whole),
        cmocka_unit_test(object_names_encodings_as_redis_does),
        cmocka_unit_test(any_walk_agrees_with_the_naive_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
