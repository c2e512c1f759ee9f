/* Drives operations that carry keys between groups (docs/decisions/023): moves of ranges, changes of a key space's mode. On the node that leads group 1, for all of them. Pure, as cluster/txn.h is: requests go out through the host's functions, answers and time come in.
 *
 *   begin     every group concerned hears of the plan and of this driver's term, and tells how far it is
 *   tell      group 1: planned -> walking
 *   measure   where the next slice ends: the least of what the sources say; the one under way, if some group has frozen it. The targets are asked as well: who answers is led, and followed by a majority
 *   prove     a freeze went wrong: the targets are asked again before it is repeated, unless some source has frozen the slice already
 *   freeze    the sources stop serving it, and give out its keys
 *   drop      a source could not freeze it now: it drops what has arrived of the slice before, so that commands over all keys have their turn
 *   piece     a source gives a piece of a value that is too large to go along with the others
 *   put       its target puts it where the value will be; then the next piece, the next value
 *   take      the targets take the slice
 *   tell      group 1: the boundary; the slice is served where it is now
 *   ...       the next slice
 *   tell      group 1: carried; at this version of the map
 *   end       the groups drop their records
 *   tell      group 1: done
 *
 * A request that nobody answered is repeated; -CARRYOLD ends it: another driver is at work; -CARRYLACKS: a large value does not seem to be all there, and is carried again. Slices follow each other without a rest; while there are several operations they go side by side, at most MOVER_AT_ONCE.
 *
 * One thread. */
#pragma once
#include "cluster/holding.h"
#include "cluster/metaops.h"
#include "cluster/txn.h"

struct mover;

enum { MOVER_AT_ONCE = 4 };

/* An operation of group 1 that is to be driven. */
struct mover_op {
    struct holding_plan plan; /* copied; of one that is carried: its number alone */
    enum metaops_step step;   /* planned, walking or carried */
    const uint32_t *groups;   /* carried: who is told that it has ended: those that have a part in it, and perhaps others. Copied */
    uint32_t n_groups;
};

struct mover_host {
    void *ctx;
    void (*send)(void *ctx, struct mover *m, uint64_t op, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms); /* as txn_host's; ends with mover_answered */
    /* Proposes a step of the operation to group 1; ends with mover_told, never from within. boundary: of walking to walking; at most META_KEY_MAX bytes. Borrowed. */
    void (*tell)(void *ctx, struct mover *m, uint64_t op, enum metaops_step from, enum metaops_step to, struct slice boundary);
    uint64_t (*now_ms)(void *ctx);
};

struct mover_counts { /* since the beginning */
    uint64_t operations, slices, keys, bytes;
    uint64_t busy; /* freezes that were refused for a moment */
    uint64_t large; /* values that went in pieces */
    uint64_t longest_slice_ms; /* from its freeze to the map's new boundary */
};

struct mover *mover_new(const struct mover_host *host);
void mover_free(struct mover *m);

/* What is to be driven, and by which term of group 1's leadership, which never goes down; what is under way and not among them, or of another term, is let go. term 0: this node does not lead group 1. map is taken by reference. */
void mover_drive(struct mover *m, uint64_t term, struct space_map *map, const struct mover_op *ops, uint32_t n);
void mover_answered(struct mover *m, uint64_t op, const struct txn_answer *answers, uint32_t n); /* in the order of the requests */
/* The step is so now: version is that of the map since then, or a later one. 0: it could not be said; it is tried again, unless mover_drive says that the operation is gone. */
void mover_told(struct mover *m, uint64_t op, uint64_t version);
void mover_turn(struct mover *m);        /* repeats what is due */
uint64_t mover_wakes_ms(const struct mover *m); /* when that is; UINT64_MAX: it waits for others */
const struct mover_counts *mover_counts(const struct mover *m);
