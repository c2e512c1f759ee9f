#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "store/arena.h"
#include "store/crc64.h"
#include "store/hash.h"
#include "store/image.h"
#include "store/list.h"
#include "store/lzf.h"
#include "store/set.h"
#include "store/store.h"
#include "store/zset.h"

#define GOLDEN "tests/golden/restore"

static const struct store_limits limits = {
    .hash_entries = 128, .hash_value = 64, .set_ints = 512, .set_entries = 128, .set_value = 64, .zset_entries = 128, .zset_value = 64, .list_size = -2};

static struct rng chance = {1};

static struct kit kit_open(void) { return (struct kit){.arena = arena_new(), .seed = 7, .rng = &chance, .limits = &limits}; }

static void value_free(const struct kit *k, struct entry *e)
{
    switch (entry_type(e)) {
    case TYPE_LIST: list_drop(k, e); break;
    case TYPE_SET: set_drop(k, e); break;
    case TYPE_HASH: hash_drop(k, e); break;
    case TYPE_ZSET: zset_drop(k, e); break;
    default: break;
    }
    entry_release(k->arena, e);
}

/* ---- values as lines of text: the notation of the golden files */

struct lines {
    char **line;
    size_t n, cap;
};

static void lines_take(struct lines *l, char *line)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 64;
        l->line = mem_resize(l->line, l->cap * sizeof *l->line);
    }
    l->line[l->n++] = line;
}

static void lines_fini(struct lines *l)
{
    for (size_t i = 0; i < l->n; i++) mem_free(l->line[i]);
    mem_free(l->line);
}

static int line_cmp(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
static void lines_sort(struct lines *l) { qsort(l->line, l->n, sizeof *l->line, line_cmp); }

static void lines_equal(const struct lines *a, const struct lines *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) assert_string_equal(a->line[i], b->line[i]);
}

static void text_of(struct buf *out, struct slice s)
{
    bool run = s.n > 8;
    for (size_t i = 1; run && i < s.n; i++) run = s.p[i] == s.p[0];
    for (size_t i = 0; i < (run ? 1 : s.n); i++) buf_printf(out, "%02x", (unsigned char)s.p[i]);
    if (run) buf_printf(out, "*%zu", s.n);
}

static char *line_of(struct slice a, const struct slice *b, const double *score)
{
    struct buf out = {0};
    text_of(&out, a);
    if (b) {
        buf_add_byte(&out, ' ');
        text_of(&out, *b);
    }
    if (score) buf_printf(&out, " %.17g", *score);
    buf_add_byte(&out, 0);
    return out.p;
}

static const char *const type_names[] = {"string", "list", "set", "zset", "hash"};

static struct lines lines_of_entry(const struct entry *e)
{
    struct lines l = {0};
    struct slice a, b;
    double score;
    struct list_iter li;
    struct set_iter si;
    struct hash_iter hi;
    struct zset_iter zi;
    switch (entry_type(e)) {
    case TYPE_STRING: lines_take(&l, line_of(entry_value(e), NULL, NULL)); return l;
    case TYPE_LIST:
        list_iter_init(&li, e, 0, false);
        while (list_iter_next(&li, &a)) lines_take(&l, line_of(a, NULL, NULL));
        return l;
    case TYPE_SET:
        set_iter_init(&si, e);
        while (set_iter_next(&si, &a)) lines_take(&l, line_of(a, NULL, NULL));
        break;
    case TYPE_HASH:
        hash_iter_init(&hi, e);
        while (hash_iter_next(&hi, &a, &b)) lines_take(&l, line_of(a, &b, NULL));
        break;
    default:
        zset_iter_init(&zi, e, 0, false);
        while (zset_iter_next(&zi, &a, &score)) lines_take(&l, line_of(a, NULL, &score));
    }
    lines_sort(&l);
    return l;
}

/* ---- golden files */

static unsigned hex_digit(char c) { return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10); }

static struct buf unhex(const char *hex)
{
    struct buf out = {0};
    for (; hex[0] && hex[1]; hex += 2) buf_add_byte(&out, (char)(hex_digit(hex[0]) << 4 | hex_digit(hex[1])));
    return out;
}

static struct lines file_lines(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", GOLDEN, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    struct lines l = {0};
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0;) {
        line[n - 1] = 0;
        lines_take(&l, mem_strdup(line));
    }
    free(line);
    fclose(f);
    assert_true(l.n >= 3);
    return l;
}

/* Scores are compared as numbers: a real server's text of a double need not be ours. */
static void canonical_scores(struct lines *l)
{
    for (size_t i = 0; i < l->n; i++) {
        char *space = strchr(l->line[i], ' ');
        struct buf out = {0};
        buf_printf(&out, "%.*s %.17g", (int)(space - l->line[i]), l->line[i], strtod(space + 1, NULL));
        buf_add_byte(&out, 0);
        mem_free(l->line[i]);
        l->line[i] = out.p;
    }
}

static unsigned each_golden(void (*fn)(const char *name, struct slice framed, const char *type, struct lines *contents))
{
    DIR *dir = opendir(GOLDEN);
    assert_non_null(dir);
    unsigned files = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        if (!strstr(d->d_name, ".txt")) continue;
        struct lines l = file_lines(d->d_name), contents = {0};
        struct buf framed = unhex(l.line[0]);
        for (size_t i = 2; i < l.n; i++) lines_take(&contents, mem_strdup(l.line[i]));
        if (strcmp(l.line[1], "zset") == 0) canonical_scores(&contents);
        if (strcmp(l.line[1], "list") != 0) lines_sort(&contents);
        fn(d->d_name, buf_slice(&framed), l.line[1], &contents);
        lines_fini(&contents);
        buf_fini(&framed);
        lines_fini(&l);
        files++;
    }
    closedir(dir);
    return files;
}

static void reads_and_returns(const char *name, struct slice framed, const char *type, struct lines *contents)
{
    struct kit k = kit_open();
    struct slice image;
    assert_true(image_unseal(framed, &image));
    assert_true(image_valid(image));
    struct entry *e = image_read(&k, image, SLICE("key"), 12345);
    assert_non_null(e);
    assert_string_equal(type_names[entry_type(e)], type);
    assert_int_equal(entry_expiry_ms(e), 12345);
    assert_true(slice_eq(entry_key(e), SLICE("key")));
    struct lines got = lines_of_entry(e);
    lines_equal(&got, contents);

    struct buf again = {0};
    image_write(&again, e);
    struct entry *e2 = image_read(&k, buf_slice(&again), SLICE("other"), 0);
    assert_non_null(e2);
    struct lines got2 = lines_of_entry(e2);
    lines_equal(&got2, contents);
    lines_fini(&got);
    lines_fini(&got2);
    buf_fini(&again);
    value_free(&k, e);
    value_free(&k, e2);
    assert_int_equal(arena_live_bytes(k.arena), 0);
    arena_free(k.arena);
}

static void payloads_of_a_real_server_are_read_and_written_back(void **state)
{
    assert_true(each_golden(reads_and_returns) >= 26);
}

/* image_valid and image_read must agree on anything, and a refused image must leave nothing behind. */
static bool agree(struct slice image)
{
    struct kit k = kit_open();
    struct entry *e = image_read(&k, image, SLICE("k"), 0);
    bool built = e != NULL;
    assert_int_equal(image_valid(image), built);
    if (e) value_free(&k, e);
    assert_int_equal(arena_live_bytes(k.arena), 0);
    arena_free(k.arena);
    return built;
}

static void is_refused_when_cut(const char *name, struct slice framed, const char *type, struct lines *contents)
{
    struct slice image;
    assert_true(image_unseal(framed, &image));
    size_t step = image.n > 512 ? image.n / 256 : 1;
    for (size_t n = 0; n < image.n; n += n < 64 ? 1 : step) {
        char *cut = mem_dup(image.p, n); /* its own block: a sanitizer sees a read past it */
        assert_false(agree(slice_of(cut, n)));
        mem_free(cut);
    }
    struct buf longer = {0};
    buf_add_slice(&longer, image);
    buf_add_byte(&longer, 0);
    assert_false(agree(buf_slice(&longer)));
    buf_fini(&longer);
}

static void a_cut_or_lengthened_image_is_refused(void **state) { assert_true(each_golden(is_refused_when_cut) >= 26); }

static void is_harmless_when_damaged(const char *name, struct slice framed, const char *type, struct lines *contents)
{
    struct rng rng;
    rng_init(&rng, 42);
    struct slice image;
    assert_true(image_unseal(framed, &image));
    for (unsigned round = 0; round < 300; round++) {
        char *copy = mem_dup(image.p, image.n);
        for (unsigned i = 0; i <= round % 3; i++) {
            size_t span = rng_below(&rng, 2) ? image.n : image.n < 64 ? image.n : 64;
            copy[rng_below(&rng, span)] = (char)rng_u64(&rng);
        }
        agree(slice_of(copy, image.n));
        mem_free(copy);
    }
}

static void a_damaged_image_is_refused_or_read_but_never_harmful(void **state) { assert_true(each_golden(is_harmless_when_damaged) >= 26); }

static void a_damaged_frame_is_refused(void **state)
{
    struct buf b = {0};
    struct slice image;
    buf_add(&b, "\x00\x05hello", 7);
    image_seal(&b);
    assert_true(image_unseal(buf_slice(&b), &image));
    assert_true(slice_eq(image, slice_of("\x00\x05hello", 7)));
    for (size_t i = 0; i < b.len; i++) {
        b.p[i] ^= 4;
        assert_false(image_unseal(buf_slice(&b), &image));
        b.p[i] ^= 4;
    }
    for (size_t n = 0; n < 10; n++) assert_false(image_unseal(slice_of(b.p, n), &image));
    buf_fini(&b);
}

static void frame_with_version(uint8_t version, struct buf *b)
{
    buf_add(b, "\x00\xc0\x01", 3);
    buf_add_byte(b, (char)version);
    buf_add_byte(b, 0);
    uint64_t sum = crc64(0, buf_slice(b));
    for (int i = 0; i < 8; i++) buf_add_byte(b, (char)(sum >> (8 * i)));
}

static void versions_up_to_twelve_are_accepted(void **state)
{
    for (uint8_t v = 1; v < 20; v++) {
        struct buf b = {0};
        struct slice image;
        frame_with_version(v, &b);
        assert_int_equal(image_unseal(buf_slice(&b), &image), v <= 12);
        buf_fini(&b);
    }
}

static void the_checksum_is_that_of_redis(void **state)
{
    assert_true(crc64(0, SLICE("123456789")) == 0xe9c6d914c4b8d9caull);
    assert_true(crc64(crc64(0, SLICE("1234")), SLICE("56789")) == 0xe9c6d914c4b8d9caull);
}

#define IMAGE(bytes) slice_of(bytes, sizeof(bytes) - 1)

static void a_member_or_field_that_comes_twice_is_refused(void **state)
{
    assert_true(agree(IMAGE("\x02\x02\x01" "a\x01" "b")));
    assert_false(agree(IMAGE("\x02\x02\x01" "a\x01" "a")));
    assert_false(agree(IMAGE("\x02\x02\x01" "7\xc0\x07"))); /* the same member in two forms */
    assert_true(agree(IMAGE("\x04\x02\x01" "a\x01" "x\x01" "b\x01" "x")));
    assert_false(agree(IMAGE("\x04\x02\x01" "a\x01" "x\x01" "a\x01" "y")));
    assert_false(agree(IMAGE("\x05\x02\x01" "a\0\0\0\0\0\0\0\0\x01" "a\0\0\0\0\0\0\xf0\x3f")));
    assert_true(agree(IMAGE("\x01\x02\x01" "a\x01" "a")));
    assert_false(agree(IMAGE("\x0b\x0c\x02\0\0\0\x02\0\0\0\x05\0\x05\0"))); /* intset 5, 5 */
    assert_false(agree(IMAGE("\x0b\x0c\x02\0\0\0\x02\0\0\0\x06\0\x05\0"))); /* intset 6, 5 */
    assert_true(agree(IMAGE("\x0b\x0c\x02\0\0\0\x02\0\0\0\x05\0\x06\0")));
}

static void scores_that_are_no_numbers_are_refused(void **state)
{
    assert_false(agree(IMAGE("\x05\x01\x01" "a\0\0\0\0\0\0\xf8\x7f")));
    assert_false(agree(IMAGE("\x03\x01\x01" "a\xfd")));
    assert_false(agree(IMAGE("\x03\x01\x01" "a\x03" "nan")));
    assert_false(agree(IMAGE("\x03\x01\x01" "a\x00")));
    assert_true(agree(IMAGE("\x03\x01\x01" "a\xff")));
    assert_true(agree(IMAGE("\x11\x0c\x0c\0\0\0\x02\0\x81" "a\x02\x05\x01\xff")));
    assert_false(agree(IMAGE("\x11\x0d\x0d\0\0\0\x02\0\x81" "a\x02\x81" "x\x02\xff")));
    assert_false(agree(IMAGE("\x11\x0a\x0a\0\0\0\x01\0\x81" "a\x02\xff"))); /* a member without score */
}

static void empty_collections_are_refused(void **state)
{
    assert_false(agree(IMAGE("")));
    assert_false(agree(IMAGE("\x01\x00")));
    assert_false(agree(IMAGE("\x02\x00")));
    assert_false(agree(IMAGE("\x04\x00")));
    assert_false(agree(IMAGE("\x05\x00")));
    assert_false(agree(IMAGE("\x10\x07\x07\0\0\0\0\0\xff")));
    assert_false(agree(IMAGE("\x12\x01\x02\x07\x07\0\0\0\0\0\xff")));
    assert_false(agree(IMAGE("\x0b\x08\x02\0\0\0\0\0\0\0")));
    assert_true(agree(IMAGE("\x00\x00")));
}

static void sets_as_seven_two_packs_them_are_read(void **state)
{
    struct kit k = kit_open();
    struct entry *e = image_read(&k, IMAGE("\x14\x0c\x0c\0\0\0\x02\0\x81" "a\x02\x05\x01\xff"), SLICE("k"), 0);
    assert_non_null(e);
    assert_int_equal(entry_type(e), TYPE_SET);
    assert_int_equal(set_len(e), 2);
    assert_true(set_has(e, SLICE("a")) && set_has(e, SLICE("5")));
    value_free(&k, e);
    arena_free(k.arena);
    assert_false(agree(IMAGE("\x14\x0c\x0c\0\0\0\x02\0\x81" "5\x02\x05\x01\xff"))); /* "5" and 5 */
}

static void lengths_that_lie_are_refused_before_memory_is_asked_for(void **state)
{
    assert_false(agree(IMAGE("\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff" "abc")));
    assert_false(agree(IMAGE("\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01" "a")));
    assert_false(agree(IMAGE("\x00\xc3\x02\x80\x20\x00\x00\x00\x00" "a")));
    assert_false(agree(IMAGE("\x00\xc3\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\x00" "a")));
    assert_false(agree(IMAGE("\x06\x00")));
    assert_false(agree(IMAGE("\x0f\x00")));
    assert_false(agree(IMAGE("\x00\xc4\x00")));
}

static void decompression_stays_inside_its_output(void **state)
{
    char out[16];
    assert_true(lzf_unpack(IMAGE("\x00" "a\x20\x00"), out, 4)); /* "a", then 3 times the byte before */
    assert_memory_equal(out, "aaaa", 4);
    assert_false(lzf_unpack(IMAGE("\x00" "a\x20\x00"), out, 3));
    assert_false(lzf_unpack(IMAGE("\x00" "a\x20\x00"), out, 5));
    assert_false(lzf_unpack(IMAGE("\x00" "a\x20\x01"), out, 4)); /* before the first byte */
    assert_false(lzf_unpack(IMAGE("\x00" "a\x20"), out, 4));
    assert_false(lzf_unpack(IMAGE("\x00" "a\xe0"), out, 4));
    assert_false(lzf_unpack(IMAGE("\x05" "a"), out, 6));
}

/* ---- random values of every type and size come back equal */

static struct slice random_item(struct rng *rng, char *room)
{
    size_t n;
    if (rng_below(rng, 2)) {
        n = num_format_i64(room, (int64_t)rng_u64(rng) >> rng_below(rng, 64));
    } else {
        n = rng_below(rng, 20) ? rng_below(rng, 40) : rng_below(rng, 20000);
        for (size_t i = 0; i < n; i++) room[i] = (char)rng_u64(rng);
    }
    return slice_of(room, n);
}

static struct entry *random_value(const struct kit *k, struct rng *rng)
{
    enum type t = (enum type)rng_below(rng, TYPE_STREAM);
    size_t n = 1 + rng_below(rng, rng_below(rng, 4) ? 60 : 700);
    char *a = mem_alloc(20000), *b = mem_alloc(20000);
    struct slice item = random_item(rng, a);
    bool added;
    struct entry *e;
    switch (t) {
    case TYPE_STRING:
        e = entry_new(k->arena, TYPE_STRING, ENC_BYTES, SLICE("k"), item.n, 0);
        memcpy(entry_value_ptr(e), item.p, item.n);
        n = 0;
        break;
    case TYPE_LIST: e = list_new(k, SLICE("k")); break;
    case TYPE_SET: e = set_new(k, SLICE("k"), item); break;
    case TYPE_HASH: e = hash_new(k, SLICE("k")); break;
    default: e = zset_new(k, SLICE("k"));
    }
    for (size_t i = 0; i < n; i++, item = random_item(rng, a)) {
        if (t == TYPE_LIST) e = list_push(k, e, rng_below(rng, 2), &item, 1);
        if (t == TYPE_SET) e = set_add(k, e, item, &added);
        if (t == TYPE_HASH) e = hash_put(k, e, item, random_item(rng, b), &added);
        if (t == TYPE_ZSET) e = zset_put(k, e, item, (double)(int64_t)rng_u64(rng) / 3, &added);
    }
    mem_free(a);
    mem_free(b);
    return e;
}

static void any_value_survives_its_image(void **state)
{
    struct rng rng;
    rng_init(&rng, 20);
    unsigned seen[TYPE_COUNT] = {0};
    for (unsigned round = 0; round < 200; round++) {
        struct kit k = kit_open();
        struct entry *e = random_value(&k, &rng);
        struct buf image = {0};
        image_write(&image, e);
        assert_true(image_valid(buf_slice(&image)));
        struct entry *copy = image_read(&k, buf_slice(&image), SLICE("copy"), 0);
        assert_non_null(copy);
        assert_int_equal(entry_type(copy), entry_type(e));
        struct lines want = lines_of_entry(e), got = lines_of_entry(copy);
        lines_equal(&want, &got);
        seen[entry_type(e)]++;
        lines_fini(&want);
        lines_fini(&got);
        buf_fini(&image);
        value_free(&k, e);
        value_free(&k, copy);
        assert_int_equal(arena_live_bytes(k.arena), 0);
        arena_free(k.arena);
    }
    for (int t = 0; t < TYPE_STREAM; t++) assert_true(seen[t] > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_of_a_real_server_are_read_and_written_back),
        cmocka_unit_test(a_cut_or_lengthened_image_is_refused),
        cmocka_unit_test(a_damaged_image_is_refused_or_read_but_never_harmful),
        cmocka_unit_test(a_damaged_frame_is_refused),
        cmocka_unit_test(versions_up_to_twelve_are_accepted),
        cmocka_unit_test(the_checksum_is_that_of_redis),
        cmocka_unit_test(a_member_or_field_that_comes_twice_is_refused),
        cmocka_unit_test(scores_that_are_no_numbers_are_refused),
        cmocka_unit_test(empty_collections_are_refused),
        cmocka_unit_test(sets_as_seven_two_packs_them_are_read),
        cmocka_unit_test(lengths_that_lie_are_refused_before_memory_is_asked_for),
        cmocka_unit_test(decompression_stays_inside_its_output),
        cmocka_unit_test(any_value_survives_its_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
