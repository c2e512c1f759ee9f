/* One b-tree page and its cells, taken apart (the bytes: snapshot/pagefile.h). Whatever a page holds, nothing outside it is touched. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "snapshot/pagefile.h"

struct treepage {
    const uint8_t *p;      /* the page */
    const uint8_t *slots;  /* the cells' offsets */
    uint32_t size, cells;
    uint32_t content;      /* cells lie from here on: behind their offsets */
    uint32_t whole_max;    /* payloads up to here have no overflow */
    bool leaf, table;      /* table: of a rowid table */
    uint32_t right;        /* interior: the last child */
};

struct treecell {
    uint32_t left;         /* interior: the child before it */
    uint64_t payload;      /* bytes of the record; 0 in an interior cell of a rowid table */
    const uint8_t *local;  /* the first local_n of them */
    uint32_t local_n;
    uint32_t overflow;     /* the page where the others begin; 0: none */
};

/* Of page `number`: the first has the file's header before it. False: not a b-tree page. */
static inline bool treepage_parse(struct treepage *t, const uint8_t *page, uint32_t size, uint32_t number)
{
    uint32_t at = number == 1 ? PAGEFILE_HEADER_BYTES : 0;
    uint8_t type = page[at];
    if (unlikely(type != PAGEFILE_LEAF && type != PAGEFILE_INTERIOR && type != PAGEFILE_SCHEMA_LEAF && type != PAGEFILE_SCHEMA_INTERIOR)) return false;
    t->leaf = type & 8;
    t->table = type & 1;
    uint32_t head = t->leaf ? PAGEFILE_LEAF_HEAD : PAGEFILE_INTERIOR_HEAD;
    t->p = page;
    t->size = size;
    t->slots = page + at + head;
    t->cells = pagefile_u16(page + at + 3);
    t->content = at + head + 2 * t->cells;
    t->whole_max = t->table ? size - 35 : (size - 12) * 64 / 255 - 23;
    t->right = t->leaf ? 0 : pagefile_u32(page + at + 8);
    return t->content <= size;
}

/* How many bytes of a longer payload are in the cell. */
static inline uint32_t treepage_local(const struct treepage *t, uint64_t payload)
{
    uint32_t least = (t->size - 12) * 32 / 255 - 23;
    uint64_t n = least + (payload - least) % (t->size - 4);
    return n <= t->whole_max ? (uint32_t)n : least;
}

/* False: the cell does not lie in the page. */
static inline bool treepage_cell(const struct treepage *t, uint32_t i, struct treecell *c)
{
    uint32_t at = pagefile_u16(t->slots + 2 * i);
    uint64_t rowid;
    size_t n;
    *c = (struct treecell){0};
    if (unlikely(at < t->content || at >= t->size)) return false;
    if (!t->leaf) {
        if (unlikely(t->size - at < 5)) return false;
        c->left = pagefile_u32(t->p + at);
        at += 4;
        if (t->table) return true;
    }
    if (unlikely(!(n = pagefile_get_varint(t->p + at, t->size - at, &c->payload)))) return false;
    at += (uint32_t)n;
    if (t->table) {
        if (!(n = pagefile_get_varint(t->p + at, t->size - at, &rowid))) return false;
        at += (uint32_t)n;
    }
    c->local = t->p + at;
    if (likely(c->payload <= t->whole_max)) {
        c->local_n = (uint32_t)c->payload;
        return c->local_n <= t->size - at;
    }
    c->local_n = treepage_local(t, c->payload);
    if (t->size - at < c->local_n + 4) return false;
    c->overflow = pagefile_u32(c->local + c->local_n);
    return true;
}

/* Child i of an interior page, 0..cells; 0, which is no page, if the cell does not lie in the page. */
static inline uint32_t treepage_child(const struct treepage *t, uint32_t i)
{
    if (i >= t->cells) return t->right;
    uint32_t at = pagefile_u16(t->slots + 2 * i);
    return at < t->content || at + 4 > t->size ? 0 : pagefile_u32(t->p + at);
}

/* The record of a row (k, v). */
struct treerow {
    bool key_is_blob;
    uint32_t head;             /* the key begins here in the payload, */
    uint64_t key_n, value_n;   /* the value behind it */
};

/* Bytes of a column by its serial type; UINT64_MAX: no such type. */
static inline uint64_t treepage_type_bytes(uint64_t type)
{
    static const uint8_t fixed[12] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 255, 255};
    if (type >= 12) return (type - 12) / 2;
    return fixed[type] == 255 ? UINT64_MAX : fixed[type];
}

/* False: not a row of the format: two columns, the second BLOB or TEXT. */
static inline bool treepage_row(const struct treecell *c, struct treerow *row)
{
    uint64_t head, key_type, value_type;
    size_t n = c->local_n < 3 * PAGEFILE_VARINT_MAX ? c->local_n : 3 * PAGEFILE_VARINT_MAX, at, m;
    if (!(at = pagefile_get_varint(c->local, n, &head))) return false;
    if (!(m = pagefile_get_varint(c->local + at, n - at, &key_type))) return false;
    at += m;
    if (!(m = pagefile_get_varint(c->local + at, n - at, &value_type))) return false;
    at += m;
    if (head != at || value_type < 12) return false;
    row->key_is_blob = key_type >= 12 && key_type % 2 == 0;
    row->head = (uint32_t)head;
    row->key_n = treepage_type_bytes(key_type);
    row->value_n = treepage_type_bytes(value_type);
    return row->key_n <= c->payload - head && row->value_n == c->payload - head - row->key_n;
}
