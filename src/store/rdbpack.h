/* The packed collections of Redis: ziplist, listpack, intset, zipmap. Reading only. Pure.
 *
 * Each function walks a whole blob and tells the visitor of its elements in order (a zipmap: field, value, ...). False if the blob is not
 * well formed in every byte (lengths, back lengths, counts, order of an intset) or the visitor said false; the visitor may have seen elements before. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/slice.h"

struct rdbpack_element {
    bool is_int;
    int64_t value;       /* is_int */
    struct slice bytes;  /* otherwise; points into the blob */
};

typedef bool (*rdbpack_visit)(void *ctx, const struct rdbpack_element *e);

bool rdbpack_ziplist(struct slice blob, rdbpack_visit visit, void *ctx);
bool rdbpack_listpack(struct slice blob, rdbpack_visit visit, void *ctx);
bool rdbpack_intset(struct slice blob, rdbpack_visit visit, void *ctx);
bool rdbpack_zipmap(struct slice blob, rdbpack_visit visit, void *ctx);

/* Little-endian integers of 1 to 8 bytes: unsigned, and with the sign of their highest bit. */
static inline uint64_t rdbpack_u64le(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static inline int64_t rdbpack_i64le(const uint8_t *p, unsigned bytes)
{
    CHECK(bytes >= 1 && bytes <= 8);
    unsigned spare = 64 - 8 * bytes;
    return (int64_t)(rdbpack_u64le(p, bytes) << spare) >> spare;
}
