/* Lanes between the workers of nodes, on real sockets: what goes by them, what is lost with them, and which reads they prove. */
#include "relayrig.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "cluster/wireraft.h"
#include "server/relay_call.h"
#include "server/relay_lane.h"

static const uint8_t cluster_id[WIRE_CLUSTER_ID] = "a cluster of us";

/* The nodes, and in place of their links: a listener each, whose callers are handed to the relay. */
enum { CALLERS = 64, PATIENCE_MS = 120 * 1000 };

struct scene {
    struct relayrig *r;
    struct relayrig_client *c; /* of node 0 */
    int listeners[RELAYRIG_NODES];
    struct {
        uint32_t node;
        int fd;
    } callers[CALLERS]; /* that have not greeted yet */
    uint32_t n_callers;
};

/* ---- event loops, in which every stream is a lane */

static void on_accept(void *ctx, int tag, int fd) { fail_msg("nobody listens here"); }
static void on_data(void *ctx, struct stream *s, struct chunk *c, char *p, size_t n) { relay_lane_data(s->owner, slice_of(p, n)); }
static void on_end(void *ctx, struct stream *s, int error) { relay_lane_ended(s->owner); }
static bool on_drained(void *ctx, struct stream *s) { return false; }
static void on_closed(void *ctx, struct stream *s) { relay_lane_closed(s->owner); }

static const struct loop_handler handler = {on_accept, on_data, on_end, on_drained, on_closed};

/* ---- callers */

static struct wire_hello greeting_of(uint32_t node, uint64_t to)
{
    struct wire_hello h = {.version = WIRE_VERSION, .oldest = WIRE_VERSION_OLDEST, .node = node + 1, .to = to, .incarnation = 1, .address = "127.0.0.1:9", .lanes = RELAYRIG_FRONTS};
    memcpy(h.cluster, cluster_id, WIRE_CLUSTER_ID);
    return h;
}

static void welcome(struct scene *s, uint32_t node, int fd, const struct wire_hello *theirs)
{
    struct wire_hello mine = greeting_of(node, theirs->node);
    struct buf greeting = {0};
    assert_true(theirs->lane > 0 && theirs->to == node + 1);
    wire_add_hello(&greeting, &mine);
    relay_lane(s->r->nodes[node].server.relay, theirs->node, (uint16_t)(theirs->lane - 1), fd, buf_slice(&greeting));
    buf_fini(&greeting);
}

/* False: it has not greeted yet. */
static bool take_caller(struct scene *s, uint32_t node, int fd)
{
    char bytes[512];
    struct wire_hello theirs;
    size_t used;
    const char *why;
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_PEEK);
    if (n < 0) return false;
    if (n == 0) {
        close(fd); /* it has thought better of it */
        return true;
    }
    assert_int_equal(wire_hello(slice_of(bytes, (size_t)n), &theirs, &used, &why), WIRE_OK);
    assert_int_equal(recv(fd, bytes, sizeof bytes, 0), used); /* a caller is silent until it is greeted */
    welcome(s, node, fd, &theirs);
    return true;
}

static void take_callers(struct scene *s)
{
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++)
        for (int fd; (fd = accept4(s->listeners[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0; s->n_callers++) {
            assert_true(s->n_callers < CALLERS);
            s->callers[s->n_callers].node = i;
            s->callers[s->n_callers].fd = fd;
        }
    for (uint32_t i = 0; i < s->n_callers;)
        if (take_caller(s, s->callers[i].node, s->callers[i].fd)) s->callers[i] = s->callers[--s->n_callers];
        else i++;
}

static struct links_lanes way_to(const struct scene *s, uint32_t from, uint32_t to, uint16_t lanes)
{
    struct links_lanes how = {.lanes = lanes, .to.n = sizeof how.to.a, .greeting = greeting_of(from, to + 1), .known = {.incarnation = 1, .version = WIRE_VERSION, .lanes = lanes, .address = "127.0.0.1:9"}};
    assert_int_equal(getsockname(s->listeners[to], (struct sockaddr *)&how.to.a, &how.to.n), 0);
    return how;
}

static void connect_nodes(struct scene *s, uint32_t a, uint32_t b, uint16_t lanes)
{
    struct links_lanes ab = way_to(s, a, b, lanes), ba = way_to(s, b, a, lanes);
    relay_up(s->r->nodes[a].server.relay, b + 1, &ab);
    relay_up(s->r->nodes[b].server.relay, a + 1, &ba);
}

/* ---- turns */

static struct relay_front *front(const struct scene *s, uint32_t node, uint32_t k) { return &s->r->nodes[node].server.relay->fronts[k]; }

static struct relay_info info(const struct scene *s, uint32_t node)
{
    struct relay_info i;
    relay_look(s->r->nodes[node].server.relay, &i);
    return i;
}

static void turn(struct scene *s, uint32_t node)
{
    for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) relayrig_turn(&s->r->nodes[node], k);
    take_callers(s);
}

/* Nothing is committed or confirmed meanwhile, and the links carry nothing. */
#define UNTIL(s, condition) \
    do { \
        int64_t give_up_ = clock_mono_us() + 20 * 1000 * 1000; \
        while (!(condition)) { \
            for (uint32_t node_ = 0; node_ < RELAYRIG_NODES; node_++) turn(s, node_); \
            if (clock_mono_us() > give_up_) fail_msg("never: %s", #condition); \
        } \
    } while (0)

static uint64_t lanes_up(const struct scene *s) { return info(s, 0).lanes + info(s, 1).lanes + info(s, 2).lanes; }
enum { ALL_LANES = RELAYRIG_NODES * (RELAYRIG_NODES - 1) * RELAYRIG_FRONTS }; /* both ends count */

/* ---- life */

static struct scene bare(void)
{
    struct scene s = {.r = relayrig_new()};
    char error[128];
    s.c = relayrig_client(s.r, 0);
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        s.listeners[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(s.listeners[i] >= 0 && bind(s.listeners[i], (struct sockaddr *)&a, sizeof a) == 0 && listen(s.listeners[i], 64) == 0);
        relay_set_timeout(s.r->nodes[i].server.relay, PATIENCE_MS);
        s.r->nodes[i].server.relay->late_ms = PATIENCE_MS;
        for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) {
            struct front *f = s.r->nodes[i].server.fronts[k];
            f->loop = loop_new(LOOP_AUTO, f->worker.wake_fd, &handler, f, error);
            assert_non_null(f->loop);
        }
    }
    return s;
}

static struct scene begin(void)
{
    struct scene s = bare();
    for (uint32_t a = 0; a < RELAYRIG_NODES; a++)
        for (uint32_t b = a + 1; b < RELAYRIG_NODES; b++) connect_nodes(&s, a, b, RELAYRIG_FRONTS);
    UNTIL(&s, lanes_up(&s) == ALL_LANES);
    return s;
}

static void end(struct scene *s)
{
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++)
        for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++)
            while (!relay_lane_stop(front(s, i, k))) turn(s, i);
    assert_int_equal(lanes_up(s), 0);
    for (uint32_t i = 0; i < s->n_callers; i++) close(s->callers[i].fd);
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) close(s->listeners[i]);
    relayrig_free(s->r);
}

static void settle(struct scene *s)
{
    int64_t give_up = clock_mono_us() + 20 * 1000 * 1000;
    while (relayrig_any_busy(s->r)) {
        relayrig_step(s->r);
        take_callers(s);
        if (clock_mono_us() > give_up) fail_msg("a client is never answered");
    }
}

static void cut_links(struct scene *s) { memset(s->r->cut, true, sizeof s->r->cut); } /* what is sent by them is lost without a word */

/* A node's lane to another for the requests of its first front; it breaks. */
static void break_lane(struct scene *s, uint32_t node, uint32_t peer)
{
    struct relay_lane *l = relay_lane_to(front(s, node, 0), peer + 1);
    assert_non_null(l);
    assert_int_equal(shutdown(l->stream.fd, SHUT_RDWR), 0);
}

/* ---- requests and answers */

static void requests_and_answers_go_by_lanes(void **state)
{
    struct scene s = begin();
    struct relayrig_client *other = relayrig_client_at(s.r, 2, 1);
    cut_links(&s);
    relayrig_ask(s.c, "SET %s one", relayrig_key(s.r, 1, 0));
    relayrig_ask(s.c, "SET %s two", relayrig_key(s.r, 2, 0));
    relayrig_ask(s.c, "GET %s", relayrig_key(s.r, 1, 0));
    relayrig_go(s.c);
    settle(&s);
    relayrig_expect(s.c, "+OK\r\n+OK\r\n$3\r\none\r\n");
    relayrig_ask(other, "GET %s", relayrig_key(s.r, 1, 0)); /* from the node that was called, and another worker */
    relayrig_ask(other, "SET %s three", relayrig_key(s.r, 0, 0));
    relayrig_go(other);
    settle(&s);
    relayrig_expect(other, "$3\r\none\r\n+OK\r\n");
    end(&s);
}

static void what_is_longer_than_a_frame_goes_by_lanes_too(void **state)
{
    struct scene s = begin();
    const char *key = relayrig_key(s.r, 1, 0);
    cut_links(&s);
    relayrig_ask(s.c, "SETRANGE %s 20000000 x", key);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    settle(&s);
    struct slice got = buf_slice(&s.c->conn.out);
    assert_int_equal(got.n, strlen(":20000001\r\n$20000001\r\n") + 20000001 + 2);
    assert_memory_equal(got.p, ":20000001\r\n$20000001\r\n", strlen(":20000001\r\n$20000001\r\n"));
    s.c->conn.out.len = 0;
    relayrig_ask(s.c, "DEL %s", key);
    relayrig_go(s.c);
    settle(&s);
    relayrig_expect(s.c, ":1\r\n");
    end(&s);
}

static void a_read_that_is_lost_with_its_lane_is_asked_again(void **state)
{
    struct scene s = begin();
    const char *key = relayrig_key(s.r, 1, 0);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    relayrig_turn(&s.r->nodes[0], 0);
    break_lane(&s, 0, 1);
    assert_true(s.c->busy);
    settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    UNTIL(&s, lanes_up(&s) == ALL_LANES); /* and the lane is back */
    end(&s);
}

/* Runs on node 1 and its entry is committed, but the lane breaks before the answer. */
static void lose_after_commit(struct scene *s, const char *key)
{
    uint32_t group = relayrig_group(s->r, key);
    struct relayrig_seat *seat = relayrig_seat(&s->r->nodes[1], group);
    uint64_t made = seat->made;
    relayrig_go(s->c);
    UNTIL(s, seat->made == made + 1);
    assert_true(s->c->busy);
    break_lane(s, 0, 1);
    turn(s, 0);
    assert_true(relayrig_commit(&s->r->nodes[1], group));
}

static void a_numbered_write_that_is_lost_with_its_lane_happens_once(void **state)
{
    struct scene s = begin();
    const char *key = relayrig_key(s.r, 1, 0);
    relayrig_ask(s.c, "APPEND %s ab", key);
    lose_after_commit(&s, key);
    settle(&s);
    relayrig_expect(s.c, ":2\r\n");
    assert_int_equal(s.r->repeated, 1);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    settle(&s);
    relayrig_expect(s.c, "$2\r\nab\r\n");
    end(&s);
}

static void note_over(void *ctx, struct call *c) { *(bool *)ctx = true; }

static void a_write_without_a_number_that_is_lost_with_its_lane_is_uncertain(void **state)
{
    struct scene s = begin();
    bool over = false;
    struct slice name = SLICE("group.flushall"), reply;
    struct call *c = call_new(s.r->nodes[0].server.fronts[0], 0, 2, note_over, &over);
    call_add(c, relayrig_group(s.r, relayrig_key(s.r, 1, 0)), command_find_any(s.r->commands, name), &name, 1);
    call_send(c, 5000);
    relayrig_turn(&s.r->nodes[0], 0);
    assert_false(over);
    break_lane(&s, 0, 1);
    UNTIL(&s, over);
    assert_int_equal(call_fate(c, 0, &reply), CALL_UNCERTAIN);
    call_free(c);
    end(&s);
}

/* ---- which reads they prove */

static uint64_t probes(const struct scene *s, uint32_t node)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) n += front(s, node, k)->probe;
    return n;
}

/* How many reads were proven by the relay of a node, for how many it asked Raft, and how many probes it sent for all of them. */
static void expect_proofs(const struct scene *s, uint32_t node, uint64_t proven, uint64_t asked, uint64_t n_probes)
{
    assert_int_equal(info(s, node).proven, proven);
    assert_int_equal(s->r->nodes[node].asked, asked);
    assert_int_equal(probes(s, node), n_probes);
}

/* One read of node 0's client; confirm: Raft confirms leaders meanwhile. */
static void read_key(struct scene *s, const char *key, bool confirm)
{
    relayrig_ask(s->c, "GET %s", key);
    relayrig_go(s->c);
    if (confirm) settle(s);
    else UNTIL(s, !s->c->busy);
    relayrig_expect(s->c, "$-1\r\n");
}

static void the_term_of_who_asks_proves_a_read(void **state)
{
    struct scene s = begin();
    cut_links(&s);
    read_key(&s, relayrig_key(s.r, 1, 0), false);
    expect_proofs(&s, 1, 1, 0, 0);
    end(&s);
}

static void a_probe_proves_a_read_of_a_node_that_leads_itself(void **state)
{
    struct scene s = begin();
    cut_links(&s);
    read_key(&s, relayrig_key(s.r, 0, 0), false);
    expect_proofs(&s, 0, 1, 0, 1);
    end(&s);
}

/* Until the probe is answered, nothing is. */
static void a_read_waits_for_its_probe(void **state)
{
    struct scene s = begin();
    relayrig_ask(s.c, "GET %s", relayrig_key(s.r, 0, 0));
    relayrig_go(s.c);
    for (int i = 0; i < 3; i++) relayrig_turn(&s.r->nodes[0], 0); /* the others are silent */
    assert_true(s.c->busy);
    expect_proofs(&s, 0, 0, 0, 1);
    UNTIL(&s, !s.c->busy);
    relayrig_expect(s.c, "$-1\r\n");
    end(&s);
}

static void one_probe_proves_all_reads_of_a_pipeline(void **state)
{
    struct scene s = begin();
    uint32_t groups = 0, n = 0;
    char want[64] = "";
    cut_links(&s);
    for (uint32_t k = 0; k < RELAYRIG_KEYS; k++) {
        if (s.r->group_of[k] % RELAYRIG_NODES != 0) continue;
        groups |= 1u << s.r->group_of[k];
        relayrig_ask(s.c, "EXISTS %s", s.r->keys[k]);
        strcat(want, ":0\r\n");
        n++;
    }
    assert_true(n >= 4 && __builtin_popcount(groups) == 2);
    relayrig_go(s.c);
    UNTIL(&s, !s.c->busy);
    relayrig_expect(s.c, want);
    expect_proofs(&s, 0, n, 0, 1);
    end(&s);
}

/* The node that asks does not vote, and so cannot prove what it asks for: one probe does, for all of it. */
static void one_probe_proves_all_reads_of_a_message(void **state)
{
    struct scene s = begin();
    struct relayrig_client *guest = relayrig_client(s.r, 2);
    const char *keys[3];
    cut_links(&s);
    for (uint32_t k = 0; k < 3; k++) {
        keys[k] = relayrig_key(s.r, 1, k);
        relayrig_post(s.r, 1, relayrig_group(s.r, keys[k]), s.r->terms[relayrig_group(s.r, keys[k]) - RELAYRIG_FIRST], 2);
        relayrig_ask(guest, "GET %s", keys[k]);
    }
    relayrig_go(guest);
    for (int i = 0; i < 8; i++) { /* node 0, who has to be asked, is silent */
        turn(&s, 2);
        turn(&s, 1);
    }
    assert_true(guest->busy);
    UNTIL(&s, !guest->busy);
    relayrig_expect(guest, "$-1\r\n$-1\r\n$-1\r\n");
    expect_proofs(&s, 1, 3, 0, 1);
    end(&s);
}

static void a_later_term_elsewhere_leaves_a_read_to_raft(void **state)
{
    struct scene s = begin();
    const char *key = relayrig_key(s.r, 0, 0);
    uint32_t group = relayrig_group(s.r, key);
    for (uint32_t i = 1; i < RELAYRIG_NODES; i++) relayrig_post(s.r, i, group, s.r->terms[group - RELAYRIG_FIRST] + 1, RELAYRIG_NODES);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    UNTIL(&s, s.r->nodes[0].asked == 1);
    assert_true(s.c->busy); /* Raft has not answered */
    settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    expect_proofs(&s, 0, 0, 1, 1);
    end(&s);
}

static void who_asks_in_a_later_term_proves_nothing(void **state)
{
    struct scene s = begin();
    const char *key = relayrig_key(s.r, 1, 0);
    uint32_t group = relayrig_group(s.r, key);
    relayrig_post(s.r, 0, group, s.r->terms[group - RELAYRIG_FIRST] + 1, RELAYRIG_NODES);
    relayrig_post(s.r, 2, group, s.r->terms[group - RELAYRIG_FIRST] + 1, RELAYRIG_NODES);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    UNTIL(&s, s.r->nodes[1].asked == 1);
    assert_true(s.c->busy);
    settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    expect_proofs(&s, 1, 0, 1, 1);
    end(&s);
}

/* Its replica of the group is of the same term as another group's there: that says nothing of this one. */
static void a_term_of_another_group_proves_nothing(void **state)
{
    struct scene s = begin();
    struct relay_front *rf = front(&s, 1, 0);
    uint32_t group = relayrig_group(s.r, relayrig_key(s.r, 1, 0));
    uint64_t term = s.r->terms[group - RELAYRIG_FIRST];
    struct hold h = {.unproven = true, .group = group, .term = term};
    relay_proof_by(rf, &h, &(struct ticket){.node = 1, .group = group + 1, .term = term});
    assert_true(h.unproven);
    relay_proof_by(rf, &h, &(struct ticket){.node = 1, .group = group, .term = term + 1});
    assert_true(h.unproven);
    relay_proof_by(rf, &h, &(struct ticket){.node = 1, .group = group}); /* it did not say */
    assert_true(h.unproven);
    relay_proof_by(rf, &h, &(struct ticket){.node = 4, .group = group, .term = term}); /* no voter */
    assert_true(h.unproven);
    relay_proof_by(rf, &h, &(struct ticket){.node = 1, .group = group, .term = term});
    assert_false(h.unproven);
    end(&s);
}

static void a_leader_that_has_met_a_later_term_shows_nothing(void **state)
{
    struct scene s = begin();
    const char *key = relayrig_key(s.r, 0, 0);
    uint32_t group = relayrig_group(s.r, key);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    relayrig_post(s.r, 0, group, s.r->terms[group - RELAYRIG_FIRST] + 1, RELAYRIG_NODES);
    for (int i = 0; i < 20; i++) turn(&s, i % RELAYRIG_NODES);
    assert_true(s.c->busy);
    assert_int_equal(info(&s, 0).proven, 0);
    relayrig_depose(s.r, group, FATE_LOST, false);
    relayrig_elect(s.r, group, 2);
    settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    end(&s);
}

static void where_more_than_one_other_is_needed_raft_is_asked(void **state)
{
    struct scene s = begin();
    const char *key = relayrig_key(s.r, 0, 0);
    uint32_t group = relayrig_group(s.r, key);
    relayrig_post(s.r, 0, group, s.r->terms[group - RELAYRIG_FIRST], 5);
    read_key(&s, key, true);
    expect_proofs(&s, 0, 0, 1, 0);
    key = relayrig_key(s.r, 1, 0);
    group = relayrig_group(s.r, key);
    relayrig_post(s.r, 1, group, s.r->terms[group - RELAYRIG_FIRST], 4);
    read_key(&s, key, true);
    expect_proofs(&s, 1, 0, 1, 0);
    end(&s);
}

static void a_sole_voter_needs_nobody(void **state)
{
    struct scene s = begin();
    const char *key = relayrig_key(s.r, 0, 0);
    relayrig_post(s.r, 0, relayrig_group(s.r, key), s.r->terms[relayrig_group(s.r, key) - RELAYRIG_FIRST], 1);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    assert_false(s.c->busy);
    relayrig_expect(s.c, "$-1\r\n");
    expect_proofs(&s, 0, 1, 0, 0);
    end(&s);
}

static void a_probe_that_nobody_answers_in_time_leaves_a_read_to_raft(void **state)
{
    struct scene s = begin();
    int64_t began = clock_mono_us();
    s.r->nodes[0].server.relay->late_ms = RELAY_LATE_MS;
    relayrig_ask(s.c, "GET %s", relayrig_key(s.r, 0, 0));
    relayrig_go(s.c);
    while (!s.r->nodes[0].asked && clock_mono_us() < began + 20 * 1000 * 1000) relayrig_turn(&s.r->nodes[0], 0); /* the others are silent */
    expect_proofs(&s, 0, 0, 1, 1);
    assert_true(clock_mono_us() - began >= (RELAY_LATE_MS - 1) * 1000);
    settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    assert_int_equal(info(&s, 0).proven, 0); /* an answer that is late changes nothing */
    end(&s);
}

static void a_probe_that_is_lost_with_its_lane_leaves_a_read_to_raft(void **state)
{
    struct scene s = begin();
    relayrig_ask(s.c, "GET %s", relayrig_key(s.r, 0, 0));
    relayrig_go(s.c);
    relayrig_turn(&s.r->nodes[0], 0);
    expect_proofs(&s, 0, 0, 0, 1);
    break_lane(&s, 0, 1); /* who comes next behind node 0 is asked */
    relayrig_turn(&s.r->nodes[0], 0);
    expect_proofs(&s, 0, 0, 1, 1);
    settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    end(&s);
}

/* Whom to ask was there when the read wanted to be proven, and is not when the probe is to go. */
static void a_probe_that_cannot_go_leaves_a_read_to_raft_at_once(void **state)
{
    struct scene s = begin();
    const char *key = relayrig_key(s.r, 0, 0);
    uint32_t group = relayrig_group(s.r, key);
    struct termboard_group alone = {.term = s.r->terms[group - RELAYRIG_FIRST], .n_voters = 2, .voters = {1, 9}};
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    termboard_put(s.r->nodes[0].board, group, &alone);
    relayrig_turn(&s.r->nodes[0], 0);
    expect_proofs(&s, 0, 0, 1, 1);
    settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    end(&s);
}

/* ---- lanes that come and go */

static uint32_t count_lanes(const struct scene *s, uint32_t node, uint32_t k, uint64_t peer, uint32_t *numbers)
{
    uint32_t n = 0;
    *numbers = 0;
    for (const struct relay_lane *l = front(s, node, k)->lanes; l; l = l->next) {
        if (l->peer != peer || l->phase != LANE_UP) continue;
        *numbers |= 1u << l->number;
        n++;
    }
    return n;
}

/* Lanes 0 to 4 between two nodes with two fronts each: as if one of them had five. */
static void there_are_as_many_lanes_as_the_node_with_more_workers_has(void **state)
{
    struct scene s = bare();
    uint32_t numbers;
    connect_nodes(&s, 0, 1, 5);
    UNTIL(&s, info(&s, 0).lanes == 5 && info(&s, 1).lanes == 5);
    for (uint32_t node = 0; node < 2; node++) {
        assert_int_equal(count_lanes(&s, node, 0, 2 - node, &numbers), 3);
        assert_int_equal(numbers, 1 | 4 | 16);
        assert_int_equal(count_lanes(&s, node, 1, 2 - node, &numbers), 2);
        assert_int_equal(numbers, 2 | 8);
    }
    cut_links(&s);
    read_key(&s, relayrig_key(s.r, 1, 0), false);
    end(&s);
}

static void a_node_with_fewer_workers_is_called_by_all_of_the_other(void **state)
{
    struct scene s = bare();
    uint32_t numbers;
    connect_nodes(&s, 0, 1, 1);
    UNTIL(&s, info(&s, 0).lanes == 2 && info(&s, 1).lanes == 2);
    for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) {
        assert_int_equal(count_lanes(&s, 0, k, 2, &numbers), 1);
        assert_int_equal(numbers, 1u << k);
    }
    end(&s);
}

static void lanes_end_with_the_nodes_connection_and_come_with_the_next(void **state)
{
    struct scene s = begin();
    relay_down(s.r->nodes[0].server.relay, 2);
    UNTIL(&s, info(&s, 0).lanes == 2 && info(&s, 1).lanes == 2);
    usleep(60 * 1000); /* they are not called again by themselves */
    for (int i = 0; i < 10; i++)
        for (uint32_t node = 0; node < RELAYRIG_NODES; node++) turn(&s, node);
    assert_int_equal(lanes_up(&s), ALL_LANES - 4);
    connect_nodes(&s, 0, 1, RELAYRIG_FRONTS);
    UNTIL(&s, lanes_up(&s) == ALL_LANES);
    connect_nodes(&s, 0, 1, RELAYRIG_FRONTS); /* told twice: there are none twice */
    for (int i = 0; i < 10; i++)
        for (uint32_t node = 0; node < RELAYRIG_NODES; node++) turn(&s, node);
    assert_int_equal(lanes_up(&s), ALL_LANES);
    end(&s);
}

/* ---- nonsense */

/* A lane from a peer to node 1 whose other end is the test's; the greeting has been read. */
static int stranger(struct scene *s)
{
    int ends[2];
    char bytes[64];
    struct slice greeting = SLICE("greeting");
    uint64_t up = info(s, 1).lanes;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    relay_lane(s->r->nodes[1].server.relay, 1, 8, ends[0], greeting);
    UNTIL(s, info(s, 1).lanes == up + 1);
    UNTIL(s, recv(ends[1], bytes, sizeof bytes, MSG_PEEK) > 0);
    assert_int_equal(recv(ends[1], bytes, sizeof bytes, 0), greeting.n);
    return ends[1];
}

static void expect_closed(struct scene *s, struct buf *bytes)
{
    char byte;
    int fd = stranger(s);
    assert_int_equal(send(fd, bytes->p, bytes->len, 0), bytes->len);
    UNTIL(s, recv(fd, &byte, 1, 0) == 0);
    close(fd);
    buf_fini(bytes);
}

static void a_lane_that_brings_nonsense_is_closed(void **state)
{
    struct scene s = begin();
    struct buf b = {0};
    buf_printf(&b, "GET / HTTP/1.1\r\n\r\n");
    expect_closed(&s, &b);
    wire_add_ping(&b, WIRE_PING, 7); /* a frame that lanes do not have */
    expect_closed(&s, &b);
    size_t frame = wireraft_probe_begin(&b, WIRE_PROBE_ACK, 1); /* an answer to what was never asked */
    wireraft_probe_add(&b, RELAYRIG_FIRST, 1);
    wire_end(&b, frame);
    expect_closed(&s, &b);
    frame = wire_begin(&b, WIRE_PROBE, 0, 0);
    buf_add(&b, "abc", 3);
    wire_end(&b, frame);
    expect_closed(&s, &b);
    struct slice none = {0};
    wirecall_add_request(&b, 0, &(struct wirecall_request){.id = 1, .resp = 2, .argc = 1}, &none); /* of a group that is no relay's */
    expect_closed(&s, &b);
    read_key(&s, relayrig_key(s.r, 1, 0), false); /* the others go on */
    end(&s);
}

static void frames_may_come_byte_by_byte(void **state)
{
    struct scene s = begin();
    struct buf b = {0};
    int fd = stranger(&s);
    char bytes[256];
    ssize_t n = 0;
    struct wire_frame f;
    struct wireraft_probe p;
    const char *why;
    for (uint64_t probe = 1; probe <= 2; probe++) {
        size_t frame = wireraft_probe_begin(&b, WIRE_PROBE, probe);
        wireraft_probe_add(&b, RELAYRIG_FIRST, 1);
        wire_end(&b, frame);
    }
    for (size_t i = 0; i < b.len; i++) {
        assert_int_equal(send(fd, b.p + i, 1, 0), 1);
        turn(&s, 1);
    }
    UNTIL(&s, (n = recv(fd, bytes, sizeof bytes, MSG_PEEK)) >= (ssize_t)b.len);
    assert_int_equal(n, b.len);
    assert_int_equal(wire_frame(slice_of(bytes, (size_t)n), &f, &why), WIRE_OK);
    assert_int_equal(f.type, WIRE_PROBE_ACK);
    assert_int_equal(wireraft_probe_get(&f, &p), 0);
    assert_int_equal(p.n, 1);
    assert_int_equal(wireraft_probe_at(&p, 0).term, termboard_term(s.r->nodes[1].board, RELAYRIG_FIRST));
    close(fd);
    buf_fini(&b);
    end(&s);
}

/* Its worker has called again before this node saw that the old connection is gone. */
static void a_lane_takes_the_place_of_the_one_before_it(void **state)
{
    struct scene s = begin();
    char byte;
    uint64_t up = info(&s, 1).lanes;
    int old = stranger(&s), ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    relay_lane(s.r->nodes[1].server.relay, 1, 8, ends[0], SLICE("greeting"));
    UNTIL(&s, recv(old, &byte, 1, 0) == 0);
    assert_int_equal(info(&s, 1).lanes, up + 1);
    close(old);
    close(ends[1]);
    UNTIL(&s, info(&s, 1).lanes == up);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_and_answers_go_by_lanes),
        cmocka_unit_test(what_is_longer_than_a_frame_goes_by_lanes_too),
        cmocka_unit_test(a_read_that_is_lost_with_its_lane_is_asked_again),
        cmocka_unit_test(a_numbered_write_that_is_lost_with_its_lane_happens_once),
        cmocka_unit_test(a_write_without_a_number_that_is_lost_with_its_lane_is_uncertain),
        cmocka_unit_test(the_term_of_who_asks_proves_a_read),
        cmocka_unit_test(a_probe_proves_a_read_of_a_node_that_leads_itself),
        cmocka_unit_test(a_read_waits_for_its_probe),
        cmocka_unit_test(one_probe_proves_all_reads_of_a_pipeline),
        cmocka_unit_test(one_probe_proves_all_reads_of_a_message),
        cmocka_unit_test(a_later_term_elsewhere_leaves_a_read_to_raft),
        cmocka_unit_test(who_asks_in_a_later_term_proves_nothing),
        cmocka_unit_test(a_term_of_another_group_proves_nothing),
        cmocka_unit_test(a_leader_that_has_met_a_later_term_shows_nothing),
        cmocka_unit_test(where_more_than_one_other_is_needed_raft_is_asked),
        cmocka_unit_test(a_sole_voter_needs_nobody),
        cmocka_unit_test(a_probe_that_nobody_answers_in_time_leaves_a_read_to_raft),
        cmocka_unit_test(a_probe_that_is_lost_with_its_lane_leaves_a_read_to_raft),
        cmocka_unit_test(a_probe_that_cannot_go_leaves_a_read_to_raft_at_once),
        cmocka_unit_test(there_are_as_many_lanes_as_the_node_with_more_workers_has),
        cmocka_unit_test(a_node_with_fewer_workers_is_called_by_all_of_the_other),
        cmocka_unit_test(lanes_end_with_the_nodes_connection_and_come_with_the_next),
        cmocka_unit_test(a_lane_that_brings_nonsense_is_closed),
        cmocka_unit_test(frames_may_come_byte_by_byte),
        cmocka_unit_test(a_lane_takes_the_place_of_the_one_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
