/* The bodies of the types that no image has, as far as one must know them to find their end:
 *
 *    6  module, before 4.0       without marks: its end cannot be found
 *    7  module                   length id, marked fields, 0
 *   15  stream                   n, (string, string) n times | 3 lengths | groups
 *   19  stream of 7.0            as 15, with 5 lengths more before the groups, and one more in each group
 *   21  stream of 7.2            as 19, with 8 bytes more in each consumer
 *   22  hash with field ttls     n, (length ttl, string, string) n times; 24 the same behind 8 bytes
 *   23  hash with field ttls     string holding a listpack; 25 the same behind 8 bytes
 *
 *   groups      n, (string, 2 lengths, pending, consumers) n times
 *   pending     n, (16 bytes, 8 bytes, length) n times
 *   consumers   n, (string, 8 bytes, m, 16 bytes m times) n times
 *
 *   marked fields of a module: 1 length | 2 length | 3 four bytes | 4 eight bytes | 5 string */
#include "store/rdbwire.h"

#include "base/num.h"
#include "store/lzf.h"
#include "store/rdbpack.h"

static bool take_big_endian(struct slice *in, unsigned bytes, uint64_t *n)
{
    const uint8_t *p = rdbwire_take(in, bytes);
    if (!p) return false;
    for (*n = 0; bytes > 0; bytes--) *n = *n << 8 | *p++;
    return true;
}

bool rdbwire_length_or(struct slice *in, uint64_t *n, bool *special)
{
    const uint8_t *p = rdbwire_take(in, 1);
    if (!p) return false;
    uint8_t head = *p;
    *special = head >> 6 == 3;
    *n = head & 63;
    switch (head >> 6) {
    case 1:
        if (!(p = rdbwire_take(in, 1))) return false;
        *n = *n << 8 | *p;
        return true;
    case 2:
        if (head == 0x80) return take_big_endian(in, 4, n);
        return head == 0x81 && take_big_endian(in, 8, n);
    default: return true;
    }
}

bool rdbwire_length(struct slice *in, uint64_t *n)
{
    bool special;
    return rdbwire_length_or(in, n, &special) && !special;
}

/* ---- strings */

static bool unpack(struct slice *in, struct buf *scratch, struct slice *s)
{
    uint64_t packed_n, n;
    if (!rdbwire_length(in, &packed_n) || !rdbwire_length(in, &n)) return false;
    const uint8_t *packed = rdbwire_take(in, packed_n);
    if (!packed || n == 0 || n > RDBWIRE_STRING_MAX || n / LZF_EXPANSION_MAX > packed_n) return false;
    scratch->len = 0;
    *s = slice_of(buf_room(scratch, n), n);
    return lzf_unpack(slice_of(packed, packed_n), scratch->p, n);
}

bool rdbwire_string(struct slice *in, struct buf *scratch, struct slice *s)
{
    uint64_t n;
    bool special;
    if (!rdbwire_length_or(in, &n, &special)) return false;
    if (special && n == 3) return unpack(in, scratch, s);
    if (special) {
        const uint8_t *value = n < 3 ? rdbwire_take(in, 1u << n) : NULL;
        if (!value) return false;
        scratch->len = 0;
        size_t digits = num_format_i64(buf_room(scratch, NUM_I64_MAX_CHARS), rdbpack_i64le(value, 1u << n));
        *s = slice_of(scratch->p, digits);
        return true;
    }
    const uint8_t *bytes = n <= RDBWIRE_STRING_MAX ? rdbwire_take(in, n) : NULL;
    *s = slice_of(bytes, n);
    return bytes;
}

bool rdbwire_skip_string(struct slice *in)
{
    uint64_t n, unpacked;
    bool special;
    if (!rdbwire_length_or(in, &n, &special)) return false;
    if (!special) return rdbwire_take(in, n);
    if (n < 3) return rdbwire_take(in, 1u << n);
    return n == 3 && rdbwire_length(in, &n) && rdbwire_length(in, &unpacked) && rdbwire_take(in, n);
}

/* ---- values */

static bool skip_lengths(struct slice *in, unsigned n)
{
    uint64_t ignored;
    for (; n > 0; n--)
        if (!rdbwire_length(in, &ignored)) return false;
    return true;
}

/* A length, then that many times `strings` strings. */
static bool skip_strings(struct slice *in, unsigned strings)
{
    uint64_t n;
    if (!rdbwire_length(in, &n)) return false;
    for (; n > 0; n--)
        for (unsigned i = 0; i < strings; i++)
            if (!rdbwire_skip_string(in)) return false;
    return true;
}

static bool skip_score_text(struct slice *in)
{
    const uint8_t *n = rdbwire_take(in, 1);
    return n && (*n >= 253 || rdbwire_take(in, *n));
}

static bool skip_scored(struct slice *in, bool text)
{
    uint64_t n;
    if (!rdbwire_length(in, &n)) return false;
    for (; n > 0; n--)
        if (!rdbwire_skip_string(in) || !(text ? skip_score_text(in) : rdbwire_take(in, 8) != NULL)) return false;
    return true;
}

/* A length, then that many times a length and `strings` strings: nodes of a list, fields that expire. */
static bool skip_marked_strings(struct slice *in, unsigned strings)
{
    uint64_t n;
    if (!rdbwire_length(in, &n)) return false;
    for (; n > 0; n--) {
        if (!skip_lengths(in, 1)) return false;
        for (unsigned i = 0; i < strings; i++)
            if (!rdbwire_skip_string(in)) return false;
    }
    return true;
}

static bool skip_pending(struct slice *in)
{
    uint64_t n;
    if (!rdbwire_length(in, &n)) return false;
    for (; n > 0; n--)
        if (!rdbwire_take(in, 16 + 8) || !skip_lengths(in, 1)) return false;
    return true;
}

static bool skip_consumers(struct slice *in, unsigned times)
{
    uint64_t n, pending;
    if (!rdbwire_length(in, &n)) return false;
    for (; n > 0; n--) {
        if (!rdbwire_skip_string(in) || !rdbwire_take(in, (size_t)8 * times) || !rdbwire_length(in, &pending)) return false;
        if (pending > in->n / 16 || !rdbwire_take(in, pending * 16)) return false;
    }
    return true;
}

static bool skip_stream(struct slice *in, uint8_t type)
{
    bool newer = type != 15;
    uint64_t groups;
    if (!skip_strings(in, 2) || !skip_lengths(in, newer ? 8 : 3) || !rdbwire_length(in, &groups)) return false;
    for (; groups > 0; groups--)
        if (!rdbwire_skip_string(in) || !skip_lengths(in, newer ? 3 : 2) || !skip_pending(in) || !skip_consumers(in, type == 21 ? 2 : 1)) return false;
    return true;
}

bool rdbwire_skip_module(struct slice *in)
{
    for (uint64_t mark; rdbwire_length(in, &mark);) {
        bool there = false;
        switch (mark) {
        case 0: return true;
        case 1: case 2: there = skip_lengths(in, 1); break;
        case 3: there = rdbwire_take(in, 4); break;
        case 4: there = rdbwire_take(in, 8); break;
        case 5: there = rdbwire_skip_string(in); break;
        }
        if (!there) return false;
    }
    return false;
}

enum rdbwire_kind rdbwire_kind_of(uint8_t type)
{
    switch (type) {
    case 0: case 1: case 2: case 3: case 4: case 5:
    case 9: case 10: case 11: case 12: case 13: case 14:
    case 16: case 17: case 18: case 20: return RDBWIRE_VALUE;
    case 15: case 19: case 21: return RDBWIRE_STREAM;
    case 6: case 7: return RDBWIRE_MODULE;
    case 22: case 23: case 24: case 25: return RDBWIRE_FIELD_TTLS;
    default: return RDBWIRE_UNKNOWN;
    }
}

bool rdbwire_skip_value(uint8_t type, struct slice *in)
{
    switch (type) {
    case 0: case 9: case 10: case 11: case 12: case 13: case 16: case 17: case 20: case 23: return rdbwire_skip_string(in);
    case 1: case 2: case 14: return skip_strings(in, 1);
    case 3: return skip_scored(in, true);
    case 4: return skip_strings(in, 2);
    case 5: return skip_scored(in, false);
    case 7: return skip_lengths(in, 1) && rdbwire_skip_module(in);
    case 15: case 19: case 21: return skip_stream(in, type);
    case 18: return skip_marked_strings(in, 1);
    case 22: return skip_marked_strings(in, 2);
    case 24: return rdbwire_take(in, 8) && skip_marked_strings(in, 2);
    case 25: return rdbwire_take(in, 8) && rdbwire_skip_string(in);
    default: return false;
    }
}
