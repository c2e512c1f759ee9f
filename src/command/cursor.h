/* Cursors of SCAN and its kin: a number that a client hands back, and that must say enough for nothing to be missed.
 *
 * What is promised: whatever is there from the first call of a scan to its last is given; it may be given more than once.
 *
 * A cursor within one table is a position on its line (store/table.h) and a tag of the table's order. Another table in its place, after a restart, in another node, because the value was made anew or databases were swapped, has another
 * line, on which the position means nothing: the walk over it begins again.
 *
 * SCAN goes from place to place, from shard to shard of a server or from group to group of a cluster, and keys may go from place to place meanwhile: one that is carried from a place not yet visited to one already visited would be missed.
 * So its cursor also has a tag of a number that rises whenever keys are carried, as it was when the scan began. If it is another one at the end of the last place, the scan begins another pass instead of ending: it ends with the first pass in
 * which no key was carried. In a server that number is what struct route counts in `shifts`; it begins anywhere at each start, so a scan that goes on after one, perhaps with other shards, has another pass as well. In a cluster it is
 * the version of the map, the same for all nodes.
 *
 *     a server's SCAN     62 pass 45  44 shard 35  34 order 22  21 position 0      pass is never 0
 *     a cluster's         62 pass 53  52 group 39  38 order 22  21 position 0
 *     others                                       62 order 22  21 position 0      the position is that of the table without the bits that are always 0
 *
 * So it is below 2^63, and 0 only where a scan begins or ends. Any number may come back; one that no server gave does no harm. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* How the bits are shared out. */
struct cursor_shape {
    uint8_t order_bits, place_bits, pass_bits;
};
extern const struct cursor_shape cursor_of_server, cursor_of_cluster, cursor_of_members;

/* ---- within one table, whose order is `scramble`. Position 0 is both ends of a walk, and gives 0. */
uint64_t cursor_in_table(const struct cursor_shape *s, uint64_t position, uint64_t scramble);
/* Where the walk goes on: 0 if the cursor is not of this order. */
uint64_t cursor_position(const struct cursor_shape *s, uint64_t cursor, uint64_t scramble);
bool cursor_is_in_table(const struct cursor_shape *s, uint64_t cursor); /* cursor_in_table may have given it: for one that comes from another node */

/* ---- of SCAN */
struct cursor {
    uint64_t in_table;
    uint32_t place;
    uint32_t pass; /* 0: the scan begins */
};

uint32_t cursor_pass(const struct cursor_shape *s, uint64_t carried); /* for a pass that begins, or ends, when that number is this */
uint64_t cursor_make(const struct cursor_shape *s, const struct cursor *c);
/* False: it is no number ("ERR invalid cursor"). A cursor that names none of these places begins again. */
bool cursor_parse(const struct cursor_shape *s, struct slice arg, uint32_t places, struct cursor *c);
uint32_t cursor_shard(struct slice arg, uint32_t shards); /* of a server: the one that a call with this cursor begins in; 0 if it is none */
