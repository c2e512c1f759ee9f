/* What a type needs to build values in a database. Borrowed for the call. */
#pragma once
#include <stdint.h>

struct arena;
struct rng;
struct store_limits;

struct kit {
    struct arena *arena;
    uint64_t seed;   /* for inner tables */
    struct rng *rng; /* for their orders */
    const struct store_limits *limits;
    uint64_t order; /* that an inner table takes, for a value that had it before: cursors of HSCAN stay good; 0: a new one */
};
