#include "object/s3http.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "object/awsconf.h"
#include "object/driver.h"

enum {
    IDLE_MAX = 32,
    ERROR_BODY_MAX = 64 << 10,
    SIGNED_BODY_MAX = 64 << 10, /* larger bodies are covered by TLS and a CRC instead of a second pass of SHA-256 */
    PAUSE_MS_MAX = 10000,
    RETRY_AFTER_S_MAX = 20,
    SLICE_MS = 50,
};

struct s3http {
    struct object_options o;
    struct awsconf conf; /* region: under lock, a redirect may change it */
    char *bucket;
    bool tls, path_style;
    char *authority; /* host[:port] of the endpoint; NULL: AWS, by region */
    char *base_path; /* of the endpoint, without a slash at its end */
    pthread_mutex_t lock;
    CURL *idle[IDLE_MAX];
    unsigned idle_n;
    _Atomic int64_t skew_ms;   /* the store's clock less ours */
    _Atomic bool bucket_seen;  /* it exists: a 404 is the object's */
};

/* ---- opening */

static bool is_dns_name(const char *bucket)
{
    for (const char *p = bucket; *p; p++)
        if (*p == '.' || *p == '_' || (*p >= 'A' && *p <= 'Z')) return false;
    return true;
}

static bool take_endpoint(struct s3http *h, const char *url)
{
    const char *rest;
    if (strncasecmp(url, "https://", 8) == 0) rest = url + 8, h->tls = true;
    else if (strncasecmp(url, "http://", 7) == 0) rest = url + 7, h->tls = false;
    else return false;
    size_t n = strcspn(rest, "/");
    if (n == 0 || strpbrk(rest, " \t\r\n?#@")) return false;
    h->authority = mem_strdup(rest);
    h->authority[n] = '\0';
    h->base_path = mem_strdup(rest + n);
    for (size_t end = strlen(h->base_path); end > 0 && h->base_path[end - 1] == '/'; end--) h->base_path[end - 1] = '\0';
    return true;
}

static void set_defaults(struct object_options *o)
{
    if (o->connect_timeout_ms == 0) o->connect_timeout_ms = 10000;
    if (o->stall_timeout_ms == 0) o->stall_timeout_ms = 30000;
    if (o->attempts_max == 0) o->attempts_max = 6;
    if (o->backoff_ms == 0) o->backoff_ms = 200;
    if (o->part_bytes == 0) o->part_bytes = 16 << 20;
    if (o->parallel == 0) o->parallel = 4;
}

static void init_curl(void) { CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == 0); }

int s3http_open(struct s3http **out, struct slice bucket, const struct object_options *o, char error[OBJECT_DETAIL_BYTES])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_curl);
    struct s3http *h = mem_zalloc(sizeof *h);
    *out = NULL;
    pthread_mutex_init(&h->lock, NULL);
    h->o = *o;
    set_defaults(&h->o);
    h->bucket = mem_zalloc(bucket.n + 1);
    memcpy(h->bucket, bucket.p, bucket.n);
    int rc = awsconf_resolve(&h->conf, o, getenv, error);
    h->o.endpoint = h->o.region = h->o.access_key = h->o.secret_key = h->o.session_token = h->o.profile = h->o.ca_file = NULL; /* borrowed; conf has copies */
    h->tls = true;
    if (rc == 0 && h->conf.endpoint && !take_endpoint(h, h->conf.endpoint)) {
        snprintf(error, OBJECT_DETAIL_BYTES, "endpoint \"%.200s\": not http://host[:port] or https://host[:port]", h->conf.endpoint);
        rc = ERR_OBJECT_URL;
    }
    h->path_style = o->style == OBJECT_STYLE_PATH || (o->style == OBJECT_STYLE_AUTO && (h->authority || !is_dns_name(h->bucket)));
    if (rc) s3http_close(h);
    else *out = h;
    return rc;
}

void s3http_close(struct s3http *h)
{
    for (unsigned i = 0; i < h->idle_n; i++) curl_easy_cleanup(h->idle[i]);
    pthread_mutex_destroy(&h->lock);
    awsconf_fini(&h->conf);
    mem_free(h->bucket);
    mem_free(h->authority);
    mem_free(h->base_path);
    mem_free(h);
}

const struct object_options *s3http_options(const struct s3http *h) { return &h->o; }

static CURL *take_handle(struct s3http *h)
{
    pthread_mutex_lock(&h->lock);
    CURL *c = h->idle_n > 0 ? h->idle[--h->idle_n] : NULL;
    pthread_mutex_unlock(&h->lock);
    if (!c) c = curl_easy_init();
    CHECK(c);
    return c;
}

/* Keeps its connection for the next request. */
static void give_handle(struct s3http *h, CURL *c)
{
    curl_easy_reset(c);
    pthread_mutex_lock(&h->lock);
    bool kept = h->idle_n < IDLE_MAX;
    if (kept) h->idle[h->idle_n++] = c;
    pthread_mutex_unlock(&h->lock);
    if (!kept) curl_easy_cleanup(c);
}

static void copy_region(struct s3http *h, char out[64])
{
    pthread_mutex_lock(&h->lock);
    snprintf(out, 64, "%s", h->conf.region);
    pthread_mutex_unlock(&h->lock);
}

/* ---- one attempt */

struct attempt {
    struct s3http *h;
    struct object_call *call;
    const struct s3http_request *q;
    struct s3http_response *r;
    char region[64];
    struct buf host, path, query, url, error_body;
    struct curl_slist *headers;
    char curl_error[CURL_ERROR_SIZE];
    int sink_code;
    bool cancelled;
};

static void make_address(struct attempt *a)
{
    const struct s3http *h = a->h;
    if (!h->path_style) buf_printf(&a->host, "%s.", h->bucket);
    if (h->authority) buf_printf(&a->host, "%s", h->authority);
    else buf_printf(&a->host, "s3.%s.amazonaws.com", a->region);
    if (h->base_path) awssign_encode(&a->path, slice_str(h->base_path), true);
    if (h->path_style) buf_printf(&a->path, "/%s", h->bucket);
    if (a->q->key) {
        buf_add_byte(&a->path, '/');
        awssign_encode(&a->path, slice_str(a->q->key), true);
    } else if (!h->path_style) {
        buf_add_byte(&a->path, '/');
    }
    awssign_query(&a->query, &a->q->params);
    buf_printf(&a->url, "%s://%.*s%.*s%s%.*s", h->tls ? "https" : "http", (int)a->host.len, a->host.p, (int)a->path.len, a->path.p, a->query.len ? "?" : "",
               (int)a->query.len, a->query.len ? a->query.p : "");
}

static void add_header(struct attempt *a, const char *name, const char *value)
{
    struct buf line = {0};
    /* libcurl leaves a header with nothing behind the colon out; a semicolon says that it is meant. */
    buf_printf(&line, value[0] ? "%s: %s" : "%s;", name, value);
    struct curl_slist *longer = curl_slist_append(a->headers, line.p);
    CHECK(longer);
    a->headers = longer;
    buf_fini(&line);
}

/* Every header that is sent by us is signed; libcurl's own (Accept, User-Agent, Content-Length) are not. */
static void make_headers(struct attempt *a)
{
    struct s3http *h = a->h;
    struct awssign_pairs headers = a->q->headers;
    char date[AWSSIGN_DATE_BYTES], payload[AWSSIGN_HEX_BYTES];
    awssign_date(date, clock_unix_ms() + atomic_load(&h->skew_ms));
    if (h->tls && a->q->body.n > SIGNED_BODY_MAX) snprintf(payload, sizeof payload, "UNSIGNED-PAYLOAD");
    else awssign_sha256_hex(payload, a->q->body);
    awssign_add(&headers, "host", a->host.p);
    struct buf authorization = {0};
    if (h->conf.access_key && !h->o.anonymous) {
        awssign_add(&headers, "x-amz-date", date);
        awssign_add(&headers, "x-amz-content-sha256", payload);
        if (h->conf.session_token) awssign_add(&headers, "x-amz-security-token", h->conf.session_token);
        struct awssign_request request = {.method = a->q->method, .path = buf_slice(&a->path), .query = buf_slice(&a->query), .headers = &headers, .payload = payload};
        struct awssign_key key = {.access_key = h->conf.access_key, .secret_key = h->conf.secret_key, .region = a->region};
        awssign_authorization(&authorization, &request, &key, date);
        add_header(a, "authorization", authorization.p);
    }
    bool typed = false;
    for (size_t i = 0; i < headers.n; i++) {
        add_header(a, headers.at[i].name, headers.at[i].value);
        typed |= strcmp(headers.at[i].name, "content-type") == 0;
    }
    struct curl_slist *none = curl_slist_append(a->headers, "Expect:"); /* bodies are in memory: sending one in vain is cheaper than waiting for leave */
    CHECK(none);
    a->headers = none;
    if (!typed) CHECK(curl_slist_append(a->headers, "Content-Type:"));
    buf_fini(&authorization);
}

/* ---- the answer */

static void take_content_range(struct s3http_response *r, const char *value)
{
    const char *slash = strchr(value, '/');
    uint64_t total;
    if (!slash || !num_parse_u64(slice_str(slash + 1), &total)) return;
    r->meta.size = total;
    r->ranged = true;
}

static void take_header(struct s3http_response *r, const char *name, const char *value)
{
    uint64_t number;
    if (strcasecmp(name, "etag") == 0) snprintf(r->meta.etag, sizeof r->meta.etag, "%s", value);
    else if (strcasecmp(name, "last-modified") == 0) r->meta.modified_ms = (int64_t)curl_getdate(value, NULL) * 1000;
    else if (strcasecmp(name, "content-range") == 0) take_content_range(r, value);
    else if (strcasecmp(name, S3HTTP_PUT_ID) == 0) snprintf(r->put_id, sizeof r->put_id, "%s", value);
    else if (strcasecmp(name, "x-amz-request-id") == 0) snprintf(r->error.request_id, sizeof r->error.request_id, "%s", value);
    else if (strcasecmp(name, "x-amz-bucket-region") == 0) snprintf(r->error.region, sizeof r->error.region, "%s", value);
    else if (strcasecmp(name, "date") == 0) r->date_ms = (int64_t)curl_getdate(value, NULL) * 1000;
    else if (strcasecmp(name, "retry-after") == 0 && num_parse_u64(slice_str(value), &number)) r->retry_after_s = number < RETRY_AFTER_S_MAX ? (uint32_t)number : RETRY_AFTER_S_MAX;
    else if (strcasecmp(name, "content-length") == 0 && num_parse_u64(slice_str(value), &number)) {
        r->body_bytes = number;
        if (!r->ranged) r->meta.size = number;
    }
}

static void forget_answer(struct s3http_response *r)
{
    bool lost = r->lost;
    *r = (struct s3http_response){.lost = lost};
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
    struct attempt *a = arg;
    char line[1024];
    size_t bytes = size * n;
    snprintf(line, sizeof line, "%.*s", (int)(bytes < sizeof line ? bytes : sizeof line - 1), p);
    line[strcspn(line, "\r\n")] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) {
        const char *space = strchr(line, ' ');
        forget_answer(a->r); /* of a 100 before the real one */
        a->r->status = space ? atoi(space) : 0;
        return bytes;
    }
    char *colon = strchr(line, ':');
    if (!colon) return bytes;
    *colon = '\0';
    take_header(a->r, line, colon + 1 + strspn(colon + 1, " \t"));
    return bytes;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
    struct attempt *a = arg;
    size_t bytes = size * n;
    if (a->r->status >= 200 && a->r->status < 300) {
        if (a->q->sink) a->sink_code = a->q->sink(a->q->sink_arg, a->r, slice_of(p, bytes), false);
        return a->sink_code ? 0 : bytes;
    }
    if (a->error_body.len + bytes <= ERROR_BODY_MAX) buf_add(&a->error_body, p, bytes);
    return bytes;
}

static bool is_stopped(const struct object_call *call, const struct s3http_request *q)
{
    return driver_cancelled(call) || (q->stop && atomic_load_explicit(q->stop, memory_order_relaxed));
}

static int on_progress(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    struct attempt *a = arg;
    a->cancelled = is_stopped(a->call, a->q);
    uint64_t moved = (uint64_t)(a->q->body.n ? up : down);
    if (a->q->moved) a->q->moved(a->q->moved_arg, moved);
    return a->cancelled;
}

/* ---- the request in libcurl's terms */

static void set_method(CURL *c, const struct s3http_request *q)
{
    bool carries = strcmp(q->method, "PUT") == 0 || strcmp(q->method, "POST") == 0;
    if (strcmp(q->method, "HEAD") == 0) curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    if (carries) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body.n);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, q->body.n ? q->body.p : "");
    }
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, q->method);
}

static void set_up(CURL *c, struct attempt *a)
{
    const struct s3http *h = a->h;
    set_method(c, a->q);
    curl_easy_setopt(c, CURLOPT_URL, a->url.p);
    curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L); /* a key may hold /./ */
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, a->headers);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, a->curl_error);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)h->o.connect_timeout_ms);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)((h->o.stall_timeout_ms + 999) / 1000));
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, a);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, a);
    if (h->conf.ca_file) curl_easy_setopt(c, CURLOPT_CAINFO, h->conf.ca_file);
    if (h->o.insecure_tls) {
        curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

/* ---- what went wrong, as a code */

static const struct {
    const char *name;
    int code;
} s3_codes[] = {
    {"NoSuchKey", ERR_OBJECT_NOT_FOUND},
    {"NoSuchUpload", ERR_OBJECT_NOT_FOUND},
    {"NoSuchBucket", ERR_OBJECT_NO_BUCKET},
    {"InvalidBucketName", ERR_OBJECT_NO_BUCKET},
    {"AccessDenied", ERR_OBJECT_DENIED},
    {"AllAccessDisabled", ERR_OBJECT_DENIED},
    {"AccountProblem", ERR_OBJECT_DENIED},
    {"InvalidAccessKeyId", ERR_OBJECT_CREDENTIALS},
    {"InvalidClientTokenId", ERR_OBJECT_CREDENTIALS},
    {"InvalidToken", ERR_OBJECT_CREDENTIALS},
    {"ExpiredToken", ERR_OBJECT_CREDENTIALS},
    {"TokenRefreshRequired", ERR_OBJECT_CREDENTIALS},
    {"SignatureDoesNotMatch", ERR_OBJECT_SIGNATURE},
    {"RequestTimeTooSkewed", ERR_OBJECT_CLOCK},
    {"RequestExpired", ERR_OBJECT_CLOCK},
    {"PreconditionFailed", ERR_OBJECT_PRECONDITION},
    {"InvalidRange", ERR_OBJECT_RANGE},
    {"NotImplemented", ERR_OBJECT_UNSUPPORTED},
    {"MethodNotAllowed", ERR_OBJECT_UNSUPPORTED},
    {"EntityTooLarge", ERR_OBJECT_TOO_LARGE},
    {"KeyTooLongError", ERR_OBJECT_KEY},
    {"InvalidURI", ERR_OBJECT_KEY},
    {"RequestTimeout", ERR_OBJECT_TIMEOUT},
    {"SlowDown", ERR_OBJECT_BUSY},
    {"ServiceUnavailable", ERR_OBJECT_BUSY},
    {"InternalError", ERR_OBJECT_BUSY},
    {"OperationAborted", ERR_OBJECT_BUSY},
    {"ConditionalRequestConflict", ERR_OBJECT_BUSY},
    {"BadDigest", ERR_OBJECT_CONNECTION},
    {"IncompleteBody", ERR_OBJECT_CONNECTION},
    {"XAmzContentSHA256Mismatch", ERR_OBJECT_CONNECTION},
};

static int code_of_status(int status)
{
    switch (status) {
    case 401:
    case 403: return ERR_OBJECT_DENIED;
    case 404: return ERR_OBJECT_NOT_FOUND;
    case 405:
    case 501: return ERR_OBJECT_UNSUPPORTED;
    case 408: return ERR_OBJECT_TIMEOUT;
    case 412: return ERR_OBJECT_PRECONDITION;
    case 413: return ERR_OBJECT_TOO_LARGE;
    case 416: return ERR_OBJECT_RANGE;
    case 429: return ERR_OBJECT_BUSY;
    default: return status >= 500 ? ERR_OBJECT_BUSY : ERR_OBJECT_REFUSED;
    }
}

static int code_of(int status, const struct s3reply_error *e)
{
    for (size_t i = 0; i < sizeof s3_codes / sizeof *s3_codes; i++)
        if (strcmp(s3_codes[i].name, e->code) == 0) return s3_codes[i].code;
    return code_of_status(status);
}

int s3http_fail(struct object_call *call, const struct s3http_request *q, int status, const struct s3reply_error *e)
{
    return driver_fail(call, code_of(status, e), "%s %s: HTTP %d%s%s%s%s%s%s%s", q->method, q->key ? q->key : "bucket", status, e->code[0] ? " " : "", e->code, e->message[0] ? ": " : "",
                       e->message, e->request_id[0] ? " (request id " : "", e->request_id, e->request_id[0] ? ")" : "");
}

static int fail_transfer(struct attempt *a, CURL *c, CURLcode rc)
{
    curl_off_t connected_us = 0, sent = 0;
    long request_bytes = 0;
    curl_easy_getinfo(c, CURLINFO_CONNECT_TIME_T, &connected_us);
    curl_easy_getinfo(c, CURLINFO_REQUEST_SIZE, &request_bytes);
    curl_easy_getinfo(c, CURLINFO_SIZE_UPLOAD_T, &sent);
    if (request_bytes > 0 || sent > 0) a->r->lost = true;
    int code = ERR_OBJECT_CONNECTION;
    if (a->sink_code) return a->sink_code; /* the sink's own affair, and its own words */
    if (rc == CURLE_ABORTED_BY_CALLBACK) code = ERR_OBJECT_CANCELLED;
    else if (rc == CURLE_OPERATION_TIMEDOUT) code = ERR_OBJECT_TIMEOUT;
    else if (rc == CURLE_PEER_FAILED_VERIFICATION || rc == CURLE_SSL_CACERT_BADFILE || rc == CURLE_SSL_CIPHER) code = ERR_OBJECT_TLS;
    else if (rc == CURLE_URL_MALFORMAT || rc == CURLE_UNSUPPORTED_PROTOCOL) code = ERR_OBJECT_URL;
    return driver_fail(a->call, code, "%s %s at %s: %s", a->q->method, a->q->key ? a->q->key : "bucket", a->host.p, a->curl_error[0] ? a->curl_error : curl_easy_strerror(rc));
}

static int judge_answer(struct attempt *a)
{
    struct s3http_response *r = a->r;
    if (r->status >= 200 && r->status < 300) {
        atomic_store(&a->h->bucket_seen, true);
        return 0;
    }
    struct s3reply_error e;
    s3reply_error(&e, buf_slice(&a->error_body));
    if (!e.request_id[0]) memcpy(e.request_id, r->error.request_id, sizeof e.request_id);
    if (!e.region[0]) memcpy(e.region, r->error.region, sizeof e.region);
    r->error = e;
    if (strcmp(e.code, "NoSuchKey") == 0) atomic_store(&a->h->bucket_seen, true);
    /* 501 is a refusal, SlowDown too; what a failing server or a gateway before it did is anyone's guess. */
    if (r->status >= 500 && r->status != 501 && strcmp(e.code, "SlowDown") != 0) r->lost = true;
    return s3http_fail(a->call, a->q, r->status, &e);
}

static int attempt_once(struct s3http *h, struct object_call *call, const struct s3http_request *q, struct s3http_response *r)
{
    struct attempt a = {.h = h, .call = call, .q = q, .r = r};
    forget_answer(r);
    copy_region(h, a.region);
    make_address(&a);
    make_headers(&a);
    CURL *c = take_handle(h);
    set_up(c, &a);
    if (q->sink) q->sink(q->sink_arg, r, slice_of("", 0), true);
    CURLcode rc = curl_easy_perform(c);
    int code = rc == CURLE_OK ? judge_answer(&a) : fail_transfer(&a, c, rc);
    give_handle(h, c);
    curl_slist_free_all(a.headers);
    buf_fini(&a.host);
    buf_fini(&a.path);
    buf_fini(&a.query);
    buf_fini(&a.url);
    buf_fini(&a.error_body);
    return code;
}

/* ---- again */

bool s3http_is_passing(int code) { return code == ERR_OBJECT_TIMEOUT || code == ERR_OBJECT_CONNECTION || code == ERR_OBJECT_BUSY; }

int s3http_pause(const struct s3http *h, const struct object_call *call, const struct s3http_request *q, uint32_t attempt, uint32_t at_least_s)
{
    uint64_t most = (uint64_t)h->o.backoff_ms << (attempt < 16 ? attempt - 1 : 15);
    if (most > PAUSE_MS_MAX) most = PAUSE_MS_MAX;
    uint32_t random = 0;
    CHECK(getrandom(&random, sizeof random, 0) == (ssize_t)sizeof random);
    uint64_t wait = most / 2 + random % (most / 2 + 1);
    if (wait < at_least_s * 1000ull) wait = at_least_s * 1000ull;
    int64_t until = clock_mono_us() + (int64_t)wait * 1000;
    for (;;) {
        if (is_stopped(call, q)) return ERR_OBJECT_CANCELLED;
        int64_t left_us = until - clock_mono_us();
        if (left_us <= 0) return 0;
        if (left_us > SLICE_MS * 1000) left_us = SLICE_MS * 1000;
        nanosleep(&(struct timespec){.tv_nsec = left_us * 1000}, NULL);
    }
}

/* An answer to HEAD has no body, so what the store minds is not told. A GET of one byte hears it. Gives the code to go on with. */
static int explain_head(struct s3http *h, struct object_call *call, const struct s3http_request *q, struct s3http_response *r, int code)
{
    bool unclear = r->status == 301 || r->status == 400 || r->status == 403 || (r->status == 404 && !atomic_load(&h->bucket_seen));
    if (!unclear) return code;
    struct s3http_request get = {.method = "GET", .key = q->key, .stop = q->stop};
    struct object_call aside = {.cancel = call->cancel};
    struct s3http_response said;
    awssign_add(&get.headers, "range", "bytes=0-0");
    said.lost = false;
    int why = attempt_once(h, &aside, &get, &said);
    if (why == 0 && r->status == 400) return ERR_OBJECT_BUSY; /* it takes the same as a GET: what it minded has passed */
    if (why == 0 || !said.error.code[0]) return code;
    memcpy(call->detail, aside.detail, sizeof aside.detail);
    *r = said;
    return why;
}

/* The store's Date, once it has said that ours is wrong. */
static bool adopt_clock(struct s3http *h, const struct s3http_response *r)
{
    if (r->date_ms <= 0) return false;
    atomic_store(&h->skew_ms, r->date_ms - clock_unix_ms());
    return true;
}

static bool adopt_region(struct s3http *h, const struct s3http_response *r)
{
    static const char *const elsewhere[] = {"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed"};
    bool says_so = r->status == 301 || r->status == 307;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) says_so |= strcmp(r->error.code, elsewhere[i]) == 0;
    const char *region = r->error.region;
    if (!says_so || !region[0] || region[strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-")] != '\0') return false;
    pthread_mutex_lock(&h->lock);
    bool other = strcmp(h->conf.region, region) != 0;
    if (other) {
        mem_free(h->conf.region);
        h->conf.region = mem_strdup(region);
    }
    pthread_mutex_unlock(&h->lock);
    return other;
}

int s3http_request(struct s3http *h, struct object_call *call, const struct s3http_request *q, struct s3http_response *r)
{
    uint32_t attempts = q->attempts_max ? q->attempts_max : h->o.attempts_max;
    bool clock_adopted = false, region_adopted = false;
    *r = (struct s3http_response){0};
    for (uint32_t attempt = 1;;) {
        if (is_stopped(call, q)) return driver_fail(call, ERR_OBJECT_CANCELLED, "%s %s", q->method, q->key ? q->key : "bucket");
        int code = attempt_once(h, call, q, r);
        if (code < 0 && strcmp(q->method, "HEAD") == 0) code = explain_head(h, call, q, r, code);
        if (code == 0) {
            call->detail[0] = '\0';
            return 0;
        }
        if (code == ERR_OBJECT_CLOCK && !clock_adopted && adopt_clock(h, r)) {
            clock_adopted = true;
            continue;
        }
        if (!region_adopted && adopt_region(h, r)) {
            region_adopted = true;
            continue;
        }
        if (!s3http_is_passing(code) || attempt >= attempts) return code;
        code = s3http_pause(h, call, q, attempt, r->retry_after_s);
        if (code) return code;
        attempt++;
    }
}
