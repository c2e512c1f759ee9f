/* The nodes of a key index, and how a key is looked for in them: for its own files alone. keyindex.c changes the tree, keyindex_walk.c reads it. */
#pragma once
#include <string.h>

#include "base/prefetch.h"
#include "store/entry.h"
#include "store/keyindex.h"

enum { KEYINDEX_LEAF_MAX = 61, KEYINDEX_INNER_MAX = 51 };

struct leaf {
    _Alignas(64) uint32_t n;
    struct leaf *prev, *next;
    struct entry *item[KEYINDEX_LEAF_MAX];
};

struct inner {
    _Alignas(64) uint32_t n;
    uint64_t head[KEYINDEX_INNER_MAX]; /* head and item: of the first entry below each child */
    struct entry *item[KEYINDEX_INNER_MAX];
    void *kid[KEYINDEX_INNER_MAX];
    uint64_t count[KEYINDEX_INNER_MAX];
    uint64_t bytes[KEYINDEX_INNER_MAX];
};

_Static_assert(sizeof(struct leaf) == 512 && sizeof(struct inner) == 2048, "nodes fill whole cache lines");

/* A key that is looked for. An entry at `alias` has this key and is not touched: it may be gone. */
struct sought {
    struct slice key;
    uint64_t head;
    const struct entry *alias;
};

/* ---- keys */

static inline bool keyindex_has_prefix(const struct keyindex *k, struct slice key)
{
    return key.n >= k->prefix.n && slice_eq(slice_of(key.p, k->prefix.n), k->prefix);
}

/* The eight bytes behind the prefix as a number, zeros behind the key's end. Different heads are in the order of their keys; equal ones say nothing. */
static inline uint64_t keyindex_head(const struct keyindex *k, struct slice key)
{
    unsigned char bytes[8] = {0};
    size_t n = key.n - k->prefix.n;
    memcpy(bytes, key.p + k->prefix.n, n < 8 ? n : 8);
    uint64_t head;
    memcpy(&head, bytes, 8);
    return __builtin_bswap64(head);
}

/* A bound without the prefix lies before all keys or behind them, and so does the head that it gets. */
static inline struct sought keyindex_sought(const struct keyindex *k, struct slice key, const struct entry *alias)
{
    struct sought s = {.key = key, .alias = alias};
    if (keyindex_has_prefix(k, key)) s.head = keyindex_head(k, key);
    else s.head = slice_cmp(key, k->prefix) < 0 ? 0 : UINT64_MAX;
    return s;
}

static inline int keyindex_compare(const struct entry *e, const struct sought *s) { return e == s->alias ? 0 : slice_cmp(entry_key(e), s->key); }

/* How many of n ascending heads are below `bound` (or equal, with or_equal). Free of branches that depend on the heads. */
static inline unsigned keyindex_heads_below(const uint64_t *head, unsigned n, uint64_t bound, bool or_equal)
{
    const uint64_t *base = head;
    if (n == 0) return 0;
    while (n > 1) {
        unsigned half = n / 2;
        uint64_t h = base[half - 1];
        base += (h < bound) | (or_equal & (h == bound)) ? half : 0;
        n -= half;
    }
    return (unsigned)(base - head) + ((*base < bound) | (or_equal & (*base == bound)));
}

/* How many of n ascending entries stand before the key (or are it, with or_equal). */
static inline unsigned keyindex_items_below(struct entry *const *item, unsigned n, const struct sought *s, bool or_equal)
{
    unsigned low = 0;
    while (low < n) {
        unsigned mid = (low + n) / 2;
        if (keyindex_compare(item[mid], s) < or_equal) low = mid + 1;
        else n = mid;
    }
    return low;
}

/* The child in which the key lies, or would: the last one whose first entry stands before it (or is it, with or_equal). */
static inline unsigned keyindex_child(const struct inner *in, const struct sought *s, bool or_equal)
{
    unsigned low = keyindex_heads_below(in->head, in->n, s->head, false);
    if (low < in->n && in->head[low] == s->head) {
        unsigned ties = keyindex_heads_below(in->head + low, in->n - low, s->head, true);
        low += keyindex_items_below(in->item + low, ties, s, or_equal);
    }
    return low ? low - 1 : 0;
}

static inline void keyindex_prefetch(const void *node)
{
    for (size_t line = 0; line < sizeof(struct leaf); line += 64) prefetch_line((const char *)node + line);
}

/* What these entries count. */
static inline uint64_t keyindex_sum_bytes(struct entry *const *item, unsigned n)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < n; i++) prefetch_line(item[i]);
    for (unsigned i = 0; i < n; i++) bytes += keyindex_entry_bytes(item[i]);
    return bytes;
}
