/* Lists: one pack in the entry's value while small, a chain of packs (store/chain.h) when larger.
 * Changing functions are called by store_apply only; they take the entry and give its (perhaps new) address, and may leave an empty list:
 * the caller deletes it. Indexes are from 0 at the head and must be in range. Values must not point into the list itself. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "store/entry.h"
#include "store/kit.h"

struct entry *list_new(const struct kit *k, struct slice key);
void list_drop(const struct kit *k, struct entry *e); /* releases the body, not the entry */
struct entry *list_push(const struct kit *k, struct entry *e, bool head, const struct slice *items, uint32_t n);
struct entry *list_pop(const struct kit *k, struct entry *e, bool head, uint64_t count);
struct entry *list_set(const struct kit *k, struct entry *e, uint64_t index, struct slice value);
struct entry *list_insert(const struct kit *k, struct entry *e, uint64_t index, struct slice value);
struct entry *list_remove(const struct kit *k, struct entry *e, uint64_t index, uint64_t count);

uint64_t list_len(const struct entry *e);
size_t list_body_bytes(const struct entry *e); /* outside the entry */
void list_check(const struct kit *k, const struct entry *e); /* for tests: structure, counts, limits */

/* Walks in either direction from an index. Values are borrowed until the next change. */
struct list_iter {
    const struct entry *e;
    void *node; /* NULL: the list is one pack */
    struct slice pack;
    size_t off;
    bool back, done;
};
void list_iter_init(struct list_iter *it, const struct entry *e, uint64_t index, bool back);
bool list_iter_next(struct list_iter *it, struct slice *value);
