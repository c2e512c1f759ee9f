/* The counted tree against a naive twin: a sorted array. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "store/arena.h"
#include "store/entry.h"
#include "store/ordered.h"

enum { ENTRIES_MAX = 20000 };

struct pair {
    double score;
    struct entry *e;
};

struct world {
    struct arena *arena;
    struct ordered tree;
    struct pair twin[ENTRIES_MAX]; /* sorted */
    unsigned n;
    unsigned named; /* members are numbered as they come */
};

static struct world *world_new(void)
{
    struct world *w = mem_zalloc(sizeof *w);
    w->arena = arena_new();
    ordered_init(&w->tree, w->arena);
    return w;
}

static void world_free(struct world *w)
{
    for (unsigned i = 0; i < w->n; i++) entry_release(w->arena, w->twin[i].e);
    ordered_fini(&w->tree);
    assert_int_equal(arena_live_bytes(w->arena), 0);
    arena_free(w->arena);
    mem_free(w);
}

static struct entry *member(struct world *w, unsigned number)
{
    char name[24];
    int n = snprintf(name, sizeof name, "%x", number * 2654435761u);
    return entry_new(w->arena, TYPE_STRING, ENC_BYTES, slice_of(name, (size_t)n), 8, 0);
}

static bool before(struct pair p, double score, struct slice name)
{
    return p.score < score || (p.score == score && slice_cmp(entry_key(p.e), name) < 0);
}

static unsigned twin_rank(const struct world *w, double score, struct slice name)
{
    unsigned low = 0, high = w->n;
    while (low < high) {
        unsigned mid = (low + high) / 2;
        if (before(w->twin[mid], score, name)) low = mid + 1;
        else high = mid;
    }
    return low;
}

static void add(struct world *w, double score)
{
    struct entry *e = member(w, w->named++);
    unsigned at = twin_rank(w, score, entry_key(e));
    memmove(w->twin + at + 1, w->twin + at, (w->n - at) * sizeof w->twin[0]);
    w->twin[at] = (struct pair){score, e};
    w->n++;
    ordered_insert(&w->tree, score, e);
}

static void take(struct world *w, unsigned at)
{
    struct pair p = w->twin[at];
    ordered_remove(&w->tree, p.score, p.e);
    entry_release(w->arena, p.e);
    w->n--;
    memmove(w->twin + at, w->twin + at + 1, (w->n - at) * sizeof w->twin[0]);
}

static void rescore(struct world *w, unsigned at, double score)
{
    struct pair p = w->twin[at];
    ordered_rescore(&w->tree, p.score, score, p.e);
    w->n--;
    memmove(w->twin + at, w->twin + at + 1, (w->n - at) * sizeof w->twin[0]);
    at = twin_rank(w, score, entry_key(p.e));
    memmove(w->twin + at + 1, w->twin + at, (w->n - at) * sizeof w->twin[0]);
    w->twin[at] = (struct pair){score, p.e};
    w->n++;
}

static void same_from(const struct world *w, unsigned rank, bool back)
{
    struct ordered_iter it;
    double score;
    struct entry *e;
    unsigned left = rank >= w->n ? 0 : back ? rank + 1 : w->n - rank;
    ordered_iter_init(&it, &w->tree, rank, back);
    for (unsigned i = 0; i < left; i++) {
        const struct pair *p = &w->twin[back ? rank - i : rank + i];
        assert_true(ordered_iter_next(&it, &score, &e));
        assert_ptr_equal(e, p->e);
        assert_true(score == p->score);
    }
    assert_false(ordered_iter_next(&it, &score, &e));
}

static void same(const struct world *w)
{
    ordered_check(&w->tree);
    assert_int_equal(w->tree.count, w->n);
    same_from(w, 0, false);
    if (w->n) same_from(w, w->n - 1, true);
}

static uint64_t rank_by(const struct world *w, int by, bool after, double score, struct slice name)
{
    struct ordered_bound b = {.after = after, .score = score, .member = name};
    b.by = by;
    return ordered_rank(&w->tree, &b);
}

static void ranks_agree(const struct world *w, double score)
{
    unsigned low = 0, high;
    while (low < w->n && w->twin[low].score < score) low++;
    for (high = low; high < w->n && w->twin[high].score == score;) high++;
    assert_int_equal(rank_by(w, ORDERED_BY_SCORE, false, score, SLICE("")), low);
    assert_int_equal(rank_by(w, ORDERED_BY_SCORE, true, score, SLICE("")), high);
    if (low == w->n) return;
    struct slice name = entry_key(w->twin[low].e);
    assert_int_equal(rank_by(w, ORDERED_BY_BOTH, false, w->twin[low].score, name), low);
    assert_int_equal(rank_by(w, ORDERED_BY_BOTH, true, w->twin[low].score, name), low + 1);
}

static void an_empty_tree_has_rank_zero_everywhere_and_nothing_to_walk(void **state)
{
    struct world *w = world_new();
    same(w);
    same_from(w, 0, false);
    same_from(w, 0, true);
    assert_int_equal(rank_by(w, ORDERED_BY_SCORE, true, INFINITY, SLICE("")), 0);
    assert_int_equal(rank_by(w, ORDERED_BY_MEMBER, true, 0, SLICE("z")), 0);
    world_free(w);
}

/* Scores from a small range make many ties, from a large one none; the tree grows to three levels and shrinks to nothing. */
static void random_walk(uint64_t seed, unsigned scores, unsigned top)
{
    struct world *w = world_new();
    struct rng r;
    unsigned highest = 0;
    rng_init(&r, seed);
    for (unsigned phase = 0; phase < 4; phase++) {
        unsigned grow = phase % 2 ? 2 : 6; /* of ten steps, how many insert */
        for (unsigned step = 0; step < 2 * top; step++) {
            uint64_t dice = rng_below(&r, 10);
            double score = (double)rng_below(&r, scores) - scores / 2.0;
            if (dice < grow && w->n < ENTRIES_MAX) add(w, score);
            else if (dice < 8 && w->n) take(w, (unsigned)rng_below(&r, w->n));
            else if (w->n) rescore(w, (unsigned)rng_below(&r, w->n), score);
            if (w->tree.height > highest) highest = w->tree.height;
            if (step % (top / 8) == 0) {
                same(w);
                ranks_agree(w, score);
                same_from(w, (unsigned)rng_below(&r, w->n + 2), step % 3 == 0);
            }
        }
    }
    assert_true(highest >= 2);
    while (w->n) take(w, (unsigned)rng_below(&r, w->n));
    same(w);
    world_free(w);
}

static void a_random_walk_without_ties_equals_a_sorted_array(void **state) { random_walk(1, 1u << 30, 6000); }
static void a_random_walk_with_many_ties_equals_a_sorted_array(void **state) { random_walk(2, 40, 6000); }
static void a_random_walk_over_one_score_equals_a_sorted_array(void **state) { random_walk(3, 1, 6000); }

static void inserting_in_order_leaves_full_nodes(void **state)
{
    struct world *up = world_new(), *down = world_new();
    for (unsigned i = 0; i < 9000; i++) {
        add(up, i);
        add(down, -(double)i);
    }
    same(up);
    same(down);
    /* 16 bytes of pair, and at most a tenth more for links and inner nodes. */
    assert_true(up->tree.bytes < 9000 * 16 * 1.2);
    assert_true(down->tree.bytes < 9000 * 16 * 1.2);
    world_free(up);
    world_free(down);
}

static void removing_from_either_end_empties_the_tree(void **state)
{
    for (int end = 0; end < 2; end++) {
        struct world *w = world_new();
        for (unsigned i = 0; i < 5000; i++) add(w, i % 700);
        while (w->n) {
            take(w, end ? w->n - 1 : 0);
            if (w->n % 499 == 0) same(w);
        }
        assert_int_equal(w->tree.bytes, 0);
        world_free(w);
    }
}

static void infinite_scores_are_the_ends_and_zeros_are_equal(void **state)
{
    struct world *w = world_new();
    double scores[] = {INFINITY, -INFINITY, 0.0, -0.0, 1e308, -1e308};
    for (unsigned i = 0; i < 120; i++) add(w, scores[i % 6]);
    same(w);
    assert_int_equal(rank_by(w, ORDERED_BY_SCORE, true, -INFINITY, SLICE("")), 20);
    assert_int_equal(rank_by(w, ORDERED_BY_SCORE, false, -0.0, SLICE("")), 40);
    assert_int_equal(rank_by(w, ORDERED_BY_SCORE, true, 0.0, SLICE("")), 80);
    assert_int_equal(rank_by(w, ORDERED_BY_SCORE, false, INFINITY, SLICE("")), 100);
    world_free(w);
}

static void ranks_by_member_are_exact_among_equal_scores(void **state)
{
    struct world *w = world_new();
    for (unsigned i = 0; i < 3000; i++) add(w, 7);
    for (unsigned i = 0; i < w->n; i += 13) {
        struct slice name = entry_key(w->twin[i].e);
        assert_int_equal(rank_by(w, ORDERED_BY_MEMBER, false, 0, name), i);
        assert_int_equal(rank_by(w, ORDERED_BY_MEMBER, true, 0, name), i + 1);
    }
    assert_int_equal(rank_by(w, ORDERED_BY_MEMBER, false, 0, SLICE("")), 0);
    assert_int_equal(rank_by(w, ORDERED_BY_MEMBER, false, 0, SLICE("z")), 3000);
    world_free(w);
}

static void a_small_change_of_score_keeps_the_place(void **state)
{
    struct world *w = world_new();
    for (unsigned i = 0; i < 4000; i++) add(w, i * 10);
    for (unsigned i = 0; i < 4000; i += 7) rescore(w, i, w->twin[i].score + 3);
    for (unsigned i = 0; i < 4000; i += 7) rescore(w, i, w->twin[i].score);
    same(w);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_tree_has_rank_zero_everywhere_and_nothing_to_walk),
        cmocka_unit_test(a_random_walk_without_ties_equals_a_sorted_array),
        cmocka_unit_test(a_random_walk_with_many_ties_equals_a_sorted_array),
        cmocka_unit_test(a_random_walk_over_one_score_equals_a_sorted_array),
        cmocka_unit_test(inserting_in_order_leaves_full_nodes),
        cmocka_unit_test(removing_from_either_end_empties_the_tree),
        cmocka_unit_test(infinite_scores_are_the_ends_and_zeros_are_equal),
        cmocka_unit_test(ranks_by_member_are_exact_among_equal_scores),
        cmocka_unit_test(a_small_change_of_score_keeps_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
