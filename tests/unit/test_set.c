/* Sets against a naive twin, in all three encodings and over the changes between them. */
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
#include "store/intset.h"
#include "store/pack.h"
#include "store/set.h"
#include "store/store.h"

enum { MEMBERS = 1000 };

/* Members are numbered: number i is the integer (i - 500) * step, or that with a letter before it. */
struct world {
    struct arena *arena;
    struct store_limits limits;
    struct kit kit;
    struct entry *e;
    int64_t step;
    bool letters;
    bool in[MEMBERS];
    uint32_t count;
    struct rng rng;
};

static int setup(void **state)
{
    struct world *w = mem_zalloc(sizeof *w);
    w->arena = arena_new();
    w->limits = (struct store_limits){.set_ints = 512, .set_entries = 128, .set_value = 64};
    w->kit = (struct kit){.arena = w->arena, .seed = 3, .rng = &w->rng, .limits = &w->limits};
    w->step = 1;
    rng_init(&w->rng, 11);
    *state = w;
    return 0;
}

static void drop(struct world *w)
{
    set_drop(&w->kit, w->e);
    entry_release(w->arena, w->e);
    memset(w->in, 0, sizeof w->in);
    w->count = 0;
    assert_int_equal(arena_live_bytes(w->arena), 0);
}

static int teardown(void **state)
{
    struct world *w = *state;
    drop(w);
    arena_check(w->arena);
    arena_free(w->arena);
    mem_free(w);
    return 0;
}

static void start_ints(struct world *w, int64_t step)
{
    w->letters = false;
    w->step = step;
    w->e = set_new(&w->kit, SLICE("the key"), SLICE("0"));
}

static void start_letters(struct world *w)
{
    w->letters = true;
    w->step = 1;
    w->e = set_new(&w->kit, SLICE("the key"), SLICE("x"));
}

static struct slice name(const struct world *w, char text[32], uint32_t i)
{
    int n = snprintf(text, 32, w->letters ? "m%lld" : "%lld", (long long)(((int64_t)i - 500) * w->step));
    return slice_of(text, (size_t)n);
}

static uint32_t number(const struct world *w, struct slice member)
{
    char text[32] = {0};
    memcpy(text, member.p + w->letters, member.n - w->letters);
    return (uint32_t)(strtoll(text, NULL, 10) / w->step + 500);
}

static void add(struct world *w, uint32_t i)
{
    char text[32];
    bool added;
    w->e = set_add(&w->kit, w->e, name(w, text, i), &added);
    assert_int_equal(added, !w->in[i]);
    w->count += added;
    w->in[i] = true;
}

static void rem(struct world *w, uint32_t i)
{
    char text[32];
    bool removed;
    w->e = set_rem(&w->kit, w->e, name(w, text, i), &removed);
    assert_int_equal(removed, w->in[i]);
    w->count -= removed;
    w->in[i] = false;
}

static void expect_same(struct world *w)
{
    char text[32];
    uint8_t seen[MEMBERS] = {0};
    struct set_iter it;
    struct slice member;
    for (uint32_t i = 0; i < MEMBERS; i++) assert_int_equal(set_has(w->e, name(w, text, i)), w->in[i]);
    set_iter_init(&it, w->e);
    while (set_iter_next(&it, &member)) seen[number(w, member)]++;
    for (uint32_t i = 0; i < MEMBERS; i++) assert_int_equal(seen[i], w->in[i]);
    assert_int_equal(set_len(w->e), w->count);
    assert_int_equal(arena_live_bytes(w->arena), arena_round(entry_bytes(w->e)) + set_body_bytes(w->e));
    assert_true(slice_eq(entry_key(w->e), SLICE("the key")));
    if (entry_encoding(w->e) == ENC_PACK) assert_true(pack_valid(entry_value(w->e)));
    if (entry_encoding(w->e) == ENC_INTS) assert_true(intset_valid(entry_value(w->e)));
}

static void walk(struct world *w, uint32_t range, int steps)
{
    for (int step = 0; step < steps; step++) {
        uint32_t i = (uint32_t)rng_below(&w->rng, range);
        if (rng_below(&w->rng, 3))
            add(w, i);
        else
            rem(w, i);
        if (step % 100 == 0) expect_same(w);
    }
    expect_same(w);
}

static void it_behaves_like_an_array_as_integers_of_every_width(void **state)
{
    struct world *w = *state;
    static const int64_t steps[] = {1, 1000, 1000000000, INT64_MAX / 500};
    for (size_t i = 0; i < 4; i++) {
        if (i) drop(w);
        start_ints(w, steps[i]);
        walk(w, 500, 2000);
        assert_int_equal(entry_encoding(w->e), ENC_INTS);
    }
}

static void it_behaves_like_an_array_as_a_pack(void **state)
{
    struct world *w = *state;
    start_letters(w);
    walk(w, 120, 3000);
    assert_int_equal(entry_encoding(w->e), ENC_PACK);
}

static void it_behaves_like_an_array_as_a_table(void **state)
{
    struct world *w = *state;
    start_letters(w);
    walk(w, MEMBERS, 6000);
    assert_int_equal(entry_encoding(w->e), ENC_TABLE);
    drop(w);
    start_ints(w, 7);
    walk(w, MEMBERS, 6000);
    assert_int_equal(entry_encoding(w->e), ENC_TABLE);
}

static void too_many_integers_make_a_table(void **state)
{
    struct world *w = *state;
    start_ints(w, 3);
    for (uint32_t i = 0; i < 512; i++) add(w, i);
    assert_int_equal(entry_encoding(w->e), ENC_INTS);
    add(w, 511);
    assert_int_equal(entry_encoding(w->e), ENC_INTS);
    add(w, 512);
    assert_int_equal(entry_encoding(w->e), ENC_TABLE);
    assert_int_equal(entry_type(w->e), TYPE_SET);
    expect_same(w);
}

static void add_word(struct world *w, const char *word)
{
    bool added;
    w->e = set_add(&w->kit, w->e, slice_str(word), &added);
    assert_true(added);
    assert_true(set_has(w->e, slice_str(word)));
    assert_int_equal(set_len(w->e), w->count + 1);
}

static void rem_word(struct world *w, const char *word)
{
    bool removed;
    w->e = set_rem(&w->kit, w->e, slice_str(word), &removed);
    assert_true(removed);
}

static void a_word_turns_few_integers_into_a_pack(void **state)
{
    struct world *w = *state;
    start_ints(w, INT64_MAX / 500);
    w->e = entry_set_expiry(w->arena, w->e, 99);
    for (uint32_t i = 0; i < 127; i++) add(w, i * 7);
    add_word(w, "word");
    assert_int_equal(entry_encoding(w->e), ENC_PACK);
    assert_int_equal(entry_expiry_ms(w->e), 99);
    rem_word(w, "word");
    expect_same(w);
    add(w, 900);
    assert_int_equal(entry_encoding(w->e), ENC_PACK);
}

static void a_word_turns_many_integers_into_a_table(void **state)
{
    struct world *w = *state;
    start_ints(w, 1);
    for (uint32_t i = 0; i < 128; i++) add(w, i);
    add_word(w, "word");
    assert_int_equal(entry_encoding(w->e), ENC_TABLE);
    rem_word(w, "word");
    expect_same(w);
}

static void a_long_word_turns_integers_into_a_table(void **state)
{
    struct world *w = *state;
    start_ints(w, 1);
    add(w, 3);
    w->limits.set_value = 5;
    add_word(w, "longer");
    assert_int_equal(entry_encoding(w->e), ENC_TABLE);
    drop(w);
    start_ints(w, 1000000); /* the integers are the longer ones */
    add(w, 3);
    add_word(w, "short");
    assert_int_equal(entry_encoding(w->e), ENC_TABLE);
}

static void the_129th_or_a_long_word_turns_a_pack_into_a_table(void **state)
{
    struct world *w = *state;
    start_letters(w);
    for (uint32_t i = 0; i < 128; i++) add(w, i);
    assert_int_equal(entry_encoding(w->e), ENC_PACK);
    add(w, 128);
    assert_int_equal(entry_encoding(w->e), ENC_TABLE);
    drop(w);
    start_letters(w);
    w->limits.set_value = 3;
    add(w, 499);
    assert_int_equal(entry_encoding(w->e), ENC_PACK);
    add(w, 1);
    assert_int_equal(entry_encoding(w->e), ENC_TABLE);
    expect_same(w);
}

static void without_room_for_integers_the_first_is_packed(void **state)
{
    struct world *w = *state;
    w->limits.set_ints = 0;
    start_ints(w, 1);
    add(w, 1);
    assert_int_equal(entry_encoding(w->e), ENC_PACK);
}

static void only_canonical_integers_are_integers(void **state)
{
    struct world *w = *state;
    start_ints(w, 1);
    add(w, 507);
    assert_false(set_has(w->e, SLICE("07")));
    assert_false(set_has(w->e, SLICE("+7")));
    add_word(w, "07");
    assert_int_equal(entry_encoding(w->e), ENC_PACK);
    rem_word(w, "07");
}

struct seen {
    struct world *w;
    uint32_t visits[MEMBERS];
};

static void note(void *ctx, struct slice member)
{
    struct seen *s = ctx;
    s->visits[number(s->w, member)]++;
}

static void scan_and_draw(struct world *w, uint32_t n)
{
    struct seen scanned = {.w = w}, drawn = {.w = w};
    uint64_t cursor = 0;
    struct slice member;
    char text[24];
    assert_false(set_random(w->e, 77, text, &member));
    for (uint32_t i = 0; i < n; i++) add(w, i);
    do set_scan(w->e, &cursor, 10, note, &scanned);
    while (cursor);
    for (uint32_t i = 0; i < n * 100; i++) {
        assert_true(set_random(w->e, rng_u64(&w->rng), text, &member));
        note(&drawn, member);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(scanned.visits[i], i < n);
        if (i < n) assert_in_range(drawn.visits[i], 20, 400);
    }
    drop(w);
}

static void scans_and_random_picks_reach_everyone_in_every_encoding(void **state)
{
    struct world *w = *state;
    start_ints(w, 1);
    scan_and_draw(w, 300);
    start_letters(w);
    scan_and_draw(w, 100);
    start_letters(w);
    scan_and_draw(w, 600);
    start_letters(w);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_behaves_like_an_array_as_integers_of_every_width),
        TEST(it_behaves_like_an_array_as_a_pack),
        TEST(it_behaves_like_an_array_as_a_table),
        TEST(too_many_integers_make_a_table),
        TEST(a_word_turns_few_integers_into_a_pack),
        TEST(a_word_turns_many_integers_into_a_table),
        TEST(a_long_word_turns_integers_into_a_table),
        TEST(the_129th_or_a_long_word_turns_a_pack_into_a_table),
        TEST(without_room_for_integers_the_first_is_packed),
        TEST(only_canonical_integers_are_integers),
        TEST(scans_and_random_picks_reach_everyone_in_every_encoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
