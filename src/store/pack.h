/* A pack: a sequence of byte strings in one block, walkable both ways. Small hashes, sets, sorted sets and lists are one pack;
 * a large list is a chain of them.
 *
 * Bytes:  u16le count (0xffff: count by walking) | element ...
 * Element: front mark | bytes | back mark. Both marks tell the length; the back mark is the front one mirrored, so a walk
 * reads one byte and knows what follows, in either direction.
 *
 *   length      front mark      back mark
 *   < 0xf0      length          length
 *   < 0x10000   0xf1 u16le      u16le 0xf1
 *   else        0xf2 u32le      u32le 0xf2
 *
 * Pure functions on bytes: pack_* compute sizes and write elements, they never allocate. A pack in an entry's value is edited
 * with store/pack_entry.h. Integers are kept as text: a reader that wants numbers parses.
 * Offsets handed in must be those of elements (or pack.n where the end is allowed): a broken promise otherwise. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum { PACK_HEADER = 2, PACK_COUNT_UNKNOWN = 0xffff };

size_t pack_element_bytes(size_t len);                       /* both marks and the bytes */
size_t pack_write_element(char *at, struct slice s);         /* gives the bytes written */
void pack_init(char *pack);                                  /* writes an empty header */
uint32_t pack_count(struct slice pack);
void pack_set_count(char *pack, uint32_t count);             /* saturates at 0xffff */
/* The count after n elements came (or, negative, went); one that was saturated stays so. */
void pack_add_count(char *pack, int64_t n);

/* Offsets of elements; PACK_HEADER is the first if the pack is not empty, pack.n is the end. */
size_t pack_first(struct slice pack);
size_t pack_last(struct slice pack);                         /* pack.n if empty */
size_t pack_next(struct slice pack, size_t off);
size_t pack_prev(struct slice pack, size_t off);             /* of off > PACK_HEADER; also from the end */
struct slice pack_get(struct slice pack, size_t off);
size_t pack_seek(struct slice pack, int64_t index);          /* negative from the end; pack.n if out of range */
/* The first element equal to s among those at from, from + stride elements, ...; pack.n if absent. */
size_t pack_find(struct slice pack, struct slice s, unsigned stride, size_t from);
bool pack_valid(struct slice pack);                          /* for tests: whole structure consistent */
