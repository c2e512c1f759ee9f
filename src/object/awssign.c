/* The rules, from "Signature Calculations for the Authorization Header" of the S3 API reference:
 *
 *   canonical request = method \n path \n query \n (lower-case-name:trimmed-value \n)... \n signed;names \n payload
 *   string to sign    = "AWS4-HMAC-SHA256" \n date \n yyyymmdd/region/s3/aws4_request \n hex(sha256(canonical request))
 *   key               = HMAC(HMAC(HMAC(HMAC("AWS4" + secret, yyyymmdd), region), "s3"), "aws4_request")
 *   signature         = hex(HMAC(key, string to sign))
 *
 * Unlike for other services the path is encoded once and not normalised: a key may hold "//" or "/./". Headers are sorted by name alone (by whole line, "x-amz-meta-a:"
 * would come behind "x-amz-meta-a-b:"), parameters by encoded name, then by value. */
#include "object/awssign.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"

enum { DIGEST_BYTES = 32 };

void awssign_add(struct awssign_pairs *pairs, const char *name, const char *value)
{
    CHECK(pairs->n < AWSSIGN_PAIRS_MAX);
    pairs->at[pairs->n].name = name;
    pairs->at[pairs->n++].value = value;
}

void awssign_encode(struct buf *out, struct slice text, bool keep_slashes)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
        if (plain || (c == '/' && keep_slashes)) {
            buf_add_byte(out, (char)c);
        } else {
            buf_add_byte(out, '%');
            buf_add_byte(out, hex[c >> 4]);
            buf_add_byte(out, hex[c & 15]);
        }
    }
}

/* Encoded first, then sorted by name: a NUL stands for the "=" meanwhile, since "a" comes before "a-b". */
void awssign_query(struct buf *out, const struct awssign_pairs *params)
{
    struct buf encoded[AWSSIGN_PAIRS_MAX] = {{0}};
    for (size_t i = 0; i < params->n; i++) {
        struct buf one = {0};
        awssign_encode(&one, slice_str(params->at[i].name), false);
        buf_add_byte(&one, '\0');
        awssign_encode(&one, slice_str(params->at[i].value), false);
        size_t at = i;
        for (; at > 0 && slice_cmp(buf_slice(&one), buf_slice(&encoded[at - 1])) < 0; at--) encoded[at] = encoded[at - 1];
        encoded[at] = one;
    }
    for (size_t i = 0; i < params->n; i++) {
        if (i > 0) buf_add_byte(out, '&');
        *(char *)memchr(encoded[i].p, '\0', encoded[i].len) = '=';
        buf_add_slice(out, buf_slice(&encoded[i]));
        buf_fini(&encoded[i]);
    }
}

static void to_hex(char out[AWSSIGN_HEX_BYTES], const unsigned char digest[DIGEST_BYTES])
{
    for (size_t i = 0; i < DIGEST_BYTES; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

void awssign_sha256_hex(char out[AWSSIGN_HEX_BYTES], struct slice bytes)
{
    unsigned char digest[DIGEST_BYTES];
    CHECK(EVP_Digest(bytes.p ? bytes.p : "", bytes.n, digest, NULL, EVP_sha256(), NULL) == 1);
    to_hex(out, digest);
}

void awssign_date(char out[AWSSIGN_DATE_BYTES], int64_t unix_ms)
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm tm;
    CHECK(gmtime_r(&seconds, &tm) && strftime(out, AWSSIGN_DATE_BYTES, "%Y%m%dT%H%M%SZ", &tm) == AWSSIGN_DATE_BYTES - 1);
}

static void hmac(unsigned char out[DIGEST_BYTES], const void *key, size_t key_bytes, struct slice text)
{
    unsigned int n = DIGEST_BYTES;
    CHECK(HMAC(EVP_sha256(), key, (int)key_bytes, (const unsigned char *)text.p, text.n, out, &n) && n == DIGEST_BYTES);
}

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* Outer spaces go, inner runs become one. */
static void add_trimmed(struct buf *out, const char *value)
{
    bool space = false, any = false;
    for (; *value; value++) {
        if (*value == ' ' || *value == '\t') {
            space = true;
            continue;
        }
        if (space && any) buf_add_byte(out, ' ');
        space = false;
        any = true;
        buf_add_byte(out, *value);
    }
}

/* The canonical request; the names of signed headers are appended to names. */
static void add_canonical(struct buf *out, struct buf *names, const struct awssign_request *r)
{
    struct awssign_pairs sorted = *r->headers;
    qsort(sorted.at, sorted.n, sizeof sorted.at[0], by_name);
    buf_printf(out, "%s\n", r->method);
    buf_add_slice(out, r->path);
    buf_add_byte(out, '\n');
    buf_add_slice(out, r->query);
    buf_add_byte(out, '\n');
    for (size_t i = 0; i < sorted.n; i++) {
        buf_printf(out, "%s:", sorted.at[i].name);
        add_trimmed(out, sorted.at[i].value);
        buf_add_byte(out, '\n');
        buf_printf(names, "%s%s", i ? ";" : "", sorted.at[i].name);
    }
    buf_add_byte(out, '\n');
    buf_add_slice(out, buf_slice(names));
    buf_printf(out, "\n%s", r->payload);
}

static void signing_key(unsigned char out[DIGEST_BYTES], const struct awssign_key *key, struct slice day)
{
    struct buf secret = {0};
    buf_printf(&secret, "AWS4%s", key->secret_key);
    hmac(out, secret.p, secret.len, day);
    OPENSSL_cleanse(secret.p, secret.cap);
    buf_fini(&secret);
    hmac(out, out, DIGEST_BYTES, slice_str(key->region));
    hmac(out, out, DIGEST_BYTES, SLICE("s3"));
    hmac(out, out, DIGEST_BYTES, SLICE("aws4_request"));
}

void awssign_authorization(struct buf *out, const struct awssign_request *r, const struct awssign_key *key, const char date[AWSSIGN_DATE_BYTES])
{
    struct buf canonical = {0}, names = {0}, to_sign = {0}, scope = {0};
    add_canonical(&canonical, &names, r);
    char hash[AWSSIGN_HEX_BYTES], signature[AWSSIGN_HEX_BYTES];
    awssign_sha256_hex(hash, buf_slice(&canonical));
    buf_printf(&scope, "%.8s/%s/s3/aws4_request", date, key->region);
    buf_printf(&to_sign, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope.p, hash);

    unsigned char digest[DIGEST_BYTES];
    signing_key(digest, key, slice_of(date, 8));
    hmac(digest, digest, DIGEST_BYTES, buf_slice(&to_sign));
    to_hex(signature, digest);
    buf_printf(out, "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s", key->access_key, scope.p, names.p, signature);
    buf_fini(&canonical);
    buf_fini(&names);
    buf_fini(&to_sign);
    buf_fini(&scope);
}
