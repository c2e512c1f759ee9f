/* The page format of SQLite databases, as far as a shard file needs it: one WITHOUT ROWID table, an index b-tree of records (k, v). Constants and small functions
 * that the writer, the reader and the sidecar share. Pure.
 *
 * A database is pages of one size, numbered from 1. Page 1 begins with the 100 bytes of the database header, and its b-tree (the schema) stands behind them. All numbers are big endian.
 *
 *   b-tree page   type u8 (2 interior index, 10 leaf index, 13 leaf table, 5 interior table), first free block u16, cells u16, start of the cells' content u16
 *                 (0: 65536), fragmented bytes u8, interior only: rightmost child u32; then one u16 offset per cell, in order of keys; free space; the cells
 *   cell          interior only: left child u32; varint bytes of the payload; the payload's first bytes; u32 first overflow page, if not all of it is here
 *   overflow page next page u32 (0: last), then as much of the payload as fits
 *   payload       record: varint header length, serial types of k and v (12 + 2n: blob of n bytes, 13 + 2n: text), then their bytes */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PAGEFILE_HEADER_BYTES = 100,
    PAGEFILE_SIZE_MIN = 512,
    PAGEFILE_SIZE_MAX = 65536,
    PAGEFILE_INTERIOR = 2,
    PAGEFILE_LEAF = 10,
    PAGEFILE_SCHEMA_INTERIOR = 5,
    PAGEFILE_SCHEMA_LEAF = 13,
    PAGEFILE_LEAF_HEAD = 8,
    PAGEFILE_INTERIOR_HEAD = 12,
    PAGEFILE_VARINT_MAX = 9,
    PAGEFILE_ROOT = 2, /* of the table kv, as the format's writers have it */
};

static inline uint32_t pagefile_u16(const void *at)
{
    const uint8_t *p = at;
    return (uint32_t)p[0] << 8 | p[1];
}

static inline uint32_t pagefile_u32(const void *at)
{
    const uint8_t *p = at;
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void pagefile_put_u16(void *at, uint32_t v)
{
    uint8_t *p = at;
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static inline void pagefile_put_u32(void *at, uint32_t v)
{
    uint8_t *p = at;
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

/* Bytes of a payload that stay in its cell on a b-tree page of an index; all of them if there is no overflow. */
static inline size_t pagefile_local(uint32_t page_size, uint64_t payload)
{
    uint64_t most = (uint64_t)(page_size - 12) * 64 / 255 - 23, least = (uint64_t)(page_size - 12) * 32 / 255 - 23;
    if (payload <= most) return (size_t)payload;
    uint64_t n = least + (payload - least) % (page_size - 4);
    return (size_t)(n <= most ? n : least);
}

/* SQLite's varint: big endian, seven bits a byte, at most nine bytes, the ninth with eight bits. */
size_t pagefile_put_varint(uint8_t out[PAGEFILE_VARINT_MAX], uint64_t v);
/* Gives its bytes, 0 if it does not end within n. */
size_t pagefile_get_varint(const uint8_t *p, size_t n, uint64_t *v);

/* The smallest page size from 4096 on in which a row with a value of that size and the longest key stays whole in its cell; else 65536. */
uint32_t pagefile_auto_size(uint64_t value_bytes, uint64_t key_bytes_max);
static inline bool pagefile_is_size(uint64_t v) { return v >= 4096 && v <= PAGEFILE_SIZE_MAX && (v & (v - 1)) == 0; }
