/* Any bytes as an image: the check and the building agree, nothing stays allocated, and what was built survives being written and read again. */
#include <stdint.h>

#include "store/arena.h"
#include "store/hash.h"
#include "store/image.h"
#include "store/list.h"
#include "store/set.h"
#include "store/store.h"
#include "store/zset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static bool same_list(const struct entry *a, const struct entry *b)
{
    struct list_iter i, j;
    struct slice x, y;
    if (list_len(a) != list_len(b)) return false;
    list_iter_init(&i, a, 0, false);
    list_iter_init(&j, b, 0, false);
    while (list_iter_next(&i, &x))
        if (!list_iter_next(&j, &y) || !slice_eq(x, y)) return false;
    return true;
}

static bool same_set(const struct entry *a, const struct entry *b)
{
    struct set_iter i;
    struct slice x;
    if (set_len(a) != set_len(b)) return false;
    set_iter_init(&i, a);
    while (set_iter_next(&i, &x))
        if (!set_has(b, x)) return false;
    return true;
}

static bool same_hash(const struct entry *a, const struct entry *b)
{
    struct hash_iter i;
    struct slice field, x, y;
    if (hash_len(a) != hash_len(b)) return false;
    hash_iter_init(&i, a);
    while (hash_iter_next(&i, &field, &x))
        if (!hash_get(b, field, &y) || !slice_eq(x, y)) return false;
    return true;
}

static bool same_zset(const struct entry *a, const struct entry *b)
{
    struct zset_iter i, j;
    struct slice x, y;
    double s, t;
    if (zset_len(a) != zset_len(b)) return false;
    zset_iter_init(&i, a, 0, false);
    zset_iter_init(&j, b, 0, false);
    while (zset_iter_next(&i, &x, &s))
        if (!zset_iter_next(&j, &y, &t) || !slice_eq(x, y) || s != t) return false;
    return true;
}

static bool same(const struct entry *a, const struct entry *b)
{
    if (entry_type(a) != entry_type(b)) return false;
    switch (entry_type(a)) {
    case TYPE_STRING: return slice_eq(entry_value(a), entry_value(b));
    case TYPE_LIST: return same_list(a, b);
    case TYPE_SET: return same_set(a, b);
    case TYPE_HASH: return same_hash(a, b);
    default: return same_zset(a, b);
    }
}

static void drop(const struct kit *k, struct entry *e)
{
    switch (entry_type(e)) {
    case TYPE_LIST: list_drop(k, e); break;
    case TYPE_SET: set_drop(k, e); break;
    case TYPE_HASH: hash_drop(k, e); break;
    case TYPE_ZSET: zset_drop(k, e); break;
    default: break;
    }
    entry_release(k->arena, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    /* Low limits: the large encodings are reached by small inputs. */
    static const struct store_limits limits = {.hash_entries = 4, .hash_value = 16, .set_ints = 4, .set_entries = 8, .set_value = 16,
                                               .zset_entries = 4, .zset_value = 16, .list_size = 4};
    struct rng rng = {1};
    struct kit k = {.arena = arena_new(), .seed = 7, .rng = &rng, .limits = &limits};
    struct slice image = slice_of(data, n);
    struct entry *e = image_read(&k, image, SLICE("key"), 0);
    CHECK(image_valid(image) == (e != NULL));
    if (e) {
        struct buf again = {0};
        image_write(&again, e);
        struct entry *copy = image_read(&k, buf_slice(&again), SLICE("copy"), 5);
        CHECK(copy && same(e, copy));
        buf_fini(&again);
        drop(&k, copy);
        drop(&k, e);
    }
    CHECK(arena_live_bytes(k.arena) == 0);
    arena_free(k.arena);
    return 0;
}
