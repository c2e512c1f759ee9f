/* The write-ahead log: one file sequence per shard, cut into epochs that are whole or not there.
 *
 * While a shard's token is held, wal_append adds the op to the shard's open buffer. wal_cut, with all tokens held, closes the open buffers of all shards together as one
 * epoch: a point between commands of the whole server. The log thread writes a closed epoch to the files of the shards that have something in it and, if asked, syncs them. An
 * epoch is complete when every shard that took part has its end record on disk; recovery replays complete epochs in order and drops an incomplete last one everywhere. So a command
 * that spans shards is there after a crash on all of them or on none, and so is EXEC; nothing needs to know which commands those were.
 *
 * Files: DIR/shard-N/NNNNNNNNNN.wal, numbered segments. Byte layout and validity rules stand at the top of wal.c.
 *
 * Errors: 0 or negative errno. After a failed sync the log is broken for good (wal_broken): the kernel may have dropped the bytes, so it is never retried. A failed write (disk full) is
 * undone (truncated back) and may be tried again. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "store/op.h"

struct wal;

typedef uint64_t wal_epoch; /* from 1 */

struct wal_replay {
    uint64_t records, bytes, epochs;
    uint64_t dropped_records; /* of an incomplete last epoch */
    uint64_t torn_bytes;      /* cut off at ends of files */
    uint64_t bad_records;     /* damaged in the middle, skipped */
    char note[256];           /* the first thing worth telling: file, offset, what */
};

/* Opens the log of a data directory for `shards` shards, creating what is missing. Everything on disk was replayed before (wal_replay_all).
 * Gives NULL and a reason. */
struct wal *wal_open(const char *dir, uint32_t shards, uint64_t segment_bytes, struct buf *error);
void wal_close(struct wal *w); /* does not sync */

/* Calls apply for every op of every complete epoch after `after`, shard by shard, in order within the shard. May be called for one shard per thread (shard >= 0) or for all (-1).
 * strict: a damaged record stops with an error instead of being skipped. Truncates torn tails and incomplete epochs so that what follows is appended behind good bytes. */
int wal_replay_all(const char *dir, uint32_t shards, wal_epoch after, int shard, bool strict,
                   void (*apply)(void *ctx, uint32_t shard, const struct op *op), void *ctx, struct wal_replay *result, struct buf *error);

/* ---- under a shard's token */
void wal_append(struct wal *w, uint32_t shard, const struct op *op);
wal_epoch wal_open_epoch(const struct wal *w); /* the epoch that appends go to now; any thread, relaxed */
size_t wal_pending_bytes(const struct wal *w); /* appended and not yet cut, all shards; any thread */

/* ---- all tokens held. Gives the closed epoch, or 0 if nothing was appended. The previous one must have been written. */
wal_epoch wal_cut(struct wal *w);

/* ---- the log thread */
int wal_write(struct wal *w);  /* writes the closed epoch to the files; -ENOSPC etc.: nothing of it stays, call again later */
int wal_sync(struct wal *w);   /* fdatasync of all files written since the last one; failure breaks the log */
bool wal_broken(const struct wal *w);

/* Starts new segments at the next write and gives the number of the first one that will hold only epochs after `upto`; wal_drop_before deletes the older ones
 * once a dump that covers them is durable. */
uint64_t wal_rotate(struct wal *w);
int wal_drop_before(struct wal *w, uint64_t segment);

struct wal_info {
    uint64_t bytes, records, segments; /* of one shard, on disk */
};
void wal_shard_info(const struct wal *w, uint32_t shard, struct wal_info *info);
wal_epoch wal_written_epoch(const struct wal *w); /* any thread */
wal_epoch wal_synced_epoch(const struct wal *w);  /* any thread */
