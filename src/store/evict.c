#include "store/evict.h"

#include "base/check.h"
#include "store/chill.h"
#include "store/entry.h"
#include "store/store.h"

enum { LRU_MASK = 0xffffff, LFU_START = 5, LFU_TOP = 255 };

enum measure { BY_IDLE, BY_FREQ, BY_CHANCE, BY_EXPIRY };

static const struct policy {
    const char *name;
    bool expiring_only;
    enum measure measure;
} policies[EVICT_POLICIES] = {
    [EVICT_NONE] = {"noeviction", false, BY_CHANCE},
    [EVICT_ALLKEYS_LRU] = {"allkeys-lru", false, BY_IDLE},
    [EVICT_ALLKEYS_LFU] = {"allkeys-lfu", false, BY_FREQ},
    [EVICT_ALLKEYS_RANDOM] = {"allkeys-random", false, BY_CHANCE},
    [EVICT_VOLATILE_LRU] = {"volatile-lru", true, BY_IDLE},
    [EVICT_VOLATILE_LFU] = {"volatile-lfu", true, BY_FREQ},
    [EVICT_VOLATILE_RANDOM] = {"volatile-random", true, BY_CHANCE},
    [EVICT_VOLATILE_TTL] = {"volatile-ttl", true, BY_EXPIRY},
    [EVICT_COLD] = {"cold", false, BY_IDLE},
};

const char *evict_policy_name(enum evict_policy p) { return policies[p].name; }

bool evict_policy_is_lfu(enum evict_policy p) { return policies[p].measure == BY_FREQ; }

/* --- the access field --- */

static bool uses_lfu(const struct store_limits *l) { return __atomic_load_n(&l->lfu, __ATOMIC_RELAXED); }

static uint32_t lru_clock(int64_t now_ms) { return (uint32_t)(now_ms / 1000) & LRU_MASK; }

static uint32_t lfu_field(int64_t now_ms, uint8_t counter) { return (uint32_t)(now_ms / 60000 & 0xffff) << 8 | counter; }

uint8_t evict_freq(const struct store_limits *l, int64_t now_ms, uint32_t access)
{
    uint8_t counter = (uint8_t)access, per = __atomic_load_n(&l->lfu_decay_minutes, __ATOMIC_RELAXED);
    if (per == 0) return counter;
    uint32_t lost = (uint16_t)(now_ms / 60000 - (access >> 8)) / per;
    return lost < counter ? (uint8_t)(counter - lost) : 0;
}

static uint8_t lfu_count(const struct store_limits *l, uint8_t counter, struct rng *rng)
{
    if (counter == LFU_TOP) return counter;
    uint64_t above = counter > LFU_START ? counter - LFU_START : 0;
    uint64_t odds = above * __atomic_load_n(&l->lfu_log_factor, __ATOMIC_RELAXED) + 1;
    return (uint8_t)(counter + (rng_below(rng, odds) == 0));
}

uint32_t evict_access_new(const struct store_limits *l, int64_t now_ms)
{
    return uses_lfu(l) ? lfu_field(now_ms, LFU_START) : lru_clock(now_ms);
}

uint32_t evict_access_now(const struct store_limits *l, int64_t now_ms, uint32_t old, struct rng *rng)
{
    if (likely(!uses_lfu(l))) return lru_clock(now_ms);
    return lfu_field(now_ms, lfu_count(l, evict_freq(l, now_ms, old), rng));
}

int64_t evict_idle_ms(int64_t now_ms, uint32_t access) { return (int64_t)((lru_clock(now_ms) - access) & LRU_MASK) * 1000; }

uint32_t evict_access_of_idle(int64_t now_ms, int64_t idle_s) { return lru_clock(now_ms - idle_s * 1000); }

uint32_t evict_access_of_freq(int64_t now_ms, uint8_t freq) { return lfu_field(now_ms, freq); }

/* --- picking --- */

static int64_t score_of(struct store *s, enum measure m, const struct entry *e)
{
    switch (m) {
    case BY_IDLE: return evict_idle_ms(s->now_ms, entry_access(e));
    case BY_FREQ: return LFU_TOP - evict_freq(s->limits, s->now_ms, entry_access(e));
    case BY_EXPIRY: return -entry_expiry_ms(e);
    default: return 0; /* all alike: the sampling is chance enough */
    }
}

/* ---- values to chill */

enum { CHILL_STEP = 16, CHILL_VISITS = 512 /* per database and pick */ };

struct chill_walk {
    struct store *store;
    struct evict_choice *best;
    uint16_t db;
    unsigned visited, found;
};

static void consider(void *ctx, struct entry *e)
{
    struct chill_walk *w = ctx;
    w->visited++;
    if (!chill_is_worth(w->store, e)) return;
    w->found++;
    int64_t score = score_of(w->store, BY_IDLE, e);
    if (!w->best->e || score > w->best->score) *w->best = (struct evict_choice){.e = e, .db = w->db, .score = score};
}

/* True: there may be some further on. */
static bool walk_for_warm(struct store *s, uint16_t id, unsigned samples, struct evict_choice *best)
{
    struct db *db = s->dbs[id];
    struct chill_walk w = {s, best, id, 0, 0};
    while (w.found < samples && w.visited < CHILL_VISITS && w.visited < db->keys.entries)
        table_scan(&db->keys, &db->chill_cursor, CHILL_STEP, consider, &w);
    db->chill_misses = w.found ? 0 : db->chill_misses + w.visited;
    return db->chill_misses < db->keys.entries;
}

static bool pick_warm(struct store *s, unsigned samples, struct evict_choice *best)
{
    bool more = false;
    for (uint16_t id = 0; id < STORE_DBS; id++)
        if (s->dbs[id] && s->dbs[id]->keys.entries > s->dbs[id]->cold) more |= walk_for_warm(s, id, samples, best);
    best->more = !best->e && more;
    return best->e != NULL;
}

bool evict_pick(struct store *s, enum evict_policy policy, unsigned samples, struct evict_choice *best)
{
    const struct policy *p = &policies[policy];
    *best = (struct evict_choice){0};
    if (policy == EVICT_NONE) return false;
    if (policy == EVICT_COLD) return pick_warm(s, samples, best);
    for (unsigned db = 0; db < STORE_DBS; db++) {
        if (!s->dbs[db]) continue;
        struct table *t = p->expiring_only ? &s->dbs[db]->expiring : &s->dbs[db]->keys;
        for (unsigned i = 0; i < samples && t->entries; i++) {
            struct entry *e = table_random(t, rng_u64(&s->rng));
            int64_t score = score_of(s, p->measure, e);
            if (!best->e || score > best->score) *best = (struct evict_choice){.e = e, .db = (uint16_t)db, .score = score};
        }
    }
    return best->e != NULL;
}
