/* What the shared Raft log knows of its groups without looking at the disk: hard state, mark, where each living entry stands, and the bytes of the latest ones.
 *
 * The same functions change it when records are put and when they are replayed. May a record follow what is known? raftindex_bars_* give NULL or the reason why not: whoever puts has promised it, whoever
 * replays reports damage. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cluster/raftlog.h"
#include "cluster/raftsegs.h"

struct raftindex_entry {
    uint64_t term;
    uint64_t at : 56, type : 8; /* where its record begins: in the segment, or among the records of the open batch */
    uint64_t cached;            /* where its data begins in the stream of bytes that passed the group's cache, plus 1; 0: it was not put there */
    uint32_t segment;           /* 0: it is in the open batch */
    uint32_t bytes;             /* of data */
};

struct raftindex_group {
    uint32_t id;
    uint64_t term, vote;
    struct raftlog_mark mark; /* its configuration lies in the buffer below; mark.first is at least 1 */
    struct buf configuration;
    uint64_t base; /* v[head] is the entry base + 1 */
    struct raftindex_entry *v;
    uint64_t head, n, cap;
    uint64_t bytes;      /* of living entries, as records */
    uint64_t touched;    /* the batch that has records of it, if that is the open one; or, while it is replayed, its state */
    uint64_t open_first;   /* entries from here on are in the open batch */
    uint64_t flight_first; /* and those from here on, before them, in the one that is being written, if that is flight_batch */
    uint64_t flight_batch;
    struct buf cache;
    uint64_t cache_start; /* of the stream: the position of cache.p[0] */
};

struct raftindex {
    struct raftindex_group **v; /* by id */
    uint32_t n;
    struct raftsegs *segs; /* told of entries that are void */
    uint64_t batch;        /* by records of this one */
    uint64_t configuration_bytes; /* of all groups' marks */
};

void raftindex_fini(struct raftindex *x);
struct raftindex_group *raftindex_find(const struct raftindex *x, uint32_t id); /* NULL: unknown */
struct raftindex_group *raftindex_make(struct raftindex *x, uint32_t id);       /* must be unknown */
static inline uint64_t raftindex_last(const struct raftindex_group *g) { return g->base + g->n; }
struct raftindex_entry *raftindex_at(const struct raftindex_group *g, uint64_t index); /* NULL: not there */

const char *raftindex_bars_entry(const struct raftindex_group *g, uint64_t index);
const char *raftindex_bars_truncate(const struct raftindex_group *g, uint64_t from);
const char *raftindex_bars_mark(const struct raftindex_group *g, const struct raftlog_mark *m);
const char *raftindex_bars_state(uint64_t last, const struct raftlog_mark *m); /* of a group that was unknown */

void raftindex_append(struct raftindex_group *g, struct raftindex_entry e);
void raftindex_truncate(struct raftindex *x, struct raftindex_group *g, uint64_t from);
void raftindex_mark(struct raftindex *x, struct raftindex_group *g, const struct raftlog_mark *m);
void raftindex_remove(struct raftindex *x, struct raftindex_group *g);

/* Replaying from a later segment: what the group was like there. Entries up to last are not here; unless later records make all of them void, something is missing. */
void raftindex_restate(struct raftindex *x, struct raftindex_group *g, uint64_t term, uint64_t vote, uint64_t last, const struct raftlog_mark *m);
static inline bool raftindex_is_whole(const struct raftindex_group *g) { return g->mark.first > g->base; }

void raftindex_check(const struct raftindex *x); /* every promise that can be checked; for tests */

/* The group's cache; limit is the same each time. Gives the entry's `cached`. */
uint64_t raftindex_cache(struct raftindex_group *g, struct slice data, uint64_t limit);
bool raftindex_cached(const struct raftindex_group *g, const struct raftindex_entry *e, struct slice *data);
