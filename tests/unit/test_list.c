/* Lists against a naive twin: an array of owned byte strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "store/arena.h"
#include "store/chain.h"
#include "store/list.h"
#include "store/store.h"

struct twin {
    struct slice *v;
    size_t n, cap;
};

struct bed {
    struct store_limits limits;
    struct kit kit;
    struct entry *e;
    struct twin twin;
    struct rng rng;
};

static void bed_open(struct bed *b, int32_t list_size, uint64_t seed)
{
    *b = (struct bed){.limits = {.list_size = list_size}};
    b->kit = (struct kit){.arena = arena_new(), .limits = &b->limits};
    b->e = list_new(&b->kit, SLICE("key"));
    rng_init(&b->rng, seed);
}

/* Everything that the list took is given back when it goes. */
static void bed_close(struct bed *b)
{
    list_drop(&b->kit, b->e);
    entry_release(b->kit.arena, b->e);
    assert_int_equal(arena_live_bytes(b->kit.arena), 0);
    arena_free(b->kit.arena);
    for (size_t i = 0; i < b->twin.n; i++) mem_free((char *)b->twin.v[i].p);
    mem_free(b->twin.v);
}

static void twin_insert(struct twin *t, size_t at, struct slice s)
{
    if (t->n == t->cap) t->v = mem_resize(t->v, (t->cap = t->cap ? t->cap * 2 : 16) * sizeof *t->v);
    memmove(t->v + at + 1, t->v + at, (t->n - at) * sizeof *t->v);
    t->v[at] = slice_of(mem_dup(s.p, s.n), s.n);
    t->n++;
}

static void twin_remove(struct twin *t, size_t at, size_t count)
{
    for (size_t i = at; i < at + count; i++) mem_free((char *)t->v[i].p);
    memmove(t->v + at, t->v + at + count, (t->n - at - count) * sizeof *t->v);
    t->n -= count;
}

static void push(struct bed *b, bool head, const struct slice *items, uint32_t n)
{
    b->e = list_push(&b->kit, b->e, head, items, n);
    for (uint32_t i = 0; i < n; i++) twin_insert(&b->twin, head ? 0 : b->twin.n, items[i]);
}

static void pop(struct bed *b, bool head, size_t count)
{
    b->e = list_pop(&b->kit, b->e, head, count);
    twin_remove(&b->twin, head ? 0 : b->twin.n - count, count);
}

static void drop_range(struct bed *b, size_t at, size_t count)
{
    b->e = list_remove(&b->kit, b->e, at, count);
    twin_remove(&b->twin, at, count);
}

static void insert(struct bed *b, size_t at, struct slice s)
{
    b->e = list_insert(&b->kit, b->e, at, s);
    twin_insert(&b->twin, at, s);
}

static void set(struct bed *b, size_t at, struct slice s)
{
    b->e = list_set(&b->kit, b->e, at, s);
    twin_remove(&b->twin, at, 1);
    twin_insert(&b->twin, at, s);
}

static void assert_walk(struct bed *b, size_t from, bool back, size_t steps)
{
    struct list_iter it;
    struct slice s;
    list_iter_init(&it, b->e, from, back);
    for (size_t i = 0; i < steps; i++) {
        size_t at = back ? from - i : from + i;
        bool there = back ? i <= from && from < b->twin.n : at < b->twin.n;
        assert_int_equal(list_iter_next(&it, &s), there);
        if (!there) return;
        assert_true(slice_eq(s, b->twin.v[at]));
    }
}

static void assert_same(struct bed *b)
{
    list_check(&b->kit, b->e);
    assert_int_equal(list_len(b->e), b->twin.n);
    assert_int_equal(arena_round(entry_bytes(b->e)) + list_body_bytes(b->e), arena_live_bytes(b->kit.arena));
    assert_true(slice_eq(entry_key(b->e), SLICE("key")));
}

/* Bytes that tell where they came from; usually short, sometimes long, rarely larger than a node. */
static struct slice value(struct bed *b, char *room, size_t long_max)
{
    uint64_t kind = rng_below(&b->rng, 100);
    size_t n = kind < 80 ? rng_below(&b->rng, 12) : kind < 98 ? rng_below(&b->rng, 500) : rng_below(&b->rng, long_max);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t r = rng_u64(&b->rng);
        memcpy(room + i, &r, 8);
    }
    return slice_of(room, n);
}

enum { VALUE_MAX = 12000 };

static void random_step(struct bed *b, bool growing, char *room)
{
    size_t n = b->twin.n, at = n ? rng_below(&b->rng, n) : 0;
    uint64_t what = rng_below(&b->rng, 100);
    struct slice items[5];
    uint32_t k = 1 + (uint32_t)rng_below(&b->rng, 5);
    if (what < (growing ? 40u : 15u) || n == 0) {
        for (uint32_t i = 0; i < k; i++) items[i] = value(b, room + i * (VALUE_MAX + 8), VALUE_MAX);
        push(b, what & 1, items, k);
    } else if (what < 55) {
        insert(b, rng_below(&b->rng, n + 1), value(b, room, VALUE_MAX));
    } else if (what < 70) {
        set(b, at, value(b, room, VALUE_MAX));
    } else if (what < 85) {
        pop(b, what & 1, k < n ? k : n);
    } else {
        size_t most = n - at, count = rng_below(&b->rng, growing ? 3 : 40);
        drop_range(b, at, count < most ? count : most);
    }
}

static void walk_randomly(int32_t list_size, unsigned steps)
{
    struct bed b;
    bed_open(&b, list_size, 77 + (uint64_t)(uint32_t)list_size);
    char *room = mem_alloc(5 * (VALUE_MAX + 8));
    unsigned chains = 0, packs = 0;
    size_t longest = 0;
    for (unsigned i = 0; i < steps; i++) {
        bool growing = i / 500 % 2 == 0;
        random_step(&b, growing, room);
        assert_same(&b);
        if (b.twin.n) assert_walk(&b, rng_below(&b.rng, b.twin.n), i & 1, 20);
        if (i % 64 == 0) assert_walk(&b, 0, false, b.twin.n + 1);
        if (i % 64 == 32 && b.twin.n) assert_walk(&b, b.twin.n - 1, true, b.twin.n + 1);
        if (entry_encoding(b.e) == ENC_NODES) chains++;
        else packs++;
        if (b.twin.n > longest) longest = b.twin.n;
    }
    assert_true(chains > 0 && packs > 0 && longest > 200);
    mem_free(room);
    bed_close(&b);
}

static void random_edits_agree_with_an_array_at_any_node_size(void **state)
{
    static const int32_t sizes[] = {-1, -2, -5, 0, 1, 2, 3, 7, 128};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) walk_randomly(sizes[i], 4000);
}

static void a_small_list_is_a_pack_in_its_entry(void **state)
{
    struct bed b;
    bed_open(&b, -2, 1);
    struct slice items[] = {SLICE("a"), SLICE("b"), SLICE("c")};
    push(&b, true, items, 3);
    push(&b, false, items, 3);
    assert_int_equal(entry_encoding(b.e), ENC_PACK);
    assert_int_equal(list_body_bytes(b.e), 0);
    assert_walk(&b, 0, false, 7);
    assert_walk(&b, 5, true, 7);
    bed_close(&b);
}

static void a_list_turns_into_a_pack_again_only_well_below_the_limit(void **state)
{
    struct bed b;
    bed_open(&b, 100, 1);
    struct slice item = SLICE("element");
    for (unsigned i = 0; i < 100; i++) push(&b, false, &item, 1);
    assert_int_equal(entry_encoding(b.e), ENC_PACK);
    push(&b, false, &item, 1);
    assert_int_equal(entry_encoding(b.e), ENC_NODES);
    pop(&b, true, 50);
    assert_int_equal(entry_encoding(b.e), ENC_NODES);
    pop(&b, false, 1);
    assert_int_equal(entry_encoding(b.e), ENC_PACK);
    assert_same(&b);
    bed_close(&b);
}

static void an_emptied_list_is_an_empty_pack(void **state)
{
    struct bed b;
    bed_open(&b, 2, 1);
    struct slice items[] = {SLICE("a"), SLICE("b"), SLICE("c"), SLICE("d"), SLICE("e")};
    push(&b, false, items, 5);
    assert_int_equal(entry_encoding(b.e), ENC_NODES);
    pop(&b, true, 5);
    assert_int_equal(entry_encoding(b.e), ENC_PACK);
    assert_same(&b);
    assert_walk(&b, 0, false, 1);
    bed_close(&b);
}

static void a_huge_element_has_a_node_of_its_own(void **state)
{
    struct bed b;
    bed_open(&b, -1, 1);
    char *big = mem_zalloc(3 << 20);
    struct slice huge = slice_of(big, 3 << 20), small = SLICE("x");
    for (unsigned i = 0; i < 100; i++) push(&b, false, &small, 1);
    insert(&b, 50, huge);
    assert_same(&b);
    const struct chain *c = entry_body(b.e);
    assert_int_equal(c->nodes, 3);
    assert_int_equal(c->head->next->count, 1);
    set(&b, 50, small);
    assert_same(&b);
    assert_int_equal(entry_encoding(b.e), ENC_PACK);
    mem_free(big);
    bed_close(&b);
}

/* A list of 60,000 elements from which every second one, then nearly all the rest is removed one by one. */
static void removing_from_the_middle_leaves_no_crowd_of_small_nodes(void **state)
{
    struct bed b;
    bed_open(&b, -1, 1);
    char text[16];
    for (unsigned i = 0; i < 60000; i++) {
        struct slice s = slice_of(text, (size_t)sprintf(text, "%08u", i));
        b.e = list_push(&b.kit, b.e, false, &s, 1);
    }
    const struct chain *c = entry_body(b.e);
    uint64_t full = c->nodes;
    for (uint64_t i = 0; i < list_len(b.e); i++) b.e = list_remove(&b.kit, b.e, i, 1);
    assert_int_equal(list_len(b.e), 30000);
    assert_in_range(c->nodes, 2, full + 1);
    for (uint64_t i = 0; i + 1 < list_len(b.e); i++) b.e = list_remove(&b.kit, b.e, i, i % 4 != 0);
    list_check(&b.kit, b.e);
    assert_int_equal(entry_encoding(b.e), ENC_NODES);
    assert_true(c->nodes < 1 + list_len(b.e) * 10 / 1000); /* at least a quarter full on average */
    bed_close(&b);
}

/* What a queue does all day: the windows wander through their blocks, and memory stays bounded. */
static void a_queue_that_is_pushed_and_popped_for_ever_stays_small(void **state)
{
    for (int direction = 0; direction < 2; direction++) {
        struct bed b;
        bed_open(&b, -2, 1);
        struct slice item = SLICE("a queue element of forty-eight bytes in total....");
        for (unsigned i = 0; i < 1000; i++) b.e = list_push(&b.kit, b.e, direction, &item, 1);
        size_t before = arena_live_bytes(b.kit.arena);
        for (unsigned i = 0; i < 50000; i++) {
            b.e = list_push(&b.kit, b.e, direction, &item, 1);
            b.e = list_pop(&b.kit, b.e, !direction, 1);
        }
        list_check(&b.kit, b.e);
        assert_int_equal(list_len(b.e), 1000);
        assert_true(arena_live_bytes(b.kit.arena) < before + before / 3);
        bed_close(&b);
    }
}

static void a_changed_limit_does_no_harm_to_lists_made_before(void **state)
{
    struct bed b;
    bed_open(&b, -5, 9);
    char *room = mem_alloc(5 * (VALUE_MAX + 8));
    static const int32_t sizes[] = {-5, 2, -1, 128, 1, -3};
    for (unsigned i = 0; i < 6000; i++) {
        b.limits.list_size = sizes[i / 100 % 6];
        random_step(&b, i / 1000 % 2 == 0, room);
        assert_int_equal(list_len(b.e), b.twin.n);
        if (i % 50 == 0) assert_walk(&b, 0, false, b.twin.n + 1);
    }
    mem_free(room);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_list_is_a_pack_in_its_entry),
        cmocka_unit_test(a_list_turns_into_a_pack_again_only_well_below_the_limit),
        cmocka_unit_test(an_emptied_list_is_an_empty_pack),
        cmocka_unit_test(a_huge_element_has_a_node_of_its_own),
        cmocka_unit_test(removing_from_the_middle_leaves_no_crowd_of_small_nodes),
        cmocka_unit_test(a_queue_that_is_pushed_and_popped_for_ever_stays_small),
        cmocka_unit_test(a_changed_limit_does_no_harm_to_lists_made_before),
        cmocka_unit_test(random_edits_agree_with_an_array_at_any_node_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
