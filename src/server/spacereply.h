/* Pairs of a name and a value, as SPACE.INFO, RANGE.MAP and RANGE.LOCKS answer them. */
#pragma once
#include "resp/reply.h"

static inline void spacereply_text(struct reply *r, const char *name, const char *value)
{
    reply_bulk_str(r, name);
    reply_bulk_str(r, value);
}

static inline void spacereply_int(struct reply *r, const char *name, uint64_t value)
{
    reply_bulk_str(r, name);
    reply_int(r, (int64_t)value);
}

/* An empty bound is open: "-" or "+". */
static inline void spacereply_bound(struct reply *r, const char *name, struct slice bound, const char *open)
{
    reply_bulk_str(r, name);
    reply_bulk(r, bound.n ? bound : slice_str(open));
}
