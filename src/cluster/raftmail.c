#include "cluster/raftmail.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"

/* Of the reader. Who makes it SIGNALLED has put something before; only where it was ASLEEP does that cost a system call. */
enum { AWAKE, ASLEEP, SIGNALLED };

int raftmail_init(struct raftmail_box *b)
{
    atomic_init(&b->top, NULL);
    atomic_init(&b->state, AWAKE);
    b->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return b->fd < 0 ? -errno : 0;
}

void raftmail_fini(struct raftmail_box *b)
{
    CHECK(!atomic_load(&b->top));
    close(b->fd);
}

void raftmail_wake(struct raftmail_box *b)
{
    uint64_t one = 1;
    if (atomic_exchange(&b->state, SIGNALLED) != ASLEEP) return;
    CHECK(write(b->fd, &one, sizeof one) == sizeof one);
}

void raftmail_put(struct raftmail_box *b, const struct raftmail *mail, struct slice data)
{
    struct raftmail *m = mem_alloc(sizeof *m + data.n);
    *m = *mail;
    m->n = data.n;
    if (data.n) memcpy(m->data, data.p, data.n);
    m->next = atomic_load_explicit(&b->top, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&b->top, &m->next, m, memory_order_release, memory_order_relaxed)) {}
}

void raftmail_post(struct raftmail_box *b, const struct raftmail *mail, struct slice data)
{
    raftmail_put(b, mail, data);
    raftmail_wake(b);
}

bool raftmail_is_empty(const struct raftmail_box *b) { return !atomic_load_explicit(&b->top, memory_order_relaxed); }

bool raftmail_sleeps(struct raftmail_box *b)
{
    int awake = AWAKE;
    return atomic_compare_exchange_strong(&b->state, &awake, ASLEEP);
}

void raftmail_wakes(struct raftmail_box *b) { atomic_store(&b->state, AWAKE); }

struct raftmail *raftmail_take(struct raftmail_box *b)
{
    struct raftmail *m = atomic_exchange_explicit(&b->top, NULL, memory_order_acquire), *oldest = NULL;
    while (m) {
        struct raftmail *before = m->next;
        m->next = oldest;
        oldest = m;
        m = before;
    }
    return oldest;
}

void raftmail_wait(struct raftmail_box *b, int timeout_ms)
{
    struct pollfd p = {.fd = b->fd, .events = POLLIN};
    uint64_t count;
    if (raftmail_sleeps(b) && poll(&p, 1, timeout_ms) > 0) CHECK(read(b->fd, &count, sizeof count) == sizeof count || errno == EAGAIN);
    raftmail_wakes(b);
}
