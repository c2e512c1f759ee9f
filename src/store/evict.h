/* Which key goes when memory is short: the access field of entries, the policies, and picking a victim by sampling.
 *
 * The access field (24 bits) means one of two things, by store_limits.lfu:
 *   LRU   unix seconds of the last access, modulo 2^24 (194 days)
 *   LFU   upper 16 bits: minutes when the counter was last brought up to date, modulo 2^16; lower 8: a logarithmic counter that
 *         starts at 5, grows by chance (about 1 / ((counter - 5) * lfu_log_factor)) and loses one per lfu_decay_minutes without access
 *
 * Pure; used under the store's token. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/slice.h"

struct entry;
struct store;
struct store_limits;

enum evict_policy {
    EVICT_NONE,
    EVICT_ALLKEYS_LRU,
    EVICT_ALLKEYS_LFU,
    EVICT_ALLKEYS_RANDOM,
    EVICT_VOLATILE_LRU,
    EVICT_VOLATILE_LFU,
    EVICT_VOLATILE_RANDOM,
    EVICT_VOLATILE_TTL,
    EVICT_COLD, /* values go to disk, no key goes: store/chill.h */
    EVICT_POLICIES
};

const char *evict_policy_name(enum evict_policy p); /* as maxmemory-policy has it: "allkeys-lru" */
bool evict_policy_is_lfu(enum evict_policy p);

/* What the access field holds for a new entry, and after an access to one that held `old`. */
uint32_t evict_access_new(const struct store_limits *l, int64_t now_ms);
uint32_t evict_access_now(const struct store_limits *l, int64_t now_ms, uint32_t old, struct rng *rng);

int64_t evict_idle_ms(int64_t now_ms, uint32_t access);                                       /* LRU: time since the last access */
uint8_t evict_freq(const struct store_limits *l, int64_t now_ms, uint32_t access);            /* LFU: the counter as of now */
uint32_t evict_access_of_idle(int64_t now_ms, int64_t idle_s);                                /* RESTORE IDLETIME */
uint32_t evict_access_of_freq(int64_t now_ms, uint8_t freq);                                  /* RESTORE FREQ */

struct evict_choice {
    struct entry *e; /* borrowed until its store changes; NULL: nothing to evict */
    uint16_t db;
    int64_t score;   /* by the policy; of two choices the one with the higher score should go */
    bool more;       /* EVICT_COLD, and e is NULL: not every entry was looked at since one was found, so ask again */
};

/* Looks at `samples` random entries of each database (of those with an expiry if the policy is volatile-*) and puts the best victim into *best; false if there
 * is none. Delete it with OP_DEL; with EVICT_COLD, chill it (chill_out).
 *
 * Most values may be cold already, and then random samples would seldom hit one that is not: EVICT_COLD walks on from where the last pick ended until it has seen as many that
 * are worth it, or has gone far enough for one call. Entries lie in the order of their hashes, so that is a sample like any other. */
bool evict_pick(struct store *s, enum evict_policy policy, unsigned samples, struct evict_choice *best);
