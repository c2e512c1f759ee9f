/* The reader of published snapshots: one store, one snapshot of it at a time, switched as a whole.
 *
 * Threads: any number, for everything but reader_close. A read keeps to the snapshot on which it began, which lives until its last read has ended; one that begins after a switch has returned sees
 * the new one. Only one thread at a time looks for a newer snapshot; reads never wait for it.
 * Functions that can fail give 0 or a count, or a negative code and in `why` (never NULL) the words for it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "object/object.h"
#include "snapshot/history.h"
#include "snapshot/readscan.h"
#include "snapshot/readstate.h"

struct holding;
struct reader;

struct reader_options {
    enum readstate_mode mode;
    const char *cache_dir; /* NULL: no downloads; snapshots of file:// are read in place */
    uint64_t cache_bytes, page_cache_bytes;
    uint64_t auto_shard_bytes, auto_total_bytes;
    uint32_t parallel;          /* at least 1 */
    uint32_t fallback_attempts; /* 0: the newest or nothing */
    bool open_all;
    const struct history_pick *pin;        /* NULL: what _CURRENT says; borrowed */
    const struct object_options *objects; /* for stores other than the snapshot's own; kept */
};
void reader_defaults(struct reader_options *o);

/* Keeps the store. ERR_SNAPSHOT_NO_CURRENT: nothing is published; ERR_SNAPSHOT_NO_VALID: the manifest and those tried after it are malformed or missing. */
int reader_open(struct reader **r, struct object_store *store, const struct reader_options *o, struct buf *why);
void reader_close(struct reader *r); /* no call and no lease may be open; NULL is allowed */

/* ---- reading: as those of readstate.h */

int reader_get(struct reader *r, const struct snapkey *key, const struct readstate_context *context, struct buf *out, struct buf *why);
int64_t reader_get_many(struct reader *r, const struct snapkey *keys, size_t n, const struct readstate_context *context, struct readstate_answer *answers, struct buf *out, struct buf *why);

/* The snapshot of this moment, held: for several reads of one and the same, for scans, and to look at it. */
struct reader_lease {
    struct readstate *state;
    struct holding *holding; /* these two are the reader's */
    uint32_t stripe;
};
struct reader_lease reader_enter(struct reader *r);
void reader_leave(struct reader *r, struct reader_lease lease);

/* ---- switching */

enum reader_refresh {
    READER_UNCHANGED,
    READER_SWITCHED,
    READER_KEPT, /* the newer snapshot cannot be read: the old one stays, and why says why */
};
int reader_refresh(struct reader *r, struct buf *why);
/* NULL: what _CURRENT says, and follow it. Borrows. */
int reader_use(struct reader *r, const struct history_pick *pin, struct buf *why);

/* ---- state of affairs */

struct reader_report {
    bool pinned, fell_back;
    int64_t checked_ms;            /* Unix time at which _CURRENT was last read well */
    int refresh_code, shard_code;  /* 0, or of the last refresh, and of the last read that failed because of its shard and was not followed by one that went well there */
    char refresh_text[400], shard_text[400];
    uint64_t gets, keys, hits, refreshes, switches, kept;
    uint64_t requests, request_bytes, downloads, reuses, page_hits, page_misses;
};
void reader_report(struct reader *r, struct reader_report *report);
