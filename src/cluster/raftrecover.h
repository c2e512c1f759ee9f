/* Reading the shared Raft log at start (cluster/raftlog.h): fills the lists of segments and the index of groups. What a crash can leave and what must be damage: raftrecover.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct file_ops;
struct raftsegs;
struct raftindex;

struct raftrecover {
    uint64_t last;       /* the last batch; 0: there is none */
    bool sealed;         /* it is empty, or there is none */
    uint64_t torn_bytes; /* of a batch that was not written to its end */
};

/* segs is initialised and empty, and index is empty. Deletes files that were not finished; syncs what was found. Gives 0, or -errno and a reason: -EBADMSG is damage. */
int raftrecover_run(const struct file_ops *files, uint64_t log, struct raftsegs *segs, struct raftindex *index, struct raftrecover *result, struct buf *error);
