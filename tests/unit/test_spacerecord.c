/* Records of key spaces: what they look like, and that whatever does not fit together is refused by name. That they always make the map they came from is shown in test_spaces.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "route/spacerecord.h"

static const struct route four = {.seed = 42, .shards = 4};

enum { SET_MAX = 16 };

struct set {
    struct spacerecord records[SET_MAX];
    uint32_t n;
};

static void add(void *ctx, const struct spacerecord *r, bool remove)
{
    struct set *s = ctx;
    assert_false(remove);
    assert_true(s->n < SET_MAX);
    s->records[s->n++] = (struct spacerecord){.shard = r->shard, .key = slice_of(mem_dup(r->key.p, r->key.n), r->key.n), .value = slice_of(mem_dup(r->value.p, r->value.n), r->value.n)};
}

static void set_fini(struct set *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        mem_free((void *)s->records[i].key.p);
        mem_free((void *)s->records[i].value.p);
    }
}

static struct spacerecord *find(struct set *s, const char *key)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (slice_eq(s->records[i].key, slice_str(key))) return &s->records[i];
    fail_msg("no record %s", key);
    return NULL;
}

static void drop(struct set *s, const char *key)
{
    struct spacerecord *r = find(s, key);
    mem_free((void *)r->key.p);
    mem_free((void *)r->value.p);
    *r = s->records[--s->n];
}

static void poke(struct set *s, const char *key, size_t at, char byte)
{
    struct spacerecord *r = find(s, key);
    assert_true(at < r->value.n);
    ((char *)r->value.p)[at] = byte;
}

/* Space u: ranges 1 [, u/h) in shard 0, 2 [u/h, u/p) in shard 1, 3 [u/p, ) in shard 2. Space b: bucket 7 in shard 3. */
static struct space_map *example(void)
{
    enum spaces_error e;
    struct range_desc three[3] = {{.id = 1, .shard = 0, .end = SLICE("u/h")}, {.id = 2, .shard = 1, .start = SLICE("u/h"), .end = SLICE("u/p")}, {.id = 3, .shard = 2, .start = SLICE("u/p")}};
    struct range_desc one = {.id = 7, .shard = 3};
    struct space_map *empty = spaces_new(&four, SPACE_HASH, NULL, 0, 1);
    struct space_map *u = spaces_set_mode(empty, SLICE("u"), SPACE_RANGE, three, 3, true, &e, NULL);
    struct space_map *both = spaces_set_mode(u, SLICE("b"), SPACE_BUCKET, &one, 1, true, &e, NULL);
    spaces_unref(empty);
    spaces_unref(u);
    assert_non_null(both);
    return both;
}

static void example_set(struct set *s)
{
    struct space_map *m = example();
    *s = (struct set){0};
    spacerecord_diff(NULL, m, add, s);
    spaces_unref(m);
}

static void expect_refused(struct set *s, const char *sentence)
{
    struct buf why = {0};
    assert_null(spacerecord_map(&four, SPACE_HASH, 1, s->records, s->n, &why));
    buf_add_byte(&why, 0);
    assert_string_equal(why.p, sentence);
    buf_fini(&why);
    set_fini(s);
}

static void records_stand_with_the_shard_that_owns_the_range(void **state)
{
    struct set s;
    example_set(&s);
    assert_int_equal(s.n, 6);
    assert_int_equal(find(&s, "space/u")->shard, 0);
    assert_int_equal(find(&s, "space/b")->shard, 0);
    assert_int_equal(find(&s, "range/u/0000000000000002")->shard, 1);
    assert_int_equal(find(&s, "range/u/0000000000000003")->shard, 2);
    assert_int_equal(find(&s, "range/b/0000000000000007")->shard, 3);
    set_fini(&s);
}

static void keys_of_other_modules_are_passed_over(void **state)
{
    struct set s;
    example_set(&s);
    add(&s, &(struct spacerecord){.shard = 3, .key = SLICE("lock/u"), .value = SLICE("x")}, false);
    struct space_map *m = spacerecord_map(&four, SPACE_HASH, 5, s.records, s.n, NULL);
    assert_non_null(m);
    spaces_check(m);
    assert_int_equal(m->version, 5);
    assert_int_equal(m->n_spaces, 2);
    spaces_unref(m);
    set_fini(&s);
}

static void version_one_of_the_bytes_is_what_it_was(void **state)
{
    static const char space[] = "\1\2\0\2" "\1\0\0\0\0\0\0\0" "\1\0\0\0\0\0\0\0" "\0\0\0\0\0\0\0\0" "\0\0\0\0";
    static const char range[] = "\1\0\0\0" "\1\0\0\0\0\0\0\0" "\1\0\0\0\0\0\0\0" "\1\0\0\0" "\0\0\0\0" "\3\0\0\0" "\3\0\0\0" "\0\0\0\0" "u/hu/p";
    struct set s;
    example_set(&s);
    assert_true(slice_eq(find(&s, "space/u")->value, slice_of(space, sizeof space - 1)));
    assert_true(slice_eq(find(&s, "range/u/0000000000000002")->value, slice_of(range, sizeof range - 1)));
    set_fini(&s);
}

static void a_lost_range_is_a_gap_with_its_bounds(void **state)
{
    struct set s;
    example_set(&s);
    drop(&s, "range/u/0000000000000002");
    expect_refused(&s, "the records of space \"u\" do not fit together: no range holds the keys from \"u/h\" to \"u/p\"");
    example_set(&s);
    drop(&s, "range/u/0000000000000001");
    expect_refused(&s, "the records of space \"u\" do not fit together: no range holds the keys before \"u/h\", where range 2 begins");
    example_set(&s);
    drop(&s, "range/u/0000000000000003");
    expect_refused(&s, "the records of space \"u\" do not fit together: no range holds the keys from \"u/p\" to the end");
}

static void ranges_that_overlap_are_named(void **state)
{
    struct set s;
    example_set(&s);
    poke(&s, "range/u/0000000000000002", 45, 'z');
    expect_refused(&s, "the records of space \"u\" do not fit together: the ranges 2 and 3 overlap: both hold \"u/p\"");
}

static void a_bucket_that_lost_its_descriptor_is_not_routed_by_hash(void **state)
{
    struct set s;
    example_set(&s);
    drop(&s, "range/b/0000000000000007");
    expect_refused(&s, "the records of space \"b\" do not fit together: none of its descriptors is there");
}

static void a_descriptor_without_its_space_is_refused(void **state)
{
    struct set s;
    example_set(&s);
    drop(&s, "space/b");
    expect_refused(&s, "there is a descriptor of space \"b\", id 7, but no record of the space");
    example_set(&s);
    drop(&s, "space/u");
    expect_refused(&s, "there is a descriptor of space \"u\", id 1, but no record of the space");
}

static void a_record_in_the_wrong_shard_is_refused(void **state)
{
    struct set s;
    example_set(&s);
    find(&s, "range/b/0000000000000007")->shard = 1;
    expect_refused(&s, "the system record \"range/b/0000000000000007\" in shard 1 cannot be used: it stands in the wrong shard: it says shard 3");
}

static void a_newer_version_is_refused_and_not_guessed_at(void **state)
{
    struct set s;
    example_set(&s);
    poke(&s, "space/u", 0, 2);
    expect_refused(&s, "the system record \"space/u\" in shard 0 cannot be used: it is no record of a version that this program knows");
}

static void a_range_of_an_older_routing_is_refused(void **state)
{
    struct set s;
    example_set(&s);
    poke(&s, "range/u/0000000000000003", 12, 9);
    expect_refused(&s, "the records of space \"u\" do not fit together: no range holds the keys from \"u/p\" to the end");
}

static void an_id_stands_once_in_all_spaces(void **state)
{
    struct set s;
    example_set(&s);
    struct spacerecord *r = find(&s, "range/b/0000000000000007");
    ((char *)r->key.p)[r->key.n - 1] = '2';
    expect_refused(&s, "the id 2 is that of two descriptors");
}

static void intervals_of_the_hash_come_back(void **state)
{
    struct hash_desc halves[2] = {{.id = 1, .generation = 1, .shard = 2, .first = 0, .last = UINT64_MAX / 2},
                                  {.id = 2, .generation = 1, .shard = 3, .first = UINT64_MAX / 2 + 1, .last = UINT64_MAX}};
    struct route route = {.seed = 42, .shards = 1};
    struct space_map *m = spaces_new(&route, SPACE_BUCKET, halves, 2, 1);
    struct set s = {0};
    struct buf why = {0};
    spacerecord_diff(NULL, m, add, &s);
    assert_int_equal(s.n, 2);
    struct space_map *back = spacerecord_map(&route, SPACE_BUCKET, 1, s.records, s.n, &why);
    assert_non_null(back);
    assert_int_equal(back->n_hash, 2);
    for (int i = 0; i < 2; i++)
        assert_true(back->hash[i].id == halves[i].id && back->hash[i].generation == 1 && back->hash[i].shard == halves[i].shard && back->hash[i].first == halves[i].first && back->hash[i].last == halves[i].last);
    assert_null(spacerecord_map(&route, SPACE_BUCKET, 1, s.records, 1, &why));
    buf_add_byte(&why, 0);
    assert_string_equal(why.p, "the last interval of the hash, with id 1, does not reach the end");
    buf_fini(&why);
    spaces_unref(back);
    spaces_unref(m);
    set_fini(&s);
}

static void an_interval_that_moves_comes_back_with_its_boundary(void **state)
{
    const struct hash_desc all = {.id = 1, .generation = 2, .shard = 2, .last = UINT64_MAX, .moving = true, .to_shard = 3, .boundary = SLICE("b/3")};
    struct route route = {.seed = 42, .shards = 1};
    struct space_map *m = spaces_new(&route, SPACE_BUCKET, &all, 1, 1);
    struct set s = {0};
    struct buf why = {0};
    spacerecord_diff(NULL, m, add, &s);
    struct space_map *back = spacerecord_map(&route, SPACE_BUCKET, 1, s.records, s.n, &why);
    assert_non_null(back);
    assert_true(back->hash[0].moving && back->hash[0].to_shard == 3 && slice_eq(back->hash[0].boundary, SLICE("b/3")));
    spaces_unref(back);
    ((char *)s.records[0].value.p)[32] = 2; /* to where it is */
    assert_null(spacerecord_map(&route, SPACE_BUCKET, 1, s.records, s.n, &why));
    buf_fini(&why);
    spaces_unref(m);
    set_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_stand_with_the_shard_that_owns_the_range),
        cmocka_unit_test(keys_of_other_modules_are_passed_over),
        cmocka_unit_test(version_one_of_the_bytes_is_what_it_was),
        cmocka_unit_test(a_lost_range_is_a_gap_with_its_bounds),
        cmocka_unit_test(an_interval_that_moves_comes_back_with_its_boundary),
        cmocka_unit_test(ranges_that_overlap_are_named),
        cmocka_unit_test(a_bucket_that_lost_its_descriptor_is_not_routed_by_hash),
        cmocka_unit_test(a_descriptor_without_its_space_is_refused),
        cmocka_unit_test(a_record_in_the_wrong_shard_is_refused),
        cmocka_unit_test(a_newer_version_is_refused_and_not_guessed_at),
        cmocka_unit_test(a_range_of_an_older_routing_is_refused),
        cmocka_unit_test(an_id_stands_once_in_all_spaces),
        cmocka_unit_test(intervals_of_the_hash_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
