/* Something that another thread will say, and one thread waits for: an answer of the raft thread's, the end of a fill, a function that runs on the raft thread. It waits as long as it wants to, and no
 * longer: what comes too late finds nobody, and touches nothing that was the waiter's. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cluster/raftthread.h"

struct snapwait;

/* As long as neither is set it is worth waiting. Any of them may be NULL. */
struct snapwait_tether {
    const atomic_bool *stop, *unwanted;
};

static inline bool snapwait_goes_on(const struct snapwait_tether *t)
{
    return !(t->stop && atomic_load_explicit(t->stop, memory_order_relaxed)) && !(t->unwanted && atomic_load_explicit(t->unwanted, memory_order_relaxed));
}

/* Then it is handed to whoever will say it, and waited for once. */
struct snapwait *snapwait_new(void);
/* What was said; -EINTR: it is not worth waiting any more. Frees w, or leaves that to the other side. */
int snapwait_end(struct snapwait *w, const struct snapwait_tether *tether);

/* ---- the other side: exactly one of these, once; any thread */
struct raftthread_answer snapwait_answer(struct snapwait *w);
void snapwait_filled(void *w, uint32_t group, uint64_t index); /* done of seat_filled and seat_fill_reached */

/* Runs fn(ctx) on the raft thread and waits for it: 0, or -EINTR, and it has not run and never will. */
int snapwait_run(struct raftthread *t, void (*fn)(void *ctx), void *ctx, const struct snapwait_tether *tether);
/* raftthread_look: 0, -ENOENT or whatever it says, or -EINTR. */
int snapwait_look(struct raftthread *t, uint32_t group, struct raftnode_info *out, const struct snapwait_tether *tether);
