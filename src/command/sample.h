/* Random choices from a collection: HRANDFIELD, SPOP, SRANDMEMBER, ZRANDMEMBER. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

/* A negative count asks for that many picks with repetition; more than this would hold a shard for seconds. */
enum { SAMPLE_REPEAT_MAX = 1 << 24 };

/* Selection sampling (Knuth, TAOCP 3.4.2, algorithm S): asked once for each of `left` candidates in their order, it takes exactly `want` of them, every
 * subset equally likely. */
static inline bool sample_take(struct rng *r, uint64_t *want, uint64_t *left)
{
    bool take = rng_below(r, *left) < *want;
    --*left;
    *want -= take;
    return take;
}

/* Whether distinct picks should be drawn one by one, with repetitions thrown away, rather than by a walk over all n: cheap while few are wanted. */
static inline bool sample_by_drawing(uint64_t want, uint64_t n) { return want * 3 <= n; }

/* A set of addresses: what was drawn already. */
struct sample_seen {
    const void **slots;
    uint64_t mask;
};
void sample_seen_init(struct sample_seen *s, uint64_t capacity); /* room for that many */
void sample_seen_fini(struct sample_seen *s);
bool sample_seen_add(struct sample_seen *s, const void *p); /* false if it was there */
