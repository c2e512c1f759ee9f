/* The policy of ranges in a cluster: each node judges what it leads, and knows of the rest what its leaders say. The world of tests/unit/splitterworld.h does what they decide, and finds what is not sound: a decision about a range that
 * somebody else leads, or that has changed, or beyond the budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "splitterworld.h"

static unsigned changes(const struct world *w) { return w->splits + w->merges + w->moves; }

static double node_load(const struct world *w, uint32_t node)
{
    double sum = 0;
    for (uint32_t i = 0; i < w->n_shards; i++)
        if (w->leader[i] == node) sum += load_all(&w->windows[i], w->now_s * 1000);
    return sum;
}

static uint32_t nodes_with_ranges(const struct world *w)
{
    bool has[NODES_MAX + 1] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        bool *one = &has[w->leader[w->ranges[i].shard]];
        n += !*one;
        *one = true;
    }
    return n;
}

static void a_busy_space_comes_to_be_led_by_all_nodes_and_is_one_range_again_when_it_rests(void **state)
{
    struct world w;
    world_init_nodes(&w, 3, 12, 1);
    w.filled = 10000;
    w.scattered = true;
    w.rate = 150000;
    seconds(&w, 20 * MINUTE);
    assert_int_equal(nodes_with_ranges(&w), 3);
    for (uint32_t i = 0; i < 3; i++) assert_true(node_load(&w, i) < 0.55 * w.rate);
    unsigned before = changes(&w);
    seconds(&w, HOUR);
    assert_true(changes(&w) - before <= 2); /* nothing goes back and forth */
    print_message("150000 accesses per second on 3 nodes: %u splits, %u moves\n", w.splits, w.moves);
    w.rate = 0;
    seconds(&w, 2 * HOUR);
    assert_int_equal(w.n, 1);
    before = changes(&w);
    seconds(&w, HOUR);
    assert_int_equal(changes(&w), before);
    world_fini(&w);
}

/* The first cut by load goes to another node, though groups of the same one have as little to do. */
static void what_is_cut_off_goes_to_another_node(void **state)
{
    struct world w;
    world_init_nodes(&w, 3, 12, 2);
    for (uint32_t i = 0; i < 10; i++) w.leader[i] = 0;
    w.leader[10] = 1;
    w.leader[11] = 2;
    w.filled = 10000;
    w.scattered = true;
    w.rate = 40000;
    for (int i = 0; i < 5 * MINUTE && !w.moves; i++) second(&w);
    seconds(&w, MINUTE);
    assert_true(w.splits >= 1 && w.moves >= 1);
    assert_true(nodes_with_ranges(&w) >= 2);
    world_fini(&w);
}

static void a_group_that_nobody_leads_gets_nothing_and_its_ranges_are_left_alone(void **state)
{
    struct world w;
    world_init_nodes(&w, 2, 4, 3);
    w.leader[2] = w.leader[3] = NODES_MAX;
    w.filled = 10000;
    w.scattered = true;
    w.rate = 120000;
    seconds(&w, 10 * MINUTE);
    assert_true(w.splits >= 1 && w.moves >= 1);
    for (uint32_t i = 0; i < w.n; i++) assert_true(w.ranges[i].shard < 2);
    unsigned before = changes(&w);
    w.leader[0] = w.leader[1] = NODES_MAX;
    seconds(&w, 10 * MINUTE);
    assert_int_equal(changes(&w), before);
    world_fini(&w);
}

/* Observing begins anew with each leader; what it was told of the past stays, and so does what was decided. */
static void leaders_that_change_all_the_time_do_not_make_ranges_go_back_and_forth(void **state)
{
    struct world w;
    world_init_nodes(&w, 3, 9, 4);
    w.filled = 10000;
    w.scattered = true;
    w.rate = 150000;
    seconds(&w, 20 * MINUTE);
    unsigned before = changes(&w);
    assert_true(before > 4);
    for (int i = 0; i < 4 * HOUR / MINUTE; i++) {
        w.leader[rng_below(&w.rng, 9)] = (uint32_t)rng_below(&w.rng, 3);
        seconds(&w, MINUTE);
    }
    print_message("a leader changes every minute for 4 hours: %u changes\n", changes(&w) - before);
    assert_true(changes(&w) - before <= 60);
    world_fini(&w);
}

static void what_one_node_knows_of_a_change_by_hand_the_next_leader_knows(void **state)
{
    struct world w;
    world_init_nodes(&w, 3, 3, 5);
    w.filled = 100;
    seconds(&w, 5);
    cut_by_hand(&w, 50);
    for (int i = 0; i < 6; i++) {
        seconds(&w, 9 * MINUTE);
        w.leader[0] = (w.leader[0] + 1) % 3;
    }
    assert_int_equal(w.merges, 0);
    seconds(&w, 1);
    expect_words(&w, 2, "by hand");
    seconds(&w, 7 * MINUTE);
    assert_int_equal(w.merges, 1);
    world_fini(&w);
}

/* The smaller of two cold neighbours that different nodes lead moves to the other, and is merged there by that one's leader. */
static void neighbours_of_different_nodes_meet_and_merge(void **state)
{
    struct world w;
    world_init_nodes(&w, 2, 2, 6);
    w.filled = 100;
    w.n = 2;
    w.ranges[1] = (struct world_range){.id = w.next_id++, .generation = 1, .lo = 70, .hi = LINE, .shard = 1, .split_s = -HOUR, .merged_s = -HOUR};
    w.ranges[0].hi = 70;
    seconds(&w, 5 * MINUTE);
    assert_int_equal(w.moves, 1);
    assert_int_equal(w.merges, 1);
    assert_int_equal(w.n, 1);
    assert_int_equal(w.ranges[0].shard, 0); /* the smaller one moved */
    world_fini(&w);
}

static void init_any(struct world *w, uint64_t seed)
{
    struct rng first = {seed * 77 + 1};
    uint32_t nodes = 2 + (uint32_t)rng_below(&first, NODES_MAX - 1);
    world_init_nodes(w, nodes, nodes + (uint32_t)rng_below(&first, SHARDS_MAX - nodes), seed);
}

static void change_leader(struct world *w)
{
    uint64_t leader = rng_below(&w->rng, w->n_nodes + 1);
    w->leader[rng_below(&w->rng, w->n_shards)] = leader == w->n_nodes ? NODES_MAX : (uint32_t)leader;
}

static void whoever_leads_decisions_are_sound_and_the_same_for_the_same_seed(void **state) { check_walks(init_any, change_leader); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_busy_space_comes_to_be_led_by_all_nodes_and_is_one_range_again_when_it_rests),
        cmocka_unit_test(what_is_cut_off_goes_to_another_node),
        cmocka_unit_test(a_group_that_nobody_leads_gets_nothing_and_its_ranges_are_left_alone),
        cmocka_unit_test(leaders_that_change_all_the_time_do_not_make_ranges_go_back_and_forth),
        cmocka_unit_test(what_one_node_knows_of_a_change_by_hand_the_next_leader_knows),
        cmocka_unit_test(neighbours_of_different_nodes_meet_and_merge),
        cmocka_unit_test(whoever_leads_decisions_are_sound_and_the_same_for_the_same_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
