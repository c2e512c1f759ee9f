/* A shard of a snapshot, open for reading: a mapped file (the store's own, or downloaded to the cache) or ranges of an object. Shared between the snapshots that have it, and by any number of
 * threads. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "snapshot/rangeread.h"
#include "snapshot/shardread.h"

struct cache;
struct manifest;
struct manifest_shard;
struct shardfile;
struct storebook;

/* What a reader's shards have in common; outlives them. */
struct shardfile_env {
    struct storebook *stores;
    struct cache *cache; /* NULL: only for what can be read in place or by ranges */
    struct pagecache *pages;
    struct readpool *pool;
    struct rangeread_counts counts;
    _Atomic uint64_t downloads, reuses; /* files brought, files that were in the cache already */
};

enum shardfile_way { SHARDFILE_IN_PLACE, SHARDFILE_DOWNLOAD, SHARDFILE_RANGE };

/* Gives 0 and the shard with one reference, or an error and why. sidecar: the snapshot has sidecars. */
int shardfile_open(struct shardfile **f, struct shardfile_env *env, const struct manifest *m, const struct manifest_shard *s, enum shardfile_way way, bool sidecar, struct buf *why);
struct shardfile *shardfile_ref(struct shardfile *f);
void shardfile_unref(struct shardfile *f); /* NULL is allowed */

/* As shardread_get and shardread_get_many. */
int shardfile_get(struct shardfile *f, struct slice key, struct buf *buf, struct slice *value);
int shardfile_get_many(struct shardfile *f, struct shardread_ask *asks, size_t n, struct buf *buf);
/* For lookups in several shards at once: NULL if it is remote. */
const struct shardread *shardfile_mapped(const struct shardfile *f);
/* For cursors: 0 and what to walk in, which lives as long as the shard; or an error. */
int shardfile_walk(struct shardfile *f, const struct shardread **r);

/* Reads of it wait for the store. */
bool shardfile_is_remote(const struct shardfile *f);
/* What is known about the last failure, appended. */
void shardfile_why(struct shardfile *f, struct buf *why);
