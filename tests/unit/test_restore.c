#include "harness.h"

#include "store/evict.h"
#include "store/image.h"

static struct harness *fresh(void)
{
    return harness_new(4, &restore_family, &strings_family, &keys_family, &expiry_family, &lists_family, &hashes_family, &sets_family, &zsets_family,
                       &zranges_family, NULL);
}

/* DUMP as RESTORE wants it, in the caller's buffer. */
static struct slice dump(struct harness *h, const char *key, struct buf *payload)
{
    struct slice argv[] = {SLICE("dump"), slice_str(key)};
    struct slice reply = harness_argv(h, argv, 2);
    const char *bytes = memchr(reply.p, '\n', reply.n);
    assert_non_null(bytes);
    payload->len = 0;
    buf_add(payload, bytes + 1, (size_t)(reply.p + reply.n - bytes) - 3);
    return buf_slice(payload);
}

/* RESTORE key ttl payload options... */
static void expect_restore(struct harness *h, const char *key, const char *ttl, struct slice payload, const char *options, const char *reply)
{
    struct slice argv[8] = {SLICE("restore"), slice_str(key), slice_str(ttl), payload};
    uint32_t argc = 4;
    char words[64];
    snprintf(words, sizeof words, "%s", options);
    for (char *save, *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) argv[argc++] = slice_str(w);
    struct slice got = harness_argv(h, argv, argc);
    if (!slice_eq(got, slice_str(reply))) fail_msg("RESTORE %s %s answered %.*s", key, options, (int)got.n, got.p);
}

static void every_type_moves_to_another_key(void **state)
{
    struct harness *h = fresh();
    struct buf p = {0};
    harness_expect(h, "SET s hello", "+OK\r\n");
    harness_expect(h, "RPUSH l a b a", ":3\r\n");
    harness_expect(h, "SADD u x y", ":2\r\n");
    harness_expect(h, "HSET m f 1 g 2", ":2\r\n");
    harness_expect(h, "ZADD z 1.5 a -inf b", ":2\r\n");
    expect_restore(h, "s2", "0", dump(h, "s", &p), "", "+OK\r\n");
    expect_restore(h, "l2", "0", dump(h, "l", &p), "", "+OK\r\n");
    expect_restore(h, "u2", "0", dump(h, "u", &p), "", "+OK\r\n");
    expect_restore(h, "m2", "0", dump(h, "m", &p), "", "+OK\r\n");
    expect_restore(h, "z2", "0", dump(h, "z", &p), "", "+OK\r\n");
    harness_expect(h, "GET s2", "$5\r\nhello\r\n");
    harness_expect(h, "LRANGE l2 0 -1", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\na\r\n");
    harness_expect_sorted(h, "SMEMBERS u2", "x y");
    harness_expect(h, "HGET m2 g", "$1\r\n2\r\n");
    harness_expect(h, "ZRANGE z2 0 -1 WITHSCORES", "*4\r\n$1\r\nb\r\n$4\r\n-inf\r\n$1\r\na\r\n$3\r\n1.5\r\n");
    buf_fini(&p);
    harness_free(h);
}

static void a_short_string_is_dumped_as_redis_dumps_it(void **state)
{
    struct harness *h = fresh();
    harness_expect(h, "SET n 10", "+OK\r\n");
    struct slice want = slice_of("$13\r\n\x00\xc0\x0a\x0a\x00\x6e\x9f\x57\x45\x0e\xae\x63\xbb\r\n", 20); /* of Redis 7.0.15 */
    assert_true(slice_eq(harness_run(h, "DUMP n"), want));
    harness_expect(h, "DUMP none", "$-1\r\n");
    harness_free(h);
}

static void a_key_that_exists_is_replaced_only_if_asked(void **state)
{
    struct harness *h = fresh();
    struct buf p = {0};
    harness_expect(h, "SET s new", "+OK\r\n");
    dump(h, "s", &p);
    harness_expect(h, "RPUSH k old", ":1\r\n");
    harness_events(h);
    expect_restore(h, "k", "0", buf_slice(&p), "", "-BUSYKEY Target key name already exists.\r\n");
    harness_expect(h, "LRANGE k 0 -1", "*1\r\n$3\r\nold\r\n");
    expect_restore(h, "k", "0", buf_slice(&p), "REPLACE", "+OK\r\n");
    assert_string_equal(harness_events(h), "restore k;");
    harness_expect(h, "GET k", "$3\r\nnew\r\n");
    buf_fini(&p);
    harness_free(h);
}

static void times_to_live_are_relative_absolute_or_over(void **state)
{
    struct harness *h = fresh();
    struct buf p = {0};
    harness_expect(h, "SET s v", "+OK\r\n");
    dump(h, "s", &p);
    expect_restore(h, "a", "5000", buf_slice(&p), "", "+OK\r\n");
    harness_expect(h, "PTTL a", ":5000\r\n");
    expect_restore(h, "b", "1700000000250", buf_slice(&p), "ABSTTL", "+OK\r\n");
    harness_expect(h, "PTTL b", ":250\r\n");
    expect_restore(h, "c", "0", buf_slice(&p), "ABSTTL", "+OK\r\n");
    harness_expect(h, "PTTL c", ":-1\r\n");
    harness_events(h);
    expect_restore(h, "c", "1", buf_slice(&p), "ABSTTL REPLACE", "+OK\r\n");
    assert_string_equal(harness_events(h), "del c;");
    harness_expect(h, "GET c", "$-1\r\n");
    expect_restore(h, "d", "1", buf_slice(&p), "ABSTTL", "+OK\r\n");
    harness_expect(h, "GET d", "$-1\r\n");
    expect_restore(h, "d", "-1", buf_slice(&p), "", "-ERR Invalid TTL value, must be >= 0\r\n");
    expect_restore(h, "d", "x", buf_slice(&p), "", "-ERR value is not an integer or out of range\r\n");
    expect_restore(h, "d", "9223372036854775807", buf_slice(&p), "", "-ERR invalid expire time in 'restore' command\r\n");
    buf_fini(&p);
    harness_free(h);
}

static void bad_payloads_are_refused_and_leave_nothing(void **state)
{
    struct harness *h = fresh();
    struct buf p = {0};
    harness_expect(h, "SET s v", "+OK\r\n");
    dump(h, "s", &p);
    p.p[1] ^= 1;
    expect_restore(h, "k", "0", buf_slice(&p), "", "-ERR DUMP payload version or checksum are wrong\r\n");
    expect_restore(h, "k", "0", SLICE(""), "", "-ERR DUMP payload version or checksum are wrong\r\n");
    p.len = 0;
    buf_add(&p, "\x02\x02\x01" "a\x01" "a", 6); /* sealed, but a set with one member twice */
    image_seal(&p);
    expect_restore(h, "k", "0", buf_slice(&p), "", "-ERR Bad data format\r\n");
    harness_expect(h, "EXISTS k", ":0\r\n");
    buf_fini(&p);
    harness_free(h);
}

static uint32_t access_of(struct harness *h, const char *key)
{
    struct place at;
    uint64_t hash = keyhash(slice_str(key), h->route.seed);
    store_peek(h->stores[route_shard(&h->route, hash)], 0, hash, slice_str(key), &at);
    assert_non_null(at.e);
    return entry_access(at.e);
}

static void idle_time_and_frequency_are_kept_where_the_policy_uses_them(void **state)
{
    struct harness *h = fresh();
    struct buf p = {0};
    harness_expect(h, "SET s v", "+OK\r\n");
    dump(h, "s", &p);
    expect_restore(h, "a", "0", buf_slice(&p), "IDLETIME 1000", "+OK\r\n");
    assert_int_equal(evict_idle_ms(h->now_ms, access_of(h, "a")) / 1000, 1000);
    expect_restore(h, "b", "0", buf_slice(&p), "FREQ 77", "+OK\r\n");
    assert_int_equal(evict_idle_ms(h->now_ms, access_of(h, "b")) / 1000, 0);
    h->limits.lfu = true;
    expect_restore(h, "c", "0", buf_slice(&p), "FREQ 77", "+OK\r\n");
    assert_int_equal(evict_freq(&h->limits, h->now_ms, access_of(h, "c")), 77);
    expect_restore(h, "d", "0", buf_slice(&p), "IDLETIME -1", "-ERR Invalid IDLETIME value, must be >= 0\r\n");
    expect_restore(h, "d", "0", buf_slice(&p), "FREQ 256", "-ERR Invalid FREQ value, must be >= 0 and <= 255\r\n");
    expect_restore(h, "d", "0", buf_slice(&p), "FREQ 1 IDLETIME 1", "-ERR syntax error\r\n");
    expect_restore(h, "d", "0", buf_slice(&p), "FREQ", "-ERR syntax error\r\n");
    expect_restore(h, "d", "0", buf_slice(&p), "WHAT", "-ERR syntax error\r\n");
    buf_fini(&p);
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_moves_to_another_key),
        cmocka_unit_test(a_short_string_is_dumped_as_redis_dumps_it),
        cmocka_unit_test(a_key_that_exists_is_replaced_only_if_asked),
        cmocka_unit_test(times_to_live_are_relative_absolute_or_over),
        cmocka_unit_test(bad_payloads_are_refused_and_leave_nothing),
        cmocka_unit_test(idle_time_and_frequency_are_kept_where_the_policy_uses_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
