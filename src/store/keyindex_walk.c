/* Reading the tree: positions, walks, sums. */
#include "store/keyindex_own.h"

/* How many entries, and bytes if asked for, stand before the key. */
struct before {
    uint64_t count, bytes;
    struct keyindex_at at; /* of the first entry that does not; at the leaf's end it is the next leaf's first one */
};

static struct before before_key(const struct keyindex *k, struct slice key, bool want_bytes)
{
    struct before b = {0};
    if (!k->root) return b;
    struct sought s = keyindex_sought(k, key, NULL);
    const void *node = k->root;
    for (unsigned level = 0; level < k->height; level++) {
        const struct inner *in = node;
        unsigned at = keyindex_child(in, &s, false);
        node = in->kid[at];
        keyindex_prefetch(node);
        for (unsigned i = 0; i < at; i++) {
            b.count += in->count[i];
            b.bytes += in->bytes[i];
        }
    }
    const struct leaf *l = node;
    b.at = (struct keyindex_at){l, keyindex_items_below(l->item, l->n, &s, false)};
    b.count += b.at.at;
    if (want_bytes) b.bytes += keyindex_sum_bytes(l->item, b.at.at);
    return b;
}

/* ---- walks */

static struct entry *nowhere(struct keyindex_at *at)
{
    *at = (struct keyindex_at){0};
    return NULL;
}

static struct entry *entry_at(const struct keyindex_at *at) { return ((const struct leaf *)at->leaf)->item[at->at]; }

struct entry *keyindex_seek(const struct keyindex *k, struct slice key, struct keyindex_at *at)
{
    *at = before_key(k, key, false).at;
    const struct leaf *l = at->leaf;
    if (l && at->at == l->n) *at = (struct keyindex_at){l->next, 0};
    return at->leaf ? entry_at(at) : nowhere(at);
}

struct entry *keyindex_before(const struct keyindex *k, struct slice key, struct keyindex_at *at)
{
    *at = before_key(k, key, false).at;
    return at->leaf ? keyindex_prev(at) : nowhere(at);
}

struct entry *keyindex_nth(const struct keyindex *k, uint64_t n, struct keyindex_at *at)
{
    if (n >= k->count) return nowhere(at);
    const void *node = k->root;
    for (unsigned level = 0; level < k->height; level++) {
        const struct inner *in = node;
        unsigned i = 0;
        while (n >= in->count[i]) n -= in->count[i++];
        node = in->kid[i];
    }
    *at = (struct keyindex_at){node, (unsigned)n};
    return entry_at(at);
}

struct entry *keyindex_last(const struct keyindex *k, struct keyindex_at *at)
{
    return k->count ? keyindex_nth(k, k->count - 1, at) : nowhere(at);
}

struct entry *keyindex_next(struct keyindex_at *at)
{
    const struct leaf *l = at->leaf;
    if (!l) return NULL;
    if (++at->at == l->n) *at = (struct keyindex_at){l->next, 0};
    return at->leaf ? entry_at(at) : nowhere(at);
}

struct entry *keyindex_prev(struct keyindex_at *at)
{
    const struct leaf *l = at->leaf;
    if (!l) return NULL;
    if (at->at == 0) *at = (struct keyindex_at){l->prev, l->prev ? l->prev->n : 0};
    if (!at->leaf) return nowhere(at);
    at->at--;
    return entry_at(at);
}

/* ---- sums */

uint64_t keyindex_count(const struct keyindex *k, struct slice start, const struct slice *end)
{
    uint64_t first = start.n ? before_key(k, start, false).count : 0, last = end ? before_key(k, *end, false).count : k->count;
    return last > first ? last - first : 0;
}

uint64_t keyindex_bytes(const struct keyindex *k, struct slice start, const struct slice *end)
{
    uint64_t first = start.n ? before_key(k, start, true).bytes : 0, last = end ? before_key(k, *end, true).bytes : k->bytes;
    return last > first ? last - first : 0;
}

/* The first entry with at least so many bytes of the whole tree before it. NULL: there is none. */
static struct entry *at_bytes(const struct keyindex *k, uint64_t bytes)
{
    if (bytes >= k->bytes) return NULL;
    const void *node = k->root;
    for (unsigned level = 0; level < k->height; level++) {
        const struct inner *in = node;
        unsigned i = 0;
        while (bytes >= in->bytes[i]) bytes -= in->bytes[i++];
        node = in->kid[i];
    }
    const struct leaf *l = node;
    struct keyindex_at at = {l, 0};
    for (size_t here; bytes >= (here = keyindex_entry_bytes(l->item[at.at])); at.at++) bytes -= here;
    return bytes ? keyindex_next(&at) : entry_at(&at); /* the byte lies within this entry, or it is its first one */
}

struct entry *keyindex_at_bytes(const struct keyindex *k, struct slice start, const struct slice *end, uint64_t bytes)
{
    struct keyindex_at at;
    struct entry *last = end ? keyindex_before(k, *end, &at) : keyindex_last(k, &at);
    if (!last || slice_cmp(entry_key(last), start) < 0) return NULL;
    struct entry *e = at_bytes(k, before_key(k, start, true).bytes + bytes);
    return e && slice_cmp(entry_key(e), entry_key(last)) < 0 ? e : last;
}

struct entry *keyindex_median(const struct keyindex *k, struct slice start, const struct slice *end)
{
    return keyindex_at_bytes(k, start, end, keyindex_bytes(k, start, end) / 2);
}
