/* The log of a node that all its Raft groups share: hard states, entries and snapshot marks of many groups in one sequence of batches, so that one disk write makes the work of all of them durable.
 *
 * Logic only: no thread, no clock, and while it runs no file call but reads. Records are put into the open batch (memory only). raftlog_begin_write closes it and hands out one write for whoever does
 * I/O (cluster/raftwriter.h with its threads; a simulator with raftlog_write_run); raftlog_written tells that it is durable. At most one write is under way; meanwhile the next batch builds up. A batch is
 * whole or not there after a crash: what was put between two calls of raftlog_begin_write stays together.
 *
 * Files: DIR/raftlog.id and DIR/NNNNNNNNNN.raft, segments of equal size, zeroed once and used again under a new number. Making them ready ahead of need and getting rid of those that nobody needs are
 * chores, handed out like writes and one at a time. Bytes and validity: raftbatch.c. What a crash leaves, and how damage is told from it: raftrecover.c.
 *
 * A segment is needed as long as an entry in it is alive: not cut off by a truncation, not below the first kept index of its group's mark. Everything else is restated at the head of each segment. Only the
 * oldest segments can be let go, so one group that does not take snapshots holds all later ones: raftlog_oldest_holder names it.
 *
 * One thread owns a struct raftlog. Errors are 0 or -errno. A write that failed breaks the log for good, since nobody knows what is on disk: the owner ends the process. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct file_ops;
struct raftlog;

enum { RAFTLOG_ENTRY_MAX = 16 << 20, RAFTLOG_CONFIGURATION_MAX = 1 << 20, RAFTLOG_PATH_MAX = 4096 };

struct raftlog_options {
    uint64_t segment_bytes; /* 0: 64 MiB; a multiple of 4096, at least 64 KiB. Segments that are there keep their size */
    uint32_t ready;         /* segments made ahead of need; 0: 1 */
    uint64_t cache_bytes;   /* of recent entries, for each group; 0: 1 MiB */
    uint64_t random;        /* a number that clients cannot guess, for the name of a new log: bytes of a value shall never look like a batch */
};

/* Opens or creates the log in dir, whose parent exists. Recovers: a torn last batch is cut; damage elsewhere is an error that names segment and offset. Afterwards all that it tells of is durable and a
 * first segment is ready. Keeps files. Gives NULL and a reason. */
struct raftlog *raftlog_open(const struct file_ops *files, const char *dir, const struct raftlog_options *options, struct buf *error);
void raftlog_close(struct raftlog *l); /* writes nothing; no write or chore is under way. Seal before, if there is time */

/* ---- what is known of a group, with all that was put, durable or not */

struct raftlog_state {
    uint64_t term, vote;             /* hard state; 0, 0 before the first */
    uint64_t mark_index, mark_term;  /* everything up to here is in a snapshot; 0: there is none */
    uint64_t first;                  /* entries from here on are kept; at most mark_index + 1 */
    uint64_t last;                   /* index of the last entry, at least mark_index */
    uint64_t configuration_index;    /* of the mark */
    struct slice configuration;      /* of the mark; borrowed until the group's next mark */
};

/* Numbers of the groups, ascending; gives how many there are, at most max of them in ids. */
uint32_t raftlog_groups(const struct raftlog *l, uint32_t *ids, uint32_t max);
bool raftlog_state(const struct raftlog *l, uint32_t group, struct raftlog_state *state); /* false: no record of this group */

struct raftlog_entry {
    uint64_t term;
    uint8_t type;
    struct slice data; /* borrowed until the next call */
};
/* An entry between first and last, from memory or from disk; -ENOENT: not there, -EBADMSG: damaged since it was written. Reading all of a group in order costs few disk reads. */
int raftlog_read(struct raftlog *l, uint32_t group, uint64_t index, struct raftlog_entry *e);
uint64_t raftlog_term(const struct raftlog *l, uint32_t group, uint64_t index); /* of an entry or of the mark; 0: neither */

/* ---- putting; a group comes to be with its first record, and its entries begin at 1 or behind its mark */

void raftlog_put_hard_state(struct raftlog *l, uint32_t group, uint64_t term, uint64_t vote);
/* index is last + 1: whoever replaces entries truncates first. data at most RAFTLOG_ENTRY_MAX. */
void raftlog_put_entry(struct raftlog *l, uint32_t group, uint64_t index, uint64_t term, uint8_t type, struct slice data);
/* Entries from this index on are void; it is behind the mark and at most last + 1. */
void raftlog_put_truncate(struct raftlog *l, uint32_t group, uint64_t from);

struct raftlog_mark {
    uint64_t index, term;
    uint64_t first; /* entries from here on are kept, for followers that are behind; at most index + 1, never less than before */
    uint64_t configuration_index;
    struct slice configuration;
};
/* A snapshot with everything up to mark->index is durable. If it came from a leader and index is behind last, all entries go and first is index + 1; if entries behind it do not belong to it, truncate
 * them in the same batch. The same index may be marked again, with a larger `first`. */
void raftlog_put_mark(struct raftlog *l, uint32_t group, const struct raftlog_mark *mark);
void raftlog_put_gone(struct raftlog *l, uint32_t group); /* nothing of it is needed any more; if its number comes back, it begins anew */
/* If the last record that was written stands in the last batch, an empty batch shall be written behind it. Only then can damage of that batch be told from a torn write. For moments of rest. */
void raftlog_seal(struct raftlog *l);

/* ---- batches: numbered from 1, over restarts */

/* Puts go here now: what waits for them remembers it when they are put, and waits for raftlog_durable to reach it. A batch without records is never written, so it is no use to ask later. */
uint64_t raftlog_open_batch(const struct raftlog *l);
uint64_t raftlog_durable(const struct raftlog *l);    /* the last batch that is durable */
uint64_t raftlog_durable_index(const struct raftlog *l, uint32_t group); /* the last entry that is durable and not void, or the mark's index */
/* How many bytes of entries can be put now and written for certain, without space that the disk may not have. Below what is wanted: refuse before it is proposed. A sixteenth of a segment is kept for hard
 * states, truncations and marks, which may always be put; used up, they wait for space too. */
uint64_t raftlog_capacity(const struct raftlog *l);

struct raftlog_write {
    uint64_t batch;
    uint64_t segment;
    uint64_t at;        /* both multiples of 4096, and so is the address of the bytes: fit for O_DIRECT */
    struct slice bytes; /* the log's, until raftlog_written */
    char path[RAFTLOG_PATH_MAX];
};
bool raftlog_has_more(const struct raftlog *l); /* there is something to write, and no write is under way */
/* Closes the open batch. false: nothing to write, a write is under way, or no segment is ready (a chore will make one). */
bool raftlog_begin_write(struct raftlog *l, struct raftlog_write *w);
int raftlog_write_run(const struct file_ops *files, const struct raftlog_write *w); /* write and sync, in the caller's thread */
void raftlog_written(struct raftlog *l, uint64_t batch, int rc);                    /* rc < 0 breaks the log */
bool raftlog_broken(const struct raftlog *l);

/* ---- chores: none is urgent, but without them no segment becomes ready */

enum raftlog_chore_kind {
    RAFTLOG_MAKE,  /* `path` becomes a file of `bytes` zeros */
    RAFTLOG_REUSE, /* `from` is renamed to `path` */
    RAFTLOG_GROW,  /* `path` gets zeros up to `bytes`: a batch is larger than segments are */
    RAFTLOG_DROP,  /* `path` is deleted */
};
struct raftlog_chore {
    enum raftlog_chore_kind kind;
    uint64_t bytes;
    uint64_t segment;
    char dir[RAFTLOG_PATH_MAX], path[RAFTLOG_PATH_MAX], from[RAFTLOG_PATH_MAX];
};
bool raftlog_begin_chore(struct raftlog *l, struct raftlog_chore *c); /* false: none to do, or one is under way */
int raftlog_chore_run(const struct file_ops *files, const struct raftlog_chore *c); /* any thread */
/* A chore that failed (no space) is no harm by itself; no other is handed out before raftlog_retry_chores, which is for a timer. */
void raftlog_chore_done(struct raftlog *l, int rc);
void raftlog_retry_chores(struct raftlog *l);
int raftlog_chore_error(const struct raftlog *l); /* of the last one, until one succeeds; 0 */

/* ---- space */

/* The group to be made to take a snapshot: it has the oldest entry that is alive. segments: how many the log has from there to the one being written, at least 2. false: all of them are one segment. */
bool raftlog_oldest_holder(const struct raftlog *l, uint32_t *group, uint64_t *segments);
/* Bytes of live entries of a group, with their record headers: when to take a snapshot. */
uint64_t raftlog_group_bytes(const struct raftlog *l, uint32_t group);

struct raftlog_info {
    uint64_t segments, segment_bytes; /* with live entries or being written, and their sizes together */
    uint64_t ready, spare;            /* files waiting to be used, and to be used again or deleted */
    uint64_t batches, records, written_bytes; /* since it was opened */
    uint64_t reads_memory, reads_disk;        /* of raftlog_read: from caches; calls of the file table */
    uint64_t torn_bytes;                      /* cut off when it was opened */
};
void raftlog_info(const struct raftlog *l, struct raftlog_info *info);
void raftlog_check(const struct raftlog *l); /* every promise that can be checked; for tests */
