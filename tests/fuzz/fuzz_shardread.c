/* Any bytes as a shard file: opened, looked up, walked both ways, checked and made a sidecar of, everything ends. In a file that the check finds whole, every row of the walk is found by its key, with an index and without, and
 * the walk back meets as many. The first byte says whether the file's header is made right first, so that what lies behind it is reached. */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "snapshot/leafindex.h"
#include "snapshot/pagefile.h"
#include "snapshot/shardread.h"
#include "snapshot/sidecar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void make_right(struct buf *file)
{
    if (file->len < PAGEFILE_HEADER_BYTES) return;
    file->len -= file->len % PAGEFILE_SIZE_MIN;
    memcpy(file->p, "SQLite format 3\0\2\0\1\1\0\x40\x20\x20", 24);
    pagefile_put_u32(file->p + 28, 0);
    pagefile_put_u32(file->p + 44, 4);
    pagefile_put_u32(file->p + 56, 1);
}

/* The index answers as the tree does, if the file is whole. */
static void look_up_by_index(const struct shardread *tree, bool whole)
{
    struct shardread r = *tree;
    struct shardread_cursor c;
    struct buf buf = {0};
    struct slice value, again;
    r.index = leafindex_new(r.source, r.root);
    leafindex_ready(r.index, 1 << 20);
    leafindex_ready(r.index, 1 << 20);
    shardread_cursor_init(&c, tree);
    for (int rc = shardread_seek(&c, SLICE("")); rc == 1; rc = shardread_next(&c)) {
        int got = shardread_value(&c, &value), found = shardread_get(&r, shardread_key(&c), &buf, &again);
        CHECK(!whole || (got == 0 && found == 1 && slice_eq(value, again)));
    }
    shardread_cursor_fini(&c);
    struct shardread_ask asks[3] = {{.key = SLICE("")}, {.key = SLICE("key-1")}, {.key = SLICE("\xff")}};
    shardread_get_many(&r, asks, 3, &buf);
    leafindex_free(r.index);
    buf_fini(&buf);
}

static uint64_t walk(const struct shardread *r, bool whole)
{
    struct shardread_cursor c;
    struct buf buf = {0};
    struct slice value, again;
    uint64_t rows = 0, back = 0;
    int rc;
    shardread_cursor_init(&c, r);
    for (rc = shardread_seek(&c, SLICE("")); rc == 1; rc = shardread_next(&c), rows++) {
        int got = shardread_value(&c, &value), found = shardread_get(r, shardread_key(&c), &buf, &again);
        CHECK(!whole || (got == 0 && found == 1 && slice_eq(value, again)));
    }
    CHECK(!whole || rc == 0);
    for (rc = shardread_seek_last(&c); rc == 1; rc = shardread_prev(&c)) back++;
    CHECK(!whole || (rc == 0 && back == rows));
    shardread_cursor_fini(&c);
    buf_fini(&buf);
    return rows;
}

static void read_all(const struct page_source *source)
{
    struct shardread r;
    struct shardread_stats stats;
    struct buf buf = {0}, sidecar = {0};
    const char *why = NULL;
    if (shardread_open(&r, source, &why)) {
        CHECK(why);
        return;
    }
    bool whole = shardread_check(&r, &stats) == 0;
    uint64_t rows = walk(&r, whole);
    look_up_by_index(&r, whole);
    CHECK(!whole || rows <= stats.rows); /* keys that are no BLOB are not shown */
    struct shardread_ask asks[3] = {{.key = SLICE("")}, {.key = SLICE("key-1")}, {.key = SLICE("\xff")}};
    shardread_get_many(&r, asks, 3, &buf);
    if (sidecar_build(source, &sidecar) == 0 && sidecar_bind(&sidecar, 0, SLICE("tag"))) {
        struct sidecar *s;
        CHECK(sidecar_new(&s, buf_slice(&sidecar), SLICE("tag"), (uint64_t)source->n_pages * source->page_size) == 0);
        sidecar_free(s);
    }
    buf_fini(&buf);
    buf_fini(&sidecar);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    struct buf file = {0};
    struct page_source source;
    buf_add(&file, data + 1, n - 1);
    if (data[0] & 1) make_right(&file);
    if (file.len && pages_of_bytes(&source, buf_slice(&file), NULL) == 0) read_all(&source);
    buf_fini(&file);
    return 0;
}
