/* Seats: the data groups that this node has a replica of, as its engine's workers and its raft thread meet in them (docs/decisions/016).
 *
 * A leader runs ahead of its log. Commands run under the seat's token and change the store at once; their ops gather in the seat's open entry. The raft thread closes it whenever it comes by, proposes it, and
 * learns what becomes of it. An answer waits (struct hold) until the entry that it tells of, or that it may show, is committed; and a read's until a majority has confirmed after it ran that this node leads.
 * A replica that does not lead gets entries from its log, and applies them under the token.
 *
 *   reign      a span of time in which this node leads the group and serves it; counted on this node
 *   sequence   the number of an entry that this node made; rises over reigns
 *   round      of confirmations; rises over reigns
 *
 * When a reign ends, what is open is not lost: entries in the log may yet be committed, and are then passed over, for the store has them already. But when they are truncated, or were never proposed, the store has what
 * no log has: the seat is spoilt. It is emptied and filled again from the group's last snapshot and its log, by whoever fills seats (options.refill, cluster/snaphost.h), as at a start.
 *
 * Threads. W: a worker with the seat's token. R: the raft thread. Any: any. What both W and R use is under the seat's lock, which nobody holds for long. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "cluster/raftnode.h"
#include "shard/seating.h"

struct engine;
struct seats;

/* The Raft of this node, as far as seats need it; all called on R. raftthread has them; so has a simulator. */
struct seats_raft {
    void *ctx;
    /* Makes R call seats_turn soon. Any thread. */
    void (*wake)(void *ctx);
    /* Proposes an entry. 0, and *index is where it will stand; errors of raftnode_submit. What becomes of it is told by seats_committed or seats_truncated. */
    int (*propose)(void *ctx, uint32_t group, uint64_t term, struct slice data, uint64_t *index);
    /* Asks for a confirmation; ends with seats_confirmed. */
    void (*read)(void *ctx, uint32_t group, uint64_t round);
};

struct seats_options {
    struct engine *engine; /* kept. Its seating is set here. */
    struct seats_raft raft;
    uint64_t now; /* ms of a clock that does not go back */
    uint32_t uncertain_after_ms; /* an answer whose entry has no fate so long after its reign ended is UNCERTAIN; 0: 5000 */
    /* R: the group's seat is spoilt, and nothing is applied to it any more. To be filled: seat_fill_begin ... seat_filled, then the log is rewound to the index that was filled. */
    void (*refill)(void *ctx, uint32_t group);
    /* R: some hold may have its outcome now. By seats_tell alone. */
    void (*told)(void *ctx);
    void *ctx;
};

struct seats *seats_new(const struct seats_options *options);
void seats_free(struct seats *s); /* workers and raft thread have ended */

/* ---- R: which groups are here. A new seat is empty and at index 0 of its log: what it is to have is handed by seats_committed, or filled. */

/* -EEXIST, or -ENOSPC: all seats are taken. */
int seats_add(struct seats *s, uint32_t group);
/* Its keys go, and its seat is free. What waits is uncertain. */
void seats_remove(struct seats *s, uint32_t group);

/* ---- R: upcalls of raftthread_app, for groups that have a seat */

void seats_committed(struct seats *s, uint32_t group, const struct raftnode_entry *entries, uint32_t n);
void seats_role(struct seats *s, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader);
void seats_truncated(struct seats *s, uint32_t group, uint64_t index);
void seats_confirmed(struct seats *s, uint32_t group, uint64_t round, int rc);
/* Proposes what was gathered, asks for the confirmations that are wanted. Before Raft's own turn ends, so that it goes along. */
void seats_turn(struct seats *s, uint64_t now);
/* After Raft's turn: says told, if something was learnt, and wakes workers for which there is mail (engine_put) of this turn. True: there is more to propose. */
bool seats_tell(struct seats *s);

/* ---- W, or any worker between tasks */

/* A worker has holds to wait for: R is woken if there is anything to do. Once per turn of the worker. */
void seats_hurry(struct seats *s);

enum seat_outcome {
    SEAT_WAIT,
    SEAT_DONE,      /* the answer may go */
    SEAT_UNCERTAIN, /* a write: it may have happened, or may yet */
    SEAT_LOST,      /* a read: nothing happened, and it can be asked again elsewhere; a write that was certainly not proposed */
};
/* Any thread. Of a hold that is unproven: as if it were. */
enum seat_outcome seat_outcome(const struct hold *h);
/* Its owner cannot prove it: Raft is to confirm that this node leads. seats_hurry. */
void seat_ask(struct hold *h);

/* Whether this node leads it and serves. A hint: true under the token alone. Any thread. */
bool seats_serves(const struct seats *s, uint32_t group);

/* ---- filling a seat, at a start, from a received snapshot, or because it is spoilt. Any thread that is no worker; each call hands its part over to the seat's token, in order. False: the group has left
 * the seat, perhaps for another one, which is filled by itself; nothing was handed over, and nothing is told. */

struct seat;
/* Where the group sits; good as long as s is. NULL: nowhere. */
struct seat *seats_find(struct seats *s, uint32_t group);

/* Everything in the seat goes; nothing is applied until it is filled. */
bool seat_fill_begin(struct seat *seat);
/* Whole entries as dumpfile_take_entry takes them; copied. */
bool seat_fill(struct seat *seat, struct slice raw);
/* done is called on a worker when all that was handed over so far is in the seat: for who must not get far ahead of it. */
bool seat_fill_reached(struct seat *seat, void (*done)(void *ctx, uint32_t group, uint64_t index), void *ctx);
/* The seat has the group's state at this index (0: an empty one), whose entry is of this term. done (may be NULL) is called on a worker when it has; then the log may hand on what follows. */
bool seat_filled(struct seat *seat, uint64_t index, uint64_t term, void (*done)(void *ctx, uint32_t group, uint64_t index), void *ctx);

/* ---- snapshots: where a cut is in the group's log */

struct seat_mark {
    uint64_t index, term; /* known at once if sequence is 0 */
    uint64_t sequence;    /* else: the index is that of this entry, when it is committed */
    uint64_t refills;
};
/* W, at the cut: closes the open entry, so that the cut lies between two. */
void seat_mark(struct seats *s, uint32_t group, struct seat_mark *m);
/* Any thread. 0: index and term are set. -EAGAIN: not committed yet. -ECANCELED: it never will be, here. */
int seat_mark_index(struct seats *s, uint32_t group, struct seat_mark *m);

struct seat_info {
    uint32_t group, shard;
    bool serves, filling, spoilt;
    uint64_t reign, term, leader, applied; /* applied: index */
    uint64_t sequence, committed;          /* entries made here, and those of them that are committed */
    uint64_t refills;
};
bool seats_look(struct seats *s, uint32_t group, struct seat_info *out); /* any thread; false: no seat */
