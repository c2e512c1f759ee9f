/* A put in one request.
 *
 * Unconditional puts are simply repeated: the same bytes under the same name.
 *
 * A conditional put carries a number of its own as metadata (S3HTTP_PUT_ID), the same in every attempt, and is repeated too: if an earlier attempt took effect after all, the
 * condition of the later one fails. So after a lost answer (connection gone, silence, 5xx)
 *   - success is success: this attempt took effect, or for If-Match on equal bytes an earlier one with the same;
 *   - anything else asks the store what it holds now. The object bears our number: it took effect, its answer is found. It bears another, or the store cannot be asked: ours may
 *     have been there for a moment and replaced since, or may still be on its way: ERR_OBJECT_UNCERTAIN.
 * A refusal without a lost answer before it is what it says: nothing happened. */
#include "object/s3put.h"

#include <openssl/evp.h>

#include "base/crc32c.h"
#include "base/err.h"

void s3put_crc(char out[S3PUT_CRC_BYTES], struct slice bytes)
{
    uint32_t crc = crc32c(CRC32C_START, bytes.p, bytes.n);
    unsigned char big_endian[4] = {(unsigned char)(crc >> 24), (unsigned char)(crc >> 16), (unsigned char)(crc >> 8), (unsigned char)crc};
    CHECK(EVP_EncodeBlock((unsigned char *)out, big_endian, 4) == S3PUT_CRC_BYTES - 1);
}

/* radosgw compares the text as it is, without quotes; others take both. */
static void unquote(char out[OBJECT_ETAG_BYTES], const char *etag)
{
    size_t n = strlen(etag);
    if (n >= 2 && etag[0] == '"' && etag[n - 1] == '"') {
        etag++;
        n -= 2;
    }
    if (n >= OBJECT_ETAG_BYTES) n = OBJECT_ETAG_BYTES - 1;
    memcpy(out, etag, n);
    out[n] = '\0';
}

/* What became of a conditional put whose answer was lost. */
static int resolve(struct s3store *s, struct object_call *call, const char *whole, const char *id, struct s3http_response *r)
{
    struct s3http_response now;
    int rc = s3store_look(s, call, whole, &now);
    if (rc == 0 && strcmp(now.put_id, id) == 0) {
        *r = now;
        call->detail[0] = '\0';
        return 0;
    }
    return ERR_OBJECT_UNCERTAIN; /* the detail is that of the last failure */
}

int s3put_put(struct object_store *store, struct object_call *call, const char *key, struct slice bytes, const struct object_put_options *o, struct object_meta *meta)
{
    struct s3store *s = s3store_of(store);
    char whole[OBJECT_KEY_MAX + 1], crc[S3PUT_CRC_BYTES], etag[OBJECT_ETAG_BYTES], id[33];
    int rc = s3store_key(s, call, key, whole);
    if (rc) return rc;
    struct s3http_request q = {.method = "PUT", .key = whole, .body = bytes, .moved = s3store_tell_progress, .moved_arg = call};
    awssign_add(&q.headers, "content-type", o->content_type ? o->content_type : "application/octet-stream");
    if (!s3http_options(s->http)->no_checksums) {
        s3put_crc(crc, bytes);
        awssign_add(&q.headers, "x-amz-checksum-crc32c", crc);
    }
    if (o->condition == OBJECT_IF_ABSENT) awssign_add(&q.headers, "if-none-match", "*");
    if (o->condition == OBJECT_IF_MATCH) {
        unquote(etag, o->etag);
        awssign_add(&q.headers, "if-match", etag);
    }
    if (o->condition != OBJECT_ALWAYS) {
        driver_random_hex(id);
        awssign_add(&q.headers, S3HTTP_PUT_ID, id);
    }
    struct s3http_response r;
    rc = s3http_request(s->http, call, &q, &r);
    if (rc != 0 && r.lost && o->condition != OBJECT_ALWAYS) rc = resolve(s, call, whole, id, &r);
    /* AWS says 404 to If-Match on nothing: the condition did not hold, and that is all that it means. */
    if (rc == ERR_OBJECT_NOT_FOUND && o->condition == OBJECT_IF_MATCH) rc = ERR_OBJECT_PRECONDITION;
    if (rc) return rc;
    memcpy(meta->etag, r.meta.etag, sizeof meta->etag);
    meta->size = bytes.n;
    driver_progress(call, bytes.n);
    return 0;
}
