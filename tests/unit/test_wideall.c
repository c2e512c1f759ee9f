/* Commands over all keys, against groups that answer what the test says: what becomes of them while this node's map is older than that of a group's leader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "cluster/meta.h"
#include "command/exec.h"
#include "route/spaces.h"
#include "server/wideall.h"
#include "shard/engine.h"

enum { A = META_FIRST_DATA_GROUP, GROUPS = 2, TIMEOUT_MS = 5000, BEGAN_MS = 1000000 };

static struct world {
    struct engine *engine;
    struct wideall *all;
    int64_t now_ms;
    uint32_t sent;      /* times that something was */
    uint32_t timeout_ms; /* of the last */
    uint32_t n;         /* requests of the last */
    struct buf out;
} w;

static int64_t now_ms(void *ctx) { return w.now_ms; }

static void send(void *ctx, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    w.sent++;
    w.n = n;
    w.timeout_ms = timeout_ms;
}

static void set_map(uint64_t version)
{
    const struct hash_desc halves[GROUPS] = {{.id = 1, .generation = 1, .shard = A, .last = UINT64_MAX / 2}, {.id = 2, .generation = 1, .shard = A + 1, .first = UINT64_MAX / 2 + 1, .last = UINT64_MAX}};
    struct space_map *m = spaces_new(&w.engine->route, SPACE_BUCKET, halves, GROUPS, version);
    engine_set_map(w.engine, NULL, m);
}

static int set_up(void **state)
{
    w = (struct world){.engine = engine_new(A + GROUPS, 42, 43, NULL), .now_ms = BEGAN_MS};
    set_map(5);
    return 0;
}

static int tear_down(void **state)
{
    if (w.all) wideall_free(w.all);
    buf_fini(&w.out);
    engine_free(w.engine);
    return 0;
}

static void begin(const char *name, uint32_t argc)
{
    static struct slice argv[2] = {{0}, {"0", 1}};
    const struct command cmd = {.name = name};
    const struct wideall_host host = {NULL, w.engine, now_ms, send};
    struct exec x = {.cmd = &cmd, .argv = argv, .argc = argc, .out = {.out = &w.out, .resp = 2}};
    argv[0] = slice_str(name);
    w.all = wideall_new(&host, &x, TIMEOUT_MS);
    assert_non_null(w.all);
    assert_int_equal(w.sent, 1);
}

/* The groups that were asked answer so; true: it is over. */
static bool answer(const char *first, const char *others)
{
    struct txn_answer answers[GROUPS];
    assert_true(w.n <= GROUPS);
    for (uint32_t i = 0; i < w.n; i++) answers[i] = (struct txn_answer){TXN_ANSWERED, slice_str(i ? others : first)};
    return wideall_answered(w.all, answers, w.n, &w.out);
}

static void is_answered(const char *text)
{
    if (!slice_eq(buf_slice(&w.out), slice_str(text))) fail_msg("answered %.*s\n  expected %s", (int)w.out.len, w.out.p, text);
}

/* Whoever wakes it before its time, or with a map that is too old, wakes nobody. */
static void waits(void)
{
    uint32_t sent = w.sent;
    assert_int_equal(wideall_wakes_ms(w.all), BEGAN_MS + TIMEOUT_MS);
    for (int i = 0; i < 100; i++) {
        w.now_ms++;
        assert_false(wideall_wake(w.all, &w.out));
    }
    assert_int_equal(w.sent, sent);
    assert_int_equal(w.out.len, 0);
}

static void what_is_over_all_keys_waits_for_the_map_of_the_leader_that_knows_most(void **state)
{
    begin("dbsize", 1);
    assert_int_equal(w.n, 2);
    assert_int_equal(wideall_wakes_ms(w.all), INT64_MAX);
    assert_false(answer("*2\r\n:5\r\n:10\r\n", "*2\r\n:7\r\n:20\r\n"));
    waits();
    set_map(6);
    waits();
    set_map(7);
    assert_false(wideall_wake(w.all, &w.out));
    assert_int_equal(w.sent, 2);
    assert_int_equal(w.timeout_ms, TIMEOUT_MS - 200);
    assert_int_equal(wideall_wakes_ms(w.all), INT64_MAX);
    assert_false(wideall_wake(w.all, &w.out)); /* it waits for answers now */
    assert_int_equal(w.sent, 2);
    assert_true(answer("*2\r\n:7\r\n:11\r\n", "*2\r\n:7\r\n:20\r\n"));
    is_answered(":31\r\n");
}

static void a_map_that_came_meanwhile_is_not_waited_for(void **state)
{
    begin("dbsize", 1);
    set_map(7);
    assert_false(answer("*2\r\n:5\r\n:10\r\n", "*2\r\n:7\r\n:20\r\n"));
    assert_int_equal(w.sent, 2);
    assert_true(answer("*2\r\n:7\r\n:11\r\n", "*2\r\n:7\r\n:20\r\n"));
    is_answered(":31\r\n");
}

static void who_hears_of_no_map_in_time_is_told_so(void **state)
{
    begin("keys", 2);
    assert_false(answer("*2\r\n:7\r\n*1\r\n$1\r\nk\r\n", "*2\r\n:7\r\n*0\r\n"));
    waits();
    w.now_ms = BEGAN_MS + TIMEOUT_MS;
    assert_true(wideall_wake(w.all, &w.out));
    is_answered("-TRYAGAIN keys are being carried between shards\r\n");
    assert_int_equal(w.sent, 1);
}

static void who_has_to_hurry_waits_no_more(void **state)
{
    begin("dbsize", 1);
    assert_false(answer("*2\r\n:7\r\n:1\r\n", "*2\r\n:7\r\n:1\r\n"));
    waits();
    wideall_hurry(w.all);
    assert_true(wideall_wake(w.all, &w.out));
    is_answered("-TRYAGAIN keys are being carried between shards\r\n");
}

static void a_scan_waits_likewise(void **state)
{
    begin("scan", 2);
    assert_int_equal(w.n, 1);
    assert_false(answer("*4\r\n:6\r\n:0\r\n:1\r\n*1\r\n$1\r\nk\r\n", ""));
    waits();
    set_map(6);
    assert_false(wideall_wake(w.all, &w.out));
    assert_int_equal(w.sent, 2);
    assert_false(answer("*4\r\n:6\r\n:0\r\n:1\r\n*1\r\n$1\r\nk\r\n", ""));
    assert_int_equal(w.sent, 3); /* the other group */
    assert_true(answer("*4\r\n:6\r\n:0\r\n:0\r\n*0\r\n", ""));
    assert_true(w.out.len > 11 && memcmp(w.out.p + w.out.len - 11, "*1\r\n$1\r\nk\r\n", 11) == 0);
}

static void a_scan_that_hears_of_no_map_in_time_is_told_so(void **state)
{
    begin("scan", 2);
    assert_false(answer("*4\r\n:6\r\n:0\r\n:1\r\n*1\r\n$1\r\nk\r\n", ""));
    waits();
    w.now_ms = BEGAN_MS + TIMEOUT_MS;
    assert_true(wideall_wake(w.all, &w.out));
    is_answered("-TRYAGAIN keys are being carried between shards, and this node does not know where to\r\n");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_is_over_all_keys_waits_for_the_map_of_the_leader_that_knows_most),
        TEST(a_map_that_came_meanwhile_is_not_waited_for),
        TEST(who_hears_of_no_map_in_time_is_told_so),
        TEST(who_has_to_hurry_waits_no_more),
        TEST(a_scan_waits_likewise),
        TEST(a_scan_that_hears_of_no_map_in_time_is_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
