/* Hashes: a pack field, value, ... while small, a table of entries (field = key, value = value) when larger.
 * Changing functions are called by store_apply only; same rules as list.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "store/entry.h"
#include "store/kit.h"

struct entry *hash_new(const struct kit *k, struct slice key);
void hash_drop(const struct kit *k, struct entry *e);
struct entry *hash_put(const struct kit *k, struct entry *e, struct slice field, struct slice value, bool *added);
struct entry *hash_del(const struct kit *k, struct entry *e, struct slice field, bool *removed);

uint64_t hash_len(const struct entry *e);
bool hash_get(const struct entry *e, struct slice field, struct slice *value);
size_t hash_body_bytes(const struct entry *e);
bool hash_random(const struct entry *e, uint64_t r, struct slice *field, struct slice *value);

struct hash_iter {
    _Alignas(8) unsigned char state[64];
};
void hash_iter_init(struct hash_iter *it, const struct entry *e);
bool hash_iter_next(struct hash_iter *it, struct slice *field, struct slice *value);
/* As table_scan: a small hash is visited whole and the cursor becomes 0. */
void hash_scan(const struct entry *e, uint64_t *cursor, size_t want,
               void (*visit)(void *ctx, struct slice field, struct slice value), void *ctx);
