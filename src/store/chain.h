/* A chain: the body of a large list, packs in a doubly linked row of nodes.
 *
 * A node is one block: its links and a window of pack elements (store/pack.h, without the count in front) somewhere in its data. Free bytes may
 * lie on either side of the window, so that pushing and popping at both ends moves nothing. Only the two end nodes keep room to grow;
 * a node that others are pushed over is cut to its size.
 *
 * Invariants (chain_check): C1 no node is empty; C2 a node stays within the limit unless it holds a single element; C3 no two neighbours
 * together fit half the limit, so that a chain of n bytes has O(n / limit) nodes whatever was removed; C4 counts are exact; C5 the finger, if there
 * is one, is a node of the chain with its right index.
 * (C2 and C3 hold for chains that were always edited with the same limit; another one does no harm.)
 *
 * Indexes are from 0 at the head and must be in range. Values are borrowed and must not point into the chain. All memory comes from the arena. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct arena;

struct chain_limit {
    uint32_t bytes; /* of the elements of one node */
    uint32_t count;
};

struct chain_node {
    struct chain_node *prev, *next;
    uint32_t count;      /* elements */
    uint32_t start, end; /* the window: data[start..end) */
    uint32_t cap;        /* bytes of data */
    char data[];
};

struct chain {
    struct chain_node *head, *tail;
    uint64_t len; /* elements */
    uint64_t nodes;
    uint64_t bytes; /* that the nodes occupy in the arena */
    struct chain_node *finger; /* where the last removal was; NULL if unknown. LREM removes at many places in a row, none far from the last */
    uint64_t finger_index;     /* of its first element */
};

/* list-max-listpack-size: -1..-5 are 4, 8, 16, 32, 64 KiB per node, a positive number is elements per node (and 8 KiB). */
struct chain_limit chain_limit_of(int32_t list_size);
bool chain_fits(struct chain_limit limit, uint64_t bytes, uint64_t count);
struct chain_limit chain_half(struct chain_limit limit); /* where shrinking starts: far from where growing splits */

struct chain *chain_new(struct arena *a);
void chain_free(struct arena *a, struct chain *c);
/* The elements of a pack (without its header) as the first node of an empty chain. */
void chain_adopt(struct arena *a, struct chain *c, struct slice elements, uint32_t count);

void chain_push(struct arena *a, struct chain *c, struct chain_limit limit, bool head, struct slice value);
void chain_set(struct arena *a, struct chain *c, struct chain_limit limit, uint64_t index, struct slice value);
void chain_insert(struct arena *a, struct chain *c, struct chain_limit limit, uint64_t index, struct slice value);
void chain_remove(struct arena *a, struct chain *c, struct chain_limit limit, uint64_t index, uint64_t count);

/* The node's elements in the shape of a pack, for pack_first, _next, _prev, _last, _get and _find: its header must not be read. */
struct slice chain_pack(const struct chain_node *n);
/* The node that holds the element, and the element's offset in its pack. */
struct chain_node *chain_seek(const struct chain *c, uint64_t index, size_t *off);

size_t chain_bytes(const struct chain *c); /* what it occupies in the arena */
void chain_check(const struct chain *c, struct chain_limit limit);
