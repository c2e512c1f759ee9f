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

/* A part of the lock that lies in [from, upto) is the group's by that side. */
static bool side_has(const struct carryslice *s, const struct holding_side *side, const struct spacelock *l, struct holding_bound from, struct holding_bound upto)
{
    return carryslice_side_has(s->plan, side, s->map, s->group, higher(from, start_of(l)), lower(upto, end_of(l)));
}

static bool is_elsewhere(void *ctx, const struct space_piece *piece)
{
    const struct carryslice *s = ctx;
    return !piece->hashed && piece->shard != s->group;
}

/* The map gives this group something of the keys [start, end) that the plan is not about. */
static bool map_has(const struct carryslice *s, struct slice start, struct slice end)
{
    if (end.n && slice_cmp(start, end) >= 0) return false;
    return !spaces_overlap(s->map, s->plan->space, start, end, is_elsewhere, (void *)s);
}

static bool lies_outside(const struct carryslice *s, const struct spacelock *l)
{
    const struct holding_plan *p = s->plan;
    if (p->start.n && slice_cmp(l->start, p->start) < 0 && map_has(s, l->start, l->end.n && slice_cmp(l->end, p->start) < 0 ? l->end : p->start)) return true;
    return p->end.n && (!l->end.n || slice_cmp(l->end, p->end) > 0) && map_has(s, slice_cmp(l->start, p->end) > 0 ? l->start : p->end, l->end);
}

/* A part of it is the group's: below high by the new side, also if it has yet to be taken. */
static bool lies_here(const struct carryslice *s, const struct holding_op *o, const struct spacelock *l)
{
    const struct holding_plan *p = s->plan;
    return side_has(s, &p->new_side, l, carryslice_first(), o->high) || side_has(s, &p->old_side, l, o->high, carryslice_last()) || lies_outside(s, l);
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
        if (!side_has(s, &s->plan->old_side, &l, s->from, s->upto)) continue;
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
static uint64_t next_leaving(const struct carryslice *s, const struct holding_op *o, uint64_t token)
{
    struct locks_walk w;
    struct spacelock l;
    int64_t expiry_ms;
    for (locks_begin(&w, s->store, s->plan->space, token); locks_next(&w, &l, &expiry_ms);)
        if (side_has(s, &s->plan->old_side, &l, s->from, s->upto) && !lies_here(s, o, &l)) return l.token;
    return 0;
}

uint64_t carrylocks_give(struct buf *out, const struct carryslice *s, const struct holding_op *o)
{
    size_t at = out->len;
    uint64_t ops = 0;
    if (gather(out, s) == 0) return 0;
    ops += put_aside(s, slice_of(out->p + at, out->len - at));
    for (uint64_t token = 0; (token = next_leaving(s, o, token)); token++, ops++) locks_remove_one(s->store, s->plan->space, token);
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

uint64_t carrylocks_take(const struct carryslice *s, struct slice locks)
{
    struct slice in = slice_of(locks.p + HEAD, locks.n - HEAD);
    uint64_t counter = le_u64(locks.p + 8), ops = locks_counter(s->store) < counter;
    locks_raise_counter(s->store, counter);
    for (struct lock l; in.n;) {
        bool is_one = next_lock(&in, s->plan->space, &l);
        CHECK(is_one);
        if (!side_has(s, &s->plan->new_side, &l.l, s->from, s->upto) || locks_has(s->store, s->plan->space, l.l.token)) continue;
        locks_put_one(s->store, s->plan->space, &l.l, l.expiry_ms);
        ops++;
    }
    return ops;
}
