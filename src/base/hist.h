/* A log-linear histogram of durations: 16 steps per power of two, so a value is known within 6.25 %.
 * One writer; any thread may merge it into a histogram of its own meanwhile (counters are relaxed atomics). */
#pragma once
#include <stdint.h>

#define HIST_BUCKETS 640 /* ticks up to 2^40 */

struct hist {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint32_t bucket[HIST_BUCKETS];
};

static inline unsigned hist_index(uint64_t v)
{
    if (v < 16) return (unsigned)v;
    unsigned e = 63u - (unsigned)__builtin_clzll(v);
    unsigned i = (e - 3) * 16 + (unsigned)(v >> (e - 4) & 15);
    return i < HIST_BUCKETS ? i : HIST_BUCKETS - 1;
}

static inline void hist_add(struct hist *h, uint64_t v)
{
    unsigned i = hist_index(v);
    __atomic_store_n(&h->count, h->count + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&h->sum, h->sum + v, __ATOMIC_RELAXED);
    if (v > h->max) __atomic_store_n(&h->max, v, __ATOMIC_RELAXED);
    __atomic_store_n(&h->bucket[i], h->bucket[i] + 1, __ATOMIC_RELAXED);
}

void hist_merge(struct hist *into, const struct hist *from);
void hist_subtract(struct hist *from, const struct hist *earlier); /* what came since `earlier`, a copy of the same; max stays */
uint64_t hist_value(unsigned index);                      /* largest value of a bucket */
uint64_t hist_quantile(const struct hist *h, double q);   /* 0 when empty */
