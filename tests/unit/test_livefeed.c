/* The strings of a running engine at one moment, as rows: what is among them, and how a feed ends. Values are warm, in the buffers of the cold tier, and on disk. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/rng.h"
#include "coldrig.h"
#include "shard/livefeed.h"

enum { WORKERS = 2, SHARDS = 3, KEYS = 2000, VALUE_BYTES = 120 };

struct world {
    struct cold_rig c;
    struct walk *walk;
    struct client *who;
};

static struct world world_new(void)
{
    struct world w = {.c = cold_new(WORKERS, SHARDS)};
    w.walk = walk_new(w.c.rig->engine, NULL);
    w.who = rig_client(w.c.rig, 0);
    return w;
}

static void world_free(struct world *w)
{
    w->who->out.len = 0;
    walk_free(w->walk);
    cold_free(&w->c);
}

/* key7 has the value "7:generation:xxxx..." */
static void value_of(char out[VALUE_BYTES + 1], int i, int generation)
{
    int n = snprintf(out, VALUE_BYTES + 1, "%d:%d:", i, generation);
    memset(out + n, 'x', (size_t)(VALUE_BYTES - n));
    out[VALUE_BYTES] = '\0';
}

static void set_all(struct world *w, int generation)
{
    for (int i = 0; i < KEYS; i++) {
        char value[VALUE_BYTES + 1];
        value_of(value, i, generation);
        rig_do(w->who, "SET key%d %s", i, value);
        cold_wait_answer(&w->c, w->who);
        w->who->out.len = 0;
    }
}

/* Of three values one goes to disk and one to the buffers. */
static void chill_some(struct world *w)
{
    char key[32];
    struct patience p = cold_patience();
    for (int i = 0; i < KEYS; i += 3) {
        snprintf(key, sizeof key, "key%d", i);
        while (!cold_chill(&w->c, key)) cold_wait(&p, "room");
    }
    cold_wait_written(&w->c);
    for (int i = 1; i < KEYS; i += 3) {
        snprintf(key, sizeof key, "key%d", i);
        while (!cold_chill(&w->c, key)) cold_wait(&p, "room");
    }
}

/* ---- a reader on a thread of its own, since the workers are the test's */

struct reader {
    struct input *feed;
    pthread_t thread;
    bool slow;             /* reads when it may */
    atomic_bool may_read, ended;
    int generation;        /* that all values must have; -1: any */
    uint8_t seen[KEYS];
    uint64_t rows, others; /* others: keys that are none of key0, key1 ... */
    enum input_result end;
    struct buf why;
};

static void note_row(struct reader *r, const struct input_row *row)
{
    int i, generation;
    char key[64] = {0};
    r->rows++;
    memcpy(key, row->key.p, row->key.n < sizeof key ? row->key.n : sizeof key - 1);
    if (sscanf(key, "key%d", &i) != 1) {
        r->others++;
        return;
    }
    RIG_CHECK(row->value.n == VALUE_BYTES && sscanf(row->value.p, "%d:%d:x", &(int){0}, &generation) == 2, "%s has another value", key);
    char expected[VALUE_BYTES + 1];
    value_of(expected, i, r->generation < 0 ? generation : r->generation);
    RIG_CHECK(slice_eq(row->value, slice_str(expected)), "%s is of another moment", key);
    r->seen[i]++;
}

static void *read_all(void *arg)
{
    struct reader *r = arg;
    struct input_row row;
    while (r->slow && !atomic_load(&r->may_read)) sched_yield();
    while ((r->end = input_next(r->feed, &row, &r->why)) == INPUT_ROW) note_row(r, &row);
    atomic_store(&r->ended, true);
    return NULL;
}

static void start(struct world *w, struct reader *r, const struct livefeed_options *o)
{
    r->feed = livefeed_open(w->walk, o);
    RIG_CHECK(pthread_create(&r->thread, NULL, read_all, r) == 0, "no thread");
}

static void wait_cut(struct world *w, struct reader *r)
{
    struct patience p = cold_patience();
    while (!livefeed_progress(r->feed).cut_ms) {
        rig_settle(w->c.rig);
        cold_wait(&p, "the cut");
    }
}

static void wait_end(struct world *w, struct reader *r)
{
    struct patience p = cold_patience();
    while (!atomic_load(&r->ended)) {
        rig_settle(w->c.rig);
        cold_wait(&p, "the end of the feed");
    }
    pthread_join(r->thread, NULL);
}

/* The walk may still be under way: its thread needs the workers to give it up. */
static void *free_feed(void *arg)
{
    struct reader *r = arg;
    input_free(r->feed);
    atomic_store(&r->ended, true);
    return NULL;
}

static void finish(struct world *w, struct reader *r)
{
    atomic_store(&r->ended, false);
    RIG_CHECK(pthread_create(&r->thread, NULL, free_feed, r) == 0, "no thread");
    wait_end(w, r);
    buf_fini(&r->why);
}

static void must_have_every_key_once(const struct reader *r)
{
    for (int i = 0; i < KEYS; i++) assert_int_equal(r->seen[i], 1);
}

/* ---- what is in it */

static void the_rows_are_the_strings_of_the_moment_of_the_cut(void **state)
{
    struct world w = world_new();
    struct reader *r = mem_zalloc(sizeof *r);
    r->slow = true;
    set_all(&w, 0);
    start(&w, r, &(struct livefeed_options){0});
    wait_cut(&w, r);
    set_all(&w, 1);
    atomic_store(&r->may_read, true);
    wait_end(&w, r);
    assert_int_equal(r->end, INPUT_END);
    must_have_every_key_once(r);
    struct livefeed_progress p = livefeed_progress(r->feed);
    assert_int_equal(p.rows, KEYS);
    assert_int_equal(p.keys_done, KEYS);
    assert_int_equal(p.keys_total, KEYS);
    assert_int_equal(p.left_out, 0);
    finish(&w, r);
    mem_free(r);
    world_free(&w);
}

static void cold_values_are_among_them_whatever_becomes_of_them_meanwhile(void **state)
{
    struct world w = world_new();
    struct reader *r = mem_zalloc(sizeof *r);
    r->slow = true;
    set_all(&w, 5);
    r->generation = 5;
    chill_some(&w);
    assert_true(cold_stats(&w.c).values > KEYS / 2);
    start(&w, r, &(struct livefeed_options){0});
    wait_cut(&w, r);
    for (int i = 0; i < KEYS; i++) {
        rig_do(w.who, i % 4 == 0 ? "DEL key%d" : i % 4 == 1 ? "APPEND key%d +" : i % 4 == 2 ? "SET key%d new" : "GET key%d", i);
        cold_wait_answer(&w.c, w.who);
        w.who->out.len = 0;
    }
    atomic_store(&r->may_read, true);
    wait_end(&w, r);
    assert_int_equal(r->end, INPUT_END);
    must_have_every_key_once(r);
    assert_true(cold_stats(&w.c).reads > 100);
    assert_int_equal(cold_stats(&w.c).read_errors, 0);
    finish(&w, r);
    mem_free(r);
    world_free(&w);
}

static void fill_with_others(struct world *w)
{
    rig_do(w->who, "SADD set a b c");
    rig_do(w->who, "SADD cold-set 01234567890123456789 12345678901234567890 23456789012345678901 34567890123456789012 45678901234567890123 56789012345678901234");
    rig_do(w->who, "RPUSH list a b c");
    rig_do(w->who, "SET gone 1 PX 1");
    rig_do(w->who, "SET stays 1 PX 1000000");
    rig_settle(w->c.rig);
    w->who->task.db = 3;
    rig_do(w->who, "SET elsewhere 1");
    rig_settle(w->c.rig);
    w->who->task.db = 0;
    cold_chill_to_disk(&w->c, "cold-set");
    struct patience p = cold_patience();
    for (int64_t now = clock_unix_ms(); clock_unix_ms() < now + 3;) cold_wait(&p, "the time");
}

static void other_types_are_counted_and_other_databases_and_expired_keys_left_out(void **state)
{
    struct world w = world_new();
    struct reader *r = mem_zalloc(sizeof *r), *third = mem_zalloc(sizeof *third);
    fill_with_others(&w);
    start(&w, r, &(struct livefeed_options){0});
    wait_end(&w, r);
    assert_int_equal(r->end, INPUT_END);
    assert_int_equal(r->rows, 1);
    assert_int_equal(r->feed->left_out, 3);
    finish(&w, r);
    start(&w, third, &(struct livefeed_options){.db = 3, .strict = true});
    wait_end(&w, third);
    assert_int_equal(third->end, INPUT_END);
    assert_int_equal(third->rows, 1);
    finish(&w, third);
    mem_free(r);
    mem_free(third);
    world_free(&w);
}

/* The first row that is not one; the feed would go on behind it. */
static void must_tell_of(struct world *w, const char *why)
{
    struct reader *r = mem_zalloc(sizeof *r);
    start(w, r, &(struct livefeed_options){.strict = true});
    wait_end(w, r);
    assert_int_equal(r->end, INPUT_BAD);
    assert_true(slice_eq(buf_slice(&r->why), slice_str(why)));
    finish(w, r);
    mem_free(r);
}

static void a_strict_feed_tells_of_a_key_that_is_no_string_warm_or_cold(void **state)
{
    struct world w = world_new();
    fill_with_others(&w);
    rig_do(w.who, "DEL set list");
    rig_settle(w.c.rig);
    must_tell_of(&w, "the value of cold-set is no string, and a snapshot holds only strings");
    rig_do(w.who, "DEL cold-set");
    rig_do(w.who, "RPUSH list a");
    rig_settle(w.c.rig);
    must_tell_of(&w, "the value of list is no string, and a snapshot holds only strings");
    world_free(&w);
}

/* ---- how it ends */

static void a_feed_that_is_cancelled_fails_and_the_next_one_has_all(void **state)
{
    struct world w = world_new();
    struct reader *r = mem_zalloc(sizeof *r), *next = mem_zalloc(sizeof *next);
    atomic_bool cancel = false;
    set_all(&w, 0);
    chill_some(&w);
    r->slow = true;
    start(&w, r, &(struct livefeed_options){.cancel = &cancel});
    atomic_store(&cancel, true); /* while it waits for its turn: no worker has run */
    atomic_store(&r->may_read, true);
    wait_end(&w, r);
    assert_int_equal(r->end, INPUT_FAILED);
    assert_true(slice_eq(buf_slice(&r->why), SLICE("cancelled")));
    finish(&w, r);
    start(&w, next, &(struct livefeed_options){0});
    wait_end(&w, next);
    assert_int_equal(next->end, INPUT_END);
    must_have_every_key_once(next);
    finish(&w, next);
    mem_free(r);
    mem_free(next);
    world_free(&w);
}

static void a_feed_that_nobody_reads_can_be_freed_at_any_time(void **state)
{
    struct world w = world_new();
    struct rng rng;
    rng_init(&rng, 7);
    set_all(&w, 0);
    chill_some(&w);
    for (int i = 0; i < 30; i++) {
        struct reader *r = mem_zalloc(sizeof *r);
        r->feed = livefeed_open(w.walk, &(struct livefeed_options){0});
        for (uint64_t turns = rng_below(&rng, 40); turns; turns--) {
            rig_turn(w.c.rig, (uint32_t)rng_below(&rng, WORKERS));
            sched_yield();
        }
        finish(&w, r);
        mem_free(r);
    }
    struct reader *r = mem_zalloc(sizeof *r);
    start(&w, r, &(struct livefeed_options){0});
    wait_end(&w, r);
    assert_int_equal(r->end, INPUT_END);
    must_have_every_key_once(r);
    finish(&w, r);
    mem_free(r);
    world_free(&w);
}

static void a_stop_of_the_walks_ends_a_feed_as_failed(void **state)
{
    struct world w = world_new();
    struct reader *r = mem_zalloc(sizeof *r);
    struct patience p = cold_patience();
    set_all(&w, 0);
    r->feed = livefeed_open(w.walk, &(struct livefeed_options){0});
    while (livefeed_progress(r->feed).keys_done < KEYS) { /* then no worker has any more to do with it, and what they copied waits to be read */
        rig_settle(w.c.rig);
        cold_wait(&p, "the end of the walk");
    }
    walk_stop(w.walk);
    RIG_CHECK(pthread_create(&r->thread, NULL, read_all, r) == 0, "no thread");
    pthread_join(r->thread, NULL); /* without the help of any worker */
    assert_int_equal(r->end, INPUT_FAILED);
    input_free(r->feed);
    buf_fini(&r->why);
    mem_free(r);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rows_are_the_strings_of_the_moment_of_the_cut),
        cmocka_unit_test(cold_values_are_among_them_whatever_becomes_of_them_meanwhile),
        cmocka_unit_test(other_types_are_counted_and_other_databases_and_expired_keys_left_out),
        cmocka_unit_test(a_strict_feed_tells_of_a_key_that_is_no_string_warm_or_cold),
        cmocka_unit_test(a_feed_that_is_cancelled_fails_and_the_next_one_has_all),
        cmocka_unit_test(a_feed_that_nobody_reads_can_be_freed_at_any_time),
        cmocka_unit_test(a_stop_of_the_walks_ends_a_feed_as_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
