/* Ranges of sorted sets: arguments -> range -> ranks. By rank, by score or by member, everything that ZRANGE, ZCOUNT, ZREMRANGE... select is
 * one run of neighbours, so after zspan_find they differ no more. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "command/command.h"

enum zspan_by { ZSPAN_RANK, ZSPAN_SCORE, ZSPAN_LEX };

struct zspan_end {
    int64_t rank;        /* by rank: negative counts from the end */
    double score;        /* by score */
    struct slice member; /* by member; borrows the argument */
    bool exclusive;
    bool lowest, highest; /* "-" and "+" */
};

struct zspan_range {
    enum zspan_by by;
    struct zspan_end min, max;
};

/* Ascending ranks, start <= end; end is behind the last. */
struct zspan {
    uint64_t start, end;
};

/* Reads the two ends; answers the error and gives false if one is bad. */
bool zspan_parse(struct exec *x, enum zspan_by by, struct slice min, struct slice max, struct zspan_range *r);
struct zspan zspan_find(const struct entry *e, const struct zspan_range *r);

static inline uint64_t zspan_len(struct zspan s) { return s.end - s.start; }

/* The same ranks counted from the other end of a set of n members. */
static inline struct zspan zspan_mirror(struct zspan s, uint64_t n) { return (struct zspan){n - s.end, n - s.start}; }
