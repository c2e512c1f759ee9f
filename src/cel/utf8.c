#include "cel/utf8.h"

static bool continues(struct slice s, size_t i) { return i < s.n && !utf8_starts(s.p[i]); }

static uint32_t bits(struct slice s, size_t i) { return (unsigned char)s.p[i] & 0x3f; }

size_t utf8_decode(struct slice s, uint32_t *c)
{
    if (s.n == 0) return 0;
    uint32_t b = (unsigned char)s.p[0];
    if (b < 0x80) {
        *c = b;
        return 1;
    }
    if (b >= 0xc2 && b < 0xe0 && continues(s, 1)) {
        *c = (b & 0x1f) << 6 | bits(s, 1);
        return 2;
    }
    if (b >= 0xe0 && b < 0xf0 && continues(s, 1) && continues(s, 2)) {
        *c = (b & 0x0f) << 12 | bits(s, 1) << 6 | bits(s, 2);
        return *c >= 0x800 && (*c < 0xd800 || *c > 0xdfff) ? 3 : 0;
    }
    if (b >= 0xf0 && b < 0xf5 && continues(s, 1) && continues(s, 2) && continues(s, 3)) {
        *c = (b & 0x07) << 18 | bits(s, 1) << 12 | bits(s, 2) << 6 | bits(s, 3);
        return *c >= 0x10000 && *c <= 0x10ffff ? 4 : 0;
    }
    return 0;
}

size_t utf8_encode(char out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

bool utf8_valid(struct slice s)
{
    while (s.n) {
        uint32_t c;
        size_t n = utf8_decode(s, &c);
        if (n == 0) return false;
        s = slice_of(s.p + n, s.n - n);
    }
    return true;
}

size_t utf8_count(struct slice s)
{
    size_t count = 0;
    for (size_t i = 0; i < s.n; i++) count += utf8_starts(s.p[i]);
    return count;
}
