/* A store: finding, expiry, eviction, what others are told. What every op does is in test_storewalk.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyhash.h"
#include "base/rng.h"
#include "store/evict.h"
#include "store/interest.h"
#include "store/store.h"

/* Small limits, so that small collections are large ones. */
static const struct store_limits limits = {
    .hash_entries = 8, .hash_value = 20, .set_ints = 6, .set_entries = 8, .set_value = 20, .zset_entries = 8, .zset_value = 20,
    .list_size = 5, .lfu_log_factor = 10, .lfu_decay_minutes = 1,
};

/* --- finding --- */

static void set(struct store *s, struct slice key, struct slice value, int64_t expiry_ms)
{
    store_apply(s, &(struct op){.kind = OP_SET, .key = key, .value = value, .expiry_ms = expiry_ms}, NULL);
}

static bool find(struct store *s, struct slice key, struct place *at)
{
    store_find(s, 0, keyhash(key, s->seed), key, at);
    return at->e != NULL;
}

static void an_expired_key_is_hidden_while_expiry_is_paused_and_a_write_still_meets_it(void **state)
{
    struct store *s = store_new(1, &limits, 1);
    struct place at;
    s->now_ms = 1000;
    set(s, SLICE("k"), SLICE("v"), 1500);
    s->now_ms = 1500;
    assert_true(find(s, SLICE("k"), &at));
    s->now_ms = 1501;
    s->lazy_expire_paused = true;
    assert_false(find(s, SLICE("k"), &at));
    assert_int_equal(store_keys(s, 0), 1);
    assert_int_equal(s->stats.expired, 0);
    store_apply(s, &(struct op){.kind = OP_SET, .key = SLICE("k"), .value = SLICE("new")}, &at);
    assert_int_equal(store_keys(s, 0), 1);
    assert_int_equal(store_expiring(s, 0), 0);
    store_check(s);
    set(s, SLICE("k"), SLICE("v"), 1501);
    s->now_ms = 1502;
    s->lazy_expire_paused = false;
    assert_false(find(s, SLICE("k"), &at));
    assert_int_equal(store_keys(s, 0), 0);
    assert_int_equal(s->stats.expired, 1);
    assert_int_equal(s->stats.hits, 1);
    assert_int_equal(s->stats.misses, 2);
    store_free(s);
}

static void a_place_outlives_the_expiry_of_other_keys(void **state)
{
    struct store *s = store_new(1, &limits, 1);
    struct place at, other;
    char key[16];
    s->now_ms = 1000;
    for (int i = 0; i < 3000; i++) set(s, slice_of(key, (size_t)snprintf(key, sizeof key, "k%d", i)), SLICE("v"), 2000);
    set(s, SLICE("stays"), SLICE("v"), 0);
    assert_true(find(s, SLICE("stays"), &at));
    s->now_ms = 3000;
    for (int i = 0; i < 3000; i++) assert_false(find(s, slice_of(key, (size_t)snprintf(key, sizeof key, "k%d", i)), &other));
    store_apply(s, &(struct op){.kind = OP_EXPIRE, .key = SLICE("stays"), .expiry_ms = 9000}, &at);
    store_apply(s, &(struct op){.kind = OP_APPEND, .key = SLICE("stays"), .value = SLICE("alue")}, &at);
    assert_true(slice_eq(entry_value(at.e), SLICE("value")));
    store_check(s);
    store_free(s);
}

static void note_scrambles(struct store *s, uint16_t db, uint64_t *scrambles, unsigned *n)
{
    store_apply(s, &(struct op){.kind = OP_SET, .db = db, .key = SLICE("k"), .value = SLICE("v")}, NULL);
    scrambles[(*n)++] = s->dbs[db]->keys.scramble;
    scrambles[(*n)++] = s->dbs[db]->expiring.scramble;
}

/* Databases, their indexes of expiring keys, flushed and emptied ones, those of other shards: keys go from any of them to any other in order. */
static void every_table_has_an_order_of_its_own(void **state)
{
    struct store *one = store_new(1, &limits, 1), *two = store_new(1, &limits, 2);
    uint64_t scrambles[16];
    unsigned n = 0;
    note_scrambles(one, 0, scrambles, &n);
    note_scrambles(one, 1, scrambles, &n);
    note_scrambles(two, 0, scrambles, &n);
    store_apply(one, &(struct op){.kind = OP_FLUSH}, NULL);
    note_scrambles(one, 0, scrambles, &n);
    store_apply(one, &(struct op){.kind = OP_DEL, .key = SLICE("k")}, NULL);
    scrambles[n++] = one->dbs[0]->keys.scramble;
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < i; j++) assert_int_not_equal(scrambles[i], scrambles[j]);
    store_free(one);
    store_free(two);
}

static void changes_reach_watchers_and_waiters(void **state)
{
    struct store *s = store_new(1, &limits, 1);
    atomic_bool dirty = false;
    struct interest watcher = {.dirty = &dirty}, waiter = {0};
    uint64_t hash = keyhash(SLICE("k"), s->seed);
    interest_add(s->interests, &watcher, 0, SLICE("k"), hash);
    interest_add(s->interests, &waiter, 0, SLICE("k"), hash);
    set(s, SLICE("other"), SLICE("v"), 0);
    store_apply(s, &(struct op){.kind = OP_DEL, .key = SLICE("k")}, NULL);
    assert_false(dirty);
    set(s, SLICE("k"), SLICE("v"), 0);
    assert_true(atomic_exchange(&dirty, false));
    assert_true(interest_any_ready(s->interests));
    store_apply(s, &(struct op){.kind = OP_FLUSH}, NULL);
    assert_true(dirty);
    interest_remove(s->interests, &watcher);
    interest_remove(s->interests, &waiter);
    store_free(s);
}

static void an_entry_may_be_deleted_by_its_own_key(void **state)
{
    struct store *s = store_new(1, &limits, 1);
    struct place at;
    set(s, SLICE("some key"), SLICE("some value"), 0);
    assert_true(find(s, SLICE("some key"), &at));
    store_apply(s, &(struct op){.kind = OP_DEL, .key = entry_key(at.e)}, &at);
    assert_null(at.e);
    assert_int_equal(store_keys(s, 0), 0);
    store_free(s);
}

/* --- expiry in steps, eviction --- */

static int64_t still_clock(void) { return 0; }

static void count_expiry(void *ctx, uint16_t db, struct slice key) { ++*(uint64_t *)ctx; }

static void active_expiry_deletes_all_that_expired_and_nothing_else(void **state)
{
    struct store *s = store_new(1, &limits, 1);
    uint64_t told = 0;
    char key[16];
    s->on_expire = count_expiry;
    s->on_expire_ctx = &told;
    s->now_ms = 1000;
    for (int i = 0; i < 6000; i++)
        store_apply(s, &(struct op){.kind = OP_SET, .db = (uint16_t)(i % 3), .value = SLICE("v"), .expiry_ms = i % 2 ? 2000 : 0,
                                    .key = slice_of(key, (size_t)snprintf(key, sizeof key, "k%d", i))}, NULL);
    assert_false(store_expire_step(s, 1000, still_clock));
    s->now_ms = 2001;
    assert_true(store_expire_step(s, 1000, still_clock));
    for (int i = 0; i < 50; i++) store_expire_step(s, 1000, still_clock);
    assert_false(store_expire_step(s, 1000, still_clock));
    assert_int_equal(told, 3000);
    assert_int_equal(s->stats.expired, 3000);
    assert_int_equal(store_keys(s, 0) + store_keys(s, 1) + store_keys(s, 2), 3000);
    store_check(s);
    store_free(s);
}

static void an_expiry_step_without_budget_does_one_small_batch(void **state)
{
    struct store *s = store_new(1, &limits, 1);
    char key[16];
    s->now_ms = 1000;
    for (int i = 0; i < 5000; i++) set(s, slice_of(key, (size_t)snprintf(key, sizeof key, "k%d", i)), SLICE("v"), 2000);
    s->now_ms = 5000;
    assert_true(store_expire_step(s, 0, still_clock));
    assert_in_range(s->stats.expired, 10, 80);
    store_free(s);
}

static void eviction_prefers_what_its_policy_says(void **state)
{
    struct store *s = store_new(1, &limits, 1);
    struct evict_choice c;
    struct place at;
    char key[16];
    s->now_ms = 1000000;
    assert_false(evict_pick(s, EVICT_ALLKEYS_LRU, 5, &c));
    for (int i = 0; i < 50; i++) {
        s->now_ms += 1000;
        set(s, slice_of(key, (size_t)snprintf(key, sizeof key, "k%d", i)), SLICE("v"), i % 2 ? 9000000 - i : 0);
    }
    assert_true(find(s, SLICE("k0"), &at));
    assert_int_equal(evict_idle_ms(s->now_ms, entry_access(at.e)), 0);
    assert_true(evict_pick(s, EVICT_ALLKEYS_LRU, 2000, &c));
    assert_true(slice_is(entry_key(c.e), "k1"));
    assert_true(evict_pick(s, EVICT_VOLATILE_TTL, 2000, &c));
    assert_true(slice_is(entry_key(c.e), "k49"));
    assert_true(evict_pick(s, EVICT_VOLATILE_RANDOM, 1, &c));
    assert_true(entry_expiry_ms(c.e) != 0);
    assert_false(evict_pick(s, EVICT_NONE, 5, &c));
    store_free(s);
}

static void the_lfu_counter_grows_slowly_and_decays(void **state)
{
    struct store_limits lfu = limits;
    lfu.lfu = true;
    struct rng r;
    rng_init(&r, 3);
    int64_t now = 1700000000000;
    uint32_t access = evict_access_new(&lfu, now);
    assert_int_equal(evict_freq(&lfu, now, access), 5);
    for (int i = 0; i < 1000; i++) access = evict_access_now(&lfu, now, access, &r);
    assert_in_range(evict_freq(&lfu, now, access), 12, 26);
    for (int i = 0; i < 100000; i++) access = evict_access_now(&lfu, now, access, &r);
    uint8_t high = evict_freq(&lfu, now, access);
    assert_in_range(high, 110, 200);
    assert_int_equal(evict_freq(&lfu, now + 10 * 60000, access), high - 10);
    assert_int_equal(evict_freq(&lfu, now + 1000 * 60000, access), 0);
}

static void policies_by_frequency_are_known(void **state)
{
    for (unsigned p = 0; p < EVICT_POLICIES; p++)
        assert_int_equal(evict_policy_is_lfu((enum evict_policy)p), p == EVICT_ALLKEYS_LFU || p == EVICT_VOLATILE_LFU);
}

static void flushing_gives_the_memory_back(void **state)
{
    struct store *s = store_new(1, &limits, 1);
    char key[16];
    for (int i = 0; i < 20000; i++) set(s, slice_of(key, (size_t)snprintf(key, sizeof key, "k%d", i)), SLICE("v"), i % 3 ? 0 : 99);
    assert_true(store_bytes(s) > 20000 * 20);
    store_apply(s, &(struct op){.kind = OP_FLUSH}, NULL);
    assert_int_equal(store_bytes(s), 0);
    assert_int_equal(store_keys(s, 0), 0);
    assert_int_equal(store_expiring(s, 0), 0);
    assert_false(store_grow_step(s, 100));
    set(s, SLICE("k"), SLICE("v"), 0);
    store_prefetch(s, 0, 1);
    store_prefetch(s, 9, 1);
    store_check(s);
    store_free(s);
}

static int64_t budget_clock(void) { return 0; }

static void the_system_database_is_neither_evicted_from_nor_heard_of_when_a_key_of_it_expires(void **state)
{
    struct store *s = store_new(1, &limits, 1);
    struct evict_choice choice;
    struct place at;
    uint64_t told = 0, digest = store_digest(s);
    s->on_expire = count_expiry;
    s->on_expire_ctx = &told;
    s->now_ms = 1000;
    store_apply(s, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = SLICE("stays"), .value = SLICE("v")}, NULL);
    store_apply(s, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = SLICE("lazy"), .value = SLICE("v"), .expiry_ms = 2000}, NULL);
    store_apply(s, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = SLICE("active"), .value = SLICE("v"), .expiry_ms = 3000}, NULL);
    for (enum evict_policy p = 0; p < EVICT_POLICIES; p++) assert_false(evict_pick(s, p, 5, &choice));
    assert_true(store_digest(s) != digest && store_bytes(s) > 0);
    s->now_ms = 2500;
    store_peek(s, STORE_SYSTEM_DB, keyhash(SLICE("lazy"), s->seed), SLICE("lazy"), &at);
    assert_null(at.e);
    s->now_ms = 3500;
    store_expire_step(s, 1000, budget_clock);
    assert_int_equal(store_keys(s, STORE_SYSTEM_DB), 1);
    assert_int_equal(told + s->stats.expired, 0);
    store_check(s);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expired_key_is_hidden_while_expiry_is_paused_and_a_write_still_meets_it),
        cmocka_unit_test(a_place_outlives_the_expiry_of_other_keys),
        cmocka_unit_test(every_table_has_an_order_of_its_own),
        cmocka_unit_test(changes_reach_watchers_and_waiters),
        cmocka_unit_test(an_entry_may_be_deleted_by_its_own_key),
        cmocka_unit_test(active_expiry_deletes_all_that_expired_and_nothing_else),
        cmocka_unit_test(an_expiry_step_without_budget_does_one_small_batch),
        cmocka_unit_test(eviction_prefers_what_its_policy_says),
        cmocka_unit_test(the_lfu_counter_grows_slowly_and_decays),
        cmocka_unit_test(policies_by_frequency_are_known),
        cmocka_unit_test(flushing_gives_the_memory_back),
        cmocka_unit_test(the_system_database_is_neither_evicted_from_nor_heard_of_when_a_key_of_it_expires),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
