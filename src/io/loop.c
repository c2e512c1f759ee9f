#include "io/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/backend.h"

static bool try_backend(struct loop *l, const struct backend *b, char error[128])
{
    l->backend = b;
    l->state = b->open(l, error);
    return l->state != NULL;
}

struct loop *loop_new(enum loop_backend backend, int wake_fd, const struct loop_handler *handler, void *ctx, char error[128])
{
    struct loop *l = mem_zalloc(sizeof *l);
    l->wake_fd = wake_fd;
    l->handler = handler;
    l->ctx = ctx;
    l->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (backend != LOOP_EPOLL && try_backend(l, &backend_uring, error)) return l;
    if (backend != LOOP_URING && try_backend(l, &backend_epoll, error)) return l;
    if (l->reserve_fd >= 0) close(l->reserve_fd);
    mem_free(l);
    return NULL;
}

static void tell_gone(struct loop *l)
{
    while (l->gone) {
        struct stream *s = l->gone;
        l->gone = s->next;
        loop_buf_put(l, &s->out);
        loop_buf_put(l, &s->flying);
        l->handler->on_closed(l->ctx, s);
    }
}

void loop_free(struct loop *l)
{
    loop_stop_listening(l);
    tell_gone(l);
    l->backend->close(l);
    while (l->n_spare) buf_fini(&l->spare[--l->n_spare]);
    if (l->reserve_fd >= 0) close(l->reserve_fd);
    mem_free(l);
}

const char *loop_name(const struct loop *l) { return l->backend->name; }
uint64_t loop_bytes_in(const struct loop *l) { return __atomic_load_n(&l->bytes_in, __ATOMIC_RELAXED); }
uint64_t loop_bytes_out(const struct loop *l) { return __atomic_load_n(&l->bytes_out, __ATOMIC_RELAXED); }

void loop_listen(struct loop *l, int fd, int tag)
{
    CHECK(l->n_listeners < LOOP_LISTENERS);
    l->listeners[l->n_listeners] = (struct loop_listener){.fd = fd, .tag = tag};
    l->backend->listen(l, l->n_listeners++);
}

void loop_stop_listening(struct loop *l)
{
    for (int i = 0; i < l->n_listeners; i++) {
        if (l->listeners[i].fd < 0) continue;
        if (!l->listeners[i].resting) l->backend->unlisten(l, i);
        close(l->listeners[i].fd);
        l->listeners[i].fd = -1;
    }
}

void loop_accepted(struct loop *l, int tag, int fd) { l->handler->on_accept(l->ctx, tag, fd); }

bool loop_refuse(struct loop *l, int i)
{
    struct loop_listener *ls = &l->listeners[i];
    if (l->reserve_fd >= 0) close(l->reserve_fd);
    int fd = accept4(ls->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) close(fd);
    l->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ls->resting = fd < 0 || l->reserve_fd < 0; /* another thread was quicker: leave those who knock alone for a while */
    return !ls->resting;
}

void loop_listen_again(struct loop *l)
{
    for (int i = 0; i < l->n_listeners; i++) {
        if (!l->listeners[i].resting || l->listeners[i].fd < 0) continue;
        l->listeners[i].resting = false;
        l->backend->listen(l, i);
    }
}

void loop_submit(struct loop *l)
{
    if (l->backend->submit) l->backend->submit(l);
}

int loop_turn(struct loop *l, int timeout_ms)
{
    tell_gone(l);
    return l->backend->turn(l, timeout_ms);
}

void stream_open(struct loop *l, struct stream *s, int fd, void *owner)
{
    *s = (struct stream){.fd = fd, .owner = owner, .reading = true};
    l->backend->attach(l, s);
}

void stream_read(struct loop *l, struct stream *s, bool on)
{
    if (s->reading == on || s->closed) return;
    s->reading = on;
    l->backend->read(l, s);
}

void stream_send(struct loop *l, struct stream *s, struct buf *b)
{
    if (!b->len) return;
    if (s->closed) {
        b->len = 0;
        return;
    }
    if (likely(!s->out.len)) {
        struct buf spare = s->out;
        s->out = *b;
        *b = spare;
    } else {
        buf_add(&s->out, b->p, b->len);
        b->len = 0;
    }
    l->backend->flush(l, s);
}

size_t stream_unsent(const struct stream *s) { return s->out.len + s->flying.len - s->sent; }

uint64_t stream_acked(const struct stream *s)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    return getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 ? info.tcpi_bytes_acked : 0;
}

void stream_close(struct loop *l, struct stream *s)
{
    if (s->closed) return;
    s->closed = true;
    if (stream_unsent(s)) { /* bytes are dropped: the peer is told so by a reset, and the kernel keeps nothing for it */
        struct linger none = {.l_onoff = 1};
        setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    }
    l->backend->detach(l, s);
}

void stream_release(struct loop *l, struct stream *s)
{
    CHECK(!s->closed && !stream_unsent(s) && !s->sending);
    s->closed = s->released = true;
    l->backend->detach(l, s);
}

void loop_buf_put(struct loop *l, struct buf *b)
{
    if (b->p && l->n_spare < LOOP_SPARE_BUFS && b->cap <= LOOP_SPARE_BUF_MAX) {
        b->len = 0;
        l->spare[l->n_spare++] = *b;
    } else {
        mem_free(b->p);
    }
    *b = (struct buf){0};
}

void loop_buffer(struct loop *l, struct buf *b)
{
    if (!b->p && l->n_spare) *b = l->spare[--l->n_spare];
}

void loop_closed(struct loop *l, struct stream *s)
{
    s->next = l->gone;
    l->gone = s;
}

void chunk_unref(struct chunk *c)
{
    CHECK(c->refs > 0);
    if (--c->refs == 0) c->loop->backend->recycle(c->loop, c);
}
