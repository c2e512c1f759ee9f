/* The keys of one key space in byte order, for one walk: what takes the place of an index (store/keyindex.h) where the store has none that is complete. It costs a walk over all keys of the database and a sort of what it found; nothing of it
 * stays behind.
 *
 * Entries are borrowed, and so is the store, by the token's holder. Until the end no key of the space may come, change or go, but for entries that were given already. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct entry;
struct store;
struct keysort_item;

struct keysort { /* zeros: of no keys */
    struct keysort_item *items;
    size_t n, at;
};

/* Those of [start, end); end empty: no bound. In reverse: from the last one on. keysort_fini must follow. */
void keysort_init(struct keysort *k, const struct store *s, uint16_t db, struct slice space, struct slice start, struct slice end, bool reverse);
void keysort_fini(struct keysort *k);
struct entry *keysort_next(struct keysort *k); /* also those that have expired; NULL at the end, and from then on */
