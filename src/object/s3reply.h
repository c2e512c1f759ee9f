/* What S3 answers in XML, read. Pure; any bytes are safe to give. */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "object/object.h"

struct s3reply_error {
    char code[64]; /* "NoSuchKey"; "" if the body is no error */
    char message[200];
    char request_id[80];
    char region[40]; /* where the bucket is, if it is elsewhere */
};
void s3reply_error(struct s3reply_error *e, struct slice body);

/* One page of ListObjectsV2. Gives 0, -1 if it is not one, or what `each` gave if not 0. Keys are whole, with the prefix; NUL-terminated. token: where the next page begins; empty at the end. */
int s3reply_list(struct slice body, struct buf *token, int (*each)(void *arg, const struct object_item *item), void *arg);

bool s3reply_upload_id(struct slice body, struct buf *id); /* NUL-terminated */

/* CompleteMultipartUpload answers 200 before it is done, so the body may be an error after all: then false, and e says which (code "" if it is neither). */
bool s3reply_complete(struct slice body, char etag[OBJECT_ETAG_BYTES], struct s3reply_error *e);

/* The keys that DeleteObjects could not delete. Gives their number, or -1 if the body makes no sense; first: the first of them, with its key in front of the message. */
int s3reply_delete(struct slice body, struct s3reply_error *first);

int64_t s3reply_time_ms(struct slice iso); /* "2009-10-12T17:50:30.000Z"; 0 if it is none */
