/* What of a payload does not fit its cell: a chain of overflow pages, read piece by piece over any page source.
 *
 * The payload's length tells how many pages a chain has, and the last one says so too: so a chain that goes round in circles is found without being remembered. Pages that have to be fetched are
 * asked for many at a time: where the source does not know the chain, they are taken to lie one behind the other, as writers leave them; a wrong guess costs only the fetch. */
#pragma once
#include "base/slice.h"
#include "snapshot/pages.h"

struct overflow {
    const struct page_source *source;
    uint32_t next;           /* page that comes, 0 at the end */
    uint64_t left, wanted;   /* bytes to come; how many of them the caller will ask for */
    const uint32_t *known;   /* the chain, as the source says: from `next` on */
    uint32_t n_known;
    uint32_t ahead;          /* pages to guess at most */
    uint32_t held, at;       /* pages that are held; which of them comes next */
    uint32_t numbers[PAGES_GET_MAX];
    const uint8_t *pages[PAGES_GET_MAX];
};

/* The chain from page `head` on holds `bytes`, of which the first `wanted` will be read. Keeps the source. 0 or ERR_SHARD_DAMAGED: then there is nothing to be closed. */
int overflow_open(struct overflow *o, const struct page_source *source, uint32_t head, uint64_t bytes, uint64_t wanted);
void overflow_close(struct overflow *o); /* puts back what is held */

/* The next piece, which lives until the next call, and its page number (may be NULL): 1, 0 behind the last byte of the chain, or an error. */
int overflow_next(struct overflow *o, struct slice *piece, uint32_t *number);

/* Bytes `from` to `from + n` of such a chain. 0 or an error. */
int overflow_copy(const struct page_source *source, uint32_t head, uint64_t bytes, uint64_t from, size_t n, char *out);
