/* Key -> shard. Pure; used by everything that places or finds a key.
 *
 * The hash route: shard = XXH3-64(key, seed) % shards. The same 64 bits also place the key inside its shard's table
 * (store/table.h uses the upper half), so a key is hashed once in its life as a request. */
#pragma once
#include <stdint.h>

#include "base/keyhash.h"

struct space_map;

struct route {
    uint64_t seed;
    uint32_t shards; /* >= 1 */
    const struct space_map *_Atomic map; /* of key spaces (route/place.h); NULL: every key is where its hash says */
    _Atomic uint64_t shifts; /* rises whenever keys have gone to other shards, before the tokens of those are released; begins anywhere (command/cursor.h) */
    const _Atomic uint16_t *seats; /* a cluster's node: the map names groups, and this is where each of them is (shard/seating.h); NULL: it names shards */
};

static inline uint32_t route_shard(const struct route *r, uint64_t hash) { return (uint32_t)(hash % r->shards); }
