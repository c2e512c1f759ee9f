/* Loading: from the files of a layout to one store per shard.
 *
 * The newest dump set that every shard has and that is valid comes first, then the epochs of the log behind it. A set that is not whole or not valid is passed over for the one before it,
 * or for none, if the log has every epoch since: else the layout is refused. Three steps, each on a thread per shard where threads are wanted: loader_survey reads, checks and decides;
 * loader_run fills the stores; loader_finish cuts the log and keeps aside what is damaged. Before the last step nothing on disk is changed.
 *
 * Lenient: what is damaged in the log is skipped, told with file and offset, and counted; ops behind it that do not fit any more are skipped and counted too. Strict: it is refused. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "log/wal.h"
#include "shard/dumper.h"

struct file_ops;
struct loader;
struct slog;
struct store;

struct loader_progress { /* written by the loader, read by any thread */
    _Atomic uint64_t total_bytes; /* of the files to load; 0 until the survey is over */
    _Atomic uint64_t loaded_bytes;
};

struct loader_options {
    const struct file_ops *files;
    const char *dir; /* the layout's folder */
    uint32_t shards; /* of the layout */
    uint64_t seed;   /* of the key hash */
    bool strict;
    bool needs_dump; /* the layout was made with one: without any, what is there is not all of it */
    bool threads;              /* one per shard; else the caller's does everything */
    const struct slog *log;    /* where damage is told; NULL: nowhere */
    const atomic_bool *stop;   /* when it becomes true the steps end soon with -ECANCELED */
    struct loader_progress *progress;
    void (*relieve)(void *ctx, struct store *s); /* called now and then on the thread that fills s, so that values can go to the cold tier; NULL: none */
    void *relieve_ctx;
};

struct loader_result {
    struct wal_replay log;
    struct dumper_past dump; /* the set that was loaded */
    uint64_t errors;       /* damaged, missing or unfit, skipped */
};

/* Keeps everything the options point to. */
struct loader *loader_new(const struct loader_options *o);
void loader_free(struct loader *l);

/* Each gives 0, or -errno and a reason. */
int loader_survey(struct loader *l, struct buf *error);
int loader_run(struct loader *l, struct store *const *stores, struct buf *error); /* [shards], empty ones */
int loader_finish(struct loader *l, struct buf *error);

/* After loader_run. */
void loader_result(const struct loader *l, struct loader_result *out);

/* Calls step(ctx, i) for every i below n, each on a thread of its own if `threads`; gives the first error in order of i. */
int loader_parallel(uint32_t n, bool threads, int (*step)(void *ctx, uint32_t i), void *ctx);
