/* A shard file that stays in the object store: a page source (snapshot/pages.h) that fetches pages by ranged requests and keeps them in a page cache, with the help of the shard's sidecar.
 *
 * With a sidecar, opening costs one request, and a lookup one more: the leaf. That the sidecar belongs to the file is known from the ETag of the first range; until then nothing that was read may be
 * believed: rangeread_confirm. Without one, opening reads the file's first bytes.
 * Threads: any number may use an open one. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "snapshot/pages.h"

struct object_store;
struct pagecache;
struct rangeread;
struct readpool;

struct rangeread_counts { /* shared by all files of a reader */
    _Atomic uint64_t requests, bytes;
};

struct rangeread_file {
    struct object_store *store; /* these four are kept */
    struct pagecache *pages;
    struct readpool *pool;
    struct rangeread_counts *counts;
    const char *key, *sidecar_key; /* borrowed; sidecar_key NULL: there is none, or it is not to be used */
    uint64_t bytes;                /* of the file; 0: not known */
};

/* Gives 0 and a reader, or an error and why. A sidecar that is missing or faulty is no error: the file is read without. */
int rangeread_open(struct rangeread **r, const struct rangeread_file *file, struct buf *why);
void rangeread_close(struct rangeread *r); /* nobody may be reading; NULL is allowed */

const struct page_source *rangeread_source(const struct rangeread *r);

/* 0: what was read so far is of one and the same file. ERR_SIDECAR_STALE: the sidecar belongs to another; open again without it, and do again what was read. Makes a request only if
 * nothing has been fetched yet. Reads may give ERR_SIDECAR_STALE themselves. */
int rangeread_confirm(struct rangeread *r);

/* The words of the store about the last request that failed, appended. */
void rangeread_why(struct rangeread *r, struct buf *why);
