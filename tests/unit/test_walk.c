/* Walks of all shards, or of some, at one moment, without a log: who gets what, and who waits for whom. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "rig.h"
#include "shard/walk.h"

enum { SHARDS = 3, KEYS = 3000, TRIES_MAX = 200 * 1000 };

/* A sink that counts keys and adds up their numbers. */
struct counter {
    struct walk_sink sink;
    struct walk *walk;
    pthread_t thread;
    atomic_bool unwanted, ended, begun;
    atomic_int *turn;  /* counts those that begun, in order */
    int place;         /* of this one */
    uint64_t entries, sum;
    int fail_with, result;
    struct engine *engine; /* where some shards are walked: these */
    uint32_t shards[SHARDS], n_shards;
    uint64_t at_cut;       /* keys that they had then */
    bool slow; /* takes nothing until it is allowed to */
    atomic_bool may_take;
};

static bool copy(void *ctx, struct buf *raw, uint16_t db, const struct entry *e)
{
    struct slice value = entry_value(e);
    int64_t n = 0;
    for (size_t i = 0; i < value.n; i++) n = n * 10 + value.p[i] - '0';
    buf_add(raw, &n, sizeof n);
    return true;
}

static bool wants_cold(void *ctx, uint16_t db, const struct entry *e) { return false; }
static int copy_cold(void *ctx, struct buf *raw, uint16_t db, struct slice key, int64_t expiry_ms, struct slice image) { return -EINVAL; }

static void begin(void *ctx, const struct walk_moment *m)
{
    struct counter *c = ctx;
    c->place = atomic_fetch_add(c->turn, 1);
    RIG_CHECK(m->entries == (c->n_shards ? c->at_cut : KEYS) && m->epoch == 0, "another moment");
    atomic_store(&c->begun, true);
}

static int take(void *ctx, uint32_t shard, struct slice raw, uint64_t entries)
{
    struct counter *c = ctx;
    while (c->slow && !atomic_load(&c->may_take)) sched_yield();
    RIG_CHECK(raw.n == entries * sizeof(int64_t), "not whole entries");
    for (size_t at = 0; at < raw.n; at += sizeof(int64_t)) {
        int64_t n;
        memcpy(&n, raw.p + at, sizeof n);
        c->sum += (uint64_t)n;
    }
    c->entries += entries;
    return c->fail_with;
}

static bool goes_on(void *ctx)
{
    struct counter *c = ctx;
    return !atomic_load(&c->unwanted);
}

static void at_cut(void *ctx)
{
    struct counter *c = ctx;
    for (uint32_t i = 0; i < c->n_shards; i++) c->at_cut += store_keys(c->engine->stores[c->shards[i]], 0);
}

static void *run(void *arg)
{
    struct counter *c = arg;
    c->result = c->n_shards ? walk_run_some(c->walk, &c->sink, c->shards, c->n_shards, at_cut) : walk_run(c->walk, &c->sink);
    atomic_store(&c->ended, true);
    return NULL;
}

static void start(struct counter *c, struct walk *w, atomic_int *turn)
{
    c->sink = (struct walk_sink){c, copy, wants_cold, copy_cold, begin, take, goes_on};
    c->walk = w;
    c->turn = turn;
    assert_int_equal(pthread_create(&c->thread, NULL, run, c), 0);
}

static void wait_in_line(struct counter *c)
{
    while (!walk_progress(c->walk, &c->sink).waits) sched_yield();
}

/* Workers run until the flag is set. */
static void turn_until(struct rig *r, atomic_bool *flag)
{
    for (unsigned i = 0; !atomic_load(flag); i++) {
        RIG_CHECK(i < TRIES_MAX * 100u, "it never came");
        for (uint32_t k = 0; k < r->n_workers; k++) rig_turn(r, k);
        sched_yield();
    }
}

static void join(struct rig *r, struct counter *c)
{
    turn_until(r, &c->ended);
    pthread_join(c->thread, NULL);
}

static void set_all(struct client *c, int value)
{
    for (int i = 0; i < KEYS; i++) {
        rig_do(c, "SET key%d %d", i, value);
        if (i % 500 == 499) c->out.len = 0;
    }
}

/* The walk goes on to its end, and has met every key as it was when it had the value 1. */
static void end_with_ones(struct rig *r, struct walk *w, struct counter *a)
{
    atomic_store(&a->may_take, true);
    join(r, a);
    assert_int_equal(a->result, 0);
    assert_int_equal(a->entries, KEYS);
    assert_int_equal(a->sum, KEYS);
    walk_free(w);
    rig_free(r);
}

static void a_walk_has_what_was_there_at_its_cut_whatever_is_written_meanwhile(void **state)
{
    struct rig *r = rig_new(2, SHARDS);
    struct client *c = rig_client(r, 0);
    struct walk *w = walk_new(r->engine, NULL);
    struct counter a = {.slow = true};
    atomic_int turn = 0;
    set_all(c, 1);
    start(&a, w, &turn);
    turn_until(r, &a.begun);
    set_all(c, 1000);
    rig_settle(r);
    end_with_ones(r, w, &a);
}

/* The walks wait for the thread, and writers have given out nearly all the rest: not enough for a chunk, so that the thread has nothing to take before the walks go on. */
static void walks_do_not_wait_for_what_only_they_hand_over(void **state)
{
    struct rig *r = rig_new(2, SHARDS);
    struct client *c = rig_client(r, 0);
    struct walk *w = walk_new(r->engine, NULL);
    struct counter a = {.slow = true};
    atomic_int turn = 0;
    set_all(c, 1);
    walk_set_backlog_max(w, 4096);
    start(&a, w, &turn);
    turn_until(r, &a.begun);
    rig_settle(r);
    struct walk_progress waiting = walk_progress(w, &a.sink);
    assert_true(waiting.done > 0 && waiting.done < KEYS / 2);
    set_all(c, 1000);
    assert_true(walk_progress(w, &a.sink).backlog_bytes > 4096);
    end_with_ones(r, w, &a);
}

static void a_walk_of_some_shards_has_these_alone_and_needs_no_others(void **state)
{
    struct rig *r = rig_new(2, SHARDS);
    struct client *c = rig_client(r, 0);
    struct walk *w = walk_new(r->engine, NULL);
    struct counter one = {.engine = r->engine, .shards = {1}, .n_shards = 1, .slow = true}, two = {.engine = r->engine, .shards = {0, 2}, .n_shards = 2}, all = {0};
    atomic_int turn = 0;
    set_all(c, 1);
    rig_hold(r, 0);
    rig_hold(r, 2);
    start(&one, w, &turn);
    turn_until(r, &one.begun);
    rig_let_go(r, 0, 0);
    rig_let_go(r, 0, 2);
    set_all(c, 1000);
    rig_settle(r);
    atomic_store(&one.may_take, true);
    join(r, &one);
    start(&two, w, &turn);
    join(r, &two);
    start(&all, w, &turn);
    join(r, &all);
    assert_true(one.result == 0 && two.result == 0 && all.result == 0);
    assert_true(one.entries > 0 && two.entries > 0);
    assert_int_equal(one.entries + two.entries, KEYS);
    assert_int_equal(one.sum, one.entries); /* as they were at its cut */
    assert_int_equal(two.sum, 1000 * two.entries);
    assert_int_equal(all.sum, 1000 * KEYS);
    walk_free(w);
    rig_free(r);
}

static void walks_come_one_after_the_other_in_the_order_in_which_they_were_asked_for(void **state)
{
    struct rig *r = rig_new(1, SHARDS);
    struct client *c = rig_client(r, 0);
    struct walk *w = walk_new(r->engine, NULL);
    struct counter all[4] = {0};
    atomic_int turn = 0;
    set_all(c, 2);
    for (int i = 0; i < 4; i++) {
        start(&all[i], w, &turn);
        wait_in_line(&all[i]);
    }
    for (int i = 0; i < 4; i++) {
        join(r, &all[i]);
        assert_int_equal(all[i].result, 0);
        assert_int_equal(all[i].place, i);
        assert_int_equal(all[i].sum, 2 * KEYS);
    }
    walk_free(w);
    rig_free(r);
}

static void one_that_is_not_wanted_any_more_leaves_the_line_and_the_others_stay(void **state)
{
    struct rig *r = rig_new(1, SHARDS);
    struct client *c = rig_client(r, 0);
    struct walk *w = walk_new(r->engine, NULL);
    struct counter all[3] = {0};
    atomic_int turn = 0;
    set_all(c, 1);
    for (int i = 0; i < 3; i++) {
        start(&all[i], w, &turn);
        wait_in_line(&all[i]);
    }
    atomic_store(&all[1].unwanted, true);
    while (!atomic_load(&all[1].ended)) sched_yield(); /* no worker runs: it was not its turn */
    for (int i = 0; i < 3; i++) join(r, &all[i]);
    assert_int_equal(all[0].result, 0);
    assert_int_equal(all[1].result, -ECANCELED);
    assert_int_equal(all[2].result, 0);
    assert_int_equal(all[2].entries, KEYS);
    assert_int_equal(atomic_load(&turn), 2);
    walk_free(w);
    rig_free(r);
}

static void a_sink_that_fails_ends_its_walk_and_the_stores_are_ready_for_the_next(void **state)
{
    struct rig *r = rig_new(2, SHARDS);
    struct client *c = rig_client(r, 1);
    struct walk *w = walk_new(r->engine, NULL);
    struct counter bad = {.fail_with = -ENOSPC}, good = {0};
    atomic_int turn = 0;
    set_all(c, 3);
    start(&bad, w, &turn);
    join(r, &bad);
    assert_int_equal(bad.result, -ENOSPC);
    start(&good, w, &turn);
    join(r, &good);
    assert_int_equal(good.result, 0);
    assert_int_equal(good.sum, 3 * KEYS);
    walk_free(w);
    rig_free(r);
}

static void a_stop_ends_the_one_that_walks_and_those_in_line(void **state)
{
    struct rig *r = rig_new(1, SHARDS);
    struct client *c = rig_client(r, 0);
    struct walk *w = walk_new(r->engine, NULL);
    struct counter all[2] = {{.slow = true}, {.slow = false}};
    atomic_int turn = 0;
    set_all(c, 1);
    start(&all[0], w, &turn);
    turn_until(r, &all[0].begun);
    start(&all[1], w, &turn);
    wait_in_line(&all[1]);
    rig_settle(r);
    walk_stop(w);
    atomic_store(&all[0].may_take, true);
    for (int i = 0; i < 2; i++) pthread_join(all[i].thread, NULL);
    assert_int_equal(all[1].result, -ECANCELED);
    assert_false(all[1].begun);
    walk_free(w);
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_walk_has_what_was_there_at_its_cut_whatever_is_written_meanwhile),
        cmocka_unit_test(walks_do_not_wait_for_what_only_they_hand_over),
        cmocka_unit_test(a_walk_of_some_shards_has_these_alone_and_needs_no_others),
        cmocka_unit_test(walks_come_one_after_the_other_in_the_order_in_which_they_were_asked_for),
        cmocka_unit_test(one_that_is_not_wanted_any_more_leaves_the_line_and_the_others_stay),
        cmocka_unit_test(a_sink_that_fails_ends_its_walk_and_the_stores_are_ready_for_the_next),
        cmocka_unit_test(a_stop_ends_the_one_that_walks_and_those_in_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
