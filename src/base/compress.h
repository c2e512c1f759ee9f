/* Compression of values and of blocks of them: LZ4, in four profiles. Used by dumps and the cold tier.
 *
 * What is short, or would hardly shrink, is not compressed: the caller stores it raw and notes that it did. A struct compress belongs to one thread at a time; it keeps
 * its working memory from call to call. Unpacking needs none and takes any bytes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"

enum compress_profile {
    COMPRESS_NONE,
    COMPRESS_FAST,     /* LZ4 in larger steps */
    COMPRESS_BALANCED, /* LZ4 as it is: the default */
    COMPRESS_HIGH,     /* LZ4HC: slow to write, as fast to read */
    COMPRESS_PROFILES
};

enum { COMPRESS_MIN_SIZE = 128 }; /* the default of min_size */

struct compress {
    enum compress_profile profile;
    size_t min_size; /* below it nothing is compressed */
    void *state;     /* made by the first call that needs it */
};

void compress_init(struct compress *c, enum compress_profile profile, size_t min_size);
void compress_fini(struct compress *c);

/* Appends the compressed bytes; false, and nothing appended, if they are to be stored raw: by profile, by min_size, or because they would shrink by less than a sixteenth. */
bool compress_pack(struct compress *c, struct buf *out, struct slice raw);
/* True exactly if `packed` is well formed and gives raw_n bytes, no more and no less. */
bool compress_unpack(struct slice packed, char *raw, size_t raw_n);
