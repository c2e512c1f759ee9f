/* Bytes:
 *   0   "HYLL"
 *   4   encoding: 0 dense, 1 sparse
 *   5   3 bytes of zero
 *   8   cached estimate, u64 little endian; the highest bit set: not valid
 *   16  dense: 16384 registers of 6 bits, the first in the lowest bits of the first byte
 *       sparse: runs that together make 16384 registers:
 *         00nnnnnn           n + 1 registers at 0
 *         01nnnnnn nnnnnnnn  n + 1 registers at 0
 *         1vvvvvnn           n + 1 registers at v + 1
 *
 * An element's hash is MurmurHash64A with a fixed seed. Its low 14 bits choose the register; the position of the lowest 1 in the other 50 (51 if there is
 * none) is what the register remembers the maximum of. */
#include "command/hyll.h"

#include <math.h>

enum {
    HEADER = 16,
    DENSE_BYTES = HEADER + HYLL_REGISTERS * 6 / 8,
    DENSE = 0,
    SPARSE = 1,
    INDEX_BITS = 14,
    COUNT_BITS = 64 - INDEX_BITS,
    VALUE_MAX = 32, /* of a sparse run */
    VALUE_RUN_MAX = 4,
    SHORT_RUN_MAX = 64,
};

bool hyll_is(struct slice v)
{
    if (v.n < HEADER || memcmp(v.p, "HYLL", 4) != 0) return false;
    return v.p[4] == SPARSE || (v.p[4] == DENSE && v.n == DENSE_BYTES);
}

bool hyll_dense(struct slice v) { return v.p[4] == DENSE; }

void hyll_new(struct buf *v)
{
    CHECK(v->len == 0);
    buf_add(v, "HYLL\x01\0\0\0\0\0\0\0\0\0\0\0", HEADER);
    buf_add(v, "\x7f\xff", 2); /* one run of 16384 zeros */
}

/* ---- hashing */

static uint64_t load_le(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static uint64_t murmur64a(struct slice s, uint64_t seed)
{
    const uint64_t m = 0xc6a4a7935bd1e995ull;
    const unsigned char *p = (const unsigned char *)s.p;
    uint64_t h = seed ^ (s.n * m);
    size_t left = s.n;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t k = load_le(p, 8) * m;
        h = (h ^ (k ^ k >> 47) * m) * m;
    }
    if (left) h = (h ^ load_le(p, left)) * m;
    h = (h ^ h >> 47) * m;
    return h ^ h >> 47;
}

struct hyll_hit hyll_hit(struct slice element)
{
    uint64_t hash = murmur64a(element, 0xadc83b19ull);
    uint64_t rest = hash >> INDEX_BITS | 1ull << COUNT_BITS; /* the 1 above ends the search */
    return (struct hyll_hit){(unsigned)(hash & (HYLL_REGISTERS - 1)), 1 + (unsigned)__builtin_ctzll(rest)};
}

/* ---- dense registers. A register lies in one byte or two; the last ends with the last byte. */

unsigned hyll_dense_get(struct slice v, unsigned index)
{
    const unsigned char *p = (const unsigned char *)v.p + HEADER + index * 6 / 8;
    unsigned shift = index * 6 % 8, w = p[0];
    if (shift > 2) w |= (unsigned)p[1] << 8;
    return w >> shift & 63;
}

static void dense_set(struct buf *v, unsigned index, unsigned count)
{
    unsigned char *p = (unsigned char *)v->p + HEADER + index * 6 / 8;
    unsigned shift = index * 6 % 8, mask = 63u << shift, bits = count << shift;
    p[0] = (unsigned char)((p[0] & ~mask) | bits);
    if (shift > 2) p[1] = (unsigned char)((p[1] & ~(mask >> 8)) | bits >> 8);
}

/* ---- sparse runs */

struct run {
    size_t at;      /* offset of its first byte */
    unsigned bytes; /* 1 or 2 */
    unsigned value; /* 0: a run of zeros */
    unsigned n;     /* registers */
};

static bool run_read(struct slice v, size_t at, struct run *r)
{
    if (at >= v.n) return false;
    unsigned head = (unsigned char)v.p[at];
    *r = (struct run){at, 1, 0, (head & 63) + 1};
    if (head & 0x80) {
        r->value = (head >> 2 & 31) + 1;
        r->n = (head & 3) + 1;
    } else if (head & 0x40) {
        if (at + 1 >= v.n) return false;
        r->bytes = 2;
        r->n = ((head & 63) << 8 | (unsigned char)v.p[at + 1]) + 1;
    }
    return true;
}

/* Writes a run of n registers (none if n is 0) in its shortest form and gives its bytes. */
static unsigned run_write(char *out, unsigned value, unsigned n)
{
    if (n == 0) return 0;
    if (value > 0) {
        out[0] = (char)(0x80 | (value - 1) << 2 | (n - 1));
        return 1;
    }
    if (n <= SHORT_RUN_MAX) {
        out[0] = (char)(n - 1);
        return 1;
    }
    out[0] = (char)(0x40 | (n - 1) >> 8);
    out[1] = (char)(n - 1);
    return 2;
}

/* Neighbouring runs of one value become one, if it is short enough: looks at five runs from `at` on, more cannot have changed. */
static void runs_join(struct buf *v, size_t at)
{
    struct run a, b;
    for (int left = 5; left > 0 && run_read(buf_slice(v), at, &a); left--) {
        if (a.value > 0 && run_read(buf_slice(v), at + 1, &b) && a.value == b.value && a.n + b.n <= VALUE_RUN_MAX) {
            run_write(v->p + at, a.value, a.n + b.n);
            memmove(v->p + at + 1, v->p + at + 2, v->len - at - 2);
            v->len--;
        } else {
            at += a.bytes;
        }
    }
}

/* Finds the run of a register; *first: the run's first register, *before: offset of the run before it (or of the first). */
static bool run_find(struct slice v, unsigned index, struct run *r, unsigned *first, size_t *before)
{
    *first = 0;
    *before = HEADER;
    for (size_t at = HEADER; run_read(v, at, r); at += r->bytes) {
        if (index < *first + r->n) return true;
        *first += r->n;
        *before = at;
    }
    return false;
}

static int dense_raise(struct buf *v, struct hyll_hit hit)
{
    if (hyll_dense_get(buf_slice(v), hit.index) >= hit.count) return 0;
    dense_set(v, hit.index, hit.count);
    return 1;
}

static int become_dense_and_raise(struct buf *v, struct hyll_hit hit) { return hyll_to_dense(v) ? dense_raise(v, hit) : -1; }

/* The register's run is replaced by up to three: what was before it, the register, what was behind it. */
static int sparse_raise(struct buf *v, struct hyll_hit hit, size_t sparse_max)
{
    struct run r;
    unsigned first, n = 0;
    size_t before;
    char runs[5];
    if (hit.count > VALUE_MAX) return become_dense_and_raise(v, hit);
    if (!run_find(buf_slice(v), hit.index, &r, &first, &before)) return -1;
    if (r.value >= hit.count) return 0;
    n += run_write(runs, r.value, hit.index - first);
    n += run_write(runs + n, hit.count, 1);
    n += run_write(runs + n, r.value, first + r.n - 1 - hit.index);
    if (n > r.bytes) {
        if (v->len + n - r.bytes > sparse_max) return become_dense_and_raise(v, hit);
        buf_insert(v, r.at, runs, n - r.bytes);
    } else if (n < r.bytes) {
        memmove(v->p + r.at, v->p + r.at + 1, v->len - r.at - 1);
        v->len--;
    }
    memcpy(v->p + r.at, runs, n);
    runs_join(v, before);
    return 1;
}

int hyll_raise(struct buf *v, struct hyll_hit hit, size_t sparse_max)
{
    return hyll_dense(buf_slice(v)) ? dense_raise(v, hit) : sparse_raise(v, hit, sparse_max);
}

/* ---- whole values */

static void dense_registers(struct slice v, uint8_t registers[HYLL_REGISTERS])
{
    const unsigned char *p = (const unsigned char *)v.p + HEADER;
    for (unsigned i = 0; i < HYLL_REGISTERS; i += 4, p += 3) {
        unsigned w = p[0] | (unsigned)p[1] << 8 | (unsigned)p[2] << 16;
        registers[i] = w & 63;
        registers[i + 1] = w >> 6 & 63;
        registers[i + 2] = w >> 12 & 63;
        registers[i + 3] = (uint8_t)(w >> 18);
    }
}

static bool sparse_registers(struct slice v, uint8_t registers[HYLL_REGISTERS])
{
    unsigned i = 0;
    struct run r;
    size_t at = HEADER;
    for (; run_read(v, at, &r); at += r.bytes) {
        if (r.n > HYLL_REGISTERS - i) return false;
        memset(registers + i, (int)r.value, r.n);
        i += r.n;
    }
    return i == HYLL_REGISTERS && at == v.n;
}

bool hyll_registers(struct slice v, uint8_t registers[HYLL_REGISTERS])
{
    if (!hyll_dense(v)) return sparse_registers(v, registers);
    dense_registers(v, registers);
    return true;
}

bool hyll_to_dense(struct buf *v)
{
    uint8_t registers[HYLL_REGISTERS];
    if (hyll_dense(buf_slice(v))) return true;
    if (!sparse_registers(buf_slice(v), registers)) return false;
    v->len = HEADER;
    memset(buf_room(v, DENSE_BYTES - HEADER), 0, DENSE_BYTES - HEADER);
    v->len = DENSE_BYTES;
    v->p[4] = DENSE;
    for (unsigned i = 0; i < HYLL_REGISTERS; i++)
        if (registers[i]) dense_set(v, i, registers[i]);
    return true;
}

/* The estimator of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (arXiv 1702.01284), algorithm 6, with its functions sigma and
 * tau. The order of the floating-point operations is that of Redis: the estimate is cached in the value, so the last bit matters. */
static double sigma(double x)
{
    if (x == 1.0) return INFINITY;
    double y = 1, z = x, before;
    do {
        x *= x;
        before = z;
        z += x * y;
        y += y;
    } while (before != z);
    return z;
}

static double tau(double x)
{
    if (x == 0.0 || x == 1.0) return 0.0;
    double y = 1.0, z = 1 - x, before;
    do {
        x = sqrt(x);
        before = z;
        y *= 0.5;
        z -= pow(1 - x, 2) * y;
    } while (before != z);
    return z / 3;
}

uint64_t hyll_estimate(const uint8_t registers[HYLL_REGISTERS])
{
    const double m = HYLL_REGISTERS, alpha = 0.721347520444481703680; /* 0.5 / ln 2 */
    unsigned have[64] = {0};
    for (unsigned i = 0; i < HYLL_REGISTERS; i++) have[registers[i] & 63]++;
    double z = m * tau((m - have[COUNT_BITS + 1]) / m);
    for (int i = COUNT_BITS; i >= 1; i--) z = (z + have[i]) * 0.5;
    z += m * sigma(have[0] / m);
    return (uint64_t)llroundl(alpha * m * m / z);
}

bool hyll_cached(struct slice v, uint64_t *count)
{
    *count = load_le((const unsigned char *)v.p + HYLL_CACHE_AT, HYLL_CACHE_BYTES);
    return !(*count >> 63);
}

void hyll_cache_bytes(uint64_t count, char bytes[HYLL_CACHE_BYTES])
{
    for (int i = 0; i < HYLL_CACHE_BYTES; i++) bytes[i] = (char)(count >> (8 * i));
}

void hyll_cache_clear(struct buf *v) { v->p[HYLL_CACHE_AT + HYLL_CACHE_BYTES - 1] |= (char)0x80; }

bool hyll_describe(struct slice v, struct buf *text)
{
    struct run r;
    size_t at = HEADER;
    for (; run_read(v, at, &r); at += r.bytes) {
        if (at > HEADER) buf_add_byte(text, ' ');
        if (r.value) buf_printf(text, "v:%u,%u", r.value, r.n);
        else buf_printf(text, "%c:%u", r.bytes == 2 ? 'Z' : 'z', r.n);
    }
    return at == v.n;
}
