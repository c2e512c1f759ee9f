/* The io_uring backend: multishot accept and receive into a ring of provided buffers, sends submitted together with the next wait: one system
 * call per turn, whatever happened in it. Needs Linux 6.0; loop_new falls back to epoll where the kernel or a sandbox says no. */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/backend.h"

enum {
    SQ_ENTRIES = 1024,
    CQ_ENTRIES = 8192,
    BUFFERS = 256, /* a power of two */
    BUFFER_BYTES = 16 * 1024,
    KEPT_MAX = BUFFERS * 3 / 4, /* buffers that owners may keep; what comes then is copied, so that there is always one to receive into */
    MEMORY_BYTES = BUFFERS * BUFFER_BYTES,
    GROUP = 0,
};

/* The kind of an operation travels in the low bits of its user data. */
enum { TAG_ACCEPT, TAG_KNOCK, TAG_RECEIVE, TAG_SEND, TAG_WAKE, TAG_CANCEL, TAG_MASK = 7 };

struct uring_chunk {
    struct chunk head;
    char *bytes;
    bool kept; /* by its owner beyond on_data */
};

struct uring_state {
    struct io_uring ring;
    struct io_uring_buf_ring *buffers;
    char *memory;
    struct uring_chunk chunks[BUFFERS];
    unsigned n_kept;
};

static struct uring_state *state_of(struct loop *l) { return l->state; }

static struct io_uring_sqe *sqe_for(struct loop *l, void *target, unsigned tag)
{
    struct io_uring *r = &state_of(l)->ring;
    struct io_uring_sqe *q = io_uring_get_sqe(r);
    if (unlikely(!q)) {
        io_uring_submit(r);
        q = io_uring_get_sqe(r);
        CHECK(q);
    }
    q->user_data = (uintptr_t)target | tag;
    return q;
}

/* The prep functions clear the user data: it is put back behind them. */
#define ARM(l, target, tag, prep, ...) \
    do { \
        struct io_uring_sqe *q_ = sqe_for(l, target, tag); \
        uint64_t data_ = q_->user_data; \
        prep(q_, __VA_ARGS__); \
        q_->user_data = data_; \
    } while (0)

static void arm_receive(struct loop *l, struct stream *s)
{
    struct io_uring_sqe *q = sqe_for(l, s, TAG_RECEIVE);
    uint64_t data = q->user_data;
    io_uring_prep_recv_multishot(q, s->fd, NULL, 0, 0);
    q->user_data = data;
    q->flags |= IOSQE_BUFFER_SELECT;
    q->buf_group = GROUP;
    s->armed = true;
    s->inflight++;
}

static void give_buffer(struct uring_state *st, unsigned id)
{
    io_uring_buf_ring_add(st->buffers, st->chunks[id].bytes, BUFFER_BYTES, (unsigned short)id, io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(st->buffers, 1);
}

static bool setup_ring(struct uring_state *st, char error[128])
{
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
                                .cq_entries = CQ_ENTRIES};
    int rc = io_uring_queue_init_params(SQ_ENTRIES, &st->ring, &p);
    if (rc == 0) return true;
    snprintf(error, 128, "io_uring: %s", strerror(-rc));
    return false;
}

static bool setup_buffers(struct loop *l, struct uring_state *st, char error[128])
{
    size_t bytes = BUFFERS * sizeof(struct io_uring_buf);
    void *ring = NULL;
    CHECK(posix_memalign(&ring, 4096, bytes) == 0);
    /* Mapped, not from the heap: few buffers are ever touched, and what is not touched should not count as used. */
    void *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && "out of memory");
    memset(ring, 0, bytes);
    st->buffers = ring;
    st->memory = memory;
    struct io_uring_buf_reg reg = {.ring_addr = (uintptr_t)ring, .ring_entries = BUFFERS, .bgid = GROUP};
    int rc = io_uring_register_buf_ring(&st->ring, &reg, 0);
    if (rc) {
        snprintf(error, 128, "io_uring buffer ring: %s", strerror(-rc));
        return false;
    }
    io_uring_buf_ring_init(st->buffers);
    for (unsigned i = 0; i < BUFFERS; i++) {
        st->chunks[i] = (struct uring_chunk){.head.loop = l, .bytes = st->memory + (size_t)i * BUFFER_BYTES};
        give_buffer(st, i);
    }
    return true;
}

static void *uring_open(struct loop *l, char error[128])
{
    struct uring_state *st = mem_zalloc(sizeof *st);
    if (!setup_ring(st, error)) {
        mem_free(st);
        return NULL;
    }
    if (!setup_buffers(l, st, error)) {
        io_uring_queue_exit(&st->ring);
        free(st->buffers);
        munmap(st->memory, MEMORY_BYTES);
        mem_free(st);
        return NULL;
    }
    l->state = st;
    ARM(l, NULL, TAG_WAKE, io_uring_prep_poll_multishot, l->wake_fd, POLLIN);
    return st;
}

static void uring_close(struct loop *l)
{
    struct uring_state *st = state_of(l);
    io_uring_queue_exit(&st->ring);
    free(st->buffers);
    munmap(st->memory, MEMORY_BYTES);
    mem_free(st);
}

static void uring_listen(struct loop *l, int i)
{
    ARM(l, (void *)((uintptr_t)i << 3), TAG_ACCEPT, io_uring_prep_multishot_accept, l->listeners[i].fd, NULL, NULL,
        SOCK_NONBLOCK | SOCK_CLOEXEC);
}

/* The kernel refuses to accept before it looks whether anybody is there if no descriptor is free: then we wait for somebody first. */
static void wait_for_knock(struct loop *l, int i)
{
    ARM(l, (void *)((uintptr_t)i << 3), TAG_KNOCK, io_uring_prep_poll_add, l->listeners[i].fd, POLLIN);
}

static void uring_unlisten(struct loop *l, int i)
{
    ARM(l, NULL, TAG_CANCEL, io_uring_prep_cancel64, (uint64_t)i << 3 | TAG_KNOCK, 0);
    ARM(l, NULL, TAG_CANCEL, io_uring_prep_cancel64, (uint64_t)i << 3 | TAG_ACCEPT, 0);
    io_uring_submit(&state_of(l)->ring);
}

static void uring_attach(struct loop *l, struct stream *s) { arm_receive(l, s); }

static void uring_read(struct loop *l, struct stream *s)
{
    if (s->reading && !s->armed) arm_receive(l, s);
    else if (!s->reading && s->armed)
        ARM(l, NULL, TAG_CANCEL, io_uring_prep_cancel64, (uint64_t)(uintptr_t)s | TAG_RECEIVE, 0);
}

static void send_rest(struct loop *l, struct stream *s)
{
    ARM(l, s, TAG_SEND, io_uring_prep_send, s->fd, s->flying.p + s->sent, s->flying.len - s->sent, MSG_NOSIGNAL | MSG_WAITALL);
    s->sending = true;
    s->inflight++;
}

static void uring_flush(struct loop *l, struct stream *s)
{
    if (s->sending) return;
    struct buf empty = s->flying;
    s->flying = s->out;
    s->out = empty;
    s->sent = 0;
    send_rest(l, s);
}

static void forget_if_idle(struct loop *l, struct stream *s)
{
    if (!s->closed || s->inflight) return;
    if (!s->released) {
        close(s->fd);
        s->fd = -1;
    }
    loop_closed(l, s);
}

static void uring_detach(struct loop *l, struct stream *s)
{
    /* Ends what is under way; the stream goes when the last of it has come back. */
    if (!s->released) shutdown(s->fd, SHUT_RDWR);
    else if (s->armed) ARM(l, NULL, TAG_CANCEL, io_uring_prep_cancel64, (uint64_t)(uintptr_t)s | TAG_RECEIVE, 0);
    forget_if_idle(l, s);
}

static bool is_copy(const struct uring_state *st, const struct uring_chunk *c) { return c < st->chunks || c >= st->chunks + BUFFERS; }

static void uring_recycle(struct loop *l, struct chunk *chunk)
{
    struct uring_state *st = state_of(l);
    struct uring_chunk *c = (struct uring_chunk *)chunk;
    if (unlikely(is_copy(st, c))) {
        mem_free(c);
        return;
    }
    if (c->kept) st->n_kept--;
    c->kept = false;
    give_buffer(st, (unsigned)(c - st->chunks));
}

/* Clients that wait and tasks that are away keep their bytes for long. */
static struct uring_chunk *copy_chunk(struct loop *l, struct uring_chunk *c, size_t n)
{
    struct uring_chunk *copy = mem_alloc(sizeof *copy + n);
    *copy = (struct uring_chunk){.head = {.refs = 1, .loop = l}, .bytes = (char *)(copy + 1)};
    memcpy(copy->bytes, c->bytes, n);
    chunk_unref(&c->head);
    return copy;
}

static void hand_over(struct loop *l, struct stream *s, unsigned buffer, size_t n)
{
    struct uring_state *st = state_of(l);
    struct uring_chunk *c = &st->chunks[buffer];
    c->head.refs = 1;
    __atomic_store_n(&l->bytes_in, l->bytes_in + n, __ATOMIC_RELAXED);
    if (unlikely(st->n_kept >= KEPT_MAX)) c = copy_chunk(l, c, n);
    if (!s->closed) l->handler->on_data(l->ctx, s, &c->head, c->bytes, n);
    if (c->head.refs > 1 && !is_copy(st, c)) {
        c->kept = true;
        st->n_kept++;
    }
    chunk_unref(&c->head);
}

static void received(struct loop *l, struct stream *s, const struct io_uring_cqe *cqe)
{
    bool more = cqe->flags & IORING_CQE_F_MORE;
    if (!more) s->armed = false;
    else s->inflight++; /* the stream stays until we are done with it, even if the owner closes it */
    if (cqe->res > 0) {
        hand_over(l, s, cqe->flags >> IORING_CQE_BUFFER_SHIFT, (size_t)cqe->res);
    } else if (!s->closed && cqe->res != -ENOBUFS && cqe->res != -ECANCELED) {
        s->reading = false;
        l->handler->on_end(l->ctx, s, cqe->res ? cqe->res : s->failed);
    }
    s->inflight--;
    if (s->closed) {
        forget_if_idle(l, s);
    } else if (!s->armed && s->reading) {
        arm_receive(l, s); /* also after -ENOBUFS: no more than KEPT_MAX buffers are ever kept, so others are back by the end of the turn */
    }
}

/* True: its owner has something to do. */
static bool sent(struct loop *l, struct stream *s, int res)
{
    s->sending = false;
    s->inflight--;
    if (s->closed) {
        forget_if_idle(l, s);
        return true;
    }
    if (res < 0) {
        s->failed = res;
        s->sent = s->out.len = 0;
        loop_buf_put(l, &s->flying);
        shutdown(s->fd, SHUT_RDWR);
        if (!s->armed) l->handler->on_end(l->ctx, s, res); /* else the receive says so */
        return true;
    }
    __atomic_store_n(&l->bytes_out, l->bytes_out + (uint64_t)res, __ATOMIC_RELAXED);
    s->sent += (size_t)res;
    if (s->sent < s->flying.len) {
        send_rest(l, s);
        return false;
    }
    s->sent = 0;
    loop_buf_put(l, &s->flying);
    if (!s->out.len) return l->handler->on_drained(l->ctx, s);
    uring_flush(l, s);
    return false;
}

static void accepted(struct loop *l, int i, const struct io_uring_cqe *cqe)
{
    if (cqe->res >= 0) loop_accepted(l, l->listeners[i].tag, cqe->res);
    if (cqe->flags & IORING_CQE_F_MORE || l->listeners[i].fd < 0 || cqe->res == -ECANCELED) return;
    if (cqe->res == -EMFILE || cqe->res == -ENFILE) wait_for_knock(l, i);
    else uring_listen(l, i);
}

static void knocked(struct loop *l, int i, int res)
{
    if (l->listeners[i].fd < 0 || res == -ECANCELED) return;
    int fd = accept4(l->listeners[i].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        if (loop_refuse(l, i)) wait_for_knock(l, i);
        return;
    }
    if (fd >= 0) loop_accepted(l, l->listeners[i].tag, fd);
    uring_listen(l, i);
}

/* True: it is something for the owner. The poll of wake_fd tells of every write to it, so what it counts need not be read. */
static bool handle(struct loop *l, const struct io_uring_cqe *cqe)
{
    uintptr_t target = cqe->user_data & ~(uint64_t)TAG_MASK;
    switch (cqe->user_data & TAG_MASK) {
    case TAG_RECEIVE: received(l, (struct stream *)target, cqe); break;
    case TAG_SEND: return sent(l, (struct stream *)target, cqe->res);
    case TAG_ACCEPT: accepted(l, (int)(target >> 3), cqe); break;
    case TAG_KNOCK: knocked(l, (int)(target >> 3), cqe->res); break;
    case TAG_WAKE:
        if (!(cqe->flags & IORING_CQE_F_MORE)) ARM(l, NULL, TAG_WAKE, io_uring_prep_poll_multishot, l->wake_fd, POLLIN);
        break;
    default: break;
    }
    return true;
}

static void submit_and_wait(struct io_uring *r, int timeout_ms)
{
    struct io_uring_cqe *cqe;
    if (timeout_ms < 0) {
        io_uring_submit_and_wait(r, 1);
    } else if (timeout_ms == 0) {
        io_uring_submit_and_get_events(r);
    } else {
        struct __kernel_timespec ts = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000ll};
        io_uring_submit_and_wait_timeout(r, &cqe, 1, &ts, NULL);
    }
}

/* Handles what there is; gives how much that was. */
static unsigned reap(struct loop *l, bool *for_owner)
{
    struct io_uring *r = &state_of(l)->ring;
    struct io_uring_cqe *cqe;
    unsigned head, n = 0;
    io_uring_for_each_cqe(r, head, cqe)
    {
        *for_owner |= handle(l, cqe);
        n++;
    }
    io_uring_cq_advance(r, n);
    return n;
}

static void uring_submit(struct loop *l) { io_uring_submit(&state_of(l)->ring); }

/* Sends are usually over when they are submitted, which ends the wait: if that is all, it goes on. */
static int uring_turn(struct loop *l, int timeout_ms)
{
    bool for_owner = timeout_ms == 0;
    unsigned n = 0, more;
    do {
        submit_and_wait(&state_of(l)->ring, timeout_ms);
        more = reap(l, &for_owner);
        n += more;
    } while (more && !for_owner);
    return (int)n;
}

const struct backend backend_uring = {
    .name = "io_uring",
    .open = uring_open,
    .close = uring_close,
    .turn = uring_turn,
    .submit = uring_submit,
    .listen = uring_listen,
    .unlisten = uring_unlisten,
    .attach = uring_attach,
    .read = uring_read,
    .flush = uring_flush,
    .detach = uring_detach,
    .recycle = uring_recycle,
};
