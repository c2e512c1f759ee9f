/* Rows of a shard, the naive way: an array in order of keys. And the ways to make a file of them and to read it: from memory, and from a source that hands out copies of pages,
 * which a sanitizer sees being used too late, and counts what is held. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "snapshot/pages.h"
#include "snapshot/shardwrite.h"

struct shardrow {
    struct slice key, value;
};

struct shardrows {
    struct shardrow *rows;
    size_t n;
};

static inline int shardrows_cmp(const void *a, const void *b) { return slice_cmp(((const struct shardrow *)a)->key, ((const struct shardrow *)b)->key); }

static inline struct slice shardrows_bytes(struct rng *rng, size_t n, uint64_t letters)
{
    char *p = mem_alloc(n + 1);
    for (size_t i = 0; i < n; i++) p[i] = (char)(letters ? 'a' + rng_below(rng, letters) : rng_u64(rng));
    return slice_of(p, n);
}

/* Sorted, without duplicates. Keys of few letters have long common prefixes and are prefixes of each other. */
static inline struct shardrows shardrows_random(struct rng *rng, size_t n, size_t key_max, size_t value_max)
{
    struct shardrows r = {.rows = mem_alloc((n + 1) * sizeof *r.rows)};
    uint64_t letters = rng_below(rng, 2) * 2;
    for (size_t i = 0; i < n; i++) {
        size_t key_n = rng_below(rng, rng_below(rng, 8) ? (key_max < 24 ? key_max : 24) + 1 : key_max + 1);
        size_t value_n = rng_below(rng, rng_below(rng, 8) ? (value_max < 200 ? value_max : 200) + 1 : value_max + 1);
        r.rows[i] = (struct shardrow){shardrows_bytes(rng, key_n, letters), shardrows_bytes(rng, value_n, 0)};
    }
    qsort(r.rows, n, sizeof *r.rows, shardrows_cmp);
    for (size_t i = 0; i < n; i++) {
        if (r.n && slice_eq(r.rows[r.n - 1].key, r.rows[i].key)) {
            mem_free((void *)r.rows[i].key.p);
            mem_free((void *)r.rows[i].value.p);
        } else r.rows[r.n++] = r.rows[i];
    }
    return r;
}

static inline void shardrows_free(struct shardrows *r)
{
    for (size_t i = 0; i < r->n; i++) {
        mem_free((void *)r->rows[i].key.p);
        mem_free((void *)r->rows[i].value.p);
    }
    mem_free(r->rows);
}

/* The first row that is not before the key; n: none. */
static inline size_t shardrows_seek(const struct shardrows *r, struct slice key)
{
    size_t i = 0;
    while (i < r->n && slice_cmp(r->rows[i].key, key) < 0) i++;
    return i;
}

static inline struct buf shardrows_file(const struct shardrows *r, uint32_t page_size, struct shardwrite_result *result)
{
    FILE *f = tmpfile();
    CHECK(f);
    struct shardwrite *w = shardwrite_new(fileno(f), page_size);
    for (size_t i = 0; i < r->n; i++) CHECK(shardwrite_add(w, r->rows[i].key, r->rows[i].value) == 0);
    CHECK(shardwrite_end(w, result) == 0);
    shardwrite_free(w);
    struct buf out = {0};
    CHECK(pread(fileno(f), buf_room(&out, result->bytes + 1), result->bytes + 1, 0) == (ssize_t)result->bytes);
    out.len = result->bytes;
    fclose(f);
    return out;
}

/* ---- a source that has to be asked */

struct shardrows_source {
    struct page_source source;
    struct page_source whole;
    uint64_t gets, pages, wants; /* calls, pages in them */
    int64_t held;
    uint64_t fail_at;            /* the get of this number fails with -EIO; 0: none */
};

static inline int shardrows_get(void *ctx, const uint32_t *numbers, uint32_t n, const uint8_t **pages)
{
    struct shardrows_source *s = ctx;
    CHECK(n >= 1 && n <= PAGES_GET_MAX);
    if (++s->gets == s->fail_at) return -5;
    for (uint32_t i = 0; i < n; i++) {
        CHECK(numbers[i] >= 1 && numbers[i] <= s->source.n_pages);
        pages[i] = mem_dup(s->whole.base + (size_t)(numbers[i] - 1) * s->source.page_size, s->source.page_size);
    }
    s->pages += n;
    s->held += n;
    return 0;
}

static inline void shardrows_put(void *ctx, const uint32_t *numbers, uint32_t n, const uint8_t *const *pages)
{
    struct shardrows_source *s = ctx;
    for (uint32_t i = 0; i < n; i++) mem_free((void *)pages[i]);
    s->held -= n;
}

static inline void shardrows_want(void *ctx, const uint32_t *numbers, uint32_t n)
{
    struct shardrows_source *s = ctx;
    CHECK(n >= 1 && n <= PAGES_GET_MAX);
    for (uint32_t i = 0; i < n; i++) CHECK(numbers[i] >= 1 && numbers[i] <= s->source.n_pages);
    s->wants += n;
}

static inline int shardrows_source_init(struct shardrows_source *s, struct slice file)
{
    *s = (struct shardrows_source){0};
    int rc = pages_of_bytes(&s->whole, file, NULL);
    s->source = (struct page_source){.page_size = s->whole.page_size, .n_pages = s->whole.n_pages, .ctx = s, .get = shardrows_get, .put = shardrows_put, .want = shardrows_want};
    return rc;
}
