/* The store of a replica that does not lead: entries of the group's log, and snapshots, go into it. For the token's holder.
 *
 * An op that does not fit the store means that this replica is not what the others are: the process ends, for nothing that it could do would be right. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "cluster/raftnode.h"
#include "log/opcode.h"

struct store;

struct seatapply {
    struct store *store;
    bool busy;    /* ops that the store tells of are ours, and nobody's to propose */
    bool filling;
    uint64_t index, term; /* of the last entry in the store, when entries are applied */
    struct buf pieces;    /* of an entry whose last piece is not there yet */
    uint64_t pieces_term, before_index, before_term; /* of its first piece; and where the log was before it */
    struct opcode_scratch scratch;
};

void seatapply_init(struct seatapply *a, struct store *s); /* an empty one, at index 0 */
void seatapply_fini(struct seatapply *a);

/* Entries on their way to the token: appends a copy. */
void seatapply_add(struct buf *out, const struct raftnode_entry *e);
/* Applies what seatapply_add gathered. index and term are those of the last entry in the store; those of the last one applied come back, if they are later. */
void seatapply_entries(struct seatapply *a, struct slice gathered, uint64_t *index, uint64_t *term);

/* This node leads, so that entries of earlier leaders are all there: the rest of one that is not whole will never come. */
void seatapply_drop_pieces(struct seatapply *a);

void seatapply_empty(struct seatapply *a);                  /* everything in the store goes: it is going to be filled */
void seatapply_fill(struct seatapply *a, struct slice raw); /* whole entries of a snapshot */
void seatapply_filled(struct seatapply *a);

static inline bool seatapply_is_busy(const struct seatapply *a) { return a->busy; }
static inline bool seatapply_is_whole(const struct seatapply *a) { return !a->filling; }
/* The place in the log that the store is at, given that the last entry in it is this one: before the pieces of an entry that is not whole. */
void seatapply_whole_index(const struct seatapply *a, uint64_t *index, uint64_t *term);
