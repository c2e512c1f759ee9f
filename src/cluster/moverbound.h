/* Bounds between keys as the driver of an operation has them (cluster/mover.h), each with a key of its own; and as words of the groups' commands (cluster/carrycmd.h). Pure. */
#pragma once
#include "base/buf.h"
#include "cluster/holding.h"

struct txnask;

/* Zeroed: before all keys. */
struct moverbound {
    bool at_end;
    struct buf key;
};

struct holding_bound moverbound_of(const struct moverbound *b);
void moverbound_set(struct moverbound *b, struct holding_bound to); /* copies */
int moverbound_cmp(const struct moverbound *a, const struct moverbound *b);
bool moverbound_is_beginning(const struct moverbound *b);
void moverbound_say(struct txnask *a, const struct moverbound *b);
bool moverbound_take(struct slice *answer, struct holding_bound *b); /* borrows; false: it is none */
