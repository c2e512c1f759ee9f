#include "base/hist.h"

#include <math.h>

void hist_merge(struct hist *into, const struct hist *from)
{
    uint64_t max = __atomic_load_n(&from->max, __ATOMIC_RELAXED);
    into->count += __atomic_load_n(&from->count, __ATOMIC_RELAXED);
    into->sum += __atomic_load_n(&from->sum, __ATOMIC_RELAXED);
    if (max > into->max) into->max = max;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) into->bucket[i] += __atomic_load_n(&from->bucket[i], __ATOMIC_RELAXED);
}

void hist_subtract(struct hist *from, const struct hist *earlier)
{
    from->count -= earlier->count;
    from->sum -= earlier->sum;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) from->bucket[i] -= earlier->bucket[i];
}

uint64_t hist_value(unsigned index)
{
    if (index < 16) return index;
    if (index >= HIST_BUCKETS - 1) return UINT64_MAX; /* the last bucket takes everything larger */
    unsigned shift = index / 16 - 1;
    return ((uint64_t)(16 + index % 16 + 1) << shift) - 1;
}

uint64_t hist_quantile(const struct hist *h, double q)
{
    if (h->count == 0) return 0;
    double want = ceil(q * (double)h->count);
    uint64_t rank = want < 1 ? 1 : want > (double)h->count ? h->count : (uint64_t)want;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen < rank) continue;
        uint64_t v = hist_value(i);
        return v < h->max ? v : h->max;
    }
    return h->max;
}
