/* Streams that an event loop lets go of while their connection goes on. Every test runs on both event loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "looptest.h"

enum { TURNS = 2000 };

struct rig {
    struct loop *loop;
    int wake_fd;
    struct stream stream;
    int far; /* the other end of its connection */
    char got[64];
    size_t n_got;
    unsigned ends, closes;
    bool release; /* when something comes */
    int fd; /* of the stream, when it was closed or let go of */
};

static void on_accept(void *ctx, int tag, int fd) { fail_msg("nobody listens"); }

static void on_data(void *ctx, struct stream *s, struct chunk *c, char *p, size_t n)
{
    struct rig *r = ctx;
    CHECK(r->n_got + n <= sizeof r->got);
    memcpy(r->got + r->n_got, p, n);
    r->n_got += n;
    if (r->release) stream_release(r->loop, s);
}

static void on_end(void *ctx, struct stream *s, int error) { ((struct rig *)ctx)->ends++; }
static bool on_drained(void *ctx, struct stream *s) { return true; }

static void on_closed(void *ctx, struct stream *s)
{
    struct rig *r = ctx;
    r->closes++;
    r->fd = s->fd;
}

static const struct loop_handler handler = {on_accept, on_data, on_end, on_drained, on_closed};

static void turn(struct rig *r) { loop_turn(r->loop, 1); }

#define UNTIL(r, condition) \
    do { \
        unsigned turns_ = 0; \
        while (!(condition)) { \
            turn(r); \
            if (++turns_ > TURNS) fail_msg("never: %s", #condition); \
        } \
    } while (0)

static void connect_stream(struct rig *r)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    r->far = ends[1];
    r->n_got = r->closes = r->ends = 0;
    stream_open(r->loop, &r->stream, ends[0], r);
}

static void start(void **state, struct rig *r)
{
    char error[128];
    *r = (struct rig){.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    r->loop = loop_new(looptest_backend(state), r->wake_fd, &handler, r, error);
    assert_non_null(r->loop);
    connect_stream(r);
}

static void stop(struct rig *r)
{
    loop_free(r->loop);
    close(r->wake_fd);
}

static void say(int fd, const char *what) { assert_int_equal(send(fd, what, strlen(what), MSG_NOSIGNAL), strlen(what)); }

static void hear(int fd, const char *what)
{
    char bytes[64];
    assert_int_equal(recv(fd, bytes, sizeof bytes, 0), strlen(what));
    assert_memory_equal(bytes, what, strlen(what));
}

/* It is the test's now, and the loop has no part in it. */
static void expect_released(struct rig *r)
{
    UNTIL(r, r->closes == 1);
    assert_true(r->fd >= 0);
    size_t before = r->n_got;
    say(r->far, "later");
    for (int i = 0; i < 3; i++) turn(r);
    assert_int_equal(r->n_got, before);
    assert_int_equal(r->ends, 0);
    assert_int_equal(r->closes, 1);
    hear(r->fd, "later");
    say(r->fd, "answer");
    hear(r->far, "answer");
}

static void hang_up(struct rig *r)
{
    close(r->fd);
    close(r->far);
}

static void a_stream_that_is_released_goes_on_elsewhere(void **state)
{
    struct rig r;
    start(state, &r);
    turn(&r); /* a receive is under way */
    stream_release(r.loop, &r.stream);
    assert_int_equal(r.closes, 0); /* not before its closer has looked at it */
    expect_released(&r);
    hang_up(&r);
    stop(&r);
}

static void it_may_be_released_before_the_loop_has_turned(void **state)
{
    struct rig r;
    start(state, &r);
    stream_release(r.loop, &r.stream);
    expect_released(&r);
    hang_up(&r);
    stop(&r);
}

static void it_may_be_released_while_its_bytes_are_looked_at(void **state)
{
    struct rig r;
    start(state, &r);
    r.release = true;
    say(r.far, "greeting");
    UNTIL(&r, r.n_got == 8);
    expect_released(&r);
    hang_up(&r);
    stop(&r);
}

static void it_may_be_released_while_nothing_is_read(void **state)
{
    struct rig r;
    start(state, &r);
    turn(&r);
    stream_read(r.loop, &r.stream, false);
    turn(&r);
    stream_release(r.loop, &r.stream);
    expect_released(&r);
    hang_up(&r);
    stop(&r);
}

static void it_may_be_released_when_all_is_sent(void **state)
{
    struct rig r;
    struct buf b = {0};
    start(state, &r);
    buf_add(&b, "greeting", 8);
    stream_send(r.loop, &r.stream, &b);
    UNTIL(&r, !stream_unsent(&r.stream) && !r.stream.sending);
    stream_release(r.loop, &r.stream);
    UNTIL(&r, r.closes == 1);
    hear(r.far, "greeting");
    expect_released(&r);
    hang_up(&r);
    buf_fini(&b);
    stop(&r);
}

/* The end of the connection is for who has it now. */
static void an_end_that_comes_meanwhile_is_found_by_the_new_owner(void **state)
{
    struct rig r;
    char byte;
    start(state, &r);
    turn(&r);
    stream_release(r.loop, &r.stream);
    close(r.far);
    UNTIL(&r, r.closes == 1);
    assert_int_equal(r.ends, 0);
    assert_int_equal(recv(r.fd, &byte, 1, 0), 0);
    close(r.fd);
    stop(&r);
}

/* And the stream's memory serves the next one, in another loop or in the same. */
static void a_released_connection_can_be_opened_again_in_a_loop(void **state)
{
    struct rig r;
    start(state, &r);
    turn(&r);
    stream_release(r.loop, &r.stream);
    expect_released(&r);
    r.closes = 0;
    stream_open(r.loop, &r.stream, r.fd, &r);
    assert_false(r.stream.released || r.stream.closed);
    say(r.far, "again");
    UNTIL(&r, r.n_got == 5);
    assert_memory_equal(r.got, "again", 5);
    stream_close(r.loop, &r.stream);
    UNTIL(&r, r.closes == 1);
    assert_int_equal(r.fd, -1); /* that was the loop's */
    close(r.far);
    stop(&r);
}

static void nothing_is_left_of_many_that_were_released(void **state)
{
    struct rig r;
    start(state, &r);
    stream_close(r.loop, &r.stream);
    UNTIL(&r, r.closes == 1);
    close(r.far);
    uint32_t before = looptest_open_files();
    for (int i = 0; i < 300; i++) {
        connect_stream(&r);
        if (i % 2) turn(&r);
        stream_release(r.loop, &r.stream);
        UNTIL(&r, r.closes == 1);
        hang_up(&r);
    }
    assert_int_equal(looptest_open_files(), before);
    stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOPTEST_ON_BOTH(a_stream_that_is_released_goes_on_elsewhere),
        LOOPTEST_ON_BOTH(it_may_be_released_before_the_loop_has_turned),
        LOOPTEST_ON_BOTH(it_may_be_released_while_its_bytes_are_looked_at),
        LOOPTEST_ON_BOTH(it_may_be_released_while_nothing_is_read),
        LOOPTEST_ON_BOTH(it_may_be_released_when_all_is_sent),
        LOOPTEST_ON_BOTH(an_end_that_comes_meanwhile_is_found_by_the_new_owner),
        LOOPTEST_ON_BOTH(a_released_connection_can_be_opened_again_in_a_loop),
        LOOPTEST_ON_BOTH(nothing_is_left_of_many_that_were_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
