/* The write-ahead log: one file sequence per shard, cut into epochs that are whole or not there.
 *
 * While a shard's token is held, wal_append adds the op to the shard's open buffer. wal_cut, with all tokens held, closes the open buffers of all shards together as one
 * epoch: a point between commands of the whole server. The log thread writes a closed epoch to the files of the shards that have something in it and, if asked, syncs them. An
 * epoch is complete when every shard that took part has its end record on disk; recovery replays complete epochs in order and drops an incomplete last one everywhere. So a command
 * that spans shards is there after a crash on all of them or on none, and so is EXEC; nothing needs to know which commands those were.
 *
 * Files: DIR/shard-N/NNNNNNNNNN.wal, numbered segments. Byte layout and what makes a record valid stand at the top of segment.c; which epochs count, and what a crash at any point
 * leaves, at the top of replay.c.
 *
 * Errors: 0 or negative errno. After a failed sync the log is broken for good (wal_broken): the kernel may have dropped the bytes, so it is never retried. A failed write (disk full) is
 * undone (truncated back) and may be tried again. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "store/op.h"

struct file_ops;
struct wal;

typedef uint64_t wal_epoch; /* from 1, without gaps */

struct wal_replay {
    uint64_t records, bytes, epochs;
    uint64_t dropped_records; /* of incomplete last epochs */
    uint64_t torn_bytes;      /* cut off at ends of files */
    uint64_t bad_records;     /* damaged or missing in the middle, skipped */
    wal_epoch last;           /* what was replayed ends with it; at least `after` */
    char note[256];           /* the first thing worth telling: file, offset, what */
};

/* Opens the log of a data directory for `shards` shards, creating what is missing. Everything on disk was replayed before (wal_replay_all): `after` is its result's `last`, and the
 * epochs of this log go on behind it, in new segments. Keeps files. Gives NULL and a reason. */
struct wal *wal_open(const struct file_ops *files, const char *dir, uint32_t shards, wal_epoch after, uint64_t segment_bytes, struct buf *error);
void wal_close(struct wal *w); /* does not sync; what was not written is gone */

/* Calls apply for every op of every complete epoch after `after`, shard by shard, in order within the shard. `shards` is the number that the log was written with; where a key
 * belongs now is the caller's to know. Then truncates torn tails and incomplete epochs, so that what follows is written behind good bytes, and makes what was replayed durable.
 * strict: a damaged or missing record stops with an error, before the first call of apply if its checksum tells. Else it is skipped, and ops behind it may not fit the store:
 * the caller looks before it applies. One thread; log/replay.h has the same in steps, for a thread per shard. */
int wal_replay_all(const struct file_ops *files, const char *dir, uint32_t shards, wal_epoch after, bool strict,
                   void (*apply)(void *ctx, uint32_t shard, const struct op *op), void *ctx, struct wal_replay *result, struct buf *error);

/* ---- under a shard's token */
void wal_append(struct wal *w, uint32_t shard, const struct op *op);
wal_epoch wal_open_epoch(const struct wal *w); /* the epoch that appends go to now; any thread, relaxed */
wal_epoch wal_last_epoch(const struct wal *w); /* the one that the last op went into; any thread, relaxed */
size_t wal_pending_bytes(const struct wal *w); /* appended and not yet cut, all shards; any thread */

/* ---- all tokens held. Gives the closed epoch, or 0 if nothing was appended. The previous one must have been written. */
wal_epoch wal_cut(struct wal *w);

/* ---- the log thread */
int wal_write(struct wal *w); /* writes the closed epoch, if there is one, to the files; -ENOSPC etc.: nothing of it stays, call again later */
int wal_sync(struct wal *w);  /* makes all that was written durable; failure breaks the log, and -EIO is all that it says from then on */
/* Both: the closed epoch is written and everything becomes durable, the files of all shards at the same time if the disk's table can. Fails like the one or the other: if the log is not broken
 * then, nothing of the epoch stays, call again later. */
int wal_commit(struct wal *w);
bool wal_broken(const struct wal *w); /* any thread */

/* Shards start new segments with their next write, so that wal_drop_before can delete those of now once their epochs are old. */
void wal_rotate(struct wal *w);
/* Deletes the segments that hold only epochs before this one: a durable dump has them. The one function that deletes files of a log. */
int wal_drop_before(struct wal *w, wal_epoch epoch);

struct wal_info {
    uint64_t bytes, segments; /* of one shard, on disk */
    uint64_t records, written; /* records and bytes written since wal_open */
};
void wal_shard_info(const struct wal *w, uint32_t shard, struct wal_info *info); /* any thread */
wal_epoch wal_written_epoch(const struct wal *w);                                /* any thread */
wal_epoch wal_synced_epoch(const struct wal *w);                                 /* any thread */
