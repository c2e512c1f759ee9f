/* What the ranges of a group hold and how much they are used: known to the node that leads it, and told by a command of the group's own.
 *
 *   range.figures        a read: numbers. Bytes and accesses per second of the group; then for each range that is in it, or partly: id, generation, whether its keys are all in order (1 or 0), keys, bytes, accesses per second, and what
 *                        its judge remembers (struct splitter_past): how often it went back and forth; ms since it was changed by hand, merged, moved, plus 1; 0: never
 *
 * Reading a reply needs no thread in particular; it comes from another node and is never trusted. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "shard/splitter.h"

struct store;

struct rangefigures {
    uint64_t bytes, ops;
    struct slice rest; /* rangefigures_next */
    int64_t left;
};

struct rangefigures_range {
    uint64_t id, generation;
    bool ordered;
    uint64_t keys, bytes, ops;
    struct splitter_past past;
};

bool rangefigures_begin(struct rangefigures *f, struct slice reply); /* false: it makes no sense */
bool rangefigures_next(struct rangefigures *f, struct rangefigures_range *out); /* false: that was all, or the rest makes no sense */

/* Keys and bytes of [start, end) in one store, in all databases, as far as they are in order; added to what is there. */
void rangefigures_weigh(const struct store *s, struct slice space, struct slice start, struct slice end, uint64_t *keys, uint64_t *bytes);
