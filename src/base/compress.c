#include "base/compress.h"

#include <limits.h>
#include <lz4.h>
#include <lz4hc.h>

#include "base/check.h"
#include "base/mem.h"

enum {
    FAST_ACCELERATION = 8,
    GAIN_PART = 16, /* what does not save the sixteenth part is not worth unpacking */
};

void compress_init(struct compress *c, enum compress_profile profile, size_t min_size)
{
    CHECK((unsigned)profile < COMPRESS_PROFILES);
    *c = (struct compress){.profile = profile, .min_size = min_size};
}

void compress_fini(struct compress *c)
{
    mem_free(c->state);
    c->state = NULL;
}

/* Gives up as soon as the result would not fit `cap` bytes: 0 then. */
static int pack(struct compress *c, const char *raw, int n, char *out, int cap)
{
    bool high = c->profile == COMPRESS_HIGH;
    if (!c->state) c->state = mem_alloc((size_t)(high ? LZ4_sizeofStateHC() : LZ4_sizeofState()));
    if (high) return LZ4_compress_HC_extStateHC(c->state, raw, out, n, cap, LZ4HC_CLEVEL_DEFAULT);
    return LZ4_compress_fast_extState(c->state, raw, out, n, cap, c->profile == COMPRESS_FAST ? FAST_ACCELERATION : 1);
}

bool compress_pack(struct compress *c, struct buf *out, struct slice raw)
{
    if (c->profile == COMPRESS_NONE || raw.n < c->min_size || raw.n < GAIN_PART || raw.n > LZ4_MAX_INPUT_SIZE) return false;
    size_t cap = raw.n - raw.n / GAIN_PART;
    int n = pack(c, raw.p, (int)raw.n, buf_room(out, cap), (int)cap);
    if (n <= 0) return false;
    out->len += (size_t)n;
    return true;
}

bool compress_unpack(struct slice packed, char *raw, size_t raw_n)
{
    if (packed.n > INT_MAX || raw_n > INT_MAX) return false;
    return LZ4_decompress_safe(packed.p, raw, (int)packed.n, (int)raw_n) == (int)raw_n;
}

