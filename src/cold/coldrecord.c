/* A record, little endian:
 *
 *   0   u32  CRC-32C of all that follows
 *   4   u32  length of the key
 *   8   u32  length of the value
 *   12  u32  length of the value as it is stored; equal: raw, shorter: LZ4 (base/compress.h)
 *   16       key, stored value
 *
 * A record is valid if its length is 16 + key + stored value, the checksum is right, and the stored value gives exactly the length that it should. */
#include "cold/coldrecord.h"

#include <errno.h>

#include "base/check.h"
#include "base/crc32c.h"

enum { HEAD_BYTES = 16 };

static void put_u32(char *p, size_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (char)(v >> 8 * i);
}

static uint32_t get_u32(const char *p)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) v |= (uint32_t)(uint8_t)p[i] << 8 * i;
    return v;
}

void coldrecord_add(struct buf *out, struct compress *c, struct slice key, struct slice value)
{
    CHECK(key.n <= UINT32_MAX && value.n <= UINT32_MAX);
    size_t at = out->len;
    buf_room(out, HEAD_BYTES + key.n);
    out->len += HEAD_BYTES;
    buf_add_slice(out, key);
    size_t value_at = out->len;
    if (!compress_pack(c, out, value)) buf_add_slice(out, value);
    char *head = out->p + at;
    put_u32(head + 4, key.n);
    put_u32(head + 8, value.n);
    put_u32(head + 12, out->len - value_at);
    put_u32(head, crc32c(CRC32C_START, head + 4, out->len - at - 4));
}

int coldrecord_read(struct slice record, struct slice *key, struct buf *value)
{
    if (record.n < HEAD_BYTES) return -EBADMSG;
    size_t key_len = get_u32(record.p + 4), raw = get_u32(record.p + 8), stored = get_u32(record.p + 12);
    if (record.n != HEAD_BYTES + key_len + stored || stored > raw) return -EBADMSG;
    if (get_u32(record.p) != crc32c(CRC32C_START, record.p + 4, record.n - 4)) return -EBADMSG;
    *key = slice_of(record.p + HEAD_BYTES, key_len);
    struct slice bytes = slice_of(record.p + HEAD_BYTES + key_len, stored);
    if (stored == raw) {
        buf_add_slice(value, bytes);
        return 0;
    }
    if (!compress_unpack(bytes, buf_room(value, raw), raw)) return -EBADMSG;
    value->len += raw;
    return 0;
}
