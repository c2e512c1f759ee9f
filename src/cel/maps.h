/* Building maps and finding keys in them. Numbers are equal by value whatever their type: 1, 1u and 1.0 are the same key. */
#pragma once
#include "cel/eval.h"

struct maps_builder {
    struct cel_entry *entries;
    uint32_t *index; /* as in struct cel_value; NULL for a small map */
    size_t count, cap;
};

/* Makes room for so many entries, which may be more later; false with the evaluation's error set. */
bool maps_init(struct maps_builder *b, struct eval *e, size_t cap);

/* Adds a key; the value is the caller's to set in the entry given. NULL with the error set if it is no key, or is there
 * already. */
struct cel_entry *maps_add(struct maps_builder *b, struct eval *e, const struct cel_value *key);
struct cel_value maps_value(const struct maps_builder *b);

/* The value of a key, or NULL. */
const struct cel_value *maps_find(const struct cel_value *map, const struct cel_value *key);
