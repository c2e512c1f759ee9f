/* Bytes: length of the space's name u32, length of start u32, both little endian; the name, start, end. */
#include "cluster/intentspan.h"

#include "base/check.h"
#include "base/le.h"
#include "route/keyspace.h"

enum { HEAD = 8 };

bool intentspan_has(const struct intentspan *s, uint16_t db, struct slice key)
{
    if (s->db != db || slice_cmp(key, s->start) < 0 || (s->end.n && slice_cmp(key, s->end) >= 0)) return false;
    return slice_eq(space_of(key), s->space);
}

bool intentspan_eq(const struct intentspan *a, const struct intentspan *b)
{
    return a->db == b->db && slice_eq(a->space, b->space) && slice_eq(a->start, b->start) && slice_eq(a->end, b->end);
}

static bool begins_before_end_of(const struct intentspan *a, const struct intentspan *b) { return !b->end.n || slice_cmp(a->start, b->end) < 0; }

bool intentspan_overlaps(const struct intentspan *a, const struct intentspan *b)
{
    return a->db == b->db && slice_eq(a->space, b->space) && begins_before_end_of(a, b) && begins_before_end_of(b, a);
}

void intentspan_add(struct buf *out, const struct intentspan *s)
{
    CHECK(s->space.n <= UINT32_MAX && s->start.n <= UINT32_MAX);
    le_add_u32(out, (uint32_t)s->space.n);
    le_add_u32(out, (uint32_t)s->start.n);
    buf_add_slice(out, s->space);
    buf_add_slice(out, s->start);
    buf_add_slice(out, s->end);
}

bool intentspan_read(struct slice bytes, struct intentspan *s)
{
    if (bytes.n < HEAD) return false;
    size_t space = le_u32(bytes.p), start = le_u32(bytes.p + 4), all = bytes.n - HEAD;
    if (space > all || start > all - space) return false;
    const char *p = bytes.p + HEAD;
    s->space = slice_of(p, space);
    s->start = slice_of(p + space, start);
    s->end = slice_of(p + space + start, all - space - start);
    return true;
}
