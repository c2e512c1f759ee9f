/* Messages for the subscribers of all other nodes, from the threads that publish them to the raft thread, which has the links.
 *
 * At most once: what is published while a node cannot be reached does not reach it, and what is too much is dropped and counted. Any thread puts, the raft thread takes what was gathered since its last turn and queues it for every peer in
 * one piece. There is one queue for all threads, so messages reach each node in the order in which they were put. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cluster/wirepub.h"

enum {
    SPREAD_MUCH = 4 * 1024 * 1024,         /* bytes gathered, from where on those who publish should pause */
    SPREAD_MAX = 16 * 1024 * 1024,         /* and from where on nothing more is taken */
    SPREAD_LINK_MAX = 8 * 1024 * 1024,     /* queued for a peer, from where on it gets no more */
};

struct spread {
    pthread_mutex_t lock;
    struct buf gathered; /* frames; under the lock */
    struct buf going;    /* R */
    atomic_size_t waiting; /* bytes of gathered */
    _Atomic uint64_t sent, dropped; /* messages times nodes; those that were never gathered count once */
};

void spread_init(struct spread *s);
void spread_fini(struct spread *s);

/* Any thread. False: dropped. A message that is too long for a frame always is. */
bool spread_put(struct spread *s, const struct wirepub *p);
static inline bool spread_is_much(const struct spread *s) { return atomic_load_explicit(&s->waiting, memory_order_relaxed) > SPREAD_MUCH; }

/* R: what was gathered, borrowed until the next call; empty: nothing. */
struct slice spread_take(struct spread *s);
/* R: what became of it. */
void spread_went(struct spread *s, uint64_t sent, uint64_t dropped);
