/* Checks that a snapshot is whole: every shard that its manifest names is there, has the size and the SHA-256 that the manifest tells, and is a well-formed shard file. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "object/object.h"
#include "snapshot/manifest.h"

enum verify_state {
    VERIFY_OK,
    VERIFY_MISSING,
    VERIFY_SIZE,      /* another size than db_bytes */
    VERIFY_CHECKSUM,  /* another SHA-256 than the manifest's */
    VERIFY_STRUCTURE, /* not a well-formed shard file, or a row that the router sends to another shard */
    VERIFY_UNREADABLE, /* the store failed: not known */
};

struct verify_shard {
    const struct manifest_shard *shard;
    enum verify_state state;
    bool checksum_known; /* the manifest has one and it was compared */
    uint64_t rows;       /* found in the file; 0 if not looked into */
    const char *detail;  /* in words, "" if OK; lives until the callback returns */
};

struct verify_options {
    bool shallow;                         /* existence and size only: one request per shard and no download */
    const struct object_options *objects; /* to open shards that lie outside the snapshot's store; NULL: defaults */
    const char *scratch_dir;              /* for downloads, one shard at a time; NULL: TMPDIR, then /tmp */
};

const char *verify_state_name(enum verify_state s); /* "ok", "missing", ... */

/* Calls `each` for every shard in order. Gives 0 if all are OK, ERR_SNAPSHOT_DAMAGED if not, or the first error of the store if that was the worst. call may be NULL. */
int verify_snapshot(struct object_store *s, struct object_call *call, const struct manifest *m, const struct verify_options *o,
                    void (*each)(void *arg, const struct verify_shard *v), void *arg);
