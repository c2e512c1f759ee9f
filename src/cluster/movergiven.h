/* What sources have given out for a slice, as its driver (cluster/mover.h) hands it on: their answers to carry.freeze, and the large values that go in pieces, one after the other, before the slice is taken. Pure. Answers may be any bytes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* ---- an answer: a part for each target */
struct movergiven_part {
    uint32_t group;
    uint32_t n, n_large;
    struct slice entries, larges; /* bulk replies */
    struct slice locks;
};
bool movergiven_is_good(struct slice answer);
/* Calls `visit` with each part of a good one. */
void movergiven_each(struct slice answer, void (*visit)(void *ctx, const struct movergiven_part *p), void *ctx);
bool movergiven_find(struct slice answer, uint32_t group, struct movergiven_part *p); /* of a good one; false: there is none for the group */

/* ---- large values. Zeroed: none */
struct movergiven_large {
    uint32_t source, target; /* groups */
    bool gone;               /* it has expired on the way: it is taken by nobody */
    struct buf bytes;        /* LARGE */
};
struct movergiven_larges {
    struct movergiven_large *all;
    uint32_t n, cap;
    uint32_t at;           /* the one whose pieces go now; n: all have gone */
    struct buf from, next; /* where the piece under way begins, and the one behind it */
    struct buf piece;
};
void movergiven_fini(struct movergiven_larges *l);
void movergiven_clear(struct movergiven_larges *l);
void movergiven_add(struct movergiven_larges *l, uint32_t source, const struct movergiven_part *p); /* those of a part */
static inline bool movergiven_is_of(const struct movergiven_large *l, uint32_t source, uint32_t target) { return l->source == source && l->target == target && !l->gone; }
const struct movergiven_large *movergiven_now(const struct movergiven_larges *l); /* NULL: all have gone */
bool movergiven_take_piece(struct movergiven_larges *l, struct slice answer);     /* to carry.piece; false: it makes no sense */
bool movergiven_has_piece(const struct movergiven_larges *l);                     /* there is one to be put; else the value has expired */
void movergiven_go_on(struct movergiven_larges *l);                               /* it is put, or there was none */
