/* Random stores with values of all types, small and large, with and without expiry, in several databases. */
#pragma once
#include <stdio.h>

#include "base/rng.h"
#include "store/op.h"
#include "store/store.h"

static const struct store_limits storerandom_limits = {
    .hash_entries = 16, .hash_value = 64, .set_ints = 64, .set_entries = 16, .set_value = 64, .zset_entries = 16, .zset_value = 64, .list_size = -2};

enum { STORERANDOM_BYTES = 4000, STORERANDOM_ITEMS = 60 };

struct storerandom {
    struct rng rng;
    struct store *store;
    uint16_t dbs[3]; /* that get keys */
    char bytes[STORERANDOM_BYTES]; /* the first half can be compressed, the second cannot */
};

static inline void storerandom_init(struct storerandom *m, uint64_t seed, uint64_t hash_seed, int64_t now_ms)
{
    *m = (struct storerandom){.dbs = {0, 7, 14}};
    rng_init(&m->rng, seed);
    m->store = store_new(hash_seed, &storerandom_limits, seed);
    m->store->now_ms = now_ms;
    for (size_t i = 0; i < sizeof m->bytes; i++) m->bytes[i] = (char)(i < sizeof m->bytes / 2 ? "abc"[i % 3] : (char)rng_u64(&m->rng));
}

static inline struct slice storerandom_bytes(struct storerandom *m, size_t max)
{
    size_t n = rng_below(&m->rng, max < sizeof m->bytes ? max + 1 : sizeof m->bytes);
    return slice_of(m->bytes + rng_below(&m->rng, sizeof m->bytes - n), n);
}

static inline void storerandom_add(struct storerandom *m, unsigned number)
{
    static const enum op_kind kinds[] = {OP_SET, OP_PUSH_TAIL, OP_SET_ADD, OP_HASH_SET, OP_ZSET_ADD};
    struct slice items[STORERANDOM_ITEMS];
    double scores[STORERANDOM_ITEMS];
    char key[600];
    size_t key_n = (size_t)snprintf(key, sizeof key, "key:%u:", number);
    if (rng_below(&m->rng, 20) == 0) key_n += (size_t)snprintf(key + key_n, sizeof key - key_n, "%0*d", (int)rng_below(&m->rng, 500), 7);
    struct op op = {.kind = kinds[rng_below(&m->rng, 5)], .db = m->dbs[rng_below(&m->rng, 3)], .key = slice_of(key, key_n), .items = items, .scores = scores};
    op.value = storerandom_bytes(m, rng_below(&m->rng, 10) ? 100 : STORERANDOM_BYTES);
    op.n_items = 2 * (1 + (uint32_t)rng_below(&m->rng, STORERANDOM_ITEMS / 2));
    if (op.kind == OP_SET && rng_below(&m->rng, 2)) op.expiry_ms = m->store->now_ms + 1 + (int64_t)rng_below(&m->rng, 1ull << 40);
    for (unsigned i = 0; i < op.n_items; i++) {
        items[i] = storerandom_bytes(m, 80);
        scores[i] = (double)(int64_t)rng_u64(&m->rng) / 1e9;
    }
    store_apply(m->store, &op, NULL);
    if (op.kind == OP_SET || rng_below(&m->rng, 3)) return;
    store_apply(m->store, &(struct op){.kind = OP_EXPIRE, .db = op.db, .key = op.key, .expiry_ms = m->store->now_ms + 1 + (int64_t)rng_below(&m->rng, 1 << 30)}, NULL);
}

static inline uint64_t storerandom_keys(const struct store *s)
{
    uint64_t n = 0;
    for (uint16_t d = 0; d < STORE_ALL_DBS; d++) n += store_keys(s, d);
    return n;
}
