/* The mover (cluster/mover.h) of a node of a cluster: while the node leads group 1 it carries keys between groups, for moves of ranges and changes of key spaces' modes. Here it meets calls, the raft thread and time.
 *
 * It is on the first front, whose thread alone uses it, unless told. */
#pragma once
#include <stdint.h>

struct front;
struct movers;
struct server;

struct movers *movers_new(struct front *f); /* kept in f->movers; after the server has its node */
void movers_free(struct movers *m);         /* after the front has ended, and before its relay goes */
void movers_turn(struct front *f);          /* at the end of each turn, before the relay's */
int movers_wait_ms(const struct front *f);  /* until something is due */

struct movers_info { /* since the start, of what this node drove */
    uint64_t operations, slices, keys, bytes, busy, large, longest_slice_ms;
    uint64_t under_way; /* that it drives now */
};
void movers_look(const struct server *s, struct movers_info *out); /* any thread */
