/* Takes the snapshot of one Raft group while it is served: a walk (shard/walk.h) over the shard that is its seat, into a file (cluster/groupsnap.h).
 *
 * A leader's store runs ahead of its log: what it holds at the cut has an index only when the last entry that went into it
 * has one, and is worth a snapshot only when that entry is committed. So the source notes under the token where the group is, and says later, on the thread, which index that was. It may wait for that;
 * meanwhile writers put aside what they change, and nothing else is copied. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/compress.h"
#include "base/slice.h"
#include "cluster/groupdir.h"
#include "cluster/groupsnap.h"

struct file_ops;
struct walk;

struct groupcut_source {
    void *ctx;
    /* Under the shard's token, at the cut: notes how far the group's log is applied. Must not block. */
    void (*at_cut)(void *ctx);
    /* On the thread, once: all of the header but cut_ms. What it points to lives until groupcut_run returns. May wait until the index is known and committed. Negative: there will be no snapshot, groupcut_run
     * gives that. */
    int (*header)(void *ctx, struct groupsnap_header *h);
    /* On the thread, now and then. False: it is not wanted any more. Reads a flag and takes no lock. */
    bool (*goes_on)(void *ctx);
};

struct groupcut_result {
    struct groupdir_file file;
    struct groupsnap_totals totals;
    int64_t cut_ms;
};

/* Blocks: for a thread that is no worker. 0: the snapshot is durable in dir. -ECANCELED: not wanted any more, or the server stops; else what the source, a file call or the cold tier said. After an error nothing is
 * left in dir, unless even that cannot be deleted. */
int groupcut_run(struct walk *w, uint32_t shard, const struct groupcut_source *source, const struct file_ops *files, const char *dir, enum compress_profile profile,
                 struct groupcut_result *out);
