#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "store/arena.h"

struct block {
    unsigned char *p;
    size_t bytes;
    unsigned char mark;
};

static void fill(struct block *b) { memset(b->p, b->mark, b->bytes); }

static void expect_filled(const struct block *b, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (b->p[i] != b->mark) fail_msg("byte %zu of a block of %zu was overwritten", i, b->bytes);
}

static size_t random_size(struct rng *r)
{
    switch (rng_below(r, 16)) {
    case 0: return 1 + rng_below(r, 200000);
    case 1: return 4096 - 8 + rng_below(r, 17);
    case 2: return 64 * (1 + rng_below(r, 64));
    default: return 1 + rng_below(r, 300);
    }
}

static void random_work_keeps_contents_alignment_and_the_exact_live_count(void **state)
{
    enum { BLOCKS = 3000, STEPS = 60000 };
    struct block *blocks = calloc(BLOCKS, sizeof *blocks);
    struct arena *a = arena_new();
    struct rng r;
    rng_init(&r, 42);
    size_t live = 0;
    for (int step = 0; step < STEPS; step++) {
        struct block *b = &blocks[rng_below(&r, BLOCKS)];
        size_t bytes = random_size(&r);
        if (!b->p) {
            *b = (struct block){arena_alloc(a, bytes), bytes, (unsigned char)step};
            live += arena_round(bytes);
        } else if (rng_below(&r, 2)) {
            expect_filled(b, b->bytes);
            live += arena_round(bytes) - arena_round(b->bytes);
            unsigned char *old = b->p;
            b->p = arena_resize(a, b->p, b->bytes, bytes);
            if (arena_round(bytes) == arena_round(b->bytes)) assert_ptr_equal(old, b->p);
            expect_filled(b, bytes < b->bytes ? bytes : b->bytes);
            b->bytes = bytes;
        } else {
            expect_filled(b, b->bytes);
            arena_release(a, b->p, b->bytes);
            live -= arena_round(b->bytes);
            b->p = NULL;
            continue;
        }
        assert_int_equal((uintptr_t)b->p % (b->bytes % 64 ? 8 : 64), 0);
        fill(b);
        assert_int_equal(arena_live_bytes(a), live);
        if (step % 1000 == 0) arena_check(a);
        if (step % 7000 == 0) arena_trim(a);
    }
    arena_check(a);
    assert_true(arena_mapped_bytes(a) >= arena_live_bytes(a));
    arena_free(a);
    free(blocks);
}

static void an_emptied_span_serves_every_other_size(void **state)
{
    enum { N = 3000 };
    struct arena *a = arena_new();
    static void *p[N];
    size_t mapped = 0;
    for (size_t bytes = 40; bytes <= 400; bytes += 40) {
        for (int i = 0; i < N; i++) p[i] = arena_alloc(a, 400);
        if (!mapped) mapped = arena_mapped_bytes(a);
        for (int i = 0; i < N; i++) arena_release(a, p[i], 400);
        for (int i = 0; i < N; i++) p[i] = arena_alloc(a, bytes);
        for (int i = 0; i < N; i++) arena_release(a, p[i], bytes);
        assert_int_equal(arena_live_bytes(a), 0);
        arena_check(a);
    }
    assert_int_equal(arena_mapped_bytes(a), mapped);
    arena_trim(a);
    arena_check(a);
    memset(arena_alloc(a, 400), 1, 400);
    arena_check(a);
    arena_free(a);
}

static void zeroed_blocks_of_every_kind_are_zero(void **state)
{
    struct arena *a = arena_new();
    size_t sizes[] = {1, 64, 4096, 4097, 100000, (1 << 20) - 64, (1 << 20) - 63, 5 << 20};
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned char *p = arena_zalloc(a, sizes[i]);
            for (size_t j = 0; j < sizes[i]; j++) assert_int_equal(p[j], 0);
            memset(p, 0xff, sizes[i]);
            arena_release(a, p, sizes[i]);
        }
    assert_int_equal(arena_live_bytes(a), 0);
    arena_free(a);
}

static void a_mapped_block_keeps_its_bytes_while_it_grows_and_shrinks(void **state)
{
    struct arena *a = arena_new();
    size_t sizes[] = {3 << 20, 40 << 20, 2 << 20, 900000, 1 << 20, 5000};
    size_t bytes = 100000;
    struct block b = {arena_alloc(a, bytes), bytes, 7};
    fill(&b);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        b.p = arena_resize(a, b.p, b.bytes, sizes[i]);
        expect_filled(&b, b.bytes < sizes[i] ? b.bytes : sizes[i]);
        b.bytes = sizes[i];
        fill(&b);
        assert_int_equal(arena_live_bytes(a), arena_round(b.bytes));
        arena_check(a);
    }
    arena_free(a);
}

static void a_new_arena_maps_nothing(void **state)
{
    struct arena *a = arena_new();
    assert_int_equal(arena_mapped_bytes(a), 0);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_arena_maps_nothing),
        cmocka_unit_test(random_work_keeps_contents_alignment_and_the_exact_live_count),
        cmocka_unit_test(an_emptied_span_serves_every_other_size),
        cmocka_unit_test(zeroed_blocks_of_every_kind_are_zero),
        cmocka_unit_test(a_mapped_block_keeps_its_bytes_while_it_grows_and_shrinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
