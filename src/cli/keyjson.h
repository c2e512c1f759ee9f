/* Keys and ops as lines of JSON: what `sherd dump export` writes.
 *
 *     {"db":0,"key":"k","type":"hash","expires_ms":null,"value":[["field","value"]]}
 *
 * A string of bytes is a JSON string if it is UTF-8, else {"base64":"..."}. A list or set is an array of strings, a hash an array of [field, value], a
 * sorted set an array of [member, score], all in the order in which the file has them; an infinite score is "inf" or "-inf". */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct op;

/* False, and nothing appended, if the image is not valid. */
bool keyjson_key(struct buf *out, uint64_t db, struct slice key, int64_t expiry_ms, struct slice image);
void keyjson_op(struct buf *out, uint64_t epoch, const struct op *op); /* {"epoch":7,"op":"push_tail","db":0,"key":"k","items":["a","b"]} */
void keyjson_string(struct buf *out, struct slice bytes);
