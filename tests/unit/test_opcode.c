/* Ops as bytes: every kind there and back, and nothing that is not an op is taken for one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/crc32c.h"
#include "log/opcode.h"
#include "oprandom.h"

static struct buf written(const struct op *op)
{
    struct buf b = {0};
    opcode_write(&b, op);
    return b;
}

static bool reads(struct slice bytes)
{
    struct opcode_scratch scratch = {0};
    struct op op;
    /* Exactly as long as the bytes, so that a sanitizer sees the first byte read past them. */
    char *copy = malloc(bytes.n ? bytes.n : 1);
    if (bytes.n) memcpy(copy, bytes.p, bytes.n);
    bool ok = opcode_read(slice_of(copy, bytes.n), &scratch, &op);
    free(copy);
    opcode_scratch_fini(&scratch);
    return ok;
}

static void crc32c_gives_the_known_value_at_every_length(void **state)
{
    assert_int_equal(crc32c(CRC32C_START, "123456789", 9), 0xe3069283);
    char bytes[400];
    uint32_t in_one = 0, in_two;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        in_one = crc32c(CRC32C_START, bytes, n);
        in_two = crc32c(crc32c(CRC32C_START, bytes, n / 3), bytes + n / 3, n - n / 3);
        assert_int_equal(in_one, in_two);
    }
}

static void every_kind_of_op_reads_back_as_it_was_written(void **state)
{
    struct oprandom r;
    struct opcode_scratch scratch = {0};
    oprandom_init(&r, 1);
    for (unsigned i = 0; i < OP_KINDS * 200; i++) {
        struct op op = oprandom_of_kind(&r, (enum op_kind)(i % OP_KINDS)), back;
        struct buf b = written(&op);
        assert_true(opcode_read(buf_slice(&b), &scratch, &back));
        assert_true(oprandom_same(&op, &back));
        assert_true((uint8_t)b.p[0] < OPCODE_TYPES_END);
        buf_fini(&b);
    }
    opcode_scratch_fini(&scratch);
}

static void a_set_costs_five_bytes_beside_key_and_value(void **state)
{
    struct op op = {.kind = OP_SET, .key = SLICE("key"), .value = SLICE("value")};
    struct buf b = written(&op);
    assert_int_equal(b.len, 5 + 3 + 5);
    assert_memory_equal(b.p, "\x01\x00\x03key\x00\x05value", b.len);
    buf_fini(&b);
}

static void an_op_cut_short_or_followed_by_a_byte_is_refused(void **state)
{
    struct oprandom r;
    oprandom_init(&r, 2);
    r.string_max = 40;
    for (unsigned i = 0; i < OP_KINDS * 20; i++) {
        struct op op = oprandom_of_kind(&r, (enum op_kind)(i % OP_KINDS));
        struct buf b = written(&op);
        for (size_t n = 0; n < b.len; n++) assert_false(reads(slice_of(b.p, n)));
        buf_add_byte(&b, 0);
        assert_false(reads(buf_slice(&b)));
        buf_fini(&b);
    }
}

static void ops_that_the_store_would_not_take_are_refused(void **state)
{
    static const struct slice bad[] = {
        SLICE("\x00\x00"),                                /* no such type */
        SLICE("\x17\x00"),                                /* nor this one */
        SLICE("\x80\x00"),                                /* the log's own */
        SLICE("\x05\x11\x01" "k"),                        /* database 17: 16 is the system's */
        SLICE("\x05\x91\x80\x04\x01" "k"),                /* database 65553, which is 16 bits of 17 */
        SLICE("\x05\x80\x00\x01" "k"),                    /* 0 written in two bytes */
        SLICE("\x05\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" "k"), /* a key of 2^64 - 1 bytes */
        SLICE("\x05\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02" "k"), /* a number of more than 64 bits */
        SLICE("\x07\x00\x01" "k\x00"),                    /* a push of nothing */
        SLICE("\x07\x00\x01" "k\xff\xff\xff\xff\x0f"),    /* of 4294967295 items */
        SLICE("\x0e\x00\x01" "k\x01\x01" "f"),            /* a field without value */
        SLICE("\x09\x00\x01" "k\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* a count that is no int64 */
        SLICE("\x04\x00\x01" "k\xff\xff\xff\xff\x0f\x01" "v"), /* a range that ends past every string */
        SLICE("\x12\x00\x01" "k\x01\x00\x00\x00\x00\x00\x00\xf8\x7f\x01" "m"), /* a score that is not a number */
        SLICE("\x16\x00\x10"),                            /* swap with database 16 */
        SLICE("\x16\x10\x00"),                            /* and of it */
        SLICE("\x14\x00\x01" "k\x00\x01\x63"),            /* not an image */
        SLICE("\x14\x00\x01" "k\x00\x02\x02\x00"),        /* the image of an empty set */
    };
    assert_true(reads(SLICE("\x05\x0f\x01" "k")));
    assert_true(reads(SLICE("\x12\x00\x01" "k\x01\x00\x00\x00\x00\x00\x00\xf0\x7f\x01" "m"))); /* infinity is a score */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (reads(bad[i])) fail_msg("bytes %zu were taken for an op", i);
}

static void what_decodes_encodes_to_the_same_bytes(void **state)
{
    struct oprandom r;
    struct opcode_scratch scratch = {0};
    oprandom_init(&r, 3);
    r.string_max = 30;
    unsigned decoded = 0;
    for (unsigned i = 0; i < 40000; i++) {
        struct op op = oprandom_next(&r), back;
        struct buf b = written(&op);
        for (unsigned flips = 1 + (unsigned)rng_below(&r.rng, 3); flips; flips--)
            b.p[rng_below(&r.rng, b.len)] = (char)rng_u64(&r.rng);
        if (opcode_read(buf_slice(&b), &scratch, &back)) {
            struct buf again = written(&back);
            assert_true(slice_eq(buf_slice(&b), buf_slice(&again)));
            buf_fini(&again);
            decoded++;
        }
        buf_fini(&b);
    }
    assert_in_range(decoded, 1000, 39000);
    opcode_scratch_fini(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_gives_the_known_value_at_every_length),
        cmocka_unit_test(every_kind_of_op_reads_back_as_it_was_written),
        cmocka_unit_test(a_set_costs_five_bytes_beside_key_and_value),
        cmocka_unit_test(an_op_cut_short_or_followed_by_a_byte_is_refused),
        cmocka_unit_test(ops_that_the_store_would_not_take_are_refused),
        cmocka_unit_test(what_decodes_encodes_to_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
