/* Callers that are workers of a peer: whose connections are handed over, and whose are not. Every test runs on both event loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cluster/linklanes.h"
#include "linkrig.h"
#include "looptest.h"

enum { LANES = 3 };

/* Node 1, which takes lanes, and node 2, which is the test itself: a raw connection, if it is connected. */
struct scene {
    struct linkrig *rig;
    struct linkrig_node *n;
    int peer;
};

static uint64_t refused(struct scene *s)
{
    struct links_totals t = linkrig_totals(s->rig, 1);
    assert_int_equal(t.callers, 0);
    return t.refused;
}

static struct wire_hello hello(uint16_t lane)
{
    struct wire_hello h = linkrig_hello(2, 1);
    h.incarnation = 5;
    h.lanes = 2;
    h.lane = lane;
    return h;
}

static struct scene begin_with(void **state, uint16_t lanes)
{
    struct scene s = {.rig = linkrig_new(looptest_backend(state), 1), .peer = -1};
    s.n = &s.rig->nodes[1];
    linkrig_stop(s.rig, 1);
    s.n->options.lanes = lanes;
    linkrig_start(s.rig, 1);
    links_peer_put(s.n->links, 2, "127.0.0.1:9");
    return s;
}

static struct scene begin(void **state) { return begin_with(state, LANES); }

static void connect_peer(struct scene *s)
{
    s->peer = linkrig_dial(s->n->port);
    linkrig_write_hello(s->peer, hello(0));
    LINKRIG_UNTIL(s->rig, s->n->in_up[2]);
}

static void end(struct scene *s)
{
    if (s->peer >= 0) close(s->peer);
    linkrig_free(s->rig);
}

static int call(struct scene *s, struct wire_hello h)
{
    int fd = linkrig_dial(s->n->port);
    linkrig_write_hello(fd, h);
    return fd;
}

static void expect_refused(struct scene *s, struct wire_hello h)
{
    char bytes[WIRE_HELLO_MAX];
    struct wire_hello answer;
    size_t used;
    const char *why;
    uint64_t before = refused(s);
    unsigned lanes = s->n->lanes;
    int fd = call(s, h);
    LINKRIG_UNTIL(s->rig, recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT) > 0);
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    assert_int_equal(wire_hello(slice_of(bytes, (size_t)n), &answer, &used, &why), WIRE_OK);
    assert_int_equal(answer.to, 0); /* turned away */
    LINKRIG_UNTIL(s->rig, linkrig_closed(fd));
    close(fd);
    assert_int_equal(refused(s), before + 1);
    assert_int_equal(s->n->lanes, lanes);
}

static void a_lane_of_a_connected_peer_is_handed_over(void **state)
{
    struct scene s = begin(state);
    char bytes[16];
    connect_peer(&s);
    unsigned ups = s.n->ups, downs = s.n->downs;
    int fd = call(&s, hello(2));
    LINKRIG_UNTIL(s.rig, s.n->lanes == 1);
    assert_int_equal(s.n->lane_peer, 2);
    assert_int_equal(s.n->lane, 1); /* counted from 0 */
    assert_int_equal(s.n->lane_greeting.node, 1);
    assert_int_equal(s.n->lane_greeting.to, 2);
    assert_int_equal(s.n->lane_greeting.lanes, LANES);
    assert_int_equal(s.n->lane_greeting.lane, 0);
    linkrig_write(fd, SLICE("frames")); /* are the owner's */
    linkrig_run(s.rig, 50);
    assert_int_equal(recv(s.n->lane_fd, bytes, sizeof bytes, 0), 6);
    linkrig_write(s.n->lane_fd, SLICE("answer"));
    assert_int_equal(recv(fd, bytes, sizeof bytes, 0), 6);
    assert_int_equal(refused(&s), 0);
    assert_int_equal(s.n->ups, ups); /* it is no connection of the node */
    assert_int_equal(s.n->downs, downs);
    close(fd);
    close(s.n->lane_fd);
    linkrig_run(s.rig, 50);
    assert_int_equal(s.n->downs, downs);
    end(&s);
}

static void a_lane_before_its_node_is_connected_is_refused(void **state)
{
    struct scene s = begin(state);
    expect_refused(&s, hello(1));
    connect_peer(&s);
    close(s.peer);
    LINKRIG_UNTIL(s.rig, !s.n->in_up[2]);
    s.peer = -1;
    expect_refused(&s, hello(1)); /* nor after it was */
    end(&s);
}

static void a_lane_of_a_stranger_or_of_another_run_is_refused(void **state)
{
    struct scene s = begin(state);
    struct wire_hello h = hello(1);
    connect_peer(&s);
    s.n->hospitable = true; /* who would let strangers in as nodes */
    h.node = 3;
    expect_refused(&s, h);
    h = hello(1);
    h.incarnation = 4;
    expect_refused(&s, h);
    h.incarnation = 6; /* its node has not come yet */
    expect_refused(&s, h);
    h = hello(1);
    h.to = 3;
    expect_refused(&s, h);
    h = hello(1);
    h.cluster[0] ^= 1;
    expect_refused(&s, h);
    assert_int_equal(s.n->stranger, 0); /* and nobody was asked */
    assert_true(s.n->in_up[2]);
    end(&s);
}

static void a_node_that_takes_no_lanes_refuses_them(void **state)
{
    struct scene s = begin_with(state, 0);
    connect_peer(&s);
    expect_refused(&s, hello(1));
    end(&s);
}

/* The loop lets go of it in a later turn: the node's connection may be gone by then, and the owner have been told. */
static void a_lane_whose_node_goes_while_it_is_handed_over_is_closed(void **state)
{
    uint32_t before = looptest_open_files(), closed = 0;
    for (int round = 0; round < 40; round++) {
        struct scene s = begin(state);
        connect_peer(&s);
        int fd = call(&s, hello(1));
        for (int i = 0; i < round % 4; i++) links_turn(s.n->links, 0);
        close(s.peer);
        s.peer = -1;
        LINKRIG_UNTIL(s.rig, !s.n->in_up[2]);
        linkrig_run(s.rig, 20);
        if (s.n->lanes) {
            close(s.n->lane_fd);
        } else {
            LINKRIG_UNTIL(s.rig, linkrig_closed(fd));
            closed++;
        }
        close(fd);
        end(&s);
    }
    assert_true(closed > 0);
    assert_int_equal(looptest_open_files(), before);
}

static void links_that_end_while_a_lane_is_handed_over_leave_nothing(void **state)
{
    uint32_t before = looptest_open_files(), unheard = 0;
    for (int round = 0; round < 40; round++) {
        struct scene s = begin(state);
        connect_peer(&s);
        int fd = call(&s, hello(1));
        for (int i = 0; i < round % 4; i++) links_turn(s.n->links, 0); /* greeted, or let go of, or handed over */
        if (s.n->lanes) close(s.n->lane_fd);
        else unheard++;
        end(&s);
        assert_true(linkrig_closed(fd));
        close(fd);
    }
    assert_true(unheard > 0);
    assert_int_equal(looptest_open_files(), before);
}

/* ---- links_lanes */

static void lanes_can_be_called_when_the_peer_is_reached(void **state)
{
    struct linkrig *rig = linkrig_new(looptest_backend(state), 2);
    struct links_lanes how;
    for (uint64_t id = 1; id <= 2; id++) {
        linkrig_stop(rig, id);
        rig->nodes[id].options.lanes = (uint16_t)(id + 3);
        linkrig_start(rig, id);
    }
    assert_false(links_lanes(rig->nodes[1].links, 2, &how)); /* no peer */
    linkrig_meet_all(rig);
    assert_false(links_lanes(rig->nodes[1].links, 2, &how)); /* not reached */
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2] && rig->nodes[2].out_up[1] && rig->nodes[2].in_up[1]);
    assert_true(links_lanes(rig->nodes[1].links, 2, &how));
    assert_int_equal(how.lanes, 5);
    assert_int_equal(how.known.incarnation, rig->nodes[2].incarnation);
    assert_int_equal(how.greeting.node, 1);
    assert_int_equal(how.greeting.to, 2);
    assert_int_equal(how.greeting.lanes, 4);
    assert_int_equal(how.greeting.incarnation, rig->nodes[1].incarnation);
    assert_int_equal(ntohs(((struct sockaddr_in *)&how.to.a)->sin_port), rig->nodes[2].port);
    how.greeting.lane = 3; /* and with all that, it is taken */
    int fd = linkrig_dial(rig->nodes[2].port);
    linkrig_write_hello(fd, how.greeting);
    LINKRIG_UNTIL(rig, rig->nodes[2].lanes == 1);
    assert_int_equal(rig->nodes[2].lane_peer, 1);
    assert_int_equal(rig->nodes[2].lane, 2);
    assert_int_equal(linkgreet_answer(&how.greeting, &rig->nodes[2].lane_greeting, 2, &how.known), LINKGREET_WELCOME);
    close(fd);
    close(rig->nodes[2].lane_fd);
    linkrig_stop(rig, 2);
    LINKRIG_UNTIL(rig, !rig->nodes[1].out_up[2]);
    assert_false(links_lanes(rig->nodes[1].links, 2, &how));
    linkrig_free(rig);
}

/* A peer of this version, with so many lanes, that answers a call. */
static bool has_lanes(void **state, uint16_t version, uint16_t lanes)
{
    struct scene s = begin(state);
    struct wire_hello h = hello(0);
    struct links_lanes how;
    char address[32];
    uint16_t port;
    int listener = linkrig_listener(&port), fd = -1;
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    links_peer_put(s.n->links, 2, address);
    LINKRIG_UNTIL(s.rig, (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0);
    h.version = version;
    h.lanes = lanes;
    strcpy(h.address, address);
    linkrig_write_hello(fd, h);
    LINKRIG_UNTIL(s.rig, s.n->out_up[2]);
    bool any = links_lanes(s.n->links, 2, &how);
    close(fd);
    close(listener);
    end(&s);
    return any;
}

static void a_peer_that_takes_none_or_is_older_has_no_lanes(void **state)
{
    assert_true(has_lanes(state, WIRE_VERSION, 2));
    assert_false(has_lanes(state, WIRE_VERSION, 0));
    assert_false(has_lanes(state, WIRE_VERSION_LANES - 1, 2)); /* it would take a lane for its peer's connection */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOPTEST_ON_BOTH(a_lane_of_a_connected_peer_is_handed_over),
        LOOPTEST_ON_BOTH(a_lane_before_its_node_is_connected_is_refused),
        LOOPTEST_ON_BOTH(a_lane_of_a_stranger_or_of_another_run_is_refused),
        LOOPTEST_ON_BOTH(a_node_that_takes_no_lanes_refuses_them),
        LOOPTEST_ON_BOTH(a_lane_whose_node_goes_while_it_is_handed_over_is_closed),
        LOOPTEST_ON_BOTH(links_that_end_while_a_lane_is_handed_over_leave_nothing),
        LOOPTEST_ON_BOTH(lanes_can_be_called_when_the_peer_is_reached),
        LOOPTEST_ON_BOTH(a_peer_that_takes_none_or_is_older_has_no_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
