#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "route/router.h"

/* --- the vectors of the format's first writer --- */

static size_t from_hex(const char *hex, char *out)
{
    size_t n = 0;
    for (; hex[0] && hex[0] != '-' && sscanf(hex, "%2hhx", (unsigned char *)&out[n]) == 1; hex += 2) n++;
    return n;
}

static void check_vector(char *line)
{
    static char key_bytes[5000], canonical[5000];
    char *rest, *kind = strtok_r(line, " ", &rest), *key = strtok_r(NULL, " ", &rest), *hex = strtok_r(NULL, " ", &rest), *digest = strtok_r(NULL, " ", &rest);
    struct snapkey k = snapkey_bytes(slice_of(key_bytes, 0));
    if (strcmp(kind, "int") == 0) k = snapkey_int(strtoll(key, NULL, 10));
    else k.s.n = from_hex(key, key_bytes);
    if (strcmp(kind, "str") == 0) k.kind = SNAPKEY_TEXT;
    char scratch[8];
    struct slice bytes;
    uint64_t hash;
    assert_true(snapkey_canonical(&k, scratch, &bytes));
    assert_true(snapkey_hash(&k, &hash));
    assert_true(slice_eq(bytes, slice_of(canonical, from_hex(hex, canonical))));
    assert_true(hash == strtoull(digest, NULL, 16));
    for (char *pair; (pair = strtok_r(NULL, " \n", &rest));) {
        uint32_t shards, place, got;
        assert_int_equal(sscanf(pair, "%" SCNu32 ":%" SCNu32, &shards, &place), 2);
        struct router *r = router_new_hash(shards);
        struct router_scratch s;
        router_scratch_init(&s, r);
        assert_int_equal(router_shard(r, &s, &k, &got), ROUTER_FOUND);
        assert_int_equal(got, place);
        router_scratch_fini(&s);
        router_free(r);
    }
}

static void every_golden_vector_is_routed_as_the_format_says(void **state)
{
    static char line[20000];
    unsigned n = 0;
    FILE *f = fopen("tests/golden/route/vectors.txt", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        check_vector(line);
        n++;
    }
    fclose(f);
    assert_int_equal(n, 178);
}

/* --- encodings --- */

static void encodings_keep_order_and_refuse_what_does_not_fit(void **state)
{
    char scratch[8], again[8];
    struct slice a, b;
    struct snapkey back;
    struct snapkey small = snapkey_int(255), large = snapkey_int(256), huge = snapkey_uint(UINT64_MAX), minus = snapkey_int(-1), text = snapkey_text(SLICE("x"));
    assert_null(snapkey_encode(SNAPKEY_U64BE, &small, scratch, &a));
    assert_null(snapkey_encode(SNAPKEY_U64BE, &large, again, &b));
    assert_true(slice_cmp(a, b) < 0 && a.n == 8);
    assert_null(snapkey_encode(SNAPKEY_U64BE, &huge, scratch, &a));
    assert_true(snapkey_decode(SNAPKEY_U64BE, a, &back) && back.kind == SNAPKEY_UINT && back.u == UINT64_MAX);
    assert_string_equal(snapkey_encode(SNAPKEY_U32BE, &huge, scratch, &a), "the key does not fit 32 bits");
    assert_string_equal(snapkey_encode(SNAPKEY_U64BE, &minus, scratch, &a), "the key is negative");
    assert_string_equal(snapkey_encode(SNAPKEY_U64BE, &text, scratch, &a), "the key is not an integer");
    assert_non_null(snapkey_encode(SNAPKEY_UTF8, &small, scratch, &a));
    assert_null(snapkey_encode(SNAPKEY_RAW, &text, scratch, &a));
    assert_true(slice_eq(a, SLICE("x")));
    assert_false(snapkey_decode(SNAPKEY_U32BE, SLICE("123"), &back));
    assert_false(snapkey_decode(SNAPKEY_UTF8, SLICE("\xff"), &back));
    assert_null(snapkey_parse(SNAPKEY_U32BE, SLICE("4294967295"), &back));
    assert_non_null(snapkey_parse(SNAPKEY_U32BE, SLICE("4294967296"), &back));
    assert_non_null(snapkey_parse(SNAPKEY_U64BE, SLICE("-1"), &back));
    assert_non_null(snapkey_parse(SNAPKEY_UTF8, SLICE("\xc3"), &back));
}

static void min_and_max_are_json(void **state)
{
    struct buf out = {0};
    struct snapkey keys[] = {snapkey_int(-5), snapkey_uint(UINT64_MAX), snapkey_text(SLICE("a\"\\\n\xc3\xa9\xf0\x9f\x98\x80"))};
    for (int i = 0; i < 3; i++) {
        assert_true(snapkey_json(&keys[i], &out));
        buf_add_byte(&out, ' ');
    }
    buf_add_byte(&out, '\0');
    assert_string_equal(out.p, "-5 18446744073709551615 \"a\\\"\\\\\\u000a\\u00e9\\ud83d\\ude00\" ");
    struct snapkey bytes = snapkey_bytes(SLICE("\xff"));
    size_t before = out.len;
    assert_false(snapkey_json(&bytes, &out));
    assert_int_equal(out.len, before);
    buf_fini(&out);
}

static void a_key_beyond_63_bits_has_no_hash(void **state)
{
    struct router *r = router_new_hash(4);
    struct router_scratch s;
    struct snapkey k = snapkey_uint((uint64_t)INT64_MAX + 1);
    uint32_t shard;
    router_scratch_init(&s, r);
    assert_int_equal(router_shard(r, &s, &k, &shard), ROUTER_ERROR);
    assert_true(s.why.len > 0);
    router_scratch_fini(&s);
    router_free(r);
}

/* --- cel --- */

static struct router *cel(const char *expr, const char *columns, enum router_token_kind kind, const void *tokens, uint32_t n, uint32_t shards, struct buf *error)
{
    struct router_column c[8];
    uint32_t n_columns = 0;
    for (const char *p = columns; *p;) { /* "name:type,name:type" */
        size_t name = strcspn(p, ":"), type = strcspn(p + name + 1, ",");
        c[n_columns++] = (struct router_column){slice_of(p, name), slice_of(p + name + 1, type)};
        p += name + 1 + type;
        p += *p == ',';
    }
    return router_new_cel(&(struct router_cel){.expr = slice_str(expr), .columns = c, .n_columns = n_columns, .tokens = kind,
                                               .ints = kind == ROUTER_TOKENS_INT ? tokens : NULL, .texts = kind == ROUTER_TOKENS_TEXT ? tokens : NULL, .n_tokens = n},
                          shards, error);
}

static void expect_refused(const char *expr, const char *columns, uint32_t shards, const char *why)
{
    struct buf error = {0};
    assert_null(cel(expr, columns, ROUTER_TOKENS_NONE, NULL, 0, shards, &error));
    buf_add_byte(&error, '\0');
    if (!strstr(error.p, why)) fail_msg("'%s' is not in '%s'", why, error.p);
    buf_fini(&error);
}

static void direct_mode_takes_the_result_as_the_shard(void **state)
{
    struct buf error = {0};
    struct router *r = cel("shard_hash(key) % 5u", "key:int", ROUTER_TOKENS_NONE, NULL, 0, 5, &error), *h = router_new_hash(5);
    struct router_scratch s, hs;
    assert_non_null(r);
    assert_false(router_needs_context(r));
    router_scratch_init(&s, r);
    router_scratch_init(&hs, h);
    for (int64_t i = -100; i < 100; i++) {
        struct snapkey k = snapkey_int(i);
        uint32_t a, b;
        assert_int_equal(router_shard(r, &s, &k, &a), ROUTER_FOUND);
        assert_int_equal(router_shard(h, &hs, &k, &b), ROUTER_FOUND);
        assert_int_equal(a, b);
    }
    struct snapkey text = snapkey_text(SLICE("x"));
    uint32_t shard;
    assert_int_equal(router_shard(r, &s, &text, &shard), ROUTER_ERROR);
    router_scratch_fini(&s);
    router_scratch_fini(&hs);
    router_free(r);
    router_free(h);
    buf_fini(&error);
}

static void a_number_that_is_no_shard_is_unknown(void **state)
{
    struct buf error = {0};
    struct router *r = cel("key", "key:int", ROUTER_TOKENS_NONE, NULL, 0, 3, &error);
    struct router_scratch s;
    router_scratch_init(&s, r);
    const int64_t keys[] = {0, 2, 3, -1};
    const enum router_result want[] = {ROUTER_FOUND, ROUTER_FOUND, ROUTER_UNKNOWN, ROUTER_UNKNOWN};
    for (int i = 0; i < 4; i++) {
        struct snapkey k = snapkey_int(keys[i]);
        uint32_t shard;
        assert_int_equal(router_shard(r, &s, &k, &shard), want[i]);
    }
    router_scratch_fini(&s);
    router_free(r);
}

static void categorical_mode_finds_tokens_and_misses_others(void **state)
{
    struct buf error = {0};
    const struct slice regions[] = {SLICE("ap"), SLICE("eu"), SLICE("us"), SLICE("none")};
    struct router *r = cel("region", "region:string", ROUTER_TOKENS_TEXT, regions, 4, 4, &error);
    struct router_scratch s;
    uint32_t shard;
    struct snapkey k = snapkey_text(SLICE("any"));
    assert_non_null(r);
    assert_true(router_needs_context(r));
    router_scratch_init(&s, r);
    assert_int_equal(router_shard(r, &s, &k, &shard), ROUTER_ERROR); /* the column was not set */
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(router_set_column(r, &s, (uint32_t)router_find_column(r, SLICE("region")), regions[i]));
        assert_int_equal(router_shard(r, &s, &k, &shard), ROUTER_FOUND);
        assert_int_equal(shard, i);
    }
    assert_true(router_set_column(r, &s, 0, SLICE("mars")));
    assert_int_equal(router_shard(r, &s, &k, &shard), ROUTER_UNKNOWN);
    router_scratch_fini(&s);
    router_free(r);
}

static void columns_of_several_types_come_from_text(void **state)
{
    struct buf error = {0};
    const int64_t tokens[] = {7, -7, 0};
    struct router *r = cel("vip ? a + int(d) : int(u) - a", "a:int,u:uint,d:double,vip:bool", ROUTER_TOKENS_INT, tokens, 3, 3, &error);
    struct router_scratch s;
    uint32_t shard;
    struct snapkey k = snapkey_int(0);
    assert_non_null(r);
    router_scratch_init(&s, r);
    assert_true(router_set_column(r, &s, 0, SLICE("7")) && router_set_column(r, &s, 1, SLICE("0")));
    assert_true(router_set_column(r, &s, 2, SLICE("0.5")) && router_set_column(r, &s, 3, SLICE("true")));
    assert_int_equal(router_shard(r, &s, &k, &shard), ROUTER_FOUND);
    assert_int_equal(shard, 0);
    assert_true(router_set_column(r, &s, 3, SLICE("false")));
    assert_int_equal(router_shard(r, &s, &k, &shard), ROUTER_FOUND);
    assert_int_equal(shard, 1);
    assert_false(router_set_column(r, &s, 3, SLICE("yes")));
    assert_false(router_set_column(r, &s, 1, SLICE("-1")));
    assert_int_equal(router_find_column(r, SLICE("nope")), -1);
    router_scratch_fini(&s);
    router_free(r);
}

static void what_cannot_route_is_refused_with_a_reason(void **state)
{
    struct buf error = {0};
    const struct slice twice[] = {SLICE("a"), SLICE("b"), SLICE("a")};
    expect_refused("shard_hash(key) % 8", "key:int", 8, "1:17");
    expect_refused("key >", "key:int", 8, "1:");
    expect_refused("key > 5", "key:int", 8, "gives bool");
    expect_refused("nokey", "key:int", 8, "nokey");
    expect_refused("key", "key:timestamp", 8, "timestamp");
    expect_refused("1", "", 8, "at least one column");
    assert_null(cel("k", "k:string", ROUTER_TOKENS_TEXT, twice, 3, 3, &error));
    assert_null(cel("k", "k:string", ROUTER_TOKENS_TEXT, twice, 2, 3, &error));
    buf_fini(&error);
}

static void groups_hold_every_key_once_in_order(void **state)
{
    const uint32_t shards[] = {2, 0, UINT32_MAX, 2, 1, 0};
    uint32_t order[6], starts[5];
    const uint32_t want[] = {1, 5, 4, 0, 3, 2};
    router_group(3, shards, 6, order, starts);
    assert_memory_equal(order, want, sizeof want);
    const uint32_t want_starts[] = {0, 2, 3, 5, 6};
    assert_memory_equal(starts, want_starts, sizeof want_starts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_golden_vector_is_routed_as_the_format_says),
        cmocka_unit_test(encodings_keep_order_and_refuse_what_does_not_fit),
        cmocka_unit_test(min_and_max_are_json),
        cmocka_unit_test(a_key_beyond_63_bits_has_no_hash),
        cmocka_unit_test(direct_mode_takes_the_result_as_the_shard),
        cmocka_unit_test(a_number_that_is_no_shard_is_unknown),
        cmocka_unit_test(categorical_mode_finds_tokens_and_misses_others),
        cmocka_unit_test(columns_of_several_types_come_from_text),
        cmocka_unit_test(what_cannot_route_is_refused_with_a_reason),
        cmocka_unit_test(groups_hold_every_key_once_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
