/* Hashes against a naive twin, in both encodings and over the change between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "store/arena.h"
#include "store/hash.h"
#include "store/pack.h"
#include "store/store.h"

enum { FIELDS = 400, VALUE_MAX = 100 };

struct world {
    struct arena *arena;
    struct store_limits limits;
    struct kit kit;
    struct entry *e;
    uint32_t len[FIELDS]; /* the twin: 0 = absent, else 1 + length of the value */
    uint32_t count;
    struct rng rng;
};

static int setup(void **state)
{
    struct world *w = mem_zalloc(sizeof *w);
    w->arena = arena_new();
    w->limits = (struct store_limits){.hash_entries = 128, .hash_value = 64};
    w->kit = (struct kit){.arena = w->arena, .seed = 3, .rng = &w->rng, .limits = &w->limits};
    w->e = hash_new(&w->kit, SLICE("the key"));
    rng_init(&w->rng, 11);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    hash_drop(&w->kit, w->e);
    entry_release(w->arena, w->e);
    assert_int_equal(arena_live_bytes(w->arena), 0);
    arena_check(w->arena);
    arena_free(w->arena);
    mem_free(w);
    return 0;
}

static struct slice name(char text[32], uint32_t i) { return slice_of(text, (size_t)snprintf(text, 32, "f%u", i)); }
static uint32_t number(struct slice field)
{
    char text[32] = {0};
    memcpy(text, field.p + 1, field.n - 1);
    return (uint32_t)strtoul(text, NULL, 10);
}

static struct slice value_of(char text[VALUE_MAX], uint32_t i, uint32_t len)
{
    for (uint32_t at = 0; at < len; at++) text[at] = (char)('a' + (i + len + at) % 26);
    return slice_of(text, len);
}

static void put(struct world *w, uint32_t i, uint32_t len)
{
    char field[32], value[VALUE_MAX];
    bool added;
    w->e = hash_put(&w->kit, w->e, name(field, i), value_of(value, i, len), &added);
    assert_int_equal(added, w->len[i] == 0);
    w->count += added;
    w->len[i] = len + 1;
}

static void del(struct world *w, uint32_t i)
{
    char field[32];
    bool removed;
    w->e = hash_del(&w->kit, w->e, name(field, i), &removed);
    assert_int_equal(removed, w->len[i] != 0);
    w->count -= removed;
    w->len[i] = 0;
}

static void expect_pair(const struct world *w, struct slice field, struct slice value)
{
    char text[VALUE_MAX];
    uint32_t i = number(field);
    assert_true(i < FIELDS && w->len[i]);
    assert_true(slice_eq(value, value_of(text, i, w->len[i] - 1)));
}

static void expect_same(struct world *w)
{
    char text[32];
    struct slice field, value;
    for (uint32_t i = 0; i < FIELDS; i++) {
        assert_int_equal(hash_get(w->e, name(text, i), &value), w->len[i] != 0);
        if (w->len[i]) expect_pair(w, name(text, i), value);
    }
    struct hash_iter it;
    uint32_t n = 0;
    hash_iter_init(&it, w->e);
    for (; hash_iter_next(&it, &field, &value); n++) expect_pair(w, field, value);
    assert_int_equal(n, w->count);
    assert_int_equal(hash_len(w->e), w->count);
    assert_int_equal(arena_live_bytes(w->arena), arena_round(entry_bytes(w->e)) + hash_body_bytes(w->e));
    assert_true(slice_eq(entry_key(w->e), SLICE("the key")));
    if (entry_encoding(w->e) == ENC_PACK) assert_true(pack_valid(entry_value(w->e)));
}

static void it_behaves_like_an_array_while_it_is_a_pack(void **state)
{
    struct world *w = *state;
    for (int step = 0; step < 4000; step++) {
        uint32_t i = (uint32_t)rng_below(&w->rng, 100);
        if (rng_below(&w->rng, 3))
            put(w, i, (uint32_t)rng_below(&w->rng, 64));
        else
            del(w, i);
        if (step % 50 == 0) expect_same(w);
    }
    expect_same(w);
    assert_int_equal(entry_encoding(w->e), ENC_PACK);
}

static void it_behaves_like_an_array_over_the_change_to_a_table(void **state)
{
    struct world *w = *state;
    bool was_pack = false, was_table = false;
    for (int step = 0; step < 6000; step++) {
        uint32_t i = (uint32_t)rng_below(&w->rng, FIELDS);
        if (rng_below(&w->rng, 3))
            put(w, i, (uint32_t)rng_below(&w->rng, step < 3000 ? 64 : VALUE_MAX));
        else
            del(w, i);
        was_pack |= entry_encoding(w->e) == ENC_PACK;
        was_table |= entry_encoding(w->e) == ENC_TABLE;
        if (step % 100 == 0) expect_same(w);
    }
    expect_same(w);
    assert_true(was_pack && was_table);
}

static void the_field_past_the_limit_makes_it_a_table(void **state)
{
    struct world *w = *state;
    for (uint32_t i = 0; i < 128; i++) put(w, i, 3);
    assert_int_equal(entry_encoding(w->e), ENC_PACK);
    put(w, 5, 9);
    assert_int_equal(entry_encoding(w->e), ENC_PACK);
    put(w, 128, 3);
    assert_int_equal(entry_encoding(w->e), ENC_TABLE);
    assert_int_equal(entry_type(w->e), TYPE_HASH);
    expect_same(w);
}

static void a_long_value_or_field_makes_it_a_table(void **state)
{
    struct world *w = *state;
    char long_field[65];
    bool added;
    put(w, 1, 64);
    assert_int_equal(entry_encoding(w->e), ENC_PACK);
    put(w, 1, 65);
    assert_int_equal(entry_encoding(w->e), ENC_TABLE);
    expect_same(w);

    memset(long_field, 'x', sizeof long_field);
    struct entry *other = hash_new(&w->kit, SLICE("o"));
    other = hash_put(&w->kit, other, slice_of(long_field, 64), SLICE(""), &added);
    assert_int_equal(entry_encoding(other), ENC_PACK);
    other = hash_put(&w->kit, other, slice_of(long_field, 65), SLICE(""), &added);
    assert_int_equal(entry_encoding(other), ENC_TABLE);
    assert_int_equal(hash_len(other), 2);
    hash_drop(&w->kit, other);
    entry_release(w->arena, other);
}

static void a_table_stays_a_table_when_it_shrinks(void **state)
{
    struct world *w = *state;
    for (uint32_t i = 0; i < 200; i++) put(w, i, 3);
    for (uint32_t i = 0; i < 199; i++) del(w, i);
    assert_int_equal(entry_encoding(w->e), ENC_TABLE);
    expect_same(w);
    del(w, 199);
    assert_int_equal(hash_len(w->e), 0);
}

static void the_expiry_survives_the_change_to_a_table(void **state)
{
    struct world *w = *state;
    w->e = entry_set_expiry(w->arena, w->e, 123456789);
    for (uint32_t i = 0; i < 200; i++) put(w, i, 3);
    assert_int_equal(entry_expiry_ms(w->e), 123456789);
}

static void a_field_is_not_mistaken_for_a_value(void **state)
{
    struct world *w = *state;
    struct slice value;
    bool flag;
    w->e = hash_put(&w->kit, w->e, SLICE("a"), SLICE("b"), &flag);
    w->e = hash_put(&w->kit, w->e, SLICE("c"), SLICE("d"), &flag);
    assert_false(hash_get(w->e, SLICE("b"), &value));
    w->e = hash_del(&w->kit, w->e, SLICE("d"), &flag);
    assert_false(flag);
    assert_int_equal(hash_len(w->e), 2);
}

struct seen {
    struct world *w;
    uint32_t visits[FIELDS];
};

static void note(void *ctx, struct slice field, struct slice value)
{
    struct seen *s = ctx;
    expect_pair(s->w, field, value);
    s->visits[number(field)]++;
}

static void a_scan_visits_all_in_both_encodings(void **state)
{
    struct world *w = *state;
    for (uint32_t n = 50; n <= 350; n += 300) {
        struct seen s = {.w = w};
        uint64_t cursor = 0;
        uint32_t calls = 0;
        for (uint32_t i = 0; i < n; i++) put(w, i, 4);
        do {
            hash_scan(w->e, &cursor, 10, note, &s);
            assert_true(++calls < 100);
        } while (cursor);
        assert_true(n == 50 ? calls == 1 : calls > 5);
        for (uint32_t i = 0; i < FIELDS; i++) assert_int_equal(s.visits[i], w->len[i] != 0);
    }
}

static void random_fields_reach_everyone_in_both_encodings(void **state)
{
    struct world *w = *state;
    struct slice field, value;
    assert_false(hash_random(w->e, 1, &field, &value));
    for (uint32_t n = 100; n <= 300; n += 200) {
        struct seen s = {.w = w};
        for (uint32_t i = 0; i < n; i++) put(w, i, 4);
        for (uint32_t i = 0; i < n * 100; i++) {
            assert_true(hash_random(w->e, rng_u64(&w->rng), &field, &value));
            note(&s, field, value);
        }
        for (uint32_t i = 0; i < n; i++) assert_in_range(s.visits[i], 20, 400);
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_behaves_like_an_array_while_it_is_a_pack),
        TEST(it_behaves_like_an_array_over_the_change_to_a_table),
        TEST(the_field_past_the_limit_makes_it_a_table),
        TEST(a_long_value_or_field_makes_it_a_table),
        TEST(a_table_stays_a_table_when_it_shrinks),
        TEST(the_expiry_survives_the_change_to_a_table),
        TEST(a_field_is_not_mistaken_for_a_value),
        TEST(a_scan_visits_all_in_both_encodings),
        TEST(random_fields_reach_everyone_in_both_encodings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
