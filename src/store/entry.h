/* An entry: one allocation that holds a key and its value (or a field of a hash, a member of a set or sorted set).
 *
 * Bytes:
 *   0      kind      upper half: enum type, lower half: enum encoding
 *   1      flags     ENTRY_* below
 *   2..4   access    24 bits, little endian: LRU seconds or LFU counter (store/evict.h)
 *   5..    key length    1 byte, or 4 bytes little endian with ENTRY_LONG_KEY
 *          value length  1, 2 or 4 bytes by ENTRY_WIDTH_*; 4 bytes are followed by 4 bytes of capacity
 *          expiry        8 bytes, unix ms, with ENTRY_EXPIRES
 *          key, value
 *
 * A string, a pack (store/pack.h) and a set of ints keep their bytes in the value itself; every other encoding keeps the 8-byte address of its
 * body there. The value of a small entry is exactly as long as it must be; one with a capacity (from ENTRY_WIDE_MIN
 * bytes on) has room behind it, so APPEND does not copy each time.
 * Nothing in an entry is aligned: use the accessors.
 *
 * Entries live in an arena, are reached through exactly one slot of the keyspace table (and, if they expire, one of the expiry table; if their key space is ordered, its index),
 * and move when they are resized: never keep an entry pointer over a change. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/slice.h"

struct arena;

enum type { TYPE_STRING, TYPE_LIST, TYPE_SET, TYPE_ZSET, TYPE_HASH, TYPE_STREAM, TYPE_COUNT };

enum encoding {
    ENC_BYTES, /* string: the bytes themselves */
    ENC_PACK,  /* list, set, hash, zset: a pack in the value */
    ENC_INTS,  /* set: sorted integers in the value (store/intset.h) */
    ENC_NODES, /* list: chain of packs (store/list.h) */
    ENC_TABLE, /* set, hash: a table of entries (store/members.h) */
    ENC_TREE,  /* zset: table of members and tree by score (store/zset.h) */
    ENC_COLD,  /* any: the value is on disk, here is where (store/chill.h) */
};

enum {
    ENTRY_EXPIRES = 1,
    ENTRY_LONG_KEY = 2,
    ENTRY_WIDTH_SHIFT = 2, /* bits 2-3: 0 = 1 byte, 1 = 2 bytes, 2 = 4 bytes + 4 bytes capacity */
    ENTRY_WIDTH_MASK = 3 << 2,
    ENTRY_AFTER_CUT = 1 << 4, /* changed since the cut that is being walked, and ahead of the walk (store/cut.h) */
    ENTRY_ORDERED = 1 << 5,   /* it is in the index of its key space (store/spaceindex.h) */
    ENTRY_IN_LINE = 1 << 6,   /* with ENTRY_ORDERED: not in that, but in the one for all keys whose space has none */
    ENTRY_WIDE_MIN = 4096 - 64,
};

struct entry {
    uint8_t kind;
    uint8_t flags;
    uint8_t access[3];
    uint8_t rest[];
};

extern const uint8_t entry_header_bytes[16]; /* by flags & 15: offset of the key */

static inline enum type entry_type(const struct entry *e) { return (enum type)(e->kind >> 4); }
static inline enum encoding entry_encoding(const struct entry *e) { return (enum encoding)(e->kind & 15); }
static inline void entry_set_kind(struct entry *e, enum type t, enum encoding c) { e->kind = (uint8_t)(t << 4 | c); }

static inline uint32_t entry_key_len(const struct entry *e)
{
    if (!(e->flags & ENTRY_LONG_KEY)) return e->rest[0];
    uint32_t n;
    memcpy(&n, e->rest, 4);
    return n;
}

static inline struct slice entry_key(const struct entry *e)
{
    return slice_of((const char *)e + entry_header_bytes[e->flags & 15], entry_key_len(e));
}

static inline uint32_t entry_value_len(const struct entry *e)
{
    const uint8_t *p = e->rest + (e->flags & ENTRY_LONG_KEY ? 4 : 1);
    uint16_t v16;
    uint32_t v32;
    switch (e->flags >> ENTRY_WIDTH_SHIFT & 3) {
    case 0: return *p;
    case 1: memcpy(&v16, p, 2); return v16;
    default: memcpy(&v32, p, 4); return v32;
    }
}

static inline char *entry_value_ptr(struct entry *e)
{
    return (char *)e + entry_header_bytes[e->flags & 15] + entry_key_len(e);
}

static inline struct slice entry_value(const struct entry *e)
{
    return slice_of((const char *)e + entry_header_bytes[e->flags & 15] + entry_key_len(e), entry_value_len(e));
}

/* The body address of an encoding that keeps one. */
static inline void *entry_body(const struct entry *e)
{
    void *p;
    memcpy(&p, entry_value(e).p, sizeof p);
    return p;
}

static inline void entry_set_body(struct entry *e, void *body) { memcpy(entry_value_ptr(e), &body, sizeof body); }

int64_t entry_expiry_ms(const struct entry *e); /* 0: does not expire */

static inline uint32_t entry_access(const struct entry *e)
{
    return e->access[0] | (uint32_t)e->access[1] << 8 | (uint32_t)e->access[2] << 16;
}

static inline void entry_set_access(struct entry *e, uint32_t v)
{
    e->access[0] = (uint8_t)v;
    e->access[1] = (uint8_t)(v >> 8);
    e->access[2] = (uint8_t)(v >> 16);
}

/* Gives an entry with an uninitialised value of value_len bytes. expiry_ms 0: none. */
struct entry *entry_new(struct arena *a, enum type t, enum encoding c, struct slice key, size_t value_len, int64_t expiry_ms);
void entry_release(struct arena *a, struct entry *e); /* the entry's own block; not the body it may point to */
size_t entry_bytes(const struct entry *e);            /* what its block was asked with */

/* True if entry_resize_value to that length would leave the entry where it is. */
bool entry_fits_value(const struct entry *e, size_t value_len);
/* Changes the value's length, keeping the common prefix. Gives the entry's (perhaps new) address. */
struct entry *entry_resize_value(struct arena *a, struct entry *e, size_t value_len);
/* Cuts `cut` bytes at offset `at` of the value and opens a gap of `gap` bytes there: the primitive for editing packs in place. */
struct entry *entry_splice_value(struct arena *a, struct entry *e, size_t at, size_t cut, size_t gap);
struct entry *entry_set_expiry(struct arena *a, struct entry *e, int64_t expiry_ms);
/* A copy of everything but the key: for a value that stays in this arena under another name. The body address is copied as it is. */
struct entry *entry_rekey(struct arena *a, const struct entry *e, struct slice key);
