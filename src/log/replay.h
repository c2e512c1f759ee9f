/* Recovery of a log: which epochs are there, their ops, and the cut behind them. The rules stand at the top of replay.c.
 *
 * Three steps, each over all shards before the next: replay_survey reads a shard's files and notes what is there; replay_decide, once, says what counts; replay_shard hands out a
 * shard's ops. The first and the last may run on any threads, several shards at a time, each shard once. replay_finish, when all are done, cuts the files. Until then nothing on disk was
 * changed, so a recovery that is given up or dies leaves the log as it was. */
#pragma once
#include <stdatomic.h>

#include "log/wal.h"

struct replay;

/* Borrows dir, keeps files. after: the caller has the epochs up to this one, from a dump. */
struct replay *replay_new(const struct file_ops *files, const char *dir, uint32_t shards, wal_epoch after, bool strict);
void replay_free(struct replay *r);
/* Keeps both. When stop becomes true, surveys and hand-outs end soon after with -ECANCELED; done grows by the bytes that were handed out. */
void replay_watch(struct replay *r, const atomic_bool *stop, _Atomic uint64_t *done);

/* Keeps fn, which the hand-out calls with the keys of ops some time before it hands them out: for touching the memory that these will need. */
void replay_look_ahead(struct replay *r, void (*fn)(void *ctx, uint16_t db, struct slice key));

/* 0, or -errno and a reason: a file that cannot be read or is not of this log. */
int replay_survey(struct replay *r, uint32_t shard, struct buf *error);
/* 0, or a reason: if strict, damage; in any case a log that begins later than behind `after`, for what was in between is nowhere. */
int replay_decide(struct replay *r, struct buf *error);

/* Both steps on this thread; NULL and a reason. */
struct replay *replay_open(const struct file_ops *files, const char *dir, uint32_t shards, wal_epoch after, bool strict, struct buf *error);

/* ---- after replay_decide */

/* Records were damaged or are missing: ops may not fit the store that they are applied to. */
bool replay_is_damaged(const struct replay *r);
/* Ends of epochs after `after` that were durable once and are not in the log: damaged, or in segments that are no longer there. */
uint64_t replay_missing(const struct replay *r);
/* A segment says that it may hold the epoch behind `after`: that the log begins there is known, not only not denied. */
bool replay_reaches_back(const struct replay *r);
/* Tells every place that is damaged, in order of files. */
void replay_each_damage(const struct replay *r, void (*each)(void *ctx, const char *path, uint64_t at, uint64_t records, const char *what), void *ctx);

uint64_t replay_bytes(const struct replay *r); /* in all files */
uint64_t replay_records(const struct replay *r, uint32_t shard); /* that may be handed out, some more perhaps */

int replay_shard(struct replay *r, uint32_t shard, void (*apply)(void *ctx, uint32_t shard, const struct op *op), void *ctx, struct buf *error);

/* What was handed out, after all shards were. */
void replay_result(const struct replay *r, struct wal_replay *result);

/* Keeps damaged files aside as NAME.corrupt, truncates what does not count, syncs, and gives the sum. */
int replay_finish(struct replay *r, struct wal_replay *result, struct buf *error);
