/* Redis's dump.rdb: a real one, and small ones made here with everything that a file may hold. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/le.h"
#include "base/mem.h"
#include "dump/rdbfile.h"
#include "io/wholefile.h"
#include "store/crc64.h"
#include "store/image.h"

#define ADD(buf, literal) buf_add(buf, "" literal, sizeof(literal) - 1)

static void begin(struct buf *file, const char *version)
{
    file->len = 0;
    ADD(file, "REDIS");
    buf_add_str(file, version);
}

static void finish(struct buf *file)
{
    ADD(file, "\xff");
    le_add_u64(file, crc64(0, buf_slice(file)));
}

struct seen {
    unsigned keys, left_out;
    const char *what; /* of the last that was left out */
    struct rdbfile_reader r;
};

static int read_all(struct slice file, struct seen *s)
{
    struct rdbfile_item item;
    *s = (struct seen){0};
    int rc = rdbfile_reader_init(&s->r, file);
    while (rc >= 0 && (rc = rdbfile_next(&s->r, &item)) == 1) {
        s->keys += item.kind == RDBFILE_KEY;
        s->left_out += item.kind == RDBFILE_LEFT_OUT;
        if (item.kind == RDBFILE_LEFT_OUT) s->what = item.what;
    }
    assert_true((rc < 0) == (s->r.fault != NULL));
    assert_int_equal(rdbfile_next(&s->r, &item), rc);
    rdbfile_reader_fini(&s->r);
    return rc;
}

static void a_real_dump_is_read_to_its_end(void **state)
{
    struct buf file = {0};
    struct rdbfile_reader r;
    struct rdbfile_item item;
    unsigned keys = 0, left_out = 0, expiring = 0, elsewhere = 0;
    int rc;
    assert_int_equal(wholefile_read("tests/golden/rdb/redis-7.0.rdb", 1 << 20, &file), 0);
    assert_int_equal(rdbfile_reader_init(&r, buf_slice(&file)), 0);
    while ((rc = rdbfile_next(&r, &item)) == 1) {
        if (item.kind == RDBFILE_LEFT_OUT) {
            assert_true(strcmp(item.what, "stream") == 0 || strcmp(item.what, "function library") == 0);
            left_out++;
            continue;
        }
        assert_true(image_valid(item.image));
        keys++;
        expiring += item.expiry_ms != 0;
        elsewhere += item.db != 0;
        if (slice_is(item.key, "string:expiring")) assert_true(item.expiry_ms == 32503680000000);
        if (slice_is(item.key, "key in 15")) assert_int_equal(item.db, 15);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(keys, 21);
    assert_int_equal(expiring, 2);
    assert_int_equal(elsewhere, 3);
    assert_int_equal(left_out, 2);
    assert_int_equal(r.version, 10);
    assert_true(r.is_summed);
    assert_memory_equal(r.redis_version, "7.0.", 4);
    assert_int_equal(r.sized_keys, 22);
    rdbfile_reader_fini(&r);
    buf_fini(&file);
}

/* Every opcode once, with a key at the end of each run. */
static void make_file(struct buf *file)
{
    begin(file, "0011");
    ADD(file, "\xfa\x09redis-ver\x05" "7.2.4");
    ADD(file, "\xfa\x04time\xc0\x05");
    ADD(file, "\xf5\x03lib");
    ADD(file, "\xf7\x81\x01\x02\x03\x04\x05\x06\x07\x08\x02\x01\x05\x03" "abc\x01\x07\x03" "1234\x04" "12345678\x00");
    ADD(file, "\xfe\x02\xfb\x03\x01");
    ADD(file, "\xf4\x01\x02\x03");
    ADD(file, "\xfc\x01\x02\x03\x04\x05\x06\x00\x00\xf8\x0a\x00\x03key\x05value");
    ADD(file, "\xfd\x01\x02\x03\x04\xf9\x0a\x00\xc1\x39\x30\xc0\x07");
    ADD(file, "\x04\x04hash\x01\x01" "f\x01v");
    ADD(file, "\xfe\x03\x05\x04zset\x01\x01m\x00\x00\x00\x00\x00\x00\xf0\x3f");
    finish(file);
}

static void all_opcodes_are_understood(void **state)
{
    static const struct { uint64_t db; int64_t expiry_ms; const char *key, *what; size_t image_n; } expected[] = {
        {0, 0, "", "function library", 0}, {0, 0, "", "module data", 0}, {2, 0x060504030201, "key", NULL, 7}, {2, 0x04030201ll * 1000, "12345", NULL, 3},
        {2, 0, "hash", NULL, 6}, {3, 0, "zset", NULL, 12}};
    struct buf file = {0};
    struct rdbfile_reader r;
    struct rdbfile_item item;
    make_file(&file);
    assert_int_equal(rdbfile_reader_init(&r, buf_slice(&file)), 0);
    for (unsigned i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(rdbfile_next(&r, &item), 1);
        assert_int_equal(item.kind, expected[i].what ? RDBFILE_LEFT_OUT : RDBFILE_KEY);
        if (expected[i].what) assert_string_equal(item.what, expected[i].what);
        assert_true(slice_eq(item.key, slice_str(expected[i].key)));
        assert_int_equal(item.image.n, expected[i].image_n);
        if (expected[i].what) continue;
        assert_int_equal(item.db, expected[i].db);
        assert_true(item.expiry_ms == expected[i].expiry_ms && image_valid(item.image));
    }
    assert_int_equal(rdbfile_next(&r, &item), 0);
    assert_string_equal(r.redis_version, "7.2.4");
    assert_int_equal(r.sized_keys, 3);
    rdbfile_reader_fini(&r);
    buf_fini(&file);
}

static void every_flipped_bit_is_found(void **state)
{
    struct buf file = {0};
    struct seen s;
    make_file(&file);
    for (size_t i = 0; i < file.len * 8; i++) {
        file.p[i / 8] ^= (char)(1 << i % 8);
        assert_int_equal(read_all(buf_slice(&file), &s), -EINVAL);
        file.p[i / 8] ^= (char)(1 << i % 8);
    }
    assert_int_equal(read_all(buf_slice(&file), &s), 0);
    buf_fini(&file);
}

static void every_truncation_is_found(void **state)
{
    struct buf file = {0};
    struct seen s;
    make_file(&file);
    for (size_t n = 0; n < file.len; n++) {
        char *exact = mem_dup(file.p, n);
        assert_int_equal(read_all(slice_of(exact, n), &s), -EINVAL);
        mem_free(exact);
    }
    buf_add_byte(&file, '*'); /* the first byte of an append-only file's commands */
    assert_int_equal(read_all(buf_slice(&file), &s), -EINVAL);
    buf_fini(&file);
}

static void a_file_without_a_checksum_is_read(void **state)
{
    struct buf file = {0};
    struct seen s;
    begin(&file, "0007");
    ADD(&file, "\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0");
    assert_int_equal(read_all(buf_slice(&file), &s), 0);
    assert_int_equal(s.keys, 1);
    assert_false(s.r.is_summed);
    begin(&file, "0003");
    ADD(&file, "\x00\x01k\x01v\xff");
    assert_int_equal(read_all(buf_slice(&file), &s), 0);
    assert_int_equal(s.keys, 1);
    buf_fini(&file);
}

#define ID16 "0123456789abcdef"
#define GROUPS(more, times) "\x01\x01g\x01\x02" more "\x01" ID16 "12345678\x03" "\x01\x01" "c" times "\x02" ID16 ID16

static void what_sherd_does_not_have_is_named_and_passed(void **state)
{
    static const struct { const char *what; struct slice item; } items[] = {
        {"stream", SLICE("\x0f\x01s\x01\x10" ID16 "\x03" "lpk\x01\x02\x03" GROUPS("", "12345678"))},
        {"stream", SLICE("\x13\x01s\x01\x10" ID16 "\x03" "lpk\x01\x02\x03\x01\x02\x03\x04\x05" GROUPS("\x07", "12345678"))},
        {"stream", SLICE("\x15\x01s\x01\x10" ID16 "\x03" "lpk\x01\x02\x03\x01\x02\x03\x04\x05" GROUPS("\x07", "1234567812345678"))},
        {"module value", SLICE("\x07\x01m\x81\x01\x02\x03\x04\x05\x06\x07\x08\x01\x05\x02\x06\x05\x03" "abc\x00")},
        {"hash with expiring fields", SLICE("\x16\x01h\x01\x05\x01" "f\x01v")},
        {"hash with expiring fields", SLICE("\x17\x01h\x03" "lpk")},
        {"hash with expiring fields", SLICE("\x18\x01h" "12345678\x01\x00\x01" "f\x01v")},
        {"hash with expiring fields", SLICE("\x19\x01h" "12345678\x03" "lpk")},
    };
    struct buf file = {0};
    struct seen s;
    for (unsigned i = 0; i < sizeof items / sizeof *items; i++) {
        begin(&file, "0012");
        buf_add_slice(&file, items[i].item);
        ADD(&file, "\x00\x01k\x01v");
        finish(&file);
        assert_int_equal(read_all(buf_slice(&file), &s), 0);
        assert_int_equal(s.left_out, 1);
        assert_int_equal(s.keys, 1);
        assert_string_equal(s.what, items[i].what);
    }
    buf_fini(&file);
}

static void what_cannot_be_passed_is_refused(void **state)
{
    static const struct slice items[] = {SLICE("\x06\x01m\x00"), SLICE("\x08\x01m\x00"), SLICE("\x1a\x01m\x00"), SLICE("\xf3\x00"), SLICE("\xf6\x01x")};
    struct buf file = {0};
    struct seen s;
    for (unsigned i = 0; i < sizeof items / sizeof *items; i++) {
        begin(&file, "0011");
        buf_add_slice(&file, items[i]);
        finish(&file);
        assert_int_equal(read_all(buf_slice(&file), &s), -EINVAL);
        assert_int_equal(s.r.fault_at, 9);
    }
    begin(&file, "0013");
    finish(&file);
    assert_int_equal(read_all(buf_slice(&file), &s), -EINVAL);
    assert_int_equal(read_all(SLICE("SHERDDMP and more"), &s), -EINVAL);
    buf_fini(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_real_dump_is_read_to_its_end),
        cmocka_unit_test(all_opcodes_are_understood),
        cmocka_unit_test(every_flipped_bit_is_found),
        cmocka_unit_test(every_truncation_is_found),
        cmocka_unit_test(a_file_without_a_checksum_is_read),
        cmocka_unit_test(what_sherd_does_not_have_is_named_and_passed),
        cmocka_unit_test(what_cannot_be_passed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
