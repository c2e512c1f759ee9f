/* SCAN within one store: its options, and a walk over some of the keys. Under the store's token. */
#pragma once
#include "command/exec.h"

struct keyscan {
    int64_t count;      /* COUNT: so many keys are to be looked at */
    struct slice pattern, type;
    bool by_pattern, by_type;
    int64_t now_ms;
    struct reply found; /* the keys go there */
    uint64_t n;         /* keys found */
    uint64_t visited;   /* keys looked at */
    struct buf expired; /* keys that would be answered but are past their time, each behind its length */
};

/* Reads the options from argument `first` on; the keys will go to found, which is kept (NULL: there will be no walk). False: it has answered the error. */
bool keyscan_begin(struct exec *x, uint32_t first, struct buf *found, struct keyscan *s);
/* Goes on from this position on the line of the store's keys until s->count keys were looked at, by earlier walks included; gives where to go on, 0 at the end. */
uint64_t keyscan_walk(const struct exec *x, struct keyscan *s, struct store *store, uint64_t position);
/* The order of the line that positions are on (command/cursor.h). */
uint64_t keyscan_order(const struct store *store, uint16_t db);
