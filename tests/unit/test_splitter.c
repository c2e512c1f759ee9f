/* Ranges that split, move and merge by themselves, in a simulated world: keys, clients and shards of a virtual server, a second per step, for hours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "splitterworld.h"

/* ---- size */

static double log_2(double x)
{
    double n = 0;
    for (; x > 1; x /= 2) n++;
    return n;
}

static void check_bulk_load(bool scattered)
{
    struct world w;
    world_init(&w, 4, 1);
    w.scattered = scattered;
    w.limits.split_bytes = 2 << 20;
    w.limits.merge_bytes = 1 << 19;
    while (w.filled < LINE) {
        w.filled += 5000;
        second(&w);
    }
    w.filled = LINE;
    seconds(&w, 10 * MINUTE);
    double bytes = (double)LINE * KEY_BYTES, doublings = log_2(bytes / (double)w.limits.split_bytes);
    print_message("bulk load, %s: %u splits, %u moves, %.2f times the data moved\n", scattered ? "scattered" : "ascending", w.splits, w.moves, w.moved_bytes / bytes);
    assert_true(w.splits >= w.n_shards && w.splits <= 2 * SPLITTER_PIECES * w.n_shards * doublings);
    assert_true(w.moved_bytes <= 1.5 * bytes);
    unsigned changes = w.splits + w.merges + w.moves;
    seconds(&w, HOUR);
    assert_int_equal(w.splits + w.merges + w.moves, changes);
    world_fini(&w);
}

static void a_bulk_load_converges_in_a_logarithmic_number_of_splits(void **state)
{
    check_bulk_load(false);
    check_bulk_load(true);
}

static void a_space_that_is_there_at_once_is_cut_before_any_of_it_is_copied(void **state)
{
    struct world w;
    struct splitter_shard shards[SHARDS_MAX];
    world_init(&w, 4, 2);
    w.filled = LINE;
    w.scattered = true;
    seconds(&w, 10 * MINUTE);
    show_shards(&w, shards);
    double bytes = (double)LINE * KEY_BYTES;
    assert_in_range(w.n, 16, 32);
    assert_int_equal(w.splits, w.n - 1);
    assert_true(w.moved_bytes <= 0.8 * bytes); /* three of four quarters, once */
    for (uint32_t i = 0; i < w.n_shards; i++) assert_true((double)shards[i].bytes >= 0.2 * bytes && (double)shards[i].bytes <= 0.3 * bytes);
    world_fini(&w);
}

static void a_range_of_one_large_key_is_refused(void **state)
{
    struct splitter *s = splitter_new();
    struct splitter_limits l = {.on = true, .split_bytes = 1000, .sustain_ms = 1000, .settle_ms = 1000, .max_changes = 1};
    struct splitter_range r = {.id = 7, .generation = 1, .space = SLICE("s"), .keys = 1, .bytes = 5000, .median = SLICE("s/only")};
    struct splitter_shard shards[2] = {{.bytes = 5000}};
    const struct splitter_decision *d;
    struct splitter_stats stats;
    for (int i = 1; i < 100; i++) assert_int_equal(splitter_step(s, i * 1000, &l, &r, 1, shards, 2, &d), 0);
    splitter_stats(s, &stats);
    assert_int_equal(stats.refused, 1);
    splitter_free(s);
}

/* ---- load */

static void an_even_load_comes_to_use_all_shards(void **state)
{
    struct world w;
    world_init(&w, 8, 3);
    w.filled = 20000;
    w.scattered = true;
    w.rate = 400000;
    seconds(&w, 15 * MINUTE);
    assert_true(most_loaded(&w) < 1.7 * w.rate / 8);
    unsigned changes = w.splits + w.merges + w.moves;
    assert_in_range(w.splits, 7, 2 * w.rate / w.limits.split_ops);
    seconds(&w, HOUR);
    print_message("an even load: %u changes in 15 minutes, %u in the next hour\n", changes, w.splits + w.merges + w.moves - changes);
    assert_true(w.splits + w.merges + w.moves <= changes + 2);
    world_fini(&w);
}

static void a_short_peak_changes_nothing(void **state)
{
    struct world w;
    world_init(&w, 4, 4);
    w.filled = 20000;
    w.scattered = true;
    for (int i = 0; i < 100; i++) {
        w.rate = 200000;
        seconds(&w, 5);
        w.rate = 100;
        seconds(&w, 25);
    }
    assert_int_equal(w.splits + w.merges + w.moves, 0);
    world_fini(&w);
}

static void a_single_hot_key_is_refused_and_explained(void **state)
{
    struct world w;
    struct splitter_stats stats;
    world_init(&w, 4, 5);
    w.filled = 20000;
    w.scattered = true;
    w.rate = 100000;
    w.spot = 4711;
    w.pick = pick_one_key;
    seconds(&w, HOUR);
    assert_int_equal(w.splits + w.merges + w.moves, 0);
    expect_words(&w, 1, "one key makes up");
    expect_words(&w, 1, "s/0004711");
    splitter_stats(w.splitters[0], &stats);
    assert_in_range(stats.refused, 1, 3);
    world_fini(&w);
}

static void a_load_that_travels_along_the_keys_is_not_chased(void **state)
{
    struct world w;
    world_init(&w, 4, 6);
    w.filled = 10000;
    w.limits.split_bytes = 1 << 30;
    w.rate = 60000;
    w.pick = pick_newest;
    for (int i = 0; i < HOUR; i++) {
        w.filled += 100;
        second(&w);
    }
    assert_int_equal(w.splits + w.moves, 0);
    expect_words(&w, 1, "60");
    world_fini(&w);
}

static void a_hot_spot_is_parted_and_what_it_leaves_behind_is_merged(void **state)
{
    struct world w;
    world_init(&w, 4, 7);
    w.filled = 10000;
    w.scattered = true;
    w.rate = 120000;
    w.pick = pick_spot;
    w.width = 20000;
    for (unsigned place = 0; place < 6; place++) {
        unsigned before = w.splits;
        w.spot = (unsigned)rng_below(&w.rng, LINE - w.width);
        seconds(&w, 20 * MINUTE);
        assert_true(w.splits > before && w.splits - before <= 10);
        assert_true(most_loaded(&w) < 0.6 * w.rate);
        assert_true(w.n <= 40);
    }
    print_message("6 hot spots: %u splits, %u merges, %u moves\n", w.splits, w.merges, w.moves);
    w.rate = 0;
    seconds(&w, 4 * HOUR);
    assert_int_equal(w.n, 1);
    world_fini(&w);
}

static void a_load_that_comes_and_goes_does_not_thrash(void **state)
{
    static const int periods[] = {40, 2 * MINUTE, 10 * MINUTE};
    for (unsigned p = 0; p < sizeof periods / sizeof *periods; p++) {
        struct world w;
        world_init(&w, 4, 8 + p);
        w.filled = 10000;
        w.scattered = true;
        for (int i = 0; i < 4 * HOUR / periods[p]; i++) {
            w.rate = 120000;
            seconds(&w, periods[p] / 2);
            w.rate = 100;
            seconds(&w, periods[p] / 2);
        }
        print_message("load on and off every %d s for 4 hours: %u splits, %u merges, %u moves\n", periods[p] / 2, w.splits, w.merges, w.moves);
        assert_true(w.splits > 0 && w.splits + w.merges + w.moves <= 60);
        world_fini(&w);
    }
}

static void a_backlog_splits_a_range_that_is_below_the_rate(void **state)
{
    struct world w;
    world_init(&w, 4, 12);
    w.filled = 10000;
    w.scattered = true;
    w.rate = 10000;
    seconds(&w, 5 * MINUTE);
    assert_int_equal(w.splits, 0);
    w.backlog[0] = 40;
    seconds(&w, MINUTE);
    assert_true(w.splits > 0 && w.moves > 0);
    world_fini(&w);
}

/* ---- by hand */

static void what_was_cut_by_hand_stays_for_an_hour(void **state)
{
    struct world w;
    world_init(&w, 4, 13);
    w.filled = 100;
    seconds(&w, 5);
    cut_by_hand(&w, 50);
    seconds(&w, HOUR - 10);
    assert_int_equal(w.merges, 0);
    expect_words(&w, 2, "by hand");
    seconds(&w, 2 * MINUTE);
    assert_int_equal(w.merges, 1);
    world_fini(&w);
}

static void nothing_happens_while_it_is_off(void **state)
{
    struct world w;
    world_init(&w, 4, 14);
    w.limits.on = false;
    w.filled = LINE;
    w.rate = 500000;
    seconds(&w, HOUR);
    assert_int_equal(w.splits + w.merges + w.moves, 0);
    expect_words(&w, 1, "off");
    world_fini(&w);
}

/* ---- anything */

static void init_any(struct world *w, uint64_t seed) { world_init(w, 2 + (uint32_t)rng_below(&(struct rng){seed * 77 + 1}, 15), seed); }
static void change_backlog(struct world *w) { w->backlog[0] = (double)rng_below(&w->rng, 40); }

static void whatever_clients_do_decisions_are_sound_and_the_same_for_the_same_seed(void **state) { check_walks(init_any, change_backlog); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bulk_load_converges_in_a_logarithmic_number_of_splits),
        cmocka_unit_test(a_space_that_is_there_at_once_is_cut_before_any_of_it_is_copied),
        cmocka_unit_test(a_range_of_one_large_key_is_refused),
        cmocka_unit_test(an_even_load_comes_to_use_all_shards),
        cmocka_unit_test(a_short_peak_changes_nothing),
        cmocka_unit_test(a_single_hot_key_is_refused_and_explained),
        cmocka_unit_test(a_load_that_travels_along_the_keys_is_not_chased),
        cmocka_unit_test(a_hot_spot_is_parted_and_what_it_leaves_behind_is_merged),
        cmocka_unit_test(a_load_that_comes_and_goes_does_not_thrash),
        cmocka_unit_test(a_backlog_splits_a_range_that_is_below_the_rate),
        cmocka_unit_test(what_was_cut_by_hand_stays_for_an_hour),
        cmocka_unit_test(nothing_happens_while_it_is_off),
        cmocka_unit_test(whatever_clients_do_decisions_are_sound_and_the_same_for_the_same_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
