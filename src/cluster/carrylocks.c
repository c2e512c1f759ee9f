/* LOCKS, numbers little endian:
 *
 *   version u8 = 1, 3 bytes of 0, number of locks u32, counter u64; each lock: expiry in unix ms i64, lengths of key and value u32 each, its record's key and value (route/spacelock.h) */
#include "cluster/carrylocks.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/le.h"
#include "route/spaces.h"
#include "shard/locks.h"

enum { VERSION = 1, HEAD = 16, LOCK_HEAD = 16 };

static const char head[4] = {VERSION};

struct lock {
    struct slice space;
    struct spacelock l;
    int64_t expiry_ms;
};

/* ---- bytes */

static void add_lock(struct buf *out, const struct lock *l)
{
    struct buf key = {0}, value = {0};
    spacelock_key(&key, l->space, l->l.token);
    spacelock_value(&value, &l->l);
    le_add_u64(out, (uint64_t)l->expiry_ms);
    le_add_u32(out, (uint32_t)key.len);
    le_add_u32(out, (uint32_t)value.len);
    buf_add_slice(out, buf_slice(&key));
    buf_add_slice(out, buf_slice(&value));
    buf_fini(&key);
    buf_fini(&value);
}

/* Takes the next one off. False: there is none, or what follows is none. */
static bool next_lock(struct slice *in, struct lock *out)
{
    uint64_t token;
    if (in->n < LOCK_HEAD) return false;
    uint64_t key = le_u32(in->p + 8), value = le_u32(in->p + 12);
    if (key + value > in->n - LOCK_HEAD) return false;
    struct slice name = slice_of(in->p + LOCK_HEAD, key);
    out->expiry_ms = (int64_t)le_u64(in->p);
    bool is_one = spacelock_key_parse(name, &out->space, &token) && spacelock_parse(&out->l, name, slice_of(in->p + LOCK_HEAD + key, value)) && out->expiry_ms >= 0;
    *in = slice_of(in->p + LOCK_HEAD + key + value, in->n - LOCK_HEAD - key - value);
    return is_one;
}

bool carrylocks_are_good(const struct carryslice *s, struct slice locks)
{
    struct lock l;
    if (locks.n < HEAD || memcmp(locks.p, head, sizeof head) != 0) return false;
    uint32_t n = le_u32(locks.p + 4);
    struct slice in = slice_of(locks.p + HEAD, locks.n - HEAD);
    for (uint32_t i = 0; i < n; i++)
        if (!next_lock(&in, &l) || !holding_concerns(s->plan, s->map, l.space)) return false;
    return in.n == 0;
}

/* ---- where a lock lies */

static struct holding_bound start_of(const struct spacelock *l) { return (struct holding_bound){.key = l->start}; }
static struct holding_bound end_of(const struct spacelock *l) { return (struct holding_bound){.at_end = l->end.n == 0, .key = l->end}; }
static struct holding_bound lower(struct holding_bound a, struct holding_bound b) { return holding_bound_cmp(a, b) < 0 ? a : b; }
static struct holding_bound higher(struct holding_bound a, struct holding_bound b) { return holding_bound_cmp(a, b) < 0 ? b : a; }

/* A part of the lock that lies in [from, upto) is the group's by that side of a plan. */
static bool side_has(const struct carryslice *s, const struct holding_plan *p, const struct holding_side *side, const struct spacelock *l, struct holding_bound from, struct holding_bound upto)
{
    return carryslice_side_has(p, side, s->map, s->group, higher(from, start_of(l)), lower(upto, end_of(l)));
}

/* This group has a part of it that is given out with the slice. */
static bool is_given(const struct carryslice *s, const struct spacelock *l) { return side_has(s, s->plan, &s->plan->old_side, l, s->from, s->upto); }

static bool is_elsewhere(void *ctx, const struct space_piece *piece)
{
    const struct carryslice *s = ctx;
    return !piece->hashed && piece->shard != s->group;
}

/* The map gives this group something of [from, upto) of the space. */
static bool map_has(const struct carryslice *s, struct slice space, struct holding_bound from, struct holding_bound upto)
{
    return holding_bound_cmp(from, upto) < 0 && !spaces_overlap(s->map, space, from.key, upto.key, is_elsewhere, (void *)s);
}

static struct holding_bound end_of_plan(const struct holding_op *o) { return (struct holding_bound){.at_end = o->plan.end.n == 0, .key = o->plan.end}; }

/* What is left of a group's locks when it has given out a slice. */
struct leaving {
    const struct carryslice *slice;
    const struct holding *holding;
    const struct holding_op *op; /* as it stands then; what the holding has of it is older */
};

/* The lowest operation on keys of the space that ends behind the bound; NULL: there is none. They do not overlap. */
static const struct holding_op *next_op(const struct leaving *v, struct slice space, struct holding_bound behind)
{
    const struct holding_op *next = NULL;
    for (uint32_t i = 0; i < holding_count(v->holding); i++) {
        const struct holding_op *o = holding_at(v->holding, i);
        if (o->plan.op == v->op->plan.op) o = v->op;
        if (!holding_concerns(&o->plan, v->slice->map, space) || holding_bound_cmp(end_of_plan(o), behind) <= 0) continue;
        if (!next || slice_cmp(o->plan.start, next->plan.start) < 0) next = o;
    }
    return next;
}

/* An interval of the hash goes, of a space whose keys are spread by their hash, and the group has another one. */
static bool lies_in_others(const struct carryslice *s, struct slice space)
{
    struct space_info info;
    spaces_info(s->map, space, &info);
    for (uint32_t i = 0; s->plan->of_hash && info.mode == SPACE_HASH && i < s->map->n_hash; i++)
        if (s->map->hash[i].shard == s->group && s->map->hash[i].first != s->plan->first) return true;
    return false;
}

/* A part of the lock is the group's: where an operation carries keys by its bounds (below high by the new side, also if that has yet to be taken), elsewhere by the map. The map lags behind operations: it may neither take away what has come, nor keep what has gone. */
static bool lies_here(const struct leaving *v, struct slice space, const struct spacelock *l)
{
    const struct carryslice *s = v->slice;
    struct holding_bound at = start_of(l);
    if (lies_in_others(s, space)) return true;
    for (const struct holding_op *o; (o = next_op(v, space, at)); at = end_of_plan(o)) {
        const struct holding_plan *p = &o->plan;
        if (map_has(s, space, at, lower((struct holding_bound){.key = p->start}, end_of(l)))) return true;
        if (side_has(s, p, &p->new_side, l, carryslice_first(), o->high) || side_has(s, p, &p->old_side, l, o->high, carryslice_last())) return true;
    }
    return map_has(s, space, at, end_of(l));
}

/* ---- giving */

static void add_head(struct buf *out, const struct carryslice *s)
{
    buf_add(out, head, sizeof head);
    le_add_u32(out, 0);
    le_add_u64(out, locks_counter(s->store));
}

struct gathering {
    const struct carryslice *s;
    struct buf *out;
    uint32_t n;
};

static void gather_space(void *ctx, struct slice space)
{
    struct gathering *g = ctx;
    struct locks_walk w;
    struct lock l = {.space = space};
    if (!holding_concerns(g->s->plan, g->s->map, space)) return;
    for (locks_begin(&w, g->s->store, space, 0); locks_next(&w, &l.l, &l.expiry_ms);) {
        if (!is_given(g->s, &l.l)) continue;
        add_lock(g->out, &l);
        g->n++;
    }
}

/* Of the locks of which this group has a part in the slice: nobody can change them from now on. Others that overlap it are told by who has that part; perhaps they are gone by then. Gives how many there are. */
static uint32_t gather(struct buf *out, const struct carryslice *s)
{
    struct gathering g = {s, out, 0};
    size_t at = out->len;
    add_head(out, s);
    if (s->plan->of_hash) locks_each_space(s->store, gather_space, &g);
    else gather_space(&g, s->plan->space);
    le_set_u32(out->p + at + sizeof head, g.n);
    return g.n;
}

static void aside_key(struct buf *out, uint64_t op) { buf_printf(out, "own/locks/%016" PRIx64, op); }

static uint64_t put_aside(const struct carryslice *s, struct slice locks)
{
    struct buf key = {0};
    aside_key(&key, s->plan->op);
    store_apply(s->store, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = buf_slice(&key), .value = locks}, NULL);
    buf_fini(&key);
    return 1;
}

/* Those of the gathered ones that have no part here any more. */
static uint64_t remove_leaving(const struct leaving *v, struct slice locks)
{
    struct slice in = slice_of(locks.p + HEAD, locks.n - HEAD);
    uint64_t ops = 0;
    for (struct lock l; in.n && next_lock(&in, &l);) {
        if (lies_here(v, l.space, &l.l)) continue;
        locks_remove_one(v->slice->store, l.space, l.l.token);
        ops++;
    }
    return ops;
}

uint64_t carrylocks_give(struct buf *out, const struct carryslice *s, const struct holding *h, const struct holding_op *o)
{
    size_t at = out->len;
    if (gather(out, s) == 0) return 0;
    struct slice locks = slice_of(out->p + at, out->len - at);
    return put_aside(s, locks) + remove_leaving(&(struct leaving){s, h, o}, locks);
}

static struct entry *find_aside(const struct carryslice *s)
{
    struct buf key = {0};
    struct place at;
    aside_key(&key, s->plan->op);
    store_peek(s->store, STORE_SYSTEM_DB, keyhash(buf_slice(&key), s->store->seed), buf_slice(&key), &at);
    buf_fini(&key);
    return at.e;
}

void carrylocks_give_again(struct buf *out, const struct carryslice *s)
{
    const struct entry *aside = find_aside(s);
    if (aside) buf_add_slice(out, entry_value(aside));
    else add_head(out, s);
}

uint64_t carrylocks_arrived(const struct carryslice *s)
{
    const struct entry *aside = find_aside(s);
    if (!aside) return 0;
    store_apply(s->store, &(struct op){.kind = OP_DEL, .db = STORE_SYSTEM_DB, .key = entry_key(aside)}, NULL);
    return 1;
}

/* ---- taking */

bool carrylocks_change_any(const struct carryslice *s, struct slice locks) { return le_u32(locks.p + 4) > 0 || locks_counter(s->store) < le_u64(locks.p + 8); }

uint64_t carrylocks_take(const struct carryslice *s, struct slice locks)
{
    struct slice in = slice_of(locks.p + HEAD, locks.n - HEAD);
    uint64_t counter = le_u64(locks.p + 8), ops = locks_counter(s->store) < counter;
    locks_raise_counter(s->store, counter);
    for (struct lock l; in.n;) {
        bool is_one = next_lock(&in, &l);
        CHECK(is_one);
        if (!side_has(s, s->plan, &s->plan->new_side, &l.l, s->from, s->upto) || locks_has(s->store, l.space, l.l.token)) continue;
        locks_put_one(s->store, l.space, &l.l, l.expiry_ms);
        ops++;
    }
    return ops;
}
