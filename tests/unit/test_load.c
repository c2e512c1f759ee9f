/* Samples of accesses, and what they tell of a range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "rig.h"

#include "shard/load.h"
#include "store/hotkeys.h"

static struct load_window window;
static struct rng rng;

static int begin(void **state)
{
    load_clear(&window, 0);
    rng_init(&rng, 5);
    return 0;
}

static void use(const char *format, unsigned number)
{
    char key[64];
    load_add(&window, &rng, slice_of(key, (size_t)snprintf(key, sizeof key, format, number)));
}

static void sum(const char *space, const char *start, const char *end, struct load_figures *f)
{
    load_sort(&window);
    load_sum(&window, 1000, slice_str(space), slice_str(start), slice_str(end), f);
}

static void a_range_gets_its_share_and_no_other(void **state)
{
    struct load_figures f;
    for (unsigned i = 0; i < 40; i++) use("a/%03u", i);
    for (unsigned i = 0; i < 20; i++) use("b/%03u", i);
    sum("a", "a/010", "a/020", &f);
    assert_int_equal(f.ops, 10 * HOTKEYS_SAMPLE);
    sum("a", "", "", &f);
    assert_int_equal(f.ops, 40 * HOTKEYS_SAMPLE);
    assert_true(slice_eq(f.cut, SLICE("a/020")));
    assert_int_equal(f.n_cuts, LOAD_CUTS);
    for (unsigned i = 0; i < LOAD_CUTS; i++) {
        char key[16];
        assert_true(slice_eq(f.cuts[i], slice_of(key, (size_t)snprintf(key, sizeof key, "a/%03u", 5 * (i + 1)))));
    }
    sum("b", "b/019", "", &f);
    assert_int_equal(f.ops, HOTKEYS_SAMPLE);
    assert_int_equal(f.n_cuts, 0);
    sum("c", "", "", &f);
    assert_int_equal(f.ops, 0);
    assert_int_equal(load_all(&window, 1000), 60 * HOTKEYS_SAMPLE);
}

static void the_cut_is_beside_a_hot_key_and_never_before_the_first(void **state)
{
    struct load_figures f;
    for (unsigned i = 0; i < 45; i++) use("a/%03u", 0);
    for (unsigned i = 0; i < 55; i++) use("a/%03u", i + 1);
    sum("a", "", "", &f);
    assert_true(slice_eq(f.cut, SLICE("a/006"))); /* 50 below, 50 above */
    assert_true(slice_eq(f.hot_key, SLICE("a/000")));
    assert_int_equal(f.hottest * 100 + 0.5, 45);
}

static void one_key_alone_cannot_be_cut(void **state)
{
    struct load_figures f;
    for (unsigned i = 0; i < 100; i++) use("a/%03u", 7);
    sum("a", "", "", &f);
    assert_int_equal(f.cut.n, 0);
    assert_int_equal(f.hottest * 100, 100);
}

static void a_full_window_is_a_fair_choice_of_all(void **state)
{
    struct load_figures low, high;
    for (unsigned i = 0; i < 100000; i++) use("a/%05u", i);
    assert_int_equal(window.n, LOAD_SAMPLES);
    sum("a", "", "a/50000", &low);
    sum("a", "a/50000", "", &high);
    double all = 100000.0 * HOTKEYS_SAMPLE;
    assert_true(low.ops + high.ops > 0.999 * all && low.ops + high.ops < 1.001 * all);
    assert_true(low.ops > 0.4 * all && low.ops < 0.6 * all);
    sum("a", "", "", &low);
    assert_true(slice_cmp(low.cut, SLICE("a/40000")) > 0 && slice_cmp(low.cut, SLICE("a/60000")) < 0);
}

static void long_keys_stand_for_themselves_by_their_beginning(void **state)
{
    char key[1000];
    struct load_figures f;
    memset(key, 'x', sizeof key);
    key[1] = '/';
    load_add(&window, &rng, slice_of(key, sizeof key));
    key[1] = 'x';
    key[900] = '/';
    load_add(&window, &rng, slice_of(key, sizeof key)); /* the name of its space alone is too long */
    assert_int_equal(window.n, 1);
    assert_int_equal(window.all, 2);
    sum("x", "", "", &f);
    assert_int_equal(f.ops, HOTKEYS_SAMPLE);
    assert_int_equal(f.hot_key.n, LOAD_KEY_MAX);
}

/* ---- in an engine */

static void ask(struct client *c, const char *format, unsigned i)
{
    rig_ask(c, format, i);
    rig_go(c);
    rig_settle(c->rig);
    c->out.len = 0;
}

static void only_keys_of_ordered_spaces_are_kept(void **state)
{
    struct rig *r = rig_new(1, 1);
    struct client *c = rig_client(r, 0);
    struct loads *l = loads_new(r->engine);
    struct load_window *w = loads_take(l, 0, 0, mem_zalloc(sizeof *w));
    struct load_figures f;
    ask(c, "SPACE.SET a RANGE", 0);
    for (unsigned i = 0; i < 3000; i++) {
        ask(c, "SET a/%u 1", i);
        ask(c, "GET b/%u", i);
    }
    w = loads_take(l, 0, 3000, w);
    load_sort(w);
    load_sum(w, 3000, SLICE("a"), SLICE(""), SLICE(""), &f);
    assert_in_range(f.ops, 700, 1300);
    assert_in_range(load_all(w, 3000), 1700, 2300);
    load_sum(w, 3000, SLICE("b"), SLICE(""), SLICE(""), &f);
    assert_int_equal(f.ops, 0);
    mem_free(w);
    loads_free(l);
    rig_free(r);
}

static void published_figures_are_found_by_the_ranges_id(void **state)
{
    struct rig *r = rig_new(1, 1);
    struct loads *l = loads_new(r->engine);
    struct loads_figure some[] = {{3, 30}, {5, 50}, {9, 90}};
    assert_int_equal(loads_ops(l, 3), 0);
    loads_publish(l, mem_dup(some, sizeof some), 3);
    assert_int_equal(loads_ops(l, 3), 30);
    assert_int_equal(loads_ops(l, 9), 90);
    assert_int_equal(loads_ops(l, 4), 0);
    assert_int_equal(loads_ops(NULL, 3), 0);
    loads_free(l);
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_range_gets_its_share_and_no_other, begin),
        cmocka_unit_test_setup(the_cut_is_beside_a_hot_key_and_never_before_the_first, begin),
        cmocka_unit_test_setup(one_key_alone_cannot_be_cut, begin),
        cmocka_unit_test_setup(a_full_window_is_a_fair_choice_of_all, begin),
        cmocka_unit_test_setup(long_keys_stand_for_themselves_by_their_beginning, begin),
        cmocka_unit_test(only_keys_of_ordered_spaces_are_kept),
        cmocka_unit_test(published_figures_are_found_by_the_ranges_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
