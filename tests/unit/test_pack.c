/* Packs against a naive twin: an array of byte strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "store/pack.h"

/* Lengths on both sides of every change of the marks. */
static const size_t edge_lengths[] = {0, 1, 0xee, 0xef, 0xf0, 0xf1, 0xf2, 0xff, 0x100, 0xffff, 0x10000, 0x10001, 200000};
enum { EDGES = sizeof edge_lengths / sizeof edge_lengths[0] };

static void pack_add(struct buf *b, struct slice s)
{
    if (b->len == 0) {
        pack_init(buf_room(b, PACK_HEADER));
        b->len = PACK_HEADER;
    }
    b->len += pack_write_element(buf_room(b, pack_element_bytes(s.n)), s);
    pack_add_count(b->p, 1);
}

static struct slice filled(size_t n, char fill)
{
    char *p = mem_alloc(n + 1);
    memset(p, fill, n);
    return slice_of(p, n);
}

static void an_empty_pack_has_no_elements(void **state)
{
    char bytes[PACK_HEADER];
    pack_init(bytes);
    struct slice pack = slice_of(bytes, sizeof bytes);
    assert_true(pack_valid(pack));
    assert_int_equal(pack_count(pack), 0);
    assert_int_equal(pack_first(pack), pack.n);
    assert_int_equal(pack_last(pack), pack.n);
    assert_int_equal(pack_seek(pack, 0), pack.n);
    assert_int_equal(pack_seek(pack, -1), pack.n);
    assert_int_equal(pack_find(pack, SLICE(""), 1, pack_first(pack)), pack.n);
}

static void elements_of_every_mark_size_are_walked_both_ways(void **state)
{
    struct buf b = {0};
    for (size_t i = 0; i < EDGES; i++) {
        struct slice s = filled(edge_lengths[i], (char)('a' + i));
        size_t before = b.len ? b.len : PACK_HEADER;
        pack_add(&b, s);
        assert_int_equal(b.len - before, pack_element_bytes(s.n));
        mem_free((char *)s.p);
    }
    struct slice pack = buf_slice(&b);
    assert_true(pack_valid(pack));
    size_t off = pack_first(pack);
    for (size_t i = 0; i < EDGES; i++, off = pack_next(pack, off)) {
        struct slice s = pack_get(pack, off);
        assert_int_equal(s.n, edge_lengths[i]);
        if (s.n) assert_int_equal(s.p[s.n - 1], 'a' + (char)i);
        assert_int_equal(pack_seek(pack, (int64_t)i), off);
        assert_int_equal(pack_seek(pack, (int64_t)i - EDGES), off);
    }
    assert_int_equal(off, pack.n);
    for (size_t i = EDGES; i-- > 0;) {
        off = pack_prev(pack, off);
        assert_int_equal(pack_get(pack, off).n, edge_lengths[i]);
    }
    assert_int_equal(off, PACK_HEADER);
    buf_fini(&b);
}

static void an_element_is_found_at_its_stride_only(void **state)
{
    static const char *words[] = {"field", "value", "value", "field", "", "x", "ab", ""};
    struct buf b = {0};
    for (size_t i = 0; i < 8; i++) pack_add(&b, slice_str(words[i]));
    struct slice pack = buf_slice(&b);
    size_t first = pack_first(pack);
    assert_int_equal(pack_find(pack, SLICE("field"), 2, first), first);
    assert_int_equal(pack_find(pack, SLICE("value"), 1, first), pack_seek(pack, 1));
    assert_int_equal(pack_find(pack, SLICE("value"), 2, first), pack_seek(pack, 2));
    assert_int_equal(pack_find(pack, SLICE("field"), 2, pack_seek(pack, 1)), pack_seek(pack, 3));
    assert_int_equal(pack_find(pack, SLICE(""), 2, first), pack_seek(pack, 4));
    assert_int_equal(pack_find(pack, SLICE("x"), 2, first), pack.n);
    assert_int_equal(pack_find(pack, SLICE("aB"), 1, first), pack.n);
    buf_fini(&b);
}

static void a_pack_with_more_elements_than_its_header_counts_is_counted_by_walking(void **state)
{
    struct buf b = {0};
    for (unsigned i = 0; i < 70000; i++) {
        pack_add(&b, SLICE("z"));
        if (i == 0xfffd || i == 0xfffe || i == 0xffff) assert_int_equal(pack_count(buf_slice(&b)), i + 1);
    }
    struct slice pack = buf_slice(&b);
    assert_int_equal(pack_count(pack), 70000);
    assert_int_equal(pack_seek(pack, 69999), pack_last(pack));
    assert_int_equal(pack_seek(pack, 70000), pack.n);
    assert_int_equal(pack_seek(pack, INT64_MIN), pack.n);

    /* What was saturated stays a walk, also when it shrinks below. */
    b.len = pack_seek(pack, 10);
    pack_add_count(b.p, 10 - 70000);
    assert_int_equal(pack_count(buf_slice(&b)), 10);
    assert_true(pack_valid(buf_slice(&b)));
    buf_fini(&b);
}

static void damaged_bytes_are_not_a_valid_pack(void **state)
{
    struct buf b = {0};
    struct slice long_one = filled(300, 'q');
    pack_add(&b, SLICE("abc"));
    pack_add(&b, long_one);
    assert_true(pack_valid(buf_slice(&b)));
    for (size_t cut = 0; cut < b.len; cut++) assert_false(pack_valid(slice_of(b.p, cut)));
    static const size_t structure[] = {0, PACK_HEADER, PACK_HEADER + 4, PACK_HEADER + 5, PACK_HEADER + 6};
    for (size_t i = 0; i < sizeof structure / sizeof *structure; i++) {
        for (int bit = 0; bit < 8; bit++) {
            b.p[structure[i]] ^= (char)(1 << bit);
            assert_false(pack_valid(buf_slice(&b)));
            b.p[structure[i]] ^= (char)(1 << bit);
        }
    }
    mem_free((char *)long_one.p);
    buf_fini(&b);
}

static void random_packs_agree_with_an_array(void **state)
{
    struct rng rng;
    rng_init(&rng, 20240601);
    for (unsigned round = 0; round < 200; round++) {
        struct slice twin[60];
        unsigned n = (unsigned)rng_below(&rng, 60);
        struct buf b = {0};
        pack_init(buf_room(&b, PACK_HEADER));
        b.len = PACK_HEADER;
        for (unsigned i = 0; i < n; i++) {
            size_t len = rng_below(&rng, 8) ? rng_below(&rng, 4) : rng_below(&rng, 400);
            twin[i] = filled(len, (char)('a' + rng_below(&rng, 2)));
            pack_add(&b, twin[i]);
        }
        struct slice pack = buf_slice(&b);
        assert_true(pack_valid(pack));
        assert_int_equal(pack_count(pack), n);
        size_t off = pack_first(pack);
        for (unsigned i = 0; i < n; i++, off = pack_next(pack, off)) {
            assert_true(slice_eq(pack_get(pack, off), twin[i]));
            assert_int_equal(pack_seek(pack, i), off);
            unsigned j = 0;
            while (!slice_eq(twin[j], twin[i])) j++;
            assert_int_equal(pack_find(pack, twin[i], 1, PACK_HEADER), pack_seek(pack, j));
        }
        for (unsigned i = 0; i < n; i++) mem_free((char *)twin[i].p);
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_pack_has_no_elements),
        cmocka_unit_test(elements_of_every_mark_size_are_walked_both_ways),
        cmocka_unit_test(an_element_is_found_at_its_stride_only),
        cmocka_unit_test(a_pack_with_more_elements_than_its_header_counts_is_counted_by_walking),
        cmocka_unit_test(damaged_bytes_are_not_a_valid_pack),
        cmocka_unit_test(random_packs_agree_with_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
