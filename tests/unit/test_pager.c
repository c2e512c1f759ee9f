#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>

#include "io/pager.h"
#include "store/arena.h"

enum { PAGE = 4096, HUGE = PAGER_BYTES };

static char *map(size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

static size_t resident_pages(void *p, size_t bytes)
{
    static unsigned char in[64 * HUGE / PAGE];
    size_t n = 0;
    assert_int_equal(mincore(p, bytes, in), 0);
    for (size_t i = 0; i < bytes / PAGE; i++) n += in[i] & 1;
    return n;
}

static void wanted_pages_are_there_and_keep_their_contents(void **state)
{
    struct pager *pager = pager_new();
    char *p = map(4 * HUGE);
    madvise(p, 4 * HUGE, MADV_NOHUGEPAGE);
    p[HUGE] = 7;
    pager_want(pager, p + HUGE);
    pager_settle(pager);
    assert_int_equal(resident_pages(p + HUGE, HUGE), HUGE / PAGE);
    assert_int_equal(resident_pages(p, HUGE), 0);
    assert_int_equal(p[HUGE], 7);
    munmap(p, 4 * HUGE);
    pager_free(pager);
}

static void memory_that_is_gone_by_then_is_no_harm(void **state)
{
    struct pager *pager = pager_new();
    char *p = map(HUGE);
    munmap(p, HUGE);
    for (int i = 0; i < 1000; i++) pager_want(pager, p);
    pager_settle(pager);
    pager_free(pager);
}

static void a_pager_ends_with_wishes_unserved(void **state)
{
    struct pager *pager = pager_new();
    char *p = map(16 * HUGE);
    for (size_t i = 0; i < 16; i++) pager_want(pager, p + i * HUGE);
    pager_free(pager);
    munmap(p, 16 * HUGE);
}

/* Half of each huge page is room enough for the pager to be ahead: what an arena hands out is resident before anyone writes to it. */
static void an_arena_hands_out_pages_that_are_ready(void **state)
{
    enum { BLOCK = 4096, BEFORE = 20 << 20, WATCHED = 100 << 20 };
    struct pager *pager = pager_new();
    struct arena *a = arena_new();
    arena_set_pager(a, pager);
    size_t missing = 0;
    for (size_t at = 0; at < WATCHED; at += BLOCK) {
        char *p = arena_alloc(a, BLOCK);
        if (at % (1 << 20) == 0) pager_settle(pager);
        if (at > BEFORE) missing += resident_pages((void *)((uintptr_t)p & ~(uintptr_t)(PAGE - 1)), PAGE) == 0;
        memset(p, 1, BLOCK);
    }
    assert_int_equal(missing, 0);
    arena_check(a);
    arena_free(a);
    pager_free(pager);
}

static void an_expected_part_of_a_block_is_ready_and_the_rest_is_not(void **state)
{
    struct pager *pager = pager_new();
    struct arena *a = arena_new();
    size_t bytes = 10 * HUGE + 100;
    arena_set_pager(a, pager);
    char *p = arena_zalloc(a, bytes);
    assert_int_equal((uintptr_t)p % HUGE, 0);
    assert_int_equal(resident_pages(p, 10 * HUGE), 0);
    arena_expect(a, p, bytes, 1, 2 * HUGE + 1);
    arena_expect(a, p, bytes, 10 * HUGE, 20 * HUGE);
    pager_settle(pager);
    assert_int_equal(resident_pages(p + HUGE, 2 * HUGE), 2 * HUGE / PAGE);
    assert_int_equal(resident_pages(p, 10 * HUGE), 2 * HUGE / PAGE);
    arena_release(a, p, bytes);
    arena_check(a);
    arena_free(a);
    pager_free(pager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wanted_pages_are_there_and_keep_their_contents),
        cmocka_unit_test(memory_that_is_gone_by_then_is_no_harm),
        cmocka_unit_test(a_pager_ends_with_wishes_unserved),
        cmocka_unit_test(an_arena_hands_out_pages_that_are_ready),
        cmocka_unit_test(an_expected_part_of_a_block_is_ready_and_the_rest_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
