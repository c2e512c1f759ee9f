/* Walks a snapshot in order of stored keys: the shards' cursors, merged. One thread per scan; the state outlives it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct readscan;
struct readstate;

/* Keys k with from <= k < to, as they are stored; nothing is above an absent `to`. */
struct readscan_range {
    struct buf from, to; /* owned by the range */
    bool has_to;
    bool reverse;
    bool one_shard;
    uint32_t shard; /* its id */
};
void readscan_range_fini(struct readscan_range *r); /* zeroed is allowed */

/* Each narrows the range. */
void readscan_from(struct readscan_range *r, struct slice key, bool without_it);
void readscan_to(struct readscan_range *r, struct slice key, bool with_it);
void readscan_prefix(struct readscan_range *r, struct slice prefix);

/* Opens the shards that are needed, several at a time. Borrows range. 0, or an error and why. */
int readscan_open(struct readscan **scan, struct readstate *s, const struct readscan_range *range, struct buf *why);
void readscan_close(struct readscan *scan); /* NULL is allowed */

/* 1 and the next row, which lives until the next call; 0: there are no more; or an error and why. */
int readscan_next(struct readscan *scan, struct slice *key, struct slice *value, struct buf *why);
