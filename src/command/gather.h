/* Members outside any store: what set algebra has found so far. On the process heap, for the length of one command. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct gather_chunk;

struct gather {
    struct slice *items;
    uint32_t n;
    uint32_t cap;
    uint32_t *index;             /* open addressing: 1 + number of the item, 0 empty; NULL until gather_new is used */
    uint32_t index_mask;
    uint64_t seed;               /* of the index */
    struct gather_chunk *chunks; /* copied bytes; newest first */
};

void gather_init(struct gather *g, uint64_t seed);
void gather_fini(struct gather *g);

/* Adds a member at the end. With `copy` its bytes are copied, otherwise they must stay as they are until fini. */
void gather_add(struct gather *g, struct slice member, bool copy);
/* Adds a member only if it is not there; false if it is. Not to be mixed with gather_add. */
bool gather_new(struct gather *g, struct slice member, bool copy);
/* As gather_new; gives the number of the member in items, new or not. */
uint32_t gather_number(struct gather *g, struct slice member, bool copy, bool *is_new);
bool gather_find(struct gather *g, struct slice member, uint32_t *number); /* false if it was not added by one of these two */
