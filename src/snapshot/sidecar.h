/* The sidecar of a shard file: its interior pages and the page numbers of its overflow chains in one small object, so that a lookup in a shard that lies in an object store needs one request for
 * the leaf, and one more for a chain. Format version 8; the bytes are described at the top of sidecar.c. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "snapshot/pages.h"

struct sidecar;

enum { SIDECAR_TAG_MAX = 255 };

/* ---- writing: build as soon as the shard file is finished, bind when its put told the ETag */

/* Appends the sidecar of a whole shard file, not bound to an object yet. Reads every page. 0, or an error: nothing is appended then. A shard can do without. */
int sidecar_build(const struct page_source *source, struct buf *out);
/* Binds a sidecar, which begins at offset `at` of out, to the object with this ETag, given as the store does, with its quotes. False: longer than SIDECAR_TAG_MAX. */
bool sidecar_bind(struct buf *out, size_t at, struct slice etag);

/* ---- reading */

/* Gives a sidecar if the bytes are one, whole and valid in every respect, that is bound to the object with this ETag and this size. Else ERR_SIDECAR_STALE (it belongs to another object, or
 * to none) or ERR_SIDECAR_DAMAGED: the shard is read without it then. Borrows all. */
int sidecar_new(struct sidecar **sidecar, struct slice file, struct slice etag, uint64_t db_bytes);
void sidecar_free(struct sidecar *s); /* NULL is allowed */

/* A sidecar is immutable: any thread. */
uint32_t sidecar_page_size(const struct sidecar *s);
uint32_t sidecar_n_pages(const struct sidecar *s);                   /* of the shard file */
uint32_t sidecar_held(const struct sidecar *s);                      /* how many of them are here; page 1 is */
const uint8_t *sidecar_page(const struct sidecar *s, uint32_t number); /* NULL: not here */
uint32_t sidecar_chain(const struct sidecar *s, uint32_t head, const uint32_t **numbers); /* as page_source.chain */

/* A source that gives the sidecar's pages from memory, and asks another one for the rest. Keeps both. `under` has the page size and the number of pages of the sidecar, and get and put. */
struct sidecar_pages {
    struct page_source source;
    const struct sidecar *sidecar;
    const struct page_source *under;
};
void sidecar_pages_init(struct sidecar_pages *p, const struct sidecar *sidecar, const struct page_source *under);
