/* A walk: the content of all shards, or of some, at one moment, taken out while the server runs, and handed to one thread. Dumps are made by it, and published snapshots, and the snapshots of
 * Raft groups.
 *
 * It begins with a cut (store/cut.h) of the stores, all their tokens held for a moment; where all shards are walked and there is a log, at the end of one of its epochs. Then each shard's home worker walks its store in
 * slices, one per turn of its loop, and writers give out what they are about to change; both only copy. Everything else is done by the thread that runs the walk.
 *
 * What is copied and not yet taken is bounded: the walks wait for the thread, and if writers alone are too fast for it, answers to writes are held back until the log has them (journal_hold_back).
 * Without a log nothing can be held back, and the bound is what the stores held at the cut.
 *
 * A store has one cut at a time, so an engine has one walk at a time. Those who want one wait in line, first come, first served. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "shard/engine.h"

struct journal;
struct walk;

struct walk_moment {
    uint64_t epoch;   /* the last one of the log that it has; 0: there is no log, or only some shards are walked */
    int64_t unix_ms;
    uint64_t entries; /* of the stores that are walked */
};

/* Who gets the content. */
struct walk_sink {
    void *ctx;
    /* Under the shard's token: appends the entry, a warm one, to raw, and does nothing else. False: it is not wanted, and nothing was appended. */
    bool (*copy)(void *ctx, struct buf *raw, uint16_t db, const struct entry *e);
    /* Under the token: is this one wanted, whose value is cold? It comes to copy_cold later, with its image (store/image.h), on the thread. */
    bool (*wants_cold)(void *ctx, uint16_t db, const struct entry *e);
    int (*copy_cold)(void *ctx, struct buf *raw, uint16_t db, struct slice key, int64_t expiry_ms, struct slice image);

    /* On the thread: the cut is made; comes before all that follow. */
    void (*begin)(void *ctx, const struct walk_moment *m);
    /* On the thread: that many entries of a shard, one behind the other as they were appended. Negative: the walk fails with that. */
    int (*take)(void *ctx, uint32_t shard, struct slice raw, uint64_t entries);
    /* On the thread, now and then, also while waiting in line. False: the walk is not wanted any more. Reads a flag and takes no lock. */
    bool (*goes_on)(void *ctx);
};

/* Keeps both; journal is NULL if there is no log. */
struct walk *walk_new(struct engine *e, struct journal *j);
/* After all workers have ended and before the journal stops: every walk_run ends. Any thread. */
void walk_stop(struct walk *w);
void walk_free(struct walk *w); /* no walk_run is under way */

/* Bytes that may be copied and not yet taken, where memory is short; 0: as the data's size suggests. For the walks that begin from now on; any thread. */
void walk_set_backlog_max(struct walk *w, uint64_t bytes);

/* Waits its turn, walks, and returns when the stores are free again. Blocks: for threads that are no workers. 0, or the sink's or the log's error; -ECANCELED: goes_on said no, or the server stops. */
int walk_run(struct walk *w, const struct walk_sink *sink);
/* The same with these shards alone, at least one, ascending; kept until it returns. at_cut(sink->ctx) is called at the cut, with their tokens held: for who must know what else was true at that moment. It
 * must not block. May be NULL. The log is not asked for an epoch. */
int walk_run_some(struct walk *w, const struct walk_sink *sink, const uint32_t *shards, uint32_t n, void (*at_cut)(void *ctx));

/* How far a walk is; any thread. */
struct walk_progress {
    bool waits; /* in line, or for the cut */
    uint64_t done, total;   /* entries */
    uint64_t backlog_bytes; /* copied and not yet taken */
};
/* Of the walk of this sink; all zero if it has none. */
struct walk_progress walk_progress(struct walk *w, const struct walk_sink *sink);
