/* WATCH, step by step. */
#include "rig.h"

static void watch_and_exec(struct client *c, const char *queued)
{
    rig_queue(c, "%s", queued);
    rig_exec(c, false);
    rig_go(c);
}

static void an_exec_runs_when_nothing_changed(void **state)
{
    struct rig *r = rig_new(2, 3);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 1);
    rig_do(a, "WATCH x y z");
    rig_do(b, "SET other v");
    rig_do(b, "GET x");
    watch_and_exec(a, "INCR n");
    rig_expect(a, "+OK\r\n*1\r\n:1\r\n");
    rig_free(r);
}

static void every_kind_of_change_stops_the_exec(void **state)
{
    static const char *const changes[] = {"SET k 1", "DEL k", "EXPIRE k 100", "RENAME k l", "RENAME other k", "COPY other k REPLACE", "MSET a 1 k 2",
                                          "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "INCR k", "APPEND k x", "PERSIST k"};
    struct rig *r = rig_new(2, 3);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 1);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        rig_do(b, "MSET k 5 other 6");
        rig_do(b, "EXPIRE k 1000");
        rig_do(a, "WATCH unrelated k");
        rig_do(b, "%s", changes[i]);
        a->out.len = b->out.len = 0;
        watch_and_exec(a, "INCR n");
        if (a->aborted != i + 1) fail_msg("%s went unnoticed", changes[i]);
        rig_expect(a, "*-1\r\n");
    }
    rig_free(r);
}

static void a_change_that_was_undone_still_counts(void **state)
{
    struct rig *r = rig_new(1, 2);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 0);
    rig_do(b, "SET k v");
    rig_do(a, "WATCH k");
    rig_do(b, "SET k w");
    rig_do(b, "SET k v");
    watch_and_exec(a, "GET k");
    rig_expect(a, "+OK\r\n*-1\r\n");
    rig_free(r);
}

static void a_key_that_expires_counts_as_changed(void **state)
{
    struct rig *r = rig_new(1, 2);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 0);
    rig_do(b, "SET k v PX 50");
    rig_do(a, "WATCH k");
    r->workers[0]->now_ms += 1000;
    watch_and_exec(a, "GET n");
    rig_expect(a, "+OK\r\n*-1\r\n");
    rig_free(r);
}

static void a_key_that_had_expired_before_is_no_change(void **state)
{
    struct rig *r = rig_new(1, 2);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 0);
    rig_do(b, "SET k v PX 50");
    r->workers[0]->now_ms += 1000;
    rig_do(a, "WATCH k");
    watch_and_exec(a, "GET k");
    rig_expect(a, "+OK\r\n*1\r\n$-1\r\n");
    rig_free(r);
}

static void emptying_a_database_changes_only_the_keys_that_are_there(void **state)
{
    static const char *const changes[] = {"FLUSHALL", "FLUSHDB", "SWAPDB 0 1"};
    struct rig *r = rig_new(2, 3);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 1);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        rig_do(b, "SET other v");
        rig_do(b, "SET stale v PX 50");
        b->task.db = 1;
        rig_do(b, "SET stale v PX 50");
        b->task.db = 0;
        r->workers[0]->now_ms += 1000;
        r->workers[1]->now_ms += 1000;
        rig_do(a, "WATCH k stale");
        rig_do(b, "%s", changes[i]);
        a->out.len = b->out.len = 0;
        watch_and_exec(a, "GET k");
        if (a->aborted) fail_msg("%s changed what was not there", changes[i]);
    }
    rig_free(r);
}

static void a_key_that_another_database_brings_counts_as_changed(void **state)
{
    struct rig *r = rig_new(2, 3);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 1);
    b->task.db = 1;
    rig_do(b, "SET k v");
    rig_do(a, "WATCH k");
    rig_do(b, "SWAPDB 0 1");
    watch_and_exec(a, "GET k");
    rig_expect(a, "+OK\r\n*-1\r\n");
    rig_free(r);
}

static void a_key_whose_time_ran_out_before_the_flush_counts_as_changed(void **state)
{
    struct rig *r = rig_new(1, 2);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 0);
    rig_do(b, "SET k v PX 50");
    rig_do(a, "WATCH k");
    r->workers[0]->now_ms += 1000;
    rig_do(b, "FLUSHDB");
    watch_and_exec(a, "GET k");
    rig_expect(a, "+OK\r\n*-1\r\n");
    rig_free(r);
}

static void an_exec_ends_the_watch(void **state)
{
    struct rig *r = rig_new(1, 2);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 0);
    rig_do(a, "WATCH k");
    watch_and_exec(a, "GET k");
    rig_do(b, "SET k v");
    watch_and_exec(a, "GET k");
    rig_expect(a, "+OK\r\n*1\r\n$-1\r\n*1\r\n$1\r\nv\r\n");
    for (uint32_t i = 0; i < 2; i++) assert_true(interests_empty(r->engine->stores[i]->interests));
    rig_free(r);
}

static void the_same_key_twice_is_watched_once(void **state)
{
    struct rig *r = rig_new(1, 1);
    struct client *a = rig_client(r, 0);
    rig_do(a, "WATCH k k");
    rig_do(a, "WATCH k");
    rig_do(a, "UNWATCH");
    rig_expect(a, "+OK\r\n+OK\r\n+OK\r\n");
    assert_true(interests_empty(r->engine->stores[0]->interests));
    rig_free(r);
}

static void databases_are_watched_apart(void **state)
{
    struct rig *r = rig_new(1, 2);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 0);
    rig_do(a, "WATCH k");
    b->task.db = 1;
    rig_do(b, "SET k v");
    watch_and_exec(a, "GET k");
    rig_expect(a, "+OK\r\n*1\r\n$-1\r\n");
    rig_free(r);
}

static void a_watch_is_dropped_while_its_shard_is_busy(void **state)
{
    struct rig *r = rig_new(2, 2);
    char k0[32];
    rig_key(r, k0, "k", 0);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 1);
    rig_do(a, "WATCH %s", k0);
    rig_hold(r, 0);
    rig_do(a, "UNWATCH");
    rig_expect(a, "+OK\r\n+OK\r\n");
    rig_do(b, "SET %s v", k0);
    rig_let_go(r, 1, 0);
    rig_settle(r);
    rig_expect(b, "+OK\r\n");
    assert_true(interests_empty(r->engine->stores[0]->interests));
    rig_free(r);
}

/* Dropping a watch posts to the shard. If its token is free, the mailbox may hold somebody else's task already: that must not run in the middle of the command
 * that dropped the watch. Here the task is put into the mailbox as a poster does it, a moment before it looks at the token. */
static void dropping_a_watch_runs_nobody_else_inside_the_command(void **state)
{
    struct rig *r = rig_new(2, 2);
    char k0[32];
    rig_key(r, k0, "k", 0);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 1);
    rig_do(a, "WATCH %s", k0);
    rig_hold(r, 0);
    rig_do(b, "SET %s v", k0);
    assert_true(b->away);
    atomic_store(&r->engine->shards[0].token, 0);
    rig_do(a, "UNWATCH");
    rig_settle(r);
    rig_expect(a, "+OK\r\n+OK\r\n");
    rig_expect(b, "+OK\r\n");
    rig_free(r);
}

/* As above with a command that blocks: the wish to wait is its own, not that of the one that was running. */
static void dropping_a_watch_makes_nobody_wait(void **state)
{
    struct rig *r = rig_new(2, 2);
    char k0[32];
    rig_key(r, k0, "k", 0);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 1);
    rig_do(a, "WATCH %s", k0);
    rig_hold(r, 0);
    rig_do(b, "BLPOP %s 0", k0);
    atomic_store(&r->engine->shards[0].token, 0);
    rig_do(a, "UNWATCH");
    rig_settle(r);
    rig_expect(a, "+OK\r\n+OK\r\n");
    assert_null(a->waiter);
    assert_non_null(b->waiter);
    assert_true(rig_cancel(b));
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exec_runs_when_nothing_changed),
        cmocka_unit_test(every_kind_of_change_stops_the_exec),
        cmocka_unit_test(a_change_that_was_undone_still_counts),
        cmocka_unit_test(a_key_that_expires_counts_as_changed),
        cmocka_unit_test(a_key_that_had_expired_before_is_no_change),
        cmocka_unit_test(emptying_a_database_changes_only_the_keys_that_are_there),
        cmocka_unit_test(a_key_that_another_database_brings_counts_as_changed),
        cmocka_unit_test(a_key_whose_time_ran_out_before_the_flush_counts_as_changed),
        cmocka_unit_test(an_exec_ends_the_watch),
        cmocka_unit_test(the_same_key_twice_is_watched_once),
        cmocka_unit_test(databases_are_watched_apart),
        cmocka_unit_test(a_watch_is_dropped_while_its_shard_is_busy),
        cmocka_unit_test(dropping_a_watch_runs_nobody_else_inside_the_command),
        cmocka_unit_test(dropping_a_watch_makes_nobody_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
