/* Where a shard file's pages come from: a file in memory, or anything that can fetch pages by number.
 *
 * A source is used by any number of threads at once. Pages are numbered from 1 and never change. A page that was got stays where it is until it is put back; its bytes come from
 * outside and may be anything. Errors are negative: -errno or codes of base/err.h, as the source's own reading gave them.
 *
 * Where all pages lie in memory in order (`base` is set), nothing is called and nothing is held: that is the fast way, and the one of mapped files. Else `get` and `put` are. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct page_source {
    uint32_t page_size, n_pages;
    const uint8_t *base; /* page n is at (n - 1) * page_size; NULL: they have to be got */
    void *ctx;           /* of the functions below, which are NULL where base is set */
    /* Holds n pages (n >= 1, at most PAGES_GET_MAX; numbers are within 1..n_pages, in any order, perhaps one twice) and tells where they are: all, or none and an error. What has to be
     * fetched for one call should be one round trip. */
    int (*get)(void *ctx, const uint32_t *numbers, uint32_t n, const uint8_t **pages);
    void (*put)(void *ctx, const uint32_t *numbers, uint32_t n, const uint8_t *const *pages); /* each get of a page has its put */
    /* May be NULL. These pages (at most PAGES_GET_MAX) will be got soon, in this order: a scan says so. Never waits, never fails. */
    void (*want)(void *ctx, const uint32_t *numbers, uint32_t n);
    /* May be NULL. The page numbers of the overflow chain that begins at page `head`, which comes first, if the source happens to know them: gives how many, 0 if it does not; they
     * live as long as the source. They are believed only as far as the pages themselves bear them out. */
    uint32_t (*chain)(void *ctx, uint32_t head, const uint32_t **numbers);
};

enum { PAGES_GET_MAX = 256 };

static inline int pages_get(const struct page_source *s, uint32_t number, const uint8_t **page)
{
    if (number - 1 >= s->n_pages) return ERR_SHARD_DAMAGED; /* 0 wraps round */
    if (s->base) {
        *page = s->base + (size_t)(number - 1) * s->page_size;
        return 0;
    }
    return s->get(s->ctx, &number, 1, page);
}

static inline void pages_put(const struct page_source *s, uint32_t number, const uint8_t *page)
{
    if (!s->base) s->put(s->ctx, &number, 1, &page);
}

/* Reads page size and number of pages of a file of file_bytes from its first 100 bytes, and refuses what no shard file has: 0, or ERR_SHARD_DAMAGED, ERR_SHARD_UNSUPPORTED and in *why
 * (may be NULL) a sentence, static. For whoever makes a source. */
int pages_header(struct slice first, uint64_t file_bytes, uint32_t *page_size, uint32_t *n_pages, const char **why);

/* A source of bytes in memory: keeps them. */
int pages_of_bytes(struct page_source *s, struct slice bytes, const char **why);

/* A source of a local file, mapped. The file must not be changed or shortened while it is open: reading what is gone ends the process (SIGBUS). Replacing it by rename is fine. */
struct pages_file {
    struct page_source source;
    struct slice map;
};
int pages_file_open(struct pages_file *f, const char *path, const char **why); /* also -errno */
void pages_file_close(struct pages_file *f); /* also of a zeroed one, or one that did not open */
