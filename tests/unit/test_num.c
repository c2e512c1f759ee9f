/* Numbers as text: what num.h promises, against the C library as the naive twin. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/num.h"
#include "base/rng.h"

static void canonical_integers_are_read_and_nothing_else_is(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        int64_t value;
    } cases[] = {{"0", true, 0},
                 {"7", true, 7},
                 {"-1", true, -1},
                 {"9223372036854775807", true, INT64_MAX},
                 {"-9223372036854775808", true, INT64_MIN},
                 {"9223372036854775808", false, 0},
                 {"-9223372036854775809", false, 0},
                 {"99999999999999999999", false, 0},
                 {"", false, 0},
                 {"-", false, 0},
                 {"-0", false, 0},
                 {"00", false, 0},
                 {"01", false, 0},
                 {"+1", false, 0},
                 {" 1", false, 0},
                 {"1 ", false, 0},
                 {"1.0", false, 0},
                 {"0x1", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t v = 42;
        assert_int_equal(num_parse_i64(slice_str(cases[i].text), &v), cases[i].ok);
        if (cases[i].ok) assert_int_equal(v, cases[i].value);
    }
    uint64_t u;
    assert_true(num_parse_u64(SLICE("18446744073709551615"), &u) && u == UINT64_MAX);
    assert_false(num_parse_u64(SLICE("18446744073709551616"), &u));
    assert_false(num_parse_u64(SLICE("-1"), &u));
}

static void integers_of_every_length_are_written_as_printf_does(void **state)
{
    struct rng rng;
    rng_init(&rng, 7);
    for (int i = 0; i < 200000; i++) {
        int64_t v = (int64_t)(rng_u64(&rng) >> (i & 63)) * (i & 64 ? -1 : 1), back;
        char out[NUM_I64_MAX_CHARS], twin[32];
        size_t n = num_format_i64(out, v);
        int m = snprintf(twin, sizeof twin, "%" PRId64, v);
        assert_int_equal(n, m);
        assert_memory_equal(out, twin, n);
        assert_true(num_parse_i64(slice_of(out, n), &back));
        assert_int_equal(back, v);
    }
    char out[NUM_I64_MAX_CHARS];
    assert_int_equal(num_format_u64(out, UINT64_MAX), 20);
    assert_memory_equal(out, "18446744073709551615", 20);
    assert_int_equal(num_format_i64(out, INT64_MIN), 20);
    assert_memory_equal(out, "-9223372036854775808", 20);
}

static void scores_have_the_text_that_clients_know(void **state)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {{3, "3"},
                 {-3, "-3"},
                 {0, "0"},
                 {-0.0, "-0"},
                 {1.5, "1.5"},
                 {0.1, "0.1"},
                 {1.1, "1.1"},
                 {-2.25, "-2.25"},
                 {1e17, "100000000000000000"},
                 {4611686018427387904.0, "4611686018427388000"},
                 {1e19, "1e+19"},
                 {1e20, "1e+20"},
                 {0.00001, "0.00001"},
                 {0.000001, "0.000001"},
                 {1e-7, "1e-7"},
                 {1.7976931348623157e308, "1.7976931348623157e+308"},
                 {5e-324, "5e-324"},
                 {3.141592653589793, "3.141592653589793"},
                 {HUGE_VAL, "inf"},
                 {-HUGE_VAL, "-inf"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[NUM_F64_MAX_CHARS];
        size_t n = num_format_f64(out, cases[i].v);
        assert_int_equal(n, strlen(cases[i].text));
        assert_memory_equal(out, cases[i].text, n);
    }
}

static double random_double(struct rng *rng, int i)
{
    uint64_t bits = rng_u64(rng);
    double v;
    switch (i % 6) {
    case 0: memcpy(&v, &bits, 8); return v; /* any size */
    case 1: return (double)(int64_t)(bits >> 40) / 100;
    case 2: return (double)(int64_t)bits / 1e9;
    case 3: return ldexp(1, (int)(bits % 200) - 130); /* a power of two: its lower neighbour is nearer */
    case 4: return nextafter(ldexp(1, (int)(bits % 200) - 130), bits & 1 << 20 ? 0 : 1e300);
    default: return ldexp((double)(bits >> 11), (int)(bits % 130) - 125);
    }
}

/* Significant digits: without sign, point, exponent, zeros before and zeros behind. */
static size_t count_digits(const char *text)
{
    size_t n = 0, zeros = 0;
    for (const char *c = text; *c && *c != 'e'; c++) {
        if (*c < '0' || *c > '9') continue;
        zeros = *c == '0' ? zeros + 1 : 0;
        if (n > 0 || *c != '0') n++;
    }
    return n - (n ? zeros : 0);
}

static size_t fewest_digits(double v)
{
    char text[64];
    for (int precision = 1;; precision++) {
        snprintf(text, sizeof text, "%.*e", precision - 1, v);
        if (strtod(text, NULL) == v) return count_digits(text);
    }
}

static void every_double_reads_back_and_no_shorter_text_would(void **state)
{
    struct rng rng;
    rng_init(&rng, 11);
    int seen = 0;
    for (int i = 0; i < 60000; i++) {
        double v = random_double(&rng, i), back;
        if (isnan(v) || isinf(v)) continue;
        char out[NUM_F64_MAX_CHARS + 1];
        size_t n = num_format_f64(out, v);
        out[n] = 0;
        if (strtod(out, NULL) != v) fail_msg("%.17g became %s", v, out);
        assert_true(num_parse_f64(slice_of(out, n), &back) && back == v);
        /* Integers are written in full. Rounding to a precision misses a text on the wider side of a power of two: ours may be shorter. */
        if (v != floor(v)) assert_true(count_digits(out) <= fewest_digits(v));
        seen++;
    }
    assert_true(seen > 50000);
}

static void floats_are_read_as_strtod_does_but_whole(void **state)
{
    static const char *good[] = {"1", "1.5", "-1.5", ".5", "5.", "1e3", "+1", "inf", "-inf", "+inf", "0x10", "123456789012345678", "0.1", "-0"};
    static const char *bad[] = {"", " 1", "1 ", "nan", "1e999", "-1e999", "1e-999", "abc", "1.2.3", ".", "-", "1,5"};
    double v;
    long double l;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(num_parse_f64(slice_str(good[i]), &v));
        assert_true(v == strtod(good[i], NULL));
        assert_true(num_parse_f80(slice_str(good[i]), &l));
        assert_true(l == strtold(good[i], NULL));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(num_parse_f64(slice_str(bad[i]), &v));
    assert_false(num_parse_f64(slice_of("1\0", 2), &v));
    assert_true(num_parse_f80(SLICE("1e999"), &l)); /* it fits a long double */
}

static void long_doubles_are_written_without_trailing_zeros(void **state)
{
    static const struct {
        long double v;
        const char *text;
    } cases[] = {{3.0L, "3"}, {10.5L, "10.5"}, {-0.0L, "0"}, {0.1L, "0.1"}, {5.0e3L, "5000"}, {-1.25L, "-1.25"}, {1e-18L, "0"}, {100, "100"}};
    char out[5120];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = num_format_f80(out, sizeof out, cases[i].v);
        assert_int_equal(n, strlen(cases[i].text));
        assert_memory_equal(out, cases[i].text, n);
    }
}

static void sizes_have_units_of_1000_and_1024(void **state)
{
    uint64_t b;
    assert_true(num_parse_bytes(SLICE("512"), &b) && b == 512);
    assert_true(num_parse_bytes(SLICE("100k"), &b) && b == 100000);
    assert_true(num_parse_bytes(SLICE("64mb"), &b) && b == 64u << 20);
    assert_true(num_parse_bytes(SLICE("2GB"), &b) && b == 2ull << 30);
    assert_false(num_parse_bytes(SLICE(""), &b));
    assert_false(num_parse_bytes(SLICE("kb"), &b));
    assert_false(num_parse_bytes(SLICE("1tb"), &b));
    assert_false(num_parse_bytes(SLICE("-1"), &b));
    assert_false(num_parse_bytes(SLICE("18446744073709551615gb"), &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_integers_are_read_and_nothing_else_is),
        cmocka_unit_test(integers_of_every_length_are_written_as_printf_does),
        cmocka_unit_test(scores_have_the_text_that_clients_know),
        cmocka_unit_test(every_double_reads_back_and_no_shorter_text_would),
        cmocka_unit_test(floats_are_read_as_strtod_does_but_whole),
        cmocka_unit_test(long_doubles_are_written_without_trailing_zeros),
        cmocka_unit_test(sizes_have_units_of_1000_and_1024),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
