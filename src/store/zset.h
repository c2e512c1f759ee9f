/* Sorted sets: a pack member, score, ... in order while small; when larger a table of entries (member = key, 8-byte score = value)
 * and a tree of the same entries ordered by (score, member) with subtree counts (store/ordered.h).
 * Changing functions are called by store_apply only; same rules as list.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "store/entry.h"
#include "store/kit.h"

struct entry *zset_new(const struct kit *k, struct slice key);
void zset_drop(const struct kit *k, struct entry *e);
struct entry *zset_put(const struct kit *k, struct entry *e, struct slice member, double score, bool *added);
struct entry *zset_rem(const struct kit *k, struct entry *e, struct slice member, bool *removed);

uint64_t zset_len(const struct entry *e);
bool zset_score(const struct entry *e, struct slice member, double *score);
bool zset_rank(const struct entry *e, struct slice member, uint64_t *rank, double *score); /* ascending, from 0 */
uint64_t zset_order(const struct entry *e); /* of the table of a tree */
size_t zset_body_bytes(const struct entry *e);

/* Ascending rank of the first member whose (score, member) is not below the bound: for score ranges (exclusive: above score),
 * and for lexicographic ranges among equal scores. */
uint64_t zset_rank_of_score(const struct entry *e, double score, bool exclusive);
uint64_t zset_rank_of_lex(const struct entry *e, struct slice member, bool exclusive);

/* Walks from an ascending rank in either direction. */
struct zset_iter {
    _Alignas(8) unsigned char state[96];
};
void zset_iter_init(struct zset_iter *it, const struct entry *e, uint64_t rank, bool back);
bool zset_iter_next(struct zset_iter *it, struct slice *member, double *score);
void zset_scan(const struct entry *e, uint64_t *cursor, size_t want,
               void (*visit)(void *ctx, struct slice member, double score), void *ctx);

void zset_check(const struct entry *e); /* for tests: order, and that table and tree hold the same pairs */
