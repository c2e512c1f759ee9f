#include "cluster/snapwait.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/mem.h"

enum { LOOK_MS = 20 }; /* between looks at whether it is worth waiting */

struct snapwait {
    pthread_mutex_t lock;
    pthread_cond_t said_it;
    bool said, left; /* left: nobody waits any more */
    int rc;
    void (*fn)(void *ctx); /* to be run, if anybody waits for it; its ctx is the waiter's */
    void *ctx;
    struct raftnode_info *info; /* the waiter's */
};

struct snapwait *snapwait_new(void)
{
    struct snapwait *w = mem_zalloc(sizeof *w);
    pthread_condattr_t attr;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->said_it, &attr);
    pthread_condattr_destroy(&attr);
    return w;
}

static void forget(struct snapwait *w)
{
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->said_it);
    mem_free(w);
}

/* ---- waiting */

static void sleep_a_while(struct snapwait *w)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_MS * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&w->said_it, &w->lock, &until);
}

/* The last of the two frees it. */
int snapwait_end(struct snapwait *w, const struct snapwait_tether *tether)
{
    pthread_mutex_lock(&w->lock);
    while (!w->said && snapwait_goes_on(tether)) sleep_a_while(w);
    bool said = w->said;
    int rc = said ? w->rc : -EINTR;
    w->left = true;
    pthread_mutex_unlock(&w->lock);
    if (said) forget(w);
    return rc;
}

/* ---- saying */

static void say(struct snapwait *w, int rc, const struct raftnode_info *info)
{
    pthread_mutex_lock(&w->lock);
    bool left = w->left;
    if (!left && w->fn) w->fn(w->ctx);
    if (!left && info) *w->info = *info;
    w->rc = rc;
    w->said = true;
    pthread_cond_signal(&w->said_it);
    pthread_mutex_unlock(&w->lock);
    if (left) forget(w);
}

static void answered(void *ctx, uint64_t token, int rc, uint64_t index) { say(ctx, rc, NULL); }
static void ran(void *ctx) { say(ctx, 0, NULL); }
static void looked(void *ctx, uint32_t group, int rc, const struct raftnode_info *info) { say(ctx, rc, info); }

struct raftthread_answer snapwait_answer(struct snapwait *w) { return (struct raftthread_answer){answered, w, 0}; }

void snapwait_filled(void *w, uint32_t group, uint64_t index) { say(w, 0, NULL); }

int snapwait_run(struct raftthread *t, void (*fn)(void *ctx), void *ctx, const struct snapwait_tether *tether)
{
    struct snapwait *w = snapwait_new();
    w->fn = fn;
    w->ctx = ctx;
    raftthread_run(t, ran, w);
    return snapwait_end(w, tether);
}

int snapwait_look(struct raftthread *t, uint32_t group, struct raftnode_info *out, const struct snapwait_tether *tether)
{
    struct snapwait *w = snapwait_new();
    w->info = out;
    raftthread_look(t, group, looked, w);
    return snapwait_end(w, tether);
}
