/* The key space of a key: the part before its last '/'; a key without one is its own key space. Pure. */
#pragma once
#include <string.h>

#include "base/slice.h"

static inline struct slice space_of(struct slice key)
{
    const char *slash = key.n ? memrchr(key.p, '/', key.n) : NULL;
    return slash ? slice_of(key.p, (size_t)(slash - key.p)) : key;
}
