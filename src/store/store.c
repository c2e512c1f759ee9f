#include "store/store.h"

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "store/arena.h"
#include "store/body.h"
#include "store/chill.h"
#include "store/evict.h"
#include "store/hash.h"
#include "store/interest.h"
#include "store/list.h"
#include "store/set.h"
#include "store/zset.h"
#include "store/hotkeys.h"
#include "store/spaceindex.h"

struct store *store_new(uint64_t seed, const struct store_limits *limits, uint64_t rng_seed)
{
    struct store *s = mem_zalloc(sizeof *s);
    s->seed = seed;
    s->limits = limits;
    s->interests = interests_new();
    s->hotkeys = hotkeys_new(rng_seed);
    rng_init(&s->rng, rng_seed);
    return s;
}

void store_free(struct store *s)
{
    for (unsigned i = 0; i < STORE_ALL_DBS; i++) {
        if (!s->dbs[i]) continue;
        arena_free(s->dbs[i]->arena);
        mem_free(s->dbs[i]);
    }
    chill_free_graves(s);
    interests_free(s->interests);
    hotkeys_free(s->hotkeys);
    mem_free(s);
}

/* --- finding --- */

static bool is_expired(const struct store *s, const struct entry *e)
{
    return unlikely(e->flags & ENTRY_EXPIRES) && s->now_ms > entry_expiry_ms(e);
}

static bool is_kept(const struct store *s, uint16_t db, struct slice key) { return unlikely(s->keeps != NULL) && s->keeps(s->keeps_ctx, db, key); }
static bool may_go(const struct store *s, uint16_t db, struct slice key) { return !s->lazy_expire_paused && !is_kept(s, db, key); }

static void expire(struct store *s, uint16_t db, struct slice key, uint64_t hash, struct entry *e)
{
    if (likely(db != STORE_SYSTEM_DB)) {
        store_count(&s->stats.expired);
        if (s->on_expire) s->on_expire(s->on_expire_ctx, db, key);
    }
    struct place at = {s, s->dbs[db], db, hash, key, e};
    store_apply(s, &(struct op){.kind = OP_DEL, .db = db, .key = key}, &at);
}

void store_peek(struct store *s, uint16_t db, uint64_t hash, struct slice key, struct place *at)
{
    *at = (struct place){s, s->dbs[db], db, hash, key, NULL};
    if (unlikely(!at->db)) return;
    struct table_slot *slot = table_find(&at->db->keys, hash, key);
    if (!slot) return;
    struct entry *e = table_entry(slot);
    if (!is_expired(s, e) || (!s->lazy_expire_paused && is_kept(s, db, key))) at->e = e; /* whoever keeps it has seen it, and may answer later than this */
    else if (!s->lazy_expire_paused) expire(s, db, key, hash, e);
}

void store_look(struct store *s, uint16_t db, uint64_t hash, struct slice key, struct place *at)
{
    store_peek(s, db, hash, key, at);
    store_count(at->e ? &s->stats.hits : &s->stats.misses);
}

void store_find(struct store *s, uint16_t db, uint64_t hash, struct slice key, struct place *at)
{
    store_look(s, db, hash, key, at);
    if (!at->e) return;
    uint32_t old = entry_access(at->e), now = evict_access_now(s->limits, s->now_ms, old, &s->rng);
    if (now != old) entry_set_access(at->e, now);
}

void store_prefetch(const struct store *s, uint16_t db, uint64_t hash)
{
    const struct db *d = __atomic_load_n(&s->dbs[db], __ATOMIC_ACQUIRE);
    if (d) table_prefetch_bucket(&d->keys, hash);
}

/* --- expiry and growth in steps --- */

enum { EXPIRE_BATCH = 20, EXPIRE_VISITS = 200 };

/* The expired entries of one scan. One that does not fit is met again in the next round. */
struct expired {
    const struct store *store;
    uint16_t db;
    size_t visited, n;
    struct entry *e[4 * EXPIRE_BATCH];
};

static void collect_expired(void *ctx, struct entry *e)
{
    struct expired *x = ctx;
    x->visited++;
    if (is_expired(x->store, e) && may_go(x->store, x->db, entry_key(e)) && x->n < sizeof x->e / sizeof *x->e) x->e[x->n++] = e;
}

static void expire_batch(struct store *s, uint16_t db, struct expired *x)
{
    x->n = x->visited = 0;
    x->db = db;
    table_scan(&s->dbs[db]->expiring, &s->dbs[db]->expire_cursor, EXPIRE_BATCH, collect_expired, x);
    for (size_t i = 0; i < x->n; i++) {
        struct slice key = entry_key(x->e[i]);
        expire(s, db, key, keyhash(key, s->seed), x->e[i]);
    }
}

static bool are_many(uint64_t expired, uint64_t visited) { return expired * 10 > visited; }

/* Every database is looked at in turn, from a random one on; a database where many keys are found expired is walked on to its end or the budget's. */
bool store_expire_step(struct store *s, int64_t budget_us, int64_t (*clock_us)(void))
{
    struct expired x = {.store = s};
    uint64_t all_visited = 0, all_expired = 0;
    int64_t end_us = clock_us() + budget_us;
    unsigned first = (unsigned)rng_below(&s->rng, STORE_ALL_DBS);
    for (unsigned i = 0; i < STORE_ALL_DBS && !s->lazy_expire_paused; i++) {
        uint16_t id = (uint16_t)((first + i) % STORE_ALL_DBS);
        struct db *db = s->dbs[id];
        uint64_t visited = 0, expired = 0;
        bool in_time = true;
        if (!db || !db->expiring.entries) continue;
        do {
            expire_batch(s, id, &x);
            visited += x.visited;
            expired += x.n;
            in_time = clock_us() < end_us;
        } while (in_time && db->expire_cursor && (visited < EXPIRE_VISITS || are_many(expired, visited)));
        all_visited += visited;
        all_expired += expired;
        if (!in_time) break;
    }
    return are_many(all_expired, all_visited);
}

bool store_grow_step(struct store *s, unsigned buckets)
{
    bool more = false;
    for (unsigned i = 0; i < STORE_ALL_DBS; i++) {
        if (!s->dbs[i]) continue;
        more |= table_step(&s->dbs[i]->keys, buckets);
        more |= table_step(&s->dbs[i]->expiring, buckets);
    }
    return more;
}

/* --- holes --- */

enum { HOLES_MIN = 1 << 20, HOLES_SHARE = 16 /* of the live bytes */ };

struct compaction {
    struct store *store;
    struct db *db;
};

static void move_entry(void *ctx, struct entry *e)
{
    struct compaction *c = ctx;
    size_t bytes = entry_bytes(e);
    if (!arena_is_leaving(e, bytes)) return;
    uint64_t hash = keyhash(entry_key(e), c->store->seed);
    struct spaceindex_was was = spaceindex_before(e);
    struct entry *now = arena_alloc(c->db->arena, bytes);
    memcpy(now, e, bytes);
    table_repoint(table_find_entry(&c->db->keys, hash, e), now);
    if (e->flags & ENTRY_EXPIRES) table_repoint(table_find_entry(&c->db->expiring, hash, e), now);
    if (was.e) spaceindex_changed(c->store, c->db, entry_key(now), was, now);
    arena_release(c->db->arena, e, bytes);
}

static bool compact_db(struct store *s, struct db *db, unsigned entries, bool wanted)
{
    if (!db->compacting) {
        size_t holes = arena_holes(db->arena);
        if (!wanted || holes < HOLES_MIN || holes < arena_live_bytes(db->arena) / HOLES_SHARE) return false;
        db->compacting = arena_thin_out(db->arena);
        db->compact_cursor = 0;
        if (!db->compacting) arena_trim(db->arena);
        return db->compacting;
    }
    struct compaction c = {s, db};
    table_scan(&db->keys, &db->compact_cursor, entries, move_entry, &c);
    if (db->compact_cursor) return true;
    db->compacting = false;
    arena_thin_out_done(db->arena);
    return false;
}

bool store_compact_step(struct store *s, unsigned entries, bool wanted)
{
    bool more = false;
    for (unsigned i = 0; i < STORE_ALL_DBS; i++)
        if (s->dbs[i]) more |= compact_db(s, s->dbs[i], entries, wanted);
    return more;
}

/* --- figures --- */

uint64_t store_keys(const struct store *s, uint16_t db) { return s->dbs[db] ? s->dbs[db]->keys.entries : 0; }

uint64_t store_expiring(const struct store *s, uint16_t db) { return s->dbs[db] ? s->dbs[db]->expiring.entries : 0; }

size_t store_bytes(const struct store *s)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < STORE_ALL_DBS; i++)
        if (s->dbs[i]) bytes += arena_live_bytes(s->dbs[i]->arena);
    return bytes;
}

size_t store_heap_bytes(const struct store *s)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < STORE_ALL_DBS; i++)
        if (s->dbs[i]) bytes += arena_heap_bytes(s->dbs[i]->arena);
    return bytes;
}

size_t store_entry_bytes(const struct store *s, const struct entry *e) { return arena_round(entry_bytes(e)) + body_bytes(e); }

/* --- digest: sums of hashes, so that the order in which tables hold things does not count --- */

static uint64_t mix(uint64_t digest, const void *p, size_t n) { return XXH3_64bits_withSeed(p, n, digest); }

static uint64_t digest_list(const struct entry *e, uint64_t d)
{
    struct list_iter it;
    struct slice v;
    list_iter_init(&it, e, 0, false);
    while (list_iter_next(&it, &v)) d = mix(d, v.p, v.n);
    return d;
}

static uint64_t digest_set(const struct entry *e, uint64_t d)
{
    struct set_iter it;
    struct slice m;
    uint64_t sum = 0;
    set_iter_init(&it, e);
    while (set_iter_next(&it, &m)) sum += mix(d, m.p, m.n);
    return sum;
}

static uint64_t digest_hash(const struct entry *e, uint64_t d)
{
    struct hash_iter it;
    struct slice f, v;
    uint64_t sum = 0;
    hash_iter_init(&it, e);
    while (hash_iter_next(&it, &f, &v)) sum += mix(mix(d, f.p, f.n), v.p, v.n);
    return sum;
}

static uint64_t digest_zset(const struct entry *e, uint64_t d)
{
    struct zset_iter it;
    struct slice m;
    double score;
    zset_iter_init(&it, e, 0, false);
    while (zset_iter_next(&it, &m, &score)) d = mix(mix(d, m.p, m.n), &score, sizeof score);
    return d;
}

/* The value, going on from digest d. */
static uint64_t digest_value(const struct entry *e, uint64_t d)
{
    struct slice value = entry_value(e);
    switch (entry_type(e)) {
    case TYPE_LIST: return digest_list(e, d);
    case TYPE_SET: return digest_set(e, d);
    case TYPE_HASH: return digest_hash(e, d);
    case TYPE_ZSET: return digest_zset(e, d);
    default: return mix(d, value.p, value.n);
    }
}

/* Of a value that cannot be read there is none to be like it. */
static uint64_t digest_cold(struct store *s, const struct entry *e, uint64_t d)
{
    struct arena *a = arena_new();
    const struct entry *copy = chill_copy(s, e, a);
    d = copy ? digest_value(copy, d) : rng_u64(&s->rng);
    arena_free(a);
    return d;
}

static uint64_t digest_entry(struct store *s, const struct entry *e, uint64_t db)
{
    struct slice key = entry_key(e);
    uint64_t head[3] = {db, entry_type(e), (uint64_t)entry_expiry_ms(e)};
    uint64_t d = mix(mix(0, head, sizeof head), key.p, key.n);
    return chill_is_cold(e) ? digest_cold(s, e, d) : digest_value(e, d);
}

uint64_t store_value_digest(const struct entry *e, uint64_t seed)
{
    CHECK(!chill_is_cold(e));
    uint64_t type = entry_type(e);
    return digest_value(e, mix(seed, &type, sizeof type));
}

uint64_t store_entry_digest(const struct entry *e)
{
    CHECK(!chill_is_cold(e));
    uint64_t head[2] = {entry_type(e), entry_expiry_ms(e) != 0};
    return digest_value(e, mix(0, head, sizeof head));
}

uint64_t store_digest(struct store *s)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < STORE_ALL_DBS; i++) {
        if (!s->dbs[i]) continue;
        struct table_iter it;
        table_iter_init(&it, &s->dbs[i]->keys);
        for (struct entry *e; (e = table_iter_next(&it));) sum += digest_entry(s, e, i);
    }
    return sum;
}

/* --- checking --- */

static void db_check(const struct store *s, struct db *db)
{
    table_check(&db->keys);
    table_check(&db->expiring);
    arena_check(db->arena);
    size_t bytes = table_bytes(&db->keys) + table_bytes(&db->expiring) + spaceindex_bytes(db);
    uint64_t expiring = 0, cold = 0;
    struct table_iter it;
    table_iter_init(&it, &db->keys);
    for (struct entry *e; (e = table_iter_next(&it));) {
        uint64_t hash = keyhash(entry_key(e), s->seed);
        CHECK(table_find(&db->keys, hash, entry_key(e)) == table_find_entry(&db->keys, hash, e));
        CHECK((table_find_entry(&db->expiring, hash, e) != NULL) == ((e->flags & ENTRY_EXPIRES) != 0));
        expiring += (e->flags & ENTRY_EXPIRES) != 0;
        cold += chill_is_cold(e);
        bytes += store_entry_bytes(s, e);
    }
    CHECK(expiring == db->expiring.entries && cold == db->cold);
    CHECK(arena_live_bytes(db->arena) <= bytes); /* less: what is away while a large table moves */
    CHECK(db->keys.old.buckets || db->expiring.old.buckets || arena_live_bytes(db->arena) == bytes);
}

void store_check(const struct store *s)
{
    uint64_t cold = 0;
    for (unsigned i = 0; i < STORE_ALL_DBS; i++) {
        if (!s->dbs[i]) continue;
        db_check(s, s->dbs[i]);
        spaceindex_check(s, s->dbs[i]);
        cold += s->dbs[i]->cold;
    }
    CHECK(cold == s->cold);
}
