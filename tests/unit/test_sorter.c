/* The external sort against a naive twin: a list of rows in order of arrival. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "snapshot/rowsort.h"
#include "snapshot/sorter.h"

/* ---- the twin */

struct twin_row {
    uint32_t bucket, arrival;
    char *key, *value;
    uint32_t key_n, value_n;
};

struct twin {
    struct twin_row *rows;
    size_t n;
};

static int by_place(const void *a, const void *b)
{
    const struct twin_row *x = a, *y = b;
    if (x->bucket != y->bucket) return x->bucket < y->bucket ? -1 : 1;
    int d = slice_cmp(slice_of(x->key, x->key_n), slice_of(y->key, y->key_n));
    return d ? d : x->arrival < y->arrival ? -1 : 1;
}

static void twin_add(struct twin *t, uint32_t bucket, struct slice key, struct slice value)
{
    t->rows = mem_resize(t->rows, (t->n + 1) * sizeof *t->rows);
    t->rows[t->n] = (struct twin_row){.bucket = bucket, .arrival = (uint32_t)t->n, .key = mem_dup(key.p, key.n + 1), .key_n = (uint32_t)key.n,
                                      .value = mem_dup(value.p, value.n + 1), .value_n = (uint32_t)value.n};
    t->n++;
}

static void twin_free(struct twin *t)
{
    for (size_t i = 0; i < t->n; i++) {
        mem_free(t->rows[i].key);
        mem_free(t->rows[i].value);
    }
    mem_free(t->rows);
}

static bool is_last_of_key(const struct twin *t, size_t i)
{
    const struct twin_row *a = &t->rows[i], *b = a + 1;
    return i + 1 == t->n || a->bucket != b->bucket || !slice_eq(slice_of(a->key, a->key_n), slice_of(b->key, b->key_n));
}

/* Reads a bucket; the twin is sorted and i stands at its first row. Gives where the next bucket begins. */
static size_t expect_bucket(struct sorter *s, const struct twin *t, uint32_t bucket, size_t i)
{
    struct sorter_cursor *c = sorter_open(s, bucket);
    struct slice key, value;
    uint64_t rows = 0;
    for (; i < t->n && t->rows[i].bucket == bucket; i++) {
        rows++;
        if (!is_last_of_key(t, i)) continue;
        assert_int_equal(sorter_next(c, &key, &value), 1);
        assert_int_equal(key.n, t->rows[i].key_n);
        assert_memory_equal(key.p, t->rows[i].key, key.n);
        assert_int_equal(value.n, t->rows[i].value_n);
        assert_memory_equal(value.p, t->rows[i].value, value.n);
    }
    assert_int_equal(sorter_next(c, &key, &value), 0);
    assert_int_equal(sorter_next(c, &key, &value), 0);
    assert_int_equal(sorter_added(s, bucket), rows);
    sorter_close(c);
    return i;
}

static void expect_same(struct sorter *s, struct twin *t)
{
    qsort(t->rows, t->n, sizeof *t->rows, by_place);
    assert_int_equal(sorter_finish(s), 0);
    size_t i = 0;
    for (uint32_t b = 0; b < sorter_buckets(s) + 2; b++) i = expect_bucket(s, t, b, i);
    assert_int_equal(i, t->n);
    expect_bucket(s, t, 0, 0); /* a second time */
}

/* ---- keys of many shapes */

enum shape { NUMBERS, SHORT_BYTES, LONG_COMMON, NESTED, TEXT, SHAPES };

static struct slice make_key(struct rng *r, enum shape shape, char out[700])
{
    size_t n = 0;
    switch (shape) {
    case NUMBERS:
        for (; n < 8; n++) out[n] = (char)(n < 6 ? 0 : rng_below(r, 256));
        break;
    case SHORT_BYTES: /* zeros where the padding of prefixes has zeros too */
        for (n = rng_below(r, 12); out && n < 12 && rng_below(r, 2); n++) {}
        for (size_t i = 0; i < n; i++) out[i] = (char)(rng_below(r, 3) ? 0 : rng_below(r, 3));
        break;
    case LONG_COMMON:
        memset(out, 'x', 600);
        n = 590 + rng_below(r, 8);
        out[n - 1] = (char)('a' + rng_below(r, 5));
        break;
    case NESTED: /* each a prefix of the next */
        memset(out, 'a', 700);
        n = rng_below(r, 690);
        break;
    default: n = (size_t)sprintf(out, "user:%u", (unsigned)rng_below(r, 2000)); break;
    }
    return slice_of(out, n);
}

static void walk(enum shape shape, uint64_t memory, uint32_t threads, unsigned rows, uint32_t buckets, uint64_t seed)
{
    char key[701] = "", value[301];
    struct rng r;
    struct twin t = {0};
    struct sorter_options o = {.memory_bytes = memory, .threads = threads};
    struct sorter *s = sorter_new(&o);
    rng_init(&r, seed);
    for (unsigned i = 0; i < rows; i++) {
        struct slice k = make_key(&r, shape, key);
        uint32_t bucket = (uint32_t)rng_below(&r, buckets);
        size_t n = rng_below(&r, 20) ? rng_below(&r, 40) : rng_below(&r, 300);
        memset(value, (int)rng_below(&r, 256), sizeof value);
        twin_add(&t, bucket, k, slice_of(value, n));
        assert_int_equal(sorter_add(s, bucket, k, slice_of(value, n)), 0);
    }
    expect_same(s, &t);
    sorter_free(s);
    twin_free(&t);
}

static void keys_of_every_shape_come_sorted_and_the_last_of_each_stays(void **state)
{
    for (int shape = 0; shape < SHAPES; shape++)
        for (uint32_t threads = 1; threads < 4; threads++) walk(shape, 0, threads, 4000, 1 + 4 * threads, 7 + (uint64_t)shape);
}

static void what_fits_memory_is_never_written(void **state)
{
    for (int shape = 0; shape < SHAPES; shape++) walk(shape, 64 << 20, 2, 3000, 3, 99);
    struct sorter_options o = {.memory_bytes = 1 << 20, .threads = 1, .dir = "/nowhere/at/all"};
    struct sorter *s = sorter_new(&o);
    assert_int_equal(sorter_add(s, 0, SLICE("k"), SLICE("v")), 0);
    assert_int_equal(sorter_finish(s), 0);
    sorter_free(s);
}

static void many_equal_keys_leave_one_row(void **state)
{
    struct sorter_options o = {.threads = 2};
    struct sorter *s = sorter_new(&o);
    struct slice key, value;
    char text[16];
    for (int i = 0; i < 50000; i++) assert_int_equal(sorter_add(s, 5, SLICE("the same key each time"), slice_of(text, (size_t)sprintf(text, "%d", i))), 0);
    assert_int_equal(sorter_finish(s), 0);
    struct sorter_cursor *c = sorter_open(s, 5);
    assert_int_equal(sorter_next(c, &key, &value), 1);
    assert_true(slice_eq(value, SLICE("49999")));
    assert_int_equal(sorter_next(c, &key, &value), 0);
    assert_int_equal(sorter_added(s, 5), 50000);
    assert_int_equal(sorter_buckets(s), 6);
    sorter_close(c);
    sorter_free(s);
}

static void a_row_larger_than_memory_goes_through(void **state)
{
    struct sorter_options o = {.threads = 1};
    struct sorter *s = sorter_new(&o);
    struct twin t = {0};
    size_t n = 3 << 20;
    char *big = mem_zalloc(n + 1);
    for (int i = 0; i < 5; i++) {
        memset(big, 'a' + i, n);
        twin_add(&t, 0, slice_of(big, (size_t)(i % 2 ? 10 : 200000)), slice_of(big, n));
        assert_int_equal(sorter_add(s, 0, slice_of(big, (size_t)(i % 2 ? 10 : 200000)), slice_of(big, n)), 0);
        twin_add(&t, 1, SLICE("small"), SLICE("row"));
        assert_int_equal(sorter_add(s, 1, SLICE("small"), SLICE("row")), 0);
    }
    expect_same(s, &t);
    sorter_free(s);
    twin_free(&t);
    mem_free(big);
}

static void a_folder_that_is_missing_shows_as_an_error(void **state)
{
    struct sorter_options o = {.threads = 1, .dir = "/nowhere/at/all"};
    struct sorter *s = sorter_new(&o);
    char value[1000] = "";
    int rc = 0;
    for (int i = 0; i < 100000 && rc == 0; i++) rc = sorter_add(s, 0, SLICE("k"), slice_of(value, sizeof value));
    assert_true(rc < 0);
    assert_true(sorter_finish(s) < 0);
    sorter_free(s);
}

static void nothing_at_all_is_sorted_too(void **state)
{
    struct sorter_options o = {.threads = 2};
    struct sorter *s = sorter_new(&o);
    struct slice key, value;
    assert_int_equal(sorter_finish(s), 0);
    assert_int_equal(sorter_buckets(s), 0);
    struct sorter_cursor *c = sorter_open(s, 0);
    assert_int_equal(sorter_next(c, &key, &value), 0);
    sorter_close(c);
    sorter_free(s);
}

struct reading {
    struct sorter *s;
    uint32_t bucket;
    uint64_t rows;
};

static void *read_all(void *arg)
{
    struct reading *r = arg;
    struct slice key, value;
    struct sorter_cursor *c = sorter_open(r->s, r->bucket);
    while (sorter_next(c, &key, &value) == 1) r->rows++;
    sorter_close(c);
    return NULL;
}

static void buckets_are_read_by_several_threads_at_once(void **state)
{
    struct sorter_options o = {.threads = 3};
    struct sorter *s = sorter_new(&o);
    pthread_t threads[4];
    struct reading readings[4];
    for (uint32_t i = 0; i < 40000; i++) assert_int_equal(sorter_add(s, i % 4, slice_of(&i, 4), slice_of(&i, 4)), 0);
    assert_int_equal(sorter_finish(s), 0);
    for (uint32_t b = 0; b < 4; b++) {
        readings[b] = (struct reading){.s = s, .bucket = b};
        assert_int_equal(pthread_create(&threads[b], NULL, read_all, &readings[b]), 0);
    }
    for (uint32_t b = 0; b < 4; b++) {
        pthread_join(threads[b], NULL);
        assert_int_equal(readings[b].rows, 10000);
    }
    sorter_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_every_shape_come_sorted_and_the_last_of_each_stays),
        cmocka_unit_test(what_fits_memory_is_never_written),
        cmocka_unit_test(many_equal_keys_leave_one_row),
        cmocka_unit_test(a_row_larger_than_memory_goes_through),
        cmocka_unit_test(a_folder_that_is_missing_shows_as_an_error),
        cmocka_unit_test(nothing_at_all_is_sorted_too),
        cmocka_unit_test(buckets_are_read_by_several_threads_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
