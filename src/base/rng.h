/* A small fast random generator (xorshift64*): sampling and random picks, never secrets. */
#pragma once
#include <stdint.h>

struct rng {
    uint64_t s;
};

static inline void rng_init(struct rng *r, uint64_t seed) { r->s = seed ? seed : 0x9e3779b97f4a7c15ull; }

static inline uint64_t rng_u64(struct rng *r)
{
    uint64_t x = r->s;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    r->s = x;
    return x * 0x2545f4914f6cdd1dull;
}

/* Uniform in [0, n); n > 0. */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)rng_u64(r) * n) >> 64);
}
