/* The indexes of ordered key spaces against what the table of keys says, under everything that can happen to a key. */
#include "harness.h"

#include <stdlib.h>

#include "base/rng.h"
#include "route/keyspace.h"
#include "shelf.h"
#include "store/cut.h"
#include "store/evict.h"
#include "store/keyindex.h"
#include "store/spaceindex.h"

enum { KEYS = 60, SPACES = 5, FOUND_MAX = SPACES * KEYS };

/* What the owner of the stores says of spaces s0.. s4. */
struct modes {
    bool ordered[SPACES];
};

static const char *const names[SPACES] = {"s0", "s1", "deep/s2", "s3", ""};

static bool is_ordered(void *ctx, struct slice space)
{
    const struct modes *m = ctx;
    for (unsigned i = 0; i < SPACES; i++)
        if (slice_eq(space, slice_str(names[i]))) return m->ordered[i];
    return false;
}

static struct harness *world(struct modes *m)
{
    struct harness *h = harness_new(1, &strings_family, &keys_family, &expiry_family, &lists_family, &hashes_family, &sets_family, &zsets_family, NULL);
    h->check = false;
    h->stores[0]->is_ordered = is_ordered;
    h->stores[0]->is_ordered_ctx = m;
    return h;
}

/* ---- the naive twin */

static int by_key(const void *a, const void *b) { return slice_cmp(entry_key(*(struct entry *const *)a), entry_key(*(struct entry *const *)b)); }

static unsigned keys_of(const struct store *s, uint16_t db, struct slice space, struct entry *found[FOUND_MAX])
{
    unsigned n = 0;
    struct table_iter it;
    if (!s->dbs[db]) return 0;
    table_iter_init(&it, &s->dbs[db]->keys);
    for (struct entry *e; (e = table_iter_next(&it));)
        if (slice_eq(space_of(entry_key(e)), space)) found[n++] = e;
    qsort(found, n, sizeof *found, by_key);
    return n;
}

static void index_has_all_keys_of(const struct store *s, uint16_t db, struct slice space)
{
    struct entry *found[FOUND_MAX];
    unsigned n = keys_of(s, db, space, found);
    const struct keyindex *k = store_index(s, db, space);
    struct keyindex_at at;
    assert_int_equal(k != NULL, n > 0);
    if (!k) return;
    struct entry *e = keyindex_seek(k, SLICE(""), &at);
    for (unsigned i = 0; i < n; i++, e = keyindex_next(&at)) assert_ptr_equal(e, found[i]);
    assert_null(e);
}

static void line_has_all_other_keys(const struct store *s, const struct modes *m, uint16_t db)
{
    struct entry *found[FOUND_MAX];
    unsigned n = 0;
    if (!s->in_line) {
        assert_null(store_line(s, db));
        return;
    }
    for (unsigned i = 0; i < SPACES; i++)
        if (!m->ordered[i]) n += keys_of(s, db, slice_str(names[i]), found + n);
    n += keys_of(s, db, SLICE("deep"), found + n); /* "deep/s2" as a key */
    qsort(found, n, sizeof *found, by_key);
    const struct keyindex *k = store_line(s, db);
    struct keyindex_at at;
    assert_int_equal(k ? k->count : 0, n);
    if (!k) return;
    struct entry *e = keyindex_seek(k, SLICE(""), &at);
    for (unsigned i = 0; i < n; i++, e = keyindex_next(&at)) assert_ptr_equal(e, found[i]);
}

static void same(const struct store *s, const struct modes *m)
{
    store_check(s);
    for (uint16_t db = 0; db < 3; db++) line_has_all_other_keys(s, m, db);
    for (uint16_t db = 0; db < 3; db++)
        for (unsigned i = 0; i < SPACES; i++) {
            if (m->ordered[i]) index_has_all_keys_of(s, db, slice_str(names[i]));
            else assert_null(store_index(s, db, slice_str(names[i])));
        }
}

/* ---- things that happen */

static void write_something(struct harness *h, struct rng *rng)
{
    static const char *const forms[] = {
        "SET %s v", "SET %s %0300u", "SET %s %09000u", "APPEND %s %u", "SETRANGE %s 20 %u", "DEL %s", "EXPIRE %s 1%u", "PERSIST %s", "SET %s %u KEEPTTL", "SET %s v EX 2%u",
        "LPUSH %s a %u", "RPUSH %s %0100u b", "RPUSH %s %09000u", "LPOP %s", "RPOP %s 2", "LSET %s 0 %u", "HSET %s f%u v", "HSET %s g %0100u", "HDEL %s g", "SADD %s %u", "SADD %s m%u n",
        "SREM %s n", "ZADD %s 1 %u", "ZADD %s 2 %0100u", "ZREM %s m", "UNLINK %s", "SADD %s 1", "SREM %s 1", "GET %s", "INCR %s",
    };
    char key[32], line[12000];
    unsigned n = (unsigned)rng_below(rng, SPACES * KEYS), v = (unsigned)rng_below(rng, KEYS);
    if (n < SPACES) snprintf(key, sizeof key, "%s", n % SPACES == 4 ? "/" : names[n]); /* a key that is its own space */
    else snprintf(key, sizeof key, "%s/%u", names[n % SPACES], n / SPACES);
    h->db = (uint16_t)(rng_below(rng, 8) == 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    snprintf(line, sizeof line, forms[rng_below(rng, sizeof forms / sizeof *forms)], key, v);
#pragma GCC diagnostic pop
    harness_run(h, line);
}

static void evict_one(struct store *s, enum evict_policy policy)
{
    struct evict_choice best;
    if (!evict_pick(s, policy, 5, &best)) return;
    store_apply(s, &(struct op){.kind = OP_DEL, .db = best.db, .key = entry_key(best.e)}, NULL);
}

static int64_t no_clock(void) { return 0; }

static void turn(struct harness *h, struct modes *m, struct rng *rng)
{
    struct store *s = h->stores[0];
    unsigned i = (unsigned)rng_below(rng, SPACES);
    struct store_ordering at = {0};
    if (rng_below(rng, 3) == 0) s->in_line = !s->in_line;
    else m->ordered[i] = !m->ordered[i];
    while (store_order_step(s, &at, 1 + (size_t)rng_below(rng, 50))) {
        write_something(h, rng);
        if (rng_below(rng, 10) == 0) harness_run(h, "SWAPDB 0 2");
    }
}

enum happening { EXPIRY, EVICTION, FLUSH, SWAP, SWAP_ELSEWHERE, TURN, CHILL, COMPACTION, HAPPENINGS };

static void happen(struct harness *h, struct modes *m, struct rng *rng, enum happening what)
{
    struct store *s = h->stores[0];
    switch (what) {
    case EXPIRY:
        h->now_ms += (int64_t)rng_below(rng, 15000);
        s->now_ms = h->now_ms;
        store_expire_step(s, 1000, no_clock);
        break;
    case EVICTION: evict_one(s, rng_below(rng, 2) ? EVICT_ALLKEYS_LRU : EVICT_VOLATILE_TTL); break;
    case FLUSH: if (rng_below(rng, 4) == 0) harness_run(h, rng_below(rng, 2) ? "FLUSHALL" : "FLUSHDB"); break;
    case SWAP: harness_run(h, "SWAPDB 0 1"); break;
    case SWAP_ELSEWHERE: harness_run(h, rng_below(rng, 2) ? "SWAPDB 1 2" : "SWAPDB 0 0"); break;
    case TURN: turn(h, m, rng); break;
    case CHILL: shelf_chill_some(s, rng, 4); break;
    default: while (store_compact_step(s, 100, true)) continue;
    }
}

static void nothing_goes_out(void *ctx, uint16_t db, const struct entry *e) { ++*(uint64_t *)ctx; }

static void whatever_happens_an_index_has_the_keys_of_its_space(void **state)
{
    struct modes m = {.ordered = {true, false, true, false, true}};
    struct harness *h = world(&m);
    struct store *s = h->stores[0];
    struct shelf shelf;
    struct rng rng;
    uint64_t indexed = 0, in_line = 0, emitted = 0, cold = 0;
    shelf_init(&shelf);
    s->tier = &shelf.tier;
    rng_init(&rng, 1234);
    for (unsigned round = 0; round < 400; round++) {
        struct cut *cut = rng_below(&rng, 2) ? cut_begin(s, nothing_goes_out, &emitted) : NULL;
        for (unsigned i = (unsigned)rng_below(&rng, 150); i; i--) {
            write_something(h, &rng);
            if (cut && rng_below(&rng, 8) == 0) cut_step(cut, 5);
        }
        cold += s->cold;
        happen(h, &m, &rng, (enum happening)rng_below(&rng, HAPPENINGS));
        while (cut && cut_step(cut, 50)) continue;
        if (cut) cut_free(cut);
        same(s, &m);
        in_line += store_line(s, 0) ? store_line(s, 0)->count : 0;
        for (unsigned i = 0; i < SPACES; i++) {
            const struct keyindex *k = store_index(s, 0, slice_str(names[i]));
            indexed += k ? k->count : 0;
        }
    }
    assert_true(indexed > 10000 && in_line > 2000 && emitted > 10000 && cold > 10000 && s->stats.expired > 50);
    harness_free(h);
    shelf_fini(&shelf);
}

/* ---- one at a time */

static void fill(struct harness *h, const char *space, unsigned n, unsigned bytes)
{
    char line[512];
    for (unsigned i = 0; i < n; i++) {
        snprintf(line, sizeof line, "SET %s/%05u %0*u", space, i, (int)bytes, i);
        harness_run(h, line);
    }
}

static void every_database_has_indexes_of_its_own_and_only_of_ordered_spaces(void **state)
{
    struct modes m = {.ordered = {true}};
    struct harness *h = world(&m);
    fill(h, "s0", 10, 5);
    fill(h, "s1", 10, 5);
    h->db = 3;
    fill(h, "s0", 4, 5);
    same(h->stores[0], &m);
    assert_int_equal(store_index(h->stores[0], 0, SLICE("s0"))->count, 10);
    assert_int_equal(store_index(h->stores[0], 3, SLICE("s0"))->count, 4);
    harness_free(h);
}

static void an_index_counts_the_bytes_that_memory_usage_says(void **state)
{
    struct modes m = {.ordered = {true}};
    struct harness *h = world(&m);
    fill(h, "s0", 100, 50);
    harness_run(h, "APPEND s0/00007 and-some-more-bytes-that-need-another-block-than-the-one-before");
    uint64_t bytes = 0;
    struct entry *found[FOUND_MAX];
    for (unsigned i = 0, n = keys_of(h->stores[0], 0, SLICE("s0"), found); i < n; i++) bytes += store_entry_bytes(h->stores[0], found[i]);
    assert_int_equal(store_index(h->stores[0], 0, SLICE("s0"))->bytes, bytes);
    harness_free(h);
}

static void a_space_that_becomes_ordered_is_indexed_in_slices_and_dropped_in_slices(void **state)
{
    struct modes m = {0};
    struct harness *h = world(&m);
    struct store *s = h->stores[0];
    struct store_ordering at = {0};
    unsigned steps = 0;
    h->check = false;
    fill(h, "s3", 1000, 5);
    assert_null(store_index(s, 0, SLICE("s3")));
    m.ordered[3] = true;
    do steps++; while (store_order_step(s, &at, 50));
    assert_in_range(steps, 20, 36);
    assert_int_equal(store_index(s, 0, SLICE("s3"))->count, 1000);
    store_check(s);
    m.ordered[3] = false;
    at = (struct store_ordering){0};
    while (store_order_step(s, &at, 50)) store_check(s);
    same(s, &m);
    harness_free(h);
}

static void a_database_that_gets_another_number_takes_its_indexes_along(void **state)
{
    struct modes m = {.ordered = {true}};
    struct harness *h = world(&m);
    fill(h, "s0", 200, 5);
    h->db = 1;
    fill(h, "s0", 7, 5);
    harness_run(h, "SWAPDB 1 0");
    same(h->stores[0], &m);
    assert_int_equal(store_index(h->stores[0], 0, SLICE("s0"))->count, 7);
    assert_int_equal(store_index(h->stores[0], 1, SLICE("s0"))->count, 200);
    harness_run(h, "SWAPDB 0 9");
    same(h->stores[0], &m);
    assert_null(store_index(h->stores[0], 0, SLICE("s0")));
    harness_free(h);
}

static void entries_that_move_together_are_found_where_they_went(void **state)
{
    struct modes m = {.ordered = {true}};
    struct harness *h = world(&m);
    struct store *s = h->stores[0];
    char line[64];
    unsigned steps = 0;
    fill(h, "s0", 40000, 90);
    for (unsigned i = 0; i < 40000; i++) {
        if (i % 8 == 0) continue;
        snprintf(line, sizeof line, "DEL s0/%05u", i);
        harness_run(h, line);
    }
    while (store_compact_step(s, 500, true)) steps++;
    assert_true(steps > 2);
    store_check(s);
    assert_int_equal(store_index(s, 0, SLICE("s0"))->count, 5000);
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_database_has_indexes_of_its_own_and_only_of_ordered_spaces),
        cmocka_unit_test(an_index_counts_the_bytes_that_memory_usage_says),
        cmocka_unit_test(a_space_that_becomes_ordered_is_indexed_in_slices_and_dropped_in_slices),
        cmocka_unit_test(a_database_that_gets_another_number_takes_its_indexes_along),
        cmocka_unit_test(entries_that_move_together_are_found_where_they_went),
        cmocka_unit_test(whatever_happens_an_index_has_the_keys_of_its_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
