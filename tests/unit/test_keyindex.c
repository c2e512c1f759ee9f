/* The index of keys against a naive twin: a sorted array of entries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "store/arena.h"
#include "store/entry.h"
#include "store/keyindex.h"

enum { ENTRIES_MAX = 20000, KEY_MAX = 40 };

struct world {
    struct arena *arena;
    struct keyindex tree;
    struct entry *twin[ENTRIES_MAX]; /* sorted */
    unsigned n;
    struct rng rng;
};

static struct world *world_new(uint64_t seed, struct slice prefix)
{
    struct world *w = mem_zalloc(sizeof *w);
    w->arena = arena_new();
    keyindex_init(&w->tree, w->arena, prefix);
    rng_init(&w->rng, seed);
    return w;
}

static void world_free(struct world *w)
{
    for (unsigned i = 0; i < w->n; i++) entry_release(w->arena, w->twin[i]);
    keyindex_fini(&w->tree);
    assert_int_equal(arena_live_bytes(w->arena), 0);
    arena_free(w->arena);
    mem_free(w);
}

static unsigned twin_rank(const struct world *w, struct slice key)
{
    unsigned low = 0, high = w->n;
    while (low < high) {
        unsigned mid = (low + high) / 2;
        if (slice_cmp(entry_key(w->twin[mid]), key) < 0) low = mid + 1;
        else high = mid;
    }
    return low;
}

static uint64_t twin_bytes(const struct world *w, unsigned from, unsigned to)
{
    uint64_t bytes = 0;
    for (unsigned i = from; i < to; i++) bytes += keyindex_entry_bytes(w->twin[i]);
    return bytes;
}

/* ---- changes of both */

static bool add(struct world *w, struct slice key, size_t value_len)
{
    unsigned at = twin_rank(w, key);
    if (at < w->n && slice_eq(entry_key(w->twin[at]), key)) return false;
    struct entry *e = entry_new(w->arena, TYPE_STRING, ENC_BYTES, key, value_len, 0);
    memmove(w->twin + at + 1, w->twin + at, (w->n - at) * sizeof *w->twin);
    w->twin[at] = e;
    w->n++;
    keyindex_add(&w->tree, e);
    return true;
}

static struct slice copy_key(const struct entry *e, char out[KEY_MAX])
{
    struct slice key = entry_key(e);
    memcpy(out, key.p, key.n);
    return slice_of(out, key.n);
}

/* The tree hears of it when the entry is gone already. */
static void take(struct world *w, unsigned at)
{
    char bytes[KEY_MAX];
    struct entry *e = w->twin[at];
    struct slice key = copy_key(e, bytes);
    uint64_t old = keyindex_entry_bytes(e);
    entry_release(w->arena, e);
    keyindex_remove(&w->tree, key, e, old);
    w->n--;
    memmove(w->twin + at, w->twin + at + 1, (w->n - at) * sizeof *w->twin);
}

static void resize(struct world *w, unsigned at, size_t value_len)
{
    struct entry *old = w->twin[at];
    uint64_t old_bytes = keyindex_entry_bytes(old);
    struct entry *now = entry_resize_value(w->arena, old, value_len);
    w->twin[at] = now;
    keyindex_replace(&w->tree, entry_key(now), old, old_bytes, now);
}

/* ---- comparing */

static void same_walks(const struct world *w)
{
    struct keyindex_at at;
    struct entry *e = keyindex_seek(&w->tree, SLICE(""), &at);
    for (unsigned i = 0; i < w->n; i++, e = keyindex_next(&at)) assert_ptr_equal(e, w->twin[i]);
    assert_null(e);
    assert_null(keyindex_next(&at));
    e = keyindex_last(&w->tree, &at);
    for (unsigned i = w->n; i-- > 0; e = keyindex_prev(&at)) assert_ptr_equal(e, w->twin[i]);
    assert_null(e);
    assert_null(keyindex_prev(&at));
}

static struct entry *twin_at_bytes(const struct world *w, unsigned from, unsigned to, uint64_t bytes)
{
    uint64_t before = 0;
    for (unsigned i = from; i < to; i++) {
        if (before >= bytes) return w->twin[i];
        before += keyindex_entry_bytes(w->twin[i]);
    }
    return from < to ? w->twin[to - 1] : NULL;
}

static void same_interval(struct world *w, struct slice start, const struct slice *end)
{
    unsigned from = twin_rank(w, start), to = end ? twin_rank(w, *end) : w->n;
    uint64_t bytes = from < to ? twin_bytes(w, from, to) : 0, some = rng_below(&w->rng, bytes + 10);
    assert_int_equal(keyindex_count(&w->tree, start, end), from < to ? to - from : 0);
    assert_int_equal(keyindex_bytes(&w->tree, start, end), bytes);
    assert_ptr_equal(keyindex_median(&w->tree, start, end), twin_at_bytes(w, from, to, bytes / 2));
    assert_ptr_equal(keyindex_at_bytes(&w->tree, start, end, some), twin_at_bytes(w, from, to, some));
    assert_ptr_equal(keyindex_at_bytes(&w->tree, start, end, 0), twin_at_bytes(w, from, to, 0));
}

static void same_from(struct world *w, struct slice key)
{
    struct keyindex_at at;
    unsigned rank = twin_rank(w, key);
    assert_ptr_equal(keyindex_seek(&w->tree, key, &at), rank < w->n ? w->twin[rank] : NULL);
    assert_ptr_equal(keyindex_next(&at), rank + 1 < w->n ? w->twin[rank + 1] : NULL);
    assert_ptr_equal(keyindex_before(&w->tree, key, &at), rank ? w->twin[rank - 1] : NULL);
    assert_ptr_equal(keyindex_prev(&at), rank > 1 ? w->twin[rank - 2] : NULL);
    assert_ptr_equal(keyindex_nth(&w->tree, rank, &at), rank < w->n ? w->twin[rank] : NULL);
}

static void same(struct world *w)
{
    keyindex_check(&w->tree);
    assert_int_equal(w->tree.count, w->n);
    assert_int_equal(w->tree.bytes, twin_bytes(w, 0, w->n));
    same_walks(w);
}

/* ---- keys that make trouble: short and long, bytes 0 and 255, many with the same eight bytes behind the prefix */

static struct slice random_key(struct world *w, char out[KEY_MAX])
{
    static const char letters[] = {0, '0', '1', 'a', (char)255};
    size_t n = w->tree.prefix.n;
    memcpy(out, w->tree.prefix.p, n);
    if (rng_below(&w->rng, 2)) {
        memcpy(out + n, "/the same", 9);
        n += 9;
    }
    for (uint64_t more = rng_below(&w->rng, 10); more > 0; more--) out[n++] = letters[rng_below(&w->rng, sizeof letters)];
    return slice_of(out, n);
}

static struct slice random_bound(struct world *w, char out[KEY_MAX])
{
    static const char *const outside[] = {"", "a", "users", "userz", "\xff\xff", "us"};
    if (rng_below(&w->rng, 4) == 0) return slice_str(outside[rng_below(&w->rng, 6)]);
    if (w->n && rng_below(&w->rng, 2)) return entry_key(w->twin[rng_below(&w->rng, w->n)]);
    return random_key(w, out);
}

static void same_at_random_bounds(struct world *w)
{
    char a[KEY_MAX], b[KEY_MAX];
    struct slice start = random_bound(w, a), end = random_bound(w, b);
    same_from(w, start);
    same_interval(w, start, rng_below(&w->rng, 4) ? &end : NULL);
}

static void random_walk(uint64_t seed, struct slice prefix, unsigned top)
{
    struct world *w = world_new(seed, prefix);
    unsigned highest = 0, refused = 0;
    char bytes[KEY_MAX];
    for (unsigned phase = 0; phase < 4; phase++) {
        unsigned grow = phase % 2 ? 2 : 6; /* of ten steps, how many add */
        for (unsigned step = 0; step < 2 * top; step++) {
            uint64_t dice = rng_below(&w->rng, 10);
            size_t value_len = (size_t)rng_below(&w->rng, rng_below(&w->rng, 50) ? 60 : 9000);
            if (dice < grow && w->n < ENTRIES_MAX) refused += !add(w, random_key(w, bytes), value_len);
            else if (dice < 8 && w->n) take(w, (unsigned)rng_below(&w->rng, w->n));
            else if (w->n) resize(w, (unsigned)rng_below(&w->rng, w->n), value_len);
            if (w->tree.height > highest) highest = w->tree.height;
            if (step % 97 == 0) same_at_random_bounds(w);
            if (step % (top / 8) == 0) same(w);
        }
    }
    assert_true(highest >= 2 && refused > 0);
    while (w->n) take(w, (unsigned)rng_below(&w->rng, w->n));
    same(w);
    assert_int_equal(w->tree.node_bytes, 0);
    world_free(w);
}

static void a_random_walk_equals_a_sorted_array(void **state) { random_walk(1, SLICE("users"), 9000); }
static void a_random_walk_without_a_common_prefix_equals_a_sorted_array(void **state) { random_walk(2, SLICE(""), 9000); }

static void an_empty_index_has_nothing_anywhere(void **state)
{
    struct world *w = world_new(1, SLICE("users"));
    struct slice end = SLICE("users/z");
    same(w);
    same_from(w, SLICE(""));
    same_interval(w, SLICE(""), &end);
    same_interval(w, SLICE(""), NULL);
    world_free(w);
}

static void adding_in_order_leaves_full_nodes(void **state)
{
    struct world *up = world_new(1, SLICE("")), *down = world_new(1, SLICE(""));
    for (unsigned i = 0; i < 15000; i++) {
        char key[16];
        add(up, slice_of(key, (size_t)snprintf(key, sizeof key, "%06u", i)), 8);
        add(down, slice_of(key, (size_t)snprintf(key, sizeof key, "%06u", 99999 - i)), 8);
    }
    same(up);
    same(down);
    assert_true(up->tree.node_bytes < 15000 * 10);
    assert_true(down->tree.node_bytes < 15000 * 10);
    world_free(up);
    world_free(down);
}

static void a_key_takes_less_than_fourteen_bytes_in_any_order(void **state)
{
    struct world *w = world_new(7, SLICE(""));
    char bytes[KEY_MAX];
    while (w->n < ENTRIES_MAX) {
        uint64_t r = rng_u64(&w->rng);
        memcpy(bytes, &r, 8);
        add(w, slice_of(bytes, 8), 8);
    }
    same(w);
    assert_true(w->tree.node_bytes < ENTRIES_MAX * 14);
    world_free(w);
}

static void removing_from_either_end_empties_the_tree(void **state)
{
    for (int end = 0; end < 2; end++) {
        struct world *w = world_new(3, SLICE("x"));
        char bytes[KEY_MAX];
        while (w->n < 5000) add(w, random_key(w, bytes), 3);
        while (w->n) {
            take(w, end ? w->n - 1 : 0);
            if (w->n % 499 == 0) same(w);
        }
        world_free(w);
    }
}

static void the_median_of_two_is_the_second_whatever_their_sizes(void **state)
{
    for (int larger = 0; larger < 2; larger++) {
        struct world *w = world_new(1, SLICE(""));
        add(w, SLICE("a"), larger ? 5 : 50000);
        add(w, SLICE("b"), larger ? 50000 : 5);
        assert_ptr_equal(keyindex_median(&w->tree, SLICE(""), NULL), w->twin[1]);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_index_has_nothing_anywhere),
        cmocka_unit_test(a_random_walk_equals_a_sorted_array),
        cmocka_unit_test(a_random_walk_without_a_common_prefix_equals_a_sorted_array),
        cmocka_unit_test(adding_in_order_leaves_full_nodes),
        cmocka_unit_test(a_key_takes_less_than_fourteen_bytes_in_any_order),
        cmocka_unit_test(removing_from_either_end_empties_the_tree),
        cmocka_unit_test(the_median_of_two_is_the_second_whatever_their_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
