#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/compress.h"
#include "base/mem.h"
#include "base/rng.h"

/* Half noise, half runs: `noise` of 8 bytes are random. */
static void fill(struct buf *b, size_t n, unsigned noise, struct rng *rng)
{
    b->len = 0;
    for (size_t i = 0; i < n; i++) buf_add_byte(b, i % 8 < noise ? (char)rng_u64(rng) : 'x');
}

static void what_was_packed_unpacks_to_the_same_bytes(void **state)
{
    struct rng rng;
    struct buf raw = {0}, packed = {0};
    unsigned packs = 0;
    rng_init(&rng, 1);
    for (unsigned p = COMPRESS_FAST; p < COMPRESS_PROFILES; p++) {
        struct compress c;
        compress_init(&c, (enum compress_profile)p, 16);
        for (unsigned i = 0; i < 300; i++) {
            packed.len = 0;
            fill(&raw, rng_below(&rng, i % 30 ? 5000 : 500000), (unsigned)rng_below(&rng, 6), &rng);
            if (!compress_pack(&c, &packed, buf_slice(&raw))) continue;
            char *again = mem_alloc(raw.len + 1);
            assert_true(packed.len <= raw.len - raw.len / 16);
            assert_true(compress_unpack(buf_slice(&packed), again, raw.len));
            assert_memory_equal(again, raw.p, raw.len);
            assert_false(compress_unpack(buf_slice(&packed), again, raw.len - 1));
            assert_false(compress_unpack(buf_slice(&packed), again, raw.len + 1));
            mem_free(again);
            packs++;
        }
        compress_fini(&c);
    }
    assert_in_range(packs, 300, 900);
    buf_fini(&raw);
    buf_fini(&packed);
}

static void what_is_short_or_noise_is_left_raw(void **state)
{
    struct rng rng;
    struct buf raw = {0}, out = {0};
    rng_init(&rng, 2);
    for (unsigned p = 0; p < COMPRESS_PROFILES; p++) {
        struct compress c;
        compress_init(&c, (enum compress_profile)p, COMPRESS_MIN_SIZE);
        fill(&raw, COMPRESS_MIN_SIZE - 1, 0, &rng);
        assert_false(compress_pack(&c, &out, buf_slice(&raw)));
        fill(&raw, COMPRESS_MIN_SIZE, 0, &rng);
        assert_int_equal(compress_pack(&c, &out, buf_slice(&raw)), p != COMPRESS_NONE);
        out.len = 0;
        fill(&raw, 100000, 8, &rng);
        assert_false(compress_pack(&c, &out, buf_slice(&raw)));
        assert_false(compress_pack(&c, &out, (struct slice){0}));
        assert_int_equal(out.len, 0);
        compress_fini(&c);
    }
    buf_fini(&raw);
    buf_fini(&out);
}

static void any_bytes_are_taken_or_refused(void **state)
{
    struct rng rng;
    struct buf noise = {0};
    char out[4096];
    rng_init(&rng, 3);
    for (unsigned i = 0; i < 20000; i++) {
        fill(&noise, rng_below(&rng, 64), (unsigned)rng_below(&rng, 9), &rng);
        compress_unpack(buf_slice(&noise), out, rng_below(&rng, sizeof out));
    }
    buf_fini(&noise);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_unpacks_to_the_same_bytes),
        cmocka_unit_test(what_is_short_or_noise_is_left_raw),
        cmocka_unit_test(any_bytes_are_taken_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
