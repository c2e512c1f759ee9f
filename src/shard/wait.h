/* Waiting for keys: BLPOP and its kin.
 *
 * A blocked command leaves a waiter at each of its keys. When one of them becomes ready, whoever holds the shard runs the command again for the waiter that came
 * first: at once if all the command's shards are held, else as a task that travels like any other (the "attempt"). If the attempt finds nothing (somebody took it), the waiter
 * is back where it was, first in line. Otherwise its answer goes to the home worker and all its interests are gone.
 *
 * State: WAITING -> ATTEMPT -> WAITING | SERVED; WAITING -> CANCELLED (timeout, disconnect; home worker only). Only WAITING can be
 * left by others, by compare-and-swap: so a waiter is served or cancelled, never both. CLIENT UNBLOCK claims a waiter from any thread by taking
 * the place of an attempt; its home worker then cancels it.
 *
 * In a cluster a command waits on the node that leads its keys' group, and its client may be on another, which may be gone by the time that a key is ready: what was taken for it then would be lost. Such a waiter has `turn`. When it is first in
 * line and a key is ready, the command does not run: the waiter is in ATTEMPT, and its home worker is told. wait_go runs it; wait_cancel_claimed gives it up. An attempt that finds nothing comes home as well (served, still in ATTEMPT), and
 * wait_rejoin puts it back where it was. An attempt that the seat does not admit any more ends the wait: its hold has bounced, and nothing happened (shard/seating.h). */
#pragma once
#include "shard/task.h"
#include "store/interest.h"

enum wait_state { WAIT_WAITING, WAIT_ATTEMPT, WAIT_SERVED, WAIT_CANCELLED };

struct waiter {
    struct task task;      /* the command again, with its own copy of the arguments */
    atomic_int state;
    struct buf answer;
    int64_t timeout_ms;    /* 0: for ever */
    uint32_t n;            /* interests, one per key */
    uint32_t cleaned;      /* shards already visited by a cancellation */
    char *bytes;           /* the arguments' bytes */
    void (*served)(struct worker *w, struct waiter *wt); /* on the home worker: answer is ready; takes the waiter */
    void (*turn)(struct worker *w, struct waiter *wt);   /* on the home worker: it is its turn; NULL: it is tried at once */
    void *owner;           /* of these two, if it is no session */
    bool came_early;       /* home worker: served before the blocking task came home */
    struct interest interests[];
};

/* The running command wants to wait: makes its waiter, or puts an attempt's waiter back in line. */
struct waiter *wait_again(struct worker *w, struct task *t, struct exec *x, struct request *r);
void wait_served(struct worker *w, struct waiter *wt); /* an attempt has answered */
void wait_serve(struct worker *w, struct shard *s);    /* serves the ready keys of a shard whose token is held */

/* Home worker: gives up waiting. False: an attempt is under way; ask again later or take the answer. True: the waiter is no longer ours. */
bool wait_cancel(struct worker *w, struct waiter *wt);
/* Any thread that keeps the waiter from being freed. True: nobody else will serve or cancel it; its home worker must call wait_cancel_claimed. */
bool wait_claim(struct waiter *wt);
void wait_cancel_claimed(struct worker *w, struct waiter *wt);
/* Home worker, of a waiter with `turn` that is in ATTEMPT: runs the command; served is called. */
void wait_go(struct worker *w, struct waiter *wt);
/* Home worker, of one whose attempt found nothing: puts it back where it was in line. */
void wait_rejoin(struct worker *w, struct waiter *wt);
/* When the workers have ended: takes it out of line and frees it. */
void wait_abandon(struct waiter *wt);
void wait_free(struct waiter *wt);
