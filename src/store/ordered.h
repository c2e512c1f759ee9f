/* Entries in the order of (score, key): a counted B+tree, the second index of a large sorted set.
 *
 * A leaf holds up to 30 pairs (score, entry) in eight cache lines, so a search compares scores that lie side by side and touches an entry
 * only where scores are equal. An inner node knows for each child its first pair and how many pairs are below it: rank and seek by rank
 * cost the same walk as a search. Leaves are linked both ways.
 *
 * Entries are borrowed: the tree never frees or reads their values, but it reads their keys, and keeps their addresses. An entry leaves the tree
 * before it moves or dies. Scores are never NaN; -0 and 0 are the same score.
 *
 * Invariants (ordered_check): O1 pairs are strictly ascending; O2 the pair kept for a child is the first one below it; O3 counts
 * are exact; O4 no node is empty, and two neighbours under one parent have more than ORDERED_MERGE pairs or children together; O5 the links of the
 * leaves visit them in order. One user at a time (the token's holder). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct arena;
struct entry;

struct ordered {
    struct arena *arena; /* keeps */
    void *root;          /* a leaf if height is 0; NULL if empty */
    uint64_t count;
    size_t bytes;        /* of all nodes */
    unsigned height;     /* levels of inner nodes */
};

void ordered_init(struct ordered *o, struct arena *a);
void ordered_fini(struct ordered *o); /* releases the nodes, not the entries */

/* The pair (score, key of e) must not be in the tree, or must be, respectively. */
void ordered_insert(struct ordered *o, double score, struct entry *e);
void ordered_remove(struct ordered *o, double score, const struct entry *e);
/* As remove and insert; cheap when the entry keeps its place. */
void ordered_rescore(struct ordered *o, double from, double to, struct entry *e);

/* A place between pairs. By score: before all pairs with that score. By member: likewise, with only keys compared, which is an order only
 * among equal scores (otherwise the answer is some rank, as in Redis). By both: before that pair. With `after`, behind instead of before. */
struct ordered_bound {
    enum { ORDERED_BY_SCORE, ORDERED_BY_MEMBER, ORDERED_BY_BOTH } by;
    bool after;
    double score;
    struct slice member;
};
/* How many pairs stand before the bound: the rank of the first one behind it. */
uint64_t ordered_rank(const struct ordered *o, const struct ordered_bound *b);

/* Walks from a rank in either direction; nothing may change meanwhile. */
struct ordered_iter {
    const void *leaf;
    unsigned at;
    bool back;
};
void ordered_iter_init(struct ordered_iter *it, const struct ordered *o, uint64_t rank, bool back);
bool ordered_iter_next(struct ordered_iter *it, double *score, struct entry **e);

void ordered_check(const struct ordered *o);
