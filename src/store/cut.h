/* A cut: the content that a store has at one moment, taken out in slices while the store changes.
 *
 * The walk goes along the line of each database's table (table_scan), so whether it has passed a key is one comparison. store_apply asks before it changes an
 * entry that is still ahead of the walk; then the entry as it is goes out first, and what stands there afterwards is marked, so that the walk does not take
 * it for old content. The walk takes the marks away as it comes by. So every entry of that moment goes out exactly once, as it was, nothing that came later does, and an entry costs its
 * one copy whether the walk or a writer meets it first. FLUSHDB hands the old database over as a whole; SWAPDB changes nothing, for a walk belongs to a database, not to its number.
 *
 * Everything here is done by the holder of the store's token. A store has one cut at a time. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/entry.h"
#include "store/store.h"

struct cut;

/* The number is the one that the database had at the cut. The entry is borrowed. */
typedef void cut_emit(void *ctx, uint16_t db, const struct entry *e);

/* Takes a moment, whatever the size of the store. Keeps s. */
struct cut *cut_begin(struct store *s, cut_emit *emit, void *ctx);
/* Goes on past at least `want` entries, if there are so many; false when the walk is at its end. */
bool cut_step(struct cut *c, size_t want);
/* Nothing goes out any more. The walk must still be brought to its end, for the marks. */
void cut_abandon(struct cut *c);
/* After the end; or with the store about to be freed. */
void cut_free(struct cut *c);

/* How far it is: entries passed or saved, of how many there were. */
uint64_t cut_done(const struct cut *c);
uint64_t cut_total(const struct cut *c);

/* ---- for store_apply */

/* The walk of a database; db->walk is NULL when it has none, or it has passed everything. */
struct cut_walk {
    struct cut *cut;
    struct db *db;
    uint16_t id;     /* of the database at the cut */
    bool owns_db;    /* it was flushed: nobody else has it */
    uint64_t cursor;
};

/* The key's place has not been passed. */
static inline bool cut_is_ahead(const struct db *db, uint64_t hash) { return table_is_ahead(&db->keys, db->walk->cursor, hash); }
void cut_save(struct db *db, const struct entry *e); /* an entry ahead is about to change or go */
static inline void cut_mark(struct entry *e) { e->flags |= ENTRY_AFTER_CUT; } /* what is there now is no old content */
void cut_take_db(struct db *db); /* a database with a walk is about to be emptied: its arena and tables go with the walk */
