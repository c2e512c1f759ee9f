/* Members against a naive twin: an array indexed by member number. */
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
#include "store/members.h"

enum { KEYS = 3000 };

struct world {
    struct arena *arena;
    struct kit kit;
    struct members *m;
    uint32_t *len; /* the twin: 0 = absent, else 1 + length of the value */
    struct rng rng;
};

static int setup(void **state)
{
    struct world *w = mem_zalloc(sizeof *w);
    w->arena = arena_new();
    w->kit = (struct kit){.arena = w->arena, .seed = 42, .rng = &w->rng};
    rng_init(&w->rng, 7);
    w->m = members_new(&w->kit, 0);
    w->len = mem_zalloc(KEYS * sizeof *w->len);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    members_free(w->m);
    arena_check(w->arena);
    assert_int_equal(arena_live_bytes(w->arena), 0);
    arena_free(w->arena);
    mem_free(w->len);
    mem_free(w);
    return 0;
}

static struct slice name(char text[32], uint32_t i) { return slice_of(text, (size_t)snprintf(text, 32, "member-%u", i)); }

static uint32_t number(struct slice member)
{
    char text[32] = {0};
    memcpy(text, member.p + 7, member.n - 7);
    return (uint32_t)strtoul(text, NULL, 10);
}

static void fill(char *p, uint32_t i, size_t n)
{
    for (size_t at = 0; at < n; at++) p[at] = (char)('a' + (i + at) % 26);
}

static void put(struct world *w, uint32_t i, uint32_t len)
{
    char text[32], value[6000];
    bool added;
    fill(value, i, len);
    struct entry *e = members_put(w->m, name(text, i), slice_of(value, len), &added);
    assert_int_equal(added, w->len[i] == 0);
    assert_true(slice_eq(entry_value(e), slice_of(value, len)));
    w->len[i] = len + 1;
}

static void expect(struct world *w, uint32_t i)
{
    char text[32], value[6000];
    struct entry *e = members_find(w->m, name(text, i));
    assert_int_equal(e != NULL, w->len[i] != 0);
    if (!e) return;
    fill(value, i, w->len[i] - 1);
    assert_true(slice_eq(entry_value(e), slice_of(value, w->len[i] - 1)));
    assert_true(slice_eq(entry_key(e), name(text, i)));
    assert_int_equal(entry_type(e), TYPE_STRING);
}

static uint64_t twin_count(const struct world *w)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < KEYS; i++) n += w->len[i] != 0;
    return n;
}

static void bytes_are_exactly_what_the_arena_counts(struct world *w)
{
    assert_int_equal(members_bytes(w->m), arena_live_bytes(w->arena));
}

static uint32_t some_length(struct world *w)
{
    uint64_t kind = rng_below(&w->rng, 20);
    if (kind == 0) return (uint32_t)rng_below(&w->rng, 6000);
    if (kind < 4) return (uint32_t)rng_below(&w->rng, 400);
    return (uint32_t)rng_below(&w->rng, 12);
}

static void it_behaves_like_an_array_under_a_random_walk(void **state)
{
    struct world *w = *state;
    char text[32];
    for (int step = 0; step < 40000; step++) {
        uint32_t i = (uint32_t)rng_below(&w->rng, KEYS);
        /* The tide turns every few thousand steps, so that the table grows and shrinks. */
        bool flood = step / 6000 % 2 == 0;
        if (rng_below(&w->rng, 10) < (flood ? 8u : 2u)) {
            put(w, i, some_length(w));
        } else {
            assert_int_equal(members_del(w->m, name(text, i)), w->len[i] != 0);
            w->len[i] = 0;
        }
        expect(w, (uint32_t)rng_below(&w->rng, KEYS));
        if (step % 1000 == 0) {
            members_check(w->m);
            bytes_are_exactly_what_the_arena_counts(w);
            assert_int_equal(members_count(w->m), twin_count(w));
        }
    }
    for (uint32_t i = 0; i < KEYS; i++) expect(w, i);
}

static void a_value_of_the_same_length_is_written_in_place(void **state)
{
    struct world *w = *state;
    bool added;
    double score = 1.5, other = -2.5;
    for (uint32_t i = 0; i < 100; i++) put(w, i, 8);
    struct entry *e = members_put(w->m, SLICE("zz"), slice_of(&score, 8), &added);
    for (uint32_t i = 100; i < 1000; i++) put(w, i, 8);
    assert_ptr_equal(members_put(w->m, SLICE("zz"), slice_of(&other, 8), &added), e);
    assert_false(added);
    assert_memory_equal(entry_value(e).p, &other, 8);
}

static void a_member_may_be_deleted_by_its_own_bytes(void **state)
{
    struct world *w = *state;
    put(w, 1, 3);
    assert_true(members_del(w->m, entry_key(members_random(w->m, 9))));
    assert_int_equal(members_count(w->m), 0);
}

static void empty_members_and_empty_values_are_members(void **state)
{
    struct world *w = *state;
    bool added;
    members_put(w->m, slice_of(NULL, 0), slice_of(NULL, 0), &added);
    assert_true(added);
    assert_non_null(members_find(w->m, SLICE("")));
    assert_int_equal(entry_value_len(members_find(w->m, SLICE(""))), 0);
    members_put(w->m, SLICE(""), SLICE("x"), &added);
    assert_false(added);
    assert_true(members_del(w->m, SLICE("")));
}

static void the_iterator_gives_every_member_once(void **state)
{
    struct world *w = *state;
    uint8_t seen[KEYS] = {0};
    for (uint32_t i = 0; i < KEYS; i += 3) put(w, i, i % 20);
    struct members_iter it;
    members_iter_init(&it, w->m);
    for (struct entry *e; (e = members_iter_next(&it));) seen[number(entry_key(e))]++;
    for (uint32_t i = 0; i < KEYS; i++) assert_int_equal(seen[i], w->len[i] != 0);
}

/* Or SSCAN of one set and SADD to another would crowd the second one's table. */
static void the_order_of_one_body_is_not_that_of_another(void **state)
{
    struct world *w = *state;
    struct members *other = members_new(&w->kit, 0);
    bool added;
    uint32_t same = 0, before = KEYS, follows[KEYS] = {0};
    char text[32];
    for (uint32_t i = 0; i < KEYS; i++) {
        put(w, i, 0);
        members_put(other, name(text, i), slice_of(NULL, 0), &added);
    }
    struct members_iter it;
    members_iter_init(&it, w->m);
    for (struct entry *e; (e = members_iter_next(&it)); before = number(entry_key(e)))
        if (before < KEYS) follows[before] = number(entry_key(e));
    before = KEYS;
    members_iter_init(&it, other);
    for (struct entry *e; (e = members_iter_next(&it)); before = number(entry_key(e)))
        if (before < KEYS) same += follows[before] == number(entry_key(e));
    assert_true(same < 20);
    members_free(other);
}

static void count_visit(void *ctx, struct entry *e) { ((uint8_t *)ctx)[number(entry_key(e))]++; }

static void a_scan_over_changes_visits_what_stays_throughout(void **state)
{
    struct world *w = *state;
    uint8_t seen[KEYS] = {0};
    uint64_t cursor = 0;
    int calls = 0;
    for (uint32_t i = 0; i < 1000; i++) put(w, i, 4);
    do {
        members_scan(w->m, &cursor, 10, count_visit, seen);
        for (uint32_t i = 0; i < 15; i++) put(w, 1000 + (uint32_t)rng_below(&w->rng, 2000), 4);
        assert_true(++calls < 2000);
    } while (cursor);
    assert_true(calls > 10);
    for (uint32_t i = 0; i < 1000; i++) assert_true(seen[i] >= 1);
}

static void a_cursor_beyond_the_hash_line_ends_the_scan(void **state)
{
    struct world *w = *state;
    uint8_t seen[KEYS] = {0};
    for (uint32_t i = 0; i < 100; i++) put(w, i, 4);
    uint64_t cursor = UINT64_MAX;
    members_scan(w->m, &cursor, 10, count_visit, seen);
    assert_int_equal(cursor, 0);
    for (uint32_t i = 0; i < 100; i++) assert_int_equal(seen[i], 0);
}

static void random_members_reach_everyone_about_equally(void **state)
{
    struct world *w = *state;
    uint32_t hits[500] = {0};
    assert_null(members_random(w->m, 5));
    for (uint32_t i = 0; i < 500; i++) put(w, i, 4);
    for (int i = 0; i < 100000; i++) hits[number(entry_key(members_random(w->m, rng_u64(&w->rng))))]++;
    for (uint32_t i = 0; i < 500; i++) assert_in_range(hits[i], 50, 800); /* 200 expected */
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_behaves_like_an_array_under_a_random_walk),
        TEST(a_value_of_the_same_length_is_written_in_place),
        TEST(a_member_may_be_deleted_by_its_own_bytes),
        TEST(empty_members_and_empty_values_are_members),
        TEST(the_iterator_gives_every_member_once),
        TEST(the_order_of_one_body_is_not_that_of_another),
        TEST(a_scan_over_changes_visits_what_stays_throughout),
        TEST(a_cursor_beyond_the_hash_line_ends_the_scan),
        TEST(random_members_reach_everyone_about_equally),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
