/* The locks on parts of a key space (shard/locks.h), as they go along with keys that are carried between groups. With the seat's token.
 *
 * Invariant: a lock's record is in every group that a part of it lies in; and in others only while keys of it are given out there and not dropped. The form of LOCKS (cluster/carrycmd.h) stands at the top of carrylocks.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "cluster/carryslice.h"

/* LOCKS of what a source gives out: the locks that overlap the slice, and its counter. */
void carrylocks_give(struct buf *out, const struct carryslice *s);

bool carrylocks_are_good(struct slice locks, struct slice space); /* bytes from outside */
/* In a target, which takes the slice: its part of them is put in place, and its counter raised. Gives how many ops that took. */
uint64_t carrylocks_take(const struct carryslice *s, struct slice locks);

/* In a source, which drops the slice: records go of which no part lies here, given that the operation stands as o says. Gives how many. */
uint64_t carrylocks_drop(const struct carryslice *s, const struct holding_op *o);
