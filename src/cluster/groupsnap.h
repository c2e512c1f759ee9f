/* The snapshot of one Raft group: a file with everything that the group has at one index of its log. The bytes stand at the top of groupsnap.c; its name and its folder are
 * cluster/groupdir.h's.
 *
 * Entries are what dump/dumpfile.h makes of them: copied raw under the shard's token, by whoever walks the store, and compressed, summed and written here by another thread. A file is written beside
 * its name, made durable and renamed: the name promises a whole file.
 *
 * Reading never has more than a block, or one entry, in memory, and is checked on its way: whoever must not begin with what does not end reads once to the end first, and rewinds.
 *
 * A writer and a reader belong to one thread at a time. Errors are -errno; -EINVAL: the bytes are damaged, -EPROTONOSUPPORT: of a later version than this program's. `why` gets a
 * sentence that names file and offset then, and says what failed otherwise. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/compress.h"
#include "base/slice.h"
#include "cluster/raftnode.h"
#include "cluster/wire.h"

struct file_ops;
struct groupdir_file;
struct groupsnap_reader;
struct groupsnap_writer;

enum { GROUPSNAP_VERSION = 1, GROUPSNAP_OWNED_MAX = 1 << 20 };

struct groupsnap_header {
    uint8_t cluster[WIRE_CLUSTER_ID];
    uint32_t group;
    uint64_t index, term; /* of the last entry whose effect is in it */
    int64_t cut_ms;       /* unix ms of the moment that it shows */
    struct raftnode_members members;
    struct slice owned; /* what the group owns, as its writer says it; not looked at here. At most GROUPSNAP_OWNED_MAX */
};

struct groupsnap_totals {
    uint64_t entries, blocks;
    uint64_t raw_bytes, stored_bytes; /* of the blocks' contents, before and after compression */
    uint64_t file_bytes;
    uint64_t checksum; /* of all of it: two files with the same one, and of the same length, are the same */
};

/* ---- writing */

/* Begins the file, over one of an earlier try. Borrows dir and h, keeps files. *out is freed by groupsnap_writer_free whatever the result. */
int groupsnap_create(struct groupsnap_writer **out, const struct file_ops *files, const char *dir, const struct groupsnap_header *h, enum compress_profile profile);
/* Whole entries as dumpfile_add_entry makes them; pays off from some DUMPFILE_BLOCK_BYTES on. After an error only groupsnap_writer_free makes sense. */
int groupsnap_write(struct groupsnap_writer *w, struct slice raw, uint64_t entries);
/* Ends the file, makes it durable and gives it its name. */
int groupsnap_finish(struct groupsnap_writer *w, struct groupsnap_totals *t);
/* Removes what is unfinished, unless groupsnap_finish succeeded. NULL is fine. */
void groupsnap_writer_free(struct groupsnap_writer *w);

/* ---- reading */

/* Reads header and footer. *out is NULL after an error. */
int groupsnap_open(struct groupsnap_reader **out, const struct file_ops *files, const char *path, struct buf *why);
void groupsnap_close(struct groupsnap_reader *r); /* NULL is fine */
const struct groupsnap_header *groupsnap_header(const struct groupsnap_reader *r); /* valid as long as r */
struct groupsnap_totals groupsnap_totals(const struct groupsnap_reader *r);        /* as the footer has them */
/* 1: whole entries, for dumpfile_take_entry, checked to be such, valid until the next call. 0: that was all, and everything agrees. An error stays. */
int groupsnap_next(struct groupsnap_reader *r, struct slice *raw, struct buf *why);
void groupsnap_rewind(struct groupsnap_reader *r); /* to the first entry */
/* All of it, then rewinds: 0, or what groupsnap_next says. */
int groupsnap_verify(struct groupsnap_reader *r, struct buf *why);
/* Is it the one that f names, of this cluster? 0 or -EINVAL. */
int groupsnap_compare(const struct groupsnap_reader *r, const struct groupdir_file *f, const uint8_t cluster[WIRE_CLUSTER_ID], struct buf *why);

/* The group's newest snapshot that is valid, verified and rewound. 1: found; 0: there is none, *out is NULL. `why` gets a line for each one that was passed over.
 * at_most: its index is at most that. At start this is the mark of the log: a later one may be there, if a crash came before its mark, and the log need not go on from it. */
int groupsnap_find(struct groupsnap_reader **out, const struct file_ops *files, const char *dir, const uint8_t cluster[WIRE_CLUSTER_ID], uint32_t group, uint64_t at_most,
                   struct buf *why);
