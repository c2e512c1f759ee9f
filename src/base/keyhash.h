/* The one hash of keys: XXH3-64 with a seed. */
#pragma once
#include <stdint.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/slice.h"

static inline uint64_t keyhash(struct slice key, uint64_t seed)
{
    return XXH3_64bits_withSeed(key.p, key.n, seed);
}
