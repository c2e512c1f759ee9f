/* AWS Signature Version 4 for S3, and the pieces of a request that it covers. Pure: the time is handed in. Why our own: docs/decisions/. */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum { AWSSIGN_HEX_BYTES = 65, AWSSIGN_DATE_BYTES = 17, AWSSIGN_PAIRS_MAX = 16 };

/* Names with values: query parameters or headers. Borrowed. */
struct awssign_pairs {
    struct {
        const char *name;
        const char *value;
    } at[AWSSIGN_PAIRS_MAX];
    size_t n;
};
void awssign_add(struct awssign_pairs *pairs, const char *name, const char *value);

/* Appends text with every byte but A-Z a-z 0-9 - . _ ~ as %XX; slashes stay as they are if keep_slashes. */
void awssign_encode(struct buf *out, struct slice text, bool keep_slashes);

/* Appends the parameters encoded, in the order that the signature wants, joined by &; one without a value as "name=". What goes into the URL is this text, so that both ends sign the same. */
void awssign_query(struct buf *out, const struct awssign_pairs *params);

void awssign_sha256_hex(char out[AWSSIGN_HEX_BYTES], struct slice bytes);
void awssign_date(char out[AWSSIGN_DATE_BYTES], int64_t unix_ms); /* 20130524T000000Z */

struct awssign_request {
    const char *method;
    struct slice path;  /* as in the URL: encoded once, slashes kept, "/" at least */
    struct slice query; /* as in the URL: made by awssign_query; "" if there is none */
    const struct awssign_pairs *headers; /* all that are to be signed, names in lower case, any order: host, x-amz-date and x-amz-content-sha256 among them */
    const char *payload; /* the value of x-amz-content-sha256 */
};

struct awssign_key {
    const char *access_key, *secret_key, *region;
};

/* Appends the value of the Authorization header. date: that of x-amz-date. */
void awssign_authorization(struct buf *out, const struct awssign_request *r, const struct awssign_key *key, const char date[AWSSIGN_DATE_BYTES]);
