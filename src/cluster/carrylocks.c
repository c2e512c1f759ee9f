/* LOCKS, numbers little endian:
 *
 *   version u8 = 1, 3 bytes of 0, number of locks u32, counter u64; each lock: token u64, expiry in unix ms i64, length u32, its record's value (route/spacelock.h) */
#include "cluster/carrylocks.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/le.h"
#include "route/spaces.h"
#include "shard/locks.h"

enum { VERSION = 1, HEAD = 16, LOCK_HEAD = 20 };

static const char head[4] = {VERSION};

/* ---- bytes */

static void add_lock(struct buf *out, const struct spacelock *l, int64_t expiry_ms)
{
    struct buf value = {0};
    spacelock_value(&value, l);
    le_add_u64(out, l->token);
    le_add_u64(out, (uint64_t)expiry_ms);
    le_add_u32(out, (uint32_t)value.len);
    buf_add_slice(out, buf_slice(&value));
    buf_fini(&value);
}

struct lock {
    struct spacelock l;
    int64_t expiry_ms;
};

/* Takes the next one off. False: there is none, or what follows is none. */
static bool next_lock(struct slice *in, struct slice space, struct lock *out)
{
    struct buf key = {0};
    if (in->n < LOCK_HEAD || le_u32(in->p + 16) > in->n - LOCK_HEAD) return false;
    uint32_t n = le_u32(in->p + 16);
    spacelock_key(&key, space, le_u64(in->p));
    out->expiry_ms = (int64_t)le_u64(in->p + 8);
    bool is_one = spacelock_parse(&out->l, buf_slice(&key), slice_of(in->p + LOCK_HEAD, n)) && out->expiry_ms >= 0;
    *in = slice_of(in->p + LOCK_HEAD + n, in->n - LOCK_HEAD - n);
    buf_fini(&key);
    return is_one;
}

bool carrylocks_are_good(struct slice locks, struct slice space)
{
    struct lock l;
    if (locks.n < HEAD || memcmp(locks.p, head, sizeof head) != 0) return false;
    uint32_t n = le_u32(locks.p + 4);
    struct slice in = slice_of(locks.p + HEAD, locks.n - HEAD);
    for (uint32_t i = 0; i < n; i++)
        if (!next_lock(&in, space, &l)) return false;
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

/* The map gives this group something of [from, upto). */
static bool map_has(const struct carryslice *s, struct holding_bound from, struct holding_bound upto)
{
    return holding_bound_cmp(from, upto) < 0 && !spaces_overlap(s->map, s->plan->space, from.key, upto.key, is_elsewhere, (void *)s);
}

static struct holding_bound end_of_plan(const struct holding_op *o) { return (struct holding_bound){.at_end = o->plan.end.n == 0, .key = o->plan.end}; }

/* What is left of a group's locks when it has given out a slice. */
struct leaving {
    const struct carryslice *slice;
    const struct holding *holding;
    const struct holding_op *op; /* as it stands then; what the holding has of it is older */
};

/* The lowest operation on keys of the space that ends behind the bound; NULL: there is none. They do not overlap. */
static const struct holding_op *next_op(const struct leaving *v, struct holding_bound behind)
{
    const struct holding_op *next = NULL;
    for (uint32_t i = 0; i < holding_count(v->holding); i++) {
        const struct holding_op *o = holding_at(v->holding, i);
        if (o->plan.op == v->op->plan.op) o = v->op;
        if (!slice_eq(o->plan.space, v->slice->plan->space) || holding_bound_cmp(end_of_plan(o), behind) <= 0) continue;
        if (!next || slice_cmp(o->plan.start, next->plan.start) < 0) next = o;
    }
    return next;
}

/* A part of the lock is the group's: where an operation carries keys by its bounds (below high by the new side, also if that has yet to be taken), elsewhere by the map. The map lags behind operations: it may neither take away what has come, nor keep what has gone. */
static bool lies_here(const struct leaving *v, const struct spacelock *l)
{
    const struct carryslice *s = v->slice;
    struct holding_bound at = start_of(l);
    for (const struct holding_op *o; (o = next_op(v, at)); at = end_of_plan(o)) {
        const struct holding_plan *p = &o->plan;
        if (map_has(s, at, lower((struct holding_bound){.key = p->start}, end_of(l)))) return true;
        if (side_has(s, p, &p->new_side, l, carryslice_first(), o->high) || side_has(s, p, &p->old_side, l, o->high, carryslice_last())) return true;
    }
    return map_has(s, at, end_of(l));
}

/* ---- giving */

static void add_head(struct buf *out, const struct carryslice *s)
{
    buf_add(out, head, sizeof head);
    le_add_u32(out, 0);
    le_add_u64(out, locks_counter(s->store));
}

/* Of the locks of which this group has a part in the slice: nobody can change them from now on. Others that overlap it are told by who has that part; perhaps they are gone by then. Gives how many there are. */
static uint32_t gather(struct buf *out, const struct carryslice *s)
{
    struct locks_walk w;
    struct spacelock l;
    int64_t expiry_ms;
    size_t at = out->len;
    uint32_t n = 0;
    add_head(out, s);
    for (locks_begin(&w, s->store, s->plan->space, 0); locks_next(&w, &l, &expiry_ms);) {
        if (!is_given(s, &l)) continue;
        add_lock(out, &l, expiry_ms);
        n++;
    }
    le_set_u32(out->p + at + sizeof head, n);
    return n;
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

/* The first record from this token on that must go; 0: there is none. */
static uint64_t next_leaving(const struct leaving *v, uint64_t token)
{
    struct locks_walk w;
    struct spacelock l;
    int64_t expiry_ms;
    for (locks_begin(&w, v->slice->store, v->slice->plan->space, token); locks_next(&w, &l, &expiry_ms);)
        if (is_given(v->slice, &l) && !lies_here(v, &l)) return l.token;
    return 0;
}

uint64_t carrylocks_give(struct buf *out, const struct carryslice *s, const struct holding *h, const struct holding_op *o)
{
    struct leaving v = {s, h, o};
    size_t at = out->len;
    uint64_t ops = 0;
    if (gather(out, s) == 0) return 0;
    ops += put_aside(s, slice_of(out->p + at, out->len - at));
    for (uint64_t token = 0; (token = next_leaving(&v, token)); token++, ops++) locks_remove_one(s->store, s->plan->space, token);
    return ops;
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
        bool is_one = next_lock(&in, s->plan->space, &l);
        CHECK(is_one);
        if (!side_has(s, s->plan, &s->plan->new_side, &l.l, s->from, s->upto) || locks_has(s->store, s->plan->space, l.l.token)) continue;
        locks_put_one(s->store, s->plan->space, &l.l, l.expiry_ms);
        ops++;
    }
    return ops;
}
