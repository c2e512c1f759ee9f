#include "snapshot/pagesize.h"

#include "snapshot/pagefile.h"

uint32_t pagesize_pick(const struct pagesize *p)
{
    uint64_t rank = p->rows - p->rows / 20, sum = 0; /* ceil(0.95 n) */
    uint64_t size = 0;
    while (size < PAGESIZE_SLOTS && (sum += p->values[size]) < rank) size++;
    return pagefile_auto_size(size, p->key_max);
}
