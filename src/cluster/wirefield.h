/* The fields of bodies: little endian numbers and counted bytes, read with one check at the end. Private to the wire files. */
#pragma once
#include <errno.h>

#include "base/le.h"

/* Bytes that are still to be read. Whatever goes wrong makes it bad, for good; what is read then is zero. */
struct wirefield {
    struct slice rest;
    bool bad;
};

static inline struct slice wirefield_bytes(struct wirefield *r, uint64_t n)
{
    if (r->bad || n > r->rest.n) {
        r->bad = true;
        return slice_of("", 0);
    }
    struct slice s = slice_of(r->rest.p, (size_t)n);
    r->rest = slice_of(r->rest.p + n, r->rest.n - (size_t)n);
    return s;
}

static inline uint8_t wirefield_u8(struct wirefield *r)
{
    struct slice s = wirefield_bytes(r, 1);
    return s.n ? (uint8_t)s.p[0] : 0;
}

static inline uint16_t wirefield_u16(struct wirefield *r)
{
    struct slice s = wirefield_bytes(r, 2);
    return s.n ? (uint16_t)((uint8_t)s.p[0] | (uint8_t)s.p[1] << 8) : 0;
}

static inline uint32_t wirefield_u32(struct wirefield *r)
{
    struct slice s = wirefield_bytes(r, 4);
    return s.n ? le_u32(s.p) : 0;
}

static inline uint64_t wirefield_u64(struct wirefield *r)
{
    struct slice s = wirefield_bytes(r, 8);
    return s.n ? le_u64(s.p) : 0;
}

/* A byte below `values`. */
static inline uint8_t wirefield_choice(struct wirefield *r, uint8_t values)
{
    uint8_t v = wirefield_u8(r);
    if (v >= values) r->bad = true;
    return r->bad ? 0 : v;
}

static inline bool wirefield_bool(struct wirefield *r) { return wirefield_choice(r, 2); }

static inline void wirefield_expect(struct wirefield *r, bool holds)
{
    if (!holds) r->bad = true;
}

/* 0 if everything was read and nothing was wrong. */
static inline int wirefield_end(const struct wirefield *r) { return r->bad || r->rest.n ? -EBADMSG : 0; }

static inline void wirefield_add_u8(struct buf *out, uint8_t v) { buf_add_byte(out, (char)v); }

static inline void wirefield_add_u16(struct buf *out, uint16_t v)
{
    v = htole16(v);
    buf_add(out, &v, 2);
}
