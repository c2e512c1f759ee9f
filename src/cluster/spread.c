#include "cluster/spread.h"

enum { KEPT_BYTES = 256 * 1024 }; /* a buffer larger than this is not kept */

void spread_init(struct spread *s)
{
    *s = (struct spread){0};
    pthread_mutex_init(&s->lock, NULL);
}

void spread_fini(struct spread *s)
{
    buf_fini(&s->gathered);
    buf_fini(&s->going);
    pthread_mutex_destroy(&s->lock);
}

bool spread_put(struct spread *s, const struct wirepub *p)
{
    bool fits = p->channel.n <= WIREPUB_BYTES_MAX && p->message.n <= WIREPUB_BYTES_MAX - p->channel.n;
    pthread_mutex_lock(&s->lock);
    bool taken = fits && s->gathered.len <= SPREAD_MAX;
    if (taken) wirepub_add(&s->gathered, p);
    atomic_store(&s->waiting, s->gathered.len); /* before the raft thread is woken, which looks at it without the lock */
    pthread_mutex_unlock(&s->lock);
    if (!taken) atomic_fetch_add_explicit(&s->dropped, 1, memory_order_relaxed);
    return taken;
}

struct slice spread_take(struct spread *s)
{
    s->going.len = 0;
    if (s->going.cap > KEPT_BYTES) buf_fini(&s->going);
    if (!atomic_load(&s->waiting)) return buf_slice(&s->going);
    pthread_mutex_lock(&s->lock);
    struct buf empty = s->going;
    s->going = s->gathered;
    s->gathered = empty;
    atomic_store(&s->waiting, 0);
    pthread_mutex_unlock(&s->lock);
    return buf_slice(&s->going);
}

void spread_went(struct spread *s, uint64_t sent, uint64_t dropped)
{
    atomic_fetch_add_explicit(&s->sent, sent, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->dropped, dropped, memory_order_relaxed);
}
