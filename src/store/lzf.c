/* Bytes: a control byte c, then
 *   c < 32    c + 1 literal bytes;
 *   c >= 32   a reference: length c >> 5, plus the next byte if that is 7; distance (c & 31) << 8 | next byte;
 *             length + 2 bytes are repeated from distance + 1 bytes back. The two may overlap: a distance of 0 repeats one byte. */
#include "store/lzf.h"

#include <stdint.h>

bool lzf_unpack(struct slice packed, char *out, size_t out_n)
{
    const uint8_t *in = (const uint8_t *)packed.p, *end = in + packed.n;
    size_t at = 0;
    while (in < end) {
        size_t c = *in++;
        if (c < 32) {
            size_t n = c + 1;
            if ((size_t)(end - in) < n || out_n - at < n) return false;
            memcpy(out + at, in, n);
            in += n;
            at += n;
            continue;
        }
        size_t n = c >> 5;
        if (n == 7) {
            if (in == end) return false;
            n += *in++;
        }
        n += 2;
        if (in == end) return false;
        size_t distance = ((c & 31) << 8 | *in++) + 1;
        if (distance > at || out_n - at < n) return false;
        for (const char *from = out + at - distance; n > 0; n--) out[at++] = *from++;
    }
    return at == out_n;
}
