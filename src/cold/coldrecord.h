/* One value in a file of the cold tier: encoding and decoding. Pure.
 *
 * The bytes stand at the top of coldrecord.c. Cold files are scratch of one process: they are emptied at start, so the format has no version and no golden files. */
#pragma once
#include "base/buf.h"
#include "base/compress.h"
#include "base/slice.h"

/* Appends a record. */
void coldrecord_add(struct buf *out, struct compress *c, struct slice key, struct slice value);

/* Reads one whole record, any bytes: appends its value and points *key into the record. 0, or -EBADMSG: it is not what was written. */
int coldrecord_read(struct slice record, struct slice *key, struct buf *value);
