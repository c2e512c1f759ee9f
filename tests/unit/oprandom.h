/* Random ops for tests of the log: every kind, well formed, with strings of all the lengths at which an encoding changes. Slices point
 * into the maker, until the next op. */
#pragma once
#include <stdlib.h>

#include "base/rng.h"
#include "store/op.h"
#include "store/store.h"

enum { OPRANDOM_ITEMS = 6, OPRANDOM_BYTES = 20000 };

struct oprandom {
    struct rng rng;
    struct slice items[OPRANDOM_ITEMS];
    double scores[OPRANDOM_ITEMS];
    char bytes[OPRANDOM_BYTES];
    size_t string_max; /* longest string; 0: OPRANDOM_BYTES */
    uint32_t dbs;      /* so many databases, the system's among them unless said otherwise */
};

static inline void oprandom_init(struct oprandom *r, uint64_t seed)
{
    rng_init(&r->rng, seed * 0x9e3779b97f4a7c15ull + 1);
    for (size_t i = 0; i < OPRANDOM_BYTES; i++) r->bytes[i] = (char)rng_u64(&r->rng);
    r->string_max = OPRANDOM_BYTES;
    r->dbs = STORE_ALL_DBS;
}

static inline struct slice oprandom_string(struct oprandom *r)
{
    static const size_t lengths[] = {0, 1, 5, 17, 100, 127, 128, 129, 16383, 16384};
    size_t n = lengths[rng_below(&r->rng, sizeof lengths / sizeof *lengths)];
    if (n > r->string_max) n = rng_below(&r->rng, r->string_max + 1);
    return slice_of(r->bytes + rng_below(&r->rng, OPRANDOM_BYTES - n + 1), n);
}

/* Of any size, small ones as likely as large ones. */
static inline int64_t oprandom_natural(struct oprandom *r)
{
    uint64_t v = rng_u64(&r->rng);
    return (int64_t)(v >> (1 + rng_below(&r->rng, 63)));
}

static inline struct op oprandom_of_kind(struct oprandom *r, enum op_kind kind)
{
    struct op op = {.kind = kind, .db = (uint16_t)rng_below(&r->rng, kind == OP_SWAP ? STORE_DBS : r->dbs)};
    if (kind != OP_FLUSH && kind != OP_SWAP) op.key = oprandom_string(r);
    switch (kind) {
    case OP_SET:
        if (rng_below(&r->rng, 2)) op.expiry_ms = oprandom_natural(r);
        if (rng_below(&r->rng, 4) == 0) op.expiry_ms = -op.expiry_ms; /* fall through */
    case OP_SET_VALUE:
    case OP_APPEND: op.value = oprandom_string(r); break;
    case OP_WRITE_RANGE:
        op.index = (int64_t)rng_below(&r->rng, 1 << 28);
        op.value = oprandom_string(r);
        break;
    case OP_EXPIRE: op.expiry_ms = oprandom_natural(r); break;
    case OP_LIST_REMOVE: op.index = oprandom_natural(r); /* fall through */
    case OP_POP_HEAD:
    case OP_POP_TAIL: op.count = oprandom_natural(r); break;
    case OP_LIST_SET:
    case OP_LIST_INSERT:
        op.index = oprandom_natural(r);
        op.value = oprandom_string(r);
        break;
    case OP_RESTORE: /* the image of the string "a", or of a list with one element */
        op.value = rng_below(&r->rng, 2) ? SLICE("\x00\x01" "a") : SLICE("\x01\x01\x01" "a");
        op.expiry_ms = oprandom_natural(r);
        break;
    case OP_SWAP: op.index = (int64_t)rng_below(&r->rng, STORE_DBS); break;
    case OP_DEL:
    case OP_FLUSH: break;
    default:
        op.n_items = 2 * (1 + (uint32_t)rng_below(&r->rng, OPRANDOM_ITEMS / 2));
        op.items = r->items;
        if (kind == OP_ZSET_ADD) op.scores = r->scores;
        for (uint32_t i = 0; i < op.n_items; i++) {
            r->items[i] = oprandom_string(r);
            r->scores[i] = (double)oprandom_natural(r) / 7 - 1e6;
        }
    }
    return op;
}

static inline struct op oprandom_next(struct oprandom *r) { return oprandom_of_kind(r, (enum op_kind)rng_below(&r->rng, OP_KINDS)); }

static inline bool oprandom_same(const struct op *a, const struct op *b)
{
    if (a->kind != b->kind || a->db != b->db || a->n_items != b->n_items || a->index != b->index || a->count != b->count ||
        a->expiry_ms != b->expiry_ms || !slice_eq(a->key, b->key) || !slice_eq(a->value, b->value) || !a->scores != !b->scores)
        return false;
    for (uint32_t i = 0; i < a->n_items; i++) {
        if (!slice_eq(a->items[i], b->items[i])) return false;
        if (a->scores && memcmp(&a->scores[i], &b->scores[i], sizeof *a->scores) != 0) return false;
    }
    return true;
}
