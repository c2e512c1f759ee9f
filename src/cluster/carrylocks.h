/* The locks on parts of a key space (shard/locks.h), as they go along with keys that are carried between groups. With the seat's token.
 *
 * Invariant: a lock's record is in every group that a part of it lies in, and in no other: whoever wants a part and asks its groups sees every lock in his way, and none that is gone. So what a source gives out is taken off its locks at once, and kept aside for when it is asked again:
 *
 *   own/locks/0123456789abcdef   LOCKS of the slice that was given out last for this operation. No record: there were none
 *
 * The form of LOCKS (cluster/carrycmd.h) stands at the top of carrylocks.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "cluster/carryslice.h"

/* In a source, which gives the slice out, and then stands as o says; h has its other operations: LOCKS of it. Gives how many ops that took, as those below do. */
uint64_t carrylocks_give(struct buf *out, const struct carryslice *s, const struct holding *h, const struct holding_op *o);
void carrylocks_give_again(struct buf *out, const struct carryslice *s);
/* It has arrived. */
uint64_t carrylocks_arrived(const struct carryslice *s);

bool carrylocks_are_good(const struct carryslice *s, struct slice locks); /* bytes from outside */
/* Whether taking them changes locks, or the counter: then nobody else may be about to. */
bool carrylocks_change_any(const struct carryslice *s, struct slice locks);
/* In a target, which takes the slice: its part of them is put in place, and its counter raised. */
uint64_t carrylocks_take(const struct carryslice *s, struct slice locks);
