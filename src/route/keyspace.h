/* The key space of a key: the part before its last '/'; a key without one is its own key space. Pure. */
#pragma once
#include <string.h>

#include "base/slice.h"

static inline struct slice space_of(struct slice key)
{
    const char *slash = key.n ? memrchr(key.p, '/', key.n) : NULL;
    return slash ? slice_of(key.p, (size_t)(slash - key.p)) : key;
}

/* Whether the key is one of the space's, in [start, end); end empty: no bound. */
static inline bool space_has(struct slice space, struct slice start, struct slice end, struct slice key)
{
    return slice_eq(space_of(key), space) && slice_cmp(key, start) >= 0 && (!end.n || slice_cmp(key, end) < 0);
}
