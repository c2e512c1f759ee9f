/* The epoll backend: level-triggered, receives into shared chunks, sends at once and waits for room only when the kernel has none. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/backend.h"

enum {
    EVENTS = 256,
    CHUNK_BYTES = 64 * 1024,
    RECEIVE_MIN = 16 * 1024, /* a chunk with less room is not used for another receive */
    SPARE_CHUNKS = 64,
};

struct epoll_chunk {
    struct chunk head;
    uint32_t used;
    char bytes[CHUNK_BYTES];
};

struct epoll_state {
    int fd;
    struct epoll_chunk *current; /* receives go here; holds one reference */
    struct epoll_chunk *spare;
    int n_spare;
    struct epoll_event events[EVENTS];
    int n_events, at; /* the turn's events: a stream that closes takes its own out */
};

static struct epoll_state *state_of(struct loop *l) { return l->state; }

static void epoll_set(struct loop *l, int op, int fd, uint32_t events, void *tag)
{
    struct epoll_event ev = {.events = events, .data.ptr = tag};
    int rc = epoll_ctl(state_of(l)->fd, op, fd, &ev);
    CHECK(rc == 0 || (op == EPOLL_CTL_MOD && errno == ENOENT)); /* taken out when its peer was gone */
}

static void *epoll_open(struct loop *l, char error[128])
{
    struct epoll_state *st = mem_zalloc(sizeof *st);
    st->fd = epoll_create1(EPOLL_CLOEXEC);
    if (st->fd < 0) {
        snprintf(error, 128, "epoll_create1: %s", strerror(errno));
        mem_free(st);
        return NULL;
    }
    l->state = st;
    epoll_set(l, EPOLL_CTL_ADD, l->wake_fd, EPOLLIN, &l->wake_fd);
    return st;
}

static void epoll_close(struct loop *l)
{
    struct epoll_state *st = state_of(l);
    mem_free(st->current);
    while (st->spare) {
        struct epoll_chunk *c = st->spare;
        st->spare = c->head.next;
        mem_free(c);
    }
    close(st->fd);
    mem_free(st);
}

static void epoll_listen(struct loop *l, int i) { epoll_set(l, EPOLL_CTL_ADD, l->listeners[i].fd, EPOLLIN, &l->listeners[i]); }

static void epoll_unlisten(struct loop *l, int i) { epoll_ctl(state_of(l)->fd, EPOLL_CTL_DEL, l->listeners[i].fd, NULL); }

/* armed: registered for input; sending: registered for output. */
static void epoll_interest(struct loop *l, struct stream *s, bool in, bool out)
{
    if (s->armed == in && s->sending == out) return;
    s->armed = in;
    s->sending = out;
    epoll_set(l, EPOLL_CTL_MOD, s->fd, (in ? EPOLLIN : 0) | (out ? EPOLLOUT : 0), s);
}

static void epoll_attach(struct loop *l, struct stream *s)
{
    s->armed = true;
    epoll_set(l, EPOLL_CTL_ADD, s->fd, EPOLLIN, s);
}

static void epoll_read(struct loop *l, struct stream *s) { epoll_interest(l, s, s->reading, s->sending); }

static void epoll_flush(struct loop *l, struct stream *s)
{
    if (s->sending) return;
    ssize_t n = send(s->fd, s->out.p + s->sent, s->out.len - s->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) n = 0;
        else {
            s->failed = -errno; /* the receive side will say so */
            s->out.len = s->sent = 0;
            shutdown(s->fd, SHUT_RDWR);
            return;
        }
    }
    __atomic_store_n(&l->bytes_out, l->bytes_out + (uint64_t)n, __ATOMIC_RELAXED);
    s->sent += (size_t)n;
    if (s->sent < s->out.len) {
        epoll_interest(l, s, s->armed, true);
        return;
    }
    s->sent = 0;
    loop_buf_put(l, &s->out);
}

static void epoll_detach(struct loop *l, struct stream *s)
{
    struct epoll_state *st = state_of(l);
    for (int i = st->at; i < st->n_events; i++)
        if (st->events[i].data.ptr == s) st->events[i].data.ptr = NULL;
    if (s->released) {
        epoll_ctl(st->fd, EPOLL_CTL_DEL, s->fd, NULL);
    } else {
        close(s->fd);
        s->fd = -1;
    }
    loop_closed(l, s);
}

static void epoll_recycle(struct loop *l, struct chunk *c)
{
    struct epoll_state *st = state_of(l);
    if (st->n_spare == SPARE_CHUNKS) {
        mem_free(c);
        return;
    }
    c->next = st->spare;
    st->spare = (struct epoll_chunk *)c;
    st->n_spare++;
}

static struct epoll_chunk *chunk_with_room(struct loop *l)
{
    struct epoll_state *st = state_of(l);
    struct epoll_chunk *c = st->current;
    if (c && c->head.refs == 1) c->used = 0; /* nobody kept anything of it */
    if (c && CHUNK_BYTES - c->used >= RECEIVE_MIN) return c;
    if (c) chunk_unref(&c->head);
    c = st->spare;
    if (c) {
        st->spare = c->head.next;
        st->n_spare--;
    } else {
        c = mem_alloc(sizeof *c);
    }
    c->head = (struct chunk){.refs = 1, .loop = l};
    c->used = 0;
    return st->current = c;
}

static void receive(struct loop *l, struct stream *s)
{
    struct epoll_chunk *c = chunk_with_room(l);
    char *p = c->bytes + c->used;
    ssize_t n = recv(s->fd, p, CHUNK_BYTES - c->used, MSG_DONTWAIT);
    if (n > 0) {
        c->used = (c->used + (uint32_t)n + 15) & ~15u;
        if (c->used > CHUNK_BYTES) c->used = CHUNK_BYTES;
        __atomic_store_n(&l->bytes_in, l->bytes_in + (uint64_t)n, __ATOMIC_RELAXED);
        l->handler->on_data(l->ctx, s, &c->head, p, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        int error = n == 0 ? s->failed : -errno;
        s->reading = false;
        epoll_interest(l, s, false, s->sending);
        l->handler->on_end(l->ctx, s, error);
    }
}

static void accept_all(struct loop *l, int listener)
{
    const struct loop_listener *ls = &l->listeners[listener];
    for (int i = 0; i < 64; i++) {
        int fd = accept4(ls->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && !loop_refuse(l, listener)) epoll_unlisten(l, listener);
        if (fd < 0) return;
        loop_accepted(l, ls->tag, fd);
    }
}

static void handle(struct loop *l, struct epoll_event *ev)
{
    void *tag = ev->data.ptr;
    if (tag == &l->wake_fd) {
        uint64_t count;
        ssize_t n = read(l->wake_fd, &count, sizeof count);
        (void)n;
        return;
    }
    if ((char *)tag >= (char *)l->listeners && (char *)tag < (char *)(l->listeners + LOOP_LISTENERS)) {
        accept_all(l, (int)((struct loop_listener *)tag - l->listeners));
        return;
    }
    struct stream *s = tag;
    if (ev->events & EPOLLOUT && s->sending) {
        epoll_interest(l, s, s->armed, false);
        if (s->out.len) epoll_flush(l, s);
        if (!s->sending) l->handler->on_drained(l->ctx, s);
        if (s->closed) return;
    }
    if (ev->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        if (s->armed) receive(l, s);
        else if (ev->events & (EPOLLHUP | EPOLLERR)) { /* gone while not reading: say so once */
            epoll_ctl(state_of(l)->fd, EPOLL_CTL_DEL, s->fd, NULL);
            l->handler->on_end(l->ctx, s, -ECONNRESET);
        }
    }
}

static int epoll_turn(struct loop *l, int timeout_ms)
{
    struct epoll_state *st = state_of(l);
    int n = epoll_wait(st->fd, st->events, EVENTS, timeout_ms);
    st->n_events = n < 0 ? 0 : n;
    for (st->at = 0; st->at < st->n_events; st->at++)
        if (st->events[st->at].data.ptr) handle(l, &st->events[st->at]);
    st->at = st->n_events = 0;
    return n;
}

const struct backend backend_epoll = {
    .name = "epoll",
    .open = epoll_open,
    .close = epoll_close,
    .turn = epoll_turn,
    .listen = epoll_listen,
    .unlisten = epoll_unlisten,
    .attach = epoll_attach,
    .read = epoll_read,
    .flush = epoll_flush,
    .detach = epoll_detach,
    .recycle = epoll_recycle,
};
