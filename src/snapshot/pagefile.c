#include "snapshot/pagefile.h"

size_t pagefile_put_varint(uint8_t out[PAGEFILE_VARINT_MAX], uint64_t v)
{
    if (v >> 56) {
        out[8] = (uint8_t)v;
        v >>= 8;
        for (int i = 7; i >= 0; i--, v >>= 7) out[i] = (uint8_t)(v & 0x7f) | 0x80;
        return 9;
    }
    size_t n = 1;
    for (uint64_t rest = v >> 7; rest; rest >>= 7) n++;
    for (size_t i = n; i-- > 0; v >>= 7) out[i] = (uint8_t)((v & 0x7f) | (i + 1 < n ? 0x80 : 0));
    return n;
}

size_t pagefile_get_varint(const uint8_t *p, size_t n, uint64_t *v)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n && i < 8; i++) {
        sum = sum << 7 | (p[i] & 0x7f);
        if (p[i] & 0x80) continue;
        *v = sum;
        return i + 1;
    }
    if (n < 9) return 0;
    *v = sum << 8 | p[8];
    return 9;
}

uint32_t pagefile_auto_size(uint64_t value_bytes, uint64_t key_bytes_max)
{
    for (uint32_t size = 4096; size < PAGEFILE_SIZE_MAX; size *= 2)
        if ((uint64_t)(size - 12) * 64 / 255 - 23 >= value_bytes + key_bytes_max + 12) return size;
    return PAGEFILE_SIZE_MAX;
}
