/* The formats, as Redis 2.8 to 7.2 writes them. All integers are little endian but for the string lengths of a ziplist.
 *
 *   ziplist    u32 bytes | u32 offset of the last element | u16 count (ffff: unknown) | element ... | ff
 *     element  length of the element before (u8 < 254, or 254 and u32) | head | bytes
 *     head     00nnnnnn, 01nnnnnn n8, 80 n32: a string of n bytes (n big endian)
 *              c0 i16, d0 i32, e0 i64, f0 i24, fe i8; f1..fd: the integer 0..12
 *   listpack   u32 bytes | u16 count (ffff: unknown) | element ... | ff
 *     element  head | bytes | length of head and bytes, base 128, most significant first, high bit set on all but the first
 *     head     0nnnnnnn: the integer n; 110nnnnn n8: a signed integer of 13 bits; f1 i16, f2 i24, f3 i32, f4 i64
 *              10nnnnnn, 1110nnnn n8, f0 n32: a string of n bytes
 *   intset     u32 width (2, 4, 8) | u32 count | integers in ascending order
 *   zipmap     u8 count (254, 255: unknown) | field ... | ff
 *     field    length | bytes | length | u8 unused | bytes | unused bytes; length: u8 < 254, or 254 and u32 */
#include "store/rdbpack.h"

enum { END = 0xff, COUNT_UNKNOWN = 0xffff };

/* What is left of a blob. Nothing is read but through take(). */
struct cursor {
    const uint8_t *p;
    size_t n;
};

static const uint8_t *take(struct cursor *c, size_t n)
{
    if (c->n < n) return NULL;
    const uint8_t *p = c->p;
    c->p += n;
    c->n -= n;
    return p;
}

static bool take_uint(struct cursor *c, unsigned bytes, uint64_t *v)
{
    const uint8_t *p = take(c, bytes);
    if (p) *v = rdbpack_u64le(p, bytes);
    return p;
}

static bool take_int(struct cursor *c, unsigned bytes, struct rdbpack_element *e)
{
    const uint8_t *p = take(c, bytes);
    if (!p) return false;
    e->is_int = true;
    e->value = rdbpack_i64le(p, bytes);
    return true;
}

static bool take_bytes(struct cursor *c, size_t n, struct rdbpack_element *e)
{
    const uint8_t *p = take(c, n);
    if (!p) return false;
    e->is_int = false;
    e->bytes = slice_of(p, n);
    return true;
}

/* The end mark stands alone: nothing behind it. */
static bool at_end(const struct cursor *c) { return c->n == 1 && c->p[0] == END; }

static bool ziplist_string(struct cursor *c, uint8_t head, struct rdbpack_element *e)
{
    const uint8_t *p;
    switch (head >> 6) {
    case 0: return take_bytes(c, head & 63, e);
    case 1:
        p = take(c, 1);
        return p && take_bytes(c, (size_t)(head & 63) << 8 | p[0], e);
    default:
        p = head == 0x80 ? take(c, 4) : NULL;
        return p && take_bytes(c, (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3], e);
    }
}

static bool ziplist_element(struct cursor *c, size_t before, struct rdbpack_element *e)
{
    uint64_t back;
    if (!take_uint(c, 1, &back) || back == END) return false;
    if (back == 254 && !take_uint(c, 4, &back)) return false;
    if (back != before) return false;
    const uint8_t *p = take(c, 1);
    if (!p) return false;
    uint8_t head = *p;
    if (head < 0xc0) return ziplist_string(c, head, e);
    switch (head) {
    case 0xc0: return take_int(c, 2, e);
    case 0xd0: return take_int(c, 4, e);
    case 0xe0: return take_int(c, 8, e);
    case 0xf0: return take_int(c, 3, e);
    case 0xfe: return take_int(c, 1, e);
    default:
        if (head < 0xf1 || head > 0xfd) return false;
        *e = (struct rdbpack_element){.is_int = true, .value = head - 0xf1};
        return true;
    }
}

bool rdbpack_ziplist(struct slice blob, rdbpack_visit visit, void *ctx)
{
    enum { HEADER = 10 };
    struct cursor c = {(const uint8_t *)blob.p, blob.n};
    uint64_t bytes, tail, count, seen = 0;
    if (!take_uint(&c, 4, &bytes) || !take_uint(&c, 4, &tail) || !take_uint(&c, 2, &count) || bytes != blob.n) return false;
    size_t last = HEADER, before = 0;
    while (!at_end(&c)) {
        struct rdbpack_element e;
        const uint8_t *start = c.p;
        if (!ziplist_element(&c, before, &e) || !visit(ctx, &e)) return false;
        last = (size_t)(start - (const uint8_t *)blob.p);
        before = (size_t)(c.p - start);
        seen++;
    }
    return tail == last && (count == COUNT_UNKNOWN || count == seen);
}

static bool listpack_value(struct cursor *c, struct rdbpack_element *e)
{
    uint64_t n;
    const uint8_t *p = take(c, 1);
    if (!p) return false;
    uint8_t head = *p;
    if (head < 0x80) {
        *e = (struct rdbpack_element){.is_int = true, .value = head};
        return true;
    }
    if (head < 0xc0) return take_bytes(c, head & 63, e);
    if (head < 0xf0) {
        if (!(p = take(c, 1))) return false;
        if (head >= 0xe0) return take_bytes(c, (size_t)(head & 15) << 8 | *p, e);
        int v = (head & 31) << 8 | *p;
        *e = (struct rdbpack_element){.is_int = true, .value = v < 4096 ? v : v - 8192};
        return true;
    }
    switch (head) {
    case 0xf0: return take_uint(c, 4, &n) && take_bytes(c, n, e);
    case 0xf1: return take_int(c, 2, e);
    case 0xf2: return take_int(c, 3, e);
    case 0xf3: return take_int(c, 4, e);
    case 0xf4: return take_int(c, 8, e);
    default: return false;
    }
}

/* The length behind an element must be written as Redis writes it. (Its limits are one below what would fit: 16383 takes three bytes.) */
static bool listpack_back(struct cursor *c, size_t len)
{
    unsigned n = len <= 127 ? 1 : len < 16383 ? 2 : len < 2097151 ? 3 : len < 268435455 ? 4 : 5;
    const uint8_t *p = take(c, n);
    if (!p) return false;
    for (unsigned i = 0; i < n; i++) {
        uint8_t want = (uint8_t)((len >> (7 * (n - 1 - i)) & 127) | (i > 0 ? 128 : 0));
        if (p[i] != want) return false;
    }
    return true;
}

bool rdbpack_listpack(struct slice blob, rdbpack_visit visit, void *ctx)
{
    struct cursor c = {(const uint8_t *)blob.p, blob.n};
    uint64_t bytes, count, seen = 0;
    if (!take_uint(&c, 4, &bytes) || !take_uint(&c, 2, &count) || bytes != blob.n) return false;
    while (!at_end(&c)) {
        struct rdbpack_element e;
        const uint8_t *start = c.p;
        if (!listpack_value(&c, &e) || !listpack_back(&c, (size_t)(c.p - start)) || !visit(ctx, &e)) return false;
        seen++;
    }
    return count == COUNT_UNKNOWN || count == seen;
}

bool rdbpack_intset(struct slice blob, rdbpack_visit visit, void *ctx)
{
    struct cursor c = {(const uint8_t *)blob.p, blob.n};
    uint64_t width, count;
    if (!take_uint(&c, 4, &width) || !take_uint(&c, 4, &count)) return false;
    if ((width != 2 && width != 4 && width != 8) || c.n != count * width) return false;
    int64_t before = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct rdbpack_element e;
        if (!take_int(&c, (unsigned)width, &e) || (i > 0 && e.value <= before) || !visit(ctx, &e)) return false;
        before = e.value;
    }
    return true;
}

static bool zipmap_length(struct cursor *c, uint64_t *n)
{
    return take_uint(c, 1, n) && *n != END && (*n < 254 || take_uint(c, 4, n));
}

bool rdbpack_zipmap(struct slice blob, rdbpack_visit visit, void *ctx)
{
    struct cursor c = {(const uint8_t *)blob.p, blob.n};
    uint64_t count, n, unused, seen = 0;
    if (!take_uint(&c, 1, &count)) return false;
    while (!at_end(&c)) {
        struct rdbpack_element field, value;
        if (!zipmap_length(&c, &n) || !take_bytes(&c, n, &field)) return false;
        if (!zipmap_length(&c, &n) || !take_uint(&c, 1, &unused)) return false;
        if (!take_bytes(&c, n, &value) || !take(&c, unused)) return false;
        if (!visit(ctx, &field) || !visit(ctx, &value)) return false;
        seen++;
    }
    return count >= 254 || count == seen;
}
