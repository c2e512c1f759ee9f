/* Keys that are sorted for one walk, against an index of the same ones. */
#include "harness.h"

#include "base/rng.h"
#include "store/keyindex.h"
#include "store/keysort.h"

enum { KEYS = 400, KEY_BYTES = 24, BOUNDS = 300 };

static const struct slice space = SLICE("a/b");

static bool is_ordered(void *ctx, struct slice name) { return slice_eq(name, space); }

/* Few different bytes, the extreme ones among them, so that many keys begin alike and some are the beginning of others. */
static struct slice random_key(struct rng *rng, char out[KEY_BYTES])
{
    static const char bytes[] = {'\0', 'a', 'b', (char)0xff};
    static const char *const before[] = {"a/b/", "a/b/", "a/b/", "a/b", "a/b/c/", "a/bc/", "a/", ""};
    int n = snprintf(out, KEY_BYTES, "%s", before[rng_below(rng, sizeof before / sizeof before[0])]);
    size_t more = rng_below(rng, 15);
    for (size_t i = 0; i < more; i++) out[n++] = i < 8 && rng_below(rng, 4) ? 'a' : bytes[rng_below(rng, sizeof bytes)];
    return slice_of(out, (size_t)n);
}

static void put(struct store *s, struct slice key)
{
    store_apply(s, &(struct op){.kind = OP_SET, .db = 3, .key = key, .value = SLICE("v")}, NULL);
}

static void fill(struct store *s, struct rng *rng)
{
    char bytes[KEY_BYTES];
    for (int i = 0; i < KEYS; i++) put(s, random_key(rng, bytes));
}

static size_t same_as_the_index(const struct store *s, struct slice start, struct slice end, bool reverse)
{
    const struct keyindex *index = store_index(s, 3, space);
    struct keysort k;
    struct keyindex_at at;
    size_t n = 0;
    keysort_init(&k, s, 3, space, start, end, reverse);
    struct entry *e = !reverse ? keyindex_seek(index, start, &at) : end.n ? keyindex_before(index, end, &at) : keyindex_last(index, &at);
    for (; e && (reverse ? slice_cmp(entry_key(e), start) >= 0 : !end.n || slice_cmp(entry_key(e), end) < 0); n++) {
        assert_ptr_equal(keysort_next(&k), e);
        e = reverse ? keyindex_prev(&at) : keyindex_next(&at);
    }
    assert_null(keysort_next(&k));
    assert_null(keysort_next(&k));
    keysort_fini(&k);
    return n;
}

static void sorted_keys_are_those_of_an_index_within_any_bounds(void **state)
{
    struct harness *h = harness_new(1, &strings_family, NULL);
    struct store *s = h->stores[0];
    struct rng rng;
    size_t shown = 0, empty = 0;
    rng_init(&rng, 5);
    s->is_ordered = is_ordered;
    fill(s, &rng);
    uint64_t all = store_index(s, 3, space)->count;
    assert_true(all > KEYS / 4 && all < store_keys(s, 3));
    assert_int_equal(same_as_the_index(s, SLICE(""), SLICE(""), false), all);
    assert_int_equal(same_as_the_index(s, SLICE(""), SLICE(""), true), all);
    for (int i = 0; i < BOUNDS; i++) {
        char a[KEY_BYTES], b[KEY_BYTES];
        size_t n = same_as_the_index(s, random_key(&rng, a), random_key(&rng, b), i % 2);
        shown += n;
        empty += n == 0;
    }
    assert_true(shown > BOUNDS && empty > 0 && empty < BOUNDS);
    harness_free(h);
}

static void a_key_without_a_slash_comes_before_those_that_have_its_name_before_theirs(void **state)
{
    struct harness *h = harness_new(1, &strings_family, NULL);
    struct store *s = h->stores[0];
    struct keysort k;
    put(s, SLICE("cart/1"));
    put(s, SLICE("cart"));
    put(s, SLICE("cart/"));
    put(s, SLICE("car"));
    keysort_init(&k, s, 3, SLICE("cart"), SLICE(""), SLICE(""), false);
    assert_true(slice_is(entry_key(keysort_next(&k)), "cart"));
    assert_true(slice_is(entry_key(keysort_next(&k)), "cart/"));
    assert_true(slice_is(entry_key(keysort_next(&k)), "cart/1"));
    assert_null(keysort_next(&k));
    keysort_fini(&k);
    harness_free(h);
}

static void a_database_that_was_never_used_has_no_keys(void **state)
{
    struct harness *h = harness_new(1, &strings_family, NULL);
    struct keysort k;
    keysort_init(&k, h->stores[0], 7, space, SLICE(""), SLICE(""), true);
    assert_null(keysort_next(&k));
    keysort_fini(&k);
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorted_keys_are_those_of_an_index_within_any_bounds),
        cmocka_unit_test(a_key_without_a_slash_comes_before_those_that_have_its_name_before_theirs),
        cmocka_unit_test(a_database_that_was_never_used_has_no_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
