#include "snapshot/readscan.h"

#include <errno.h>

#include "base/err.h"
#include "base/mem.h"
#include "snapshot/readpool.h"
#include "snapshot/readstate.h"

/* ---- ranges */

void readscan_range_fini(struct readscan_range *r)
{
    buf_fini(&r->from);
    buf_fini(&r->to);
}

/* The smallest key above `key` is key and a zero byte: so every bound becomes one that includes the lower end and leaves out the upper. */
static void raise_from(struct readscan_range *r, struct slice key, bool without_it)
{
    r->from.len = 0;
    buf_add_slice(&r->from, key);
    if (without_it) buf_add_byte(&r->from, 0);
}

void readscan_from(struct readscan_range *r, struct slice key, bool without_it)
{
    int d = slice_cmp(key, buf_slice(&r->from));
    if (d >= 0) raise_from(r, key, without_it);
}

void readscan_to(struct readscan_range *r, struct slice key, bool with_it)
{
    struct buf to = {0};
    buf_add_slice(&to, key);
    if (with_it) buf_add_byte(&to, 0);
    if (!r->has_to || slice_cmp(buf_slice(&to), buf_slice(&r->to)) < 0) {
        buf_fini(&r->to);
        r->to = to;
        r->has_to = true;
    } else {
        buf_fini(&to);
    }
}

/* Behind all keys with the prefix comes the prefix with its last byte raised; a byte 255 has nothing above it, so the one before it is raised. */
void readscan_prefix(struct readscan_range *r, struct slice prefix)
{
    readscan_from(r, prefix, false);
    while (prefix.n && (uint8_t)prefix.p[prefix.n - 1] == 255) prefix.n--;
    if (prefix.n == 0) return;
    struct buf to = {0};
    buf_add_slice(&to, prefix);
    to.p[to.len - 1]++;
    readscan_to(r, buf_slice(&to), false);
    buf_fini(&to);
}

/* ---- shards */

struct head {
    struct shardread_cursor cursor;
    struct shardfile *file;
    uint32_t place;
    int rc; /* of the last move: 1 on a row */
    struct buf why;
};

struct readscan {
    struct readstate *s;
    struct readscan_range range;
    struct head *heads;
    uint32_t n_heads;
    struct head **heap; /* those that are on a row, the next one on top */
    uint32_t n_heap;
    bool started;
    int failed; /* the error that ended it */
};

/* Whether the row that the cursor is on is still in the range. */
static bool is_in(const struct readscan *scan, struct slice key)
{
    if (scan->range.reverse) return slice_cmp(key, buf_slice(&scan->range.from)) >= 0;
    return !scan->range.has_to || slice_cmp(key, buf_slice(&scan->range.to)) < 0;
}

static void note_move(struct readscan *scan, struct head *h, int rc)
{
    h->rc = rc == 1 && !is_in(scan, shardread_key(&h->cursor)) ? 0 : rc;
}

static int seek(const struct readscan *scan, struct head *h)
{
    const struct readscan_range *r = &scan->range;
    if (!r->reverse) return shardread_seek(&h->cursor, buf_slice(&r->from));
    return r->has_to ? shardread_seek_before(&h->cursor, buf_slice(&r->to)) : shardread_seek_last(&h->cursor);
}

static void start_head(void *arg, uint32_t i)
{
    struct readscan *scan = arg;
    struct head *h = &scan->heads[i];
    const struct shardread *r;
    h->rc = readstate_shard(scan->s, h->place, &h->file, &h->why);
    if (h->rc == 0) h->rc = shardfile_walk(h->file, &r);
    if (h->rc < 0) return;
    shardread_cursor_init(&h->cursor, r);
    note_move(scan, h, seek(scan, h));
}

static int fail(struct readscan *scan, struct head *h, int rc, struct buf *why)
{
    const struct manifest_shard *shard = &readstate_manifest(scan->s)->shards[h->place];
    if (rc == ERR_OBJECT_NOT_FOUND) rc = ERR_SNAPSHOT_SHARD;
    scan->failed = rc;
    if (h->why.len) {
        buf_add_slice(why, buf_slice(&h->why));
        return rc;
    }
    buf_printf(why, "shard %u (%s): %s", shard->db_id, shard->db_url, err_text(rc));
    if (h->file) {
        buf_add_str(why, " ");
        shardfile_why(h->file, why);
    }
    return rc;
}

/* ---- merging */

static bool goes_before(const struct readscan *scan, const struct head *a, const struct head *b)
{
    int d = slice_cmp(shardread_key(&a->cursor), shardread_key(&b->cursor));
    if (d == 0) return a->place < b->place;
    return scan->range.reverse ? d > 0 : d < 0;
}

static void sift_down(struct readscan *scan, uint32_t i)
{
    for (;;) {
        uint32_t best = i;
        for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < scan->n_heap; child++)
            if (goes_before(scan, scan->heap[child], scan->heap[best])) best = child;
        if (best == i) return;
        struct head *h = scan->heap[i];
        scan->heap[i] = scan->heap[best];
        scan->heap[best] = h;
        i = best;
    }
}

static int build_heap(struct readscan *scan, struct buf *why)
{
    for (uint32_t i = 0; i < scan->n_heads; i++) {
        struct head *h = &scan->heads[i];
        if (h->rc < 0) return fail(scan, h, h->rc, why);
        if (h->rc == 1) scan->heap[scan->n_heap++] = h;
    }
    for (uint32_t i = scan->n_heap / 2; i-- > 0;) sift_down(scan, i);
    return 0;
}

/* Moves on behind the row that was given last. */
static int advance(struct readscan *scan, struct buf *why)
{
    struct head *h = scan->heap[0];
    note_move(scan, h, scan->range.reverse ? shardread_prev(&h->cursor) : shardread_next(&h->cursor));
    if (h->rc < 0) return fail(scan, h, h->rc, why);
    if (h->rc == 0) scan->heap[0] = scan->heap[--scan->n_heap];
    sift_down(scan, 0);
    return 0;
}

/* ---- */

static void choose_heads(struct readscan *scan, const struct manifest *m)
{
    scan->heads = mem_zalloc((m->n_shards + 1) * sizeof *scan->heads);
    scan->heap = mem_zalloc((m->n_shards + 1) * sizeof *scan->heap);
    for (uint32_t i = 0; i < m->n_shards; i++) {
        if (scan->range.one_shard && m->shards[i].db_id != scan->range.shard) continue;
        scan->heads[scan->n_heads++].place = i;
    }
}

int readscan_open(struct readscan **out, struct readstate *s, const struct readscan_range *range, struct buf *why)
{
    struct readscan *scan = mem_zalloc(sizeof *scan);
    scan->s = s;
    scan->range = *range;
    scan->range.from = scan->range.to = (struct buf){0};
    buf_add_slice(&scan->range.from, buf_slice(&range->from));
    buf_add_slice(&scan->range.to, buf_slice(&range->to));
    choose_heads(scan, readstate_manifest(s));
    readpool_run(readstate_pool(s), scan->n_heads, start_head, scan);
    int rc = build_heap(scan, why);
    if (rc < 0) {
        readscan_close(scan);
        return rc;
    }
    *out = scan;
    return 0;
}

void readscan_close(struct readscan *scan)
{
    if (!scan) return;
    for (uint32_t i = 0; i < scan->n_heads; i++) {
        if (scan->heads[i].cursor.r) shardread_cursor_fini(&scan->heads[i].cursor);
        buf_fini(&scan->heads[i].why);
    }
    readscan_range_fini(&scan->range);
    mem_free(scan->heads);
    mem_free(scan->heap);
    mem_free(scan);
}

int readscan_next(struct readscan *scan, struct slice *key, struct slice *value, struct buf *why)
{
    if (scan->failed) return scan->failed;
    int rc = scan->started && scan->n_heap ? advance(scan, why) : 0;
    scan->started = true;
    if (rc < 0) return rc;
    if (scan->n_heap == 0) return 0;
    struct head *h = scan->heap[0];
    *key = shardread_key(&h->cursor);
    rc = shardread_value(&h->cursor, value);
    return rc < 0 ? fail(scan, h, rc, why) : 1;
}
