/* HSCAN, SSCAN and ZSCAN: what scanning inside a collection has in common. The family walks its own type; arguments, pattern and reply are here.
 *
 *     struct inscan s;
 *     if (!inscan_begin(x, &s, TYPE_SET)) return;
 *     set_scan(s.e, &s.cursor, s.want, visit, &s);      visit: if (inscan_wants(s, member)) inscan_add(s, member);
 *     inscan_end(x, &s);
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "command/command.h"

struct inscan {
    const struct entry *e; /* the collection */
    uint64_t cursor;       /* the position: where to go on; set by the walk: where to go on next time, 0 at the end */
    size_t want;           /* COUNT */
    bool names_only;       /* HSCAN NOVALUES, ZSCAN NOSCORES */
    bool filtered;         /* MATCH with a pattern that does not match everything */
    struct slice pattern;
    struct buf bytes;      /* the elements so far, as they will be sent */
    struct reply items;    /* writes into bytes */
    size_t n;              /* elements in there */
};

/* Reads the arguments of `xSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES | NOSCORES]` and finds the key. False if that settled the answer: an error, or
 * an empty scan because there is no such key. */
bool inscan_begin(struct exec *x, struct inscan *s, enum type t);
bool inscan_wants(const struct inscan *s, struct slice item); /* it matches the pattern */
void inscan_add(struct inscan *s, struct slice element);
void inscan_end(struct exec *x, struct inscan *s); /* answers and releases */
