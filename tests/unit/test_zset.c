/* Sorted sets against a naive twin: a sorted array of (score, member). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rng.h"
#include "store/arena.h"
#include "store/store.h"
#include "store/zset.h"

enum { TWIN_MAX = 600, NAME_MAX_BYTES = 80 };

struct pair {
    double score;
    char name[NAME_MAX_BYTES];
    size_t n;
};

struct world {
    struct store_limits limits;
    struct kit kit;
    struct rng rng; /* the kit's */
    struct entry *e;
    struct pair twin[TWIN_MAX];
    unsigned n;
};

static void world_init(struct world *w, uint32_t entries, uint32_t value)
{
    memset(w, 0, sizeof *w);
    w->limits.zset_entries = entries;
    w->limits.zset_value = value;
    rng_init(&w->rng, 1);
    w->kit = (struct kit){.arena = arena_new(), .seed = 11, .rng = &w->rng, .limits = &w->limits};
    w->e = zset_new(&w->kit, SLICE("key"));
}

static void world_fini(struct world *w)
{
    zset_drop(&w->kit, w->e);
    entry_release(w->kit.arena, w->e);
    assert_int_equal(arena_live_bytes(w->kit.arena), 0);
    arena_free(w->kit.arena);
}

static struct slice name_of(const struct pair *p) { return slice_of(p->name, p->n); }

static unsigned twin_find(const struct world *w, struct slice member)
{
    unsigned i = 0;
    while (i < w->n && !slice_eq(name_of(&w->twin[i]), member)) i++;
    return i;
}

static void twin_cut(struct world *w, unsigned at)
{
    w->n--;
    memmove(w->twin + at, w->twin + at + 1, (w->n - at) * sizeof w->twin[0]);
}

static void put(struct world *w, struct slice member, double score)
{
    bool added;
    unsigned have = twin_find(w, member), at = 0;
    w->e = zset_put(&w->kit, w->e, member, score, &added);
    score += 0.0;
    assert_true(added == (have == w->n));
    if (have < w->n) twin_cut(w, have);
    while (at < w->n && (w->twin[at].score < score ||
                         (w->twin[at].score == score && slice_cmp(name_of(&w->twin[at]), member) < 0))) at++;
    memmove(w->twin + at + 1, w->twin + at, (w->n - at) * sizeof w->twin[0]);
    w->twin[at] = (struct pair){.score = score, .n = member.n};
    memcpy(w->twin[at].name, member.p, member.n);
    w->n++;
}

static void take(struct world *w, struct slice member)
{
    bool removed;
    unsigned have = twin_find(w, member);
    w->e = zset_rem(&w->kit, w->e, member, &removed);
    assert_true(removed == (have < w->n));
    if (removed) twin_cut(w, have);
}

static bool same_double(double a, double b) { return a == b && signbit(a) == signbit(b); }

static void same_walk(const struct world *w, unsigned rank, bool back)
{
    struct zset_iter it;
    struct slice member;
    double score;
    unsigned left = rank >= w->n ? 0 : back ? rank + 1 : w->n - rank;
    zset_iter_init(&it, w->e, rank, back);
    for (unsigned i = 0; i < left; i++) {
        const struct pair *p = &w->twin[back ? rank - i : rank + i];
        assert_true(zset_iter_next(&it, &member, &score));
        assert_true(slice_eq(member, name_of(p)));
        assert_true(same_double(score, p->score));
    }
    assert_false(zset_iter_next(&it, &member, &score));
}

static void same(const struct world *w)
{
    zset_check(w->e);
    assert_int_equal(zset_len(w->e), w->n);
    same_walk(w, 0, false);
    same_walk(w, w->n ? w->n - 1 : 0, true);
    same_walk(w, w->n / 3, w->n % 2);
    for (unsigned i = 0; i < w->n; i += 1 + w->n / 8) {
        uint64_t rank;
        double score;
        assert_true(zset_rank(w->e, name_of(&w->twin[i]), &rank, &score));
        assert_int_equal(rank, i);
        assert_true(same_double(score, w->twin[i].score));
    }
}

static void bounds_agree(const struct world *w, double score)
{
    unsigned low = 0, high;
    while (low < w->n && w->twin[low].score < score) low++;
    for (high = low; high < w->n && w->twin[high].score == score;) high++;
    assert_int_equal(zset_rank_of_score(w->e, score, false), low);
    assert_int_equal(zset_rank_of_score(w->e, score, true), high);
}

static const double odd_scores[] = {0.0, -0.0, 1, -1, 127, 128, -128, -129, 32767, 32768, -32768, 1e9, -1e9, 2147483648.0, 1700000000123.0,
                                    140737488355327.0, 140737488355328.0, -140737488355328.0, -140737488355329.0, 1e300, -1e300, 0.1, -2.5,
                                    INFINITY, -INFINITY};
enum { ODD_SCORES = sizeof odd_scores / sizeof odd_scores[0] };

static struct slice random_name(struct rng *r, char name[NAME_MAX_BYTES], unsigned names, bool longer)
{
    int n = snprintf(name, NAME_MAX_BYTES, "m%u", (unsigned)rng_below(r, names));
    if (longer && rng_below(r, 20) == 0) n += snprintf(name + n, NAME_MAX_BYTES - (size_t)n, "%070d", 0);
    return slice_of(name, (size_t)n);
}

static void random_walk(uint64_t seed, uint32_t entries, uint32_t value, unsigned names, bool longer, enum encoding end)
{
    struct world w;
    struct rng r;
    char name[NAME_MAX_BYTES];
    world_init(&w, entries, value);
    rng_init(&r, seed);
    for (unsigned step = 0; step < 4000; step++) {
        double score = rng_below(&r, 2) ? odd_scores[rng_below(&r, ODD_SCORES)] : (double)rng_below(&r, 50) / 4;
        if (rng_below(&r, 10) < (step / 1000 % 2 ? 3 : 7)) put(&w, random_name(&r, name, names, longer), score);
        else take(&w, random_name(&r, name, names, longer));
        if (step % 50 == 0) same(&w);
        if (step % 50 == 0) bounds_agree(&w, score);
    }
    same(&w);
    assert_int_equal(entry_encoding(w.e), end);
    world_fini(&w);
}

static void a_random_walk_of_a_pack_equals_a_sorted_array(void **state) { random_walk(1, 128, 64, 100, false, ENC_PACK); }
static void a_random_walk_into_a_tree_equals_a_sorted_array(void **state) { random_walk(2, 64, 64, 400, false, ENC_TREE); }
static void a_random_walk_with_long_members_equals_a_sorted_array(void **state) { random_walk(3, 128, 64, 90, true, ENC_TREE); }

static void every_score_but_minus_zero_comes_back_from_both_encodings(void **state)
{
    for (unsigned limit = 0; limit <= 128; limit += 128) {
        struct world w;
        world_init(&w, limit, 64);
        for (unsigned i = 0; i < ODD_SCORES; i++) {
            char name[8];
            int n = snprintf(name, sizeof name, "s%u", i);
            double score;
            put(&w, slice_of(name, (size_t)n), odd_scores[i]);
            assert_true(zset_score(w.e, slice_of(name, (size_t)n), &score));
            assert_true(same_double(score, odd_scores[i] + 0.0));
        }
        same(&w);
        assert_int_equal(entry_encoding(w.e), limit ? ENC_PACK : ENC_TREE);
        world_fini(&w);
    }
}

static void the_pack_becomes_a_tree_exactly_behind_its_limits(void **state)
{
    struct world w;
    char name[NAME_MAX_BYTES];
    world_init(&w, 4, 5);
    for (unsigned i = 0; i < 4; i++) put(&w, slice_of(name, (size_t)snprintf(name, sizeof name, "five%u", i)), i);
    put(&w, SLICE("five0"), 9);
    assert_int_equal(entry_encoding(w.e), ENC_PACK);
    assert_int_equal(zset_body_bytes(w.e), 0);
    put(&w, SLICE("five4"), 9);
    assert_int_equal(entry_encoding(w.e), ENC_TREE);
    assert_true(zset_body_bytes(w.e) > 0);
    same(&w);
    world_fini(&w);

    world_init(&w, 4, 5);
    put(&w, SLICE("sixsix"), 1);
    assert_int_equal(entry_encoding(w.e), ENC_TREE);
    same(&w);
    world_fini(&w);
}

static void the_body_counts_all_its_bytes(void **state)
{
    struct world w;
    char name[NAME_MAX_BYTES];
    world_init(&w, 8, 64);
    for (unsigned i = 0; i < 500; i++) put(&w, slice_of(name, (size_t)snprintf(name, sizeof name, "member:%u", i)), i * 37 % 500);
    assert_int_equal(zset_body_bytes(w.e) + arena_round(entry_bytes(w.e)), arena_live_bytes(w.kit.arena));
    world_fini(&w);
}

static void lexicographic_bounds_are_exact_among_equal_scores(void **state)
{
    for (unsigned limit = 0; limit <= 128; limit += 128) {
        struct world w;
        world_init(&w, limit, 64);
        struct slice names[] = {SLICE(""), SLICE("a"), SLICE("aa"), SLICE("b"), SLICE("c")};
        for (unsigned i = 0; i < 5; i++) put(&w, names[i], 3);
        for (unsigned i = 0; i < 5; i++) {
            assert_int_equal(zset_rank_of_lex(w.e, names[i], false), i);
            assert_int_equal(zset_rank_of_lex(w.e, names[i], true), i + 1);
        }
        assert_int_equal(zset_rank_of_lex(w.e, SLICE("ab"), true), 3);
        world_fini(&w);
    }
}

static void count_visit(void *ctx, struct slice member, double score)
{
    struct world *w = ctx;
    unsigned at = twin_find(w, member);
    assert_true(at < w->n);
    assert_true(same_double(w->twin[at].score, score));
    twin_cut(w, at);
}

static void a_scan_visits_every_member_once(void **state)
{
    for (unsigned limit = 0; limit <= 500; limit += 500) {
        struct world w;
        char name[NAME_MAX_BYTES];
        uint64_t cursor = 0;
        unsigned calls = 0;
        world_init(&w, limit, 64);
        for (unsigned i = 0; i < 400; i++) put(&w, slice_of(name, (size_t)snprintf(name, sizeof name, "%u", i)), i % 9);
        do zset_scan(w.e, &cursor, 10, count_visit, &w);
        while (++calls < 400 && cursor != 0);
        assert_int_equal(w.n, 0);
        assert_true(limit ? calls == 1 : calls > 10);
        world_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_random_walk_of_a_pack_equals_a_sorted_array),
        cmocka_unit_test(a_random_walk_into_a_tree_equals_a_sorted_array),
        cmocka_unit_test(a_random_walk_with_long_members_equals_a_sorted_array),
        cmocka_unit_test(every_score_but_minus_zero_comes_back_from_both_encodings),
        cmocka_unit_test(the_pack_becomes_a_tree_exactly_behind_its_limits),
        cmocka_unit_test(the_body_counts_all_its_bytes),
        cmocka_unit_test(lexicographic_bounds_are_exact_among_equal_scores),
        cmocka_unit_test(a_scan_visits_every_member_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
