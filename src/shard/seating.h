/* The engine of a cluster's node: its shards are seats for replicas of Raft groups, and what may run in a seat is the groups' affair (cluster/seat.h).
 *
 * In a cluster the map of key spaces names groups. A group has a seat on each node that has a replica of it: one of the engine's shards, which is its alone. struct route has the table from the one to the other, so that
 * commands find their stores as ever. Shard 0 is nobody's seat: it is what route_key gives for groups that have none here, and nothing is admitted there.
 *
 * A request belongs to one group, found when it is routed. Under the seat's token it is admitted, or it bounces: it gets no reply, and its owner sends it elsewhere. Either way a hold is noted in the task: what
 * became of it, and what its answer must wait for. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shard/task.h"

struct holding;
struct intents;
struct seat;

/* A request's group, besides numbers of groups: */
enum {
    SEATING_NO_GROUP = UINT32_MAX,     /* it has no keys */
    SEATING_MIXED = UINT32_MAX - 1,    /* its keys are in several groups */
    SEATING_NO_MAP = UINT32_MAX - 2,   /* nobody knows yet */
    SEATING_STALE = UINT32_MAX - 3,    /* another node sent it, by a map that says otherwise than the one here (struct ticket): nobody admits it */
};

/* What became of a request, one for each that ran or bounced, in their order; and what its answer waits for (seat_outcome). */
struct hold {
    struct seat *seat;    /* NULL: nothing is waited for */
    size_t reply_end;     /* where its reply ends in the task's output; it begins where the one before it ends */
    bool bounced;         /* nothing happened, and what may be there of a reply is none; the task ended here, so that those behind it do not overtake it */
    bool repeated;        /* it did not run: it has happened before, and the reply is that of the first time */
    bool overtaken;       /* it did not run: one behind it in its task has happened before */
    bool wrote;           /* its ops are in the entry `sequence`; else it may have shown what is */
    uint64_t reign;       /* of this node over the group */
    uint64_t sequence;    /* of the group's entries here */
    uint64_t round;       /* of confirmations that this node leads; 0: none is needed */
    /* Or its owner sees to that himself (task.proves): */
    bool unproven;        /* that this node led the group in this term, at some time since the request came */
    uint32_t group;
    uint64_t term;
    uint64_t probe;       /* the owner's */
};

struct seating {
    void *ctx;
    /* Under the seat's token: may this run here now? False: it bounces. */
    bool (*admits)(void *ctx, const struct task *t, const struct request *r, const struct shard *s);
    /* Under the token, for a request with a ticket that was admitted: has it, or has one behind it, happened before? True: it does not run; its reply, if it has one, is appended, and h says what that waits for. NULL: never. */
    bool (*repeats)(void *ctx, const struct task *t, const struct request *r, const struct shard *s, struct hold *h);
    /* Under the token, when it has run: says in h what its answer waits for. */
    void (*ran)(void *ctx, const struct task *t, const struct request *r, const struct shard *s, const struct exec *x, struct hold *h);
    /* Under the token: may keys expire or be evicted here now? */
    bool (*rules)(void *ctx, const struct shard *s);
    /* Under the token: that is over. Also after anything else that was no request and may have changed the store. */
    void (*settle)(void *ctx, const struct shard *s);
    /* Under the token, for a command that was admitted: the locks of transactions in its group (cluster/intents.h). */
    struct intents *(*intents)(void *ctx, const struct shard *s);
    /* Likewise: what the group serves while keys are carried (cluster/holding.h), as the store's records say now. What was found in it before is good until this is asked for again after such a record has changed. */
    struct holding *(*holding)(void *ctx, const struct shard *s);
    /* Likewise: which group it is. */
    uint32_t (*group)(void *ctx, const struct shard *s);
    /* Under the token, for a command that was admitted: another number, whenever the key of this hash has been changed, another node leads, or another group has it. */
    uint64_t (*mark)(void *ctx, const struct shard *s, uint64_t hash);
    /* Under the token: whether the group serves the key, as far as keys are carried. NULL: all of them. */
    bool (*serves)(void *ctx, const struct shard *s, struct slice key);
};
