/* A log-linear histogram of durations: 16 steps per power of two, so a value is known within 6.25 %.
 * One writer; readers may merge a copy. */
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
    h->count++;
    h->sum += v;
    if (v > h->max) h->max = v;
    h->bucket[hist_index(v)]++;
}

void hist_merge(struct hist *into, const struct hist *from);
uint64_t hist_value(unsigned index);                      /* largest value of a bucket */
uint64_t hist_quantile(const struct hist *h, double q);   /* 0 when empty */
