/* Writes a shard file: a SQLite database with the table kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID, from rows in ascending order of keys, in one pass.
 *
 * Every page but the last ones of each level is full, so the file is smaller than what inserts in random order leave. Memory is a few pages per level of the tree,
 * whatever the number of rows. One thread per writer. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct shardwrite;

struct shardwrite_result {
    uint64_t rows, bytes; /* bytes of the file */
    uint32_t pages;
};

/* Writes to fd from offset 0 on; the file is empty. page_size: 4096 to 65536, a power of two. The caller closes fd. */
struct shardwrite *shardwrite_new(int fd, uint32_t page_size);
void shardwrite_free(struct shardwrite *w); /* at any time */

/* Keys come in strictly ascending order of bytes: breaking that is the caller's broken promise and aborts. Gives 0 or -errno, -EFBIG beyond 2^32 - 2 pages or for a row of 2^31 bytes. */
int shardwrite_add(struct shardwrite *w, struct slice key, struct slice value);
/* The file is a valid database when this gives 0. Nothing is synced. */
int shardwrite_end(struct shardwrite *w, struct shardwrite_result *result);
struct slice shardwrite_last_key(const struct shardwrite *w); /* that was added; valid until the next one is */
