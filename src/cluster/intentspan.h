/* A part of a key space's line, in one database: all its keys in [start, end), also those that are not there yet. As transactions reserve and lock it (cluster/intents.h). Pure. The layout stands at the top of intentspan.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct intentspan {
    uint16_t db;
    struct slice space, start, end; /* ends are empty where there are none */
};

bool intentspan_has(const struct intentspan *s, uint16_t db, struct slice key);
bool intentspan_eq(const struct intentspan *a, const struct intentspan *b);
bool intentspan_overlaps(const struct intentspan *a, const struct intentspan *b);

/* All but the database. */
void intentspan_add(struct buf *out, const struct intentspan *s);
bool intentspan_read(struct slice bytes, struct intentspan *s); /* false: it is none. Slices borrow */
