/* Which page size a shard should have: the format's rule from the sizes of its rows. Pure.
 *
 * The rule: the smallest page in which a row whose value has the size of the 95th percentile (nearest rank) stays whole in its cell, with the longest key. Sizes beyond what the largest page
 * can hold are not told apart. */
#pragma once
#include <stdint.h>

enum { PAGESIZE_SLOTS = 8200 }; /* a value of so many bytes fits no cell but that of the largest page */

struct pagesize {
    uint64_t rows;
    uint64_t key_max;
    uint32_t values[PAGESIZE_SLOTS + 1]; /* rows by size of the value; the last: larger */
};

static inline void pagesize_add(struct pagesize *p, uint64_t key_bytes, uint64_t value_bytes)
{
    p->rows++;
    if (key_bytes > p->key_max) p->key_max = key_bytes;
    p->values[value_bytes < PAGESIZE_SLOTS ? value_bytes : PAGESIZE_SLOTS]++;
}

uint32_t pagesize_pick(const struct pagesize *p); /* 4096 without rows */
