#include "harness.h"

#include "command/bitmap.h"

static struct harness *fresh(void) { return harness_new(4, &bits_family, &strings_family, &keys_family, &lists_family, NULL); }

static void bits_are_set_and_read(void **state)
{
    struct harness *h = fresh();
    harness_expect(h, "SETBIT k 1 1", ":0\r\n");
    assert_string_equal(harness_events(h), "new k;setbit k;");
    harness_expect(h, "GET k", "$1\r\n@\r\n");
    harness_expect(h, "SETBIT k 1 1", ":1\r\n");
    assert_string_equal(harness_events(h), ""); /* nothing changed, nothing told */
    assert_int_equal(h->last.ops, 0);
    harness_expect(h, "SETBIT k 20 0", ":0\r\n");
    harness_expect(h, "STRLEN k", ":3\r\n");
    harness_expect(h, "GETBIT k 1", ":1\r\n");
    harness_expect(h, "GETBIT k 2", ":0\r\n");
    harness_expect(h, "GETBIT k 4294967295", ":0\r\n");
    harness_expect(h, "GETBIT none 1", ":0\r\n");
    harness_expect(h, "SETBIT k 1 0", ":1\r\n");
    assert_true(slice_eq(harness_run(h, "GET k"), slice_of("$3\r\n\0\0\0\r\n", 9)));
    harness_free(h);
}

static void a_far_bit_pads_with_zeros(void **state)
{
    struct harness *h = fresh();
    harness_expect(h, "SETBIT k 8000007 1", ":0\r\n");
    harness_expect(h, "STRLEN k", ":1000001\r\n");
    harness_expect(h, "BITCOUNT k", ":1\r\n");
    harness_expect(h, "BITPOS k 1", ":8000007\r\n");
    harness_free(h);
}

static void bad_offsets_and_bits_are_refused(void **state)
{
    static const char *const offsets[] = {"-1", "x", "4294967296", "9223372036854775807", "9223372036854775808", "#1", "1.0"};
    struct harness *h = fresh();
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        char words[64];
        snprintf(words, sizeof words, "SETBIT k %s 1", offsets[i]);
        harness_expect(h, words, "-ERR bit offset is not an integer or out of range\r\n");
        snprintf(words, sizeof words, "GETBIT k %s", offsets[i]);
        harness_expect(h, words, "-ERR bit offset is not an integer or out of range\r\n");
    }
    harness_expect(h, "SETBIT k 1 2", "-ERR bit is not an integer or out of range\r\n");
    harness_expect(h, "SETBIT k 1 x", "-ERR bit is not an integer or out of range\r\n");
    harness_expect(h, "EXISTS k", ":0\r\n");
    harness_expect(h, "RPUSH l a", ":1\r\n");
    harness_expect_start(h, "SETBIT l 1 1", "-WRONGTYPE ");
    harness_expect_start(h, "GETBIT l 1", "-WRONGTYPE ");
    harness_expect_start(h, "BITCOUNT l", "-WRONGTYPE ");
    harness_expect_start(h, "BITPOS l 1", "-WRONGTYPE ");
    harness_expect_start(h, "BITFIELD l GET u8 0", "-WRONGTYPE ");
    harness_expect_start(h, "BITOP OR d l", "-WRONGTYPE ");
    harness_free(h);
}

static void ranges_count_in_bytes_or_bits(void **state)
{
    struct harness *h = fresh();
    harness_expect(h, "SET k foobar", "+OK\r\n");
    harness_expect(h, "BITCOUNT k", ":26\r\n");
    harness_expect(h, "BITCOUNT k 0 0", ":4\r\n");
    harness_expect(h, "BITCOUNT k 1 1 BYTE", ":6\r\n");
    harness_expect(h, "BITCOUNT k 5 30 BIT", ":17\r\n");
    harness_expect(h, "BITCOUNT k -2 -1", ":7\r\n");
    harness_expect(h, "BITCOUNT k 3 1", ":0\r\n");
    harness_expect(h, "BITCOUNT k -9223372036854775808 9223372036854775807 BIT", ":26\r\n");
    harness_expect(h, "BITCOUNT none", ":0\r\n");
    harness_expect(h, "BITCOUNT k 1", ":22\r\n");
    harness_expect(h, "BITCOUNT k x y BITS", "-ERR syntax error\r\n"); /* a word in the wrong place is told before bad numbers */
    harness_expect(h, "BITCOUNT k 1 2 BITS", "-ERR syntax error\r\n");
    harness_expect(h, "BITCOUNT k 1 2 BIT x", "-ERR syntax error\r\n");
    harness_expect(h, "BITCOUNT none 1 x", "-ERR value is not an integer or out of range\r\n");
    harness_free(h);
}

static void the_first_bit_is_found(void **state)
{
    struct harness *h = fresh();
    harness_expect(h, "SET k \"\\xff\\xf0\\x00\"", "+OK\r\n");
    harness_expect(h, "BITPOS k 0", ":12\r\n");
    harness_expect(h, "BITPOS k 1 2", ":-1\r\n");
    harness_expect(h, "BITPOS k 1 1", ":8\r\n");
    harness_expect(h, "BITPOS k 0 9 11 BIT", ":-1\r\n");
    harness_expect(h, "BITPOS k 0 9 -1 BIT", ":12\r\n");
    harness_expect(h, "SET ones \"\\xff\\xff\"", "+OK\r\n");
    harness_expect(h, "BITPOS ones 0", ":16\r\n"); /* the zeros behind the end */
    harness_expect(h, "BITPOS ones 0 0 -1", ":-1\r\n");
    harness_expect(h, "BITPOS ones 0 5", ":-1\r\n");
    harness_expect(h, "BITPOS none 0", ":0\r\n");
    harness_expect(h, "BITPOS none 1", ":-1\r\n");
    harness_expect(h, "BITPOS k 2", "-ERR The bit argument must be 1 or 0.\r\n");
    harness_expect(h, "BITPOS k 1 0 1 BITE", "-ERR syntax error\r\n");
    harness_free(h);
}

static void operations_join_keys_of_any_shard(void **state)
{
    struct harness *h = fresh();
    harness_expect(h, "SET a abc", "+OK\r\n");
    harness_expect(h, "SET b ab", "+OK\r\n");
    harness_expect(h, "BITOP AND d a b", ":3\r\n");
    assert_true(slice_eq(harness_run(h, "GET d"), slice_of("$3\r\nab\0\r\n", 9)));
    harness_expect(h, "BITOP OR d a b none", ":3\r\n");
    harness_expect(h, "GET d", "$3\r\nabc\r\n");
    harness_expect(h, "BITOP XOR d b a", ":3\r\n");
    assert_true(slice_eq(harness_run(h, "GET d"), slice_of("$3\r\n\0\0c\r\n", 9)));
    harness_expect(h, "BITOP NOT d b", ":2\r\n");
    harness_expect(h, "GET d", "$2\r\n\x9e\x9d\r\n");
    harness_expect(h, "BITOP AND b a none", ":3\r\n"); /* onto a source */
    assert_true(slice_eq(harness_run(h, "GET b"), slice_of("$3\r\n\0\0\0\r\n", 9)));
    harness_events(h);
    harness_expect(h, "BITOP OR d none", ":0\r\n");
    assert_string_equal(harness_events(h), "del d;");
    harness_expect(h, "EXISTS d", ":0\r\n");
    harness_expect(h, "BITOP NOT d a b", "-ERR BITOP NOT must be called with a single source key.\r\n");
    harness_expect(h, "BITOP NAND d a b", "-ERR syntax error\r\n");
    harness_free(h);
}

static void fields_overflow_as_they_are_told(void **state)
{
    struct harness *h = fresh();
    harness_expect(h, "BITFIELD k INCRBY i5 100 1 GET u4 0", "*2\r\n:1\r\n:0\r\n");
    harness_expect(h, "STRLEN k", ":14\r\n");
    harness_expect(h, "BITFIELD w SET u8 0 255 INCRBY u8 0 1", "*2\r\n:0\r\n:0\r\n");
    harness_expect(h, "BITFIELD w SET i8 0 127 INCRBY i8 0 1", "*2\r\n:0\r\n:-128\r\n");
    harness_expect(h, "BITFIELD w OVERFLOW SAT SET u8 #1 300 GET u8 8", "*2\r\n:0\r\n:255\r\n");
    harness_expect(h, "BITFIELD w OVERFLOW SAT INCRBY u8 #1 -300", "*1\r\n:0\r\n");
    harness_expect(h, "BITFIELD w OVERFLOW SAT INCRBY i8 #1 -300", "*1\r\n:-128\r\n");
    harness_expect(h, "BITFIELD w OVERFLOW FAIL INCRBY i8 #1 -1 OVERFLOW WRAP INCRBY i8 #1 -1", "*2\r\n$-1\r\n:127\r\n");
    harness_expect(h, "BITFIELD w SET i64 3 -9223372036854775808 INCRBY i64 3 -1", "*2\r\n:285978576338026496\r\n:9223372036854775807\r\n");
    harness_expect(h, "BITFIELD w SET u63 1 9223372036854775807 GET u63 1 GET i64 0",
                   "*3\r\n:1152921504606846975\r\n:9223372036854775807\r\n:-1\r\n");
    harness_expect(h, "BITFIELD_RO w GET u1 1", "*1\r\n:1\r\n");
    harness_expect(h, "BITFIELD_RO w SET u1 1 0", "-ERR BITFIELD_RO only supports the GET subcommand\r\n");
    harness_expect(h, "BITFIELD none", "*0\r\n");
    harness_expect(h, "BITFIELD none GET u8 100", "*1\r\n:0\r\n");
    harness_expect(h, "EXISTS none", ":0\r\n");
    harness_free(h);
}

static void a_field_written_to_a_new_key_is_one_change(void **state)
{
    struct harness *h = fresh();
    harness_expect(h, "BITFIELD k INCRBY i5 0 1", "*1\r\n:1\r\n");
    assert_int_equal(h->last.ops, 1);
    harness_expect(h, "BITFIELD k SET u8 80 0", "*1\r\n:0\r\n"); /* zeros, but longer */
    harness_expect(h, "STRLEN k", ":11\r\n");
    harness_expect(h, "BITFIELD new OVERFLOW FAIL SET u2 16 9", "*1\r\n$-1\r\n");
    harness_expect(h, "STRLEN new", ":3\r\n");
    harness_free(h);
}

static void a_failing_call_changes_nothing(void **state)
{
    static const char type[] = "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.\r\n";
    struct harness *h = fresh();
    harness_expect(h, "BITFIELD k SET u8 0 1 GET u64 0", type);
    harness_expect(h, "BITFIELD k SET u8 0 1 GET i65 0", type);
    harness_expect(h, "BITFIELD k SET u8 0 1 GET i0 0", type);
    harness_expect(h, "BITFIELD k SET u8 0 1 GET x8 0", type);
    harness_expect(h, "BITFIELD k SET u8 0 1 GET u8 -1", "-ERR bit offset is not an integer or out of range\r\n");
    harness_expect(h, "BITFIELD k SET u8 0 1 GET u8 #9223372036854775807", "-ERR bit offset is not an integer or out of range\r\n");
    harness_expect(h, "BITFIELD k SET u8 0 1 SET u8 0 x", "-ERR value is not an integer or out of range\r\n");
    harness_expect(h, "BITFIELD k SET u8 0 1 OVERFLOW NEVER", "-ERR Invalid OVERFLOW type specified\r\n");
    harness_expect(h, "BITFIELD k SET u8 0 1 SET u8 0", "-ERR syntax error\r\n");
    harness_expect(h, "BITFIELD k SET u8 0 1 OVERFLOW", "-ERR syntax error\r\n");
    harness_expect(h, "EXISTS k", ":0\r\n");
    harness_free(h);
}

/* ---- the pure part against bit-by-bit twins */

enum { BYTES = 200, BITS = BYTES * 8 };

static void counting_and_finding_agree_with_a_walk_over_single_bits(void **state)
{
    struct rng rng;
    rng_init(&rng, 3);
    char bytes[BYTES];
    for (unsigned round = 0; round < 3000; round++) {
        unsigned density = (unsigned)rng_below(&rng, 4);
        for (unsigned i = 0; i < BYTES; i++) bytes[i] = density == 0 ? 0 : density == 1 ? (char)0xff : (char)rng_u64(&rng);
        if (density < 2) bytes[rng_below(&rng, BYTES)] ^= (char)(1 << rng_below(&rng, 8));
        uint64_t from = rng_below(&rng, BITS), to = from + rng_below(&rng, BITS - from + 1), count = 0;
        int64_t first[2] = {-1, -1};
        for (uint64_t i = to; i-- > from;) {
            bool bit = bytes[i / 8] >> (7 - i % 8) & 1;
            count += bit;
            first[bit] = (int64_t)i;
        }
        struct slice s = slice_of(bytes, BYTES);
        assert_int_equal(bitmap_count(s, from, to), count);
        assert_int_equal(bitmap_find(s, false, from, to), first[0]);
        assert_int_equal(bitmap_find(s, true, from, to), first[1]);
    }
}

static void a_number_written_anywhere_reads_back_and_leaves_its_neighbours(void **state)
{
    struct rng rng;
    rng_init(&rng, 4);
    char bytes[BYTES], window[BITMAP_WINDOW];
    for (unsigned round = 0; round < 3000; round++) {
        for (unsigned i = 0; i < BYTES; i++) bytes[i] = (char)rng_u64(&rng);
        char before[BYTES];
        memcpy(before, bytes, BYTES);
        unsigned bits = 1 + (unsigned)rng_below(&rng, 64);
        uint64_t at = rng_below(&rng, BITS - bits + 1), value = rng_u64(&rng) >> (64 - bits);
        unsigned n = bitmap_write(slice_of(bytes, BYTES), at, bits, value, window);
        assert_true(n <= BITMAP_WINDOW && at / 8 + n <= BYTES);
        memcpy(bytes + at / 8, window, n);
        assert_true(bitmap_read(slice_of(bytes, BYTES), at, bits) == value);
        for (uint64_t i = 0; i < BITS; i++)
            if (i < at || i >= at + bits) assert_int_equal(bitmap_get(slice_of(bytes, BYTES), i), bitmap_get(slice_of(before, BYTES), i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_set_and_read),
        cmocka_unit_test(a_far_bit_pads_with_zeros),
        cmocka_unit_test(bad_offsets_and_bits_are_refused),
        cmocka_unit_test(ranges_count_in_bytes_or_bits),
        cmocka_unit_test(the_first_bit_is_found),
        cmocka_unit_test(operations_join_keys_of_any_shard),
        cmocka_unit_test(fields_overflow_as_they_are_told),
        cmocka_unit_test(a_field_written_to_a_new_key_is_one_change),
        cmocka_unit_test(a_failing_call_changes_nothing),
        cmocka_unit_test(counting_and_finding_agree_with_a_walk_over_single_bits),
        cmocka_unit_test(a_number_written_anywhere_reads_back_and_leaves_its_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
