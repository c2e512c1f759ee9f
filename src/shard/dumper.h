/* The dumper: writes dump sets while the server runs, so that the log can be cut.
 *
 * A dump is a walk of all shards at the end of one epoch of the log (shard/walk.h), for which it waits its turn. The dumper's thread compresses, writes and syncs. When the set is durable, the log's
 * segments that it covers and the older sets go, never before.
 *
 * A dump begins when asked for, when a shard's log has become too long, or when the last one is old and something has changed since. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/compress.h"
#include "dump/dumpset.h"
#include "shard/engine.h"

struct dumper;
struct file_ops;
struct journal;
struct wal;
struct walk;

struct dumper_options {
    uint64_t log_bytes_max; /* of a shard since the last dump; or the size of the shard's last dump, if that is more: else a large store would be written for every few changes */
    int64_t interval_s;     /* 0: age is no reason */
    uint32_t kept;          /* sets, at least 1; the log reaches back to the oldest of them */
    enum compress_profile profile;
    size_t min_size;
};

struct dumper_past { /* what recovery found */
    bool any;        /* there is a set */
    uint64_t epoch;
    int64_t cut_ms;
    uint64_t file_bytes, entries, raw_bytes, stored_bytes;
};

static inline struct dumper_past dumper_past_of(struct dumpset_totals t, uint64_t epoch, int64_t cut_ms)
{
    return (struct dumper_past){.any = true, .epoch = epoch, .cut_ms = cut_ms, .file_bytes = t.file_bytes, .entries = t.entries, .raw_bytes = t.raw_bytes,
                                .stored_bytes = t.stored_bytes};
}

enum dumper_event { DUMPER_BEGUN, DUMPER_PROGRESS /* about every second */, DUMPER_ENDED, DUMPER_FAILED };

enum dumper_reason { DUMPER_ASKED, DUMPER_LOG_LONG, DUMPER_AGE };

struct dumper_info {
    bool running;
    enum dumper_reason reason;   /* of the running or last one */
    int64_t began_ms;            /* the running one; unix */
    uint64_t entries_done, entries_total; /* of the running one */
    uint64_t backlog_bytes;      /* copied and not yet written */
    struct dumper_past last;     /* the newest whole set */
    int64_t last_duration_ms;    /* of the last one that ended well in this process; -1: none */
    int last_error;              /* of the last one that ended; 0: well */
    int drop_error;              /* older sets could not be deleted, though the newest is whole; 0: they could */
    uint64_t ended, failed;      /* in this process */
    uint32_t log_shard;          /* the shard whose log since its last dump is nearest to where a dump begins, or furthest beyond */
    uint64_t log_bytes, log_limit; /* its log since then, and where that is */
};

/* Keeps engine, walk, journal, wal and files, borrows the rest. told(ctx, event) is called on the dumper's thread. */
struct dumper *dumper_new(struct engine *e, struct walk *walk, struct journal *j, struct wal *w, const struct file_ops *files, const char *dir, const struct dumper_options *options,
                          const struct dumper_past *past, void (*told)(void *ctx, enum dumper_event event), void *ctx);
void dumper_start(struct dumper *d);
/* After all workers have ended, walk_stop, and before the journal stops: gives up a dump that is running and ends the thread. */
void dumper_stop(struct dumper *d);
void dumper_free(struct dumper *d);

/* ---- any thread */
void dumper_set_options(struct dumper *d, const struct dumper_options *o);
/* Asks for a dump that has everything up to now; gives its ticket. */
uint64_t dumper_ask(struct dumper *d);
/* Has that dump ended? *error: 0, or why it failed. */
bool dumper_is_done(struct dumper *d, uint64_t ticket, int *error);
void dumper_info(struct dumper *d, struct dumper_info *info);
