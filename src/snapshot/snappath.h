/* Where the objects of a published snapshot lie, and the times in their names. Pure but for snappath_new_id.
 *
 *   _CURRENT                                                   the pointer (snapshot/pointer.h)
 *   manifests/<TS>_run_id=<run>/manifest                       a manifest (snapshot/manifest.h)
 *   shards/run_id=<run>/db=<05d>/attempt=<02d>/shard.db        a shard file; beside it shard.sidecar
 *   runs/<TS>_run_id=<run>_<hex>/run.yaml                      a run record (snapshot/runrecord.h)
 *
 * Keys are relative to the snapshot's URL, the one its object store is opened at. <TS> is 2026-03-14T10:30:00.000000Z, always in this width, so that names sort by time. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct object_store;

#define SNAPPATH_CURRENT "_CURRENT"
#define SNAPPATH_MANIFESTS "manifests/"
#define SNAPPATH_RUNS "runs/"
#define SNAPPATH_SHARD_PREFIX "shards"             /* shard_prefix of our manifests */
#define SNAPPATH_DB_TEMPLATE "db={db_id:05d}"      /* db_path_template of our manifests */
#define SNAPPATH_SHARD_FILE "shard.db"
#define SNAPPATH_SIDECAR_FILE "shard.sidecar"
#define SNAPPATH_TYPE_SQLITE "application/x-sqlite3" /* content type of manifests and shards */
#define SNAPPATH_TYPE_SIDECAR "application/octet-stream"

enum { SNAPPATH_TIME_CHARS = 27, SNAPPATH_ID_CHARS = 32, SNAPPATH_RUN_ID_MAX = 128 };

/* ---- times: microseconds of Unix time, years 1 to 9999 */

void snappath_time(int64_t unix_us, char out[SNAPPATH_TIME_CHARS + 1]);
/* What shardyfusion's readers take for a time: ISO 8601 with T or a space, seconds and fraction optional, Z or an offset or neither (UTC); or a number of seconds since 1970. */
bool snappath_parse_time(struct slice text, int64_t *unix_us);

/* ---- names */

void snappath_new_id(char out[SNAPPATH_ID_CHARS + 1]); /* 32 hex digits of a random UUID: run ids, checkpoint ids */
/* A run id that we write: 1 to SNAPPATH_RUN_ID_MAX letters, digits, ".", "_", "-", ":", "="; not beginning with a dot. NULL, or why not. */
const char *snappath_check_run_id(struct slice run_id);

/* Each appends a key. */
void snappath_manifest(struct buf *out, int64_t unix_us, const char *run_id);
void snappath_run(struct buf *out, int64_t unix_us, const char *run_id, const char *id);
/* The folder of an attempt, without a slash at its end. The db_url of a manifest is the store's URL, a slash, and this. */
void snappath_attempt(struct buf *out, const char *run_id, uint32_t db_id, uint32_t attempt);

/* Takes keys apart; false: the key has another shape. Slices point into key. */
bool snappath_parse_manifest(struct slice key, int64_t *unix_us, struct slice *run_id);
bool snappath_parse_run(struct slice key, int64_t *unix_us, struct slice *run_id);
/* shards/run_id=R/ANY/attempt=N/...: folder is the part before the last slash-separated rest, as snappath_attempt gives it. */
bool snappath_parse_attempt(struct slice key, struct slice *run_id, struct slice *folder);

/* ---- URLs inside manifests and pointers */

/* The key in store s of the object or folder that a manifest or pointer names by URL; NULL: it lies elsewhere and needs a store of its own. Points into url.
 *   - a URL below the store's own URL is what stands behind it;
 *   - a URL below `prefix`, the s3_prefix of the manifest, is what stands behind that: the snapshot was copied here as a whole, from a bucket to a folder, say.
 * prefix may be NULL. */
const char *snappath_key(const struct object_store *s, const char *prefix, const char *url);
/* The same for the manifest_ref of a pointer, where no prefix is known: a URL elsewhere of the usual shape .../manifests/<TS>_run_id=<run>/manifest is the manifest of that
 * name here. */
const char *snappath_ref_key(const struct object_store *s, const char *ref);
