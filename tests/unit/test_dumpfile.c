/* Stores go into dumps and come back the same; damage of any kind is found. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "dump/dumpfile.h"
#include "io/wholefile.h"
#include "store/image.h"
#include "store/store.h"
#include "storerandom.h"

#define GOLDEN "tests/golden/dump/"

static const struct dumpfile_header header = {.shard = 1, .shards = 3, .epoch = 77, .seed = 5, .cut_ms = 1800000000000};

/* ---- random stores */

static void maker_init(struct storerandom *m, uint64_t seed) { storerandom_init(m, seed, header.seed, header.cut_ms); }

static void dump_store(const struct store *s, struct buf *out, enum compress_profile profile, size_t raw_bytes)
{
    struct dumpfile_writer w;
    struct buf raw = {0};
    uint64_t entries = 0;
    dumpfile_begin(&w, out, &header, profile, 64);
    for (uint16_t d = 0; d < STORE_ALL_DBS; d++) {
        struct table_iter it;
        if (!s->dbs[d]) continue;
        table_iter_init(&it, &s->dbs[d]->keys);
        for (struct entry *e; (e = table_iter_next(&it));) {
            dumpfile_add_entry(&raw, d, e);
            entries++;
            if (raw.len < raw_bytes) continue;
            dumpfile_seal(&w, out, buf_slice(&raw), entries);
            raw.len = entries = 0;
        }
    }
    dumpfile_seal(&w, out, buf_slice(&raw), entries);
    dumpfile_end(&w, out);
    dumpfile_fini(&w);
    buf_fini(&raw);
}

/* Gives the last result of dumpfile_next, and the store with what came before it. */
static int load(struct slice file, struct store *into, uint64_t *entries)
{
    struct dumpfile_reader r;
    struct dumpfile_entry e;
    int rc;
    *entries = 0;
    dumpfile_reader_init(&r, file);
    for (; (rc = dumpfile_next(&r, &e)) == 1; ++*entries) {
        assert_true(image_valid(e.image));
        struct op op = {.kind = OP_RESTORE, .db = e.db, .key = e.key, .value = e.image, .expiry_ms = e.expiry_ms};
        store_apply(into, &op, NULL);
    }
    assert_int_equal(*entries, r.info.entries);
    assert_true((rc < 0) == (r.fault != NULL));
    assert_int_equal(dumpfile_next(&r, &e), rc);
    dumpfile_reader_fini(&r);
    return rc;
}

static void expect_same(struct store *s, struct slice file)
{
    struct store *again = store_new(99, &storerandom_limits, 1);
    struct dumpfile_info info;
    struct buf why = {0};
    uint64_t entries;
    again->now_ms = s->now_ms;
    assert_int_equal(dumpfile_check(file, &info, &why), DUMPFILE_GOOD);
    assert_int_equal(why.len, 0);
    assert_memory_equal(&info.header, &header, sizeof header);
    assert_int_equal(info.entries, storerandom_keys(s));
    assert_int_equal(load(file, again, &entries), 0);
    assert_int_equal(entries, info.entries);
    assert_true(store_digest(again) == store_digest(s));
    store_free(again);
    buf_fini(&why);
}

static void a_random_store_survives_its_dump(void **state)
{
    for (unsigned seed = 1; seed <= 24; seed++) {
        struct storerandom m;
        struct buf file = {0};
        maker_init(&m, seed);
        unsigned keys = seed == 1 ? 0 : seed % 6 ? seed * 10 : 3000;
        for (unsigned i = 0; i < keys; i++) storerandom_add(&m, i);
        dump_store(m.store, &file, (enum compress_profile)(seed % COMPRESS_PROFILES), seed % 3 ? 1 << 20 : 1000);
        expect_same(m.store, buf_slice(&file));
        buf_fini(&file);
        store_free(m.store);
    }
}

/* ---- long entries */

static void put_list(struct store *s, const char *key, size_t items, size_t item_bytes)
{
    char *bytes = mem_zalloc(item_bytes);
    for (size_t i = 0; i < items; i++) {
        struct slice item = slice_of(bytes, item_bytes);
        memcpy(bytes, &i, sizeof i);
        store_apply(s, &(struct op){.kind = OP_PUSH_TAIL, .key = slice_str(key), .items = &item, .n_items = 1}, NULL);
    }
    mem_free(bytes);
}

static void entries_around_and_over_a_block_survive(void **state)
{
    for (unsigned profile = 0; profile < COMPRESS_PROFILES; profile++) {
        struct storerandom m;
        struct buf file = {0}, value = {0};
        maker_init(&m, 5);
        for (size_t i = 0; i < 3u << 20; i++) buf_add_byte(&value, (char)(profile % 2 ? rng_u64(&m.rng) : i / 1000));
        for (int d = -20; d <= 4; d++) {
            char key[16];
            storerandom_add(&m, (unsigned)(d + 20));
            snprintf(key, sizeof key, "long%d", d);
            store_apply(m.store, &(struct op){.kind = OP_SET, .key = slice_str(key), .value = slice_of(value.p, (size_t)(DUMPFILE_BLOCK_BYTES + d))}, NULL);
        }
        store_apply(m.store, &(struct op){.kind = OP_SET, .key = SLICE("huge"), .value = buf_slice(&value), .expiry_ms = header.cut_ms + 5}, NULL);
        put_list(m.store, "list", 3000, 500);
        dump_store(m.store, &file, (enum compress_profile)profile, 64 << 20);
        expect_same(m.store, buf_slice(&file));
        buf_fini(&value);
        buf_fini(&file);
        store_free(m.store);
    }
}

static void a_length_has_room_for_what_it_may_become(void **state)
{
    static const size_t sizes[] = {0, 1, 239, 240, 255, 256, 65519, 65520, 65535, 65536};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct buf image = {0}, raw = {0}, file = {0};
        struct dumpfile_writer w;
        struct dumpfile_reader r;
        struct dumpfile_entry e;
        for (size_t k = 0; k < sizes[i]; k++) buf_add_byte(&image, (char)k);
        dumpfile_add_image(&raw, 255, slice_of(image.p, sizes[i] / 2), INT64_MIN, buf_slice(&image));
        dumpfile_begin(&w, &file, &header, COMPRESS_BALANCED, 0);
        dumpfile_seal(&w, &file, buf_slice(&raw), 1);
        dumpfile_end(&w, &file);
        dumpfile_reader_init(&r, buf_slice(&file));
        assert_int_equal(dumpfile_next(&r, &e), 1);
        assert_int_equal(e.db, 255);
        assert_true(e.expiry_ms == INT64_MIN && slice_eq(e.image, buf_slice(&image)) && slice_eq(e.key, slice_of(image.p, sizes[i] / 2)));
        assert_int_equal(dumpfile_next(&r, &e), 0);
        dumpfile_reader_fini(&r);
        dumpfile_fini(&w);
        buf_fini(&image);
        buf_fini(&raw);
        buf_fini(&file);
    }
}

/* ---- damage */

/* Nothing of a damaged file reads to its end, and the reader gives only entries of blocks that are whole. */
static void expect_damage(struct slice file)
{
    struct dumpfile_info info;
    struct buf why = {0};
    struct store *s = store_new(1, &storerandom_limits, 1);
    uint64_t entries;
    s->now_ms = header.cut_ms;
    assert_int_equal(dumpfile_check(file, &info, &why), DUMPFILE_DAMAGED);
    assert_true(why.len > 10);
    assert_int_equal(load(file, s, &entries), -EINVAL);
    store_free(s);
    buf_fini(&why);
}

/* Small blocks of one entry each, some of which can be packed. */
static void make_small_file(struct buf *file, size_t keys, enum compress_profile profile)
{
    struct storerandom m;
    maker_init(&m, 3);
    struct dumpfile_writer w;
    struct buf raw = {0}, image = {0};
    dumpfile_begin(&w, file, &header, profile, 64);
    for (unsigned i = 0; i < keys; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%u", i);
        raw.len = image.len = 0;
        buf_add_str(&image, i % 2 ? "\x01\x02\x03one\x03two" : "\x00");
        if (i % 2 == 0) {
            buf_add(&image, "\x00\x40\xc8", 3);
            for (unsigned k = 0; k < 200; k++) buf_add_byte(&image, (char)(i % 4 ? 'x' : (char)rng_u64(&m.rng)));
        }
        dumpfile_add_image(&raw, (uint16_t)(i % 3), slice_str(key), i % 5 ? 0 : header.cut_ms + i, buf_slice(&image));
        dumpfile_seal(&w, file, buf_slice(&raw), 1);
    }
    dumpfile_end(&w, file);
    dumpfile_fini(&w);
    store_free(m.store);
    buf_fini(&raw);
    buf_fini(&image);
}

static void every_flipped_bit_is_found(void **state)
{
    struct buf file = {0};
    make_small_file(&file, 8, COMPRESS_BALANCED);
    for (size_t i = 0; i < file.len * 8; i++) {
        file.p[i / 8] ^= (char)(1 << i % 8);
        expect_damage(buf_slice(&file));
        file.p[i / 8] ^= (char)(1 << i % 8);
    }
    buf_fini(&file);
}

static void every_truncation_is_found(void **state)
{
    struct buf file = {0};
    make_small_file(&file, 8, COMPRESS_BALANCED);
    for (size_t n = 0; n < file.len; n++) {
        char *exact = mem_dup(file.p, n);
        expect_damage(slice_of(exact, n));
        mem_free(exact);
    }
    buf_add_byte(&file, 0);
    expect_damage(buf_slice(&file));
    buf_fini(&file);
}

static void a_truncation_between_the_pieces_of_an_entry_is_found(void **state)
{
    struct storerandom m;
    struct buf file = {0}, value = {0};
    maker_init(&m, 1);
    for (size_t i = 0; i < 1u << 20; i++) buf_add_byte(&value, (char)rng_u64(&m.rng));
    store_apply(m.store, &(struct op){.kind = OP_SET, .key = SLICE("k"), .value = buf_slice(&value)}, NULL);
    dump_store(m.store, &file, COMPRESS_NONE, 1 << 20);
    for (size_t pieces = 0; pieces < 4; pieces++) {
        size_t at = DUMPFILE_HEADER_BYTES + pieces * (16 + DUMPFILE_BLOCK_BYTES);
        expect_damage(slice_of(file.p, at));
        struct buf cut = {0}; /* and with the trailer behind it */
        buf_add(&cut, file.p, at);
        buf_add(&cut, file.p + file.len - 40, 40);
        expect_damage(buf_slice(&cut));
        buf_fini(&cut);
    }
    buf_fini(&value);
    buf_fini(&file);
    store_free(m.store);
}

static void blocks_that_change_places_are_found(void **state)
{
    struct buf file = {0}, moved = {0};
    make_small_file(&file, 4, COMPRESS_BALANCED);
    uint32_t first = 0, second = 0;
    memcpy(&first, file.p + DUMPFILE_HEADER_BYTES + 4, 4);
    first += 16;
    memcpy(&second, file.p + DUMPFILE_HEADER_BYTES + first + 4, 4);
    second += 16;
    const char *p = file.p + DUMPFILE_HEADER_BYTES;
    buf_add(&moved, file.p, DUMPFILE_HEADER_BYTES);
    buf_add(&moved, p + first, second);
    buf_add(&moved, p, first);
    buf_add(&moved, p + first + second, (size_t)(file.p + file.len - p) - first - second);
    assert_int_equal(moved.len, file.len);
    expect_damage(buf_slice(&moved));
    buf_fini(&file);
    buf_fini(&moved);
}

/* ---- golden files: one stored raw, whose bytes are compared, and one packed, with all types, whose bytes are up to the library */

static bool is_writing_golden(void)
{
    const char *mode = getenv("SHERD_GOLDEN");
    return mode && strcmp(mode, "write") == 0;
}

static void the_format_is_that_of_the_golden_file(void **state)
{
    struct buf now = {0}, golden = {0};
    make_small_file(&now, 20, COMPRESS_NONE);
    if (is_writing_golden()) assert_int_equal(wholefile_replace(GOLDEN "raw-1.dump", buf_slice(&now), 0644), 0);
    assert_int_equal(wholefile_read(GOLDEN "raw-1.dump", 1 << 20, &golden), 0);
    assert_true(slice_eq(buf_slice(&golden), buf_slice(&now)));
    buf_fini(&now);
    buf_fini(&golden);
}

static void the_packed_golden_file_holds_all_types(void **state)
{
    struct storerandom m;
    struct buf golden = {0};
    maker_init(&m, 11);
    for (unsigned i = 0; i < 20; i++) storerandom_add(&m, i);
    if (is_writing_golden()) {
        struct buf now = {0};
        dump_store(m.store, &now, COMPRESS_BALANCED, 2000);
        assert_int_equal(wholefile_replace(GOLDEN "packed-1.dump", buf_slice(&now), 0644), 0);
        buf_fini(&now);
    }
    assert_int_equal(wholefile_read(GOLDEN "packed-1.dump", 1 << 20, &golden), 0);
    expect_same(m.store, buf_slice(&golden));
    buf_fini(&golden);
    store_free(m.store);
}

static void a_newer_version_is_told_from_damage(void **state)
{
    static const char newer[] = "SHERDDMP\x02\0\0\0\x01\0\0\0\x03\0\0\0" "epochnumseednumb" "timecut!" "\x00\x00\x00\x00";
    struct buf file = {0}, why = {0};
    struct dumpfile_info info;
    buf_add(&file, newer, DUMPFILE_HEADER_BYTES);
    assert_int_equal(dumpfile_check(buf_slice(&file), &info, &why), DUMPFILE_DAMAGED);
    uint32_t crc = crc32c(CRC32C_START, file.p, 44);
    memcpy(file.p + 44, &crc, 4);
    assert_int_equal(dumpfile_check(buf_slice(&file), &info, &why), DUMPFILE_NEWER);
    buf_fini(&file);
    buf_fini(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_random_store_survives_its_dump),
        cmocka_unit_test(entries_around_and_over_a_block_survive),
        cmocka_unit_test(a_length_has_room_for_what_it_may_become),
        cmocka_unit_test(every_flipped_bit_is_found),
        cmocka_unit_test(every_truncation_is_found),
        cmocka_unit_test(a_truncation_between_the_pieces_of_an_entry_is_found),
        cmocka_unit_test(blocks_that_change_places_are_found),
        cmocka_unit_test(the_format_is_that_of_the_golden_file),
        cmocka_unit_test(the_packed_golden_file_holds_all_types),
        cmocka_unit_test(a_newer_version_is_told_from_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
