/* Run records (runs/.../run.yaml): what a builder tells about itself while it works, so that people see it and cleanup spares it.
 *
 * A record is "running" with a lease of ten minutes, renewed every minute by a thread; then "succeeded" or "failed". A builder that was killed leaves a lease that runs out. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct object_store;
struct object_call;

enum {
    RUNRECORD_LEASE_MS = 600000,
    RUNRECORD_BEAT_MS = 60000,
    RUNRECORD_BYTES_MAX = 1 << 20,
};

enum runrecord_status { RUNRECORD_RUNNING, RUNRECORD_SUCCEEDED, RUNRECORD_FAILED };

struct runrecord {
    char *run_id, *s3_prefix, *shard_prefix, *db_path_template, *writer_type;
    char *manifest_ref, *error_type, *error_message; /* each may be NULL */
    enum runrecord_status status;
    int64_t started_us, updated_us, lease_expires_us;
};

/* Appends the YAML, as yaml.safe_dump writes it: keys sorted, block style. */
void runrecord_write(const struct runrecord *r, struct buf *out);
/* Any YAML mapping with at least run_id, status and lease_expires_at; unknown keys are ignored. 0 and a record for runrecord_fini, or ERR_SNAPSHOT_BAD_RUN and why (may be NULL). */
int runrecord_parse(struct slice yaml, struct runrecord *r, struct buf *why);
void runrecord_fini(struct runrecord *r); /* zeroed is allowed */

/* Whether a builder is at work behind this record: running, and its lease has not run out, with five minutes for clocks that differ. */
bool runrecord_is_live(const struct runrecord *r, int64_t now_us);

/* ---- keeping one's own record */

struct runrecord_keeper;

struct runrecord_start {
    const char *run_id;
    const char *writer_type; /* "sherd" */
    uint32_t beat_ms, lease_ms; /* 0: the defaults above */
};

/* Writes the record and starts the thread that renews it. Keeps s. Borrows call. Gives 0 and a keeper, which must end with exactly one of the two functions below; or the store's error (then there is
 * none: do not build, for cleanup could not see it). ERR_OBJECT_KEY: the run id is none for a path (snappath_check_run_id). */
int runrecord_begin(struct runrecord_keeper **k, struct object_store *s, struct object_call *call, const struct runrecord_start *start);
/* The URL of the record. */
const char *runrecord_ref(const struct runrecord_keeper *k);
/* Renewals that failed so far. The build goes on: its lease still has minutes; but if all fail for a whole lease, cleanup may take its shards. */
uint32_t runrecord_misses(const struct runrecord_keeper *k);
/* False if the lease has run out because renewals failed: the builder must not publish any more, since its shards may be gone. */
bool runrecord_lease_holds(const struct runrecord_keeper *k);

/* Stop the thread, write the final record and free the keeper. The result is that of the last put: it does not change what was published. Any thread, not from a signal handler. */
int runrecord_succeed(struct runrecord_keeper *k, struct object_call *call, const char *manifest_ref);
int runrecord_fail(struct runrecord_keeper *k, struct object_call *call, const char *error_type, const char *error_message);
