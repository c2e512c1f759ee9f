/* An intset: distinct integers in ascending order, all of one width. Sets of few integers are one intset in their entry's value.
 *
 * Bytes:  u8 width (2, 4 or 8) | integer ...   little endian, two's complement, each `width` bytes, nothing aligned.
 * The width is that of the widest member ever added; the count follows from the length.
 *
 * Pure functions on bytes, like pack.h: whoever holds the bytes makes room (entry_splice_value), intset_* find places and write. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum { INTSET_HEADER = 1 };

unsigned intset_width_of(int64_t v);                             /* the narrowest width that holds v */
unsigned intset_width(struct slice set);
uint32_t intset_count(struct slice set);
int64_t intset_get(struct slice set, uint32_t i);                /* the i-th smallest; i < count */
/* True if v is in the set. *at is its index, or the index at which it belongs. */
bool intset_find(struct slice set, int64_t v, uint32_t *at);

void intset_init(char *set, unsigned width);                     /* writes the header of an empty set */
void intset_write(char *set, uint32_t i, int64_t v);             /* v must fit the set's width */
/* Rewrites `count` integers with a larger width. The caller has made the room behind them. */
void intset_widen(char *set, uint32_t count, unsigned width);

static inline size_t intset_bytes(uint32_t count, unsigned width) { return INTSET_HEADER + (size_t)count * width; }

bool intset_valid(struct slice set);                             /* for tests: known width, whole integers, ascending */
