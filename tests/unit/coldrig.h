/* An engine without a server (rig.h) whose values can be cold: with a tier on the real disk, its thread and its readers.
 *
 *     struct cold_rig c = cold_new(2, 3);                   2 workers, 3 shards
 *     rig_do(client, "SET key ...");
 *     cold_chill_to_disk(&c, "key");                        the value is in a file and nowhere else
 *     rig_do(client, "GET key");                            the client is away: a reader fetches it
 *     cold_wait_answer(&c, client);                         workers run until it is back
 *     cold_free(&c);
 */
#pragma once
#include <unistd.h>

#include "rig.h"
#include "shard/thaw.h"

enum { COLD_WAIT_SECONDS = 60 };

struct cold_rig {
    struct rig *rig;
    struct thaws *thaws;
    struct tier *tier;
    char dir[64];
};

static inline struct cold_rig cold_new(uint32_t workers, uint32_t shards)
{
    struct cold_rig c = {.dir = "/tmp/sherd-thaw-XXXXXX"};
    struct buf error = {0};
    assert_non_null(mkdtemp(c.dir));
    c.rig = rig_new(workers, shards);
    atomic_store(&c.rig->engine->count_bytes, true);
    c.tier = tier_open(&file_disk, c.dir, NULL, &error);
    assert_non_null(c.tier);
    c.thaws = thaw_open(c.rig->engine, c.tier);
    return c;
}

/* With no request under way and nothing that waits to be cleaned. */
static inline void cold_free(struct cold_rig *c)
{
    rig_settle(c->rig);
    tier_check(c->tier);
    thaw_close(c->thaws);
    rig_free(c->rig);
    assert_int_equal(rmdir(c->dir), 0);
}

static inline struct tier_stats cold_stats(const struct cold_rig *c)
{
    struct tier_stats s;
    tier_get_stats(c->tier, &s);
    return s;
}

/* Nothing here takes long; what never comes is told instead of waited for. */
struct patience {
    int64_t until_us;
};

static inline struct patience cold_patience(void) { return (struct patience){clock_mono_us() + COLD_WAIT_SECONDS * INT64_C(1000000)}; }

static inline void cold_wait(const struct patience *p, const char *what)
{
    RIG_CHECK(clock_mono_us() < p->until_us, "%s never came", what);
    sched_yield();
}

static inline void cold_wait_written(const struct cold_rig *c)
{
    struct patience p = cold_patience();
    tier_flush(c->tier);
    while (cold_stats(c).pending_bytes) cold_wait(&p, "the write");
}

/* Workers run until the client has its answer. */
static inline void cold_wait_answer(struct cold_rig *c, const struct client *who)
{
    struct patience p = cold_patience();
    while (rig_busy(who)) {
        rig_settle(c->rig);
        cold_wait(&p, "an answer");
    }
}

static inline const struct entry *cold_entry(const struct cold_rig *c, const char *key, struct place *at)
{
    store_peek(c->rig->engine->stores[rig_shard(c->rig, key)], 0, keyhash(slice_str(key), c->rig->engine->route.seed), slice_str(key), at);
    return at->e;
}

static inline bool cold_is(const struct cold_rig *c, const char *key)
{
    struct place at;
    return chill_is_cold(cold_entry(c, key, &at));
}

/* The value goes to the tier's buffers, under the token of its shard. False: it is too small or cold already, or they are full. */
static inline bool cold_chill(struct cold_rig *c, const char *key)
{
    struct place at;
    rig_hold(c->rig, rig_shard(c->rig, key));
    bool goes = cold_entry(c, key, &at) && chill_is_worth(at.store, at.e) && chill_out(at.store, at.db_id, at.e);
    rig_let_go(c->rig, 0, rig_shard(c->rig, key));
    return goes;
}

static inline void cold_chill_to_disk(struct cold_rig *c, const char *key)
{
    assert_true(cold_chill(c, key));
    cold_wait_written(c);
}
