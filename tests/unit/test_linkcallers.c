/* Whoever calls a node, and what they send: who is let in, and who is turned away. Every test runs on both event loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "linkrig.h"
#include "looptest.h"

static struct linkrig *start(void **state, uint32_t n) { return linkrig_new(looptest_backend(state), n); }

static void whatever_the_network_sends_is_turned_away(void **state)
{
    static const struct slice garbage[] = {SLICE("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), SLICE("*1\r\n$4\r\nPING\r\n"), SLICE("\x16\x03\x01\x02\x00\x01"), SLICE("\0\0\0\0\0\0\0\0"),
                                           SLICE("\x89sherd\r\n\xff\xff\xff\xff\0\0\0\0"), SLICE("\x89sherd\r\n\x3d\0\0\0\0\0\0\0aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")};
    struct linkrig *rig = start(state, 2);
    linkrig_meet_all(rig);
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2] && rig->nodes[2].out_up[1]);
    enum { KINDS = sizeof garbage / sizeof garbage[0] };
    for (unsigned i = 0; i < KINDS; i++) {
        int fd = linkrig_dial(rig->nodes[1].port);
        linkrig_write(fd, garbage[i]);
        LINKRIG_UNTIL(rig, linkrig_closed(fd));
        close(fd);
    }
    int scanner = linkrig_dial(rig->nodes[1].port); /* knocks and goes */
    close(scanner);
    LINKRIG_UNTIL(rig, linkrig_totals(rig, 1).refused == KINDS + 1 && linkrig_totals(rig, 1).callers == 0);
    assert_int_equal(rig->nodes[1].frames, 0);
    assert_int_equal(rig->nodes[1].downs, 0);
    linkrig_free(rig);
}

static void half_a_greeting_is_not_waited_for_for_ever(void **state)
{
    struct linkrig *rig = start(state, 1);
    struct wire_hello h = linkrig_hello(2, 1);
    struct buf b = {0};
    wire_add_hello(&b, &h);
    int fd = linkrig_dial(rig->nodes[1].port);
    for (size_t i = 0; i < 20; i++) linkrig_write(fd, slice_of(b.p + i, 1));
    linkrig_run(rig, 2000);
    assert_false(linkrig_closed(fd));
    LINKRIG_UNTIL(rig, linkrig_closed(fd));
    assert_int_equal(linkrig_totals(rig, 1).refused, 1);
    close(fd);
    buf_fini(&b);
    linkrig_free(rig);
}

/* As half of one is: else some patient callers could keep all others out. */
static void a_greeting_that_comes_drop_by_drop_is_not_waited_for_either(void **state)
{
    struct linkrig *rig = start(state, 1);
    struct wire_hello h = linkrig_hello(2, 1);
    struct buf b = {0};
    wire_add_hello(&b, &h);
    int fd = linkrig_dial(rig->nodes[1].port);
    uint64_t since = rig->now;
    for (size_t i = 0; i < b.len && !linkrig_closed(fd); i++) {
        (void)!send(fd, b.p + i, 1, MSG_NOSIGNAL);
        linkrig_run(rig, 250); /* all of it would take 18 seconds or so */
    }
    assert_true(rig->now - since >= 2900 && rig->now - since <= 4500);
    assert_int_equal(linkrig_totals(rig, 1).refused, 1);
    assert_int_equal(linkrig_totals(rig, 1).callers, 0);
    close(fd);
    buf_fini(&b);
    linkrig_free(rig);
}

static void a_greeting_may_come_byte_by_byte(void **state)
{
    struct linkrig *rig = start(state, 1);
    struct wire_hello h = linkrig_hello(2, 1);
    struct buf b = {0};
    links_peer_put(rig->nodes[1].links, 2, "127.0.0.1:9");
    wire_add_hello(&b, &h);
    linkrig_add_frame(&b, 1, 20);
    int fd = linkrig_dial(rig->nodes[1].port);
    for (size_t i = 0; i < b.len; i++) {
        linkrig_write(fd, slice_of(b.p + i, 1));
        linkrig_turn(rig);
    }
    LINKRIG_UNTIL(rig, rig->nodes[1].received[2] == 1);
    close(fd);
    buf_fini(&b);
    linkrig_free(rig);
}

static void frames_that_make_no_sense_end_their_connection(void **state)
{
    struct linkrig *rig = start(state, 1);
    struct buf frames[4] = {{0}};
    links_peer_put(rig->nodes[1].links, 2, "127.0.0.1:9");
    le_add_u32(&frames[0], 0x7fffffff); /* a huge length */
    linkrig_add_frame(&frames[1], 1, 100);
    frames[1].p[50] ^= 1; /* a bit flipped on the way */
    wire_add_ping(&frames[2], WIRE_PONG, 1); /* against its direction */
    linkrig_add_frame(&frames[3], 1, 100); /* good, but the owner does not understand it */
    rig->nodes[1].answer = -EBADMSG;
    for (unsigned i = 0; i < 4; i++) {
        int fd = linkrig_dial(rig->nodes[1].port);
        linkrig_write_hello(fd, linkrig_hello(2, 1));
        LINKRIG_UNTIL(rig, rig->nodes[1].in_up[2]);
        linkrig_write(fd, buf_slice(&frames[i]));
        LINKRIG_UNTIL(rig, !rig->nodes[1].in_up[2]);
        LINKRIG_UNTIL(rig, linkrig_closed(fd));
        close(fd);
        buf_fini(&frames[i]);
    }
    assert_int_equal(rig->nodes[1].frames, 1);
    linkrig_free(rig);
}

static void callers_that_never_greet_do_not_use_up_the_node(void **state)
{
    struct linkrig *rig = start(state, 2);
    int fds[200];
    for (unsigned i = 0; i < 200; i++) {
        fds[i] = linkrig_dial(rig->nodes[1].port);
        if (i % 20 == 0) linkrig_turn(rig);
    }
    LINKRIG_UNTIL(rig, linkrig_totals(rig, 1).refused == 200 - 64);
    assert_int_equal(linkrig_totals(rig, 1).callers, 64);
    linkrig_meet_all(rig);
    LINKRIG_UNTIL(rig, rig->nodes[2].out_up[1]); /* when their time is up */
    assert_int_equal(linkrig_totals(rig, 1).callers, 0);
    for (unsigned i = 0; i < 200; i++) close(fds[i]);
    linkrig_free(rig);
}

/* Whether node 1 lets a caller in who greets like this, as somebody who says so in its answer. */
static bool lets_in(struct linkrig *rig, struct wire_hello h)
{
    int fd = linkrig_dial(rig->nodes[1].port);
    char bytes[WIRE_HELLO_MAX];
    size_t n = 0, used;
    struct wire_hello answer;
    const char *why = NULL;
    linkrig_write_hello(fd, h);
    for (unsigned i = 0; i < LINKRIG_ROUNDS && wire_hello(slice_of(bytes, n), &answer, &used, &why) == WIRE_NEED_MORE; i++) {
        ssize_t more = recv(fd, bytes + n, sizeof bytes - n, MSG_DONTWAIT);
        if (more > 0) n += (size_t)more;
        linkrig_turn(rig);
    }
    assert_int_equal(wire_hello(slice_of(bytes, n), &answer, &used, &why), WIRE_OK);
    assert_int_equal(answer.node, 1);
    bool in = answer.to == h.node;
    if (!in) LINKRIG_UNTIL(rig, linkrig_closed(fd));
    close(fd);
    linkrig_run(rig, 20);
    return in;
}

static void only_the_right_node_is_let_in(void **state)
{
    struct linkrig *rig = start(state, 1);
    links_peer_put(rig->nodes[1].links, 2, "127.0.0.1:9");
    rig->nodes[1].hospitable = false;
    struct wire_hello h = linkrig_hello(2, 1);
    h.incarnation = 5;
    assert_true(lets_in(rig, h));
    assert_true(lets_in(rig, h)); /* again, after a broken connection */
    struct wire_hello other = h;
    other.cluster[3] ^= 1;
    assert_false(lets_in(rig, other));
    other = h;
    other.version = other.oldest = WIRE_VERSION + 1;
    assert_false(lets_in(rig, other));
    other.oldest = WIRE_VERSION; /* newer than us, but it still understands us */
    assert_true(lets_in(rig, other));
    other = h;
    other.node = 1; /* our own number */
    assert_false(lets_in(rig, other));
    other = h;
    other.to = 3; /* meant somebody else */
    assert_false(lets_in(rig, other));
    other = h;
    other.node = 3; /* no peer */
    assert_false(lets_in(rig, other));
    assert_int_equal(rig->nodes[1].stranger, 3);
    other = h;
    strcpy(other.address, "127.0.0.1:10"); /* the same run at another address: a copy, and nobody is asked */
    rig->nodes[1].hospitable = true;
    assert_false(lets_in(rig, other));
    other = h;
    other.incarnation = 4; /* an older run */
    assert_false(lets_in(rig, other));
    assert_int_equal(linkrig_totals(rig, 1).refused, 7);
    linkrig_free(rig);
}

static void a_peer_that_has_moved_and_a_guest_come_in_if_the_owner_says_so(void **state)
{
    struct linkrig *rig = start(state, 1);
    links_peer_put(rig->nodes[1].links, 2, "127.0.0.1:9");
    struct wire_hello h = linkrig_hello(2, 1), guest = linkrig_hello(3, 0);
    assert_true(lets_in(rig, h));
    h.incarnation = 2;
    strcpy(h.address, "127.0.0.1:10");
    assert_false(lets_in(rig, h));
    rig->nodes[1].hospitable = true;
    assert_true(lets_in(rig, h));
    assert_true(lets_in(rig, guest));
    linkrig_run(rig, 100);
    assert_int_equal(links_peers(rig->nodes[1].links, NULL, 0), 1); /* a guest is forgotten when it goes */
    linkrig_free(rig);
}

static void a_node_that_is_not_the_one_that_was_called_is_left_alone(void **state)
{
    struct linkrig *rig = start(state, 3);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", rig->nodes[3].port);
    links_peer_put(rig->nodes[1].links, 2, address); /* node 3 answers there */
    links_peer_put(rig->nodes[3].links, 1, "127.0.0.1:9");
    linkrig_run(rig, 500);
    assert_false(rig->nodes[1].out_up[2]);
    assert_int_equal(linkrig_stats(rig, 1, 2).error, -ECONNREFUSED);
    assert_true(linkrig_totals(rig, 3).refused > 0);
    assert_int_equal(rig->nodes[3].ups, 0);
    linkrig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOPTEST_ON_BOTH(whatever_the_network_sends_is_turned_away),
        LOOPTEST_ON_BOTH(half_a_greeting_is_not_waited_for_for_ever),
        LOOPTEST_ON_BOTH(a_greeting_that_comes_drop_by_drop_is_not_waited_for_either),
        LOOPTEST_ON_BOTH(a_greeting_may_come_byte_by_byte),
        LOOPTEST_ON_BOTH(frames_that_make_no_sense_end_their_connection),
        LOOPTEST_ON_BOTH(callers_that_never_greet_do_not_use_up_the_node),
        LOOPTEST_ON_BOTH(only_the_right_node_is_let_in),
        LOOPTEST_ON_BOTH(a_peer_that_has_moved_and_a_guest_come_in_if_the_owner_says_so),
        LOOPTEST_ON_BOTH(a_node_that_is_not_the_one_that_was_called_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
