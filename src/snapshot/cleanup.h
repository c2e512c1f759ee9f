/* Deletes what no snapshot needs any more: losing attempts, the leavings of dead builders, and on request old snapshots with their manifests and run records.
 *
 * Never deleted: what any kept manifest refers to, also in folders of other runs (reused shards); what the current manifest refers to; anything of a run whose record says that its
 * builder is at work; and the manifests that such a builder may be reusing shards of (the one current when it started, and all since). If a kept manifest cannot be read,
 * nothing is deleted at all. How that stays true while others publish and roll back stands at the top of cleanup.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "object/object.h"

struct cleanup_options { /* zeroed: only stale attempts and dead builds, for real */
    bool dry_run;
    int64_t now_us;         /* required */
    uint32_t keep_last;     /* 0: not given. The newest so many snapshots are kept */
    int64_t older_than_us;  /* 0: not given. Snapshots younger than this are kept */
    /* If neither is given, all snapshots are kept; if both are, a snapshot is kept if either keeps it. */
    int64_t orphan_age_us;  /* shards of runs without a record and a manifest go when nothing in them is younger; 0: a day */
};

enum cleanup_kind { CLEANUP_ATTEMPT /* folder */, CLEANUP_MANIFEST, CLEANUP_RUN_RECORD };

struct cleanup_item {
    enum cleanup_kind kind;
    char *key;    /* of the object; of the folder, without a slash at its end, for attempts */
    char *run_id;
    const char *reason; /* static: "losing attempt", "build failed", ... */
    uint64_t objects, bytes;
    bool deleted; /* false in a dry run, and where deleting failed */
};

struct cleanup_report {
    struct cleanup_item *items; /* manifests first, then attempts, then run records: the order of deleting */
    size_t n;
    uint64_t objects_deleted, bytes_deleted;
    char **live_runs;           /* run ids whose builders are at work: spared */
    size_t n_live;
    size_t kept_snapshots;
};

const char *cleanup_kind_name(enum cleanup_kind k); /* "attempt", "manifest", "run_record" */

/* Gives 0, or the first error; the report tells what was deleted in both cases. cleanup_report_fini in any case. call may be NULL. */
int cleanup_run(struct object_store *s, struct object_call *call, const struct cleanup_options *o, struct cleanup_report *r, struct buf *why);
void cleanup_report_fini(struct cleanup_report *r);
