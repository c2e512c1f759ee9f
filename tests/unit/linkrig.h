/* Nodes with real sockets on loopback in one process, driven turn by turn with a clock of the test's own; raw sockets that misbehave; and a wire between two nodes that can be
 * cut at any byte. */
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/le.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cluster/links.h"

enum { LINKRIG_NODES = 4, LINKRIG_STEP_MS = 5, LINKRIG_LONG_STEP_MS = 50, LINKRIG_ROUNDS = 4000 };

static const uint8_t linkrig_cluster[WIRE_CLUSTER_ID] = "a cluster of us";

struct linkrig_node {
    uint64_t id, incarnation;
    uint16_t port;
    int wake_fd;
    struct links *links; /* NULL: down */
    bool out_up[LINKRIG_NODES + 1], in_up[LINKRIG_NODES + 1];
    unsigned ups, downs, frames;
    uint64_t from[LINKRIG_NODES + 1];      /* the last number in a frame of this node */
    uint64_t received[LINKRIG_NODES + 1];  /* frames */
    int answer;                            /* of on_frame */
    bool hospitable;                       /* lets strangers in */
    uint64_t stranger;
    unsigned lanes;                        /* that were handed over; the last one: */
    uint64_t lane_peer;
    uint16_t lane;
    int lane_fd;
    struct wire_hello lane_greeting;
    struct slog log;
    struct links_options options;
};

struct linkrig {
    uint64_t now;
    uint32_t n;
    struct linkrig_node nodes[LINKRIG_NODES + 1]; /* by number, from 1 */
    enum loop_backend backend;
};

/* ---- calls */

/* Frames of the rig: a chunk whose offset counts up, and whose bytes follow from it. */
static inline void linkrig_add_frame(struct buf *out, uint64_t number, size_t bytes)
{
    char *p = mem_alloc(bytes);
    for (size_t i = 0; i < bytes; i++) p[i] = (char)(number * 31 + i);
    size_t frame = wire_begin(out, WIRE_SNAP_CHUNK, 0, 1);
    le_add_u64(out, number);
    buf_add(out, p, bytes);
    wire_end(out, frame);
    mem_free(p);
}

static int linkrig_on_frame(void *ctx, uint64_t from, const struct wire_frame *f)
{
    struct linkrig_node *n = ctx;
    n->frames++;
    if (n->answer < 0) return n->answer;
    CHECK(f->type == WIRE_SNAP_CHUNK && f->group == 1 && f->body.n >= 8 && from <= LINKRIG_NODES);
    uint64_t number = le_u64(f->body.p);
    for (size_t i = 8; i < f->body.n; i++) CHECK(f->body.p[i] == (char)(number * 31 + i - 8));
    CHECK(number > n->from[from]); /* lost at times, never late, never twice */
    n->from[from] = number;
    n->received[from]++;
    return 0;
}

static void linkrig_on_up(void *ctx, uint64_t peer, enum links_way way)
{
    struct linkrig_node *n = ctx;
    bool *up = way == LINKS_OUT ? &n->out_up[peer] : &n->in_up[peer];
    CHECK(!*up || way == LINKS_IN); /* a peer's connection may be replaced by its next one */
    *up = true;
    n->ups++;
}

static void linkrig_on_down(void *ctx, uint64_t peer, enum links_way way)
{
    struct linkrig_node *n = ctx;
    bool *up = way == LINKS_OUT ? &n->out_up[peer] : &n->in_up[peer];
    CHECK(*up);
    *up = false;
    n->downs++;
}

static bool linkrig_on_stranger(void *ctx, const struct wire_hello *hello)
{
    struct linkrig_node *n = ctx;
    n->stranger = hello->node;
    return n->hospitable;
}

static void linkrig_on_lane(void *ctx, uint64_t peer, uint16_t lane, int fd, struct slice greeting)
{
    struct linkrig_node *n = ctx;
    size_t used;
    const char *why;
    CHECK(wire_hello(greeting, &n->lane_greeting, &used, &why) == WIRE_OK && used == greeting.n);
    CHECK(n->in_up[peer]); /* with that one it ends */
    n->lane_peer = peer;
    n->lane = lane;
    n->lane_fd = fd;
    n->lanes++;
}

/* ---- nodes */

static inline void linkrig_start(struct linkrig *rig, uint64_t id)
{
    struct linkrig_node *n = &rig->nodes[id];
    struct links_calls calls = {n, linkrig_on_frame, linkrig_on_up, linkrig_on_down, linkrig_on_stranger, linkrig_on_lane};
    char address[32], error[128];
    snprintf(address, sizeof address, "127.0.0.1:%u", n->port);
    n->options.node = id;
    n->options.incarnation = ++n->incarnation;
    n->options.address = address;
    n->options.seed = id * 77 + n->incarnation;
    n->options.now = rig->now;
    n->options.wake_fd = n->wake_fd;
    n->options.backend = rig->backend;
    n->options.log = &n->log;
    memcpy(n->options.cluster, linkrig_cluster, WIRE_CLUSTER_ID);
    n->links = links_new(&n->options, &calls, error);
    CHECK(n->links && links_listen(n->links, address) == 0 && (!n->port || links_port(n->links) == n->port));
    if (!n->port) { /* the first start finds the port; its address is known from the next on */
        n->port = links_port(n->links);
        links_free(n->links);
        n->incarnation--;
        linkrig_start(rig, id);
    }
}

static inline void linkrig_stop(struct linkrig *rig, uint64_t id)
{
    struct linkrig_node *n = &rig->nodes[id];
    links_free(n->links);
    n->links = NULL;
    memset(n->out_up, 0, sizeof n->out_up);
    memset(n->in_up, 0, sizeof n->in_up);
    memset(n->from, 0, sizeof n->from);
}

static inline void linkrig_meet(struct linkrig *rig, uint64_t a, uint64_t b)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", rig->nodes[b].port);
    links_peer_put(rig->nodes[a].links, b, address);
}

static inline struct linkrig *linkrig_new(enum loop_backend backend, uint32_t n)
{
    struct linkrig *rig = mem_zalloc(sizeof *rig);
    rig->backend = backend;
    rig->n = n;
    rig->now = 1000;
    for (uint64_t id = 1; id <= n; id++) {
        rig->nodes[id].id = id;
        rig->nodes[id].wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        CHECK(slog_open(&rig->nodes[id].log, "/dev/null", SLOG_TEXT, SLOG_VERBOSE) == 0);
        linkrig_start(rig, id);
    }
    return rig;
}

static inline void linkrig_meet_all(struct linkrig *rig)
{
    for (uint64_t a = 1; a <= rig->n; a++)
        for (uint64_t b = 1; b <= rig->n; b++)
            if (a != b) linkrig_meet(rig, a, b);
}

static inline void linkrig_free(struct linkrig *rig)
{
    for (uint64_t id = 1; id <= rig->n; id++) {
        links_free(rig->nodes[id].links);
        close(rig->nodes[id].wake_fd);
        slog_close(&rig->nodes[id].log);
    }
    mem_free(rig);
}

/* One turn of every node after this time; the first one waits a moment, so that the kernel gets its work done. */
static inline void linkrig_turn_after(struct linkrig *rig, uint64_t ms)
{
    int wait_ms = 1;
    rig->now += ms;
    for (uint64_t id = 1; id <= rig->n; id++) {
        struct links *l = rig->nodes[id].links;
        if (!l) continue;
        links_turn(l, wait_ms);
        links_tick(l, rig->now);
        links_flush(l);
        wait_ms = 0;
    }
}

static inline void linkrig_turn(struct linkrig *rig) { linkrig_turn_after(rig, LINKRIG_STEP_MS); }

static inline void linkrig_run(struct linkrig *rig, uint64_t ms)
{
    for (uint64_t end = rig->now + ms; rig->now < end;) linkrig_turn_after(rig, ms < 1000 ? LINKRIG_STEP_MS : LINKRIG_LONG_STEP_MS);
}

#define LINKRIG_UNTIL(rig, condition) \
    do { \
        unsigned rounds_ = 0; \
        while (!(condition)) { \
            linkrig_turn(rig); \
            if (++rounds_ > LINKRIG_ROUNDS) fail_msg("never: %s", #condition); \
        } \
    } while (0)

static inline struct links_stats linkrig_stats(struct linkrig *rig, uint64_t a, uint64_t b)
{
    struct links_stats s;
    CHECK(links_stats(rig->nodes[a].links, b, &s));
    return s;
}

static inline struct links_totals linkrig_totals(struct linkrig *rig, uint64_t id)
{
    struct links_totals t;
    links_totals(rig->nodes[id].links, &t);
    return t;
}

static inline bool linkrig_send(struct linkrig *rig, uint64_t a, uint64_t b, uint64_t number, size_t bytes)
{
    struct buf frame = {0};
    linkrig_add_frame(&frame, number, bytes);
    bool queued = links_send(rig->nodes[a].links, b, buf_slice(&frame));
    buf_fini(&frame);
    return queued;
}

/* ---- raw sockets */

static inline struct sockaddr_in linkrig_loopback(uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline int linkrig_dial(uint16_t port)
{
    struct sockaddr_in a = linkrig_loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
    return fd;
}

static inline int linkrig_listener(uint16_t *port)
{
    struct sockaddr_in a = linkrig_loopback(0);
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 64) == 0 && getsockname(fd, (struct sockaddr *)&a, &n) == 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static inline void linkrig_write(int fd, struct slice bytes) { CHECK(send(fd, bytes.p, bytes.n, MSG_NOSIGNAL) == (ssize_t)bytes.n); }

static inline struct wire_hello linkrig_hello(uint64_t node, uint64_t to)
{
    struct wire_hello h = {.version = WIRE_VERSION, .oldest = WIRE_VERSION_OLDEST, .node = node, .to = to, .incarnation = 1, .address = "127.0.0.1:9"};
    memcpy(h.cluster, linkrig_cluster, WIRE_CLUSTER_ID);
    return h;
}

static inline void linkrig_write_hello(int fd, struct wire_hello h)
{
    struct buf b = {0};
    wire_add_hello(&b, &h);
    linkrig_write(fd, buf_slice(&b));
    buf_fini(&b);
}

/* Whether the other side has closed, after what it sent; what is read is dropped. */
static inline bool linkrig_closed(int fd)
{
    char bytes[4096];
    ssize_t n;
    while ((n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
    }
    return n == 0 || (errno != EAGAIN && errno != EINTR);
}

/* ---- a wire that can be cut */

struct linkrig_wire {
    int listener, near, far; /* near: from the node that calls */
    uint16_t port, to;
    unsigned cuts;
};

static inline void linkrig_wire_open(struct linkrig_wire *w, uint16_t to)
{
    *w = (struct linkrig_wire){.near = -1, .far = -1, .to = to};
    w->listener = linkrig_listener(&w->port);
}

static inline void linkrig_wire_cut(struct linkrig_wire *w)
{
    if (w->near < 0) return;
    close(w->near);
    close(w->far);
    w->near = w->far = -1;
    w->cuts++;
}

static inline void linkrig_wire_close(struct linkrig_wire *w)
{
    linkrig_wire_cut(w);
    close(w->listener);
}

/* Carries at most `most` bytes each way. False: an end has closed. */
static inline bool linkrig_wire_carry_one(int from, int to, size_t most)
{
    char bytes[65536];
    ssize_t n = recv(from, bytes, most < sizeof bytes ? most : sizeof bytes, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    for (ssize_t at = 0; at < n;) { /* a node that does not read would make us wait: the rig's nodes do */
        ssize_t sent = send(to, bytes + at, (size_t)(n - at), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) return false;
        at += sent;
    }
    return n > 0;
}

static inline void linkrig_wire_carry(struct linkrig_wire *w, size_t most)
{
    if (w->near < 0) {
        w->near = accept4(w->listener, NULL, NULL, SOCK_CLOEXEC);
        if (w->near < 0) return;
        w->far = linkrig_dial(w->to);
    }
    if (!linkrig_wire_carry_one(w->near, w->far, most) || !linkrig_wire_carry_one(w->far, w->near, most)) linkrig_wire_cut(w);
}
