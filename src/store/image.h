/* The image of a value: its bytes outside a store. Used by DUMP and RESTORE, by OP_RESTORE, when a value moves between shards, and by dumps.
 * It is the object encoding of Redis's RDB files: a type byte and a body. We write the plain types (string 0, list 1, set 2, hash 4, sorted set with binary
 * scores 5) with lengths as RDB has them; we read those and the packed ones of real servers too (LZF strings, integer strings, ziplist, listpack, intset, zipmap,
 * quicklist 1 and 2, text-score sorted sets). Bytes come from outside: every length is checked, nothing is asserted. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/entry.h"
#include "store/kit.h"

void image_write(struct buf *out, const struct entry *e); /* of a warm one: a cold value is an image already, on disk */

/* Builds an entry (with that key and expiry) from an image; NULL if the bytes are not a valid image of a type we have, or are followed by others. Nothing stays allocated
 * on failure. An image of an empty collection is refused. */
struct entry *image_read(const struct kit *k, struct slice image, struct slice key, int64_t expiry_ms);
/* True exactly if image_read would succeed, without building: what a command checks before it makes the op. */
bool image_valid(struct slice image);

/* True if the image is a string whose bytes stand in it as they are: then `value` is these. Most strings are; others have to be read. */
bool image_plain_string(struct slice image, struct slice *value);
void image_write_plain(struct buf *out, struct slice value); /* such an image, of a string that is in no store */

/* DUMP's frame: image, u16le RDB version, CRC-64 (Jones) over all before, little endian. */
void image_seal(struct buf *image);                             /* appends version and checksum */
bool image_unseal(struct slice framed, struct slice *image);    /* false: bad version or checksum */
