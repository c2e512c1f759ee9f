/* The limit of the socket path: a server that stores nothing. It finds where each command ends and answers GET with a
 * prebuilt value, MGET with as many as there are keys, everything else with +OK; one write per read. What a real server
 * loses against it, in throughput and in CPU per operation, is what its own work costs.
 *
 * N threads, each with its own SO_REUSEPORT listener on 127.0.0.1 and its own loop, on epoll or io_uring.
 *
 * Requests are RESP arrays. Their lengths are followed, so payloads may hold any bytes and a read may end anywhere.
 * A connection that sends anything else is closed. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <signal.h>
#include <unistd.h>

enum {
    HEAD_BYTES = 64,         /* room in front of a read for the carried start of a line */
    READ_BYTES = 64 * 1024,  /* one epoll read */
    RING_BUFFERS = 1024,     /* a power of two: receive buffers of one ring */
    RING_BUFFER_BYTES = 16 * 1024,
    VERB_MAX = 32,
};

struct settings {
    uint16_t port;
    int threads;
    size_t value_bytes;
    bool uring;
    char *value; /* "$256\r\nxxx...\r\n" */
    size_t value_len;
};

struct out {
    char *p;
    size_t len, cap;
};

struct conn {
    int fd;
    /* Where we are in the request: */
    int64_t args_left;    /* arguments not yet begun; 0: between requests */
    int64_t argc;
    size_t skip;          /* bytes of the current argument, with its line end, still to come */
    char verb[2];         /* first letters of the command, upper case */
    char head[HEAD_BYTES];
    size_t carried;       /* bytes of an unfinished line, in head */
    /* What waits to be sent: */
    struct out out;
    size_t sent;
    struct out next;      /* io_uring: replies that came up while `out` is in flight */
    bool sending, receiving, closing;
};

static void die(const char *what, int error)
{
    fprintf(stderr, "limit: %s: %s\n", what, strerror(error));
    exit(1);
}

static void *allocate(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (!p) die("memory", ENOMEM);
    return p;
}

/* ---- requests in, replies out */

static void out_add(struct out *o, const char *p, size_t n)
{
    if (o->cap - o->len < n) {
        o->cap = (o->cap + n) * 2;
        o->p = realloc(o->p, o->cap);
        if (!o->p) die("memory", ENOMEM);
    }
    memcpy(o->p + o->len, p, n);
    o->len += n;
}

static void reply(const struct settings *s, const struct conn *c, struct out *o)
{
    char head[32];
    if (c->verb[0] == 'G') {
        out_add(o, s->value, s->value_len);
    } else if (c->verb[0] == 'M' && c->verb[1] == 'G') {
        out_add(o, head, (size_t)snprintf(head, sizeof head, "*%lld\r\n", (long long)c->argc - 1));
        for (int64_t i = 1; i < c->argc; i++) out_add(o, s->value, s->value_len);
    } else {
        out_add(o, "+OK\r\n", 5);
    }
}

/* Reads "<sign>digits\r\n" at p. Gives its length, 0 if the line is unfinished, -1 if it is no such line. */
static int number_line(const char *p, const char *end, char sign, int64_t *value)
{
    const char *q = p + 1;
    int64_t v = 0;
    if (*p != sign) return -1;
    while (q < end && *q >= '0' && *q <= '9' && q - p < 12) v = v * 10 + (*q++ - '0');
    if (end - q < 2) return q < end && *q != '\r' ? -1 : 0;
    if (q == p + 1 || q[0] != '\r' || q[1] != '\n') return -1;
    *value = v;
    return (int)(q + 2 - p);
}

/* Takes the start of a request, or of an argument. The verb is taken together with its length line, so that it is never split.
 * Gives the bytes taken, 0 if they are unfinished, -1 if they are not RESP. */
static int take_line(struct conn *c, const char *p, const char *end)
{
    int64_t n;
    int len;
    if (c->args_left == 0) {
        len = number_line(p, end, '*', &c->argc);
        if (len > 0) c->args_left = c->argc;
        return len > 0 && c->argc < 1 ? -1 : len;
    }
    len = number_line(p, end, '$', &n);
    if (len <= 0) return len;
    if (c->args_left == c->argc) {
        if (n < 1 || n > VERB_MAX) return -1;
        if (end - (p + len) < n) return 0;
        c->verb[0] = (char)(p[len] & ~0x20);
        c->verb[1] = n > 1 ? (char)(p[len + 1] & ~0x20) : 0;
    }
    c->args_left--;
    c->skip = (size_t)n + 2;
    return len;
}

/* Follows the requests in [p, p + n) and appends a reply for each that ends there. p has HEAD_BYTES of room in front.
 * False: not RESP. */
static bool answer(const struct settings *s, struct conn *c, char *p, size_t n, struct out *o)
{
    const char *end = p + n;
    if (c->carried) {
        p -= c->carried;
        memcpy(p, c->head, c->carried);
        c->carried = 0;
    }
    for (const char *at = p; at < end;) {
        if (c->skip) {
            size_t step = c->skip < (size_t)(end - at) ? c->skip : (size_t)(end - at);
            at += step;
            c->skip -= step;
            if (c->skip == 0 && c->args_left == 0) reply(s, c, o);
            continue;
        }
        int len = take_line(c, at, end);
        if (len < 0 || (len == 0 && end - at > HEAD_BYTES)) return false;
        if (len == 0) {
            c->carried = (size_t)(end - at);
            memcpy(c->head, at, c->carried);
            break;
        }
        at += len;
    }
    return true;
}

/* ---- connections */

static int listen_loopback(uint16_t port)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0) die("socket", errno);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 1024)) die("listen", errno);
    return fd;
}

static struct conn *conn_new(int fd)
{
    int one = 1;
    struct conn *c = allocate(sizeof *c);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    return c;
}

static void conn_free(struct conn *c)
{
    close(c->fd);
    free(c->out.p);
    free(c->next.p);
    free(c);
}

/* ---- epoll */

/* Sends what waits. While some of it stays, the connection waits for room instead of requests. False: the peer is gone. */
static bool flush(int ep, struct conn *c)
{
    bool waited = c->sending;
    ssize_t w = send(c->fd, c->out.p + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);
    if (w < 0 && errno != EAGAIN) return false;
    if (w > 0) c->sent += (size_t)w;
    c->sending = c->sent < c->out.len;
    if (!c->sending) c->sent = c->out.len = 0;
    if (c->sending != waited) {
        struct epoll_event ev = {.events = c->sending ? EPOLLOUT : EPOLLIN, .data.ptr = c};
        epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
    }
    return true;
}

static bool epoll_serve(const struct settings *s, int ep, struct conn *c, char *room)
{
    if (c->sending) return flush(ep, c);
    ssize_t n = recv(c->fd, room, READ_BYTES, 0);
    if (n <= 0) return n < 0 && errno == EAGAIN;
    if (!answer(s, c, room, (size_t)n, &c->out)) return false;
    return c->out.len == 0 || flush(ep, c);
}

static void *epoll_loop(void *arg)
{
    const struct settings *s = arg;
    int ep = epoll_create1(EPOLL_CLOEXEC), listener = listen_loopback(s->port);
    struct epoll_event ev = {.events = EPOLLIN}, events[256];
    char *block = allocate(HEAD_BYTES + READ_BYTES);
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
    for (;;) {
        int n = epoll_wait(ep, events, 256, -1);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (c) {
                if (!epoll_serve(s, ep, c, block + HEAD_BYTES)) conn_free(c);
                continue;
            }
            int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd < 0) continue;
            ev = (struct epoll_event){.events = EPOLLIN, .data.ptr = conn_new(fd)};
            epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
        }
    }
    return NULL;
}

/* ---- io_uring: multishot accept, multishot receive from a ring of buffers, one send per connection in flight; all that
 * a turn produced is submitted with the wait for the next. */

enum tag { TAG_ACCEPT, TAG_RECV, TAG_SEND }; /* in the low bits of a connection's address */

struct uring {
    const struct settings *settings;
    struct io_uring ring;
    struct io_uring_buf_ring *buffers;
    char *pool;
    int listener;
    int returned; /* buffers given back this turn, not yet published */
};

static struct io_uring_sqe *uring_sqe(struct uring *u)
{
    struct io_uring_sqe *e = io_uring_get_sqe(&u->ring);
    if (!e) {
        io_uring_submit(&u->ring);
        e = io_uring_get_sqe(&u->ring);
        if (!e) die("submission queue", EBUSY);
    }
    return e;
}

static void uring_accept(struct uring *u)
{
    struct io_uring_sqe *e = uring_sqe(u);
    io_uring_prep_multishot_accept(e, u->listener, NULL, NULL, SOCK_CLOEXEC);
    e->user_data = TAG_ACCEPT;
}

static void uring_recv(struct uring *u, struct conn *c)
{
    struct io_uring_sqe *e = uring_sqe(u);
    io_uring_prep_recv_multishot(e, c->fd, NULL, 0, 0);
    e->flags |= IOSQE_BUFFER_SELECT;
    e->buf_group = 0;
    e->user_data = (uint64_t)(uintptr_t)c | TAG_RECV;
    c->receiving = true;
}

static void uring_send(struct uring *u, struct conn *c)
{
    struct io_uring_sqe *e = uring_sqe(u);
    io_uring_prep_send(e, c->fd, c->out.p + c->sent, c->out.len - c->sent, MSG_NOSIGNAL | MSG_WAITALL);
    e->user_data = (uint64_t)(uintptr_t)c | TAG_SEND;
    c->sending = true;
}

static char *uring_buffer(struct uring *u, int id)
{
    return u->pool + (size_t)id * (HEAD_BYTES + RING_BUFFER_BYTES) + HEAD_BYTES;
}

static void uring_give_back(struct uring *u, int id)
{
    io_uring_buf_ring_add(u->buffers, uring_buffer(u, id), RING_BUFFER_BYTES, (unsigned short)id,
                          io_uring_buf_ring_mask(RING_BUFFERS), u->returned++);
}

static void uring_received(struct uring *u, struct conn *c, const struct io_uring_cqe *cqe)
{
    c->receiving = cqe->flags & IORING_CQE_F_MORE;
    if (cqe->res > 0) {
        int id = (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
        struct out *o = c->sending ? &c->next : &c->out;
        if (!c->closing && !answer(u->settings, c, uring_buffer(u, id), (size_t)cqe->res, o)) {
            c->closing = true;
            shutdown(c->fd, SHUT_RDWR);
        }
        uring_give_back(u, id);
        if (!c->sending && c->out.len) uring_send(u, c);
    } else if (cqe->res != -ENOBUFS) {
        c->closing = true;
    }
    if (!c->receiving && !c->closing) uring_recv(u, c);
}

static void uring_sent(struct uring *u, struct conn *c, int n)
{
    c->sending = false;
    if (n < 0) {
        c->closing = true;
        shutdown(c->fd, SHUT_RDWR);
        return;
    }
    c->sent += (size_t)n;
    if (c->sent == c->out.len) {
        struct out empty = c->out;
        c->out = c->next;
        c->next = empty;
        c->next.len = c->sent = 0;
    }
    if (c->out.len) uring_send(u, c);
}

static void uring_handle(struct uring *u, const struct io_uring_cqe *cqe)
{
    struct conn *c = (struct conn *)(uintptr_t)(cqe->user_data & ~3ull);
    switch ((enum tag)(cqe->user_data & 3)) {
    case TAG_ACCEPT:
        if (cqe->res >= 0) uring_recv(u, conn_new(cqe->res));
        if (!(cqe->flags & IORING_CQE_F_MORE)) uring_accept(u);
        return;
    case TAG_RECV: uring_received(u, c, cqe); break;
    case TAG_SEND: uring_sent(u, c, cqe->res); break;
    }
    if (c->closing && !c->sending && !c->receiving) conn_free(c);
}

static void uring_open(struct uring *u)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
        .cq_entries = 8192,
    };
    struct io_uring_buf_reg reg = {.ring_entries = RING_BUFFERS};
    int rc = io_uring_queue_init_params(1024, &u->ring, &params);
    if (rc) die("io_uring", -rc);
    if (posix_memalign((void **)&u->buffers, 4096, RING_BUFFERS * sizeof(struct io_uring_buf))) die("memory", ENOMEM);
    reg.ring_addr = (uintptr_t)u->buffers;
    rc = io_uring_register_buf_ring(&u->ring, &reg, 0);
    if (rc) die("io_uring buffers", -rc);
    io_uring_buf_ring_init(u->buffers);
    u->pool = allocate((size_t)RING_BUFFERS * (HEAD_BYTES + RING_BUFFER_BYTES));
    for (int i = 0; i < RING_BUFFERS; i++) uring_give_back(u, i);
    io_uring_buf_ring_advance(u->buffers, u->returned);
    u->listener = listen_loopback(u->settings->port);
    uring_accept(u);
}

static void *uring_loop(void *arg)
{
    struct uring u = {.settings = arg};
    uring_open(&u);
    for (;;) {
        struct io_uring_cqe *cqe;
        unsigned head, n = 0;
        io_uring_submit_and_wait(&u.ring, 1);
        u.returned = 0;
        io_uring_for_each_cqe(&u.ring, head, cqe)
        {
            uring_handle(&u, cqe);
            n++;
        }
        io_uring_cq_advance(&u.ring, n);
        io_uring_buf_ring_advance(u.buffers, u.returned);
    }
    return NULL;
}

/* ---- program */

static const char usage[] =
    "limit: answers every command and stores nothing: the limit of the socket path\n"
    "  --port P          listen on 127.0.0.1:P\n"
    "  --threads N       loops, 1 to 64 (2)\n"
    "  --io epoll|uring  how they wait (epoll)\n"
    "  --value-bytes N   length of GET's value, up to 1048576 (256)\n";

static long number(const char *text, long min, long max, const char *name)
{
    char *end;
    long v = strtol(text, &end, 10);
    if (*text && !*end && v >= min && v <= max) return v;
    fprintf(stderr, "limit: --%s needs a number from %ld to %ld\n", name, min, max);
    exit(2);
}

static void read_options(int argc, char **argv, struct settings *s)
{
    static const struct option options[] = {
        {"port", 1, 0, 'p'}, {"threads", 1, 0, 't'}, {"io", 1, 0, 'i'}, {"value-bytes", 1, 0, 'v'}, {"help", 0, 0, 'h'}, {0},
    };
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == 'p') s->port = (uint16_t)number(optarg, 1, 65535, "port");
        else if (o == 't') s->threads = (int)number(optarg, 1, 64, "threads");
        else if (o == 'v') s->value_bytes = (size_t)number(optarg, 0, 1 << 20, "value-bytes");
        else if (o == 'i' && (!strcmp(optarg, "uring") || !strcmp(optarg, "epoll"))) s->uring = *optarg == 'u';
        else {
            fputs(usage, o == 'h' ? stdout : stderr);
            exit(o == 'h' ? 0 : 2);
        }
    }
    if (s->port && optind == argc) return;
    fputs(usage, stderr);
    exit(2);
}

static void build_value(struct settings *s)
{
    s->value = allocate(s->value_bytes + 32);
    int head = sprintf(s->value, "$%zu\r\n", s->value_bytes);
    memset(s->value + head, 'x', s->value_bytes);
    memcpy(s->value + head + s->value_bytes, "\r\n", 2);
    s->value_len = (size_t)head + s->value_bytes + 2;
}

int main(int argc, char **argv)
{
    struct settings s = {.threads = 2, .value_bytes = 256};
    pthread_t threads[64];
    read_options(argc, argv, &s);
    build_value(&s);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a benchmark that dies leaves no server behind */
    for (int i = 0; i < s.threads; i++) {
        int rc = pthread_create(&threads[i], NULL, s.uring ? uring_loop : epoll_loop, &s);
        if (rc) die("thread", rc);
    }
    for (int i = 0; i < s.threads; i++) pthread_join(threads[i], NULL);
}
