/* The cold tier: values that nobody has used for a while, compressed, in files of one process.
 *
 * A value that is put gets a reference at once and is readable from then on: first from a buffer in memory, later from its segment, a file of some 32 MiB that is written by the tier's
 * own thread. Values dropped before they were written are never written. A segment in which nothing lives is removed; one that is less than half alive is cleaned: what lives is put
 * again, its owner is told of the new reference, and the segment goes. What lies in the tier is also in dump and log (or will be, when the log is written): nothing here is ever synced, and the
 * directory is emptied at start.
 *
 * The disk: if a segment cannot be written (it is full), put refuses, the buffers stay readable, and the thread tries again every second. A value that cannot be read, or whose
 * checksum is wrong, is an error for whoever asked; it stays where it is and is counted.
 *
 * Threads: all functions may be called by any thread but for tier_step, which is the tier thread's (or, before tier_start, the one thread's of a test). put, drop, pin, unpin
 * and tier_bytes take a lock for a moment and do no I/O, so they may be called under a token. get blocks while it reads. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/compress.h"
#include "io/file.h"
#include "store/chill.h"

struct slog;
struct tier;

/* Values that cleaning has put again. The owner of each is told by the holder of its store's token: chill_move, then drop `from` if that found it, else `to`. */
struct tier_move {
    struct chill_ref from, to;
    size_t key_at, key_len; /* in keys */
    bool told;              /* the shard that has it knows */
};
struct tier_moves {
    struct tier_move *move;
    uint32_t n, cap;
    struct buf keys;
};

/* Makes or empties the directory (only files of ours are removed). Keeps files and log; NULL: the reason is in error. */
struct tier *tier_open(const struct file_ops *files, const char *dir, const struct slog *log, struct buf *error);
void tier_close(struct tier *t); /* ends the thread, removes the files */

/* moved is called on the tier's thread; whoever gets the moves calls tier_moves_done when all owners have been told. NULL: segments are not cleaned. */
void tier_start(struct tier *t, void (*moved)(void *ctx, struct tier_moves *m), void *ctx);
void tier_moves_done(struct tier *t);
/* One piece of the thread's work: writes a buffer, cleans a bit, or removes a file. False: there was none. */
bool tier_step(struct tier *t);
void tier_hook_moves(struct tier *t, void (*moved)(void *ctx, struct tier_moves *m), void *ctx); /* for tests, instead of tier_start */

void tier_set_compression(struct tier *t, enum compress_profile profile, size_t min_size);
void tier_set_pending_max(struct tier *t, size_t bytes); /* what the buffers may hold; at least 1 MiB */

enum tier_answer { TIER_TAKEN, TIER_FULL /* until the thread has written */, TIER_FAILING /* the disk takes nothing */ };
enum tier_answer tier_put(struct tier *t, struct slice key, struct slice value, struct chill_ref *ref);
enum tier_answer tier_would(struct tier *t); /* what put would answer now */
void tier_wait(struct tier *t);              /* until put would not answer TIER_FULL: for loaders */
int tier_get(struct tier *t, struct chill_ref ref, struct slice key, struct buf *value); /* 0 or -errno; appends */
bool tier_get_now(struct tier *t, struct chill_ref ref, struct slice key, struct buf *value); /* false: it would have to be read from disk */
void tier_drop(struct tier *t, struct chill_ref ref);
void tier_flush(struct tier *t); /* what is in the buffers is written soon, full or not */
/* As long as it is pinned, a value can be read although it was dropped. Pin it while it is not. */
void tier_pin(struct tier *t, struct chill_ref ref);
void tier_unpin(struct tier *t, struct chill_ref ref);

const struct chill_tier *tier_hooks(struct tier *t); /* for stores */

struct tier_stats {
    uint64_t values, segments;
    uint64_t disk_bytes;    /* size of the files */
    uint64_t live_bytes;    /* of them, records that are needed */
    uint64_t raw_bytes;     /* about what these are when unpacked */
    uint64_t pending_bytes; /* in buffers */
    uint64_t index_bytes;   /* memory for finding records */
    uint64_t puts, gets, reads /* gets from disk */, read_errors, write_errors, cleaned, moved;
    bool failing;
};
void tier_get_stats(struct tier *t, struct tier_stats *out);
size_t tier_bytes(const struct tier *t); /* memory: pending and index */
void tier_check(struct tier *t);         /* for tests: counts everything again */
