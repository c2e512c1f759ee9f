/* A batch is one block of memory: rows grow from its front, entries (rowsort.h) from its end, until they would meet, with as much kept free again as the entries take, for sorting. A run is a
 * sorted batch: in the file, where each bucket's rows stand in a row of their own, or, the last one, still in memory. Runs are numbered in order of arrival, so of equal keys in
 * several runs that of the highest number was added last. */
#include "snapshot/sorter.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "io/file.h"
#include "snapshot/rowsort.h"
#include "snapshot/tempfile.h"

enum {
    MEMORY_MIN = 64 << 10,
    BATCHES_MAX = 9,
    WRITE_BYTES = 1 << 20,
    READ_BYTES_MAX = 1 << 20,
    READ_BYTES_MIN = 4 << 10,
};

static const uint64_t block_max = UINT32_MAX - 4096; /* entries have 32 bits for a place */

struct batch {
    char *block;
    size_t cap, used; /* used: by rows */
    size_t rows;
    uint32_t run; /* the number of the run that it becomes */
    struct batch *next;
};

struct section { /* a bucket's part of a run */
    uint32_t bucket;
    uint64_t at, bytes;   /* in the file */
    size_t first, count;  /* or of the entries in memory */
};

struct run {
    struct section *sections; /* by ascending bucket */
    size_t n_sections, cap_sections;
    struct batch *batch;              /* in memory: */
    struct rowsort_entry *entries;
};

struct tally {
    uint64_t rows, bytes;
};

struct sorter {
    uint64_t memory_bytes, batch_bytes;
    uint32_t n_threads, n_batches, batches_max;
    const char *dir;
    pthread_t threads[BATCHES_MAX];
    struct batch *filling;
    struct tally *tallies; /* [n_buckets] */
    uint32_t n_buckets, cap_buckets;
    bool finished;

    pthread_mutex_t lock; /* for all below */
    pthread_cond_t changed;
    struct batch *full, *free; /* full: in order of arrival */
    uint32_t sorting;
    bool stop;
    int error;
    int fd; /* -1: not made yet */
    uint64_t file_end;
    struct run *runs;
    uint32_t n_runs, cap_runs;
};

/* ---- batches */

static struct batch *batch_new(size_t bytes)
{
    struct batch *b = mem_zalloc(sizeof *b);
    b->block = mem_alloc(bytes);
    b->cap = bytes;
    return b;
}

static void batch_free(struct batch *b)
{
    if (!b) return;
    mem_free(b->block);
    mem_free(b);
}

static struct rowsort_entry *batch_entries(const struct batch *b) { return (struct rowsort_entry *)(b->block + b->cap) - b->rows; }

static bool batch_has_room(const struct batch *b, size_t row) { return b->used + row + 2 * (b->rows + 1) * sizeof(struct rowsort_entry) <= b->cap; }

static void batch_add(struct batch *b, uint32_t bucket, struct slice key, struct slice value)
{
    char *row = b->block + b->used;
    uint32_t sizes[2] = {(uint32_t)key.n, (uint32_t)value.n};
    b->rows++;
    *batch_entries(b) = (struct rowsort_entry){.prefix = rowsort_prefix(key, 0), .at = (uint32_t)b->used, .bucket = bucket};
    memcpy(row, sizes, ROWSORT_HEAD);
    if (key.n) memcpy(row + ROWSORT_HEAD, key.p, key.n);
    if (value.n) memcpy(row + ROWSORT_HEAD + key.n, value.p, value.n);
    b->used += ROWSORT_HEAD + key.n + value.n;
}

/* ---- runs */

static struct section *add_section(struct run *r, uint32_t bucket)
{
    if (r->n_sections == r->cap_sections) {
        r->cap_sections = r->cap_sections ? 2 * r->cap_sections : 16;
        r->sections = mem_resize(r->sections, r->cap_sections * sizeof *r->sections);
    }
    struct section *s = &r->sections[r->n_sections++];
    *s = (struct section){.bucket = bucket};
    return s;
}

/* Rows in their order to the file from `at` on. */
static int write_run(int fd, uint64_t at, const struct batch *b, const struct rowsort_entry *e, size_t n, struct run *r)
{
    struct buf out = {0};
    int rc = 0;
    struct section *s = NULL;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const char *row = b->block + e[i].at;
        size_t bytes = rowsort_bytes(row);
        if (!s || s->bucket != e[i].bucket) {
            s = add_section(r, e[i].bucket);
            s->at = at + out.len;
        }
        buf_add(&out, row, bytes);
        s->bytes += bytes;
        if (out.len < WRITE_BYTES) continue;
        rc = file_write_all(&file_disk, fd, buf_slice(&out), at);
        at += out.len;
        out.len = 0;
    }
    if (rc == 0) rc = file_write_all(&file_disk, fd, buf_slice(&out), at);
    buf_fini(&out);
    return rc;
}

static void index_run(const struct rowsort_entry *e, size_t n, struct run *r)
{
    struct section *s = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!s || s->bucket != e[i].bucket) {
            s = add_section(r, e[i].bucket);
            s->first = i;
        }
        s->count++;
    }
}

/* Under the lock. A place of that many bytes in the file. */
static int take_place(struct sorter *s, size_t bytes, uint64_t *at)
{
    if (s->fd < 0) {
        int fd = tempfile_open(s->dir);
        if (fd < 0) return fd;
        s->fd = fd;
    }
    *at = s->file_end;
    s->file_end += bytes;
    return 0;
}

static struct rowsort_entry *sort_batch(const struct batch *b, size_t *n)
{
    struct rowsort_entry *sorted = mem_alloc((b->rows + 1) * sizeof *sorted);
    *n = rowsort(b->block, batch_entries(b), sorted, b->rows);
    return sorted;
}

/* Without the lock, but for the moments that need it. */
static int spill(struct sorter *s, struct batch *b)
{
    struct run r = {0};
    uint64_t at;
    size_t n;
    struct rowsort_entry *sorted = sort_batch(b, &n);
    pthread_mutex_lock(&s->lock);
    int rc = take_place(s, b->used, &at);
    int fd = s->fd;
    pthread_mutex_unlock(&s->lock);
    if (rc == 0) rc = write_run(fd, at, b, sorted, n, &r);
    mem_free(sorted);
    pthread_mutex_lock(&s->lock);
    s->runs[b->run] = r;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void *work(void *arg)
{
    struct sorter *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        struct batch *b = s->full;
        if (!b) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        s->full = b->next;
        s->sorting++;
        bool skip = s->error != 0;
        pthread_mutex_unlock(&s->lock);
        int rc = skip ? 0 : spill(s, b);
        pthread_mutex_lock(&s->lock);
        if (rc && !s->error) s->error = rc;
        b->next = s->free;
        s->free = b;
        s->sorting--;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- making */

struct sorter *sorter_new(const struct sorter_options *o)
{
    struct sorter *s = mem_zalloc(sizeof *s);
    s->memory_bytes = o->memory_bytes < MEMORY_MIN ? MEMORY_MIN : o->memory_bytes;
    s->batches_max = o->threads + 1 > BATCHES_MAX ? BATCHES_MAX : o->threads + 1;
    if (s->batches_max < 2) s->batches_max = 2;
    s->batch_bytes = s->memory_bytes / s->batches_max / 16 * 16;
    if (s->batch_bytes > block_max) s->batch_bytes = block_max / 16 * 16;
    s->dir = o->dir;
    s->fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    for (; s->n_threads < s->batches_max - 1; s->n_threads++)
        if (pthread_create(&s->threads[s->n_threads], NULL, work, s) != 0) break;
    CHECK(s->n_threads > 0);
    return s;
}

static void stop_threads(struct sorter *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; i < s->n_threads; i++) pthread_join(s->threads[i], NULL);
    s->n_threads = 0;
}

static void free_batches(struct batch *b)
{
    while (b) {
        struct batch *next = b->next;
        batch_free(b);
        b = next;
    }
}

void sorter_free(struct sorter *s)
{
    if (!s) return;
    stop_threads(s);
    free_batches(s->full);
    free_batches(s->free);
    batch_free(s->filling);
    for (uint32_t i = 0; i < s->n_runs; i++) {
        mem_free(s->runs[i].sections);
        mem_free(s->runs[i].entries);
        batch_free(s->runs[i].batch);
    }
    mem_free(s->runs);
    mem_free(s->tallies);
    if (s->fd >= 0) close(s->fd);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

/* ---- adding */

/* Under the lock. */
static uint32_t add_run(struct sorter *s)
{
    if (s->n_runs == s->cap_runs) {
        s->cap_runs = s->cap_runs ? 2 * s->cap_runs : 16;
        s->runs = mem_resize(s->runs, s->cap_runs * sizeof *s->runs);
    }
    s->runs[s->n_runs] = (struct run){0};
    return s->n_runs++;
}

/* Hands the batch that was being filled to the threads. */
static void hand_over(struct sorter *s)
{
    pthread_mutex_lock(&s->lock);
    s->filling->run = add_run(s);
    s->filling->next = NULL;
    struct batch **end = &s->full;
    while (*end) end = &(*end)->next;
    *end = s->filling;
    s->filling = NULL;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* An empty batch with room for a row of that size: waits for one if there are as many as there may be. */
static int begin_batch(struct sorter *s, size_t row)
{
    size_t need = row + 2 * sizeof(struct rowsort_entry) + 16;
    size_t bytes = need > s->batch_bytes ? need / 16 * 16 + 16 : s->batch_bytes;
    pthread_mutex_lock(&s->lock);
    while (!s->error && !s->free && s->n_batches == s->batches_max) pthread_cond_wait(&s->changed, &s->lock);
    int rc = s->error;
    struct batch *b = s->free;
    if (rc == 0 && b) s->free = b->next;
    else if (rc == 0) s->n_batches++;
    pthread_mutex_unlock(&s->lock);
    if (rc) return rc;
    if (b && b->cap != bytes) {
        batch_free(b);
        b = NULL;
    }
    if (!b) b = batch_new(bytes);
    b->used = b->rows = 0;
    s->filling = b;
    return 0;
}

static void tally(struct sorter *s, uint32_t bucket, size_t bytes)
{
    if (bucket >= s->cap_buckets) {
        uint32_t cap = bucket + 1 > 2 * s->cap_buckets ? bucket + 1 : 2 * s->cap_buckets;
        s->tallies = mem_resize(s->tallies, cap * sizeof *s->tallies);
        memset(s->tallies + s->cap_buckets, 0, (cap - s->cap_buckets) * sizeof *s->tallies);
        s->cap_buckets = cap;
    }
    if (bucket >= s->n_buckets) s->n_buckets = bucket + 1;
    s->tallies[bucket].rows++;
    s->tallies[bucket].bytes += bytes;
}

int sorter_add(struct sorter *s, uint32_t bucket, struct slice key, struct slice value)
{
    size_t row = ROWSORT_HEAD + key.n + value.n;
    CHECK(!s->finished && key.n <= SORTER_ROW_MAX && value.n <= SORTER_ROW_MAX - key.n);
    if (s->filling && !batch_has_room(s->filling, row)) hand_over(s);
    if (!s->filling) {
        int rc = begin_batch(s, row);
        if (rc) return rc;
    }
    batch_add(s->filling, bucket, key, value);
    tally(s, bucket, key.n + value.n);
    return 0;
}

/* The last batch stays in memory: it would be read back at once. */
static void keep_in_memory(struct sorter *s)
{
    size_t n;
    uint32_t number = add_run(s);
    struct run *r = &s->runs[number];
    r->batch = s->filling;
    r->entries = sort_batch(r->batch, &n);
    index_run(r->entries, n, r);
    s->filling = NULL;
}

int sorter_finish(struct sorter *s)
{
    s->finished = true;
    pthread_mutex_lock(&s->lock);
    while (s->full || s->sorting) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    stop_threads(s);
    free_batches(s->free);
    s->free = NULL;
    if (s->filling) keep_in_memory(s);
    return s->error;
}

uint32_t sorter_buckets(const struct sorter *s) { return s->n_buckets; }
uint64_t sorter_added(const struct sorter *s, uint32_t bucket) { return bucket < s->n_buckets ? s->tallies[bucket].rows : 0; }
uint64_t sorter_added_bytes(const struct sorter *s, uint32_t bucket) { return bucket < s->n_buckets ? s->tallies[bucket].bytes : 0; }

/* ---- reading */

struct source { /* a bucket's part of a run, and where it is in it */
    const struct run *run;
    uint32_t number;
    uint64_t prefix;
    const char *row;
    size_t next, end;       /* in memory: of the entries */
    uint64_t at, left;      /* in the file: not read yet */
    struct buf in;
    size_t in_at;           /* the next row in it */
};

struct sorter_cursor {
    int fd;
    size_t read_bytes;
    struct source *sources;
    struct source **heap; /* the smallest (key, number) first */
    size_t n;
    bool handed_out;      /* the row of heap[0] was given to the caller */
    int error;
};

/* Reads on until `bytes` are there behind in_at. */
static int fill(struct sorter_cursor *c, struct source *s, size_t bytes)
{
    if (s->in_at) memmove(s->in.p, s->in.p + s->in_at, s->in.len - s->in_at);
    s->in.len -= s->in_at;
    s->in_at = 0;
    size_t want = bytes > c->read_bytes ? bytes : c->read_bytes;
    if (want - s->in.len > s->left) want = s->in.len + (size_t)s->left;
    buf_room(&s->in, want - s->in.len);
    while (s->in.len < want) {
        ssize_t n = pread(c->fd, s->in.p + s->in.len, want - s->in.len, (off_t)s->at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? -errno : -EIO;
        s->in.len += (size_t)n;
        s->at += (uint64_t)n;
        s->left -= (uint64_t)n;
    }
    return s->in.len >= bytes ? 0 : -EIO;
}

static int next_in_file(struct sorter_cursor *c, struct source *s)
{
    int rc = 0;
    if (s->in_at == s->in.len && s->left == 0) return 0;
    if (s->in.len - s->in_at < ROWSORT_HEAD) rc = fill(c, s, ROWSORT_HEAD);
    if (rc) return rc;
    size_t bytes = rowsort_bytes(s->in.p + s->in_at);
    if (s->in.len - s->in_at < bytes) rc = fill(c, s, bytes);
    if (rc) return rc;
    s->row = s->in.p + s->in_at;
    s->in_at += bytes;
    return 1;
}

/* 1: it has a row. */
static int advance(struct sorter_cursor *c, struct source *s)
{
    int rc = 1;
    if (!s->run->batch) rc = next_in_file(c, s);
    else if (s->next == s->end) rc = 0;
    else s->row = s->run->batch->block + s->run->entries[s->next++].at;
    if (rc == 1) s->prefix = rowsort_prefix(rowsort_key(s->row), 0);
    return rc;
}

static int compare(const struct source *a, const struct source *b)
{
    if (a->prefix != b->prefix) return a->prefix < b->prefix ? -1 : 1;
    return slice_cmp(rowsort_key(a->row), rowsort_key(b->row));
}

static bool is_before(const struct source *a, const struct source *b)
{
    int d = compare(a, b);
    return d < 0 || (d == 0 && a->number < b->number);
}

static void sift_down(struct sorter_cursor *c, size_t i)
{
    struct source *x = c->heap[i];
    for (size_t child; (child = 2 * i + 1) < c->n; i = child) {
        if (child + 1 < c->n && is_before(c->heap[child + 1], c->heap[child])) child++;
        if (!is_before(c->heap[child], x)) break;
        c->heap[i] = c->heap[child];
    }
    c->heap[i] = x;
}

/* The first source goes to its next row, or away. */
static int step(struct sorter_cursor *c)
{
    int rc = advance(c, c->heap[0]);
    if (rc < 0) return rc;
    if (rc == 0) c->heap[0] = c->heap[--c->n];
    if (c->n) sift_down(c, 0);
    return 0;
}

/* A later run has the same key: the smallest of the rest is one of the heap's next two. */
static bool is_outdated(const struct sorter_cursor *c)
{
    const struct source *top = c->heap[0];
    return (c->n > 1 && compare(top, c->heap[1]) == 0) || (c->n > 2 && compare(top, c->heap[2]) == 0);
}

static int by_bucket(const void *key, const void *section)
{
    uint32_t b = *(const uint32_t *)key, x = ((const struct section *)section)->bucket;
    return b < x ? -1 : b > x;
}

struct sorter_cursor *sorter_open(const struct sorter *s, uint32_t bucket)
{
    CHECK(s->finished);
    struct sorter_cursor *c = mem_zalloc(sizeof *c);
    uint64_t share = s->memory_bytes / 2 / (s->batches_max - 1) / (s->n_runs + 1);
    c->fd = s->fd;
    c->read_bytes = share > READ_BYTES_MAX ? READ_BYTES_MAX : share < READ_BYTES_MIN ? READ_BYTES_MIN : (size_t)share;
    c->sources = mem_zalloc((s->n_runs + 1) * sizeof *c->sources);
    c->heap = mem_alloc((s->n_runs + 1) * sizeof *c->heap);
    for (uint32_t i = 0; i < s->n_runs && !c->error; i++) {
        const struct run *r = &s->runs[i];
        const struct section *x = r->n_sections ? bsearch(&bucket, r->sections, r->n_sections, sizeof *x, by_bucket) : NULL;
        if (!x) continue;
        struct source *from = &c->sources[c->n];
        *from = (struct source){.run = r, .number = i, .next = x->first, .end = x->first + x->count, .at = x->at, .left = x->bytes};
        int rc = advance(c, from);
        if (rc < 0) c->error = rc;
        else c->heap[c->n++] = from;
    }
    for (size_t i = c->n / 2; i-- > 0;) sift_down(c, i);
    return c;
}

void sorter_close(struct sorter_cursor *c)
{
    if (!c) return;
    /* Sources were filled from the front without gaps; those that were never used are zeroed. */
    for (struct source *s = c->sources; s->run; s++) buf_fini(&s->in);
    mem_free(c->sources);
    mem_free(c->heap);
    mem_free(c);
}

int sorter_next(struct sorter_cursor *c, struct slice *key, struct slice *value)
{
    if (!c->error && c->handed_out) c->error = step(c);
    while (!c->error && c->n && is_outdated(c)) c->error = step(c);
    if (c->error) return c->error;
    c->handed_out = c->n > 0;
    if (c->n == 0) return 0;
    *key = rowsort_key(c->heap[0]->row);
    *value = rowsort_value(c->heap[0]->row);
    return 1;
}
