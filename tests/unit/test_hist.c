/* The histogram against a sorted list of the same values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/hist.h"
#include "base/rng.h"

static void buckets_tile_the_values(void **state)
{
    for (unsigned i = 0; i + 2 < HIST_BUCKETS; i++) {
        assert_int_equal(hist_index(hist_value(i)), i);
        assert_int_equal(hist_index(hist_value(i) + 1), i + 1);
    }
    assert_int_equal(hist_index(UINT64_MAX), HIST_BUCKETS - 1);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void quantiles_are_within_one_step_of_the_truth(void **state)
{
    enum { N = 5000 };
    static uint64_t v[N];
    struct hist *h = calloc(1, sizeof *h);
    struct rng rng;
    rng_init(&rng, 5);
    for (int i = 0; i < N; i++) {
        v[i] = rng_u64(&rng) >> (24 + rng_below(&rng, 40));
        hist_add(h, v[i]);
    }
    qsort(v, N, sizeof v[0], by_value);
    for (int q = 1; q <= 100; q++) {
        uint64_t truth = v[N * q / 100 - 1], got = hist_quantile(h, q / 100.0);
        assert_true(got >= truth && got <= truth + truth / 16 + 1);
    }
    assert_int_equal(hist_quantile(h, 1), v[N - 1]);
    free(h);
}

static void an_empty_histogram_answers_zero_and_merging_adds(void **state)
{
    struct hist *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
    assert_int_equal(hist_quantile(a, 0.5), 0);
    hist_add(a, 10);
    hist_add(b, 1000);
    hist_merge(a, b);
    assert_int_equal(a->count, 2);
    assert_int_equal(a->sum, 1010);
    assert_int_equal(a->max, 1000);
    assert_int_equal(hist_quantile(a, 0.5), 10);
    free(a);
    free(b);
}

static void subtracting_an_earlier_copy_leaves_what_came_since(void **state)
{
    struct hist *h = calloc(1, sizeof *h), *earlier = calloc(1, sizeof *earlier);
    hist_add(h, 5);
    hist_add(h, 100000);
    hist_merge(earlier, h);
    hist_add(h, 7);
    hist_subtract(h, earlier);
    assert_int_equal(h->count, 1);
    assert_int_equal(h->sum, 7);
    assert_int_equal(hist_quantile(h, 0.5), 7);
    free(h);
    free(earlier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_tile_the_values),
        cmocka_unit_test(quantiles_are_within_one_step_of_the_truth),
        cmocka_unit_test(an_empty_histogram_answers_zero_and_merging_adds),
        cmocka_unit_test(subtracting_an_earlier_copy_leaves_what_came_since),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
