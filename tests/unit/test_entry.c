#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "store/arena.h"
#include "store/entry.h"

enum { VALUE_MAX = 20000 };

/* The naive twin of an entry. */
struct twin {
    char key[400];
    size_t key_len;
    char value[VALUE_MAX];
    size_t value_len;
    int64_t expiry_ms;
    uint32_t access;
};

static void expect_same(const struct entry *e, const struct twin *t)
{
    assert_true(slice_eq(entry_key(e), slice_of(t->key, t->key_len)));
    assert_int_equal(entry_value_len(e), t->value_len);
    assert_true(slice_eq(entry_value(e), slice_of(t->value, t->value_len)));
    assert_int_equal(entry_expiry_ms(e), t->expiry_ms);
    assert_int_equal(entry_access(e), t->access);
    assert_int_equal(entry_type(e), TYPE_SET);
    assert_int_equal(entry_encoding(e), ENC_PACK);
}

static void fill(struct rng *r, char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = (char)rng_u64(r);
}

static size_t random_len(struct rng *r)
{
    static const size_t marks[] = {0, 255, ENTRY_WIDE_MIN, 8192};
    if (rng_below(r, 2)) return marks[rng_below(r, 4)] + rng_below(r, 5) - 2 * (rng_below(r, 2) == 0) + 2;
    return rng_below(r, rng_below(r, 4) ? 600 : VALUE_MAX - 300);
}

/* Any length is reached from any other, with every combination of long keys and expiries. */
static void a_random_walk_of_edits_equals_the_twin(void **state)
{
    struct rng r;
    rng_init(&r, 7);
    struct arena *a = arena_new();
    struct twin *t = calloc(1, sizeof *t);
    unsigned long wide = 0, longs = 0;
    for (int round = 0; round < 60; round++) {
        t->key_len = rng_below(&r, 3) ? rng_below(&r, 60) : 250 + rng_below(&r, 12);
        fill(&r, t->key, t->key_len);
        t->value_len = random_len(&r);
        fill(&r, t->value, t->value_len);
        t->expiry_ms = rng_below(&r, 2) ? (int64_t)rng_below(&r, 1u << 30) + 1 : 0;
        t->access = (uint32_t)rng_below(&r, 1 << 24);
        struct entry *e = entry_new(a, TYPE_SET, ENC_PACK, slice_of(t->key, t->key_len), t->value_len, t->expiry_ms);
        memcpy(entry_value_ptr(e), t->value, t->value_len);
        entry_set_access(e, t->access);
        for (int step = 0; step < 200; step++) {
            expect_same(e, t);
            assert_int_equal(arena_live_bytes(a), arena_round(entry_bytes(e)));
            wide += t->value_len >= ENTRY_WIDE_MIN;
            longs += t->key_len > 255;
            size_t n = random_len(&r), at = t->value_len ? rng_below(&r, t->value_len + 1) : 0, cut;
            switch (rng_below(&r, 4)) {
            case 0:
                e = entry_resize_value(a, e, n);
                if (n > t->value_len) {
                    fill(&r, t->value + t->value_len, n - t->value_len);
                    memcpy(entry_value_ptr(e) + t->value_len, t->value + t->value_len, n - t->value_len);
                }
                t->value_len = n;
                break;
            case 1:
                cut = rng_below(&r, t->value_len - at + 1);
                n %= 300;
                if (t->value_len - cut + n > VALUE_MAX) break;
                e = entry_splice_value(a, e, at, cut, n);
                memmove(t->value + at + n, t->value + at + cut, t->value_len - at - cut);
                fill(&r, t->value + at, n);
                memcpy(entry_value_ptr(e) + at, t->value + at, n);
                t->value_len += n - cut;
                break;
            case 2:
                t->expiry_ms = rng_below(&r, 2) ? (int64_t)rng_below(&r, 1u << 30) + 1 : 0;
                e = entry_set_expiry(a, e, t->expiry_ms);
                break;
            case 3: {
                t->key_len = rng_below(&r, 300);
                fill(&r, t->key, t->key_len);
                struct entry *copy = entry_rekey(a, e, slice_of(t->key, t->key_len));
                entry_release(a, e);
                e = copy;
            }
            }
        }
        entry_release(a, e);
        assert_int_equal(arena_live_bytes(a), 0);
        arena_check(a);
    }
    assert_true(wide > 100 && longs > 100);
    free(t);
    arena_free(a);
}

static void a_value_that_stays_in_its_class_stays_in_its_place(void **state)
{
    struct arena *a = arena_new();
    struct entry *e = entry_new(a, TYPE_STRING, ENC_BYTES, SLICE("k"), 16, 0); /* 5 + 1 + 1 + 1 + 16 = 24 */
    assert_int_equal(entry_bytes(e), 24);
    assert_ptr_equal(entry_resize_value(a, e, 9), e);
    assert_ptr_equal(entry_resize_value(a, e, 16), e);
    assert_ptr_equal(entry_set_expiry(a, e, 0), e);
    assert_ptr_not_equal(entry_resize_value(a, e, 17), e);
    arena_free(a);
}

static void appending_byte_by_byte_copies_rarely(void **state)
{
    struct arena *a = arena_new();
    struct entry *e = entry_new(a, TYPE_STRING, ENC_BYTES, SLICE("k"), ENTRY_WIDE_MIN, 0);
    unsigned moves = 0;
    size_t end = 1 << 20;
    for (size_t n = ENTRY_WIDE_MIN + 1; n < end; n++) {
        size_t before = entry_bytes(e);
        e = entry_resize_value(a, e, n);
        moves += entry_bytes(e) != before;
    }
    assert_in_range(moves, 5, 40);
    assert_true(entry_bytes(e) < end + end / 4 + 8192);
    e = entry_resize_value(a, e, 10000);
    assert_true(entry_bytes(e) < 11000);
    e = entry_resize_value(a, e, 3);
    assert_int_equal(entry_bytes(e), 5 + 1 + 1 + 1 + 3);
    arena_check(a);
    arena_free(a);
}

static void a_body_address_survives_every_change_around_it(void **state)
{
    struct arena *a = arena_new();
    struct entry *e = entry_new(a, TYPE_HASH, ENC_TABLE, SLICE("some key"), sizeof(void *), 0);
    entry_set_body(e, a);
    e = entry_set_expiry(a, e, 123456789);
    struct entry *copy = entry_rekey(a, e, SLICE("another key"));
    entry_release(a, e);
    copy = entry_set_expiry(a, copy, 0);
    assert_ptr_equal(entry_body(copy), a);
    assert_int_equal(entry_type(copy), TYPE_HASH);
    assert_int_equal(entry_encoding(copy), ENC_TABLE);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_random_walk_of_edits_equals_the_twin),
        cmocka_unit_test(a_value_that_stays_in_its_class_stays_in_its_place),
        cmocka_unit_test(appending_byte_by_byte_copies_rarely),
        cmocka_unit_test(a_body_address_survives_every_change_around_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
