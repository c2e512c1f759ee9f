#include "server/evictor.h"

#include <sched.h>

#include "cold/tier.h"
#include "server/notify.h"
#include "server/sampler.h"
#include "shard/thaw.h"
#include "store/chill.h"
#include "store/evict.h"

enum {
    TRIES_MAX = 64,   /* looks at shards that are all busy before the command goes on regardless */
    SLICE_KEYS = 256, /* that upkeep evicts in one go */
    PENDING_MOST = 8 << 20, /* bytes of values on their way to the cold tier */
    LEAST_DATA_BYTES = 8 << 20, /* of a quarter of maxmemory that is left to the data; of a small one it is a half */
    TICK_MS = 10,           /* between two looks at what the process occupies */
    SLACK_SHARE = 16,       /* of maxmemory: what may come in between two looks, and before pages that have become free are given back */
    PURGE_MS = 500,
};

/* jemalloc's; sanitizer builds have another allocator, and this is NULL. */
int mallctl(const char *name, void *old, size_t *old_len, void *new, size_t new_len) __attribute__((weak));

static enum evict_policy policy_of(const struct server *s) { return (enum evict_policy)CONFIG_NUM(s->config, maxmemory_policy); }

/* ---- how much may be used
 *
 * With the policy cold, maxmemory is meant to hold for the process, for nothing is given up by keeping to it: what the process occupies beyond its data (buffers, holes in the arenas, its code)
 * lowers the limit for the data, down to a quarter. */

static uint64_t used_bytes(const struct server *s)
{
    return server_used_bytes(s) + (s->engine->thaws ? tier_bytes(s->engine->thaws->tier) : 0);
}

static uint64_t limit_of(const struct server *s)
{
    uint64_t limit = (uint64_t)CONFIG_NUM(s->config, maxmemory), lowered = atomic_load_explicit(&s->data_limit, memory_order_relaxed);
    return policy_of(s) == EVICT_COLD && lowered < limit ? lowered : limit;
}

static bool within(const struct server *s) { return used_bytes(s) <= limit_of(s); }

/* What is read stays if there is room; between the limit and one percent more upkeep makes room by chilling something else. */
static void set_marks(struct server *s, uint64_t limit)
{
    struct thaws *th = s->engine->thaws;
    uint64_t aside = tier_bytes(th->tier), data = limit > aside ? limit - aside : 0;
    atomic_store_explicit(&th->plenty_below, limit ? data - data / 10 : UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&th->keep_below, limit ? data + data / 100 : UINT64_MAX, memory_order_relaxed);
}

/* What the allocator keeps for later counts too. */
static void give_back_heap(struct server *s, int64_t mono_ms)
{
    if (!mallctl || mono_ms < s->next_purge_ms) return;
    s->next_purge_ms = mono_ms + PURGE_MS;
    mallctl("arena.4096.purge", NULL, NULL, NULL, 0); /* 4096: all of them (MALLCTL_ARENAS_ALL) */
}

void evictor_tick(struct server *s, int64_t mono_ms)
{
    uint64_t limit = (uint64_t)CONFIG_NUM(s->config, maxmemory);
    if (!s->engine->thaws || mono_ms < s->next_limit_ms) return;
    s->next_limit_ms = mono_ms + TICK_MS;
    if (limit && policy_of(s) == EVICT_COLD) {
        uint64_t rss = sampler_resident_bytes(), used = used_bytes(s), overhead = rss > used ? rss - used : 0;
        uint64_t goal = limit - limit / SLACK_SHARE, lowered = goal > overhead ? goal - overhead : 0;
        uint64_t least = limit / 4 > LEAST_DATA_BYTES ? limit / 4 : limit / 2 < LEAST_DATA_BYTES ? limit / 2 : LEAST_DATA_BYTES;
        if (lowered < least) lowered = least;
        if (rss > goal) give_back_heap(s, mono_ms);
        atomic_store_explicit(&s->data_limit, lowered, memory_order_relaxed);
        if (lowered < limit) limit = lowered;
        tier_set_pending_max(s->engine->thaws->tier, limit / 32 < PENDING_MOST ? limit / 32 : PENDING_MOST);
    }
    set_marks(s, limit);
}

bool evictor_wants_compaction(const struct server *s)
{
    return policy_of(s) == EVICT_COLD && CONFIG_NUM(s->config, maxmemory) && limit_of(s) < (uint64_t)CONFIG_NUM(s->config, maxmemory);
}

/* ---- what goes */

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

/* Samples every shard whose token is free; true if one was busy, or not looked at to its end. */
static bool find_victim(struct worker *w, struct server *s, enum evict_policy policy, unsigned samples, struct victim *v)
{
    struct engine *e = s->engine;
    bool busy = false;
    *v = (struct victim){0};
    if (policy == EVICT_NONE) return false;
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
        busy |= c.more;
        if (loser) engine_release(w, loser);
    }
    return busy;
}

enum outcome { EVICTED, ALL_BUSY, NOTHING_TO_EVICT, TIER_BUSY };

static void delete_victim(struct server *s, const struct victim *v)
{
    struct buf key = {0};
    buf_add_slice(&key, entry_key(v->choice.e));
    struct op op = {.kind = OP_DEL, .db = v->choice.db, .key = buf_slice(&key)};
    store_apply(v->shard->store, &op, NULL);
    store_count(&v->shard->store->stats.evicted);
    notify_key(s, NOTIFY_EVICTED, "evicted", op.key, op.db);
    buf_fini(&key);
}

static bool chill_victim(struct server *s, const struct victim *v)
{
    struct thaws *th = s->engine->thaws;
    if (!chill_out(v->shard->store, v->choice.db, v->choice.e)) return false;
    int64_t before = atomic_load_explicit(&th->horizon_ms, memory_order_relaxed);
    atomic_store_explicit(&th->horizon_ms, (before * 7 + v->choice.score) / 8, memory_order_relaxed);
    return true;
}

static enum outcome evict_one(struct worker *w, struct server *s)
{
    struct victim v;
    enum evict_policy policy = policy_of(s);
    if (policy == EVICT_COLD) {
        enum tier_answer a = s->engine->thaws ? tier_would(s->engine->thaws->tier) : TIER_FAILING;
        if (a != TIER_TAKEN) return a == TIER_FULL ? TIER_BUSY : NOTHING_TO_EVICT;
    }
    bool busy = find_victim(w, s, policy, (unsigned)CONFIG_NUM(s->config, maxmemory_samples), &v), done = true;
    if (!v.shard) return busy ? ALL_BUSY : NOTHING_TO_EVICT;
    if (policy == EVICT_COLD) done = chill_victim(s, &v);
    else delete_victim(s, &v);
    engine_publish(v.shard);
    engine_release(w, v.shard);
    return done ? EVICTED : TIER_BUSY;
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

enum evictor_room evictor_make_room(struct worker *w, struct server *s)
{
    if (unlikely(atomic_load_explicit(&s->bytes_unknown, memory_order_relaxed)) && atomic_exchange(&s->bytes_unknown, false)) count_anew(w, s);
    for (int tries = 0; !within(s);) {
        enum outcome o = evict_one(w, s);
        if (o == NOTHING_TO_EVICT) return EVICTOR_NO_ROOM;
        if (o == TIER_BUSY) return EVICTOR_LATER;
        if (o == EVICTED) {
            tries = 0;
            continue;
        }
        if (++tries == TRIES_MAX) return EVICTOR_ROOM; /* a slow command holds the shards: better a few bytes over than a false OOM */
        sched_yield();
    }
    return EVICTOR_ROOM;
}

bool evictor_step(struct worker *w, struct server *s)
{
    if (!CONFIG_NUM(s->config, maxmemory)) return false;
    for (int n = 0; n < SLICE_KEYS; n++) {
        if (within(s)) return false;
        enum outcome o = evict_one(w, s);
        if (o != EVICTED) return o == ALL_BUSY || o == TIER_BUSY;
    }
    return true;
}

/* ---- loading */

void evictor_load(struct server *s, struct store *store, unsigned share)
{
    struct evict_choice c;
    struct thaws *th = s->engine->thaws;
    unsigned samples = (unsigned)CONFIG_NUM(s->config, maxmemory_samples);
    if (!th || policy_of(s) != EVICT_COLD || !CONFIG_NUM(s->config, maxmemory)) return;
    uint64_t limit = limit_of(s), aside = tier_bytes(th->tier), may = (limit > 2 * aside ? limit - aside : limit / 2) / share;
    while (store_bytes(store) > may && tier_would(th->tier) != TIER_FAILING) {
        tier_wait(th->tier);
        if (evict_pick(store, EVICT_COLD, samples, &c)) chill_out(store, c.db, c.e);
        else if (!c.more) return;
    }
}
