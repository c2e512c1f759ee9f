#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "cold/coldrecord.h"

static void fill(struct buf *b, size_t n, bool compressible, struct rng *rng)
{
    for (size_t i = 0; i < n; i++) buf_add_byte(b, (char)(compressible ? i / 7 % 13 + 'a' : rng_u64(rng)));
}

static void a_record_gives_back_key_and_value(void **state)
{
    static const size_t sizes[] = {0, 1, 127, 128, 1000, 70000};
    struct rng rng;
    rng_init(&rng, 4);
    for (int p = 0; p < COMPRESS_PROFILES; p++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int soft = 0; soft < 2; soft++) {
                struct compress c;
                struct buf value = {0}, record = {0}, back = {0};
                struct slice key;
                compress_init(&c, (enum compress_profile)p, 128);
                fill(&value, sizes[i], soft, &rng);
                coldrecord_add(&record, &c, SLICE("a key"), buf_slice(&value));
                assert_int_equal(coldrecord_read(buf_slice(&record), &key, &back), 0);
                assert_true(slice_eq(key, SLICE("a key")) && slice_eq(buf_slice(&back), buf_slice(&value)));
                bool smaller = record.len < value.len;
                assert_int_equal(smaller, soft && p != COMPRESS_NONE && sizes[i] >= 128);
                compress_fini(&c);
                buf_fini(&value);
                buf_fini(&record);
                buf_fini(&back);
            }
}

static void every_flipped_bit_and_every_cut_is_found(void **state)
{
    struct rng rng;
    rng_init(&rng, 5);
    for (int soft = 0; soft < 2; soft++) {
        struct compress c;
        struct buf value = {0}, record = {0}, back = {0};
        struct slice key;
        compress_init(&c, COMPRESS_BALANCED, 128);
        fill(&value, 600, soft, &rng);
        coldrecord_add(&record, &c, SLICE("key"), buf_slice(&value));
        for (size_t i = 0; i < record.len * 8; i++) {
            record.p[i / 8] ^= (char)(1 << i % 8);
            assert_int_equal(coldrecord_read(buf_slice(&record), &key, &back), -EBADMSG);
            record.p[i / 8] ^= (char)(1 << i % 8);
        }
        for (size_t n = 0; n < record.len; n++) assert_int_equal(coldrecord_read(slice_of(record.p, n), &key, &back), -EBADMSG);
        buf_add_byte(&record, 0);
        assert_int_equal(coldrecord_read(buf_slice(&record), &key, &back), -EBADMSG);
        assert_int_equal(back.len, 0);
        compress_fini(&c);
        buf_fini(&value);
        buf_fini(&record);
        buf_fini(&back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_gives_back_key_and_value),
        cmocka_unit_test(every_flipped_bit_and_every_cut_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
