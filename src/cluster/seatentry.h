/* An entry of a data group's log, as bytes. Pure. The layout stands at the top of seatentry.c.
 *
 * An entry has the ops of whole commands, so that a command is there on every replica or on none. One that is too long for an entry of Raft goes in pieces, in entries that follow each other and count as one when the last is there. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "store/op.h"

enum {
    SEATENTRY_BYTES = 256 * 1024,      /* about what an entry should have */
    SEATENTRY_PIECE = 1024 * 1024, /* what an entry may have */
};

/* Appends an op to what is gathered. */
void seatentry_add_op(struct buf *ops, const struct op *op);

/* The entries that these gathered ops make, from *at on: appends the next one to out and moves *at; false: there is none left. */
bool seatentry_next(struct slice ops, int64_t unix_ms, size_t *at, struct buf *out);

struct seatentry {
    bool first, last; /* of its pieces; both: it is whole */
    int64_t unix_ms;  /* of the leader */
    struct slice ops; /* gathered ops, or a piece of them */
};
bool seatentry_read(struct slice entry, struct seatentry *out); /* false: it is none */

/* Whole gathered ops, one after the other. False: that was the last, or (*bad) what follows is none. */
struct opcode_scratch;
bool seatentry_next_op(struct slice *ops, struct opcode_scratch *scratch, struct op *op, bool *bad);
