/* The files of the shared Raft log (cluster/raftlog.h): which segments there are, which of them are still needed, and the chores that follow from it. Makes no file call.
 *
 *     live    oldest .. current, numbers without gaps; the last one is being written
 *     ready   current + 1 .., numbers without gaps; nothing valid is in them
 *     spare   needed no more; to be used again under a new number, or deleted
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cluster/raftlog.h"

struct raftsegs_file {
    uint64_t number, bytes;
    uint64_t used;        /* live: behind its last batch */
    uint64_t entries;     /* live: so many entries in it are alive */
    uint64_t first_batch; /* live */
    uint64_t void_batch;  /* live: an entry in it was last made void by a record of this batch */
    int fd;               /* live: for reading; -1: not open */
};

struct raftsegs_list {
    struct raftsegs_file *v;
    uint32_t n;
};

struct raftsegs {
    char dir[RAFTLOG_PATH_MAX - 32]; /* leaves room for names */
    uint64_t segment_bytes;
    uint32_t want_ready;
    struct raftsegs_list live, ready, spare;
    uint64_t grow_to;                /* the first ready segment must become as large as this; 0: it is large enough */
    struct raftlog_chore chore;      /* under way, if busy */
    bool busy, halted;               /* halted: one failed, and it is not yet time to try again */
    int error;                       /* of the last chore */
};

int raftsegs_init(struct raftsegs *s, const char *dir, uint64_t segment_bytes, uint32_t want_ready); /* -ENAMETOOLONG */
void raftsegs_fini(struct raftsegs *s);                                                              /* descriptors are the caller's */

void raftsegs_path(const struct raftsegs *s, uint64_t number, char path[RAFTLOG_PATH_MAX]);
bool raftsegs_number(const char *name, uint64_t *number); /* of a file's name; false: not a segment */
void raftsegs_add(struct raftsegs_list *list, struct raftsegs_file file);

struct raftsegs_file *raftsegs_live(const struct raftsegs *s, uint64_t number); /* must be there */
struct raftsegs_file *raftsegs_current(const struct raftsegs *s);               /* NULL: none was written to yet */
/* The first ready segment becomes the current one; this batch will be its first. */
void raftsegs_advance(struct raftsegs *s, uint64_t batch);
/* An entry in a live segment is void by a record of this batch. */
void raftsegs_release(struct raftsegs *s, uint64_t number, uint64_t batch);
/* Takes the oldest segment out of the live ones if, with all batches up to `durable` on disk, nothing needs it. Its descriptor is the caller's. false: it is needed. */
bool raftsegs_retire(struct raftsegs *s, uint64_t durable, struct raftsegs_file *out);

bool raftsegs_begin_chore(struct raftsegs *s, struct raftlog_chore *c);
void raftsegs_chore_done(struct raftsegs *s, int rc);
