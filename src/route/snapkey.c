#include "route/snapkey.h"

#include <endian.h>
#include <string.h>

#include "base/keyhash.h"
#include "base/num.h"
#include "cel/utf8.h"

/* --- hashing --- */

bool snapkey_canonical(const struct snapkey *k, char scratch[8], struct slice *out)
{
    if (k->kind == SNAPKEY_UINT) return false;
    if (k->kind != SNAPKEY_INT) {
        *out = k->s;
        return true;
    }
    uint64_t v = htole64((uint64_t)k->i);
    memcpy(scratch, &v, 8);
    *out = slice_of(scratch, 8);
    return true;
}

bool snapkey_hash(const struct snapkey *k, uint64_t *hash)
{
    char scratch[8];
    struct slice bytes;
    if (!snapkey_canonical(k, scratch, &bytes)) return false;
    *hash = keyhash(bytes, 0);
    return true;
}

/* --- encodings --- */

static const char *const names[SNAPKEY_ENCODINGS] = {"u64be", "u32be", "utf8", "raw"};

const char *snapkey_encoding_name(enum snapkey_encoding e) { return names[e]; }

bool snapkey_encoding_parse(struct slice name, enum snapkey_encoding *e)
{
    for (unsigned i = 0; i < SNAPKEY_ENCODINGS; i++) {
        if (!slice_eq(name, slice_str(names[i]))) continue;
        *e = (enum snapkey_encoding)i;
        return true;
    }
    return false;
}

static bool is_number(const struct snapkey *k) { return k->kind == SNAPKEY_INT || k->kind == SNAPKEY_UINT; }

static const char *encode_number(enum snapkey_encoding e, const struct snapkey *k, char scratch[8], struct slice *out)
{
    if (!is_number(k)) return "the key is not an integer";
    if (k->kind == SNAPKEY_INT && k->i < 0) return "the key is negative";
    uint64_t v = k->u;
    if (e == SNAPKEY_U64BE) {
        v = htobe64(v);
        memcpy(scratch, &v, 8);
        *out = slice_of(scratch, 8);
        return NULL;
    }
    if (v > UINT32_MAX) return "the key does not fit 32 bits";
    uint32_t v32 = htobe32((uint32_t)v);
    memcpy(scratch, &v32, 4);
    *out = slice_of(scratch, 4);
    return NULL;
}

const char *snapkey_encode(enum snapkey_encoding e, const struct snapkey *k, char scratch[8], struct slice *out)
{
    if (e == SNAPKEY_U64BE || e == SNAPKEY_U32BE) return encode_number(e, k, scratch, out);
    if (is_number(k)) return "the key is an integer, and the encoding is for text or bytes";
    *out = k->s;
    return NULL;
}

bool snapkey_decode(enum snapkey_encoding e, struct slice stored, struct snapkey *k)
{
    uint64_t v64;
    uint32_t v32;
    switch (e) {
    case SNAPKEY_U64BE:
        if (stored.n != 8) return false;
        memcpy(&v64, stored.p, 8);
        *k = snapkey_uint(be64toh(v64));
        return true;
    case SNAPKEY_U32BE:
        if (stored.n != 4) return false;
        memcpy(&v32, stored.p, 4);
        *k = snapkey_int(be32toh(v32));
        return true;
    case SNAPKEY_UTF8: *k = snapkey_text(stored); return utf8_valid(stored);
    default: *k = snapkey_bytes(stored); return true;
    }
}

const char *snapkey_parse(enum snapkey_encoding e, struct slice word, struct snapkey *k)
{
    uint64_t v;
    switch (e) {
    case SNAPKEY_U64BE:
    case SNAPKEY_U32BE:
        if (!num_parse_u64(word, &v)) return "the key is not a natural number below 2^64";
        if (e == SNAPKEY_U32BE && v > UINT32_MAX) return "the key does not fit 32 bits";
        *k = snapkey_uint(v);
        return NULL;
    case SNAPKEY_UTF8: *k = snapkey_text(word); return utf8_valid(word) ? NULL : "the key is not UTF-8";
    default: *k = snapkey_bytes(word); return NULL;
    }
}

/* --- text --- */

static void add_escaped(struct buf *out, uint32_t c)
{
    if (c == '"' || c == '\\') {
        buf_add_byte(out, '\\');
        buf_add_byte(out, (char)c);
    } else if (c >= 0x20 && c < 0x7f) {
        buf_add_byte(out, (char)c);
    } else if (c < 0x10000) {
        buf_printf(out, "\\u%04x", c);
    } else {
        c -= 0x10000;
        buf_printf(out, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
    }
}

bool snapkey_json(const struct snapkey *k, struct buf *out)
{
    char number[NUM_I64_MAX_CHARS];
    if (k->kind == SNAPKEY_INT) buf_add(out, number, num_format_i64(number, k->i));
    else if (k->kind == SNAPKEY_UINT) buf_add(out, number, num_format_u64(number, k->u));
    if (is_number(k)) return true;
    if (!utf8_valid(k->s)) return false;
    buf_add_byte(out, '"');
    for (size_t at = 0; at < k->s.n;) {
        uint32_t c;
        at += utf8_decode(slice_of(k->s.p + at, k->s.n - at), &c);
        add_escaped(out, c);
    }
    buf_add_byte(out, '"');
    return true;
}
