/* The manifests of a snapshot store in order of time, which one is current, and going back to an older one.
 *
 * Errors: ERR_SNAPSHOT_NO_CURRENT, _BAD_CURRENT, _BAD_MANIFEST, _NO_REF, _ELSEWHERE, or the store's own; `why` (may be NULL) then has it in words. call may be NULL everywhere. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "object/object.h"
#include "snapshot/pointer.h"

struct manifest;

/* ---- loading */

/* Reads _CURRENT: one request. meta (may be NULL) tells its etag. pointer_fini afterwards, also after a failure. */
int history_pointer(struct object_store *s, struct object_call *call, struct pointer *p, struct object_meta *meta, struct buf *why);
/* Reads the manifest that a URL names: below the store's URL, or a copy of it here (snappath_ref_key). ERR_SNAPSHOT_ELSEWHERE: the URL is not in this store. */
int history_manifest(struct object_store *s, struct object_call *call, const char *ref, struct manifest **m, struct buf *why);
/* Both. */
int history_current(struct object_store *s, struct object_call *call, struct pointer *p, struct manifest **m, struct buf *why);

/* ---- the list */

struct history_entry {
    char *ref; /* URL of the manifest */
    char *key; /* its key in the store; points into ref */
    char *run_id;
    int64_t published_us; /* from its name */
    uint64_t bytes;       /* of the manifest */
    bool is_current;
};

struct history {
    struct history_entry *entries; /* newest first */
    size_t n;
    bool has_current;       /* there is a readable _CURRENT */
    struct pointer current; /* if so */
};

/* limit 0: all. A _CURRENT that is missing or malformed is no failure here: has_current is false. history_fini afterwards, also after a failure. */
int history_load(struct object_store *s, struct object_call *call, size_t limit, struct history *h, struct buf *why);
void history_fini(struct history *h);

/* Which snapshot is meant: exactly one of the three. offset counts from the newest, which is 0. */
struct history_pick {
    const char *ref;    /* URL, or key in the store */
    const char *run_id; /* the newest of this run */
    bool by_offset;
    uint32_t offset;
};

/* The URL of the manifest, appended to ref. by ref: it need not be in the list, but is checked to be there. */
int history_resolve(struct object_store *s, struct object_call *call, const struct history_pick *pick, struct buf *ref, struct buf *why);

/* Makes it the current one: reads and checks the manifest first, then swaps _CURRENT as publish_current does (ERR_SNAPSHOT_RACE, _CURRENT, _UNCERTAIN). Afterwards looks
 * whether a cleanup has taken the manifest meanwhile, and if so swaps back: ERR_SNAPSHOT_NO_REF. ref gets the URL. */
int history_rollback(struct object_store *s, struct object_call *call, const struct history_pick *pick, int64_t now_us, struct buf *ref, struct buf *why);
