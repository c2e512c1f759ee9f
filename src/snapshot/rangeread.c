#include "snapshot/rangeread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "object/object.h"
#include "snapshot/pagecache.h"
#include "snapshot/pagefile.h"
#include "snapshot/readpool.h"
#include "snapshot/sidecar.h"

enum {
    FIRST_BYTES = 64 << 10,     /* what opening reads of a file without a sidecar */
    GAP_BYTES = 32 << 10,       /* two pages that are not further apart come by one request: the bytes between are cheaper than another one */
    RANGE_BYTES_MAX = 4 << 20,
    SIDECAR_BYTES_MAX = 256 << 20,
    TAG_AT = 17,                /* of a sidecar: length of the tag, then the tag (top of sidecar.c) */
};

struct rangeread {
    struct rangeread_file file; /* key is our own copy */
    uint64_t id;                /* in the page cache */
    struct page_source under;
    struct sidecar *sidecar;    /* may be NULL */
    struct sidecar_pages joined;
    _Atomic bool confirmed;     /* a range had the tag below */
    pthread_mutex_t lock;       /* guards all below */
    char etag[OBJECT_ETAG_BYTES]; /* of the file; before it is confirmed, what the sidecar says */
    char detail[OBJECT_DETAIL_BYTES];
    uint32_t wanting; /* posted fetches under way */
    pthread_cond_t wanted;
};

/* ---- requests */

static void note_failure(struct rangeread *r, const struct object_call *call)
{
    pthread_mutex_lock(&r->lock);
    memcpy(r->detail, call->detail, sizeof r->detail);
    pthread_mutex_unlock(&r->lock);
}

/* Is this the file that we have been reading? */
static int check_tag(struct rangeread *r, const struct object_meta *meta)
{
    int rc = 0;
    pthread_mutex_lock(&r->lock);
    bool confirmed = atomic_load(&r->confirmed);
    if (!confirmed && !r->sidecar) memcpy(r->etag, meta->etag, sizeof r->etag);
    if (strcmp(r->etag, meta->etag) != 0 || meta->size != r->file.bytes)
        rc = confirmed ? ERR_OBJECT_CHANGED : r->sidecar ? ERR_SIDECAR_STALE : ERR_SNAPSHOT_SHARD;
    else
        atomic_store(&r->confirmed, true);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static int fetch(struct rangeread *r, void *p, size_t n, uint64_t at)
{
    struct object_call call = {0};
    struct object_meta meta;
    atomic_fetch_add(&r->file.counts->requests, 1);
    ssize_t got = object_get_range(r->file.store, &call, r->file.key, p, n, at, &meta);
    if (got < 0) {
        note_failure(r, &call);
        return (int)got;
    }
    atomic_fetch_add(&r->file.counts->bytes, (uint64_t)got);
    int rc = check_tag(r, &meta);
    if (rc < 0) return rc;
    return (size_t)got == n ? 0 : ERR_OBJECT_CHANGED;
}

int rangeread_confirm(struct rangeread *r)
{
    if (atomic_load(&r->confirmed)) return 0;
    struct object_call call = {0};
    struct object_meta meta;
    atomic_fetch_add(&r->file.counts->requests, 1);
    int rc = object_head(r->file.store, &call, r->file.key, &meta);
    if (rc < 0) {
        note_failure(r, &call);
        return rc;
    }
    return check_tag(r, &meta);
}

void rangeread_why(struct rangeread *r, struct buf *why)
{
    pthread_mutex_lock(&r->lock);
    if (r->detail[0]) buf_add_str(why, r->detail);
    pthread_mutex_unlock(&r->lock);
}

/* ---- fetching pages that are not in the cache */

struct load {
    uint32_t number;
    struct pagecache_page *page;
};

/* Loads [first, end) that come by one request. */
struct span {
    uint32_t first, end;
};

struct fetching {
    struct rangeread *r;
    struct load *loads; /* by ascending number */
    struct span spans[PAGES_GET_MAX];
    uint32_t n_spans;
};

static int by_number(const void *a, const void *b)
{
    uint32_t x = ((const struct load *)a)->number, y = ((const struct load *)b)->number;
    return x < y ? -1 : x > y;
}

static void cut_spans(struct fetching *f, uint32_t n)
{
    uint32_t size = f->r->under.page_size;
    for (uint32_t i = 0; i < n; i++) {
        struct span *last = f->n_spans ? &f->spans[f->n_spans - 1] : NULL;
        bool joins = last && (uint64_t)(f->loads[i].number - f->loads[i - 1].number - 1) * size <= GAP_BYTES &&
                     (uint64_t)(f->loads[i].number - f->loads[last->first].number + 1) * size <= RANGE_BYTES_MAX;
        if (joins)
            last->end = i + 1;
        else
            f->spans[f->n_spans++] = (struct span){i, i + 1};
    }
}

static int fill_many(struct fetching *f, const struct span *s)
{
    uint32_t size = f->r->under.page_size, first = f->loads[s->first].number, last = f->loads[s->end - 1].number;
    size_t bytes = (size_t)(last - first + 1) * size;
    uint8_t *range = mem_alloc(bytes);
    int rc = fetch(f->r, range, bytes, (uint64_t)(first - 1) * size);
    for (uint32_t i = s->first; rc == 0 && i < s->end; i++) memcpy(pagecache_bytes(f->loads[i].page), range + (size_t)(f->loads[i].number - first) * size, size);
    mem_free(range);
    return rc;
}

static void fetch_span(void *arg, uint32_t i)
{
    struct fetching *f = arg;
    const struct span *s = &f->spans[i];
    const struct load *one = &f->loads[s->first];
    uint32_t size = f->r->under.page_size;
    int rc = s->end - s->first > 1 ? fill_many(f, s) : fetch(f->r, pagecache_bytes(one->page), size, (uint64_t)(one->number - 1) * size);
    for (uint32_t k = s->first; k < s->end; k++) pagecache_loaded(f->r->file.pages, f->loads[k].page, rc);
}

/* Fetches the pages that are ours to load, near ones together, all at once. Failures are noted in the pages. */
static void fetch_loads(struct rangeread *r, struct load *loads, uint32_t n)
{
    struct fetching f = {.r = r, .loads = loads};
    qsort(loads, n, sizeof *loads, by_number);
    cut_spans(&f, n);
    readpool_run(r->file.pool, f.n_spans, fetch_span, &f);
}

/* ---- the page source */

static void put_pages(void *ctx, const uint32_t *numbers, uint32_t n, const uint8_t *const *pages)
{
    struct rangeread *r = ctx;
    for (uint32_t i = 0; i < n; i++) pagecache_put(r->file.pages, pagecache_of(pages[i]));
}

static int get_pages(void *ctx, const uint32_t *numbers, uint32_t n, const uint8_t **pages)
{
    struct rangeread *r = ctx;
    struct load loads[PAGES_GET_MAX];
    uint32_t n_loads = 0;
    bool all_ready = true;
    CHECK(n >= 1 && n <= PAGES_GET_MAX);
    for (uint32_t i = 0; i < n; i++) {
        struct pagecache_page *page;
        enum pagecache_found found = pagecache_take(r->file.pages, r->id, numbers[i], r->under.page_size, &page);
        pages[i] = pagecache_bytes(page);
        if (found == PAGECACHE_LOAD) loads[n_loads++] = (struct load){numbers[i], page};
        if (found != PAGECACHE_READY) all_ready = false;
    }
    if (all_ready) return 0;
    if (n_loads) fetch_loads(r, loads, n_loads);
    int rc = 0;
    for (uint32_t i = 0; i < n; i++) {
        int one = pagecache_wait(r->file.pages, pagecache_of(pages[i]));
        if (rc == 0) rc = one;
    }
    if (rc < 0) put_pages(r, numbers, n, pages);
    return rc;
}

/* ---- fetching ahead */

struct ahead {
    struct rangeread *r;
    uint32_t n;
    uint32_t numbers[PAGES_GET_MAX];
};

static void end_ahead(struct ahead *a)
{
    struct rangeread *r = a->r;
    mem_free(a);
    pthread_mutex_lock(&r->lock);
    if (--r->wanting == 0) pthread_cond_broadcast(&r->wanted);
    pthread_mutex_unlock(&r->lock);
}

/* A scan that reaches one of these pages meanwhile waits for this fetch and makes none of its own. */
static void fetch_ahead(void *arg)
{
    struct ahead *a = arg;
    struct pagecache *pages = a->r->file.pages;
    struct load loads[PAGES_GET_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        struct pagecache_page *page;
        if (pagecache_take(pages, a->r->id, a->numbers[i], a->r->under.page_size, &page) == PAGECACHE_LOAD)
            loads[n++] = (struct load){a->numbers[i], page};
        else
            pagecache_put(pages, page);
    }
    if (n) fetch_loads(a->r, loads, n);
    for (uint32_t i = 0; i < n; i++) pagecache_put(pages, loads[i].page);
    end_ahead(a);
}

static void want_pages(void *ctx, const uint32_t *numbers, uint32_t n)
{
    struct rangeread *r = ctx;
    struct ahead *a = mem_alloc(sizeof *a);
    CHECK(n <= PAGES_GET_MAX);
    a->r = r;
    a->n = n;
    memcpy(a->numbers, numbers, n * sizeof *numbers);
    pthread_mutex_lock(&r->lock);
    r->wanting++;
    pthread_mutex_unlock(&r->lock);
    if (!readpool_post(r->file.pool, fetch_ahead, a)) end_ahead(a);
}

/* ---- opening */

/* The tag that a sidecar says it is bound to; whether the file has it shows with the first range. */
static bool own_tag(struct slice sidecar, struct slice *tag)
{
    if (sidecar.n <= TAG_AT) return false;
    *tag = slice_of(sidecar.p + TAG_AT + 1, (uint8_t)sidecar.p[TAG_AT]);
    return tag->n > 0 && tag->n < OBJECT_ETAG_BYTES && tag->n <= sidecar.n - TAG_AT - 1;
}

static void load_sidecar(struct rangeread *r, const char *sidecar_key)
{
    struct buf bytes = {0};
    struct slice tag;
    atomic_fetch_add(&r->file.counts->requests, 1);
    bool here = object_get(r->file.store, NULL, sidecar_key, SIDECAR_BYTES_MAX, &bytes, NULL) == 0;
    if (here) atomic_fetch_add(&r->file.counts->bytes, bytes.len);
    if (here && own_tag(buf_slice(&bytes), &tag) && sidecar_new(&r->sidecar, buf_slice(&bytes), tag, r->file.bytes) == 0) {
        memcpy(r->etag, tag.p, tag.n);
        r->etag[tag.n] = 0;
        r->under.page_size = sidecar_page_size(r->sidecar);
        r->under.n_pages = sidecar_n_pages(r->sidecar);
    }
    buf_fini(&bytes);
}

/* The whole pages among the file's first bytes need not be fetched again. */
static void keep_first(struct rangeread *r, struct slice first)
{
    uint32_t size = r->under.page_size;
    for (uint32_t i = 0; i < r->under.n_pages && (size_t)(i + 1) * size <= first.n; i++) {
        struct pagecache_page *page;
        if (pagecache_take(r->file.pages, r->id, i + 1, size, &page) == PAGECACHE_LOAD) {
            memcpy(pagecache_bytes(page), first.p + (size_t)i * size, size);
            pagecache_loaded(r->file.pages, page, 0);
        }
        pagecache_put(r->file.pages, page);
    }
}

static int read_first(struct rangeread *r, struct buf *why)
{
    struct object_call call = {0};
    struct object_meta meta;
    const char *fault = NULL;
    char *first = mem_alloc(FIRST_BYTES);
    atomic_fetch_add(&r->file.counts->requests, 1);
    ssize_t got = object_get_range(r->file.store, &call, r->file.key, first, FIRST_BYTES, 0, &meta);
    int rc = got < 0 ? (int)got : 0;
    if (rc < 0) buf_add_str(why, call.detail);
    if (rc == 0) {
        atomic_fetch_add(&r->file.counts->bytes, (uint64_t)got);
        if (r->file.bytes == 0) r->file.bytes = meta.size;
        rc = check_tag(r, &meta);
        if (rc < 0) fault = "the file has another size than the manifest says";
    }
    if (rc == 0) {
        rc = pages_header(slice_of(first, (size_t)got), meta.size, &r->under.page_size, &r->under.n_pages, &fault);
    }
    if (fault) buf_add_str(why, fault);
    if (rc == 0) keep_first(r, slice_of(first, (size_t)got));
    mem_free(first);
    return rc;
}

int rangeread_open(struct rangeread **out, const struct rangeread_file *file, struct buf *why)
{
    struct rangeread *r = mem_zalloc(sizeof *r);
    r->file = *file;
    r->file.key = mem_strdup(file->key);
    r->file.sidecar_key = NULL;
    r->id = pagecache_file(file->pages);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wanted, NULL);
    r->under = (struct page_source){.ctx = r, .get = get_pages, .put = put_pages, .want = want_pages};
    if (file->sidecar_key && file->bytes) load_sidecar(r, file->sidecar_key);
    int rc = r->sidecar ? 0 : read_first(r, why);
    if (rc < 0) {
        rangeread_close(r);
        return rc;
    }
    if (r->sidecar) sidecar_pages_init(&r->joined, r->sidecar, &r->under);
    *out = r;
    return 0;
}

void rangeread_close(struct rangeread *r)
{
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    while (r->wanting) pthread_cond_wait(&r->wanted, &r->lock);
    pthread_mutex_unlock(&r->lock);
    pagecache_forget(r->file.pages, r->id);
    sidecar_free(r->sidecar);
    pthread_cond_destroy(&r->wanted);
    pthread_mutex_destroy(&r->lock);
    mem_free((char *)r->file.key);
    mem_free(r);
}

const struct page_source *rangeread_source(const struct rangeread *r) { return r->sidecar ? &r->joined.source : &r->under; }

