/* Figures of a group's ranges as another node reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "server/rangefigures.h"

static const char two_ranges[] = "*22\r\n:1000\r\n:77\r\n"
                                 ":5\r\n:2\r\n:1\r\n:10\r\n:600\r\n:40\r\n:3\r\n:0\r\n:1\r\n:5001\r\n"
                                 ":6\r\n:9\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n";

static void what_a_leader_tells_is_read(void **state)
{
    struct rangefigures f;
    struct rangefigures_range r;
    assert_true(rangefigures_begin(&f, slice_str(two_ranges)));
    assert_int_equal(f.bytes, 1000);
    assert_int_equal(f.ops, 77);
    assert_true(rangefigures_next(&f, &r));
    assert_true(r.id == 5 && r.generation == 2 && r.ordered && r.keys == 10 && r.bytes == 600 && r.ops == 40);
    assert_true(r.past.flaps == 3 && r.past.hand_ago_ms == -1 && r.past.merged_ago_ms == 0 && r.past.spread_ago_ms == 5000);
    assert_true(rangefigures_next(&f, &r));
    assert_true(r.id == 6 && !r.ordered);
    assert_false(rangefigures_next(&f, &r));
}

static void a_reply_that_is_cut_off_ends_and_gives_no_range_that_is_not_whole(void **state)
{
    for (size_t n = 0; n < sizeof two_ranges - 1; n++) {
        char *copy = mem_alloc(n + 1); /* so that a sanitizer sees a byte too far */
        struct rangefigures f;
        struct rangefigures_range r;
        unsigned whole = 0;
        memcpy(copy, two_ranges, n);
        if (rangefigures_begin(&f, slice_of(copy, n)))
            while (rangefigures_next(&f, &r)) whole++;
        assert_true(whole < 2);
        mem_free(copy);
    }
}

static void what_is_no_list_of_figures_is_refused(void **state)
{
    static const char *const bad[] = {"", "+OK\r\n", "-ERR no\r\n", "*0\r\n", "*1\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n", "*-1\r\n", "*2\r\n:-1\r\n:2\r\n", "*2\r\n$1\r\nx\r\n:2\r\n", "*99999999999999999999\r\n:1\r\n:2\r\n"};
    struct rangefigures f;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(rangefigures_begin(&f, slice_str(bad[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_leader_tells_is_read),
        cmocka_unit_test(a_reply_that_is_cut_off_ends_and_gives_no_range_that_is_not_whole),
        cmocka_unit_test(what_is_no_list_of_figures_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
