#include "cluster/carryslice.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "cluster/intentspan.h"
#include "route/keyspace.h"
#include "route/spaces.h"
#include "store/chill.h"
#include "store/interest.h"
#include "store/keyindex.h"
#include "store/store.h"

enum { LOOK_AT = 16 }; /* so many keys for each one that a slice may have */

/* ---- bounds */

static struct holding_bound bound_of_end(struct slice end) { return (struct holding_bound){.at_end = end.n == 0, .key = end}; }
static struct holding_bound lower(struct holding_bound a, struct holding_bound b) { return holding_bound_cmp(a, b) < 0 ? a : b; }
static struct holding_bound higher(struct holding_bound a, struct holding_bound b) { return holding_bound_cmp(a, b) < 0 ? b : a; }

/* Its lower end within the plan, and its upper one. */
static struct holding_bound first_of(const struct carryslice *s) { return higher(s->from, (struct holding_bound){.key = s->plan->start}); }
static struct holding_bound last_of(const struct carryslice *s) { return lower(s->upto, bound_of_end(s->plan->end)); }

static bool has_hashes(const struct space_map *m, uint32_t group)
{
    for (uint32_t i = 0; i < m->n_hash; i++)
        if (m->hash[i].shard == group) return true;
    return m->n_hash == 0 && group < m->route.shards;
}

bool carryslice_side_has(const struct holding_plan *p, const struct holding_side *side, const struct space_map *m, uint32_t group, struct holding_bound from, struct holding_bound upto)
{
    struct holding_bound start = {.key = p->start};
    upto = lower(upto, bound_of_end(p->end));
    if (holding_bound_cmp(higher(from, start), upto) >= 0) return false;
    if (side->hashed) return has_hashes(m, group);
    for (uint32_t i = 0; i < side->n; i++) {
        struct holding_bound end = bound_of_end(side->pieces[i].end);
        if (side->pieces[i].group == group && holding_bound_cmp(higher(start, from), lower(end, upto)) < 0) return true;
        start = end;
    }
    return false;
}

bool carryslice_has(const struct carryslice *s, struct slice key)
{
    return !holding_is_below(key, first_of(s)) && holding_is_below(key, last_of(s)) && holding_covers(s->plan, s->map, key);
}

bool carryslice_has_some(const struct carryslice *s, const struct intentspan *span)
{
    struct holding_bound start = {.key = span->start};
    return holding_concerns(s->plan, s->map, span->space) && holding_bound_cmp(higher(start, first_of(s)), lower(bound_of_end(span->end), last_of(s))) < 0;
}

/* ---- walking */

struct walk { /* in one database */
    const struct carryslice *slice;
    struct keyindex_at at;
    struct entry *e; /* NULL: it is over */
};

static bool is_among(const struct carryslice *s, const struct entry *e) { return !s->plan->of_hash || holding_covers(s->plan, s->map, entry_key(e)); }

static void stop_at_end(struct walk *w)
{
    if (w->e && !holding_is_below(entry_key(w->e), last_of(w->slice))) w->e = NULL;
}

/* In a line there are keys of other intervals, too. */
static void pass_others(struct walk *w)
{
    while (w->e && !is_among(w->slice, w->e)) {
        w->e = keyindex_next(&w->at);
        stop_at_end(w);
    }
}

/* with_others: not only what the plan is about. */
static void begin_walk_with_others(struct walk *w, const struct carryslice *s, uint16_t db)
{
    const struct keyindex *k = s->plan->of_hash ? store_line(s->store, db) : store_index(s->store, db, s->plan->space);
    struct holding_bound first = first_of(s);
    *w = (struct walk){.slice = s};
    if (k && !first.at_end) w->e = keyindex_seek(k, first.key, &w->at);
    stop_at_end(w);
}

static void go_on_with_others(struct walk *w)
{
    w->e = keyindex_next(&w->at);
    stop_at_end(w);
}

static void begin_walk(struct walk *w, const struct carryslice *s, uint16_t db)
{
    begin_walk_with_others(w, s, db);
    pass_others(w);
}

static void go_on(struct walk *w)
{
    go_on_with_others(w);
    pass_others(w);
}

static struct walk *lowest(struct walk walks[STORE_DBS])
{
    struct walk *low = NULL;
    for (uint16_t db = 0; db < STORE_DBS; db++)
        if (walks[db].e && (!low || slice_cmp(entry_key(walks[db].e), entry_key(low->e)) < 0)) low = &walks[db];
    return low;
}

/* A key goes with all databases that have it, so what is counted is never cut within one. Where hardly any of the keys on the way are the plan's, the slice ends for those that were looked at. */
bool carryslice_measure(const struct carryslice *s, uint64_t keys, uint64_t bytes, struct slice *before)
{
    struct walk walks[STORE_DBS], *w;
    struct slice last = {0};
    uint64_t n = 0, sum = 0, seen = 0;
    for (uint16_t db = 0; db < STORE_DBS; db++) begin_walk_with_others(&walks[db], s, db);
    for (; (w = lowest(walks)); seen++) {
        bool same = seen > 0 && slice_eq(entry_key(w->e), last), counts = is_among(s, w->e);
        size_t more = counts ? keyindex_entry_bytes(w->e) : 0;
        bool is_full = seen >= keys * LOOK_AT || (counts && n > 0 && (n >= keys || sum + more > bytes));
        if (seen > 0 && !same && is_full) {
            *before = entry_key(w->e);
            return true;
        }
        last = entry_key(w->e);
        n += counts;
        sum += more;
        go_on_with_others(w);
    }
    return false;
}

static bool is_past(const struct store *s, const struct entry *e) { return entry_expiry_ms(e) && s->now_ms > entry_expiry_ms(e); }

static const struct entry *first_cold(const struct carryslice *s, uint16_t db)
{
    struct walk w;
    begin_walk(&w, s, db);
    while (w.e && (!chill_is_cold(w.e) || is_past(s->store, w.e))) go_on(&w);
    return w.e;
}

/* Warming a value ends all positions. */
static bool warm_database(const struct carryslice *s, uint16_t db)
{
    struct carryslice rest = *s;
    struct buf key = {0};
    bool fine = true;
    for (const struct entry *e; fine && (e = first_cold(&rest, db));) {
        struct place at;
        key.len = 0;
        buf_add_slice(&key, entry_key(e));
        store_peek(s->store, db, keyhash(buf_slice(&key), s->store->seed), buf_slice(&key), &at);
        fine = chill_fetch(&at) == 0;
        rest.from = (struct holding_bound){.key = buf_slice(&key)};
    }
    buf_fini(&key);
    return fine;
}

bool carryslice_warm(const struct carryslice *s)
{
    for (uint16_t db = 0; db < STORE_DBS; db++)
        if (s->store->dbs[db] && s->store->dbs[db]->cold && !warm_database(s, db)) return false;
    return true;
}

static uint32_t new_group(const struct carryslice *s, struct slice key) { return holding_side_group(s->plan, &s->plan->new_side, s->map, key); }

void carryslice_each_leaving(const struct carryslice *s, void (*visit)(void *ctx, uint32_t to, uint16_t db, const struct entry *e), void *ctx)
{
    for (uint16_t db = 0; db < STORE_DBS; db++) {
        struct walk w;
        for (begin_walk(&w, s, db); w.e; go_on(&w)) {
            uint32_t to = new_group(s, entry_key(w.e));
            if (to != s->group && !is_past(s->store, w.e)) visit(ctx, to, db, w.e);
        }
    }
}

/* ---- dropping */

struct picked {
    struct entry **entries;
    size_t n, cap;
};

static void pick(struct picked *p, struct entry *e)
{
    if (p->n == p->cap) {
        p->cap = p->cap * 2 + 64;
        p->entries = mem_resize(p->entries, p->cap * sizeof *p->entries);
    }
    p->entries[p->n++] = e;
}

static void pick_by_index(const struct carryslice *s, uint16_t db, struct picked *p)
{
    struct walk w;
    for (begin_walk(&w, s, db); w.e; go_on(&w))
        if (new_group(s, entry_key(w.e)) != s->group) pick(p, w.e);
}

static void pick_by_table(const struct carryslice *s, uint16_t db, struct picked *p)
{
    struct table_iter it;
    if (!s->store->dbs[db]) return;
    table_iter_init(&it, &s->store->dbs[db]->keys);
    for (struct entry *e; (e = table_iter_next(&it));)
        if (carryslice_has(s, entry_key(e)) && new_group(s, entry_key(e)) != s->group) pick(p, e);
}

uint64_t carryslice_drop(const struct carryslice *s, bool ordered)
{
    struct picked p = {0};
    uint64_t n = 0;
    if (holding_bound_cmp(first_of(s), last_of(s)) >= 0) return 0;
    for (uint16_t db = 0; db < STORE_DBS; db++) {
        p.n = 0;
        (ordered ? pick_by_index : pick_by_table)(s, db, &p);
        for (size_t i = 0; i < p.n; i++) store_apply(s->store, &(struct op){.kind = OP_DEL, .db = db, .key = entry_key(p.entries[i])}, NULL);
        n += p.n;
    }
    mem_free(p.entries);
    return n;
}

/* ---- those who care */

static bool concerns(void *ctx, struct slice key, uint64_t hash) { return carryslice_has(ctx, key); }

void carryslice_tell_interested(const struct carryslice *s)
{
    for (uint16_t db = 0; db < STORE_DBS; db++) interest_touch_if(s->store->interests, db, concerns, (void *)s);
}
