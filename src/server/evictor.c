#include "server/evictor.h"

#include <sched.h>

#include "server/notify.h"
#include "store/evict.h"

enum {
    TRIES_MAX = 64,   /* looks at shards that are all busy before the command goes on regardless */
    SLICE_KEYS = 256, /* that upkeep evicts in one go */
};

static bool within(const struct server *s) { return server_used_bytes(s) <= (uint64_t)CONFIG_NUM(s->config, maxmemory); }

struct victim {
    struct shard *shard; /* its token is held; NULL: none found */
    struct evict_choice choice;
    uint64_t among; /* keys of the shards whose choices are as good as this one */
};

static uint64_t keys_of(const struct store *s)
{
    uint64_t n = 0;
    for (uint16_t d = 0; d < STORE_DBS; d++) n += store_keys(s, d);
    return n;
}

/* Whether the choice of another shard should go instead. Of equal ones a shard is drawn by its number of keys, as if the keys of all shards were
 * sampled together: a fixed preference would empty one shard after the other, its most wanted keys included. */
static bool goes_first(struct worker *w, struct victim *v, const struct evict_choice *c, uint64_t keys)
{
    if (v->shard && c->score < v->choice.score) return false;
    if (!v->shard || c->score > v->choice.score) {
        v->among = keys;
        return true;
    }
    v->among += keys;
    return rng_below(&w->rng, v->among) < keys;
}

/* Samples every shard whose token is free; true if one was busy. */
static bool find_victim(struct worker *w, struct server *s, enum evict_policy policy, unsigned samples, struct victim *v)
{
    struct engine *e = s->engine;
    bool busy = false;
    *v = (struct victim){0};
    if (policy == EVICT_NONE || policy == EVICT_COLD) return false;
    for (uint32_t i = 0; i < e->route.shards; i++) { /* ascending: a token is held while others are tried */
        struct shard *sh = &e->shards[i], *loser = sh;
        struct evict_choice c;
        if (!engine_try(sh)) {
            busy = true;
            continue;
        }
        if (evict_pick(sh->store, policy, samples, &c) && goes_first(w, v, &c, keys_of(sh->store))) {
            loser = v->shard;
            v->shard = sh;
            v->choice = c;
        }
        if (loser) engine_release(w, loser);
    }
    return busy;
}

enum outcome { EVICTED, ALL_BUSY, NOTHING_TO_EVICT };

static enum outcome evict_one(struct worker *w, struct server *s)
{
    struct victim v;
    bool busy = find_victim(w, s, (enum evict_policy)CONFIG_NUM(s->config, maxmemory_policy),
                            (unsigned)CONFIG_NUM(s->config, maxmemory_samples), &v);
    if (!v.shard) return busy ? ALL_BUSY : NOTHING_TO_EVICT;
    struct buf key = {0};
    buf_add_slice(&key, entry_key(v.choice.e));
    struct op op = {.kind = OP_DEL, .db = v.choice.db, .key = buf_slice(&key)};
    store_apply(v.shard->store, &op, NULL);
    store_count(&v.shard->store->stats.evicted);
    notify_key(s, NOTIFY_EVICTED, "evicted", op.key, op.db);
    buf_fini(&key);
    engine_publish(v.shard);
    engine_release(w, v.shard);
    return EVICTED;
}

/* Shards publish their bytes with every command only while there is a limit: one that is new has to ask each of them once. */
static void count_anew(struct worker *w, struct server *s)
{
    for (uint32_t i = 0; i < s->engine->route.shards; i++) {
        struct shard *sh = &s->engine->shards[i];
        if (engine_try(sh)) {
            engine_publish(sh);
            engine_release(w, sh);
        } /* else its holder publishes: it sees that there is a limit now */
    }
}

bool evictor_make_room(struct worker *w, struct server *s)
{
    if (unlikely(atomic_load_explicit(&s->bytes_unknown, memory_order_relaxed)) && atomic_exchange(&s->bytes_unknown, false)) count_anew(w, s);
    for (int tries = 0; !within(s);) {
        enum outcome o = evict_one(w, s);
        if (o == NOTHING_TO_EVICT) return false;
        if (o == EVICTED) {
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
    if (!CONFIG_NUM(s->config, maxmemory)) return false;
    for (int n = 0; n < SLICE_KEYS; n++) {
        if (within(s)) return false;
        enum outcome o = evict_one(w, s);
        if (o != EVICTED) return o == ALL_BUSY;
    }
    return true;
}
