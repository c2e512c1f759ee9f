#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/rng.h"
#include "io/pager.h"
#include "store/arena.h"
#include "store/entry.h"
#include "store/table.h"

/* The naive twin: which of the keys 0..n-1 are in, and their entries. */
struct twin {
    struct entry **in;
    uint64_t *seen; /* per key: visits of a scan */
    size_t n, count;
};

struct world {
    struct arena *arena;
    struct table table;
    struct twin twin;
    struct rng rng;
};

static struct slice key_of(char *text, size_t i)
{
    return slice_of(text, (size_t)snprintf(text, 32, "key:%zu", i));
}

static size_t number_of(const struct entry *e)
{
    char text[32] = {0};
    memcpy(text, entry_key(e).p, entry_key(e).n);
    return (size_t)strtoull(text + 4, NULL, 10);
}

static void world_init(struct world *w, size_t keys, uint64_t seed)
{
    w->arena = arena_new();
    table_init(&w->table, w->arena, seed, seed, 0);
    w->twin = (struct twin){calloc(keys, sizeof *w->twin.in), calloc(keys, sizeof *w->twin.seen), keys, 0};
    rng_init(&w->rng, seed + 1);
}

static void world_fini(struct world *w)
{
    table_fini(&w->table);
    arena_check(w->arena);
    arena_free(w->arena);
    free(w->twin.in);
    free(w->twin.seen);
}

static void put(struct world *w, size_t i)
{
    char text[32];
    struct slice key = key_of(text, i);
    uint64_t hash = table_hash(&w->table, key);
    struct table_slot *slot = table_find(&w->table, hash, key);
    if (w->twin.in[i]) {
        assert_non_null(slot);
        assert_ptr_equal(table_entry(slot), w->twin.in[i]);
        assert_ptr_equal(table_find_entry(&w->table, hash, w->twin.in[i]), slot);
        return;
    }
    assert_null(slot);
    w->twin.in[i] = entry_new(w->arena, TYPE_STRING, ENC_BYTES, key, 0, 0);
    slot = table_insert(&w->table, hash, w->twin.in[i]);
    assert_ptr_equal(table_entry(slot), w->twin.in[i]);
    assert_ptr_equal(table_find(&w->table, hash, key), slot);
    w->twin.count++;
}

static void del(struct world *w, size_t i)
{
    char text[32];
    struct slice key = key_of(text, i);
    uint64_t hash = table_hash(&w->table, key);
    struct table_slot *slot = table_find(&w->table, hash, key);
    if (!w->twin.in[i]) {
        assert_null(slot);
        return;
    }
    assert_ptr_equal(table_entry(slot), w->twin.in[i]);
    table_remove(&w->table, hash, slot);
    assert_null(table_find(&w->table, hash, key));
    entry_release(w->arena, w->twin.in[i]);
    w->twin.in[i] = NULL;
    w->twin.count--;
}

static void expect_twin(struct world *w)
{
    table_check(&w->table);
    assert_int_equal(w->table.entries, w->twin.count);
    size_t walked = 0;
    struct table_iter it;
    table_iter_init(&it, &w->table);
    for (struct entry *e; (e = table_iter_next(&it)); walked++) {
        assert_ptr_equal(w->twin.in[number_of(e)], e);
    }
    assert_int_equal(walked, w->twin.count);
}

/* Waves of mostly inserting and mostly deleting take the table through growing and shrinking, checked in the middle of moves. */
static void a_random_walk_equals_the_twin(void **state)
{
    struct world w;
    world_init(&w, 40000, 99);
    unsigned moving_checks = 0;
    for (int wave = 0; wave < 6; wave++)
        for (int step = 0; step < 60000; step++) {
            size_t i = rng_below(&w.rng, w.twin.n);
            if (rng_below(&w.rng, 10) < (wave % 2 ? 1u : 9u)) put(&w, i);
            else del(&w, i);
            if (step % 5003 == 0 || (w.table.old.buckets && rng_below(&w.rng, 100) == 0)) {
                expect_twin(&w);
                moving_checks += w.table.old.buckets != NULL;
            }
        }
    assert_true(moving_checks > 10);
    for (size_t i = 0; i < w.twin.n; i++) del(&w, i);
    expect_twin(&w);
    while (table_step(&w.table, 1000)) {}
    assert_true(table_bytes(&w.table) <= 4 * 64);
    world_fini(&w);
}

static void note_visit(void *ctx, struct entry *e)
{
    struct world *w = ctx;
    w->twin.seen[number_of(e)]++;
}

static void change_some(struct world *w, size_t stable, unsigned n, bool grow)
{
    for (unsigned k = 0; k < n; k++) {
        size_t i = stable + rng_below(&w->rng, w->twin.n - stable);
        if (grow) put(w, i);
        else del(w, i);
    }
}

/* Keys 0..stable-1 are there all the time; the others come or go between the calls, so that the table moves under the scan. */
static void scan_under_change(bool grow)
{
    enum { KEYS = 30000, STABLE = 2000 };
    struct world w;
    world_init(&w, KEYS, grow ? 5 : 6);
    for (size_t i = 0; i < (grow ? STABLE : KEYS); i++) put(&w, i);
    unsigned calls = 0, moving = 0;
    uint64_t cursor = 0;
    do {
        table_scan(&w.table, &cursor, 10, note_visit, &w);
        assert_true(cursor < UINT64_C(1) << 32 && cursor % TABLE_CURSOR_UNIT == 0);
        change_some(&w, STABLE, 80, grow);
        moving += w.table.old.buckets != NULL;
        calls++;
    } while (cursor);
    for (size_t i = 0; i < STABLE; i++) assert_int_equal(w.twin.seen[i], 1);
    assert_true(calls > 50 && moving > 5);
    world_fini(&w);
}

static void a_scan_visits_what_stays_exactly_once_while_the_table_grows(void **state) { scan_under_change(true); }
static void a_scan_visits_what_stays_exactly_once_while_the_table_shrinks(void **state) { scan_under_change(false); }

static void a_scan_of_a_resting_table_visits_all_once_and_about_as_many_as_wanted(void **state)
{
    struct world w;
    world_init(&w, 5000, 3);
    for (size_t i = 0; i < w.twin.n; i++) put(&w, i);
    uint64_t cursor = 0;
    unsigned calls = 0;
    do {
        table_scan(&w.table, &cursor, 50, note_visit, &w);
        calls++;
    } while (cursor);
    for (size_t i = 0; i < w.twin.n; i++) assert_int_equal(w.twin.seen[i], 1);
    assert_in_range(calls, 5000 / 75, 5000 / 50 + 1);
    world_fini(&w);
}

static void an_empty_table_answers_everything_and_owns_nothing(void **state)
{
    struct world w;
    world_init(&w, 1, 3);
    uint64_t cursor = 0;
    assert_null(table_find(&w.table, 12345, SLICE("x")));
    table_scan(&w.table, &cursor, 10, note_visit, &w);
    assert_int_equal(cursor, 0);
    assert_null(table_random(&w.table, 1));
    assert_false(table_step(&w.table, 10));
    assert_int_equal(table_bytes(&w.table), 0);
    table_prefetch_bucket(&w.table, 77);
    table_prefetch_entry(&w.table, 77);
    table_check(&w.table);
    world_fini(&w);
}

/* One array at the time when it is fullest, one in the middle of a move, and one thinned out. */
static void random_picks_are_nearly_uniform(void **state)
{
    enum { KEYS = 400, PICKS = 200 };
    size_t fill[] = {KEYS, 377, 9};
    for (unsigned round = 0; round < 3; round++) {
        struct world w;
        world_init(&w, KEYS, 31 + round);
        for (size_t i = 0; i < fill[round]; i++) put(&w, i);
        for (size_t k = 0; k < PICKS * fill[round]; k++) note_visit(&w, table_random(&w.table, rng_u64(&w.rng)));
        for (size_t i = 0; i < fill[round]; i++) assert_in_range(w.twin.seen[i], PICKS / 2, PICKS * 2);
        world_fini(&w);
    }
}

static void a_random_pick_finds_the_last_entry_of_a_large_table(void **state)
{
    struct world w;
    world_init(&w, 1, 3);
    table_init(&w.table, w.arena, 3, 3, 50000);
    put(&w, 0);
    for (unsigned k = 0; k < 100; k++) assert_ptr_equal(table_random(&w.table, rng_u64(&w.rng)), w.twin.in[0]);
    world_fini(&w);
}

/* The memory of a large table stays in its band at every size, also while it moves: what was moved is given back on the way. */
static void memory_per_entry_stays_within_its_band(void **state)
{
    enum { KEYS = 1500000 };
    struct arena *arena = arena_new(), *entries = arena_new();
    struct table t;
    table_init(&t, arena, 17, 17, 0);
    double worst = 0, best = 1000;
    unsigned moving = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        struct entry *e = entry_new(entries, TYPE_STRING, ENC_BYTES, slice_of(&i, sizeof i), 0, 0);
        table_insert(&t, table_hash(&t, entry_key(e)), e);
        if (i < 200000 || i % 5000) continue;
        double per_entry = (double)arena_live_bytes(arena) / (i + 1);
        if (per_entry > worst) worst = per_entry;
        if (per_entry < best) best = per_entry;
        moving += t.old.buckets != NULL;
    }
    table_check(&t);
    assert_true(moving > 10);
    if (worst > 9.14 / 0.62 || best < 9.14 / 0.9) fail_msg("%.2f to %.2f bytes per entry", best, worst);
    table_fini(&t);
    assert_int_equal(arena_live_bytes(arena), 0);
    arena_free(arena);
    arena_free(entries);
}

/* Large enough that arrays are mapped, given back in pieces, and moved by recalled hashes, in both directions. */
static void a_large_table_stays_whole_while_it_grows_and_shrinks(void **state)
{
    enum { KEYS = 600000, LEFT = 1000 };
    struct arena *arena = arena_new();
    struct table t;
    table_init(&t, arena, 23, 23, 0);
    unsigned moving = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        struct entry *e = entry_new(arena, TYPE_STRING, ENC_BYTES, slice_of(&i, sizeof i), 0, 0);
        table_insert(&t, table_hash(&t, entry_key(e)), e);
        if (i % 60000 == 0) table_check(&t);
    }
    for (uint32_t i = LEFT; i < KEYS; i++) {
        struct slice key = slice_of(&i, sizeof i);
        struct table_slot *slot = table_find(&t, table_hash(&t, key), key);
        struct entry *e = table_entry(slot);
        table_remove(&t, table_hash(&t, key), slot);
        entry_release(arena, e);
        if (i % 10000 || !t.old.buckets) continue;
        table_check(&t);
        arena_check(arena);
        moving++;
    }
    assert_true(moving > 0);
    while (table_step(&t, 100)) {}
    table_check(&t);
    for (uint32_t i = 0; i < LEFT; i++) assert_non_null(table_find(&t, table_hash(&t, slice_of(&i, sizeof i)), slice_of(&i, sizeof i)));
    assert_true(table_bytes(&t) < LEFT * 60);
    table_fini(&t);
    arena_free(arena);
}

/* How many buckets in a row pass keys on, at most: what an insert or a search there has to walk. */
static unsigned longest_run(const struct table_array *a)
{
    unsigned run = 0, longest = 0;
    for (uint64_t i = 0; i < a->count; i++) {
        run = a->buckets[i].tag[TABLE_SLOTS] ? run + 1 : 0;
        if (run > longest) longest = run;
    }
    return longest;
}

/* Where a table is nearly full and everything is by chance, runs of 20 to 40 are met; keys that crowd make runs of thousands. */
static void expect_no_crowd(const struct table *t)
{
    unsigned now = longest_run(&t->now), old = longest_run(&t->old);
    if (now > 80 || old > 80) fail_msg("runs of %u and %u buckets at %zu entries", now, old, (size_t)t->entries);
}

struct order {
    struct entry **e;
    size_t n;
};

static void note_order(void *ctx, struct entry *e)
{
    struct order *o = ctx;
    o->e[o->n++] = e;
}

/* A copy of the entries, in the order in which a scan or a walk gives them. */
static struct order order_of(struct table *t, bool by_scan)
{
    struct order o = {calloc(t->entries, sizeof *o.e), 0};
    uint64_t cursor = 0;
    struct table_iter it;
    table_iter_init(&it, t);
    if (by_scan) {
        do table_scan(t, &cursor, 100, note_order, &o);
        while (cursor);
    } else {
        for (struct entry *e; (e = table_iter_next(&it));) note_order(&o, e);
    }
    assert_int_equal(o.n, t->entries);
    return o;
}

static void insert_in_order(struct table *t, const struct order *o)
{
    for (size_t i = 0; i < o->n; i++) {
        table_insert(t, table_hash(t, entry_key(o->e[i])), o->e[i]);
        if (i % 500 == 0) expect_no_crowd(t);
    }
    table_check(t);
}

/* Tables that stand next to each other have neighbouring numbers in the worst case, and the same seed always. */
static void keys_in_the_order_of_another_table_do_not_crowd(void **state)
{
    enum { KEYS = 60000 };
    struct world w;
    world_init(&w, KEYS, 5);
    for (size_t i = 0; i < KEYS; i++) put(&w, i);
    for (uint64_t r = 0; r < 8; r++) {
        struct table other;
        struct order o = order_of(&w.table, r % 2);
        table_init(&other, w.arena, 5, 5 + 1 + r, 0);
        insert_in_order(&other, &o);
        table_fini(&other);
        free(o.e);
    }
    world_fini(&w);
}

static void keys_in_a_tables_own_order_do_not_crowd_once_it_was_empty(void **state)
{
    enum { KEYS = 60000 };
    struct world w;
    world_init(&w, KEYS, 6);
    for (size_t i = 0; i < KEYS; i++) put(&w, i);
    struct order o = order_of(&w.table, true);
    for (size_t i = 0; i < KEYS; i++) {
        uint64_t hash = table_hash(&w.table, entry_key(o.e[i]));
        table_remove(&w.table, hash, table_find_entry(&w.table, hash, o.e[i]));
    }
    while (table_step(&w.table, 1000)) {}
    insert_in_order(&w.table, &o);
    table_fini(&w.table);
    insert_in_order(&w.table, &o);
    free(o.e);
    world_fini(&w);
}

/* The bytes of the new array that the table comes to next, a little ahead of the frontier, if a whole huge page is there. */
static char *soon_used(const struct table *t)
{
    uint64_t bytes = t->now.count * sizeof(struct table_bucket);
    uint64_t at = ((t->frontier * t->now.count >> 32) * sizeof(struct table_bucket) + (64 << 10)) & ~UINT64_C(4095);
    return t->old.buckets && at / PAGER_BYTES < bytes / PAGER_BYTES ? (char *)t->now.buckets + at : NULL;
}

static void a_large_table_moves_into_pages_that_are_ready(void **state)
{
    enum { KEYS = 1200000 };
    struct pager *pager = pager_new();
    struct arena *arena = arena_new(), *entries = arena_new();
    struct table t;
    unsigned looks = 0;
    arena_set_pager(arena, pager);
    table_init(&t, arena, 17, 17, 0);
    for (uint32_t i = 0; i < KEYS; i++) {
        struct entry *e = entry_new(entries, TYPE_STRING, ENC_BYTES, slice_of(&i, sizeof i), 0, 0);
        table_insert(&t, table_hash(&t, entry_key(e)), e);
        char *soon = i % 64 ? NULL : soon_used(&t);
        unsigned char there = 0;
        if (!soon) continue;
        pager_settle(pager);
        assert_int_equal(mincore(soon, 4096, &there), 0);
        assert_true(there & 1);
        looks++;
    }
    assert_true(looks > 1000);
    table_fini(&t);
    arena_free(arena);
    arena_free(entries);
    pager_free(pager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_answers_everything_and_owns_nothing),
        cmocka_unit_test(a_random_walk_equals_the_twin),
        cmocka_unit_test(a_scan_of_a_resting_table_visits_all_once_and_about_as_many_as_wanted),
        cmocka_unit_test(a_scan_visits_what_stays_exactly_once_while_the_table_grows),
        cmocka_unit_test(a_scan_visits_what_stays_exactly_once_while_the_table_shrinks),
        cmocka_unit_test(random_picks_are_nearly_uniform),
        cmocka_unit_test(a_random_pick_finds_the_last_entry_of_a_large_table),
        cmocka_unit_test(keys_in_the_order_of_another_table_do_not_crowd),
        cmocka_unit_test(keys_in_a_tables_own_order_do_not_crowd_once_it_was_empty),
        cmocka_unit_test(memory_per_entry_stays_within_its_band),
        cmocka_unit_test(a_large_table_moves_into_pages_that_are_ready),
        cmocka_unit_test(a_large_table_stays_whole_while_it_grows_and_shrinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
