#include "object/s3reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/num.h"
#include "object/xmlpull.h"

/* ---- walking */

/* The text of the element that has just started, up to its end; text of elements inside it does not count. False on bad XML. */
static bool take_value(struct xmlpull *x, struct buf *out)
{
    unsigned depth = x->depth;
    out->len = 0;
    for (;;) {
        switch (xmlpull_step(x)) {
        case XMLPULL_TEXT:
            if (x->depth == depth) buf_add_slice(out, x->text);
            break;
        case XMLPULL_END:
            if (x->depth == depth - 1) {
                *buf_room(out, 1) = '\0';
                return true;
            }
            break;
        case XMLPULL_START: break;
        case XMLPULL_ERROR:
        case XMLPULL_DONE: return false;
        }
    }
}

/* The next element inside the one whose children are at `depth`: 1 and its name in x->name, 0 at the end of the parent, -1 on bad XML. */
static int next_child(struct xmlpull *x, unsigned depth)
{
    for (;;) {
        switch (xmlpull_step(x)) {
        case XMLPULL_START:
            if (x->depth == depth) return 1;
            break;
        case XMLPULL_END:
            if (x->depth == depth - 2) return 0;
            break;
        case XMLPULL_TEXT: break;
        case XMLPULL_ERROR:
        case XMLPULL_DONE: return -1;
        }
    }
}

static bool starts_root(struct xmlpull *x, struct slice body, const char *name)
{
    xmlpull_init(x, body);
    return xmlpull_step(x) == XMLPULL_START && slice_eq(x->name, slice_str(name));
}

/* Control bytes become question marks: an etag may go into a header again, a message into a log. */
static void copy_text(char *to, size_t bytes, const struct buf *from)
{
    size_t n = from->len < bytes - 1 ? from->len : bytes - 1;
    for (size_t i = 0; i < n; i++) to[i] = (unsigned char)from->p[i] < 0x20 || from->p[i] == 0x7f ? '?' : from->p[i];
    to[n] = '\0';
}

/* ---- errors */

/* The children of <Error>, from its start on. */
static bool take_error(struct xmlpull *x, struct s3reply_error *e, struct buf *value)
{
    unsigned depth = x->depth + 1;
    int more;
    while ((more = next_child(x, depth)) == 1) {
        struct slice name = x->name;
        if (!take_value(x, value)) return false;
        if (slice_eq(name, SLICE("Code"))) copy_text(e->code, sizeof e->code, value);
        else if (slice_eq(name, SLICE("Message"))) copy_text(e->message, sizeof e->message, value);
        else if (slice_eq(name, SLICE("RequestId"))) copy_text(e->request_id, sizeof e->request_id, value);
        else if (slice_eq(name, SLICE("Region"))) copy_text(e->region, sizeof e->region, value);
    }
    return more == 0;
}

void s3reply_error(struct s3reply_error *e, struct slice body)
{
    struct xmlpull x;
    struct buf value = {0};
    *e = (struct s3reply_error){0};
    if (!starts_root(&x, body, "Error") || !take_error(&x, e, &value)) *e = (struct s3reply_error){0};
    buf_fini(&value);
    xmlpull_fini(&x);
}

/* ---- lists */

int64_t s3reply_time_ms(struct slice iso)
{
    char text[40];
    if (iso.n < 19 || iso.n >= sizeof text) return 0;
    memcpy(text, iso.p, iso.n);
    text[iso.n] = '\0';
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest) return 0;
    int ms = 0;
    if (*rest == '.')
        for (int weight = 100; weight > 0 && *++rest >= '0' && *rest <= '9'; weight /= 10) ms += weight * (*rest - '0');
    return (int64_t)timegm(&tm) * 1000 + ms;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Undoes encoding-type=url in place: %XX, and + for a space. What is no escape stays. */
static void url_decode(struct buf *b)
{
    size_t to = 0;
    for (size_t i = 0; i < b->len; i++) {
        char c = b->p[i];
        if (c == '+') {
            c = ' ';
        } else if (c == '%' && i + 2 < b->len && hex_digit(b->p[i + 1]) >= 0 && hex_digit(b->p[i + 2]) >= 0) {
            c = (char)(hex_digit(b->p[i + 1]) << 4 | hex_digit(b->p[i + 2]));
            i += 2;
        }
        b->p[to++] = c;
    }
    b->len = to;
    *buf_room(b, 1) = '\0';
}

struct list_reader {
    struct xmlpull x;
    bool url_encoded;
    bool truncated;
    struct buf key, value;
    struct buf *token;
};

/* <Contents> or <CommonPrefixes>, from its start on; false on bad XML. */
static bool take_item(struct list_reader *r, struct object_item *item)
{
    unsigned depth = r->x.depth + 1;
    int more;
    r->key.len = 0;
    while ((more = next_child(&r->x, depth)) == 1) {
        struct slice name = r->x.name;
        bool is_key = slice_eq(name, item->is_prefix ? SLICE("Prefix") : SLICE("Key"));
        struct buf *to = is_key ? &r->key : &r->value;
        if (!take_value(&r->x, to)) return false;
        if (is_key && r->url_encoded) url_decode(to);
        if (slice_eq(name, SLICE("LastModified"))) item->meta.modified_ms = s3reply_time_ms(buf_slice(to));
        else if (slice_eq(name, SLICE("ETag"))) copy_text(item->meta.etag, sizeof item->meta.etag, to);
        else if (slice_eq(name, SLICE("Size")) && !num_parse_u64(buf_slice(to), &item->meta.size)) return false;
    }
    item->key = r->key.p;
    /* A key with a NUL would be cut short in the hands of whoever gets it. */
    return more == 0 && r->key.len > 0 && !memchr(r->key.p, '\0', r->key.len);
}

/* How keys are written must be known before the first of them, wherever the element stands. */
static bool is_url_encoded(struct slice body)
{
    struct xmlpull x;
    struct buf value = {0};
    bool yes = false;
    if (starts_root(&x, body, "ListBucketResult"))
        while (!yes && next_child(&x, 2) == 1)
            if (slice_eq(x.name, SLICE("EncodingType"))) yes = take_value(&x, &value) && slice_is(buf_slice(&value), "url");
    buf_fini(&value);
    xmlpull_fini(&x);
    return yes;
}

static int read_list(struct list_reader *r, int (*each)(void *arg, const struct object_item *item), void *arg)
{
    int more;
    while ((more = next_child(&r->x, 2)) == 1) {
        struct slice name = r->x.name;
        bool is_prefix = slice_eq(name, SLICE("CommonPrefixes"));
        if (is_prefix || slice_eq(name, SLICE("Contents"))) {
            struct object_item item = {.is_prefix = is_prefix};
            if (!take_item(r, &item)) return -1;
            int rc = each(arg, &item);
            if (rc) return rc;
            continue;
        }
        if (slice_eq(name, SLICE("NextContinuationToken"))) {
            if (!take_value(&r->x, r->token)) return -1;
        } else if (slice_eq(name, SLICE("IsTruncated"))) {
            if (!take_value(&r->x, &r->value)) return -1;
            r->truncated = slice_is(buf_slice(&r->value), "true");
        }
    }
    if (more < 0) return -1;
    /* More to come and no place to go on from would end a list in its middle. */
    if (r->truncated && r->token->len == 0) return -1;
    if (!r->truncated) r->token->len = 0;
    return 0;
}

int s3reply_list(struct slice body, struct buf *token, int (*each)(void *arg, const struct object_item *item), void *arg)
{
    struct list_reader r = {.url_encoded = is_url_encoded(body), .token = token};
    token->len = 0;
    int rc = starts_root(&r.x, body, "ListBucketResult") ? read_list(&r, each, arg) : -1;
    buf_fini(&r.key);
    buf_fini(&r.value);
    xmlpull_fini(&r.x);
    return rc;
}

/* ---- uploads */

/* The first child of that name under a root of that name. */
static bool find_child(struct slice body, const char *root, struct slice child, struct buf *value)
{
    struct xmlpull x;
    bool found = false;
    value->len = 0;
    if (starts_root(&x, body, root))
        while (!found && next_child(&x, 2) == 1)
            if (slice_eq(x.name, child)) found = take_value(&x, value);
    xmlpull_fini(&x);
    return found && value->len > 0 && !memchr(value->p, '\0', value->len);
}

bool s3reply_upload_id(struct slice body, struct buf *id) { return find_child(body, "InitiateMultipartUploadResult", SLICE("UploadId"), id); }

bool s3reply_complete(struct slice body, char etag[OBJECT_ETAG_BYTES], struct s3reply_error *e)
{
    struct buf value = {0};
    s3reply_error(e, body);
    bool done = find_child(body, "CompleteMultipartUploadResult", SLICE("ETag"), &value);
    if (done) copy_text(etag, OBJECT_ETAG_BYTES, &value);
    buf_fini(&value);
    return done;
}

/* ---- deletes */

static bool take_delete_error(struct xmlpull *x, struct s3reply_error *e, struct buf *key, struct buf *value)
{
    unsigned depth = x->depth + 1;
    int more;
    key->len = 0;
    while ((more = next_child(x, depth)) == 1) {
        struct slice name = x->name;
        bool is_key = slice_eq(name, SLICE("Key"));
        if (!take_value(x, is_key ? key : value)) return false;
        if (slice_eq(name, SLICE("Code"))) copy_text(e->code, sizeof e->code, value);
        else if (slice_eq(name, SLICE("Message"))) copy_text(e->message, sizeof e->message, value);
    }
    buf_printf(key, ": %s", e->message);
    copy_text(e->message, sizeof e->message, key);
    return more == 0;
}

int s3reply_delete(struct slice body, struct s3reply_error *first)
{
    struct xmlpull x;
    struct buf key = {0}, value = {0};
    int errors = 0, more = -1;
    *first = (struct s3reply_error){0};
    if (starts_root(&x, body, "DeleteResult")) {
        while ((more = next_child(&x, 2)) == 1) {
            if (!slice_eq(x.name, SLICE("Error"))) continue;
            struct s3reply_error e = {0};
            if (!take_delete_error(&x, &e, &key, &value)) break;
            if (errors++ == 0) *first = e;
        }
    }
    buf_fini(&key);
    buf_fini(&value);
    xmlpull_fini(&x);
    return more == 0 ? errors : -1;
}
