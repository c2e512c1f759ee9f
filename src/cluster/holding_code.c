/* Numbers are little endian; a value ends exactly where its last field does. What is accepted is written as the same bytes again.
 *
 *   plan    0 version u8, 1 | 1 flags u8 | 2 zero u16 | 4 operation u64 | 12 pieces of the old side u32 | 16 of the new side u32 | 20 lengths of space, start and end u32 each
 *           if it is of the hash: first u64 | last u64
 *           space, start, end | pieces of the old side, then of the new: group u32, length of its end u32, end
 *   op      0 version u8, 1 | 1 flags u8 | 2 zero u16 | 4 term u64 | 12 lengths of low, gone and high u32 each | 24 low, gone, high | its plan
 *
 *   flags   plan: 1 the old side is hashed, 2 the new side is; such a side has no pieces. 4 it is of an interval of the hash: then neither is, and it has no space. op: 1 low is behind all keys, 2 gone is, 4 high is; such a bound has no bytes
 *
 * A plan makes sense if its line has room for a key, and the pieces of each side tile it: ends rise, and the last one is the plan's. An op makes sense if low and gone are not above high. */
#include "cluster/holding.h"

#include <errno.h>
#include <inttypes.h>

#include "base/le.h"
#include "base/mem.h"
#include "cluster/meta.h"
#include "route/spaces.h"

enum { VERSION = 1, OLD_HASHED = 1, NEW_HASHED = 2, OF_HASH = 4, LOW_AT_END = 1, GONE_AT_END = 2, HIGH_AT_END = 4, PLAN_HEAD = 32, INTERVAL = 16, PIECE_HEAD = 8, OP_HEAD = 24 };

/* ---- keys */

void holding_op_key(struct buf *out, uint64_t op) { buf_printf(out, "own/op/%016" PRIx64, op); }

struct slice holding_map_key(void) { return SLICE("own/map"); }

/* ---- out */

static void add_head(struct buf *out, unsigned flags)
{
    const char head[4] = {VERSION, (char)flags};
    buf_add(out, head, sizeof head);
}

static void add_length(struct buf *out, struct slice s)
{
    CHECK(s.n <= UINT32_MAX);
    le_add_u32(out, (uint32_t)s.n);
}

static void add_pieces(struct buf *out, const struct holding_side *s)
{
    CHECK(s->hashed ? s->n == 0 : s->n > 0 && s->n <= HOLDING_PIECES_MAX);
    for (uint32_t i = 0; i < s->n; i++) {
        le_add_u32(out, s->pieces[i].group);
        add_length(out, s->pieces[i].end);
        buf_add_slice(out, s->pieces[i].end);
    }
}

void holding_plan_encode(struct buf *out, const struct holding_plan *p)
{
    add_head(out, (p->old_side.hashed ? OLD_HASHED : 0) | (p->new_side.hashed ? NEW_HASHED : 0) | (p->of_hash ? OF_HASH : 0));
    le_add_u64(out, p->op);
    le_add_u32(out, p->old_side.n);
    le_add_u32(out, p->new_side.n);
    add_length(out, p->space);
    add_length(out, p->start);
    add_length(out, p->end);
    if (p->of_hash) {
        le_add_u64(out, p->first);
        le_add_u64(out, p->last);
    }
    buf_add_slice(out, p->space);
    buf_add_slice(out, p->start);
    buf_add_slice(out, p->end);
    add_pieces(out, &p->old_side);
    add_pieces(out, &p->new_side);
}

void holding_op_encode(struct buf *out, const struct holding_op *o)
{
    add_head(out, (o->low.at_end ? LOW_AT_END : 0) | (o->gone.at_end ? GONE_AT_END : 0) | (o->high.at_end ? HIGH_AT_END : 0));
    le_add_u64(out, o->term);
    add_length(out, o->low.key);
    add_length(out, o->gone.key);
    add_length(out, o->high.key);
    buf_add_slice(out, o->low.key);
    buf_add_slice(out, o->gone.key);
    buf_add_slice(out, o->high.key);
    holding_plan_encode(out, &o->plan);
}

/* ---- in */

static bool is_head(struct slice in, size_t n, unsigned flags) { return in.n >= n && in.p[0] == VERSION && (unsigned char)in.p[1] <= flags && !in.p[2] && !in.p[3]; }

static bool take(struct slice *in, size_t n, struct slice *out)
{
    if (n > in->n) return false;
    *out = slice_of(in->p, n);
    *in = slice_of(in->p + n, in->n - n);
    return true;
}

/* Three slices whose lengths stand at the address. */
static bool take_three(struct slice *in, const char *lengths, struct slice *a, struct slice *b, struct slice *c)
{
    return take(in, le_u32(lengths), a) && take(in, le_u32(lengths + 4), b) && take(in, le_u32(lengths + 8), c);
}

static bool take_piece(struct slice *in, struct holding_piece *out)
{
    struct slice head;
    if (!take(in, PIECE_HEAD, &head)) return false;
    out->group = le_u32(head.p);
    return out->group < META_GROUPS_MAX && take(in, le_u32(head.p + 4), &out->end);
}

/* The end of a piece that begins at `start` is behind it. */
static bool is_behind(struct slice end, struct slice start) { return end.n == 0 || slice_cmp(end, start) > 0; }

static bool take_side(struct slice *in, const struct holding_plan *p, struct holding_side *s, struct holding_piece *pieces)
{
    struct slice at = p->start;
    s->pieces = pieces;
    for (uint32_t i = 0; i < s->n; i++) {
        bool last = i == s->n - 1;
        if (!take_piece(in, &pieces[i]) || !is_behind(pieces[i].end, at)) return false;
        if (last ? !slice_eq(pieces[i].end, p->end) : pieces[i].end.n == 0) return false;
        at = pieces[i].end;
    }
    return true;
}

static bool take_interval(struct slice *in, struct holding_plan *p)
{
    struct slice bytes;
    if (!take(in, INTERVAL, &bytes)) return false;
    p->of_hash = true;
    p->first = le_u64(bytes.p);
    p->last = le_u64(bytes.p + 8);
    return p->first <= p->last && !p->old_side.hashed && !p->new_side.hashed;
}

static bool is_of_nothing_else(const struct holding_plan *p) { return p->space.n == 0 && p->start.n == 0 && p->end.n == 0; }

static bool is_count(const struct holding_side *s) { return s->hashed ? s->n == 0 : s->n > 0 && s->n <= HOLDING_PIECES_MAX; }

int holding_plan_decode(struct slice bytes, struct holding_plan *p, void **storage)
{
    *storage = NULL;
    *p = (struct holding_plan){0};
    if (!is_head(bytes, PLAN_HEAD, OLD_HASHED | NEW_HASHED | OF_HASH)) return -EBADMSG;
    const char *head = bytes.p;
    struct slice rest = slice_of(head + PLAN_HEAD, bytes.n - PLAN_HEAD);
    p->op = le_u64(head + 4);
    p->old_side = (struct holding_side){.hashed = head[1] & OLD_HASHED, .n = le_u32(head + 12)};
    p->new_side = (struct holding_side){.hashed = head[1] & NEW_HASHED, .n = le_u32(head + 16)};
    if (!is_count(&p->old_side) || !is_count(&p->new_side)) return -EBADMSG;
    if (head[1] & OF_HASH && !take_interval(&rest, p)) return -EBADMSG;
    if (!take_three(&rest, head + 20, &p->space, &p->start, &p->end) || p->space.n > SPACES_NAME_MAX || !is_behind(p->end, p->start)) return -EBADMSG;
    if (p->of_hash && !is_of_nothing_else(p)) return -EBADMSG;
    struct holding_piece *pieces = mem_zalloc((p->old_side.n + p->new_side.n + 1) * sizeof *pieces);
    *storage = pieces;
    bool fine = take_side(&rest, p, &p->old_side, pieces) && take_side(&rest, p, &p->new_side, pieces + p->old_side.n) && rest.n == 0;
    return fine ? 0 : -EBADMSG;
}

static bool is_bound(struct holding_bound b) { return !b.at_end || b.key.n == 0; }

int holding_op_decode(struct slice bytes, struct holding_op *o, void **storage)
{
    *storage = NULL;
    *o = (struct holding_op){0};
    if (!is_head(bytes, OP_HEAD, LOW_AT_END | GONE_AT_END | HIGH_AT_END)) return -EBADMSG;
    const char *head = bytes.p;
    struct slice rest = slice_of(head + OP_HEAD, bytes.n - OP_HEAD);
    o->term = le_u64(head + 4);
    o->low.at_end = head[1] & LOW_AT_END;
    o->gone.at_end = head[1] & GONE_AT_END;
    o->high.at_end = head[1] & HIGH_AT_END;
    if (!take_three(&rest, head + 12, &o->low.key, &o->gone.key, &o->high.key)) return -EBADMSG;
    if (!is_bound(o->low) || !is_bound(o->gone) || !is_bound(o->high)) return -EBADMSG;
    if (holding_bound_cmp(o->low, o->high) > 0 || holding_bound_cmp(o->gone, o->high) > 0) return -EBADMSG;
    return holding_plan_decode(rest, &o->plan, storage);
}
