#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "snapshot/readpool.h"

enum { PIECES = 50 };

struct count {
    struct readpool *pool;
    atomic_uint done[PIECES];
    atomic_uint inside, most;
};

static void note(void *arg, uint32_t i)
{
    struct count *c = arg;
    uint32_t now = atomic_fetch_add(&c->inside, 1) + 1, most = atomic_load(&c->most);
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now)) {}
    usleep(200);
    atomic_fetch_sub(&c->inside, 1);
    atomic_fetch_add(&c->done[i], 1);
}

static void every_piece_runs_once_and_not_too_many_together(void **state)
{
    for (uint32_t width = 1; width <= 5; width += 2) {
        struct count c = {.pool = readpool_new(width)};
        for (uint32_t n = 0; n <= PIECES; n += 10) readpool_run(c.pool, n, note, &c);
        for (uint32_t i = 0; i < PIECES; i++) assert_int_equal(atomic_load(&c.done[i]), 5 - i / 10);
        assert_true(atomic_load(&c.most) <= width);
        readpool_free(c.pool);
    }
}

static void nested(void *arg, uint32_t i)
{
    struct count *c = arg;
    readpool_run(c->pool, 7, note, c);
}

static void pieces_may_hand_out_pieces(void **state)
{
    struct count c = {.pool = readpool_new(3)};
    readpool_run(c.pool, 20, nested, &c);
    for (uint32_t i = 0; i < 7; i++) assert_int_equal(atomic_load(&c.done[i]), 20);
    readpool_free(c.pool);
}

static void *call(void *arg)
{
    struct count *c = arg;
    for (int i = 0; i < 20; i++) readpool_run(c->pool, 5, nested, c);
    return NULL;
}

static void any_number_of_threads_may_call(void **state)
{
    struct count c = {.pool = readpool_new(4)};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, call, &c), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < 7; i++) assert_int_equal(atomic_load(&c.done[i]), 4 * 20 * 5);
    readpool_free(c.pool);
}

static void post_note(void *arg) { note(arg, 0); }

static void what_was_posted_is_done_before_the_end(void **state)
{
    struct count c = {.pool = readpool_new(2)};
    uint32_t taken = 0;
    for (int i = 0; i < 200; i++) taken += readpool_post(c.pool, post_note, &c);
    assert_true(taken > 0 && taken <= 200);
    readpool_free(c.pool);
    assert_int_equal(atomic_load(&c.done[0]), taken);
    c.pool = readpool_new(1);
    assert_false(readpool_post(c.pool, post_note, &c));
    readpool_free(c.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_runs_once_and_not_too_many_together),
        cmocka_unit_test(pieces_may_hand_out_pieces),
        cmocka_unit_test(any_number_of_threads_may_call),
        cmocka_unit_test(what_was_posted_is_done_before_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
