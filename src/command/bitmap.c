#include "command/bitmap.h"

static uint64_t word(const char *p)
{
    uint64_t w;
    memcpy(&w, p, 8);
    return w;
}

static uint64_t count_bytes(const char *p, size_t n)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;
    /* Four sums, so that the counts do not wait for each other. */
    for (; n >= 32; p += 32, n -= 32) {
        a += (unsigned)__builtin_popcountll(word(p));
        b += (unsigned)__builtin_popcountll(word(p + 8));
        c += (unsigned)__builtin_popcountll(word(p + 16));
        d += (unsigned)__builtin_popcountll(word(p + 24));
    }
    for (; n > 0; p++, n--) a += (unsigned)__builtin_popcount((unsigned char)*p);
    return a + b + c + d;
}

uint64_t bitmap_count(struct slice s, uint64_t from, uint64_t to)
{
    uint64_t n = 0;
    for (; from < to && from % 8; from++) n += bitmap_get(s, from);
    for (; from < to && to % 8; to--) n += bitmap_get(s, to - 1);
    return n + count_bytes(s.p + from / 8, (to - from) / 8);
}

int64_t bitmap_find(struct slice s, bool value, uint64_t from, uint64_t to)
{
    const uint64_t none = value ? 0 : UINT64_MAX; /* a word in which there is nothing to find */
    while (from < to) {
        if (from % 8 == 0) {
            uint64_t i = from / 8;
            while (to / 8 - i >= 8 && word(s.p + i) == none) i += 8;
            while (i < to / 8 && (unsigned char)s.p[i] == (none & 0xff)) i++;
            from = i * 8;
            if (from >= to) break;
        }
        if (bitmap_get(s, from) == value) return (int64_t)from;
        from++;
    }
    return -1;
}

/* The bytes that a number lies in, as one number: at most 71 bits. *below: how many bits of it are behind the number. */
static unsigned __int128 window_of(struct slice s, uint64_t bit, unsigned bits, unsigned *bytes, unsigned *below)
{
    unsigned __int128 w = 0;
    *bytes = ((unsigned)(bit % 8) + bits + 7) / 8;
    *below = *bytes * 8 - (unsigned)(bit % 8) - bits;
    for (unsigned i = 0; i < *bytes; i++) w = w << 8 | bitmap_byte(s, bit / 8 + i);
    return w;
}

static uint64_t ones(unsigned bits) { return UINT64_MAX >> (64 - bits); }

uint64_t bitmap_read(struct slice s, uint64_t bit, unsigned bits)
{
    unsigned bytes, below;
    unsigned __int128 w = window_of(s, bit, bits, &bytes, &below);
    return (uint64_t)(w >> below) & ones(bits);
}

unsigned bitmap_write(struct slice s, uint64_t bit, unsigned bits, uint64_t value, char window[BITMAP_WINDOW])
{
    unsigned bytes, below;
    unsigned __int128 w = window_of(s, bit, bits, &bytes, &below);
    w &= ~((unsigned __int128)ones(bits) << below);
    w |= (unsigned __int128)(value & ones(bits)) << below;
    for (unsigned i = bytes; i-- > 0; w >>= 8) window[i] = (char)w;
    return bytes;
}

void bitmap_combine(enum bitmap_op op, char *restrict into, const char *restrict from, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t a = word(into + i), b = word(from + i);
        a = op == BITMAP_AND ? a & b : op == BITMAP_OR ? a | b : a ^ b;
        memcpy(into + i, &a, 8);
    }
    for (; i < n; i++) into[i] = (char)(op == BITMAP_AND ? into[i] & from[i] : op == BITMAP_OR ? into[i] | from[i] : into[i] ^ from[i]);
}

void bitmap_invert(char *bytes, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t a = ~word(bytes + i);
        memcpy(bytes + i, &a, 8);
    }
    for (; i < n; i++) bytes[i] = (char)~bytes[i];
}
