/* Ranges that split, move and merge by themselves, in a simulated world: keys, clients and shards of a virtual server, a second per step, for hours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "shard/load.h"
#include "shard/splitter.h"
#include "store/hotkeys.h"

enum { LINE = 1 << 20, RANGES_MAX = 2048, SHARDS_MAX = 16, KEY_BYTES = 300, DRAWS = 200, MOVE_BYTES_PER_S = 100 << 20, MINUTE = 60, HOUR = 3600 };

/* ---- the world: the line of keys is the numbers 0 to LINE - 1 */

struct world_range {
    uint64_t id, generation;
    unsigned lo, hi; /* [lo, hi) */
    uint32_t shard, to_shard;
    int move_left_s; /* 0: it does not move */
    int64_t split_s, merged_s;
};

struct world {
    struct splitter *splitter;
    struct splitter_limits limits;
    struct rng rng;
    int64_t now_s;
    uint32_t n_shards, n;
    struct world_range ranges[RANGES_MAX];
    uint64_t next_id;
    struct load_window *windows; /* of each shard */
    double backlog[SHARDS_MAX];

    /* What clients do. */
    double filled;    /* keys that there are: the first ones of the line, or */
    bool scattered;   /* an even choice of all */
    double rate;      /* accesses per second */
    unsigned (*pick)(struct world *w); /* a key that is used */
    unsigned spot, width;

    /* What happened. */
    unsigned splits, merges, moves;
    double moved_bytes;
    int64_t last_change_s;
    uint64_t digest; /* of all decisions */
};

static unsigned pick_anywhere(struct world *w) { return (unsigned)rng_below(&w->rng, LINE); }
static unsigned pick_spot(struct world *w) { return w->spot + (unsigned)rng_below(&w->rng, w->width); }
static unsigned pick_one_key(struct world *w) { return rng_below(&w->rng, 10) < 6 ? w->spot : pick_anywhere(w); }
static unsigned pick_newest(struct world *w) { return (unsigned)w->filled - 1 - (unsigned)rng_below(&w->rng, 50); }

static void world_init(struct world *w, uint32_t shards, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->splitter = splitter_new();
    w->limits = (struct splitter_limits){.on = true, .split_bytes = 16 << 20, .merge_bytes = 4 << 20, .split_ops = 25000, .merge_ops = 2000, .split_backlog = 16, .sustain_ms = 10000, .settle_ms = 30000, .max_changes = 4};
    rng_init(&w->rng, seed);
    w->n_shards = shards;
    w->n = 1;
    w->next_id = 2;
    w->now_s = 1000;
    w->ranges[0] = (struct world_range){.id = 1, .generation = 1, .hi = LINE, .split_s = -HOUR, .merged_s = -HOUR};
    w->windows = mem_zalloc(shards * sizeof *w->windows);
    w->pick = pick_anywhere;
}

static void world_fini(struct world *w)
{
    splitter_free(w->splitter);
    mem_free(w->windows);
}

static double keys_in(const struct world *w, unsigned lo, unsigned hi)
{
    if (w->scattered) return (hi - lo) * w->filled / LINE;
    return w->filled <= lo ? 0 : w->filled >= hi ? hi - lo : w->filled - lo;
}

static unsigned median_of(const struct world *w, const struct world_range *r)
{
    unsigned hi = w->scattered || w->filled > r->hi ? r->hi : (unsigned)w->filled;
    return hi > r->lo ? r->lo + (hi - r->lo) / 2 : r->lo;
}

static struct slice key_at(unsigned number, char out[16]) { return slice_of(out, (size_t)snprintf(out, 16, "s/%07u", number)); }
static unsigned number_of(struct slice key)
{
    char text[16] = {0};
    memcpy(text, key.p + 2, key.n - 2);
    return (unsigned)atoi(text);
}

static struct world_range *range_at(struct world *w, unsigned number)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (number < w->ranges[i].hi) return &w->ranges[i];
    abort();
}

/* ---- clients: some of their accesses stand for all */

static void use_keys(struct world *w)
{
    double draws = w->rate / HOTKEYS_SAMPLE, factor = draws > DRAWS ? draws / DRAWS : 1;
    for (uint32_t i = 0; i < w->n_shards; i++) load_clear(&w->windows[i], w->now_s * 1000 - 1000);
    for (unsigned i = 0; i < draws / factor; i++) {
        char key[16];
        unsigned number = w->pick(w);
        load_add(&w->windows[range_at(w, number)->shard], &w->rng, key_at(number, key));
    }
    for (uint32_t i = 0; i < w->n_shards; i++) {
        w->windows[i].seen = (uint64_t)((double)w->windows[i].seen * factor);
        w->windows[i].all = (uint64_t)((double)w->windows[i].all * factor);
        load_sort(&w->windows[i]);
    }
}

/* ---- what the policy sees */

struct bounds {
    char start[16], end[16], median[16];
};

static void show_range(const struct world *w, const struct world_range *r, struct bounds *b, struct splitter_range *out)
{
    *out = (struct splitter_range){.id = r->id, .generation = r->generation, .space = SLICE("s"), .shard = r->shard, .to_shard = r->to_shard, .moving = r->move_left_s > 0};
    if (r->lo) out->start = key_at(r->lo, b->start);
    if (r->hi < LINE) out->end = key_at(r->hi, b->end);
    if (out->moving) return;
    out->keys = (uint64_t)keys_in(w, r->lo, r->hi);
    out->bytes = out->keys * KEY_BYTES;
    if (out->keys) out->median = key_at(median_of(w, r), b->median);
    load_sum(&w->windows[r->shard], w->now_s * 1000, out->space, out->start, out->end, &out->load);
}

static void show_shards(const struct world *w, struct splitter_shard *out)
{
    for (uint32_t i = 0; i < w->n_shards; i++) out[i] = (struct splitter_shard){.ops = load_all(&w->windows[i], w->now_s * 1000), .backlog = w->backlog[i]};
    for (uint32_t i = 0; i < w->n; i++) out[w->ranges[i].shard].bytes += (uint64_t)keys_in(w, w->ranges[i].lo, w->ranges[i].hi) * KEY_BYTES;
}

/* ---- what the policy does */

static uint32_t place_of(const struct world *w, uint64_t id)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (w->ranges[i].id == id) return i;
    fail_msg("a decision about a range that is not there");
    return 0;
}

static void do_split(struct world *w, uint32_t i, const struct splitter_decision *d)
{
    struct world_range *r = &w->ranges[i];
    unsigned at = number_of(d->key);
    assert_true(at > r->lo && at < r->hi && w->n < RANGES_MAX);
    bool by_load = memmem(d->why.p, d->why.n, "load", 4);
    assert_true(!by_load || w->now_s - r->merged_s >= w->limits.settle_ms / 1000);
    memmove(r + 1, r, (w->n - i) * sizeof *r);
    w->n++;
    r[1].id = w->next_id++;
    r[1].lo = r[0].hi = at;
    r[1].generation = ++r[0].generation;
    r[0].split_s = r[1].split_s = w->now_s;
    w->splits++;
}

static void do_move(struct world *w, uint32_t i, const struct splitter_decision *d)
{
    struct world_range *r = &w->ranges[i];
    double bytes = keys_in(w, r->lo, r->hi) * KEY_BYTES;
    assert_true(d->to_shard != r->shard && d->to_shard < w->n_shards);
    r->to_shard = d->to_shard;
    r->generation++;
    r->move_left_s = 1 + (int)(bytes / MOVE_BYTES_PER_S);
    w->moves++;
    w->moved_bytes += bytes;
}

static void do_merge(struct world *w, uint32_t i, const struct splitter_decision *d)
{
    struct world_range *r = &w->ranges[i];
    assert_true(i > 0 && r[-1].shard == r->shard && !r[-1].move_left_s);
    assert_int_equal(number_of(d->key), r->lo);
    assert_true(w->now_s - r->split_s >= w->limits.settle_ms / 1000 && w->now_s - r[-1].split_s >= w->limits.settle_ms / 1000);
    r[-1].hi = r->hi;
    r[-1].generation = (r->generation > r[-1].generation ? r->generation : r[-1].generation) + 1;
    r[-1].merged_s = w->now_s;
    memmove(r, r + 1, (w->n - i - 1) * sizeof *r);
    w->n--;
    w->merges++;
}

static void carry_out(struct world *w, const struct splitter_decision *d)
{
    uint32_t i = place_of(w, d->id);
    assert_int_equal(w->ranges[i].generation, d->generation);
    assert_int_equal(w->ranges[i].move_left_s, 0);
    assert_true(d->why.n > 0);
    w->digest = (w->digest ^ d->id ^ ((uint64_t)d->kind << 60) ^ ((uint64_t)d->to_shard << 40) ^ (uint64_t)w->now_s) * 0x9e3779b97f4a7c15ull;
    w->last_change_s = w->now_s;
    if (d->kind == SPLITTER_SPLIT) do_split(w, i, d);
    else if (d->kind == SPLITTER_MOVE) do_move(w, i, d);
    else do_merge(w, i, d);
    splitter_done(w->splitter, d, true, SLICE(""));
}

static unsigned go_on_moving(struct world *w)
{
    unsigned moving = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        struct world_range *r = &w->ranges[i];
        if (!r->move_left_s) continue;
        moving++;
        if (--r->move_left_s) continue;
        r->shard = r->to_shard;
        r->generation++;
        moving--;
    }
    return moving;
}

static void second(struct world *w)
{
    static struct splitter_range shown[RANGES_MAX];
    static struct bounds bounds[RANGES_MAX];
    struct splitter_shard shards[SHARDS_MAX];
    const struct splitter_decision *decisions;
    w->now_s++;
    unsigned moving = go_on_moving(w);
    use_keys(w);
    for (uint32_t i = 0; i < w->n; i++) show_range(w, &w->ranges[i], &bounds[i], &shown[i]);
    show_shards(w, shards);
    uint32_t n = splitter_step(w->splitter, w->now_s * 1000, &w->limits, shown, w->n, shards, w->n_shards, &decisions);
    splitter_check(w->splitter);
    assert_true(n + moving <= w->limits.max_changes || n == 0);
    for (uint32_t i = 0; i < n; i++) carry_out(w, &decisions[i]);
}

static void seconds(struct world *w, int n)
{
    while (n--) second(w);
}

static double most_loaded(const struct world *w)
{
    double most = 0;
    for (uint32_t i = 0; i < w->n_shards; i++)
        if (load_all(&w->windows[i], w->now_s * 1000) > most) most = load_all(&w->windows[i], w->now_s * 1000);
    return most;
}

static void expect_words(struct world *w, uint64_t id, const char *part)
{
    struct splitter_words words = {0};
    assert_true(splitter_explain(w->splitter, id, &words));
    buf_add_byte(&words.split, '\0');
    buf_add_byte(&words.merge, '\0');
    if (!strstr(words.split.p, part) && !strstr(words.merge.p, part)) fail_msg("'%s' is neither in '%s' nor in '%s'", part, words.split.p, words.merge.p);
    buf_fini(&words.split);
    buf_fini(&words.merge);
    buf_fini(&words.move);
}

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
    splitter_stats(w.splitter, &stats);
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
    memmove(&w.ranges[1], &w.ranges[0], sizeof w.ranges[0]);
    w.n = 2;
    w.ranges[1].id = w.next_id++;
    w.ranges[1].lo = w.ranges[0].hi = 50;
    w.ranges[0].generation = w.ranges[1].generation = 2;
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

static void wander(struct world *w, uint64_t seed)
{
    static unsigned (*const picks[])(struct world *w) = {pick_anywhere, pick_spot, pick_one_key, pick_newest};
    world_init(w, 2 + (uint32_t)rng_below(&(struct rng){seed * 77 + 1}, 15), seed);
    w->limits.split_bytes = 1 << 20;
    w->limits.merge_bytes = 1 << 18;
    w->filled = 1000;
    w->width = 30000;
    for (int i = 0; i < 60; i++) {
        w->pick = picks[rng_below(&w->rng, 4)];
        w->rate = (double)rng_below(&w->rng, 300000);
        w->scattered = rng_below(&w->rng, 2);
        w->spot = (unsigned)rng_below(&w->rng, LINE - w->width);
        w->filled = 100 + (double)rng_below(&w->rng, LINE - 100);
        w->backlog[0] = (double)rng_below(&w->rng, 40);
        w->limits.max_changes = 1 + (uint32_t)rng_below(&w->rng, 6);
        seconds(w, 1 + (int)rng_below(&w->rng, 5 * MINUTE));
    }
}

static void whatever_clients_do_decisions_are_sound_and_the_same_for_the_same_seed(void **state)
{
    unsigned splits = 0, merges = 0, moves = 0;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct world a, b;
        wander(&a, seed);
        wander(&b, seed);
        assert_int_equal(a.digest, b.digest);
        splits += a.splits;
        merges += a.merges;
        moves += a.moves;
        world_fini(&a);
        world_fini(&b);
    }
    print_message("3 walks: %u splits, %u merges, %u moves\n", splits, merges, moves);
    assert_true(splits > 20 && merges > 10 && moves > 20);
}

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
