/* The manifest of a published snapshot: which shards there are, where they lie, and how keys find them. Between memory and the SQLite image that is stored. Pure.
 *
 * A parsed manifest has passed every rule of the format, so what uses it need not check again: see the top of manifest.c.
 * Threads: a manifest that nobody changes may be read by any number of them. Ownership: all strings of a manifest belong to it and live as long. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "route/router.h"
#include "route/snapkey.h"

enum {
    MANIFEST_FORMAT_VERSION = 4,
    MANIFEST_SHARDS_MAX = 1 << 20, /* num_dbs above this is refused */
    MANIFEST_BYTES_MAX = 1 << 30,  /* of an image */
};

struct manifest_shard {
    uint32_t db_id;
    uint32_t attempt;
    const char *db_url; /* of the attempt's folder, without a slash at its end; shard.db lies in it */
    uint64_t row_count; /* rows fed, duplicates counted */
    uint64_t db_bytes;
    const char *min_key, *max_key;  /* JSON text of a number or a string; NULL: unknown */
    const char *checkpoint_id;      /* changes with the content; NULL: unknown */
    const char *writer_info;        /* JSON text of an object */
    bool has_sha256;                /* of shard.db: from the table x_shards, which only Sherd writes */
    uint8_t sha256[32];
};

struct manifest {
    const char *run_id;
    const char *created_at; /* as written */
    int64_t created_us;
    uint32_t num_dbs;
    const char *s3_prefix, *key_col, *db_path_template, *shard_prefix;
    enum snapkey_encoding key_encoding;
    bool is_cel;              /* else hash */
    struct router_cel cel;    /* if is_cel. tokens is NONE where routing_values is null */
    const char *custom;       /* JSON text of an object */
    bool is_vector;           /* custom says that this is a snapshot of vectors, without keys and values: readers of those refuse it */
    struct manifest_shard *shards; /* [n_shards] by ascending db_id; shards that are not here are empty */
    uint32_t n_shards;
    struct manifest_block *blocks; /* what the strings lie in */
};

/* A manifest to be filled: format defaults for db_path_template, shard_prefix, key_col ("_key"), custom ("{}"); hash routing; num_dbs 0. Strings given to it are either
 * static or made by manifest_copy. */
struct manifest *manifest_new(void);
void manifest_free(struct manifest *m); /* NULL is allowed */

const char *manifest_copy(struct manifest *m, struct slice s); /* with a NUL behind it */
void *manifest_alloc(struct manifest *m, size_t bytes);        /* lives as long as the manifest */
void manifest_set_created(struct manifest *m, int64_t unix_us);
void manifest_set_cel(struct manifest *m, const struct router_cel *c); /* copies everything */
/* Adds a copy, strings included; in any order. writer_info NULL becomes "{}". The pointer lives until the next one is added. */
struct manifest_shard *manifest_add_shard(struct manifest *m, const struct manifest_shard *s);
/* Adds `"key": value` to custom; value is JSON text. False: one of them is no JSON, or the key is there. */
bool manifest_add_custom(struct manifest *m, const char *key, const char *json);

/* The shard with this id; NULL: it is empty. */
const struct manifest_shard *manifest_find(const struct manifest *m, uint32_t db_id);
uint64_t manifest_rows(const struct manifest *m);  /* sum of row_count */
uint64_t manifest_bytes(const struct manifest *m); /* sum of db_bytes */

/* The image, appended to out. It keeps every rule that manifest_parse checks, or ERR_SNAPSHOT_BAD_MANIFEST and why. The same manifest gives the same bytes. */
int manifest_write(const struct manifest *m, struct buf *out, struct buf *why);
/* Borrows the image, any bytes. Gives the manifest, or ERR_SNAPSHOT_BAD_MANIFEST and why in words (why may be NULL). CEL expressions are not compiled here: manifest_router does. */
int manifest_parse(struct slice image, struct manifest **m, struct buf *why);

/* The router of this manifest, for router_free; NULL and why: the CEL expression is faulty. */
struct router *manifest_router(const struct manifest *m, struct buf *why);
