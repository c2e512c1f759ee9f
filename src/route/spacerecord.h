/* The map of key spaces as records in the system database (keys and values of ordinary entries), and back. Pure.
 *
 * Keys. The records of one space are themselves one key space of the system database, and each can be named without a search:
 *
 *   space/NAME                 the record of a space: in shard 0
 *   range/NAME/0123456789abcdef   a descriptor, its id in 16 hex digits: in the shard that owns the range (the old one while it moves)
 *   hash/0123456789abcdef      an interval of the hash (cluster)
 *
 * NAME is any bytes; the id has a fixed length, so no name is mistaken for another. Values: spacerecord.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "route/spaces.h"

enum spacerecord_kind { SPACERECORD_NONE /* the key is another module's */, SPACERECORD_SPACE, SPACERECORD_RANGE, SPACERECORD_HASH };

/* What a key of the system database is. Other modules keep theirs under other first words. */
enum spacerecord_kind spacerecord_kind(struct slice key);

struct spacerecord {
    uint32_t shard;           /* where it was found, or has to be put */
    struct slice key, value;
};

/* Calls put for every record that the new map has and the old one (NULL: an empty one) has not, or has otherwise; with remove for those that are no more. Removals of a key come before its put elsewhere.
 * What is the same in both maps costs nothing. Records live for the call. */
typedef void spacerecord_fn(void *ctx, const struct spacerecord *r, bool remove);
void spacerecord_diff(const struct space_map *before, const struct space_map *after, spacerecord_fn *put, void *ctx);

/* All records of all shards make a map. Records of kind NONE are passed over. If there are hash records they become the intervals of the hash, which must tile it. Borrows.
 * NULL, and why: a sentence that names the record, or the gap or overlap. Bytes are never trusted. */
struct space_map *spacerecord_map(const struct route *route, enum space_mode default_mode, uint64_t version, const struct spacerecord *records, uint32_t n, struct buf *why);
