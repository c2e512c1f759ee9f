/* Lanes between the workers of nodes: what goes by them, what is lost with them, and how they come and go. */
#include "lanerig.h"

#include "cluster/wireraft.h"
#include "server/relay_call.h"

/* ---- requests and answers */

static void requests_and_answers_go_by_lanes(void **state)
{
    struct lanerig s = lanerig_begin();
    struct relayrig_client *other = relayrig_client_at(s.r, 2, 1);
    lanerig_cut_links(&s);
    relayrig_ask(s.c, "SET %s one", relayrig_key(s.r, 1, 0));
    relayrig_ask(s.c, "SET %s two", relayrig_key(s.r, 2, 0));
    relayrig_ask(s.c, "GET %s", relayrig_key(s.r, 1, 0));
    relayrig_go(s.c);
    lanerig_settle(&s);
    relayrig_expect(s.c, "+OK\r\n+OK\r\n$3\r\none\r\n");
    relayrig_ask(other, "GET %s", relayrig_key(s.r, 1, 0)); /* from the node that was called, and another worker */
    relayrig_ask(other, "SET %s three", relayrig_key(s.r, 0, 0));
    relayrig_go(other);
    lanerig_settle(&s);
    relayrig_expect(other, "$3\r\none\r\n+OK\r\n");
    lanerig_end(&s);
}

static void what_is_longer_than_a_frame_goes_by_lanes_too(void **state)
{
    struct lanerig s = lanerig_begin();
    const char *key = relayrig_key(s.r, 1, 0);
    lanerig_cut_links(&s);
    relayrig_ask(s.c, "SETRANGE %s 20000000 x", key);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    lanerig_settle(&s);
    struct slice got = buf_slice(&s.c->conn.out);
    assert_int_equal(got.n, strlen(":20000001\r\n$20000001\r\n") + 20000001 + 2);
    assert_memory_equal(got.p, ":20000001\r\n$20000001\r\n", strlen(":20000001\r\n$20000001\r\n"));
    s.c->conn.out.len = 0;
    relayrig_ask(s.c, "DEL %s", key);
    relayrig_go(s.c);
    lanerig_settle(&s);
    relayrig_expect(s.c, ":1\r\n");
    lanerig_end(&s);
}

static void a_read_that_is_lost_with_its_lane_is_asked_again(void **state)
{
    struct lanerig s = lanerig_begin();
    const char *key = relayrig_key(s.r, 1, 0);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    relayrig_turn(&s.r->nodes[0], 0);
    lanerig_break_lane(&s, 0, 1);
    assert_true(s.c->busy);
    lanerig_settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    LANERIG_UNTIL(&s, lanerig_lanes_up(&s) == LANERIG_ALL); /* and the lane is back */
    lanerig_end(&s);
}

/* Runs on node 1 and its entry is committed, but the lane breaks before the answer. */
static void lose_after_commit(struct lanerig *s, const char *key)
{
    uint32_t group = relayrig_group(s->r, key);
    struct relayrig_seat *seat = relayrig_seat(&s->r->nodes[1], group);
    uint64_t made = seat->made;
    relayrig_go(s->c);
    LANERIG_UNTIL(s, seat->made == made + 1);
    assert_true(s->c->busy);
    lanerig_break_lane(s, 0, 1);
    lanerig_turn(s, 0);
    assert_true(relayrig_commit(&s->r->nodes[1], group));
}

static void a_numbered_write_that_is_lost_with_its_lane_happens_once(void **state)
{
    struct lanerig s = lanerig_begin();
    const char *key = relayrig_key(s.r, 1, 0);
    relayrig_ask(s.c, "APPEND %s ab", key);
    lose_after_commit(&s, key);
    lanerig_settle(&s);
    relayrig_expect(s.c, ":2\r\n");
    assert_int_equal(s.r->repeated, 1);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    lanerig_settle(&s);
    relayrig_expect(s.c, "$2\r\nab\r\n");
    lanerig_end(&s);
}

static void note_over(void *ctx, struct call *c) { *(bool *)ctx = true; }

static void a_write_without_a_number_that_is_lost_with_its_lane_is_uncertain(void **state)
{
    struct lanerig s = lanerig_begin();
    bool over = false;
    struct slice name = SLICE("group.flushall"), reply;
    struct call *c = call_new(s.r->nodes[0].server.fronts[0], 0, 2, note_over, &over);
    call_add(c, relayrig_group(s.r, relayrig_key(s.r, 1, 0)), command_find_any(s.r->commands, name), &name, 1);
    call_send(c, 5000);
    relayrig_turn(&s.r->nodes[0], 0);
    assert_false(over);
    lanerig_break_lane(&s, 0, 1);
    LANERIG_UNTIL(&s, over);
    assert_int_equal(call_fate(c, 0, &reply), CALL_UNCERTAIN);
    call_free(c);
    lanerig_end(&s);
}

/* ---- lanes that come and go */

static uint32_t count_lanes(const struct lanerig *s, uint32_t node, uint32_t k, uint64_t peer, uint32_t *numbers)
{
    uint32_t n = 0;
    *numbers = 0;
    for (const struct relay_lane *l = lanerig_front(s, node, k)->lanes; l; l = l->next) {
        if (l->peer != peer || l->phase != LANE_UP) continue;
        *numbers |= 1u << l->number;
        n++;
    }
    return n;
}

/* Lanes 0 to 4 between two nodes with two fronts each: as if one of them had five. */
static void there_are_as_many_lanes_as_the_node_with_more_workers_has(void **state)
{
    struct lanerig s = lanerig_bare();
    uint32_t numbers;
    lanerig_connect_nodes(&s, 0, 1, 5);
    LANERIG_UNTIL(&s, lanerig_info(&s, 0).lanes == 5 && lanerig_info(&s, 1).lanes == 5);
    for (uint32_t node = 0; node < 2; node++) {
        assert_int_equal(count_lanes(&s, node, 0, 2 - node, &numbers), 3);
        assert_int_equal(numbers, 1 | 4 | 16);
        assert_int_equal(count_lanes(&s, node, 1, 2 - node, &numbers), 2);
        assert_int_equal(numbers, 2 | 8);
    }
    lanerig_cut_links(&s);
    lanerig_read_key(&s, relayrig_key(s.r, 1, 0), false);
    lanerig_end(&s);
}

static void a_node_with_fewer_workers_is_called_by_all_of_the_other(void **state)
{
    struct lanerig s = lanerig_bare();
    uint32_t numbers;
    lanerig_connect_nodes(&s, 0, 1, 1);
    LANERIG_UNTIL(&s, lanerig_info(&s, 0).lanes == 2 && lanerig_info(&s, 1).lanes == 2);
    for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) {
        assert_int_equal(count_lanes(&s, 0, k, 2, &numbers), 1);
        assert_int_equal(numbers, 1u << k);
    }
    lanerig_end(&s);
}

static void lanes_end_with_the_nodes_connection_and_come_with_the_next(void **state)
{
    struct lanerig s = lanerig_begin();
    relay_down(s.r->nodes[0].server.relay, 2);
    LANERIG_UNTIL(&s, lanerig_info(&s, 0).lanes == 2 && lanerig_info(&s, 1).lanes == 2);
    usleep(60 * 1000); /* they are not called again by themselves */
    for (int i = 0; i < 10; i++)
        for (uint32_t node = 0; node < RELAYRIG_NODES; node++) lanerig_turn(&s, node);
    assert_int_equal(lanerig_lanes_up(&s), LANERIG_ALL - 4);
    lanerig_connect_nodes(&s, 0, 1, RELAYRIG_FRONTS);
    LANERIG_UNTIL(&s, lanerig_lanes_up(&s) == LANERIG_ALL);
    lanerig_connect_nodes(&s, 0, 1, RELAYRIG_FRONTS); /* told twice: there are none twice */
    for (int i = 0; i < 10; i++)
        for (uint32_t node = 0; node < RELAYRIG_NODES; node++) lanerig_turn(&s, node);
    assert_int_equal(lanerig_lanes_up(&s), LANERIG_ALL);
    lanerig_end(&s);
}

static void lanes_prove_the_secret_and_come_back_with_it(void **state)
{
    struct lanerig s = lanerig_bare();
    linksecret_add(&s.secret, SLICE("of these nodes"));
    lanerig_connect(&s); /* which asserts that every caller proves it */
    lanerig_cut_links(&s);
    lanerig_read_key(&s, relayrig_key(s.r, 1, 0), false);
    lanerig_break_lane(&s, 0, 1);
    LANERIG_UNTIL(&s, lanerig_lanes_up(&s) < LANERIG_ALL);
    LANERIG_UNTIL(&s, lanerig_lanes_up(&s) == LANERIG_ALL);
    lanerig_end(&s);
}

static void a_node_that_proves_another_secret_gets_no_lane(void **state)
{
    struct lanerig s = lanerig_bare();
    struct linksecret right = {0};
    linksecret_add(&right, SLICE("of these nodes"));
    s.secret = right;
    lanerig_connect_nodes(&s, 0, 1, RELAYRIG_FRONTS); /* who knows that one */
    s.secret = (struct linksecret){0};
    linksecret_add(&s.secret, SLICE("of other nodes")); /* is proven to them */
    linksecret_add(&s.secret, SLICE("of these nodes"));
    for (int64_t until = clock_mono_us() + 300 * 1000; clock_mono_us() < until;) {
        for (uint32_t node = 0; node < RELAYRIG_NODES; node++) lanerig_turn(&s, node);
        assert_int_equal(lanerig_info(&s, 0).lanes, 0);
    }
    assert_true(lanerig_front(&s, 0, 0)->lane_serial > 1); /* it was tried again */
    s.secret = right;
    LANERIG_UNTIL(&s, lanerig_info(&s, 0).lanes == RELAYRIG_FRONTS);
    lanerig_end(&s);
}

/* ---- nonsense */

/* A lane from a peer to node 1 whose other end is the test's; the greeting has been read. */
static int stranger(struct lanerig *s)
{
    int ends[2];
    char bytes[64];
    struct slice greeting = SLICE("greeting");
    uint64_t up = lanerig_info(s, 1).lanes;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    relay_lane(s->r->nodes[1].server.relay, 1, 8, ends[0], greeting);
    LANERIG_UNTIL(s, lanerig_info(s, 1).lanes == up + 1);
    LANERIG_UNTIL(s, recv(ends[1], bytes, sizeof bytes, MSG_PEEK) > 0);
    assert_int_equal(recv(ends[1], bytes, sizeof bytes, 0), greeting.n);
    return ends[1];
}

static void expect_closed(struct lanerig *s, struct buf *bytes)
{
    char byte;
    int fd = stranger(s);
    assert_int_equal(send(fd, bytes->p, bytes->len, 0), bytes->len);
    LANERIG_UNTIL(s, recv(fd, &byte, 1, 0) == 0);
    close(fd);
    buf_fini(bytes);
}

static void a_lane_that_brings_nonsense_is_closed(void **state)
{
    struct lanerig s = lanerig_begin();
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
    lanerig_read_key(&s, relayrig_key(s.r, 1, 0), false); /* the others go on */
    lanerig_end(&s);
}

static void frames_may_come_byte_by_byte(void **state)
{
    struct lanerig s = lanerig_begin();
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
        lanerig_turn(&s, 1);
    }
    LANERIG_UNTIL(&s, (n = recv(fd, bytes, sizeof bytes, MSG_PEEK)) >= (ssize_t)b.len);
    assert_int_equal(n, b.len);
    assert_int_equal(wire_frame(slice_of(bytes, (size_t)n), &f, &why), WIRE_OK);
    assert_int_equal(f.type, WIRE_PROBE_ACK);
    assert_int_equal(wireraft_probe_get(&f, &p), 0);
    assert_int_equal(p.n, 1);
    assert_int_equal(wireraft_probe_at(&p, 0).term, termboard_term(s.r->nodes[1].board, RELAYRIG_FIRST));
    close(fd);
    buf_fini(&b);
    lanerig_end(&s);
}

/* Its worker has called again before this node saw that the old connection is gone. */
static void a_lane_takes_the_place_of_the_one_before_it(void **state)
{
    struct lanerig s = lanerig_begin();
    char byte;
    uint64_t up = lanerig_info(&s, 1).lanes;
    int old = stranger(&s), ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    relay_lane(s.r->nodes[1].server.relay, 1, 8, ends[0], SLICE("greeting"));
    LANERIG_UNTIL(&s, recv(old, &byte, 1, 0) == 0);
    assert_int_equal(lanerig_info(&s, 1).lanes, up + 1);
    close(old);
    close(ends[1]);
    LANERIG_UNTIL(&s, lanerig_info(&s, 1).lanes == up);
    lanerig_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_and_answers_go_by_lanes),
        cmocka_unit_test(what_is_longer_than_a_frame_goes_by_lanes_too),
        cmocka_unit_test(a_read_that_is_lost_with_its_lane_is_asked_again),
        cmocka_unit_test(a_numbered_write_that_is_lost_with_its_lane_happens_once),
        cmocka_unit_test(a_write_without_a_number_that_is_lost_with_its_lane_is_uncertain),
        cmocka_unit_test(there_are_as_many_lanes_as_the_node_with_more_workers_has),
        cmocka_unit_test(a_node_with_fewer_workers_is_called_by_all_of_the_other),
        cmocka_unit_test(lanes_end_with_the_nodes_connection_and_come_with_the_next),
        cmocka_unit_test(lanes_prove_the_secret_and_come_back_with_it),
        cmocka_unit_test(a_node_that_proves_another_secret_gets_no_lane),
        cmocka_unit_test(a_lane_that_brings_nonsense_is_closed),
        cmocka_unit_test(frames_may_come_byte_by_byte),
        cmocka_unit_test(a_lane_takes_the_place_of_the_one_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
