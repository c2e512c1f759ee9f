/* Makes a snapshot visible, in two phases: the manifest is put under a name of its own, then _CURRENT is swapped to it. Readers see the old snapshot or the new one.
 *
 * Two publishers never overwrite each other unknowingly: a publisher says which _CURRENT it has built upon (publish_observe, before it reads anything of the old snapshot), and the
 * swap happens only if that still stands. Stores that honour conditional puts decide that themselves (PUBLISH_BY_STORE). For the others _CURRENT is read directly before and
 * after the plain put (PUBLISH_BY_REREAD): a change that is visible then is refused or reported; one that falls between the read and the put, some milliseconds, is not.
 *
 * Which failure means what:
 *   ERR_SNAPSHOT_MANIFEST   the manifest could not be put: nothing is published. Repeat at will.
 *   ERR_SNAPSHOT_CURRENT    the manifest is there, _CURRENT is as it was: readers stay with the old snapshot. publish_current may be repeated.
 *   ERR_SNAPSHOT_RACE       somebody else has published meanwhile: theirs counts, ours is not visible.
 *   ERR_SNAPSHOT_UNCERTAIN  the store stopped answering during the swap: old or new, whole in either case. publish_observe tells when it answers again.
 * `why` (may be NULL) gets the store's words. call may be NULL. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "object/object.h"
#include "snapshot/manifest.h"

/* The _CURRENT that a publisher builds upon. */
struct publish_base {
    bool exists;
    char etag[OBJECT_ETAG_BYTES];
    bool readable;      /* it was well formed: */
    char *manifest_ref; /* NULL if not */
    char *run_id;
    int64_t updated_us;
};

/* A missing or malformed _CURRENT is no failure (the next publish mends it). publish_base_fini afterwards, also after a failure. */
int publish_observe(struct object_store *s, struct object_call *call, struct publish_base *b, struct buf *why);
void publish_base_fini(struct publish_base *b);

enum publish_guard { PUBLISH_BY_STORE, PUBLISH_BY_REREAD };

struct publish_result {
    char *manifest_ref; /* URL */
    int64_t published_us;
    enum publish_guard guard;
};
void publish_result_fini(struct publish_result *r);

/* Phase one. The name's time is now_us, or just behind that of the base's manifest if the clock is behind it, so that history has the order of publishing. Fills manifest_ref.
 * ERR_SNAPSHOT_BAD_MANIFEST: the manifest breaks a rule of the format, or its run id is none for a path. */
int publish_manifest(struct object_store *s, struct object_call *call, const struct manifest *m, const struct publish_base *base, int64_t now_us, struct publish_result *r,
                     struct buf *why);
/* Phase two: _CURRENT names ref from now on. Gives in *guard (may be NULL) what it was guarded by. */
int publish_current(struct object_store *s, struct object_call *call, const char *ref, const char *run_id, const struct publish_base *base, int64_t now_us,
                    enum publish_guard *guard, struct buf *why);
/* Both. After a lost race the manifest is taken back, so that history shows only what was published. publish_result_fini in any case; manifest_ref is NULL if no manifest is there. */
int publish_snapshot(struct object_store *s, struct object_call *call, const struct manifest *m, const struct publish_base *base, int64_t now_us, struct publish_result *r,
                     struct buf *why);

/* ---- attempts and winners */

#define PUBLISH_NO_TASK INT64_MAX /* 2^63 - 1: behind all that have one */

/* What a worker reports of one attempt at one shard. */
struct publish_attempt {
    struct manifest_shard shard; /* db_url NULL: no rows, nothing was written */
    int64_t task_attempt_id;     /* PUBLISH_NO_TASK: none */
    bool wins;                   /* result */
};

/* Of each shard the attempt with the smallest (attempt, task_attempt_id, db_url) wins; those without db_url never do. All who run this over the same attempts choose the same.
 * ERR_SNAPSHOT_COVERAGE and why: a shard id that is not below num_dbs. */
int publish_choose(struct publish_attempt *attempts, size_t n, uint32_t num_dbs, struct buf *why);
/* Adds the winners to m. */
void publish_add_winners(struct manifest *m, const struct publish_attempt *attempts, size_t n);
/* Deletes the folders of attempts that did not win and that no shard of m names; those outside the store are left alone. Best effort: a count of objects deleted, or the first error. */
int64_t publish_delete_losers(struct object_store *s, struct object_call *call, const struct manifest *m, const struct publish_attempt *attempts, size_t n);
