#include "harness.h"

#include "store/arena.h"
#include "store/evict.h"

static struct harness *fresh(void) { return harness_new(1, &strings_family, &keys_family, &hashes_family, &lists_family, &expiry_family, NULL); }

static void find(struct harness *h, const char *key, struct place *at)
{
    struct store *s = h->stores[0];
    store_peek(s, h->db, keyhash(slice_str(key), s->seed), slice_str(key), at);
}

static void chill(struct harness *h, const char *key)
{
    struct place at;
    find(h, key, &at);
    assert_true(at.e && chill_out(h->stores[0], h->db, at.e));
}

static struct slice string_of(char c, size_t n, char to[8192])
{
    memset(to, c, n);
    return slice_of(to, n);
}

static void set(struct harness *h, const char *key, size_t n)
{
    char bytes[8192];
    struct slice argv[] = {SLICE("SET"), slice_str(key), string_of('v', n, bytes)};
    harness_argv(h, argv, 3);
}

static void a_cold_value_frees_its_memory_and_comes_back(void **state)
{
    struct harness *h = fresh();
    set(h, "k", 4000);
    harness_run(h, "EXPIRE k 100");
    size_t warm = store_bytes(h->stores[0]);
    uint64_t digest = store_digest(h->stores[0]);
    chill(h, "k");
    assert_true(store_bytes(h->stores[0]) + 3900 < warm);
    assert_true(store_digest(h->stores[0]) == digest);
    harness_expect(h, "TTL k", ":100\r\n");
    harness_expect(h, "TYPE k", "+string\r\n");
    assert_int_equal(h->shelf.gets, 1); /* the digest's */
    harness_expect(h, "STRLEN k", ":4000\r\n");
    assert_int_equal(store_bytes(h->stores[0]), warm);
    assert_int_equal(h->shelf.drops, 1);
    harness_free(h);
}

static void what_is_lent_goes_back_without_being_written_again(void **state)
{
    struct harness *h = fresh();
    struct place at;
    struct buf bytes = {0};
    set(h, "k", 500);
    chill(h, "k");
    find(h, "k", &at);
    struct chill_ref ref = chill_ref_of(at.e);
    assert_int_equal(shelf_get(&h->shelf, ref, SLICE("k"), &bytes), 0);
    assert_true(chill_warm(&at, buf_slice(&bytes), true));
    assert_int_equal(h->stores[0]->cold, 0);
    chill_back(&at, ref);
    assert_true(chill_is_cold(at.e) && chill_same(chill_ref_of(at.e), ref));
    assert_int_equal(h->shelf.puts, 1);
    assert_int_equal(h->shelf.drops, 0);
    store_check(h->stores[0]);
    bytes.p[bytes.len - 1] ^= 1;
    bytes.len--;
    assert_false(chill_warm(&at, buf_slice(&bytes), false)); /* no value */
    assert_true(chill_is_cold(at.e));
    buf_fini(&bytes);
    harness_free(h);
}

static void a_value_that_moves_in_the_tier_is_found_in_any_database(void **state)
{
    struct harness *h = fresh();
    struct place at;
    set(h, "k", 500);
    chill(h, "k");
    find(h, "k", &at);
    struct chill_ref from = chill_ref_of(at.e), to, other = {7, 99};
    harness_expect(h, "SWAPDB 0 5", "+OK\r\n");
    assert_true(shelf_put(&h->shelf, SLICE("k"), buf_slice(&h->shelf.items[0].image), &to));
    assert_false(chill_move(h->stores[0], SLICE("k"), other, to));
    assert_false(chill_move(h->stores[0], SLICE("no"), from, to));
    assert_true(chill_move(h->stores[0], SLICE("k"), from, to));
    shelf_drop(&h->shelf, from);
    h->db = 5;
    harness_expect(h, "STRLEN k", ":500\r\n");
    harness_free(h);
}

static void a_flushed_database_gives_its_references_up_in_steps(void **state)
{
    struct harness *h = fresh();
    char key[16];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "k%d", i);
        set(h, key, 200);
        if (i % 2) chill(h, key);
    }
    h->cold = false;
    harness_expect(h, "FLUSHDB", "+OK\r\n");
    assert_int_equal(h->stores[0]->cold, 0);
    assert_int_equal(h->shelf.drops, 0);
    unsigned steps = 1;
    while (chill_bury_step(h->stores[0], 10)) steps++;
    assert_in_range(steps, 5, 11);
    assert_int_equal(h->shelf.drops, 50);
    harness_free(h);
}

static void what_cannot_be_read_is_an_error_until_it_is_replaced(void **state)
{
    struct harness *h = fresh();
    set(h, "k", 500);
    harness_run(h, "RPUSH l a b");
    chill(h, "k");
    chill(h, "l");
    h->shelf.fail_gets = true;
    harness_expect_start(h, "GET k", "-COLD the value");
    harness_expect_start(h, "APPEND k x", "-COLD the value");
    harness_expect_start(h, "RENAME k n", "-COLD the value");
    harness_expect_start(h, "LPUSH l x", "-COLD the value");
    harness_expect_start(h, "GET l", "-WRONGTYPE");
    harness_expect(h, "EXISTS k l", ":2\r\n");
    harness_expect(h, "SET k new", "+OK\r\n");
    harness_expect(h, "GET k", "$3\r\nnew\r\n");
    harness_expect(h, "DEL l", ":1\r\n");
    harness_free(h);
}

static void picking_prefers_what_was_not_used_and_skips_what_is_not_worth_it(void **state)
{
    struct harness *h = fresh();
    struct store *s = h->stores[0];
    struct evict_choice c;
    char key[16];
    h->check = false;
    for (int i = 0; i < 2000; i++) {
        snprintf(key, sizeof key, "k%d", i);
        set(h, key, i % 4 ? 10 : 300);
    }
    h->now_ms += 100000;
    harness_run(h, "GET k400");
    for (int n = 0; n < 500; n++) {
        while (!evict_pick(s, EVICT_COLD, 5, &c)) assert_true(c.more);
        assert_true(chill_is_worth(s, c.e));
        assert_true(n == 499 || !slice_eq(entry_key(c.e), SLICE("k400")) || c.score == 0);
        assert_true(chill_out(s, c.db, c.e));
    }
    for (int i = 0; i < 100 && (evict_pick(s, EVICT_COLD, 5, &c) || c.more); i++) assert_null(c.e);
    assert_false(evict_pick(s, EVICT_COLD, 5, &c));
    assert_false(c.more);
    store_check(s);
    harness_free(h);
}

static void moving_entries_together_gives_memory_back(void **state)
{
    struct harness *h = fresh();
    struct store *s = h->stores[0];
    char key[16], line[64];
    struct rng rng;
    rng_init(&rng, 8);
    h->check = h->cold = false;
    for (int i = 0; i < 40000; i++) {
        snprintf(key, sizeof key, "k%d", i);
        set(h, key, 300 + (size_t)(i % 3) * 100);
        if (i % 5 == 0) snprintf(line, sizeof line, "EXPIRE k%d 1000", i), harness_run(h, line);
    }
    harness_run(h, "HSET h a b");
    for (int i = 0; i < 40000; i++)
        if (rng_below(&rng, 10) < 7) snprintf(line, sizeof line, "DEL k%d", i), harness_run(h, line);
    uint64_t digest = store_digest(s);
    size_t before = arena_holes(s->dbs[0]->arena), live = store_bytes(s);
    assert_true(before > 6 << 20);
    assert_false(store_compact_step(s, 100, false));
    for (int n = 0; store_compact_step(s, 500, true); n++) {
        if (n % 10 == 0) store_check(s);
        set(h, "other", 300 + (size_t)n % 200); /* life goes on meanwhile */
        harness_run(h, "DEL other");
    }
    store_check(s);
    assert_true(arena_holes(s->dbs[0]->arena) < before / 4);
    assert_true(store_bytes(s) == live && store_digest(s) == digest);
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cold_value_frees_its_memory_and_comes_back),
        cmocka_unit_test(what_is_lent_goes_back_without_being_written_again),
        cmocka_unit_test(a_value_that_moves_in_the_tier_is_found_in_any_database),
        cmocka_unit_test(a_flushed_database_gives_its_references_up_in_steps),
        cmocka_unit_test(what_cannot_be_read_is_an_error_until_it_is_replaced),
        cmocka_unit_test(picking_prefers_what_was_not_used_and_skips_what_is_not_worth_it),
        cmocka_unit_test(moving_entries_together_gives_memory_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
