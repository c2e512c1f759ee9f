#include "shard/locks.h"

#include "base/check.h"
#include "base/le.h"
#include "base/mem.h"
#include "shard/seating.h"

/* ---- where a part of the line is */

struct marking {
    bool *in;
    const struct route *route;
    const struct space_map *map;
};

static bool mark_piece(void *ctx, const struct space_piece *p)
{
    const struct marking *m = ctx;
    for (uint32_t i = 0; p->hashed && i < m->map->n_hash; i++) {
        const struct hash_desc *d = &m->map->hash[i];
        m->in[route_place(m->route, d->shard)] = true;
        if (d->moving) m->in[route_place(m->route, d->to_shard)] = true;
    }
    if (p->hashed && m->map->n_hash == 0) memset(m->in, true, m->route->shards);
    if (!p->hashed) m->in[route_place(m->route, p->shard)] = true;
    return !p->hashed;
}

void locks_shards(const struct space_map *m, const struct route *route, struct slice space, struct slice start, struct slice end, bool *in)
{
    memset(in, m == NULL, route->shards);
    if (m) spaces_overlap(m, space, start, end, mark_piece, &(struct marking){in, route, m});
}

/* ---- records */

static struct entry *find(struct store *s, struct slice key)
{
    struct place at;
    store_peek(s, STORE_SYSTEM_DB, keyhash(key, s->seed), key, &at);
    return at.e;
}

static void put(struct store *s, struct slice key, struct slice value, int64_t expiry_ms)
{
    store_apply(s, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = key, .value = value, .expiry_ms = expiry_ms}, NULL);
}

static void del(struct store *s, struct slice key) { store_apply(s, &(struct op){.kind = OP_DEL, .db = STORE_SYSTEM_DB, .key = key}, NULL); }

void locks_begin(struct locks_walk *w, const struct store *s, struct slice space, uint64_t token)
{
    struct buf name = {0}, first = {0};
    spacelock_space(&name, space);
    spacelock_key(&first, space, token);
    const struct keyindex *k = store_index(s, STORE_SYSTEM_DB, buf_slice(&name));
    *w = (struct locks_walk){.store = s};
    if (k) w->next = keyindex_seek(k, buf_slice(&first), &w->at);
    buf_fini(&name);
    buf_fini(&first);
}

bool locks_next(struct locks_walk *w, struct spacelock *l, int64_t *expiry_ms)
{
    for (const struct entry *e; (e = w->next);) {
        w->next = keyindex_next(&w->at);
        *expiry_ms = entry_expiry_ms(e);
        if ((!*expiry_ms || *expiry_ms > w->store->now_ms) && spacelock_parse(l, entry_key(e), entry_value(e))) return true;
    }
    return false;
}

void locks_each_space(const struct store *s, void (*visit)(void *ctx, struct slice space), void *ctx)
{
    const struct db *db = s->dbs[STORE_SYSTEM_DB];
    struct table_iter it;
    struct slice space;
    if (!db) return;
    table_iter_init(&it, &db->spaces);
    for (const struct entry *e; (e = table_iter_next(&it));)
        if (spacelock_space_parse(entry_key(e), &space)) visit(ctx, space);
}

bool locks_has(struct store *s, struct slice space, uint64_t token)
{
    struct buf key = {0};
    spacelock_key(&key, space, token);
    bool has = find(s, buf_slice(&key)) != NULL;
    buf_fini(&key);
    return has;
}

/* ---- counters */

uint64_t locks_counter(struct store *s)
{
    const struct entry *e = find(s, spacelock_counter);
    return e && entry_value(e).n == 8 ? le_u64(entry_value(e).p) : 0;
}

void locks_raise_counter(struct store *s, uint64_t to)
{
    struct buf value = {0};
    if (locks_counter(s) >= to) return;
    le_add_u64(&value, to);
    put(s, spacelock_counter, buf_slice(&value), 0);
    buf_fini(&value);
}

static uint64_t highest_counter(const struct engine *e, const bool *in)
{
    uint64_t highest = 0;
    for (uint32_t i = 0; i < e->route.shards; i++) {
        uint64_t n = in[i] ? locks_counter(e->stores[i]) : 0;
        if (n > highest) highest = n;
    }
    return highest;
}

static void raise_counters(const struct engine *e, const bool *in, uint64_t to)
{
    for (uint32_t i = 0; i < e->route.shards; i++)
        if (in[i]) locks_raise_counter(e->stores[i], to);
}

/* What tells tokens of the same number apart. */
static uint32_t number_of(const struct engine *e, uint32_t shard) { return e->seating ? e->seating->group(e->seating->ctx, &e->shards[shard]) : shard; }

uint64_t locks_new_token(struct engine *e, const bool *in)
{
    uint64_t sequence = highest_counter(e, in) + 1;
    uint32_t first = 0;
    while (first < e->route.shards && !in[first]) first++;
    CHECK(first < e->route.shards);
    raise_counters(e, in, sequence);
    return spacelock_token(sequence, number_of(e, first));
}

/* ---- changes */

void locks_put_one(struct store *s, struct slice space, const struct spacelock *l, int64_t expiry_ms)
{
    struct buf key = {0}, value = {0};
    spacelock_key(&key, space, l->token);
    spacelock_value(&value, l);
    put(s, buf_slice(&key), buf_slice(&value), expiry_ms);
    buf_fini(&key);
    buf_fini(&value);
}

void locks_put(struct engine *e, const bool *in, struct slice space, const struct spacelock *l, int64_t expiry_ms)
{
    for (uint32_t i = 0; i < e->route.shards; i++)
        if (in[i]) locks_put_one(e->stores[i], space, l, expiry_ms);
}

void locks_remove_one(struct store *s, struct slice space, uint64_t token)
{
    struct buf key = {0};
    spacelock_key(&key, space, token);
    del(s, buf_slice(&key));
    buf_fini(&key);
}

void locks_remove(struct engine *e, const bool *in, struct slice space, uint64_t token)
{
    for (uint32_t i = 0; i < e->route.shards; i++)
        if (in[i]) locks_remove_one(e->stores[i], space, token);
}

/* ---- following the map */

struct following {
    struct engine *e;
    const bool *in; /* shards that may be touched */
    bool *belongs, *place; /* [shards]: scratch */
    const struct space_map *next;
    struct slice space, start, end;
};

/* The first lock of a store from `token` on that the change concerns; a copy, for what is read lives in the store. */
static bool next_concerned(const struct following *f, uint32_t shard, uint64_t token, struct spacelock *l, int64_t *expiry_ms, struct buf *bytes)
{
    struct locks_walk w;
    locks_begin(&w, f->e->stores[shard], f->space, token);
    while (locks_next(&w, l, expiry_ms)) {
        if (!spacelock_overlaps(l, f->start, f->end)) continue;
        struct spacelock kept = *l;
        bytes->len = 0;
        buf_add_slice(bytes, l->start);
        buf_add_slice(bytes, l->end);
        buf_add_slice(bytes, l->owner);
        kept.start.p = bytes->p;
        kept.end.p = bytes->p + l->start.n;
        kept.owner.p = kept.end.p + l->end.n;
        *l = kept;
        return true;
    }
    return false;
}

static void settle(const struct following *f, const struct spacelock *l, int64_t expiry_ms)
{
    locks_shards(f->next, &f->e->route, f->space, l->start, l->end, f->belongs);
    for (uint32_t i = 0; i < f->e->route.shards; i++) f->place[i] = f->in[i] && f->belongs[i] && !locks_has(f->e->stores[i], f->space, l->token);
    locks_put(f->e, f->place, f->space, l, expiry_ms);
    for (uint32_t i = 0; i < f->e->route.shards; i++) f->place[i] = f->in[i] && !f->belongs[i];
    locks_remove(f->e, f->place, f->space, l->token);
}

void locks_follow(struct engine *e, const bool *in, const struct space_map *next, struct slice space, struct slice start, struct slice end)
{
    uint32_t shards = e->route.shards;
    struct following f = {e, in, mem_alloc(shards * sizeof *f.belongs), mem_alloc(shards * sizeof *f.place), next, space, start, end};
    struct buf bytes = {0};
    raise_counters(e, in, highest_counter(e, in));
    for (uint32_t i = 0; i < shards; i++) {
        struct spacelock l = {0};
        int64_t expiry_ms;
        for (uint64_t token = 0; in[i] && next_concerned(&f, i, token, &l, &expiry_ms, &bytes); token = l.token + 1) settle(&f, &l, expiry_ms);
    }
    buf_fini(&bytes);
    mem_free(f.belongs);
    mem_free(f.place);
}
