#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "command/cursor.h"
#include "store/table.h"

#define SCRAMBLE UINT64_C(0x123456789abcdef1)

static const struct cursor_shape *const shapes[] = {&cursor_of_server, &cursor_of_cluster, &cursor_of_members};

static bool parse(const struct cursor_shape *s, uint64_t v, uint32_t places, struct cursor *c)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    return cursor_parse(s, slice_str(text), places, c);
}

static void a_cursor_comes_back_as_it_was(void **state)
{
    struct rng rng;
    rng_init(&rng, 7);
    for (int i = 0; i < 20000; i++) {
        const struct cursor_shape *s = shapes[i % 2];
        assert_int_equal(22 + s->order_bits + s->place_bits + s->pass_bits, 63);
        uint32_t places = 1 + (uint32_t)rng_below(&rng, UINT64_C(1) << s->place_bits);
        uint64_t position = rng_below(&rng, UINT64_C(1) << 22) * TABLE_CURSOR_UNIT, scramble = rng_u64(&rng) | 1;
        struct cursor c = {cursor_in_table(s, position, scramble), (uint32_t)rng_below(&rng, places), cursor_pass(s, rng_u64(&rng))}, back;
        uint64_t v = cursor_make(s, &c);
        assert_true(v > 0 && v <= INT64_MAX);
        assert_true(parse(s, v, places, &back));
        assert_true(back.in_table == c.in_table && back.place == c.place && back.pass == c.pass);
        assert_int_equal(cursor_position(s, back.in_table, scramble), position);
    }
}

static void a_position_means_nothing_in_another_order(void **state)
{
    for (int i = 0; i < 3; i++) {
        uint64_t c = cursor_in_table(shapes[i], 77 * TABLE_CURSOR_UNIT, SCRAMBLE);
        assert_true(c > 0 && c <= INT64_MAX && cursor_is_in_table(shapes[i], c) && !cursor_is_in_table(shapes[i], UINT64_MAX));
        assert_int_equal(cursor_position(shapes[i], c, SCRAMBLE), 77 * TABLE_CURSOR_UNIT);
        assert_int_equal(cursor_position(shapes[i], c, ~SCRAMBLE | 1), 0);
        assert_int_equal(cursor_position(shapes[i], c, 0), 0);
        assert_int_equal(cursor_in_table(shapes[i], 0, SCRAMBLE), 0);
        assert_int_equal(cursor_position(shapes[i], 0, SCRAMBLE), 0);
    }
}

static void a_pass_is_another_one_when_keys_have_been_carried(void **state)
{
    for (int i = 0; i < 2; i++) {
        uint64_t carried = UINT64_MAX - 1000;
        uint32_t before = cursor_pass(shapes[i], carried);
        for (int k = 0; k < 2000; k++) {
            uint32_t now = cursor_pass(shapes[i], ++carried);
            assert_true(now != before && now > 0);
            before = now;
        }
    }
}

static void what_is_no_cursor_of_this_server_begins_again(void **state)
{
    const uint64_t others[] = {0, 1, 77, UINT64_C(1) << 32, UINT64_C(1) << 44, UINT64_C(1) << 63, UINT64_MAX};
    struct cursor c;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_true(parse(&cursor_of_server, others[i], 4, &c));
        assert_true(c.in_table == 0 && c.place == 0 && c.pass == 0);
    }
    uint64_t last = cursor_make(&cursor_of_server, &(struct cursor){.place = 3, .pass = 5});
    assert_true(parse(&cursor_of_server, last, 4, &c) && c.place == 3 && c.pass == 5);
    assert_true(parse(&cursor_of_server, last, 3, &c) && c.place == 0 && c.pass == 0);
}

static void only_numbers_are_cursors(void **state)
{
    const char *const texts[] = {"x", "", "-1", "1.5", "18446744073709551616"};
    struct cursor c;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_false(cursor_parse(&cursor_of_server, slice_str(texts[i]), 4, &c));
        assert_int_equal(cursor_shard(slice_str(texts[i]), 4), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_comes_back_as_it_was),
        cmocka_unit_test(a_position_means_nothing_in_another_order),
        cmocka_unit_test(a_pass_is_another_one_when_keys_have_been_carried),
        cmocka_unit_test(what_is_no_cursor_of_this_server_begins_again),
        cmocka_unit_test(only_numbers_are_cursors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
