/* Members: a table of entries as the body of a large collection. A hash keeps field -> value in it, a set member -> nothing, a sorted set
 * member -> 8-byte score. Inner entries are plain string entries; the body owns them.
 *
 * All memory comes from the arena of the kit that made it. An entry stays at its address until its value changes its length or it is deleted: a
 * second index over the entries (the sorted set's tree) may keep pointers as long as values keep one length.
 * One user at a time (the token's holder). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "store/entry.h"
#include "store/kit.h"
#include "store/table.h"

struct members;

struct members *members_new(const struct kit *k, size_t expected);
void members_free(struct members *m); /* with all its entries */

uint64_t members_order(const struct members *m); /* of its table, for kit.order */
uint64_t members_count(const struct members *m);
size_t members_bytes(const struct members *m); /* arena bytes of the body, its table and its entries; exact, costs nothing */

/* The member's entry, or NULL. Borrowed until the member changes. */
struct entry *members_find(const struct members *m, struct slice member);

/* member = value. Adds the member, or overwrites its value: in place when the length stays, otherwise in a new entry that replaces the old one.
 * Gives the entry; *added tells if the member is new. Borrows both slices; they must not point into m itself. */
struct entry *members_put(struct members *m, struct slice member, struct slice value, bool *added);

/* The member and its entry are gone; false if it was not there. `member` may point into the entry itself. */
bool members_del(struct members *m, struct slice member);

/* A random entry (nearly uniform), NULL if empty. r is a random number. */
struct entry *members_random(const struct members *m, uint64_t r);

/* As table_scan: cursor 0 starts and ends a walk, valid over any change. The visitor must not change m. */
void members_scan(const struct members *m, uint64_t *cursor, size_t want, void (*visit)(void *ctx, struct entry *e), void *ctx);

/* Walks all entries of a body that does not change meanwhile. */
struct members_iter {
    struct table_iter at;
};
void members_iter_init(struct members_iter *it, const struct members *m);
struct entry *members_iter_next(struct members_iter *it); /* NULL at the end */

void members_check(const struct members *m); /* for tests: table invariants, count and bytes counted again */
