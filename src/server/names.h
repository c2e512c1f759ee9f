/* A set of named things: a chained hash table whose nodes live inside what they name.
 * Not safe for several threads by itself: its owner is one thread, or locks. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct name { /* the first field of what it names */
    struct name *next; /* in its slot */
    uint64_t hash;     /* of text and kind, the same in all sets that share it */
    struct slice text; /* kept */
    uint8_t kind;      /* equal texts of different kinds are different names */
};

struct names { /* zeroed: empty */
    struct name **slots;
    size_t n, cap;
};

struct name *names_find(const struct names *t, uint64_t hash, uint8_t kind, struct slice text); /* NULL: not there */
void names_add(struct names *t, struct name *n);    /* keeps n, which was not there */
void names_remove(struct names *t, struct name *n); /* n is there */
struct name *names_next(const struct names *t, const struct name *n); /* walks all, in no order: NULL begins and ends; nothing changes meanwhile */
void names_fini(struct names *t); /* the table alone: names belong to their owners */
