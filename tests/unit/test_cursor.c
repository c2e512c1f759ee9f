#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "command/cursor.h"
#include "store/table.h"

#define SCRAMBLE UINT64_C(0x123456789abcdef1)

static bool parse(uint64_t v, uint32_t shards, struct cursor *c)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    return cursor_parse(slice_str(text), shards, c);
}

static void a_cursor_comes_back_as_it_was(void **state)
{
    struct rng rng;
    rng_init(&rng, 7);
    for (int i = 0; i < 10000; i++) {
        struct route r = {.shards = 1 + (uint32_t)rng_below(&rng, CURSOR_SHARDS_MAX), .shifts = rng_u64(&rng)};
        uint64_t position = rng_below(&rng, UINT64_C(1) << 22) * TABLE_CURSOR_UNIT, scramble = rng_u64(&rng) | 1;
        struct cursor c = {cursor_in_table(position, scramble, CURSOR_SCAN_ORDER_BITS), (uint32_t)rng_below(&rng, r.shards), cursor_pass(&r)}, back;
        uint64_t v = cursor_make(&c);
        assert_true(v > 0 && v <= INT64_MAX);
        assert_true(parse(v, r.shards, &back));
        assert_true(back.in_table == c.in_table && back.shard == c.shard && back.pass == c.pass);
        assert_int_equal(cursor_position(back.in_table, scramble, CURSOR_SCAN_ORDER_BITS), position);
    }
}

static void a_position_means_nothing_in_another_order(void **state)
{
    const unsigned bits[] = {CURSOR_SCAN_ORDER_BITS, CURSOR_ORDER_BITS};
    for (int i = 0; i < 2; i++) {
        uint64_t c = cursor_in_table(77 * TABLE_CURSOR_UNIT, SCRAMBLE, bits[i]);
        assert_int_equal(cursor_position(c, SCRAMBLE, bits[i]), 77 * TABLE_CURSOR_UNIT);
        assert_int_equal(cursor_position(c, ~SCRAMBLE | 1, bits[i]), 0);
        assert_int_equal(cursor_position(c, 0, bits[i]), 0);
        assert_int_equal(cursor_in_table(0, SCRAMBLE, bits[i]), 0);
        assert_int_equal(cursor_position(0, SCRAMBLE, bits[i]), 0);
    }
}

static void a_pass_is_another_one_when_keys_have_gone_to_other_shards(void **state)
{
    struct route r = {.shards = 4, .shifts = UINT64_MAX - 1000};
    uint32_t before = cursor_pass(&r);
    for (int i = 0; i < 2000; i++) {
        atomic_fetch_add(&r.shifts, 1);
        assert_true(cursor_pass(&r) != before && cursor_pass(&r) > 0);
        before = cursor_pass(&r);
    }
}

static void what_is_no_cursor_of_this_server_begins_again(void **state)
{
    const uint64_t others[] = {0, 1, 77, UINT64_C(1) << 32, UINT64_C(1) << 44, UINT64_C(1) << 63, UINT64_MAX};
    struct cursor c;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_true(parse(others[i], 4, &c));
        assert_true(c.in_table == 0 && c.shard == 0 && c.pass == 0);
    }
    uint64_t last = cursor_make(&(struct cursor){.shard = 3, .pass = 5});
    assert_true(parse(last, 4, &c) && c.shard == 3 && c.pass == 5);
    assert_true(parse(last, 3, &c) && c.shard == 0 && c.pass == 0);
}

static void only_numbers_are_cursors(void **state)
{
    const char *const texts[] = {"x", "", "-1", "1.5", "18446744073709551616"};
    struct cursor c;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_false(cursor_parse(slice_str(texts[i]), 4, &c));
        assert_int_equal(cursor_shard(slice_str(texts[i]), 4), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_comes_back_as_it_was),
        cmocka_unit_test(a_position_means_nothing_in_another_order),
        cmocka_unit_test(a_pass_is_another_one_when_keys_have_gone_to_other_shards),
        cmocka_unit_test(what_is_no_cursor_of_this_server_begins_again),
        cmocka_unit_test(only_numbers_are_cursors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
