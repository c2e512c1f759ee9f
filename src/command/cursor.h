/* Cursors of SCAN and its kin: a number that a client hands back, and that must say enough for nothing to be missed.
 *
 * What is promised: whatever is there from the first call of a scan to its last is given; it may be given more than once.
 *
 * A cursor within one table is a position on its line (store/table.h) and a tag of the table's order. Another table in its place, after a restart, in another node, because the value was made anew or databases were swapped, has another
 * line, on which the position means nothing: the walk over it begins again.
 *
 * SCAN goes from shard to shard, and keys may go from shard to shard meanwhile: one that is carried from a shard not yet visited to one already visited would be missed. So its cursor also has a tag of what struct route counts in
 * `shifts`, as it was when the scan began. If it is another one at the end of the last shard, the scan begins another pass instead of ending: it ends with the first pass in which no key was carried. The count begins with a random number
 * at each start, so a scan that goes on after one, perhaps with other shards, has another pass as well.
 *
 *     SCAN       62 pass 45  44 shard 35  34 order 22  21 position 0      pass is never 0
 *     others                              62 order 22  21 position 0      the position is that of the table without the bits that are always 0
 *
 * So it is below 2^63, and 0 only where a scan begins or ends. Any number may come back; one that no server gave does no harm. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "route/route.h"

enum {
    CURSOR_SHARDS_MAX = 1 << 10,
    CURSOR_SCAN_ORDER_BITS = 13,
    CURSOR_ORDER_BITS = 41, /* where there is room */
};

/* ---- within one table, whose order is `scramble`. Position 0 is both ends of a walk, and gives 0. */
uint64_t cursor_in_table(uint64_t position, uint64_t scramble, unsigned order_bits);
/* Where the walk goes on: 0 if the cursor is not of this order. */
uint64_t cursor_position(uint64_t cursor, uint64_t scramble, unsigned order_bits);

/* ---- of SCAN */
struct cursor {
    uint64_t in_table; /* with CURSOR_SCAN_ORDER_BITS */
    uint32_t shard;
    uint32_t pass;     /* 0: the scan begins */
};

uint32_t cursor_pass(const struct route *r); /* for a pass that begins, or ends, now */
uint64_t cursor_make(const struct cursor *c);
/* False: it is no number ("ERR invalid cursor"). A cursor that names no shard of this server begins again. */
bool cursor_parse(struct slice arg, uint32_t shards, struct cursor *c);
uint32_t cursor_shard(struct slice arg, uint32_t shards); /* the one that a call with this cursor begins in; 0 if it is none */
