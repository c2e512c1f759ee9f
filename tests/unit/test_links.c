/* Links between nodes on real sockets: order, loss, reconnects. Every test runs on both event loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "linkrig.h"
#include "looptest.h"

static struct linkrig *start(void **state, uint32_t n) { return linkrig_new(looptest_backend(state), n); }

/* ---- frames */

static void frames_of_all_sizes_arrive_whole_and_in_order(void **state)
{
    struct linkrig *rig = start(state, 3);
    struct rng r;
    uint64_t number = 0;
    rng_init(&r, 1);
    linkrig_meet_all(rig);
    for (uint64_t a = 1; a <= 3; a++)
        for (uint64_t b = 1; b <= 3; b++) LINKRIG_UNTIL(rig, a == b || (rig->nodes[a].out_up[b] && rig->nodes[b].in_up[a]));
    for (unsigned round = 0; round < 60; round++) {
        number++;
        for (uint64_t a = 1; a <= 3; a++)
            for (uint64_t b = 1; b <= 3; b++)
                if (a != b) assert_true(linkrig_send(rig, a, b, number, rng_below(&r, rng_below(&r, 8) ? 300 : 300000)));
        if (rng_below(&r, 2)) linkrig_turn(rig);
    }
    for (uint64_t a = 1; a <= 3; a++)
        for (uint64_t b = 1; b <= 3; b++) LINKRIG_UNTIL(rig, a == b || rig->nodes[b].received[a] == number);
    struct links_stats s = linkrig_stats(rig, 1, 2);
    assert_int_equal(s.frames_out, number);
    assert_int_equal(s.dropped, 0);
    assert_int_equal(s.connects, 1);
    assert_int_equal(s.state, LINKS_UP);
    assert_true(linkrig_stats(rig, 2, 1).frames_in >= number); /* and pings */
    linkrig_free(rig);
}

static void the_largest_frame_passes_even_where_less_may_be_queued(void **state)
{
    struct linkrig *rig = start(state, 2);
    linkrig_stop(rig, 1);
    rig->nodes[1].options.out_max = 100000;
    linkrig_start(rig, 1);
    linkrig_meet(rig, 1, 2);
    linkrig_meet(rig, 2, 1);
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2]);
    assert_true(linkrig_send(rig, 1, 2, 1, WIRE_BODY_MAX - 8));
    assert_false(linkrig_send(rig, 1, 2, 2, 1));
    LINKRIG_UNTIL(rig, rig->nodes[2].received[1] == 1);
    assert_true(linkrig_send(rig, 1, 2, 3, 1));
    LINKRIG_UNTIL(rig, rig->nodes[2].received[1] == 2);
    assert_int_equal(linkrig_stats(rig, 1, 2).dropped_slow, 1);
    linkrig_free(rig);
}

static void frames_to_nobody_are_dropped_and_counted(void **state)
{
    struct linkrig *rig = start(state, 2);
    assert_false(linkrig_send(rig, 1, 2, 1, 10)); /* no peer */
    linkrig_meet(rig, 1, 2);
    assert_false(linkrig_send(rig, 1, 2, 2, 10)); /* not connected yet */
    assert_int_equal(linkrig_stats(rig, 1, 2).dropped, 1);
    assert_int_equal(linkrig_stats(rig, 1, 2).dropped_slow, 0);
    linkrig_free(rig);
}

/* ---- connections come and go */

static void a_node_that_starts_later_is_reached(void **state)
{
    struct linkrig *rig = start(state, 2);
    linkrig_stop(rig, 2);
    linkrig_meet(rig, 1, 2);
    linkrig_run(rig, 3000);
    assert_false(rig->nodes[1].out_up[2]);
    assert_int_equal(linkrig_stats(rig, 1, 2).error, -ECONNREFUSED);
    linkrig_start(rig, 2);
    linkrig_meet(rig, 2, 1);
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2]);
    assert_int_equal(linkrig_stats(rig, 1, 2).error, 0);
    linkrig_free(rig);
}

static void after_a_restart_frames_flow_again_both_ways(void **state)
{
    struct linkrig *rig = start(state, 2);
    linkrig_meet_all(rig);
    for (uint64_t round = 1; round <= 5; round++) {
        LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2] && rig->nodes[2].out_up[1] && rig->nodes[1].in_up[2] && rig->nodes[2].in_up[1]);
        uint64_t before = rig->nodes[2].received[1];
        assert_true(linkrig_send(rig, 1, 2, round, 100));
        assert_true(linkrig_send(rig, 2, 1, round, 100));
        LINKRIG_UNTIL(rig, rig->nodes[2].received[1] == before + 1 && rig->nodes[1].received[2] == round);
        linkrig_send(rig, 1, 2, round, 5 << 20); /* some of it is under way when the other dies */
        links_flush(rig->nodes[1].links);
        linkrig_stop(rig, 2);
        LINKRIG_UNTIL(rig, !rig->nodes[1].out_up[2] && !rig->nodes[1].in_up[2]);
        linkrig_start(rig, 2);
        linkrig_meet(rig, 2, 1);
    }
    assert_int_equal(linkrig_stats(rig, 1, 2).connects, 5);
    linkrig_free(rig);
}

/* The number in a frame only grows (linkrig_on_frame checks it): whatever the cuts do, nothing comes twice or late. */
static void a_wire_that_is_cut_at_random_bytes_loses_frames_but_never_mixes_them(void **state)
{
    struct linkrig *rig = start(state, 2);
    struct linkrig_wire w;
    struct rng r;
    char address[32];
    uint64_t sent = 0, accepted = 0;
    rng_init(&r, 7);
    linkrig_stop(rig, 1);
    rig->nodes[1].options.retry_max_ms = 100;
    linkrig_start(rig, 1);
    linkrig_wire_open(&w, rig->nodes[2].port);
    snprintf(address, sizeof address, "127.0.0.1:%u", w.port);
    links_peer_put(rig->nodes[1].links, 2, address);
    linkrig_meet(rig, 2, 1);
    for (unsigned round = 0; round < 1500; round++) {
        for (uint64_t k = rng_below(&r, 4); k; k--) accepted += linkrig_send(rig, 1, 2, ++sent, rng_below(&r, rng_below(&r, 4) ? 400 : 20000));
        linkrig_turn(rig);
        linkrig_wire_carry(&w, 1 + rng_below(&r, 60000));
        if (!rng_below(&r, 60)) linkrig_wire_cut(&w);
    }
    for (unsigned i = 0; i < 200; i++) {
        linkrig_turn(rig);
        linkrig_wire_carry(&w, 65536);
    }
    struct links_stats s = linkrig_stats(rig, 1, 2);
    assert_true(w.cuts > 10 && s.connects > 10);
    assert_int_equal(s.frames_out, accepted);
    assert_true(s.dropped >= sent - accepted);
    assert_true(rig->nodes[2].received[1] > accepted / 4 && rig->nodes[2].received[1] < accepted);
    linkrig_wire_close(&w);
    linkrig_free(rig);
}

static void a_peer_that_connects_anew_ends_its_old_connection(void **state)
{
    struct linkrig *rig = start(state, 1);
    links_peer_put(rig->nodes[1].links, 2, "127.0.0.1:9");
    struct buf half = {0}, whole = {0};
    linkrig_add_frame(&half, 1, 1000);
    linkrig_add_frame(&whole, 2, 1000);
    int old = linkrig_dial(rig->nodes[1].port);
    linkrig_write_hello(old, linkrig_hello(2, 1));
    linkrig_write(old, slice_of(half.p, 500));
    LINKRIG_UNTIL(rig, rig->nodes[1].in_up[2]);
    linkrig_run(rig, 50);
    int new = linkrig_dial(rig->nodes[1].port);
    linkrig_write_hello(new, linkrig_hello(2, 1));
    linkrig_write(new, buf_slice(&whole));
    LINKRIG_UNTIL(rig, rig->nodes[1].received[2] == 1);
    (void)!send(old, half.p + 500, half.len - 500, MSG_NOSIGNAL); /* too late: the frame would be older than one that has arrived */
    linkrig_run(rig, 100);
    assert_true(linkrig_closed(old));
    assert_int_equal(rig->nodes[1].from[2], 2);
    assert_int_equal(rig->nodes[1].frames, 1);
    assert_int_equal(linkrig_stats(rig, 1, 2).accepts, 2);
    assert_int_equal(rig->nodes[1].downs, 1);
    assert_false(linkrig_closed(new));
    close(old);
    close(new);
    buf_fini(&half);
    buf_fini(&whole);
    linkrig_free(rig);
}

static void a_connection_that_ends_in_the_middle_of_a_frame_delivers_none_of_it(void **state)
{
    struct linkrig *rig = start(state, 1);
    struct buf frame = {0};
    links_peer_put(rig->nodes[1].links, 2, "127.0.0.1:9");
    linkrig_add_frame(&frame, 1, 100);
    for (size_t n = 1; n < frame.len; n += 7) {
        int fd = linkrig_dial(rig->nodes[1].port);
        linkrig_write_hello(fd, linkrig_hello(2, 1));
        linkrig_write(fd, slice_of(frame.p, n));
        LINKRIG_UNTIL(rig, rig->nodes[1].in_up[2]);
        close(fd);
        LINKRIG_UNTIL(rig, !rig->nodes[1].in_up[2]);
    }
    assert_int_equal(rig->nodes[1].frames, 0);
    buf_fini(&frame);
    linkrig_free(rig);
}

static void an_address_that_changes_is_followed(void **state)
{
    struct linkrig *rig = start(state, 3);
    linkrig_meet(rig, 2, 1);
    linkrig_meet(rig, 3, 1);
    links_peer_put(rig->nodes[1].links, 2, "127.0.0.1:9");
    linkrig_run(rig, 500);
    assert_false(rig->nodes[1].out_up[2]);
    linkrig_meet(rig, 1, 2);
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2]);
    links_peer_put(rig->nodes[1].links, 2, "127.0.0.1:9");
    assert_false(rig->nodes[1].out_up[2]);
    assert_int_equal(rig->nodes[1].downs, 1);
    linkrig_run(rig, 500);
    assert_false(rig->nodes[1].out_up[2]);
    links_peer_put(rig->nodes[1].links, 2, "no colon");
    linkrig_run(rig, 500);
    assert_int_equal(linkrig_stats(rig, 1, 2).error, -EINVAL);
    linkrig_free(rig);
}

static void a_name_is_looked_up_and_may_be_given_up_meanwhile(void **state)
{
    struct linkrig *rig = start(state, 2);
    char address[64];
    snprintf(address, sizeof address, "localhost:%u", rig->nodes[2].port);
    linkrig_meet(rig, 2, 1);
    links_peer_put(rig->nodes[1].links, 2, address);
    struct links_stats s;
    /* Where localhost is ::1 first, nobody answers there: resolved it is in any case. */
    for (unsigned i = 0; i < LINKRIG_ROUNDS; i++) {
        linkrig_turn(rig);
        s = linkrig_stats(rig, 1, 2);
        if (s.state == LINKS_UP || s.error == -ECONNREFUSED) break;
    }
    assert_true(s.state == LINKS_UP || s.error == -ECONNREFUSED);
    links_peer_put(rig->nodes[1].links, 2, "no-such-name.invalid:7000");
    linkrig_turn(rig);
    linkrig_free(rig); /* also while a name is being looked up */
}

static void a_peer_that_was_removed_is_neither_heard_nor_called(void **state)
{
    struct linkrig *rig = start(state, 2);
    linkrig_meet_all(rig);
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2] && rig->nodes[1].in_up[2]);
    links_peer_del(rig->nodes[1].links, 2);
    assert_int_equal(links_peers(rig->nodes[1].links, NULL, 0), 0);
    struct links_stats s;
    assert_false(links_stats(rig->nodes[1].links, 2, &s));
    LINKRIG_UNTIL(rig, !rig->nodes[2].in_up[1] && !rig->nodes[2].out_up[1]);
    uint64_t before = linkrig_totals(rig, 1).refused;
    LINKRIG_UNTIL(rig, linkrig_totals(rig, 1).refused > before); /* it calls, and is a stranger now */
    assert_int_equal(rig->nodes[1].stranger, 2);
    LINKRIG_UNTIL(rig, linkrig_stats(rig, 2, 1).error == -ECONNREFUSED);
    linkrig_free(rig);
}

static void attempts_are_made_ever_more_seldom_and_never_at_one_rhythm(void **state)
{
    struct linkrig *rig = start(state, 1);
    uint16_t port;
    char address[32];
    uint64_t last = 0, gaps[100];
    unsigned n = 0;
    int listener = linkrig_listener(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    links_peer_put(rig->nodes[1].links, 2, address);
    for (uint64_t end = rig->now + 20000; rig->now < end;) {
        linkrig_turn(rig);
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) continue;
        close(fd);
        if (last) gaps[n++] = rig->now - last;
        last = rig->now;
        assert_true(n < 100);
    }
    assert_true(n > 12 && n < 60);
    assert_true(gaps[0] <= 200);
    uint64_t least = UINT64_MAX, most = 0;
    for (unsigned i = 8; i < n; i++) {
        assert_true(gaps[i] >= 400 && gaps[i] <= 1500);
        least = gaps[i] < least ? gaps[i] : least;
        most = gaps[i] > most ? gaps[i] : most;
    }
    assert_true(most - least > 100);
    close(listener);
    linkrig_free(rig);
}

/* ---- silence */

/* Opens a listener that plays node 2, lets node 1 connect to it, and greets. */
static int play_peer(struct linkrig *rig, int *listener)
{
    uint16_t port;
    char address[32];
    int fd = -1;
    *listener = linkrig_listener(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    links_peer_put(rig->nodes[1].links, 2, address);
    LINKRIG_UNTIL(rig, (fd = accept(*listener, NULL, NULL)) >= 0);
    struct wire_hello hello = linkrig_hello(2, 1);
    linkrig_write_hello(fd, hello);
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2]);
    return fd;
}

static void a_peer_that_greets_and_says_nothing_more_is_given_up(void **state)
{
    struct linkrig *rig = start(state, 1);
    int listener, fd = play_peer(rig, &listener);
    uint64_t since = rig->now;
    while (rig->nodes[1].out_up[2] && rig->now < since + 20000) {
        linkrig_turn(rig);
        linkrig_closed(fd); /* reads the pings, answers none */
    }
    assert_true(rig->now - since >= 2900 && rig->now - since <= 4000);
    assert_int_equal(linkrig_stats(rig, 1, 2).error, -ETIMEDOUT);
    close(fd);
    close(listener);
    linkrig_free(rig);
}

static void idle_connections_stay_and_the_round_trip_is_known(void **state)
{
    struct linkrig *rig = start(state, 2);
    linkrig_meet_all(rig);
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2] && rig->nodes[2].out_up[1]);
    linkrig_run(rig, 20000);
    assert_int_equal(rig->nodes[1].downs + rig->nodes[2].downs, 0);
    assert_true(linkrig_stats(rig, 1, 2).round_trip_us > 0);
    linkrig_free(rig);
}

static void a_process_that_stood_still_does_not_take_its_peers_for_dead(void **state)
{
    struct linkrig *rig = start(state, 2);
    linkrig_meet_all(rig);
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2] && rig->nodes[2].out_up[1]);
    for (unsigned i = 0; i < 5; i++) {
        linkrig_run(rig, 2000);
        rig->now += 60000;
    }
    linkrig_run(rig, 2000);
    assert_int_equal(rig->nodes[1].downs + rig->nodes[2].downs, 0);
    linkrig_free(rig);
}

static void a_slow_reader_loses_whole_frames_and_what_waits_for_it_is_bounded(void **state)
{
    struct linkrig *rig = start(state, 1);
    linkrig_stop(rig, 1);
    rig->nodes[1].options.out_max = 1 << 20;
    rig->nodes[1].options.silence_ms = 60000; /* the kernel gives up a peer that reads nothing by the same time, and its clock is not ours */
    linkrig_start(rig, 1);
    int listener, fd = play_peer(rig, &listener);
    uint64_t sent = 0, queued = 0;
    for (unsigned i = 0; i < 300; i++) { /* half of that silence: there is a ping among the frames */
        queued += linkrig_send(rig, 1, 2, ++sent, 100000);
        linkrig_turn_after(rig, 100);
        assert_true(linkrig_stats(rig, 1, 2).queued <= (1 << 20) + 1000);
    }
    struct links_stats s = linkrig_stats(rig, 1, 2);
    assert_true(queued < sent);
    assert_int_equal(s.dropped, sent - queued);
    assert_int_equal(s.dropped_slow, sent - queued);
    assert_int_equal(s.frames_out, queued);
    /* What it reads at last are whole frames, in order, and pings. */
    struct buf in = {0};
    uint64_t got = 0, last = 0, pings = 0;
    size_t at = 0, greeting = 0;
    struct wire_hello hello;
    const char *why = NULL;
    for (unsigned round = 0; got < queued && round < LINKRIG_ROUNDS; round++) {
        ssize_t n = recv(fd, buf_room(&in, 1 << 16), 1 << 16, MSG_DONTWAIT);
        if (n > 0) in.len += (size_t)n;
        if (!greeting && wire_hello(buf_slice(&in), &hello, &greeting, &why) == WIRE_OK) at = greeting;
        struct wire_frame f;
        while (greeting && wire_frame(slice_of(in.p + at, in.len - at), &f, &why) == WIRE_OK) {
            at += f.whole.n;
            pings += f.type == WIRE_PING;
            if (f.type == WIRE_PING) continue;
            assert_true(le_u64(f.body.p) > last);
            last = le_u64(f.body.p);
            got++;
        }
        linkrig_turn(rig);
    }
    assert_int_equal(got, queued);
    assert_true(pings > 0);
    buf_fini(&in);
    close(fd);
    close(listener);
    linkrig_free(rig);
}

static void a_slow_reader_that_goes_on_reading_is_not_given_up(void **state)
{
    struct linkrig *rig = start(state, 1);
    char bytes[65536];
    int listener, fd = play_peer(rig, &listener);
    for (uint64_t i = 1; i <= 30; i++) linkrig_send(rig, 1, 2, i, 1 << 20);
    for (uint64_t end = rig->now + 10000; rig->now < end;) { /* more than three times the silence, and no ping is answered */
        linkrig_turn_after(rig, LINKRIG_LONG_STEP_MS);
        for (unsigned k = 0; k < 2; k++) (void)!recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    }
    assert_true(rig->nodes[1].out_up[2]);
    assert_int_equal(rig->nodes[1].downs, 0);
    close(fd);
    close(listener);
    linkrig_free(rig);
}

static void what_waits_for_a_connection_goes_with_it(void **state)
{
    struct linkrig *rig = start(state, 1);
    int listener, fd = play_peer(rig, &listener);
    for (uint64_t i = 1; i <= 30; i++) linkrig_send(rig, 1, 2, i, 1 << 20);
    linkrig_turn(rig);
    for (uint64_t i = 31; i <= 40; i++) linkrig_send(rig, 1, 2, i, 100); /* behind what is under way */
    linkrig_turn(rig);
    close(fd);
    LINKRIG_UNTIL(rig, !rig->nodes[1].out_up[2]);
    assert_int_equal(linkrig_stats(rig, 1, 2).dropped, 10);
    LINKRIG_UNTIL(rig, (fd = accept(listener, NULL, NULL)) >= 0);
    linkrig_write_hello(fd, linkrig_hello(2, 1));
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2]);
    linkrig_send(rig, 1, 2, 41, 100);
    linkrig_run(rig, 50);
    struct buf in = {0};
    struct wire_hello hello;
    struct wire_frame f;
    size_t used = 0;
    const char *why = NULL;
    ssize_t n = recv(fd, buf_room(&in, 65536), 65536, MSG_DONTWAIT);
    assert_int_equal(wire_hello(slice_of(in.p, n > 0 ? (size_t)n : 0), &hello, &used, &why), WIRE_OK);
    assert_int_equal(wire_frame(slice_of(in.p + used, (size_t)n - used), &f, &why), WIRE_OK);
    assert_int_equal(le_u64(f.body.p), 41);
    buf_fini(&in);
    close(fd);
    close(listener);
    linkrig_free(rig);
}

static void a_peer_that_takes_nothing_any_more_is_given_up(void **state)
{
    struct linkrig *rig = start(state, 1);
    linkrig_stop(rig, 1);
    rig->nodes[1].options.silence_ms = 60000; /* the kernel gives it up by the same time, and would be first on a busy machine if the clock were not faster than its own */
    linkrig_start(rig, 1);
    int listener, fd = play_peer(rig, &listener);
    for (uint64_t i = 1; i <= 30; i++) linkrig_send(rig, 1, 2, i, 1 << 20);
    for (unsigned i = 0; i < LINKRIG_ROUNDS && rig->nodes[1].out_up[2]; i++) linkrig_turn_after(rig, 1000);
    assert_false(rig->nodes[1].out_up[2]);
    assert_int_equal(linkrig_stats(rig, 1, 2).error, -ETIMEDOUT);
    assert_int_equal(linkrig_stats(rig, 1, 2).queued, 0);
    close(fd);
    close(listener);
    linkrig_free(rig);
}

/* ---- frames for everybody */

static uint64_t spread(struct linkrig *rig, uint64_t number, size_t bytes, uint16_t version, size_t queued_max, uint64_t *dropped)
{
    struct buf frames = {0};
    linkrig_add_frame(&frames, number, bytes);
    linkrig_add_frame(&frames, number + 1, bytes);
    uint64_t sent = links_spread(rig->nodes[1].links, buf_slice(&frames), version, queued_max, dropped);
    buf_fini(&frames);
    return sent;
}

static void what_is_spread_reaches_every_peer_that_is_connected(void **state)
{
    struct linkrig *rig = start(state, 3);
    uint64_t dropped = 0;
    linkrig_meet(rig, 2, 1);
    linkrig_meet(rig, 3, 1);
    linkrig_meet(rig, 1, 2);
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2]);
    assert_int_equal(spread(rig, 1, 100, WIRE_VERSION, 1000, &dropped), 2);
    linkrig_meet(rig, 1, 3);
    assert_int_equal(spread(rig, 3, 100, WIRE_VERSION, 1000, &dropped), 2); /* it is a peer, but not connected yet */
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[3]);
    assert_int_equal(spread(rig, 5, 100, WIRE_VERSION, 1000, &dropped), 4);
    LINKRIG_UNTIL(rig, rig->nodes[2].received[1] == 6 && rig->nodes[3].received[1] == 2);
    assert_int_equal(dropped, 0);
    linkrig_free(rig);
}

static void what_is_spread_is_not_sent_to_nodes_that_would_not_understand_it(void **state)
{
    struct linkrig *rig = start(state, 1);
    uint64_t dropped = 0;
    int listener, fd = play_peer(rig, &listener);
    assert_int_equal(spread(rig, 1, 100, WIRE_VERSION + 1, 1000, &dropped), 0);
    assert_int_equal(dropped, 0);
    assert_int_equal(linkrig_stats(rig, 1, 2).frames_out, 0);
    assert_int_equal(spread(rig, 1, 100, WIRE_VERSION, 1000, &dropped), 2);
    close(fd);
    close(listener);
    linkrig_free(rig);
}

static void what_is_spread_to_a_slow_reader_is_dropped_long_before_other_frames_are(void **state)
{
    enum { MOST = 1 << 20 };
    struct linkrig *rig = start(state, 1);
    linkrig_stop(rig, 1);
    rig->nodes[1].options.silence_ms = 60000;
    linkrig_start(rig, 1);
    int listener, fd = play_peer(rig, &listener);
    uint64_t number = 1, sent = 0, dropped = 0;
    for (unsigned i = 0; i < 200; i++, number += 2) {
        sent += spread(rig, number, 50000, WIRE_VERSION, MOST, &dropped);
        linkrig_turn_after(rig, 100);
        assert_true(linkrig_stats(rig, 1, 2).queued <= MOST + 1000);
    }
    assert_true(dropped > 0);
    assert_int_equal(sent + dropped, 400);
    assert_true(linkrig_send(rig, 1, 2, number, 100000)); /* there is room for what counts */
    assert_int_equal(linkrig_stats(rig, 1, 2).dropped_slow, dropped);
    close(fd);
    close(listener);
    linkrig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOPTEST_ON_BOTH(frames_of_all_sizes_arrive_whole_and_in_order),
        LOOPTEST_ON_BOTH(the_largest_frame_passes_even_where_less_may_be_queued),
        LOOPTEST_ON_BOTH(frames_to_nobody_are_dropped_and_counted),
        LOOPTEST_ON_BOTH(a_node_that_starts_later_is_reached),
        LOOPTEST_ON_BOTH(after_a_restart_frames_flow_again_both_ways),
        LOOPTEST_ON_BOTH(a_wire_that_is_cut_at_random_bytes_loses_frames_but_never_mixes_them),
        LOOPTEST_ON_BOTH(a_peer_that_connects_anew_ends_its_old_connection),
        LOOPTEST_ON_BOTH(a_connection_that_ends_in_the_middle_of_a_frame_delivers_none_of_it),
        LOOPTEST_ON_BOTH(an_address_that_changes_is_followed),
        LOOPTEST_ON_BOTH(a_name_is_looked_up_and_may_be_given_up_meanwhile),
        LOOPTEST_ON_BOTH(a_peer_that_was_removed_is_neither_heard_nor_called),
        LOOPTEST_ON_BOTH(attempts_are_made_ever_more_seldom_and_never_at_one_rhythm),
        LOOPTEST_ON_BOTH(a_peer_that_greets_and_says_nothing_more_is_given_up),
        LOOPTEST_ON_BOTH(idle_connections_stay_and_the_round_trip_is_known),
        LOOPTEST_ON_BOTH(a_process_that_stood_still_does_not_take_its_peers_for_dead),
        LOOPTEST_ON_BOTH(a_slow_reader_loses_whole_frames_and_what_waits_for_it_is_bounded),
        LOOPTEST_ON_BOTH(a_slow_reader_that_goes_on_reading_is_not_given_up),
        LOOPTEST_ON_BOTH(what_waits_for_a_connection_goes_with_it),
        LOOPTEST_ON_BOTH(a_peer_that_takes_nothing_any_more_is_given_up),
        LOOPTEST_ON_BOTH(what_is_spread_reaches_every_peer_that_is_connected),
        LOOPTEST_ON_BOTH(what_is_spread_is_not_sent_to_nodes_that_would_not_understand_it),
        LOOPTEST_ON_BOTH(what_is_spread_to_a_slow_reader_is_dropped_long_before_other_frames_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
