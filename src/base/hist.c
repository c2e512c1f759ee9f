#include "base/hist.h"

#include <math.h>

void hist_merge(struct hist *into, const struct hist *from)
{
    into->count += from->count;
    into->sum += from->sum;
    if (from->max > into->max) into->max = from->max;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) into->bucket[i] += from->bucket[i];
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
