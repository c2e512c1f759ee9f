/* One snapshot, open for reading: its manifest, its router, and the shards that have been needed so far. What a reader swaps when it switches. Immutable but for shards that get opened; any
 * number of threads.
 *
 * Functions that can fail give 0 or a count, or a negative code and in `why` the words for it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "snapshot/manifest.h"
#include "snapshot/shardfile.h"

struct readstate;

/* Columns by name for routing by an expression; NULL or none where the key is enough. Those that the expression does not have are ignored. */
struct readstate_context {
    const char *const *names, *const *values;
    size_t n;
};

enum readstate_mode { READSTATE_AUTO, READSTATE_DOWNLOAD, READSTATE_RANGE };

struct readstate_config {
    struct shardfile_env *env; /* kept */
    enum readstate_mode mode;
    bool in_place;             /* the snapshot lies in local files that are to be read where they are, unless the mode is range */
    uint64_t auto_shard_bytes, auto_total_bytes; /* AUTO downloads if every shard is below the first and their sum below the second */
};

/* Takes the manifest, also on failure. ref: its URL, copied. ERR_SNAPSHOT_BAD_MANIFEST: it cannot be routed. */
int readstate_new(struct readstate **s, const struct readstate_config *config, struct manifest *m, const char *ref, struct buf *why);
void readstate_free(struct readstate *s); /* NULL is allowed */

const struct manifest *readstate_manifest(const struct readstate *s);
const char *readstate_ref(const struct readstate *s);
enum readstate_mode readstate_mode(const struct readstate *s); /* DOWNLOAD (or in place) or RANGE */
struct readpool *readstate_pool(const struct readstate *s);

/* ---- shards: by their place in the manifest, [0, n_shards) */

bool readstate_is_open(const struct readstate *s, uint32_t place);
uint32_t readstate_n_open(const struct readstate *s);
/* Opens it if it is not; the shard lives as long as the state. */
int readstate_shard(struct readstate *s, uint32_t place, struct shardfile **f, struct buf *why);
/* Opens, several at a time: all, or those that are open in `before`. Shards that both snapshots have are shared, and cost nothing. The first error. */
int readstate_open_all(struct readstate *s, struct buf *why);
int readstate_open_like(struct readstate *s, const struct readstate *before, struct buf *why);
/* Takes over the open shards that both have, and opens none. */
void readstate_adopt(struct readstate *s, const struct readstate *before);

/* ---- reading */

/* The shard of a key: its id, UINT32_MAX where the expression names none. ERR_SNAPSHOT_ROUTE, ERR_SNAPSHOT_KEY. */
int readstate_route(struct readstate *s, const struct snapkey *key, const struct readstate_context *context, uint32_t *shard, struct buf *why);

/* 1 and the value in out, whose contents are replaced; 0: there is no such key. */
int readstate_get(struct readstate *s, const struct snapkey *key, const struct readstate_context *context, struct buf *out, struct buf *why);

struct readstate_answer {
    size_t at, n; /* in the buffer */
    bool found;
};
/* Answers for all keys, values one behind the other in out, whose contents are replaced. Gives how many were found. */
int64_t readstate_get_many(struct readstate *s, const struct snapkey *keys, size_t n, const struct readstate_context *context, struct readstate_answer *answers, struct buf *out,
                           struct buf *why);
