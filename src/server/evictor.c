#include "server/evictor.h"

#include <sched.h>

#include "server/notify.h"
#include "store/evict.h"

enum {
    TRIES_MAX = 64,   /* looks at shards that are all busy before the command goes on regardless */
    SLICE_KEYS = 256, /* that upkeep evicts in one go */
};

static bool within(const struct server *s) { return server_used_bytes(s) <= (uint64_t)CONFIG_NUM(s->config, maxmemory); }

/* The shard whose sampled victim should go first; -1: none has any; -2: none of those that may have one is free just now. */
static int best_shard(struct worker *w, struct server *s, enum evict_policy policy, unsigned samples)
{
    struct engine *e = s->engine;
    int best = -1;
    int64_t best_score = 0;
    bool busy = false;
    for (uint32_t i = 0; i < e->route.shards; i++) {
        struct evict_choice c;
        if (!engine_try(&e->shards[i])) {
            busy = true;
            continue;
        }
        bool any = evict_pick(e->stores[i], policy, samples, &c);
        engine_release(w, &e->shards[i]);
        if (any && (best < 0 || c.score > best_score)) {
            best = (int)i;
            best_score = c.score;
        }
    }
    return best < 0 && busy ? -2 : best;
}

/* Evicts from that shard; false if it is busy or has nothing (any more). */
static bool evict_from(struct worker *w, struct server *s, struct shard *sh, enum evict_policy policy, unsigned samples)
{
    struct evict_choice c;
    if (!engine_try(sh)) return false;
    bool any = evict_pick(sh->store, policy, samples, &c);
    if (any) {
        struct buf key = {0};
        buf_add_slice(&key, entry_key(c.e));
        struct op op = {.kind = OP_DEL, .db = c.db, .key = buf_slice(&key)};
        store_apply(sh->store, &op, NULL);
        store_count(&sh->store->stats.evicted);
        notify_key(s, NOTIFY_EVICTED, "evicted", op.key, op.db);
        buf_fini(&key);
        engine_publish(sh);
    }
    engine_release(w, sh);
    return any;
}

bool evictor_make_room(struct worker *w, struct server *s)
{
    enum evict_policy policy = (enum evict_policy)CONFIG_NUM(s->config, maxmemory_policy);
    unsigned samples = (unsigned)CONFIG_NUM(s->config, maxmemory_samples);
    for (int tries = 0; !within(s);) {
        if (policy == EVICT_NONE) return false;
        int i = best_shard(w, s, policy, samples);
        if (i == -1) return false;
        if (i >= 0 && evict_from(w, s, &s->engine->shards[i], policy, samples)) {
            tries = 0;
            continue;
        }
        if (++tries == TRIES_MAX) return true; /* a slow command holds the shards: better a few bytes over than a false OOM */
        sched_yield();
    }
    return true;
}

bool evictor_step(struct worker *w, struct server *s)
{
    enum evict_policy policy = (enum evict_policy)CONFIG_NUM(s->config, maxmemory_policy);
    unsigned samples = (unsigned)CONFIG_NUM(s->config, maxmemory_samples);
    if (!CONFIG_NUM(s->config, maxmemory) || policy == EVICT_NONE) return false;
    for (int n = 0; n < SLICE_KEYS; n++) {
        if (within(s)) return false;
        int i = best_shard(w, s, policy, samples);
        if (i < 0 || !evict_from(w, s, &s->engine->shards[i], policy, samples)) return i != -1;
    }
    return true;
}
