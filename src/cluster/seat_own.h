/* The inside of a seat (cluster/seat.h), for the files that make it up: seat.c is R's side and what is handed to the token, seat_serve.c what the engine asks under it. Not for others. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "cluster/seat.h"
#include "cluster/seatapply.h"
#include "cluster/seatfate.h"
#include "cluster/seatmarks.h"
#include "cluster/seatshown.h"

struct holding;
struct intents;

/* Ops of some commands, waiting to be proposed. */
struct batch {
    struct batch *next;
    uint64_t sequence;
    size_t at; /* what was proposed of it: pieces */
    struct buf ops;
};

struct seat {
    struct seats *all;
    uint32_t group;
    struct shard *shard;
    atomic_bool serves; /* R: false when the reign ends; W: true when it has begun and everything before is applied */
    atomic_bool dirty;  /* seats_turn has something to do here */

    /* W */
    struct buf pending; /* ops of the running command */
    struct seatshown shows;
    struct seatmarks marks;
    uint64_t served;    /* the reign that commands are admitted in */
    struct seatapply apply;
    struct intents *intents; /* of the reign */
    struct holding *holding; /* as the store says, unless it is to be loaded again */
    bool judges;             /* requests are judged by it; or it is to be loaded again, which tells */
    bool reloads;

    pthread_mutex_t lock; /* what follows, to the next remark */
    bool leads;           /* a reign is under way */
    bool spoilt;          /* the store has what no log has */
    bool filling;
    bool wants_round;
    uint64_t reign, term;
    uint64_t ended_ms;    /* when the last reign ended, by seats->now */
    uint64_t made, taken; /* sequences: of the open batch and the last one closed */
    uint64_t shown;       /* the last one that an op went into */
    struct batch *open, *first, **last; /* the open one, and closed ones that are not proposed */
    struct seatfate fate;
    uint64_t rounds, confirmed, denied;
    uint64_t expected;    /* the next index to apply */
    uint64_t store_index, store_term; /* of the last entry whose effect is in the store, as far as W or commits said */
    struct seat_mark mark; /* that somebody waits for */
    bool mark_waits;
    uint64_t refills;

    /* R */
    enum raftnode_state role;
    uint64_t role_term, ready; /* as told, and the last index handed when leadership was */
    uint64_t handed;
    _Atomic uint64_t leader;
    struct seat *next_gone;
};

struct seats {
    struct seats_options o;
    struct seating seating;
    _Atomic uint16_t *table; /* group -> shard */
    _Atomic(struct seat *) *by_shard;
    struct seat **by_group;  /* R; others under the lock */
    pthread_mutex_t lock;    /* by_group, for those who are not R */
    atomic_bool dirty;
    _Atomic uint64_t now;
    bool told;         /* R: something was learnt */
    bool again;        /* R: some seat could not propose all it had */
    struct seat *gone; /* removed; kept for those who hold answers */
};

/* ---- seat_serve.c */

void seat_serve_ask(struct seat *seat, struct hold *h); /* locked: R is to confirm that this node leads */
extern const struct seating seat_serve; /* but for its ctx, which is struct seats */

void seat_serve_on_op(void *ctx, const struct op *op); /* of the seat's store */
void seat_serve_close_batch(struct seat *seat);        /* locked: the open one is to be proposed */
void seat_serve_soil(struct seat *seat);               /* seats_turn has something to do here */
void seat_serve_tell_time(const struct seat *seat);    /* to what keeps time under the token */
