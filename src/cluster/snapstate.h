/* The state of groups 0 and 1, which is one piece of bytes, as entries of a snapshot: strings of the system database, meta/00000000, meta/00000001 and so on, in this order. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum { SNAPSTATE_PIECE_BYTES = 1 << 20 };

uint64_t snapstate_add(struct buf *raw, struct slice state); /* appends the entries; gives how many */
/* Appends what whole entries hold of the state. *pieces counts them from call to call, from 0 on. False: they are none of a state, or one is missing. */
bool snapstate_take(struct slice raw, uint64_t *pieces, struct buf *state);
