#include "object/s3store.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "object/s3put.h"
#include "object/s3upload.h"
#include "object/xmlpull.h"

enum { RESERVE_BYTES_MAX = 64 << 20, REPLY_BYTES_MAX = 64 << 20, DELETE_BATCH = 1000 };

/* ---- shared */

int s3store_key(const struct s3store *s, struct object_call *call, const char *key, char whole[OBJECT_KEY_MAX + 1])
{
    int n = snprintf(whole, OBJECT_KEY_MAX + 1, "%s%s", s->prefix, key);
    if (n <= OBJECT_KEY_MAX) return 0;
    return driver_fail(call, ERR_OBJECT_KEY, "with the store's prefix a key has at most %d bytes", OBJECT_KEY_MAX);
}

int s3store_buf_sink(void *arg, const struct s3http_response *r, struct slice bytes, bool begins)
{
    struct buf *out = arg;
    if (begins) out->len = 0;
    if (out->len + bytes.n > REPLY_BYTES_MAX) return ERR_OBJECT_REPLY;
    buf_add_slice(out, bytes);
    return 0;
}

void s3store_tell_progress(void *call, uint64_t bytes) { driver_progress(call, bytes); }

int s3store_look(struct s3store *s, const struct object_call *call, const char *whole, struct s3http_response *r)
{
    struct object_call aside = {.cancel = call->cancel};
    struct s3http_request q = {.method = "HEAD", .key = whole};
    return s3http_request(s->http, &aside, &q, r);
}

/* ---- reading */

static int s3store_head(struct object_store *store, struct object_call *call, const char *key, struct object_meta *meta)
{
    char whole[OBJECT_KEY_MAX + 1];
    int rc = s3store_key(s3store_of(store), call, key, whole);
    if (rc) return rc;
    struct s3http_request q = {.method = "HEAD", .key = whole};
    struct s3http_response r;
    rc = s3http_request(s3store_of(store)->http, call, &q, &r);
    if (rc == 0) *meta = r.meta;
    return rc;
}

struct whole_sink {
    struct buf *out;
    size_t before;
    uint64_t max;
    struct object_call *call;
};

static int take_whole(void *arg, const struct s3http_response *r, struct slice bytes, bool begins)
{
    struct whole_sink *w = arg;
    if (begins) {
        w->out->len = w->before;
        return 0;
    }
    size_t have = w->out->len - w->before;
    if (r->body_bytes > w->max || have + bytes.n > w->max)
        return driver_fail(w->call, ERR_OBJECT_TOO_LARGE, "%llu bytes", (unsigned long long)(r->body_bytes > have ? r->body_bytes : have));
    if (have == 0 && r->body_bytes <= RESERVE_BYTES_MAX) buf_room(w->out, r->body_bytes);
    buf_add_slice(w->out, bytes);
    return 0;
}

static int s3store_get(struct object_store *store, struct object_call *call, const char *key, uint64_t max, struct buf *out, struct object_meta *meta)
{
    char whole[OBJECT_KEY_MAX + 1];
    int rc = s3store_key(s3store_of(store), call, key, whole);
    if (rc) return rc;
    struct whole_sink w = {.out = out, .before = out->len, .max = max, .call = call};
    struct s3http_request q = {.method = "GET", .key = whole, .sink = take_whole, .sink_arg = &w, .moved = s3store_tell_progress, .moved_arg = call};
    struct s3http_response r;
    rc = s3http_request(s3store_of(store)->http, call, &q, &r);
    if (rc) return rc;
    *meta = r.meta;
    meta->size = out->len - w.before;
    driver_progress(call, meta->size);
    return 0;
}

struct range_sink {
    char *p;
    size_t n, have;
    uint64_t at, seen;
};

/* A store that does not know ranges sends all (200): what lies before `at` is dropped, and what lies behind is not waited for. */
static int take_range(void *arg, const struct s3http_response *r, struct slice bytes, bool begins)
{
    struct range_sink *s = arg;
    if (begins) {
        s->have = 0;
        s->seen = 0;
        return 0;
    }
    uint64_t skip = r->status == 206 || s->seen >= s->at ? 0 : s->at - s->seen;
    s->seen += bytes.n;
    if (skip >= bytes.n) return 0;
    size_t n = bytes.n - (size_t)skip;
    if (n > s->n - s->have) n = s->n - s->have;
    memcpy(s->p + s->have, bytes.p + skip, n);
    s->have += n;
    return s->have == s->n && r->status != 206 ? S3HTTP_ENOUGH : 0;
}

static ssize_t s3store_get_range(struct object_store *store, struct object_call *call, const char *key, void *p, size_t n, uint64_t at, struct object_meta *meta)
{
    char whole[OBJECT_KEY_MAX + 1], range[64];
    int rc = s3store_key(s3store_of(store), call, key, whole);
    if (rc) return rc;
    snprintf(range, sizeof range, "bytes=%llu-%llu", (unsigned long long)at, (unsigned long long)(at + n - 1));
    struct range_sink sink = {.p = p, .n = n, .at = at};
    struct s3http_request q = {.method = "GET", .key = whole, .sink = take_range, .sink_arg = &sink};
    struct s3http_response r;
    awssign_add(&q.headers, "range", range);
    rc = s3http_request(s3store_of(store)->http, call, &q, &r);
    if (rc < 0) return rc;
    *meta = r.meta;
    if (sink.have == 0) return driver_fail(call, ERR_OBJECT_RANGE, "GET %s: offset %llu", whole, (unsigned long long)at);
    if (r.ranged && sink.have < n && at + sink.have < r.meta.size) return driver_fail(call, ERR_OBJECT_REPLY, "GET %s: the range came short", whole);
    return (ssize_t)sink.have;
}

/* ---- to a file, taking up broken connections */

struct fd_sink {
    struct object_call *call;
    int fd;
    uint64_t done, from; /* bytes in the file; where the attempt under way began */
    struct object_meta meta;
};

static int take_to_fd(void *arg, const struct s3http_response *r, struct slice bytes, bool begins)
{
    struct fd_sink *s = arg;
    if (begins) {
        s->from = UINT64_MAX;
        return 0;
    }
    if (s->from == UINT64_MAX) {
        if (r->status != 206) s->done = 0; /* all of it, whatever was asked for */
        s->from = s->done;
        s->meta = r->meta;
    }
    while (bytes.n > 0) {
        ssize_t n = pwrite(s->fd, bytes.p, bytes.n, (off_t)s->done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return driver_fail(s->call, -errno, "local file: %s", err_text(-errno));
        bytes = slice_of(bytes.p + n, bytes.n - (size_t)n);
        s->done += (uint64_t)n;
    }
    return 0;
}

static void tell_fd_progress(void *arg, uint64_t bytes)
{
    struct fd_sink *s = arg;
    driver_progress(s->call, s->done);
}

/* One attempt, from where the last one broke. */
static int fetch_rest(struct s3store *s, const char *whole, struct fd_sink *sink, struct s3http_response *r)
{
    char range[40];
    struct s3http_request q = {.method = "GET", .key = whole, .sink = take_to_fd, .sink_arg = sink, .moved = tell_fd_progress, .moved_arg = sink, .attempts_max = 1};
    if (sink->meta.etag[0] == '\0') sink->done = 0; /* nothing to tell by that it is still the same object */
    if (sink->done > 0) {
        snprintf(range, sizeof range, "bytes=%llu-", (unsigned long long)sink->done);
        awssign_add(&q.headers, "range", range);
        awssign_add(&q.headers, "if-match", sink->meta.etag);
    }
    bool resumed = sink->done > 0;
    int rc = s3http_request(s->http, sink->call, &q, r);
    if (resumed && (rc == ERR_OBJECT_PRECONDITION || rc == ERR_OBJECT_RANGE)) rc = ERR_OBJECT_CHANGED;
    return rc;
}

static int s3store_get_fd(struct object_store *store, struct object_call *call, const char *key, int fd, struct object_meta *meta)
{
    struct s3store *s = s3store_of(store);
    char whole[OBJECT_KEY_MAX + 1];
    int rc = s3store_key(s, call, key, whole);
    if (rc) return rc;
    struct fd_sink sink = {.call = call, .fd = fd};
    struct s3http_response r;
    struct s3http_request pausing = {0};
    for (uint32_t failures = 0;;) {
        uint64_t before = sink.done;
        rc = fetch_rest(s, whole, &sink, &r);
        if (!s3http_is_passing(rc)) break;
        failures = sink.done > before ? 1 : failures + 1;
        if (failures >= s3http_options(s->http)->attempts_max) break;
        int paused = s3http_pause(s->http, call, &pausing, failures, r.retry_after_s);
        if (paused) return paused;
    }
    if (rc) return rc;
    *meta = sink.done > 0 ? sink.meta : r.meta;
    if (meta->size != sink.done) return driver_fail(call, ERR_OBJECT_REPLY, "GET %s: %llu bytes of %llu", whole, (unsigned long long)sink.done, (unsigned long long)meta->size);
    driver_progress(call, sink.done);
    return 0;
}

/* ---- listing */

/* An answer has keys first and common prefixes behind them, each in order; a list by folder has them in one order, so a page is collected and sorted before it is given. */
struct page {
    struct s3store *s;
    struct object_item *items; /* their keys are copies */
    size_t n, cap;
    bool foreign; /* a key that does not begin with our prefix: not our list */
};

static int collect_item(void *arg, const struct object_item *item)
{
    struct page *p = arg;
    size_t n = strlen(p->s->prefix);
    p->foreign = strncmp(item->key, p->s->prefix, n) != 0;
    if (p->foreign) return 1;
    if (item->key[n] == '\0') return 0; /* the prefix itself, as some tools make it */
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 256;
        p->items = mem_resize(p->items, p->cap * sizeof *p->items);
    }
    p->items[p->n] = *item;
    p->items[p->n++].key = mem_strdup(item->key + n);
    return 0;
}

static int by_key(const void *a, const void *b) { return strcmp(((const struct object_item *)a)->key, ((const struct object_item *)b)->key); }

static int give_page(struct page *p, int (*each)(void *arg, const struct object_item *item), void *arg)
{
    int rc = 0;
    if (p->n > 1) qsort(p->items, p->n, sizeof *p->items, by_key);
    for (size_t i = 0; rc == 0 && i < p->n; i++) rc = each(arg, &p->items[i]);
    return rc;
}

static void page_fini(struct page *p)
{
    for (size_t i = 0; i < p->n; i++) mem_free((char *)p->items[i].key);
    mem_free(p->items);
}

/* Fetches one page; *token is where it begins and then where the next does. */
static int fetch_page(struct page *p, struct object_call *call, const struct object_list_options *o, const char *prefix, const char *start_after, struct buf *token)
{
    char most[16];
    struct buf body = {0};
    struct s3http_request q = {.method = "GET", .sink = s3store_buf_sink, .sink_arg = &body};
    struct s3http_response r;
    snprintf(most, sizeof most, "%u", o->page);
    awssign_add(&q.params, "list-type", "2");
    awssign_add(&q.params, "encoding-type", "url"); /* XML has no way to write some bytes that keys may hold */
    awssign_add(&q.params, "max-keys", most);
    if (prefix[0]) awssign_add(&q.params, "prefix", prefix);
    if (o->by_folder) awssign_add(&q.params, "delimiter", "/");
    if (token->len) awssign_add(&q.params, "continuation-token", token->p);
    else if (start_after[0]) awssign_add(&q.params, "start-after", start_after);
    int rc = s3http_request(p->s->http, call, &q, &r);
    if (rc == 0) {
        struct buf next = {0};
        if (s3reply_list(buf_slice(&body), &next, collect_item, p) != 0) rc = driver_fail(call, ERR_OBJECT_REPLY, "GET bucket: the list %s", p->foreign ? "has keys of others" : "makes no sense");
        buf_fini(token);
        *token = next;
    }
    buf_fini(&body);
    return rc;
}

static int s3store_list(struct object_store *store, struct object_call *call, const struct object_list_options *o, int (*each)(void *arg, const struct object_item *item), void *arg)
{
    struct s3store *s = s3store_of(store);
    struct buf prefix = {0}, start_after = {0}, token = {0};
    buf_printf(&prefix, "%s%s", s->prefix, o->prefix);
    buf_printf(&start_after, "%s%s", o->start_after[0] ? s->prefix : "", o->start_after);
    int rc;
    do {
        struct page p = {.s = s};
        rc = fetch_page(&p, call, o, prefix.p, start_after.p, &token);
        if (rc == 0) rc = give_page(&p, each, arg);
        page_fini(&p);
    } while (rc == 0 && token.len > 0);
    buf_fini(&prefix);
    buf_fini(&start_after);
    buf_fini(&token);
    return rc;
}

/* ---- deleting */

/* The MD5 of a body in base64. False where MD5 is not to be had (FIPS): stores then go by the CRC. */
static bool add_md5(char out[32], struct slice bytes)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    if (EVP_Digest(bytes.p, bytes.n, digest, &n, EVP_md5(), NULL) != 1 || n != 16) return false;
    return EVP_EncodeBlock((unsigned char *)out, digest, (int)n) > 0;
}

static int delete_one(struct s3store *s, struct object_call *call, const char *key)
{
    char whole[OBJECT_KEY_MAX + 1];
    int rc = s3store_key(s, call, key, whole);
    if (rc) return rc;
    struct s3http_request q = {.method = "DELETE", .key = whole};
    struct s3http_response r;
    rc = s3http_request(s->http, call, &q, &r);
    return rc == ERR_OBJECT_NOT_FOUND ? 0 : rc;
}

/* For stores without DeleteObjects. */
static int delete_each(struct s3store *s, struct object_call *call, const char *const *keys, size_t n, size_t *failed)
{
    int first = 0;
    for (size_t i = 0; i < n; i++) {
        struct object_call one = {.cancel = call->cancel};
        int rc = delete_one(s, &one, keys[i]);
        if (rc == 0) continue;
        ++*failed;
        if (first == 0) {
            first = rc;
            memcpy(call->detail, one.detail, sizeof one.detail);
        }
    }
    return first;
}

static int make_delete_body(struct s3store *s, struct object_call *call, const char *const *keys, size_t n, struct buf *out)
{
    buf_add_str(out, "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>");
    for (size_t i = 0; i < n; i++) {
        char whole[OBJECT_KEY_MAX + 1];
        int rc = s3store_key(s, call, keys[i], whole);
        if (rc) return rc;
        buf_add_str(out, "<Object><Key>");
        xmlpull_escape(out, slice_str(whole));
        buf_add_str(out, "</Key></Object>");
    }
    buf_add_str(out, "</Delete>");
    return 0;
}

static int post_delete(struct s3store *s, struct object_call *call, struct slice body, size_t n, size_t *failed)
{
    char md5[32], crc[S3PUT_CRC_BYTES];
    struct buf reply = {0};
    struct s3http_request q = {.method = "POST", .body = body, .sink = s3store_buf_sink, .sink_arg = &reply};
    struct s3http_response r;
    awssign_add(&q.params, "delete", "");
    awssign_add(&q.headers, "content-type", "application/xml");
    if (add_md5(md5, body)) awssign_add(&q.headers, "content-md5", md5);
    if (!s3http_options(s->http)->no_checksums) {
        s3put_crc(crc, body);
        awssign_add(&q.headers, "x-amz-checksum-crc32c", crc);
    }
    struct s3reply_error e = {0};
    int rc = s3http_request(s->http, call, &q, &r), errors = rc == 0 ? s3reply_delete(buf_slice(&reply), &e) : 0;
    if (rc == 0 && errors < 0) rc = driver_fail(call, ERR_OBJECT_REPLY, "POST bucket: the answer to a delete makes no sense");
    if (rc) {
        *failed += n;
    } else if (errors > 0) {
        *failed += (size_t)errors;
        rc = s3http_fail(call, &q, r.status, &e);
    }
    buf_fini(&reply);
    return rc;
}

/* XML 1.0 has no way to write most control characters, not even as references. */
static bool fits_xml(const char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (const char *p = keys[i]; *p; p++)
            if ((unsigned char)*p < 0x20) return false;
    return true;
}

static int delete_batch(struct s3store *s, struct object_call *call, const char *const *keys, size_t n, size_t *failed)
{
    if (n == 1 || !fits_xml(keys, n)) return delete_each(s, call, keys, n, failed);
    struct buf body = {0};
    size_t failed_here = 0;
    int rc = make_delete_body(s, call, keys, n, &body);
    if (rc) failed_here = n;
    else rc = post_delete(s, call, buf_slice(&body), n, &failed_here);
    buf_fini(&body);
    if (rc == ERR_OBJECT_UNSUPPORTED) return delete_each(s, call, keys, n, failed);
    *failed += failed_here;
    return rc;
}

static int s3store_del(struct object_store *store, struct object_call *call, const char *const *keys, size_t n, size_t *failed)
{
    int first = 0;
    for (size_t i = 0; i < n; i += DELETE_BATCH) {
        struct object_call batch = {.cancel = call->cancel};
        size_t count = n - i < DELETE_BATCH ? n - i : DELETE_BATCH;
        int rc = delete_batch(s3store_of(store), &batch, keys + i, count, failed);
        if (rc == 0 || first != 0) continue;
        first = rc;
        memcpy(call->detail, batch.detail, sizeof batch.detail);
    }
    return first;
}

/* ---- */

static void s3store_close(struct object_store *store)
{
    struct s3store *s = s3store_of(store);
    s3http_close(s->http);
    mem_free(s->prefix);
    driver_fini(store);
    mem_free(s);
}

static const struct object_driver s3store_driver = {
    .close = s3store_close,
    .head = s3store_head,
    .get = s3store_get,
    .get_range = s3store_get_range,
    .get_fd = s3store_get_fd,
    .put = s3put_put,
    .put_stream = s3upload_put_stream,
    .del = s3store_del,
    .list = s3store_list,
};

int s3store_open(struct object_store **store, const struct objurl *u, const char *url, const struct object_options *o, char error[OBJECT_DETAIL_BYTES])
{
    struct s3http *http;
    int rc = s3http_open(&http, u->bucket, o, error);
    if (rc) return rc;
    struct s3store *s = mem_zalloc(sizeof *s);
    driver_init(&s->base, &s3store_driver, url, DRIVER_UNPROBED);
    struct buf prefix = {0};
    buf_printf(&prefix, "%.*s%s", (int)u->path.n, u->path.p, u->path.n ? "/" : "");
    s->prefix = prefix.p;
    s->http = http;
    *store = &s->base;
    return 0;
}
