/* The keyspace of one shard: databases 0..15 for clients, and the system database, each a table of entries with its own arena.
 *
 * Whoever holds the shard's token is the only user of a store; nothing here locks. Reading goes through store_find, changing through
 * store_apply and nothing else. A place is good until the next change of its own key (its expiry included) or of the database as a whole.
 * Pure: the clock comes in as store->now_ms, set by the caller before each command. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/slice.h"
#include "store/entry.h"
#include "store/op.h"
#include "store/table.h"

struct arena;
struct chill_grave;
struct chill_tier;
struct cut_walk;
struct pager;
struct interests;
struct hotkeys;
struct keyindex;

/* What the system must know about its data is data, too: ordinary entries of the system database, which are changed by ordinary ops. So logs, dumps, cuts and digests carry it; but no client sees
 * it, nothing is evicted from it or chilled, its keys expire without a word, and it changes places with no other. */
enum {
    STORE_DBS = 16,              /* that clients can select */
    STORE_SYSTEM_DB = STORE_DBS,
    STORE_ALL_DBS = STORE_DBS + 1,
};

struct db {
    struct arena *arena;
    struct table keys;
    struct table expiring; /* the same entries again: those with an expiry */
    uint64_t expire_cursor; /* of the active expiry's walk */
    struct cut_walk *walk;  /* of a cut that has not passed all of it yet (store/cut.h); else NULL */
    uint64_t cold;          /* entries whose value is on disk (store/chill.h) */
    uint64_t chill_cursor;  /* of the walk for values to chill, and how many it met since one was worth it (store/evict.h) */
    uint64_t chill_misses;
    uint64_t compact_cursor; /* of the walk that empties spans, while compacting */
    bool compacting;
    struct table spaces;     /* its ordered key spaces (store/spaceindex.h) */
    struct keyindex *line;   /* of keys of other spaces, if those are in order, too */
    size_t space_bytes;      /* of both, but for the nodes of the indexes */
};

/* Limits at which small collections change to their large encoding; shared by all shards, changed by CONFIG SET. Read with relaxed atomics. */
struct store_limits {
    uint32_t hash_entries, hash_value;      /* hash-max-listpack-entries 128, -value 64 */
    uint32_t set_ints, set_entries, set_value; /* set-max-intset-entries 512, set-max-listpack-entries 128, -value 64 */
    uint32_t zset_entries, zset_value;      /* 128, 64 */
    int32_t list_size;                      /* list-max-listpack-size -2 = 8 KiB per pack */
    uint32_t hll_sparse_bytes;              /* hll-sparse-max-bytes 3000 */
    bool lfu;                               /* access field holds an LFU counter (maxmemory-policy *-lfu) */
    uint8_t lfu_log_factor, lfu_decay_minutes;
};

struct store_stats { /* written by the token's holder with store_count, read by anyone: relaxed */
    uint64_t hits, misses, expired, evicted, changes;
};

static inline void store_count(uint64_t *counter) { __atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED); }

struct store {
    struct db *dbs[STORE_ALL_DBS]; /* NULL until first used */
    uint64_t seed;             /* of the key hash */
    int64_t now_ms;            /* set by the token's holder */
    struct rng rng;
    const struct store_limits *limits;  /* keeps */
    struct pager *pager;                /* keeps; gets memory ready; may be NULL */
    struct interests *interests;        /* who watches or waits for a key: store/interest.h */
    struct hotkeys *hotkeys;
    struct store_stats stats;
    const struct chill_tier *tier;      /* where cold values are; NULL: there are none */
    uint64_t cold;                      /* entries of all databases whose value is there */
    struct chill_grave *graves;         /* flushed databases with values there */
    bool lazy_expire_paused;            /* DEBUG SET-ACTIVE-EXPIRE 0 does not touch this; CLIENT PAUSE does */
    bool (*keeps)(void *ctx, uint16_t db, struct slice key); /* a key past its expiry that must not be deleted now: it is shown until it may be, for its keeper has seen it; NULL: none. Nobody but its keeper changes it meanwhile */
    void *keeps_ctx;
    void (*on_expire)(void *ctx, uint16_t db, struct slice key); /* told before an expired key goes; may be NULL */
    void *on_expire_ctx;
    bool (*is_ordered)(void *ctx, struct slice space); /* the keys of that space are indexed in their order; NULL: of no space */
    void *is_ordered_ctx;
    bool in_line; /* the keys of all other spaces are indexed, too, together */
    uint64_t swaps; /* of databases, so far */
    void (*on_op)(void *ctx, const struct op *op); /* told of every applied op: the log's place; may be NULL */
    void *on_op_ctx;
};

struct store *store_new(uint64_t seed, const struct store_limits *limits, uint64_t rng_seed);
void store_free(struct store *s);

/* Where a key is, or would be. */
struct place {
    struct store *store;
    struct db *db; /* NULL if the database was never used */
    uint16_t db_id;
    uint64_t hash;
    struct slice key;
    struct entry *e; /* NULL: no such key */
};

/* Looks a key up. A key past its expiry is deleted on the way (counted and told to on_expire, unless it is the system's) and is not found.
 * find counts a hit or miss and notes the access; look only counts; peek does neither. */
void store_find(struct store *s, uint16_t db, uint64_t hash, struct slice key, struct place *at);
void store_look(struct store *s, uint16_t db, uint64_t hash, struct slice key, struct place *at);
void store_peek(struct store *s, uint16_t db, uint64_t hash, struct slice key, struct place *at);

/* Touches the table's memory that a find of this key will need first. The one function here that needs no token. */
void store_prefetch(const struct store *s, uint16_t db, uint64_t hash);

/* Applies one op. `at`, if not NULL, is the op's key as store_find left it (the key did not change since): saves the second search; it is
 * brought up to date. The op's slices do not point into the store, except the key of OP_DEL, which may be that of the entry itself. Removing what is not
 * there changes nothing and is told to nobody. Gives the op's result (see op.h), 0 where none is named. Breaking an op's precondition (wrong type, index
 * out of range) is a broken promise of ours and aborts. */
int64_t store_apply(struct store *s, const struct op *op, struct place *at);
bool store_needs_value(enum op_kind kind); /* it changes a part of the value: a cold one is read before */

/* So many keys are about to come into this database, which is empty: its table gets its size at once. Changes no content. */
void store_expect(struct store *s, uint16_t db, uint64_t keys);

uint64_t store_keys(const struct store *s, uint16_t db);
uint64_t store_expiring(const struct store *s, uint16_t db);
size_t store_bytes(const struct store *s); /* live bytes of all databases */
size_t store_heap_bytes(const struct store *s); /* of these, those in the process heap */
size_t store_entry_bytes(const struct store *s, const struct entry *e); /* entry and body: MEMORY USAGE */

/* Deletes expired keys for at most budget_us; true if many were found, so that another round pays. clock_us is read between steps. */
bool store_expire_step(struct store *s, int64_t budget_us, int64_t (*clock_us)(void));
/* Moves entries together so that memory in holes goes back to the kernel, `entries` at a time; true while there is more. New rounds begin only if `wanted` and where enough is to be had. */
bool store_compact_step(struct store *s, unsigned entries, bool wanted);
/* Moves growing tables on; true while there is more. */
bool store_grow_step(struct store *s, unsigned buckets);

/* Ordered key spaces. A key that comes, or changes, is indexed if is_ordered says so of its space (space_of, route/keyspace.h), and stays so until it goes. Where the answer changes while there are keys,
 * the owner brings the store in line: an index has all keys of its space only when every key came after the answer was yes, or a whole walk of order_step was made since.
 * is_ordered stays NULL while no space is ordered: then keys cost nothing more. In the system database every space is ordered, always.
 * With in_line it is the same for all keys of spaces that are not ordered: they are in one index, the line of their database. */
struct keyindex *store_index(const struct store *s, uint16_t db, struct slice space); /* NULL: no key of that space is indexed. Good until the next change of the store */
struct keyindex *store_line(const struct store *s, uint16_t db); /* likewise */
struct store_ordering { /* where a walk is; zeros at first */
    uint64_t cursor, swaps;
    uint16_t db;
};
/* Walks all databases, over some n entries of one at a time, and indexes those of ordered spaces, and no others. True while there is more. */
bool store_order_step(struct store *s, struct store_ordering *at, size_t n);

void store_check(const struct store *s);
uint64_t store_digest(struct store *s); /* order-free digest of all keys, values and expiries: equal stores, equal digests */
uint64_t store_value_digest(const struct entry *e, uint64_t seed); /* of the value, a warm one: the same under any key, in any order of members */
uint64_t store_entry_digest(const struct entry *e); /* of the value, a warm one, and whether it expires: the same under any key */
