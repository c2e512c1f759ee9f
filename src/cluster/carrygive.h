/* The answer to carry.freeze (cluster/carrycmd.h): what a source gives out of a slice, target by target. With the seat's token. */
#pragma once
#include <stdint.h>

#include "base/slice.h"
#include "cluster/carryslice.h"

struct reply;

/* Whole entries of at most so many bytes together; of what is more it is only told. Each target gets the locks. */
void carrygive_reply(struct reply *out, const struct carryslice *s, uint64_t bytes, struct slice locks);
