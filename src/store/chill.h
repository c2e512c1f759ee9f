/* Cold entries: keys whose values are on disk. Key, type, expiry and access time stay in memory; the value of an entry with ENC_COLD is a reference of eight bytes.
 *
 * Chilling a value and warming it again change nothing that anybody can see: they are no ops, are told to no log and no watcher, and a cut (store/cut.h) that has
 * still to come by finds the same content. A value is one entry's: whoever removes or replaces a cold entry drops its reference.
 *
 * Everything here is done by the holder of the store's token. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "store/entry.h"
#include "store/store.h"

/* Where a value lies. No two values ever have the same reference, so an equal one means an unchanged value. */
struct chill_ref {
    uint32_t segment, slot;
};

static inline bool chill_same(struct chill_ref a, struct chill_ref b) { return a.segment == b.segment && a.slot == b.slot; }

/* The place that values go to (src/cold/), as a store sees it. */
struct chill_tier {
    void *ctx;
    /* Takes a copy of the value's bytes. False: not now. Never blocks. */
    bool (*put)(void *ctx, struct slice key, struct slice bytes, struct chill_ref *ref);
    /* Appends those bytes. Blocks while it reads. 0, or -errno if they cannot be read or are not what was written. */
    int (*get)(void *ctx, struct chill_ref ref, struct slice key, struct buf *bytes);
    /* The value is not needed any more. Never blocks. */
    void (*drop)(void *ctx, struct chill_ref ref);
};

/* The image (store/image.h) among a value's bytes, as the tier has them. */
struct slice chill_image(struct slice bytes);

enum {
    CHILL_MIN_BYTES = 64,      /* that a value must give back to be worth it */
    CHILL_MAX_BYTES = 8 << 20, /* larger values stay: writing their image would hold the shard for too long */
};

static inline bool chill_is_cold(const struct entry *e) { return entry_encoding(e) == ENC_COLD; }
struct chill_ref chill_ref_of(const struct entry *e); /* of a cold one */
bool chill_is_worth(const struct store *s, const struct entry *e); /* warm, and neither too small nor too large */

/* The value goes to the tier; e, a warm entry of that database, is gone afterwards. False: the tier takes nothing now, all is as it was. */
bool chill_out(struct store *s, uint16_t db, struct entry *e);

/* The entry at this place, a cold one, has this value again; at->e is the warm one. The reference is dropped, or the caller's if `lent`. False: the bytes
 * are no value of this type, nothing happened. */
bool chill_warm(struct place *at, struct slice bytes, bool lent);
/* The warm entry at this place becomes cold again with a reference that was lent: its value has not changed meanwhile. */
void chill_back(struct place *at, struct chill_ref ref);
/* Reads the value of the entry at this place, if it is cold, and warms it: for those who may block. 0 or -errno. */
int chill_fetch(struct place *at);
/* The value of a cold entry as an entry in another arena; NULL: it cannot be read. Blocks. */
struct entry *chill_copy(struct store *s, const struct entry *e, struct arena *a);

/* The value was moved within the tier. False: no entry with that key has the reference `from`. */
bool chill_move(struct store *s, struct slice key, struct chill_ref from, struct chill_ref to);

/* ---- for store_apply, and for those who take a whole database away */

/* As chill_fetch, and a value that cannot be read ends the process: only a loader meets cold values here, and what it loads is still where it comes from. Commands
 * look whether a value can be read before they change it. */
void chill_need(struct place *at);
void chill_forget(struct store *s, struct db *db, const struct entry *e); /* a cold entry goes: its reference is dropped */
/* The tables and the arena of a database that nobody can reach any more: released, if need be bit by bit, because its references have to be dropped. */
void chill_bury(struct store *s, const struct db *db);
/* Goes on with that over some entries; true while there is more. */
bool chill_bury_step(struct store *s, unsigned entries);
void chill_drop_all(struct store *s); /* of a store that is about to be freed while the tier goes on */
void chill_free_graves(struct store *s); /* the store goes, and the tier too: nothing is dropped */
