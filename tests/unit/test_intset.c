/* The intset against a naive twin: a sorted array of int64_t. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "store/intset.h"

enum { ROOM = 600 };

struct held {
    char bytes[INTSET_HEADER + ROOM * 8];
    size_t n;
};

static struct slice view(const struct held *h) { return slice_of(h->bytes, h->n); }

static void start(struct held *h)
{
    intset_init(h->bytes, 2);
    h->n = intset_bytes(0, 2);
}

static bool add(struct held *h, int64_t v)
{
    uint32_t at, count = intset_count(view(h));
    if (intset_find(view(h), v, &at)) return false;
    unsigned width = intset_width_of(v);
    if (width > intset_width(view(h))) intset_widen(h->bytes, count, width);
    width = (uint8_t)h->bytes[0];
    char *gap = h->bytes + intset_bytes(at, width);
    memmove(gap + width, gap, (size_t)(count - at) * width);
    intset_write(h->bytes, at, v);
    h->n = intset_bytes(count + 1, width);
    return true;
}

static bool drop(struct held *h, int64_t v)
{
    uint32_t at, count = intset_count(view(h));
    if (!intset_find(view(h), v, &at)) return false;
    unsigned width = intset_width(view(h));
    char *hole = h->bytes + intset_bytes(at, width);
    memmove(hole, hole + width, (size_t)(count - at - 1) * width);
    h->n -= width;
    return true;
}

static void each_value_has_the_narrowest_width_that_holds_it(void **state)
{
    (void)state;
    assert_int_equal(intset_width_of(0), 2);
    assert_int_equal(intset_width_of(INT16_MAX), 2);
    assert_int_equal(intset_width_of(INT16_MIN), 2);
    assert_int_equal(intset_width_of(INT16_MAX + 1), 4);
    assert_int_equal(intset_width_of(INT16_MIN - 1), 4);
    assert_int_equal(intset_width_of(INT32_MAX), 4);
    assert_int_equal(intset_width_of((int64_t)INT32_MAX + 1), 8);
    assert_int_equal(intset_width_of((int64_t)INT32_MIN - 1), 8);
    assert_int_equal(intset_width_of(INT64_MIN), 8);
}

static void an_empty_set_finds_nothing_and_places_the_first_at_0(void **state)
{
    (void)state;
    struct held h;
    uint32_t at = 77;
    start(&h);
    assert_int_equal(intset_count(view(&h)), 0);
    assert_false(intset_find(view(&h), 5, &at));
    assert_int_equal(at, 0);
    assert_true(intset_valid(view(&h)));
}

static void a_wider_member_widens_all_and_keeps_them(void **state)
{
    (void)state;
    struct held h;
    static const int64_t in[] = {7, -3, 40000, -3000000000, INT64_MAX, INT64_MIN};
    static const int64_t sorted[] = {INT64_MIN, -3000000000, -3, 7, 40000, INT64_MAX};
    start(&h);
    for (size_t i = 0; i < 6; i++) {
        assert_true(add(&h, in[i]));
        assert_true(intset_valid(view(&h)));
    }
    assert_int_equal(intset_width(view(&h)), 8);
    for (uint32_t i = 0; i < 6; i++) assert_true(intset_get(view(&h), i) == sorted[i]);
}

static void disorder_and_broken_lengths_are_not_valid(void **state)
{
    (void)state;
    char bytes[] = {2, 9, 0, 3, 0};
    assert_false(intset_valid(slice_of(bytes, 5)));
    assert_true(intset_valid(slice_of(bytes, 3)));
    assert_false(intset_valid(slice_of(bytes, 4)));
    assert_false(intset_valid(slice_of(bytes, 0)));
    bytes[0] = 3;
    assert_false(intset_valid(slice_of(bytes, 4)));
}

/* ---- the twin */

struct twin {
    int64_t v[ROOM];
    uint32_t n;
};

static uint32_t twin_at(const struct twin *t, int64_t v)
{
    uint32_t i = 0;
    while (i < t->n && t->v[i] < v) i++;
    return i;
}

static bool twin_add(struct twin *t, int64_t v)
{
    uint32_t i = twin_at(t, v);
    if (i < t->n && t->v[i] == v) return false;
    memmove(&t->v[i + 1], &t->v[i], (t->n - i) * sizeof v);
    t->v[i] = v;
    t->n++;
    return true;
}

static bool twin_drop(struct twin *t, int64_t v)
{
    uint32_t i = twin_at(t, v);
    if (i == t->n || t->v[i] != v) return false;
    memmove(&t->v[i], &t->v[i + 1], (t->n - i - 1) * sizeof v);
    t->n--;
    return true;
}

static void it_behaves_like_a_sorted_array_under_a_random_walk(void **state)
{
    (void)state;
    unsigned widths_seen = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct rng r;
        struct held h;
        struct twin t = {.n = 0};
        rng_init(&r, seed);
        start(&h);
        for (int step = 0; step < 600; step++) {
            /* Later steps draw from wider ranges, so each walk passes through all widths. */
            int64_t v = (int64_t)rng_u64(&r) >> (step < 200 ? 56 : step < 400 ? 40 : 4);
            if (t.n && rng_below(&r, 3) == 0) v = t.v[rng_below(&r, t.n)];
            if (rng_below(&r, 3))
                assert_int_equal(add(&h, v), twin_add(&t, v));
            else
                assert_int_equal(drop(&h, v), twin_drop(&t, v));
            assert_true(intset_valid(view(&h)));
            assert_int_equal(intset_count(view(&h)), t.n);
            widths_seen |= intset_width(view(&h));
        }
        for (uint32_t i = 0; i < t.n; i++) assert_true(intset_get(view(&h), i) == t.v[i]);
    }
    assert_int_equal(widths_seen, 2 | 4 | 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_value_has_the_narrowest_width_that_holds_it),
        cmocka_unit_test(an_empty_set_finds_nothing_and_places_the_first_at_0),
        cmocka_unit_test(a_wider_member_widens_all_and_keeps_them),
        cmocka_unit_test(disorder_and_broken_lengths_are_not_valid),
        cmocka_unit_test(it_behaves_like_a_sorted_array_under_a_random_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
