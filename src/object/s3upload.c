/* A multipart upload: create, parts side by side, complete. Until it is complete nothing is visible; a failure aborts it, which frees the parts too.
 *
 * Each worker (the caller's thread is one) takes the next part from the source under read_lock, in order, and sends it from its own buffer, so memory is parallel x part size. The first failure
 * stops all. Parts are numbered from 1; there may be PARTS_MAX, so for a source of unknown length they grow as it goes on.
 *
 * If the answer to the completion is lost, the object is looked at: it bears this upload's number (S3HTTP_PUT_ID) or it does not. A create whose answer is lost leaves an empty upload
 * behind, invisible; a lifecycle rule of the bucket removes such. */
#include "object/s3upload.h"

#include <pthread.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "object/s3put.h"

enum { PARTS_MAX = 10000, PARTS_BEFORE_GROWTH = 1000, WORKERS_MAX = 64, ABORT_ATTEMPTS = 3 };

struct part {
    uint64_t bytes;
    char etag[OBJECT_ETAG_BYTES];
    char crc[S3PUT_CRC_BYTES];
};

struct upload {
    struct s3store *s;
    struct object_call *call;
    const char *whole; /* key */
    const struct object_source *source;
    uint64_t part_bytes;
    char put_id[33];
    struct buf id; /* the store's name for the upload */
    bool checksums;
    atomic_bool stop;

    pthread_mutex_t read_lock; /* the source, and what follows */
    struct buf first;          /* read before it was known that there would be parts */
    bool ended;
    uint32_t count;

    pthread_mutex_t lock; /* what follows; taken inside read_lock, never around it */
    struct part *parts;
    uint64_t moved;
    int failure;
};

static void fail(struct upload *u, int code, const char *detail)
{
    pthread_mutex_lock(&u->lock);
    if (u->failure == 0) {
        u->failure = code;
        snprintf(u->call->detail, sizeof u->call->detail, "%s", detail);
    }
    pthread_mutex_unlock(&u->lock);
    atomic_store(&u->stop, true);
}

/* ---- the source */

/* Fills b up to n bytes, fewer only at the end. */
static int fill(const struct object_source *source, struct buf *b, uint64_t n)
{
    while (b->len < n) {
        ssize_t got = source->read(source->arg, buf_room(b, n - b->len), n - b->len);
        if (got <= 0) return (int)got;
        CHECK((uint64_t)got <= n - b->len);
        b->len += (size_t)got;
    }
    return 0;
}

static uint64_t part_size(const struct upload *u, uint32_t number) { return u->source->size_hint ? u->part_bytes : u->part_bytes * (1 + (number - 1) / PARTS_BEFORE_GROWTH); }

/* The next part into b; its number, or 0 if there is none. */
static uint32_t next_part(struct upload *u, struct buf *b)
{
    uint32_t number = 0;
    pthread_mutex_lock(&u->read_lock);
    if (!u->ended && !atomic_load(&u->stop)) {
        int rc = 0;
        b->len = 0;
        if (u->count == 0) {
            struct buf mine = *b;
            *b = u->first;
            u->first = mine;
        } else {
            rc = fill(u->source, b, part_size(u, u->count + 1));
        }
        char why[100];
        if (rc) snprintf(why, sizeof why, "source: %s", err_text(rc));
        else if (b->len > 0 && u->count == PARTS_MAX) snprintf(why, sizeof why, "more than %d parts: use larger ones", PARTS_MAX), rc = ERR_OBJECT_TOO_LARGE;
        if (rc) fail(u, rc, why);
        u->ended = rc != 0 || b->len == 0;
        if (!u->ended) number = ++u->count;
    }
    if (number) {
        pthread_mutex_lock(&u->lock);
        u->parts = mem_resize(u->parts, number * sizeof *u->parts);
        u->parts[number - 1] = (struct part){.bytes = b->len};
        pthread_mutex_unlock(&u->lock);
    }
    pthread_mutex_unlock(&u->read_lock);
    return number;
}

/* ---- parts */

struct worker {
    struct upload *u;
    uint64_t counted; /* of its part under way, in u->moved */
};

static void on_moved(void *arg, uint64_t bytes)
{
    struct worker *w = arg;
    if (bytes == w->counted) return;
    pthread_mutex_lock(&w->u->lock);
    w->u->moved += bytes - w->counted;
    w->counted = bytes;
    driver_progress(w->u->call, w->u->moved);
    pthread_mutex_unlock(&w->u->lock);
}

static int send_part(struct worker *w, struct object_call *call, uint32_t number, const struct buf *b)
{
    struct upload *u = w->u;
    char text[16], crc[S3PUT_CRC_BYTES] = "";
    snprintf(text, sizeof text, "%u", number);
    struct s3http_request q = {.method = "PUT", .key = u->whole, .body = buf_slice(b), .stop = &u->stop, .moved = on_moved, .moved_arg = w};
    awssign_add(&q.params, "partNumber", text);
    awssign_add(&q.params, "uploadId", u->id.p);
    if (u->checksums) {
        s3put_crc(crc, buf_slice(b));
        awssign_add(&q.headers, "x-amz-checksum-crc32c", crc);
    }
    struct s3http_response r;
    w->counted = 0;
    int rc = s3http_request(u->s->http, call, &q, &r);
    if (rc) return rc;
    if (!r.meta.etag[0]) return driver_fail(call, ERR_OBJECT_REPLY, "PUT %s: part %u has no ETag", u->whole, number);
    on_moved(w, b->len);
    pthread_mutex_lock(&u->lock);
    struct part *p = &u->parts[number - 1];
    memcpy(p->etag, r.meta.etag, sizeof p->etag);
    memcpy(p->crc, crc, sizeof p->crc);
    pthread_mutex_unlock(&u->lock);
    return 0;
}

static void *work(void *arg)
{
    struct upload *u = arg;
    struct worker w = {.u = u};
    struct buf b = {0};
    uint32_t number;
    while ((number = next_part(u, &b)) != 0) {
        struct object_call call = {.cancel = u->call->cancel};
        int rc = send_part(&w, &call, number, &b);
        if (rc) fail(u, rc, call.detail);
    }
    buf_fini(&b);
    return NULL;
}

static void send_parts(struct upload *u)
{
    pthread_t threads[WORKERS_MAX];
    uint32_t wanted = s3http_options(u->s->http)->parallel, started = 0;
    uint64_t parts = u->source->size_hint / u->part_bytes + 1;
    if (u->source->size_hint && wanted > parts) wanted = (uint32_t)parts;
    if (wanted > WORKERS_MAX) wanted = WORKERS_MAX;
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, work, u) == 0) started++;
    work(u);
    for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

/* ---- create, complete, abort */

static int create(struct upload *u, const char *content_type)
{
    struct s3http_response r;
    struct buf body = {0};
    struct s3http_request q = {.method = "POST", .key = u->whole, .sink = s3store_buf_sink, .sink_arg = &body};
    awssign_add(&q.params, "uploads", "");
    awssign_add(&q.headers, "content-type", content_type ? content_type : "application/octet-stream");
    awssign_add(&q.headers, S3HTTP_PUT_ID, u->put_id);
    if (u->checksums) awssign_add(&q.headers, "x-amz-checksum-algorithm", "CRC32C");
    int rc = s3http_request(u->s->http, u->call, &q, &r);
    if (rc == 0 && !s3reply_upload_id(buf_slice(&body), &u->id)) rc = driver_fail(u->call, ERR_OBJECT_REPLY, "POST %s: no upload id in the answer", u->whole);
    buf_fini(&body);
    return rc;
}

static void add_part_list(struct buf *out, const struct upload *u)
{
    buf_add_str(out, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (uint32_t i = 0; i < u->count; i++) {
        buf_printf(out, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag>", i + 1, u->parts[i].etag);
        if (u->parts[i].crc[0]) buf_printf(out, "<ChecksumCRC32C>%s</ChecksumCRC32C>", u->parts[i].crc);
        buf_add_str(out, "</Part>");
    }
    buf_add_str(out, "</CompleteMultipartUpload>");
}

static bool is_ours(struct upload *u, struct object_meta *meta)
{
    struct s3http_response now;
    if (s3store_look(u->s, u->call, u->whole, &now) != 0 || strcmp(now.put_id, u->put_id) != 0) return false;
    *meta = now.meta;
    u->call->detail[0] = '\0';
    return true;
}

static int complete(struct upload *u, struct object_meta *meta)
{
    struct buf list = {0}, body = {0};
    add_part_list(&list, u);
    struct s3http_request q = {.method = "POST", .key = u->whole, .body = buf_slice(&list), .sink = s3store_buf_sink, .sink_arg = &body};
    awssign_add(&q.params, "uploadId", u->id.p);
    awssign_add(&q.headers, "content-type", "application/xml");
    int rc;
    bool lost = false;
    for (uint32_t attempt = 1;; attempt++) {
        struct s3http_response r;
        struct s3reply_error e = {0};
        rc = s3http_request(u->s->http, u->call, &q, &r);
        lost |= r.lost;
        if (rc == 0 && !s3reply_complete(buf_slice(&body), meta->etag, &e)) {
            lost = true;
            rc = e.code[0] ? s3http_fail(u->call, &q, r.status, &e) : driver_fail(u->call, ERR_OBJECT_REPLY, "POST %s: the answer to the completion makes no sense", u->whole);
        }
        if (!s3http_is_passing(rc) || attempt >= s3http_options(u->s->http)->attempts_max) break;
        if (s3http_pause(u->s->http, u->call, &q, attempt, r.retry_after_s) != 0) break;
    }
    buf_fini(&list);
    buf_fini(&body);
    return rc != 0 && lost && is_ours(u, meta) ? 0 : rc;
}

/* Also when the caller has cancelled: what is paid for must go. */
static void abort_upload(struct upload *u)
{
    struct object_call call = {0};
    struct s3http_response r;
    struct s3http_request q = {.method = "DELETE", .key = u->whole, .attempts_max = ABORT_ATTEMPTS};
    awssign_add(&q.params, "uploadId", u->id.p);
    s3http_request(u->s->http, &call, &q, &r);
}

static int send_all(struct upload *u, const char *content_type, struct object_meta *meta)
{
    int rc = create(u, content_type);
    if (rc) return rc;
    send_parts(u);
    rc = u->failure;
    if (rc == 0) rc = complete(u, meta);
    if (rc) abort_upload(u);
    meta->size = 0;
    for (uint32_t i = 0; i < u->count; i++) meta->size += u->parts[i].bytes;
    return rc;
}

/* ---- */

static uint64_t choose_part_bytes(const struct s3store *s, uint64_t size_hint)
{
    uint64_t bytes = s3http_options(s->http)->part_bytes, least = size_hint / (PARTS_MAX - 100) + 1;
    return bytes > least ? bytes : least;
}

int s3upload_put_stream(struct object_store *store, struct object_call *call, const char *key, const struct object_source *source, const char *content_type, struct object_meta *meta)
{
    struct s3store *s = s3store_of(store);
    char whole[OBJECT_KEY_MAX + 1];
    int rc = s3store_key(s, call, key, whole);
    if (rc) return rc;
    struct upload u = {.s = s, .call = call, .whole = whole, .source = source, .part_bytes = choose_part_bytes(s, source->size_hint)};
    u.checksums = !s3http_options(s->http)->no_checksums;
    rc = fill(source, &u.first, u.part_bytes);
    if (rc) {
        driver_fail(call, rc, "%s: source: %s", key, err_text(rc));
    } else if (u.first.len < u.part_bytes) {
        struct object_put_options usual = {.content_type = content_type};
        rc = s3put_put(store, call, key, buf_slice(&u.first), &usual, meta);
    } else {
        pthread_mutex_init(&u.read_lock, NULL);
        pthread_mutex_init(&u.lock, NULL);
        driver_random_hex(u.put_id);
        rc = send_all(&u, content_type, meta);
        pthread_mutex_destroy(&u.lock);
        pthread_mutex_destroy(&u.read_lock);
    }
    buf_fini(&u.first);
    buf_fini(&u.id);
    mem_free(u.parts);
    return rc;
}
