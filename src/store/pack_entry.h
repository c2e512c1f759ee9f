/* Editing a pack that lives in an entry's value: each function makes room or closes it, writes the elements and keeps the count.
 * All take the entry and give its (perhaps new) address, as entry_splice_value does. Items are borrowed and must not point into
 * the entry itself. Offsets are those of store/pack.h, for the pack entry_value(e). */
#pragma once
#include <stdint.h>

#include "store/entry.h"

struct arena;

/* An entry with an empty pack as its value. */
struct entry *pack_entry_new(struct arena *a, enum type t, struct slice key);
/* n items in their order before the element at off (the value's length: behind the last). */
struct entry *pack_entry_insert(struct arena *a, struct entry *e, size_t off, const struct slice *items, uint32_t n);
/* n elements from the one at off on; they must be there. */
struct entry *pack_entry_remove(struct arena *a, struct entry *e, size_t off, uint32_t n);
/* The element at off becomes s. */
struct entry *pack_entry_replace(struct arena *a, struct entry *e, size_t off, struct slice s);
