#include "harness.h"

#include "base/num.h"

static struct harness *fresh(void)
{
    return harness_new(4, &sort_family, &strings_family, &keys_family, &expiry_family, &lists_family, &hashes_family, &sets_family, &zsets_family, NULL);
}

/* The elements of the reply, joined by blanks; nil is "-", the empty string "''". */
static void expect_words(struct harness *h, const char *words, const char *joined)
{
    struct slice r = harness_run(h, words);
    struct buf text = {0};
    if (r.p[0] != '*') fail_msg("%s answered %.*s", words, (int)r.n, r.p);
    for (const char *at = strchr(r.p, '\n') + 1; at < r.p + r.n;) {
        long n = strtol(at + 1, NULL, 10);
        at = strchr(at, '\n') + 1;
        if (text.len) buf_add_byte(&text, ' ');
        if (n <= 0) buf_add_str(&text, n < 0 ? "-" : "''");
        else buf_add(&text, at, (size_t)n);
        if (n >= 0) at += n + 2;
    }
    buf_add_byte(&text, 0);
    if (strcmp(text.p, joined) != 0) fail_msg("%s\n  answered %s\n  expected %s", words, text.p, joined);
    buf_fini(&text);
}

static void numbers_and_words_are_sorted(void **state)
{
    struct harness *h = fresh();
    harness_run(h, "RPUSH l 10 9 -1.5 3e1 9");
    expect_words(h, "SORT l", "-1.5 9 9 10 3e1");
    expect_words(h, "SORT l DESC", "3e1 10 9 9 -1.5");
    expect_words(h, "SORT l ALPHA", "-1.5 10 3e1 9 9");
    expect_words(h, "SORT l ALPHA DESC ASC", "-1.5 10 3e1 9 9");
    expect_words(h, "SORT_RO l DESC LIMIT 1 2", "10 9");
    harness_run(h, "SADD s 3 11 2");
    expect_words(h, "SORT s", "2 3 11");
    harness_run(h, "ZADD z 1 30 2 20 3 10");
    expect_words(h, "SORT z", "10 20 30");
    expect_words(h, "SORT none", "");
    harness_run(h, "RPUSH w b a 1");
    harness_expect(h, "SORT w", "-ERR One or more scores can't be converted into double\r\n");
    harness_run(h, "HSET m f v");
    harness_expect_start(h, "SORT m", "-WRONGTYPE ");
    harness_free(h);
}

static void limits_cut_and_never_overflow(void **state)
{
    struct harness *h = fresh();
    harness_run(h, "RPUSH l 5 3 1 4 2");
    expect_words(h, "SORT l LIMIT 0 2", "1 2");
    expect_words(h, "SORT l LIMIT 3 10", "4 5");
    expect_words(h, "SORT l LIMIT -5 2", "1 2");
    expect_words(h, "SORT l LIMIT 2 -1", "3 4 5");
    expect_words(h, "SORT l LIMIT 9 2", "");
    expect_words(h, "SORT l LIMIT 0 0", "");
    expect_words(h, "SORT l LIMIT 9223372036854775807 9223372036854775807", "");
    expect_words(h, "SORT l LIMIT -9223372036854775808 9223372036854775807", "1 2 3 4 5");
    harness_expect(h, "SORT l LIMIT 1 x", "-ERR value is not an integer or out of range\r\n");
    harness_expect(h, "SORT l LIMIT 1", "-ERR syntax error\r\n");
    harness_expect(h, "SORT l BY", "-ERR syntax error\r\n");
    harness_expect(h, "SORT l SIDEWAYS", "-ERR syntax error\r\n");
    harness_free(h);
}

static void an_order_may_stay_as_it_is(void **state)
{
    struct harness *h = fresh();
    harness_run(h, "RPUSH l c a b");
    harness_run(h, "ZADD z 3 a 1 c 2 b");
    expect_words(h, "SORT l BY nosort", "c a b");
    expect_words(h, "SORT l BY nosort DESC LIMIT 0 2", "b a");
    expect_words(h, "SORT l BY nosort LIMIT 1 5", "a b");
    expect_words(h, "SORT z BY nosort", "c b a");
    expect_words(h, "SORT z BY nosort DESC LIMIT 1 1", "b");
    harness_run(h, "SADD s q p r");
    harness_expect(h, "SORT s BY nosort STORE d", ":3\r\n"); /* a set has no order: what is stored is sorted */
    expect_words(h, "SORT d BY nosort", "p q r");
    harness_free(h);
}

static void patterns_find_keys_and_fields_on_any_shard(void **state)
{
    struct harness *h = fresh();
    harness_run(h, "RPUSH l 1 2 3 4");
    harness_run(h, "MSET w_1 30 w_2 10 w_3 20 n_1 one n_2 two n_4 four 2->g arrow");
    harness_run(h, "HSET h_1 f 5 name uno");
    harness_run(h, "HSET h_2 f 9 name dos");
    harness_run(h, "HSET h_3 f 7");
    expect_words(h, "SORT l BY w_*", "4 2 3 1"); /* no weight counts as 0 */
    expect_words(h, "SORT l BY w_* DESC GET n_* GET #", "one 1 - 3 two 2 four 4");
    expect_words(h, "SORT l BY h_*->f GET h_*->name GET #", "- 4 uno 1 - 3 dos 2");
    expect_words(h, "SORT l BY n_* ALPHA", "3 4 1 2"); /* nothing comes before any word */
    expect_words(h, "SORT l GET n_*->x GET h_* GET constant LIMIT 0 1", "- - -");
    expect_words(h, "SORT l BY nosort GET *->g LIMIT 1 1", "-"); /* the key 2 is no hash */
    harness_expect(h, "SORT l BY n_*", "-ERR One or more scores can't be converted into double\r\n");
    harness_free(h);
}

static void a_pattern_alone_decides_whether_all_shards_are_needed(void **state)
{
    struct harness *h = fresh();
    const struct command *c = command_find(h->table, SLICE("sort"));
    struct slice plain[] = {SLICE("sort"), SLICE("k"), SLICE("by"), SLICE("nosort"), SLICE("get"), SLICE("#"), SLICE("store"), SLICE("a*")};
    struct slice by[] = {SLICE("sort"), SLICE("k"), SLICE("limit"), SLICE("by"), SLICE("w_*"), SLICE("BY"), SLICE("w_*")};
    uint32_t at[4];
    assert_false(c->needs_all(plain, 8));
    assert_int_equal(command_keys(c, plain, 8, at, 4), 2);
    assert_int_equal(at[0], 1);
    assert_int_equal(at[1], 7);
    assert_true(c->needs_all(by, 7));
    assert_false(c->needs_all(by, 5));
    assert_int_equal(command_keys(c, by, 6, at, 4), -1);
    harness_free(h);
}

static void a_result_is_stored_as_a_list(void **state)
{
    struct harness *h = fresh();
    harness_run(h, "RPUSH l 3 1 2");
    harness_run(h, "SET n_1 one");
    harness_run(h, "SET d old PX 100000");
    harness_events(h);
    harness_expect(h, "SORT l STORE d", ":3\r\n");
    assert_non_null(strstr(harness_events(h), "sortstore d;"));
    harness_expect(h, "LRANGE d 0 -1", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    harness_expect(h, "PTTL d", ":-1\r\n");
    harness_expect(h, "SORT l GET n_* GET # STORE d", ":6\r\n");
    expect_words(h, "SORT d BY nosort", "one 1 '' 2 '' 3");
    harness_expect(h, "SORT l DESC STORE l", ":3\r\n"); /* onto itself */
    expect_words(h, "SORT l BY nosort", "3 2 1");
    harness_events(h);
    harness_expect(h, "SORT none STORE d", ":0\r\n");
    assert_string_equal(harness_events(h), "del d;");
    harness_expect(h, "EXISTS d", ":0\r\n");
    harness_expect(h, "SORT_RO l STORE d", "-ERR syntax error\r\n");
    harness_free(h);
}

static void keys_that_expire_under_a_pattern_do_no_harm(void **state)
{
    struct harness *h = fresh();
    harness_run(h, "RPUSH l 1 2 3");
    harness_run(h, "SET w_1 9 PX 10");
    harness_run(h, "SET w_2 5");
    harness_run(h, "SET w_3 7 PX 10");
    h->now_ms += 11;
    expect_words(h, "SORT l BY w_* GET # GET w_*", "1 - 3 - 2 5");
    harness_free(h);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void many_numbers_come_out_as_a_plain_sort_has_them(void **state)
{
    enum { N = 3000 };
    static int64_t want[N];
    struct harness *h = fresh();
    h->check = false;
    for (int i = 0; i < N; i++) {
        char text[NUM_I64_MAX_CHARS];
        want[i] = (int64_t)(rng_u64(&h->rng) >> 20) - (1ll << 43);
        struct slice argv[] = {SLICE("rpush"), SLICE("l"), slice_of(text, num_format_i64(text, want[i]))};
        harness_argv(h, argv, 3);
    }
    qsort(want, N, sizeof *want, by_number);
    struct slice r = harness_run(h, "SORT l");
    const char *at = strchr(r.p, '\n') + 1;
    for (int i = 0; i < N; i++) {
        at = strchr(at, '\n') + 1;
        assert_int_equal(strtoll(at, NULL, 10), want[i]);
        at = strchr(at, '\n') + 1;
    }
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_words_are_sorted),
        cmocka_unit_test(limits_cut_and_never_overflow),
        cmocka_unit_test(an_order_may_stay_as_it_is),
        cmocka_unit_test(patterns_find_keys_and_fields_on_any_shard),
        cmocka_unit_test(a_pattern_alone_decides_whether_all_shards_are_needed),
        cmocka_unit_test(a_result_is_stored_as_a_list),
        cmocka_unit_test(keys_that_expire_under_a_pattern_do_no_harm),
        cmocka_unit_test(many_numbers_come_out_as_a_plain_sort_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
