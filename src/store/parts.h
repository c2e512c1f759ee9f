/* The parts of a value, taken out of its image (store/image.h) without building anything: what every encoding of Redis comes down to. Pure.
 *
 * Items point into the image (keeps) or into memory of the parts; parts_fini frees. Bytes come from outside: nothing is asserted. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "store/entry.h"

struct parts_block;

struct parts {
    enum type type;
    struct slice *items; /* string: 1; list: elements; set, zset: members; hash: field, value, ... */
    size_t n, cap;
    double *scores;      /* zset: one per member, never NaN */
    struct parts_block *blocks; /* numbers as text, decompressed strings */
    size_t block_left;
};

/* False if the bytes are not one whole image of a type we have, or the collection is empty. parts_fini must follow either way. */
bool parts_read(struct parts *p, struct slice image);
void parts_fini(struct parts *p);

/* No member of a set or sorted set and no field of a hash occurs twice. */
bool parts_distinct(const struct parts *p);
