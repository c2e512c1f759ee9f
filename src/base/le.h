/* Numbers of file formats: little endian, at any address. */
#pragma once
#include <endian.h>
#include <stdint.h>

#include "base/buf.h"

static inline void le_set_u32(char *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, 4);
}

static inline void le_set_u64(char *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, 8);
}

static inline uint32_t le_u32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return le32toh(v);
}

static inline uint64_t le_u64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return le64toh(v);
}

static inline void le_add_u32(struct buf *out, uint32_t v)
{
    v = htole32(v);
    buf_add(out, &v, 4);
}

static inline void le_add_u64(struct buf *out, uint64_t v)
{
    v = htole64(v);
    buf_add(out, &v, 8);
}
