/* The ordered key spaces of a database: for each an index of its keys (store/keyindex.h). For store_apply and those few who move entries beside it; everybody else sees
 * store_index and store_order_step (store/store.h), which are implemented here, too.
 *
 * Every database has its own; of the system database every space is ordered. An entry that is indexed is marked ENTRY_ORDERED; it is in the index of space_of its key and in no other. The
 * indexes, their names and the table of them live in the database's arena, so that a flush takes everything with it. An index without keys is no index.
 *
 * A store may have all other keys in order as well, of whatever space (store->in_line): in one index, the line of its database. Those are marked ENTRY_IN_LINE, too.
 *
 * Invariant (spaceindex_check): an entry is in the index of its space, or in the line, exactly if it is marked so. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/slice.h"
#include "store/entry.h"
#include "store/keyindex.h"

struct db;
struct store;

/* What the index must know of an entry that is about to change. */
struct spaceindex_was {
    const struct entry *e; /* NULL: it is not indexed */
    uint64_t bytes;
    bool in_line;
};

static inline struct spaceindex_was spaceindex_before(const struct entry *e)
{
    if (likely(!e || !(e->flags & ENTRY_ORDERED))) return (struct spaceindex_was){0};
    return (struct spaceindex_was){e, keyindex_entry_bytes(e), e->flags & ENTRY_IN_LINE};
}
/* The key's entry was marked and has changed: `now` is it, or NULL: it is gone. Only the old one's address counts. */
void spaceindex_changed(struct store *s, struct db *db, struct slice key, struct spaceindex_was was, struct entry *now);
/* An entry that is not marked is new, or has changed: it is indexed if its space is ordered, or all keys are. */
void spaceindex_offer(struct store *s, struct db *db, struct entry *e);

/* The database has a new, empty arena; nothing of the old one is touched. */
void spaceindex_init(struct store *s, struct db *db);

size_t spaceindex_bytes(const struct db *db); /* what all of it occupies in the arena */
void spaceindex_check(const struct store *s, struct db *db);
