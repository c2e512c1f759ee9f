/* A lock on a part of a key space's line as a record of the system database, and back. Pure.
 *
 * Key     lock/NAME/0123456789abcdef    the token in 16 hex digits; NAME is any bytes. The locks of one space are one key space of the system database.
 * Value   spacelock.c. When the lock ends is the record's expiry.
 *
 * The record of a lock stands, the same everywhere, in every shard that a key of its part can be in, and in no other. So whoever wants a part and holds the tokens of its shards sees every lock in his way. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum { SPACELOCK_OWNER_MAX = 1024 };

struct spacelock {
    uint64_t token; /* >= 1 */
    bool exclusive;
    struct slice start, end; /* [start, end), empty as in struct range_desc */
    struct slice owner;      /* 1 to SPACELOCK_OWNER_MAX bytes */
};

void spacelock_space(struct buf *out, struct slice name);               /* what stands before the token in the keys of a space's locks, without the slash */
bool spacelock_space_parse(struct slice key, struct slice *name);        /* the other way round */
void spacelock_key(struct buf *out, struct slice name, uint64_t token);
bool spacelock_key_parse(struct slice key, struct slice *name, uint64_t *token); /* false: it is no key of a lock */
void spacelock_value(struct buf *out, const struct spacelock *l);
bool spacelock_parse(struct spacelock *l, struct slice key, struct slice value); /* false: it is no lock. Keeps value */

bool spacelock_overlaps(const struct spacelock *l, struct slice start, struct slice end);
/* Two that cannot be held at a time: they overlap, belong to different owners, and are not both shared. */
bool spacelock_excludes(const struct spacelock *a, const struct spacelock *b);

/* ---- tokens: a sequence number above, the shard whose counter it was taken from below */

enum { SPACELOCK_SHARD_BITS = 16 };
static inline uint64_t spacelock_token(uint64_t sequence, uint32_t shard) { return sequence << SPACELOCK_SHARD_BITS | shard; }

extern const struct slice spacelock_counter; /* key of a shard's last sequence number: u64, little endian */
