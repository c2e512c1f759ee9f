/* A pack: a sequence of byte strings in one block, walkable both ways. Small hashes, sets, sorted sets and lists are one pack;
 * a large list is a chain of them.
 *
 * Bytes:  u16le count (0xffff: count by walking) | element ...
 * Element: head | bytes | back.  head: length < 0xf0: one byte; < 0x10000: 0xf1 + u16le; else 0xf2 + u32le.
 * back: length of head + bytes as base-128, most significant byte first when read backwards, high bit set on all but the byte read last.
 *
 * Pure functions on bytes. A pack in an entry's value is edited with entry_splice_value: pack_* compute sizes and write elements, they never
 * allocate. Integers are kept as text: a reader that wants numbers parses. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum { PACK_HEADER = 2 };

size_t pack_element_bytes(size_t len);                       /* head + bytes + back */
size_t pack_write_element(char *at, struct slice s);         /* gives the bytes written */
void pack_init(char *pack);                                  /* writes an empty header */
uint32_t pack_count(struct slice pack);
void pack_set_count(char *pack, uint32_t count);             /* saturates at 0xffff */

/* Offsets of elements; PACK_HEADER is the first if the pack is not empty, pack.n is the end. */
size_t pack_first(struct slice pack);
size_t pack_last(struct slice pack);                         /* pack.n if empty */
size_t pack_next(struct slice pack, size_t off);
size_t pack_prev(struct slice pack, size_t off);             /* of off > PACK_HEADER; also from the end */
struct slice pack_get(struct slice pack, size_t off);
size_t pack_seek(struct slice pack, int64_t index);          /* negative from the end; pack.n if out of range */
size_t pack_find(struct slice pack, struct slice s, unsigned stride, size_t from); /* pack.n if absent; compares every stride-th element */
bool pack_valid(struct slice pack);                          /* for tests: whole structure consistent */
