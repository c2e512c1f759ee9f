/* Key -> shard, as it is now: by the map of key spaces that is in force, or by the hash alone where there is none.
 *
 * The answer is certain only while the token of that shard is held: without it the key may move before the answer is used, so whoever routes first and takes the token afterwards compares route_version. */
#pragma once
#include <stdatomic.h>

#include "route/spaces.h"

static inline const struct space_map *route_map(const struct route *r) { return atomic_load_explicit(&r->map, memory_order_acquire); }

/* Of the map in force; 0: there is none. As long as it is the same, so is every answer. */
static inline uint64_t route_version(const struct route *r)
{
    const struct space_map *m = route_map(r);
    return likely(!m) ? 0 : m->version;
}

/* Where the shard that the map names is on this node: in a cluster a group's seat, or shard 0 if it has none here. */
static inline uint32_t route_place(const struct route *r, uint32_t shard) { return likely(!r->seats) ? shard : atomic_load_explicit(&r->seats[shard], memory_order_relaxed); }

static inline uint32_t route_key(const struct route *r, struct slice key, uint64_t hash)
{
    const struct space_map *m = route_map(r);
    if (likely(!m)) return route_shard(r, hash);
    return route_place(r, spaces_shard(m, key, hash));
}
