/* The entries of one ordered key space in byte order of their keys (memcmp, then length): a counted B+tree.
 *
 * A leaf holds up to 61 entries' addresses and nothing else: 8 bytes per key. An inner node knows for each child its first entry, eight bytes of that one's key behind what all keys have in common
 * (so that a search above the leaves hardly touches entries), how many entries are below it, and how many bytes these take. So an ordered scan, the number of keys
 * between two keys and the key in the middle of the bytes cost one or two walks from the root. Leaves are linked both ways.
 *
 * Entries are borrowed: the tree never frees them, but reads their keys and, in splits and sums, their sizes (keyindex_entry_bytes). Whoever moves an entry or changes its size tells the tree
 * before the tree is used again; then `old` is only an address, the entry may be gone by then.
 *
 * Invariants (keyindex_check): K1 keys are strictly ascending and begin with the prefix; K2 what is kept of a child's first entry is right; K3 counts and bytes are exact; K4 no node is empty, and two neighbours under
 * one parent would not fit into one with room to spare; K5 the links of the leaves visit them in order.
 * One user at a time (the token's holder); the nodes are in the arena. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct arena;
struct entry;

struct keyindex {
    struct arena *arena; /* keeps */
    struct slice prefix; /* keeps; every key begins with it */
    void *root;          /* a leaf if height is 0; NULL if empty */
    uint64_t count;
    uint64_t bytes;      /* of all entries */
    size_t node_bytes;   /* of the tree itself */
    unsigned height;     /* levels of inner nodes */
};

void keyindex_init(struct keyindex *k, struct arena *a, struct slice prefix);
void keyindex_fini(struct keyindex *k); /* releases the nodes, not the entries */

size_t keyindex_entry_bytes(const struct entry *e); /* what an entry counts: its block and its body, as store_entry_bytes */

/* ---- changes: each ends all positions */

void keyindex_add(struct keyindex *k, struct entry *e); /* its key is not in the tree */
/* `old` is in the tree under this key and counts old_bytes. */
void keyindex_remove(struct keyindex *k, struct slice key, const struct entry *old, uint64_t old_bytes);
/* `now` takes its place: at another address, of another size, or both. The key is the same; it may be now's own. */
void keyindex_replace(struct keyindex *k, struct slice key, const struct entry *old, uint64_t old_bytes, struct entry *now);

/* ---- walks: a position is good until the next change; whoever goes on later seeks the key again */

struct keyindex_at {
    const void *leaf; /* NULL: nowhere */
    unsigned at;
};

/* Each sets the position and gives its entry; NULL, and nowhere: there is none. */
struct entry *keyindex_seek(const struct keyindex *k, struct slice key, struct keyindex_at *at);   /* the first one at or after the key */
struct entry *keyindex_before(const struct keyindex *k, struct slice key, struct keyindex_at *at); /* the last one before it */
struct entry *keyindex_nth(const struct keyindex *k, uint64_t n, struct keyindex_at *at);          /* from 0 */
struct entry *keyindex_last(const struct keyindex *k, struct keyindex_at *at);
struct entry *keyindex_next(struct keyindex_at *at);
struct entry *keyindex_prev(struct keyindex_at *at);

/* ---- sums over [start, end): end NULL: to the last one; start empty: from the first one */

uint64_t keyindex_count(const struct keyindex *k, struct slice start, const struct slice *end);
uint64_t keyindex_bytes(const struct keyindex *k, struct slice start, const struct slice *end);
/* The first entry of [start, end) with at least so many bytes of that interval before it; if there is none, the interval's last one; NULL: it is empty. Half of keyindex_bytes
 * gives the median, any part of it that part. It is another entry than the first one as soon as there are two entries and bytes > 0. */
struct entry *keyindex_at_bytes(const struct keyindex *k, struct slice start, const struct slice *end, uint64_t bytes);
struct entry *keyindex_median(const struct keyindex *k, struct slice start, const struct slice *end);

void keyindex_check(const struct keyindex *k);
