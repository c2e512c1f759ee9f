/* A cold tier in memory, for tests of what stands above it: keeps images by reference, notices a reference that is used after it was dropped.
 *
 *     struct shelf shelf;
 *     shelf_init(&shelf);
 *     store->tier = &shelf.tier;
 *     shelf_chill_some(store, &rng, 3);     about every third warm entry goes to the shelf, whatever its size
 *     shelf.fail_gets = true;               nothing can be read any more */
#pragma once
#include <errno.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "store/chill.h"

struct shelf_item {
    struct buf key, image;
    bool live;
};

struct shelf {
    struct chill_tier tier;
    struct shelf_item *items;
    uint32_t n, cap;
    uint64_t puts, gets, drops;
    struct rng rng;
    bool fail_gets, full;
};

static inline struct shelf_item *shelf_item(struct shelf *s, struct chill_ref ref)
{
    CHECK(ref.segment == 7 && ref.slot < s->n && s->items[ref.slot].live);
    return &s->items[ref.slot];
}

static inline bool shelf_put(void *ctx, struct slice key, struct slice image, struct chill_ref *ref)
{
    struct shelf *s = ctx;
    if (s->full) return false;
    if (s->n == s->cap) {
        s->cap = s->cap * 2 + 64;
        s->items = mem_resize(s->items, s->cap * sizeof *s->items);
    }
    struct shelf_item *i = &s->items[s->n];
    *i = (struct shelf_item){.live = true};
    buf_add_slice(&i->key, key);
    buf_add_slice(&i->image, image);
    *ref = (struct chill_ref){7, s->n++};
    s->puts++;
    return true;
}

static inline int shelf_get(void *ctx, struct chill_ref ref, struct slice key, struct buf *image)
{
    struct shelf *s = ctx;
    struct shelf_item *i = shelf_item(s, ref);
    CHECK(slice_eq(key, buf_slice(&i->key)));
    if (s->fail_gets) return -EIO;
    buf_add_slice(image, buf_slice(&i->image));
    s->gets++;
    return 0;
}

static inline void shelf_drop(void *ctx, struct chill_ref ref)
{
    struct shelf *s = ctx;
    struct shelf_item *i = shelf_item(s, ref);
    i->live = false;
    buf_fini(&i->key);
    buf_fini(&i->image);
    s->drops++;
}

static inline void shelf_init(struct shelf *s)
{
    *s = (struct shelf){.tier = {s, shelf_put, shelf_get, shelf_drop}};
    rng_init(&s->rng, 99);
}

static inline void shelf_fini(struct shelf *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (!s->items[i].live) continue;
        buf_fini(&s->items[i].key);
        buf_fini(&s->items[i].image);
    }
    mem_free(s->items);
}

/* Chilling leaves the tables as they are, but for where their slots point to: they may be walked meanwhile. */
static inline void shelf_chill_some(struct store *s, struct rng *rng, unsigned one_in)
{
    for (uint16_t d = 0; d < STORE_DBS; d++) {
        if (!s->dbs[d]) continue;
        struct table_iter it;
        table_iter_init(&it, &s->dbs[d]->keys);
        for (struct entry *e; (e = table_iter_next(&it));)
            if (!chill_is_cold(e) && rng_below(rng, one_in) == 0) chill_out(s, d, e);
    }
}
