#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "snapshot/pagecache.h"

enum { BYTES = 4096 };

/* A page's bytes tell which one it is. */
static void fill(struct pagecache_page *p, uint64_t file, uint32_t number)
{
    memset(pagecache_bytes(p), 0, BYTES);
    memcpy(pagecache_bytes(p), &file, 8);
    memcpy(pagecache_bytes(p) + BYTES - 4, &number, 4);
}

static void expect_page(struct pagecache_page *p, uint64_t file, uint32_t number)
{
    assert_memory_equal(pagecache_bytes(p), &file, 8);
    assert_memory_equal(pagecache_bytes(p) + BYTES - 4, &number, 4);
    assert_ptr_equal(pagecache_of(pagecache_bytes(p)), p);
}

static bool use(struct pagecache *c, uint64_t file, uint32_t number)
{
    struct pagecache_page *p;
    enum pagecache_found found = pagecache_take(c, file, number, BYTES, &p);
    if (found == PAGECACHE_LOAD) {
        fill(p, file, number);
        pagecache_loaded(c, p, 0);
    }
    assert_int_equal(pagecache_wait(c, p), 0);
    expect_page(p, file, number);
    pagecache_put(c, p);
    return found == PAGECACHE_READY;
}

static void a_page_that_was_fetched_is_there_until_others_need_its_room(void **state)
{
    struct pagecache *c = pagecache_new(16 * 16 * BYTES);
    struct pagecache_stats s;
    uint64_t file = pagecache_file(c), other = pagecache_file(c);
    assert_int_not_equal(file, other);
    assert_false(use(c, file, 1));
    assert_true(use(c, file, 1));
    assert_false(use(c, other, 1));
    for (uint32_t i = 2; i < 5000; i++) {
        use(c, file, i);
        assert_true(use(c, file, i));
    }
    assert_false(use(c, file, 1));
    pagecache_stats(c, &s);
    assert_true(s.bytes <= 16 * 16 * BYTES);
    assert_true(s.evicted > 4000);
    pagecache_forget(c, file);
    assert_false(use(c, file, 4999));
    pagecache_free(c);
}

static void a_page_that_is_held_stays_where_it_is(void **state)
{
    struct pagecache *c = pagecache_new(BYTES);
    struct pagecache_page *held;
    assert_int_equal(pagecache_take(c, 7, 7, BYTES, &held), PAGECACHE_LOAD);
    fill(held, 7, 7);
    pagecache_loaded(c, held, 0);
    for (uint32_t i = 0; i < 1000; i++) use(c, 1, i);
    expect_page(held, 7, 7);
    pagecache_forget(c, 7);
    expect_page(held, 7, 7);
    pagecache_put(c, held);
    pagecache_free(c);
}

static void a_failed_fetch_is_told_to_all_who_wait_and_then_tried_again(void **state)
{
    struct pagecache *c = pagecache_new(1 << 20);
    struct pagecache_page *mine, *theirs;
    assert_int_equal(pagecache_take(c, 1, 1, BYTES, &mine), PAGECACHE_LOAD);
    assert_int_equal(pagecache_take(c, 1, 1, BYTES, &theirs), PAGECACHE_WAIT);
    pagecache_loaded(c, mine, -5);
    assert_int_equal(pagecache_wait(c, theirs), -5);
    pagecache_put(c, mine);
    pagecache_put(c, theirs);
    assert_false(use(c, 1, 1));
    assert_true(use(c, 1, 1));
    pagecache_free(c);
}

struct crowd {
    struct pagecache *cache;
    atomic_uint loads;
};

static void *work(void *arg)
{
    struct crowd *w = arg;
    struct rng rng;
    rng_init(&rng, atomic_fetch_add(&w->loads, 1) + 77);
    for (int i = 0; i < 3000; i++) use(w->cache, rng_below(&rng, 3), (uint32_t)rng_below(&rng, 60));
    return NULL;
}

static void threads_share_a_small_cache(void **state)
{
    struct crowd w = {.cache = pagecache_new(32 * BYTES)};
    pthread_t threads[6];
    for (int i = 0; i < 6; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &w), 0);
    for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
    pagecache_free(w.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_that_was_fetched_is_there_until_others_need_its_room),
        cmocka_unit_test(a_page_that_is_held_stays_where_it_is),
        cmocka_unit_test(a_failed_fetch_is_told_to_all_who_wait_and_then_tried_again),
        cmocka_unit_test(threads_share_a_small_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
