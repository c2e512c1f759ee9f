/* Bits in byte strings: bit 0 is the most significant bit of the first byte, and all bits behind the end are 0. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

static inline unsigned bitmap_byte(struct slice s, uint64_t i) { return i < s.n ? (unsigned char)s.p[i] : 0; }
static inline bool bitmap_get(struct slice s, uint64_t bit) { return bitmap_byte(s, bit / 8) >> (7 - bit % 8) & 1; }

/* Both look at bits [from, to), which lie inside the string. */
uint64_t bitmap_count(struct slice s, uint64_t from, uint64_t to);
int64_t bitmap_find(struct slice s, bool value, uint64_t from, uint64_t to); /* the first that has the value; -1 if none */

/* An unsigned number of 1 to 64 bits at any bit offset. Writing does not touch the string: it gives the whole bytes that the number
 * lies in, as they must become, and how many they are; the first is byte bit / 8. */
enum { BITMAP_WINDOW = 9 };
uint64_t bitmap_read(struct slice s, uint64_t bit, unsigned bits);
unsigned bitmap_write(struct slice s, uint64_t bit, unsigned bits, uint64_t value, char window[BITMAP_WINDOW]);

enum bitmap_op { BITMAP_AND, BITMAP_OR, BITMAP_XOR };
/* into[i] = into[i] op from[i] for n bytes. */
void bitmap_combine(enum bitmap_op op, char *into, const char *from, size_t n);
void bitmap_invert(char *bytes, size_t n);
