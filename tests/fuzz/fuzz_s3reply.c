/* Any bytes as an answer of S3: every reader of answers takes it or refuses it; and what the pull parser calls text can be escaped and read back. */
#include <stdint.h>

#include "object/s3reply.h"
#include "object/xmlpull.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int check_item(void *arg, const struct object_item *item)
{
    CHECK(item->key && item->key[0]);
    CHECK(memchr(item->meta.etag, '\0', sizeof item->meta.etag));
    return 0;
}

static void check_escape(struct slice text)
{
    struct buf source = {0}, back = {0};
    buf_add_str(&source, "<a>");
    xmlpull_escape(&source, text);
    buf_add_str(&source, "</a>");
    struct xmlpull x;
    xmlpull_init(&x, buf_slice(&source));
    enum xmlpull_event e;
    while ((e = xmlpull_step(&x)) != XMLPULL_DONE) {
        CHECK(e != XMLPULL_ERROR);
        if (e == XMLPULL_TEXT) buf_add_slice(&back, x.text);
    }
    CHECK(slice_eq(buf_slice(&back), text));
    xmlpull_fini(&x);
    buf_fini(&source);
    buf_fini(&back);
}

static void check_events(struct slice source)
{
    struct xmlpull x;
    unsigned depth = 0;
    xmlpull_init(&x, source);
    for (;;) {
        enum xmlpull_event e = xmlpull_step(&x);
        CHECK(x.at <= source.n);
        if (e == XMLPULL_ERROR || e == XMLPULL_DONE) {
            CHECK(e == XMLPULL_ERROR || depth == 0);
            CHECK(xmlpull_step(&x) == e);
            break;
        }
        depth += e == XMLPULL_START;
        depth -= e == XMLPULL_END;
        CHECK(depth == x.depth || e == XMLPULL_TEXT);
        if (e == XMLPULL_TEXT && x.text.n > 0 && !memchr(x.text.p, '\0', x.text.n)) check_escape(x.text);
    }
    xmlpull_fini(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096) return 0;
    struct slice body = slice_of(data, size);
    struct buf out = {0};
    struct s3reply_error e;
    char etag[OBJECT_ETAG_BYTES] = "";
    check_events(body);
    s3reply_error(&e, body);
    s3reply_list(body, &out, check_item, NULL);
    s3reply_upload_id(body, &out);
    s3reply_complete(body, etag, &e);
    s3reply_delete(body, &e);
    buf_fini(&out);
    return 0;
}
