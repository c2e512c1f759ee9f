/* Recovery of a log: which epochs are there, their ops, and the cut behind them. The rules stand at the top of replay.c.
 *
 * replay_open reads everything once and decides; replay_shard hands out one shard's ops, each shard once, on any thread, several at a time; replay_finish, when all are done, cuts
 * the files. Until then nothing on disk was changed, so a recovery that is given up or dies leaves the log as it was. */
#pragma once
#include "log/wal.h"

struct replay;

/* Borrows dir, keeps files. Gives NULL and a reason: a file that cannot be read or is not of this log; if strict, damage. */
struct replay *replay_open(const struct file_ops *files, const char *dir, uint32_t shards, wal_epoch after, bool strict, struct buf *error);
void replay_free(struct replay *r);

/* Records were damaged or are missing: ops may not fit the store that they are applied to. */
bool replay_is_damaged(const struct replay *r);

int replay_shard(struct replay *r, uint32_t shard, void (*apply)(void *ctx, uint32_t shard, const struct op *op), void *ctx, struct buf *error);

/* Keeps damaged files aside as NAME.corrupt, truncates what does not count, syncs, and gives the sum. */
int replay_finish(struct replay *r, struct wal_replay *result, struct buf *error);
