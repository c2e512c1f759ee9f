/* Sorts rows in memory by (bucket, key bytes), stably: what one batch of the sorter does.
 *
 * A row is u32 key bytes, u32 value bytes, key, value, somewhere in one block of memory; an entry says where. Entries are moved, rows are not. Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/slice.h"

enum { ROWSORT_HEAD = 8 };

struct rowsort_entry {
    uint64_t prefix; /* eight bytes of the key as a number in big endian, zeros behind its end: at first its first eight */
    uint32_t at;     /* of the row in the block */
    uint32_t bucket;
};

static inline struct slice rowsort_key(const char *row)
{
    uint32_t n;
    memcpy(&n, row, 4);
    return slice_of(row + ROWSORT_HEAD, n);
}

static inline struct slice rowsort_value(const char *row)
{
    uint32_t k, n;
    memcpy(&k, row, 4);
    memcpy(&n, row + 4, 4);
    return slice_of(row + ROWSORT_HEAD + k, n);
}

static inline size_t rowsort_bytes(const char *row)
{
    uint32_t k, n;
    memcpy(&k, row, 4);
    memcpy(&n, row + 4, 4);
    return (size_t)ROWSORT_HEAD + k + n;
}

/* Eight bytes of the key from `depth` on. */
uint64_t rowsort_prefix(struct slice key, size_t depth);

/* Sorts entries that lie from the last one, in[n - 1], to the first, in[0], in order of arrival, into out; of equal keys of a bucket only the last one stays. Uses `in` as its own memory.
 * Gives how many there are in out. */
size_t rowsort(const char *rows, struct rowsort_entry *in, struct rowsort_entry *out, size_t n);
