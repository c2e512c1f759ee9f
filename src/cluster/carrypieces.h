/* Values that are too large to go along with their slice (docs/decisions/023): they are carried before it is taken, in pieces, each of which is an entry of the target's log. With the seat's token.
 *
 * A piece is an op as log/opcode.h writes it, which adds a part of the value to its key. It is put where the value will be: nobody is served there before the slice is taken. Nobody can change the value meanwhile, so a piece may be put again, and so may all of them, from the first one on: a string's
 * bytes go to their places, what a hash, a set or a sorted set has is not added twice, and of a list the elements that are there are passed over. Its time to expire comes with the slice.
 *
 * A target knows which values are not whole yet. While there are any, commands over all keys wait (cluster/holding.h):
 *
 *   own/pieces/0123456789abcdef   of this operation: their databases and keys. No record: there are none
 *
 * LARGE, the record and FROM stand at the top of carrypieces.c as bytes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "cluster/carryslice.h"
#include "store/entry.h"

struct op;

/* ---- LARGE: what a source tells of such a value */
struct carrypieces_large {
    enum type type;
    uint16_t db;
    uint64_t length;   /* bytes of a string, elements or members of anything else */
    int64_t expiry_ms; /* 0: none */
    struct slice key;
};
void carrypieces_add_large(struct buf *out, uint16_t db, const struct entry *e);
bool carrypieces_take_large(struct slice bytes, struct carrypieces_large *l); /* any bytes; false: they are none. The key borrows */

/* ---- in the source */

/* The piece that begins at `from`, as an op of at most about so many bytes, or with one element that is longer; and from where the next one is. Nothing is the beginning, and the end. What another replica named may mean nothing here: then it begins again. False: there is no such piece. */
bool carrypieces_read(const struct entry *e, uint16_t db, struct slice from, size_t bytes, struct buf *piece, struct buf *next);

/* ---- in the target */

bool carrypieces_is_piece(const struct op *op); /* one that opcode_read took from any bytes */
/* Puts the piece that began at `from` in its place, and tells how many ops that took. The first one of a value begins it anew. False: it does not go on from what is here, and all pieces have to be put again. */
bool carrypieces_put(const struct carryslice *s, const struct op *piece, struct slice from, uint64_t *ops);
bool carrypieces_is_whole(const struct carryslice *s, const struct carrypieces_large *l); /* all pieces are here */
/* The slice is taken with these values, which are whole: LARGE after LARGE, each behind its length (u32, little endian). Others that were begun have expired meanwhile, and go. Gives how many ops that took. */
uint64_t carrypieces_end(const struct carryslice *s, struct slice larges);
