#include <math.h>

#include "harness.h"

#include "command/hyll.h"

static struct harness *fresh(void) { return harness_new(4, &hll_family, &strings_family, &keys_family, &lists_family, NULL); }

static void pfadd_n(struct harness *h, const char *key, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        char element[32];
        int n = snprintf(element, sizeof element, "element-%u", i);
        struct slice argv[] = {SLICE("pfadd"), slice_str(key), slice_of(element, (size_t)n)};
        harness_argv(h, argv, 3);
    }
}

static struct slice value_of(struct harness *h, const char *key)
{
    struct place at;
    uint64_t hash = keyhash(slice_str(key), h->route.seed);
    store_peek(h->stores[route_shard(&h->route, hash)], 0, hash, slice_str(key), &at);
    assert_non_null(at.e);
    return entry_value(at.e);
}

static int64_t pfcount(struct harness *h, const char *words)
{
    struct slice r = harness_run(h, words);
    assert_true(r.n > 1 && r.p[0] == ':');
    return strtoll(r.p + 1, NULL, 10);
}

static void is_golden(unsigned n)
{
    char path[64];
    static char hex[40000];
    unsigned long count;
    snprintf(path, sizeof path, "tests/golden/hll/%u.txt", n);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%39999s %lu", hex, &count), 2);
    fclose(f);

    struct harness *h = fresh();
    h->check = h->cold = false;
    pfadd_n(h, "k", 0, n);
    assert_int_equal(pfcount(h, "PFCOUNT k"), count);
    struct slice v = value_of(h, "k");
    assert_int_equal(v.n * 2, strlen(hex));
    for (size_t i = 0; i < v.n; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        assert_int_equal((unsigned char)v.p[i], byte);
    }
    harness_free(h);
}

static void values_are_byte_for_byte_those_of_redis(void **state)
{
    is_golden(1);
    is_golden(100);
    is_golden(800);
    is_golden(20000);
}

static void adding_tells_whether_anything_changed(void **state)
{
    struct harness *h = fresh();
    harness_expect(h, "PFADD k", ":1\r\n"); /* the key came into being */
    assert_string_equal(harness_events(h), "new k;pfadd k;");
    harness_expect(h, "PFADD k", ":0\r\n");
    harness_expect(h, "PFADD k a b c", ":1\r\n");
    harness_expect(h, "PFADD k c b a", ":0\r\n");
    assert_int_equal(h->last.ops, 0);
    harness_expect(h, "PFCOUNT k", ":3\r\n");
    assert_int_equal(h->last.ops, 1); /* the estimate is kept */
    harness_expect(h, "PFCOUNT k", ":3\r\n");
    assert_int_equal(h->last.ops, 0);
    harness_expect(h, "PFCOUNT none", ":0\r\n");
    harness_free(h);
}

static void counts_over_several_keys_and_merges_are_those_of_the_union(void **state)
{
    struct harness *h = fresh();
    h->check = false;
    pfadd_n(h, "a", 0, 300);
    pfadd_n(h, "b", 200, 500);
    pfadd_n(h, "c", 400, 20000);
    pfadd_n(h, "ab", 0, 500);
    pfadd_n(h, "abc", 0, 20000);
    int64_t ab = pfcount(h, "PFCOUNT ab"), abc = pfcount(h, "PFCOUNT abc");
    assert_int_equal(pfcount(h, "PFCOUNT a b none"), ab);
    assert_int_equal(pfcount(h, "PFCOUNT a b c"), abc);
    harness_expect(h, "PFMERGE m a b none", "+OK\r\n");
    harness_expect(h, "PFDEBUG ENCODING m", "+sparse\r\n");
    assert_int_equal(pfcount(h, "PFCOUNT m"), ab);
    harness_expect(h, "PFMERGE m c", "+OK\r\n"); /* the destination counts as a source */
    harness_expect(h, "PFDEBUG ENCODING m", "+dense\r\n");
    assert_int_equal(pfcount(h, "PFCOUNT m"), abc);
    harness_expect(h, "PFMERGE empty", "+OK\r\n");
    harness_expect(h, "PFCOUNT empty", ":0\r\n");
    harness_free(h);
}

static void a_dense_value_is_changed_by_few_bytes(void **state)
{
    struct harness *h = fresh();
    h->check = false;
    pfadd_n(h, "k", 0, 5000);
    harness_expect(h, "PFDEBUG ENCODING k", "+dense\r\n");
    pfcount(h, "PFCOUNT k");
    unsigned changed = 0;
    for (unsigned i = 5000; i < 5100; i++) {
        pfadd_n(h, "k", i, i + 1);
        assert_true(h->last.ops <= 2); /* the register; the mark that the estimate is old */
        changed += h->last.ops > 0;
    }
    assert_true(changed > 20);
    harness_free(h);
}

static void the_limit_of_sparse_values_is_configured(void **state)
{
    struct harness *h = fresh();
    harness_expect(h, "PFADD k a b c d e f g h i j", ":1\r\n");
    harness_expect(h, "PFDEBUG ENCODING k", "+sparse\r\n");
    h->limits.hll_sparse_bytes = 30;
    harness_expect(h, "PFADD k new", ":1\r\n");
    harness_expect(h, "PFDEBUG ENCODING k", "+dense\r\n");
    harness_expect(h, "PFCOUNT k", ":11\r\n");
    harness_free(h);
}

static void values_that_are_none_or_damaged_are_told_apart(void **state)
{
    static const char none[] = "-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n", damaged[] = "-INVALIDOBJ Corrupted HLL object detected\r\n";
    struct harness *h = fresh();
    harness_expect(h, "SET s hello", "+OK\r\n");
    harness_expect(h, "PFADD s a", none);
    harness_expect(h, "PFCOUNT s", none);
    harness_expect(h, "PFMERGE d s", none);
    harness_expect(h, "SET s \"HYLL\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"", "+OK\r\n"); /* dense, too short */
    harness_expect(h, "PFCOUNT s", none);
    harness_expect(h, "RPUSH l a", ":1\r\n");
    harness_expect_start(h, "PFADD l a", "-WRONGTYPE Operation against");
    harness_expect_start(h, "PFCOUNT l", "-WRONGTYPE Operation against");
    /* runs that end early, go on too long, stop inside an opcode */
    static const char *const runs[] = {"\\x00", "\\x7f\\xff\\x01", "\\x7f"};
    for (size_t i = 0; i < 3; i++) {
        char words[160];
        snprintf(words, sizeof words, "SET s \"HYLL\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80%s\"", runs[i]);
        harness_expect(h, words, "+OK\r\n");
        harness_expect(h, "PFCOUNT s", damaged);
        harness_expect(h, "PFCOUNT s none", damaged);
        harness_expect(h, "PFMERGE d s", damaged);
        harness_expect(h, "PFDEBUG GETREG s", damaged);
        harness_expect(h, "PFDEBUG TODENSE s", damaged);
    }
    harness_expect(h, "PFADD s a", damaged);
    harness_expect(h, "EXISTS d", ":0\r\n");
    harness_free(h);
}

static void debugging_shows_registers_and_runs(void **state)
{
    struct harness *h = fresh();
    harness_expect(h, "PFADD k", ":1\r\n");
    harness_expect(h, "PFDEBUG DECODE k", "$7\r\nZ:16384\r\n");
    harness_expect(h, "PFADD k a", ":1\r\n");
    harness_expect(h, "PFDEBUG DECODE k", "$20\r\nZ:12711 v:2,1 Z:3672\r\n");
    harness_expect(h, "PFDEBUG TODENSE k", ":1\r\n");
    harness_expect(h, "PFDEBUG TODENSE k", ":0\r\n");
    harness_expect(h, "PFDEBUG DECODE k", "-ERR HLL encoding is not sparse\r\n");
    harness_expect_start(h, "PFDEBUG GETREG k", "*16384\r\n:0\r\n");
    harness_expect(h, "PFDEBUG WHAT k", "-ERR Unknown PFDEBUG subcommand 'WHAT'\r\n");
    harness_expect(h, "PFDEBUG GETREG none", "-ERR The specified key does not exist\r\n");
    harness_expect(h, "PFSELFTEST", "+OK\r\n");
    harness_free(h);
}

/* Against a naive twin: one byte per register. */
static void sparse_and_dense_values_hold_the_maxima(void **state)
{
    struct rng rng;
    rng_init(&rng, 5);
    for (unsigned round = 0; round < 20; round++) {
        uint8_t twin[HYLL_REGISTERS] = {0}, got[HYLL_REGISTERS];
        struct buf v = {0};
        bool was_sparse = false;
        hyll_new(&v);
        for (unsigned step = 0; step < 1500; step++) {
            unsigned spread = round % 2 ? HYLL_REGISTERS : 64; /* near each other: runs are joined and split all the time */
            struct hyll_hit hit = {(unsigned)rng_below(&rng, spread), 1 + (unsigned)rng_below(&rng, step > 1400 ? 51 : 8)};
            int raised = hyll_raise(&v, hit, HYLL_SPARSE_MAX);
            assert_int_equal(raised, hit.count > twin[hit.index]);
            if (raised) twin[hit.index] = (uint8_t)hit.count;
            was_sparse |= !hyll_dense(buf_slice(&v));
            assert_true(hyll_is(buf_slice(&v)));
            if (step % 50 == 0 || step > 1480) {
                assert_true(hyll_registers(buf_slice(&v), got));
                assert_memory_equal(got, twin, sizeof twin);
            }
        }
        assert_true(was_sparse && hyll_dense(buf_slice(&v)));
        buf_fini(&v);
    }
}

static void the_estimate_is_near_the_truth(void **state)
{
    struct buf v = {0};
    uint8_t registers[HYLL_REGISTERS];
    hyll_new(&v);
    for (uint64_t i = 1; i <= 200000; i++) {
        hyll_raise(&v, hyll_hit(slice_of(&i, sizeof i)), HYLL_SPARSE_MAX);
        if (i != 10 && i != 1000 && i != 40000 && i != 200000) continue;
        assert_true(hyll_registers(buf_slice(&v), registers));
        assert_true(fabs((double)hyll_estimate(registers) - (double)i) <= 0.04 * (double)i);
    }
    buf_fini(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_byte_for_byte_those_of_redis),
        cmocka_unit_test(adding_tells_whether_anything_changed),
        cmocka_unit_test(counts_over_several_keys_and_merges_are_those_of_the_union),
        cmocka_unit_test(a_dense_value_is_changed_by_few_bytes),
        cmocka_unit_test(the_limit_of_sparse_values_is_configured),
        cmocka_unit_test(values_that_are_none_or_damaged_are_told_apart),
        cmocka_unit_test(debugging_shows_registers_and_runs),
        cmocka_unit_test(sparse_and_dense_values_hold_the_maxima),
        cmocka_unit_test(the_estimate_is_near_the_truth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
