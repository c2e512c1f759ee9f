/* Messages for all other nodes on their way to the raft thread: in order, whole, and no more of them than there is room for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/le.h"
#include "cluster/spread.h"

enum { THREADS = 4, EACH = 5000 };

/* Takes the first message of frames. */
static struct wirepub take(struct slice *frames)
{
    struct wire_frame f;
    struct wirepub p;
    const char *why = NULL;
    assert_int_equal(wire_frame(*frames, &f, &why), WIRE_OK);
    assert_int_equal(wirepub_get(&f, &p), 0);
    *frames = slice_of(frames->p + f.whole.n, frames->n - f.whole.n);
    return p;
}

static void what_was_put_is_taken_once_and_in_order(void **state)
{
    struct spread s;
    spread_init(&s);
    assert_int_equal(spread_take(&s).n, 0);
    for (int turn = 0; turn < 3; turn++) {
        assert_true(spread_put(&s, &(struct wirepub){.kind = WIREPUB_CHANNEL, .channel = SLICE("a"), .message = SLICE("1")}));
        assert_true(spread_put(&s, &(struct wirepub){.kind = WIREPUB_SHARD, .channel = SLICE("b"), .message = SLICE("")}));
        struct slice frames = spread_take(&s);
        struct wirepub first = take(&frames), second = take(&frames);
        assert_int_equal(frames.n, 0);
        assert_true(first.kind == WIREPUB_CHANNEL && slice_eq(first.channel, SLICE("a")) && slice_eq(first.message, SLICE("1")));
        assert_true(second.kind == WIREPUB_SHARD && slice_eq(second.channel, SLICE("b")) && slice_eq(second.message, SLICE("")));
        assert_int_equal(spread_take(&s).n, 0);
    }
    spread_fini(&s);
}

struct publisher {
    struct spread *s;
    uint32_t id;
};

static void *publish(void *arg)
{
    const struct publisher *p = arg;
    for (uint32_t i = 0; i < EACH; i++) {
        char bytes[8];
        le_set_u32(bytes, p->id);
        le_set_u32(bytes + 4, i);
        if (!spread_put(p->s, &(struct wirepub){.channel = SLICE("c"), .message = slice_of(bytes, sizeof bytes)})) abort();
    }
    return NULL;
}

static void the_messages_of_each_thread_stay_in_their_order(void **state)
{
    struct spread s;
    pthread_t threads[THREADS];
    struct publisher publishers[THREADS];
    uint32_t next[THREADS] = {0}, seen = 0;
    spread_init(&s);
    for (uint32_t i = 0; i < THREADS; i++) {
        publishers[i] = (struct publisher){&s, i};
        assert_int_equal(pthread_create(&threads[i], NULL, publish, &publishers[i]), 0);
    }
    while (seen < THREADS * EACH) {
        for (struct slice frames = spread_take(&s); frames.n; seen++) {
            struct wirepub p = take(&frames);
            uint32_t id = le_u32(p.message.p);
            assert_int_equal(le_u32(p.message.p + 4), next[id]++);
        }
    }
    for (uint32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(spread_take(&s).n, 0);
    spread_fini(&s);
}

static void what_is_beyond_the_bound_is_dropped_and_counted(void **state)
{
    enum { LONG = 1024 * 1024 };
    struct spread s;
    char *bytes = calloc(1, WIREPUB_BYTES_MAX + 1u);
    uint32_t taken = 0, dropped = 0;
    spread_init(&s);
    for (int i = 0; i < 40; i++) {
        bool ok = spread_put(&s, &(struct wirepub){.channel = SLICE("c"), .message = slice_of(bytes, LONG)});
        assert_true(!ok || !dropped); /* nothing goes ahead of what was dropped */
        taken += ok;
        dropped += !ok;
        assert_int_equal(spread_is_much(&s), taken * (LONG + 22u) > SPREAD_MUCH);
    }
    assert_true(taken >= SPREAD_MAX / LONG && taken <= SPREAD_MAX / LONG + 1 && dropped);
    assert_int_equal(atomic_load(&s.dropped), dropped);
    assert_int_equal(wire_count(spread_take(&s)), taken);
    assert_false(spread_is_much(&s));
    assert_true(spread_put(&s, &(struct wirepub){.channel = SLICE("c"), .message = SLICE("after")}));
    assert_false(spread_put(&s, &(struct wirepub){.channel = SLICE(""), .message = slice_of(bytes, WIREPUB_BYTES_MAX + 1u)}));
    spread_went(&s, 2, 3);
    assert_int_equal(atomic_load(&s.dropped), dropped + 4);
    assert_int_equal(atomic_load(&s.sent), 2);
    free(bytes);
    spread_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_taken_once_and_in_order),
        cmocka_unit_test(the_messages_of_each_thread_stay_in_their_order),
        cmocka_unit_test(what_is_beyond_the_bound_is_dropped_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
