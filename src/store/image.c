/* Writing and building values; parts.c has the grammar that is read.
 *
 * Written are only the types that every Redis since 2.8 reads (0, 1, 2, 4, 5), lengths in their shortest form, and short decimal integers as integers,
 * as Redis itself does. The frame of DUMP behind it: u16 RDB version | u64 CRC-64 of all before, both little endian. */
#include "store/image.h"

#include "base/num.h"
#include "store/crc64.h"
#include "store/hash.h"
#include "store/list.h"
#include "store/parts.h"
#include "store/rdbpack.h"
#include "store/set.h"
#include "store/zset.h"

enum { TYPE_BYTE_STRING = 0, TYPE_BYTE_LIST = 1, TYPE_BYTE_SET = 2, TYPE_BYTE_HASH = 4, TYPE_BYTE_ZSET = 5 };

/* A server refuses versions above its own: 10 (Redis 7.0) is the newest whose plain types we need. Read is what 7.4 writes, too. */
enum { VERSION_WRITTEN = 10, VERSION_MAX = 12, FRAME_BYTES = 2 + 8 };

static void add_le(struct buf *out, uint64_t v, unsigned bytes)
{
    for (; bytes > 0; bytes--, v >>= 8) buf_add_byte(out, (char)v);
}

static void add_be(struct buf *out, uint64_t v, unsigned bytes)
{
    while (bytes > 0) buf_add_byte(out, (char)(v >> (8 * --bytes)));
}

static void add_length(struct buf *out, uint64_t n)
{
    if (n < 1 << 6) {
        buf_add_byte(out, (char)n);
    } else if (n < 1 << 14) {
        add_be(out, 1 << 14 | n, 2);
    } else if (n <= UINT32_MAX) {
        buf_add_byte(out, (char)0x80);
        add_be(out, n, 4);
    } else {
        buf_add_byte(out, (char)0x81);
        add_be(out, n, 8);
    }
}

/* "-2147483648" is the longest integer with a form of its own. */
static bool add_integer(struct buf *out, struct slice s)
{
    int64_t v;
    if (s.n == 0 || s.n > 11 || s.p[0] > '9' || !num_parse_i64(s, &v)) return false;
    unsigned form = v == (int8_t)v ? 0 : v == (int16_t)v ? 1 : 2;
    if (v != (int32_t)v) return false;
    buf_add_byte(out, (char)(0xc0 | form));
    add_le(out, (uint64_t)v, 1u << form);
    return true;
}

static void add_string(struct buf *out, struct slice s)
{
    if (add_integer(out, s)) return;
    add_length(out, s.n);
    buf_add_slice(out, s);
}

static void write_list(struct buf *out, const struct entry *e)
{
    struct list_iter it;
    struct slice item;
    buf_add_byte(out, TYPE_BYTE_LIST);
    add_length(out, list_len(e));
    list_iter_init(&it, e, 0, false);
    while (list_iter_next(&it, &item)) add_string(out, item);
}

static void write_set(struct buf *out, const struct entry *e)
{
    struct set_iter it;
    struct slice member;
    buf_add_byte(out, TYPE_BYTE_SET);
    add_length(out, set_len(e));
    set_iter_init(&it, e);
    while (set_iter_next(&it, &member)) add_string(out, member);
}

static void write_hash(struct buf *out, const struct entry *e)
{
    struct hash_iter it;
    struct slice field, value;
    buf_add_byte(out, TYPE_BYTE_HASH);
    add_length(out, hash_len(e));
    hash_iter_init(&it, e);
    while (hash_iter_next(&it, &field, &value)) {
        add_string(out, field);
        add_string(out, value);
    }
}

static void write_zset(struct buf *out, const struct entry *e)
{
    struct zset_iter it;
    struct slice member;
    double score;
    buf_add_byte(out, TYPE_BYTE_ZSET);
    add_length(out, zset_len(e));
    zset_iter_init(&it, e, 0, false);
    while (zset_iter_next(&it, &member, &score)) {
        uint64_t bits;
        memcpy(&bits, &score, sizeof bits);
        add_string(out, member);
        add_le(out, bits, 8);
    }
}

void image_write(struct buf *out, const struct entry *e)
{
    CHECK(entry_encoding(e) != ENC_COLD);
    switch (entry_type(e)) {
    case TYPE_STRING:
        buf_add_byte(out, TYPE_BYTE_STRING);
        add_string(out, entry_value(e));
        return;
    case TYPE_LIST: write_list(out, e); return;
    case TYPE_SET: write_set(out, e); return;
    case TYPE_HASH: write_hash(out, e); return;
    case TYPE_ZSET: write_zset(out, e); return;
    default: CHECK(!"a type that has an image");
    }
}

void image_write_plain(struct buf *out, struct slice value)
{
    buf_add_byte(out, TYPE_BYTE_STRING);
    add_length(out, value.n);
    buf_add_slice(out, value);
}

/* ---- building: each gives the entry, and false in *ok if a member or field came twice. */

static struct entry *build_string(const struct kit *k, const struct parts *p, struct slice key)
{
    struct entry *e = entry_new(k->arena, TYPE_STRING, ENC_BYTES, key, p->items[0].n, 0);
    memcpy(entry_value_ptr(e), p->items[0].p, p->items[0].n);
    return e;
}

static struct entry *build_list(const struct kit *k, const struct parts *p, struct slice key)
{
    enum { BATCH = 1 << 16 };
    struct entry *e = list_new(k, key);
    for (size_t i = 0; i < p->n; i += BATCH) {
        size_t n = p->n - i < BATCH ? p->n - i : BATCH;
        e = list_push(k, e, false, p->items + i, (uint32_t)n);
    }
    return e;
}

static struct entry *build_set(const struct kit *k, const struct parts *p, struct slice key, bool *ok)
{
    struct entry *e = set_new(k, key, p->items[0]);
    for (size_t i = 0; *ok && i < p->n; i++) e = set_add(k, e, p->items[i], ok);
    return e;
}

static struct entry *build_hash(const struct kit *k, const struct parts *p, struct slice key, bool *ok)
{
    struct entry *e = hash_new(k, key);
    for (size_t i = 0; *ok && i < p->n; i += 2) e = hash_put(k, e, p->items[i], p->items[i + 1], ok);
    return e;
}

static struct entry *build_zset(const struct kit *k, const struct parts *p, struct slice key, bool *ok)
{
    struct entry *e = zset_new(k, key);
    for (size_t i = 0; *ok && i < p->n; i++) e = zset_put(k, e, p->items[i], p->scores[i], ok);
    return e;
}

static struct entry *build(const struct kit *k, const struct parts *p, struct slice key, bool *ok)
{
    switch (p->type) {
    case TYPE_STRING: return build_string(k, p, key);
    case TYPE_LIST: return build_list(k, p, key);
    case TYPE_SET: return build_set(k, p, key, ok);
    case TYPE_HASH: return build_hash(k, p, key, ok);
    default: return build_zset(k, p, key, ok);
    }
}

static void unbuild(const struct kit *k, struct entry *e)
{
    switch (entry_type(e)) {
    case TYPE_LIST: list_drop(k, e); break;
    case TYPE_SET: set_drop(k, e); break;
    case TYPE_HASH: hash_drop(k, e); break;
    case TYPE_ZSET: zset_drop(k, e); break;
    default: break;
    }
    entry_release(k->arena, e);
}

struct entry *image_read(const struct kit *k, struct slice image, struct slice key, int64_t expiry_ms)
{
    struct parts p;
    struct entry *e = NULL;
    if (parts_read(&p, image)) {
        bool ok = true;
        e = build(k, &p, key, &ok);
        if (!ok) {
            unbuild(k, e);
            e = NULL;
        } else if (expiry_ms) {
            e = entry_set_expiry(k->arena, e, expiry_ms);
        }
    }
    parts_fini(&p);
    return e;
}

bool image_valid(struct slice image)
{
    struct parts p;
    bool valid = parts_read(&p, image) && parts_distinct(&p);
    parts_fini(&p);
    return valid;
}

/* The lengths that add_length gives a string: 1, 2 or 5 bytes. */
bool image_plain_string(struct slice image, struct slice *value)
{
    const uint8_t *p = (const uint8_t *)image.p;
    if (image.n < 2 || p[0] != TYPE_BYTE_STRING) return false;
    size_t head = p[1] < 0x40 ? 2 : p[1] < 0x80 ? 3 : 6;
    if (p[1] > 0x80 || image.n < head) return false;
    uint32_t n = head == 2 ? p[1] : head == 3 ? (p[1] & 0x3fu) << 8 | p[2] : (uint32_t)p[2] << 24 | (uint32_t)p[3] << 16 | (uint32_t)p[4] << 8 | p[5];
    *value = slice_of(image.p + head, image.n - head);
    return value->n == n;
}

void image_seal(struct buf *image)
{
    add_le(image, VERSION_WRITTEN, 2);
    add_le(image, crc64(0, buf_slice(image)), 8);
}

bool image_unseal(struct slice framed, struct slice *image)
{
    if (framed.n < FRAME_BYTES) return false;
    size_t n = framed.n - FRAME_BYTES;
    const uint8_t *frame = (const uint8_t *)framed.p + n;
    uint64_t sum = rdbpack_u64le(frame + 2, 8);
    if (rdbpack_u64le(frame, 2) > VERSION_MAX) return false;
    *image = slice_of(framed.p, n);
    return sum == crc64(0, slice_of(framed.p, n + 2));
}
