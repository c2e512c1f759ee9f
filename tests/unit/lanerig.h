/* The nodes of relayrig.h with lanes between their fronts, on real sockets.
 *
 *     struct lanerig s = lanerig_begin();   all lanes are up
 *     relayrig_ask(s.c, ...);
 *     relayrig_go(s.c);
 *     lanerig_settle(&s);                   until every client is answered
 *     LANERIG_UNTIL(&s, condition);         likewise, but Raft commits and confirms nothing meanwhile
 *     lanerig_end(&s); */
#pragma once
#include "relayrig.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "server/relay_lane.h"

static const uint8_t lanerig_cluster[WIRE_CLUSTER_ID] = "a cluster of us";

enum { LANERIG_CALLERS = 64, LANERIG_PATIENCE_MS = 120 * 1000 };

/* The nodes, and in place of their links: a listener each, whose callers are handed to the relay. */
struct lanerig {
    struct relayrig *r;
    struct relayrig_client *c; /* of node 0 */
    int listeners[RELAYRIG_NODES];
    struct linksecret secret; /* of all nodes, if there is one */
    struct {
        uint32_t node;
        int fd;
        bool challenged;
        struct wire_hello theirs;
    } callers[LANERIG_CALLERS]; /* that have not greeted yet */
    uint32_t n_callers;
};

/* ---- event loops, in which every stream is a lane */

static inline void lanerig_on_accept(void *ctx, int tag, int fd) { fail_msg("nobody listens here"); }
static inline void lanerig_on_data(void *ctx, struct stream *s, struct chunk *c, char *p, size_t n) { relay_lane_data(s->owner, slice_of(p, n)); }
static inline void lanerig_on_end(void *ctx, struct stream *s, int error) { relay_lane_ended(s->owner); }
static inline bool lanerig_on_drained(void *ctx, struct stream *s) { return false; }
static inline void lanerig_on_closed(void *ctx, struct stream *s) { relay_lane_closed(s->owner); }

static const struct loop_handler lanerig_handler = {lanerig_on_accept, lanerig_on_data, lanerig_on_end, lanerig_on_drained, lanerig_on_closed};

/* ---- callers */

static inline struct wire_hello lanerig_greeting_of(uint32_t node, uint64_t to)
{
    struct wire_hello h = {.version = WIRE_VERSION, .oldest = WIRE_VERSION_OLDEST, .node = node + 1, .to = to, .incarnation = 1, .address = "127.0.0.1:9", .lanes = RELAYRIG_FRONTS};
    memcpy(h.cluster, lanerig_cluster, WIRE_CLUSTER_ID);
    return h;
}

static const uint8_t lanerig_nonce[WIRE_PROOF_BYTES] = "one nonce is enough for a test";

static inline void lanerig_welcome(struct lanerig *s, uint32_t node, int fd, const struct wire_hello *theirs)
{
    struct wire_hello mine = lanerig_greeting_of(node, theirs->node);
    struct buf greeting = {0};
    assert_true(theirs->lane > 0 && theirs->to == node + 1);
    linkgreet_guard(&mine, s->secret.n);
    if (s->secret.n) linksecret_prove_called(&s->secret, theirs, &mine);
    wire_add_hello(&greeting, &mine);
    relay_lane(s->r->nodes[node].server.relay, theirs->node, (uint16_t)(theirs->lane - 1), fd, buf_slice(&greeting));
    buf_fini(&greeting);
}

/* Gives true if it is to prove the secret first. */
static inline bool lanerig_challenge(struct lanerig *s, uint32_t i)
{
    struct buf challenge = {0};
    if (!s->secret.n || s->callers[i].challenged) return false;
    s->callers[i].challenged = true;
    wire_add_proof(&challenge, WIRE_CHALLENGE, lanerig_nonce);
    assert_int_equal(send(s->callers[i].fd, challenge.p, challenge.len, MSG_NOSIGNAL), challenge.len);
    buf_fini(&challenge);
    return true;
}

/* What it says must be all that has come: a caller is silent until it is spoken to. */
static inline void lanerig_hear_caller(struct lanerig *s, uint32_t i, struct slice bytes)
{
    uint8_t proof[WIRE_PROOF_BYTES];
    size_t used;
    const char *why;
    if (s->callers[i].challenged) {
        assert_int_equal(wire_proof(bytes, WIRE_PROOF, proof, &used, &why), WIRE_OK);
        assert_true(linksecret_check_caller(&s->secret, &s->callers[i].theirs, lanerig_nonce, proof));
    } else {
        assert_int_equal(wire_hello(bytes, &s->callers[i].theirs, &used, &why), WIRE_OK);
    }
    assert_int_equal(used, bytes.n);
}

/* False: it has not greeted yet. */
static inline bool lanerig_take_caller(struct lanerig *s, uint32_t i)
{
    char bytes[512];
    int fd = s->callers[i].fd;
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    if (n < 0) return false;
    if (n == 0) {
        close(fd); /* it has thought better of it */
        return true;
    }
    lanerig_hear_caller(s, i, slice_of(bytes, (size_t)n));
    if (lanerig_challenge(s, i)) return false;
    lanerig_welcome(s, s->callers[i].node, fd, &s->callers[i].theirs);
    return true;
}

static inline void lanerig_take_callers(struct lanerig *s)
{
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++)
        for (int fd; (fd = accept4(s->listeners[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0; s->n_callers++) {
            assert_true(s->n_callers < LANERIG_CALLERS);
            s->callers[s->n_callers].node = i;
            s->callers[s->n_callers].fd = fd;
            s->callers[s->n_callers].challenged = false;
        }
    for (uint32_t i = 0; i < s->n_callers;)
        if (lanerig_take_caller(s, i)) s->callers[i] = s->callers[--s->n_callers];
        else i++;
}

static inline struct links_lanes lanerig_way_to(const struct lanerig *s, uint32_t from, uint32_t to, uint16_t lanes)
{
    struct links_lanes how = {.lanes = lanes, .to.n = sizeof how.to.a, .greeting = lanerig_greeting_of(from, to + 1), .secret = s->secret, .known = {.incarnation = 1, .version = WIRE_VERSION, .lanes = lanes, .address = "127.0.0.1:9"}};
    assert_int_equal(getsockname(s->listeners[to], (struct sockaddr *)&how.to.a, &how.to.n), 0);
    return how;
}

static inline void lanerig_connect_nodes(struct lanerig *s, uint32_t a, uint32_t b, uint16_t lanes)
{
    struct links_lanes ab = lanerig_way_to(s, a, b, lanes), ba = lanerig_way_to(s, b, a, lanes);
    relay_up(s->r->nodes[a].server.relay, b + 1, &ab);
    relay_up(s->r->nodes[b].server.relay, a + 1, &ba);
}

/* ---- turns */

static inline struct relay_front *lanerig_front(const struct lanerig *s, uint32_t node, uint32_t k) { return &s->r->nodes[node].server.relay->fronts[k]; }

static inline struct relay_info lanerig_info(const struct lanerig *s, uint32_t node)
{
    struct relay_info i;
    relay_look(s->r->nodes[node].server.relay, &i);
    return i;
}

static inline void lanerig_turn(struct lanerig *s, uint32_t node)
{
    for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) relayrig_turn(&s->r->nodes[node], k);
    lanerig_take_callers(s);
}

/* Nothing is committed or confirmed meanwhile, and the links carry nothing. */
#define LANERIG_UNTIL(s, condition) \
    do { \
        int64_t give_up_ = clock_mono_us() + 20 * 1000 * 1000; \
        while (!(condition)) { \
            for (uint32_t node_ = 0; node_ < RELAYRIG_NODES; node_++) lanerig_turn(s, node_); \
            if (clock_mono_us() > give_up_) fail_msg("never: %s", #condition); \
        } \
    } while (0)

static inline uint64_t lanerig_lanes_up(const struct lanerig *s) { return lanerig_info(s, 0).lanes + lanerig_info(s, 1).lanes + lanerig_info(s, 2).lanes; }
enum { LANERIG_ALL = RELAYRIG_NODES * (RELAYRIG_NODES - 1) * RELAYRIG_FRONTS }; /* both ends count */

/* ---- life */

static inline struct lanerig lanerig_bare(void)
{
    struct lanerig s = {.r = relayrig_new()};
    char error[128];
    s.c = relayrig_client(s.r, 0);
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        s.listeners[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(s.listeners[i] >= 0 && bind(s.listeners[i], (struct sockaddr *)&a, sizeof a) == 0 && listen(s.listeners[i], 64) == 0);
        relay_set_timeout(s.r->nodes[i].server.relay, LANERIG_PATIENCE_MS);
        s.r->nodes[i].server.relay->late_ms = LANERIG_PATIENCE_MS;
        for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) {
            struct front *f = s.r->nodes[i].server.fronts[k];
            f->loop = loop_new(LOOP_AUTO, f->worker.wake_fd, &lanerig_handler, f, error);
            assert_non_null(f->loop);
        }
    }
    return s;
}

static inline void lanerig_connect(struct lanerig *s)
{
    for (uint32_t a = 0; a < RELAYRIG_NODES; a++)
        for (uint32_t b = a + 1; b < RELAYRIG_NODES; b++) lanerig_connect_nodes(s, a, b, RELAYRIG_FRONTS);
    LANERIG_UNTIL(s, lanerig_lanes_up(s) == LANERIG_ALL);
}

static inline struct lanerig lanerig_begin(void)
{
    struct lanerig s = lanerig_bare();
    lanerig_connect(&s);
    return s;
}

static inline void lanerig_end(struct lanerig *s)
{
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++)
        for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++)
            while (!relay_lane_stop(lanerig_front(s, i, k))) lanerig_turn(s, i);
    assert_int_equal(lanerig_lanes_up(s), 0);
    for (uint32_t i = 0; i < s->n_callers; i++) close(s->callers[i].fd);
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) close(s->listeners[i]);
    relayrig_free(s->r);
}

static inline void lanerig_settle(struct lanerig *s)
{
    int64_t give_up = clock_mono_us() + 20 * 1000 * 1000;
    while (relayrig_any_busy(s->r)) {
        relayrig_step(s->r);
        lanerig_take_callers(s);
        if (clock_mono_us() > give_up) fail_msg("a client is never answered");
    }
}

static inline void lanerig_cut_links(struct lanerig *s) { memset(s->r->cut, true, sizeof s->r->cut); } /* what is sent by them is lost without a word */

/* A node's lane to another for the requests of its first front; it breaks. */
static inline void lanerig_break_lane(struct lanerig *s, uint32_t node, uint32_t peer)
{
    struct relay_lane *l = relay_lane_to(lanerig_front(s, node, 0), peer + 1);
    assert_non_null(l);
    assert_int_equal(shutdown(l->stream.fd, SHUT_RDWR), 0);
}

/* One read of node 0's client; confirm: Raft confirms leaders meanwhile. */
static inline void lanerig_read_key(struct lanerig *s, const char *key, bool confirm)
{
    relayrig_ask(s->c, "GET %s", key);
    relayrig_go(s->c);
    if (confirm) lanerig_settle(s);
    else LANERIG_UNTIL(s, !s->c->busy);
    relayrig_expect(s->c, "$-1\r\n");
}
