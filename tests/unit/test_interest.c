#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/keyhash.h"
#include "base/rng.h"
#include "store/interest.h"

static uint64_t hash_of(struct slice key) { return keyhash(key, 1); }

static void add(struct interests *in, struct interest *i, uint16_t db, const char *key)
{
    interest_add(in, i, db, slice_str(key), hash_of(slice_str(key)));
}

static void touch(struct interests *in, uint16_t db, const char *key)
{
    interest_touch(in, db, slice_str(key), hash_of(slice_str(key)));
}

static bool is_x(void *ctx, struct slice key, uint64_t hash)
{
    assert_int_equal(hash, hash_of(key));
    return slice_is(key, "x");
}

static void a_change_makes_the_watchers_of_that_key_and_database_dirty_and_nobody_else(void **state)
{
    struct interests *in = interests_new();
    atomic_bool dirty[4] = {false, false, false, false};
    struct interest a = {.dirty = &dirty[0]}, b = {.dirty = &dirty[1]}, other_db = {.dirty = &dirty[2]}, other_key = {.dirty = &dirty[3]};
    add(in, &a, 0, "x");
    add(in, &b, 0, "y");
    add(in, &other_db, 1, "x");
    add(in, &other_key, 1, "y");
    touch(in, 0, "x");
    assert_true(dirty[0]);
    assert_false(dirty[1]);
    assert_false(dirty[2]);
    assert_false(interest_any_ready(in));
    interest_touch_if(in, 1, is_x, NULL);
    assert_true(dirty[2]);
    assert_false(dirty[1]);
    assert_false(dirty[3]);
    interest_remove(in, &other_key);
    interest_remove(in, &a);
    interest_remove(in, &a);
    interest_remove(in, &b);
    assert_false(interests_empty(in));
    interest_remove(in, &other_db);
    assert_true(interests_empty(in));
    interests_free(in);
}

static void a_key_is_ready_once_and_its_first_waiter_comes_first(void **state)
{
    struct interests *in = interests_new();
    atomic_bool dirty = false;
    struct interest watcher = {.dirty = &dirty}, first = {0}, second = {0}, elsewhere = {0};
    add(in, &watcher, 0, "list");
    add(in, &first, 0, "list");
    add(in, &second, 0, "list");
    add(in, &elsewhere, 0, "other");
    touch(in, 0, "list");
    touch(in, 0, "other");
    touch(in, 0, "list");
    uint16_t db;
    struct slice key;
    struct interest *waiter;
    assert_true(interest_next_ready(in, &db, &key, &waiter));
    assert_true(slice_is(key, "list"));
    assert_ptr_equal(waiter, &first);
    assert_ptr_equal(waiter->next, &second);
    assert_true(interest_next_ready(in, &db, &key, &waiter));
    assert_ptr_equal(waiter, &elsewhere);
    assert_false(interest_next_ready(in, &db, &key, &waiter));
    interests_free(in);
    assert_null(first.key);
}

static void a_served_key_keeps_its_name_until_the_next_one(void **state)
{
    struct interests *in = interests_new();
    struct interest only = {0};
    add(in, &only, 3, "list");
    touch(in, 3, "list");
    uint16_t db;
    struct slice key;
    struct interest *waiter;
    assert_true(interest_next_ready(in, &db, &key, &waiter));
    interest_remove(in, &only);
    assert_true(interests_empty(in));
    assert_true(slice_is(key, "list"));
    assert_int_equal(db, 3);
    add(in, &only, 3, "list");
    assert_false(interest_next_ready(in, &db, &key, &waiter));
    interest_remove(in, &only);
    interests_free(in);
}

static void a_key_whose_waiters_left_is_not_ready_any_more(void **state)
{
    struct interests *in = interests_new();
    atomic_bool dirty = false;
    struct interest waiter = {0}, watcher = {.dirty = &dirty};
    add(in, &waiter, 0, "k");
    add(in, &watcher, 0, "k");
    touch(in, 0, "k");
    assert_true(interest_any_ready(in));
    interest_remove(in, &waiter);
    assert_false(interest_any_ready(in));
    interest_ready(in, &watcher);
    assert_false(interest_any_ready(in));
    interest_remove(in, &watcher);
    interests_free(in);
}

static void many_keys_are_kept_apart(void **state)
{
    enum { KEYS = 500 };
    static struct interest is[KEYS];
    static atomic_bool dirty[KEYS];
    struct interests *in = interests_new();
    struct rng r;
    rng_init(&r, 4);
    char key[16];
    for (int step = 0; step < 20000; step++) {
        size_t i = rng_below(&r, KEYS);
        snprintf(key, sizeof key, "k%zu", i);
        if (!is[i].key) {
            is[i].dirty = &dirty[i];
            add(in, &is[i], (uint16_t)(i % 16), key);
        } else if (rng_below(&r, 2)) {
            interest_remove(in, &is[i]);
        } else {
            touch(in, (uint16_t)(i % 16), key);
            assert_true(atomic_exchange(&dirty[i], false));
        }
    }
    for (size_t i = 0; i < KEYS; i++) {
        assert_false(dirty[i]);
        interest_remove(in, &is[i]);
    }
    assert_true(interests_empty(in));
    interests_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_makes_the_watchers_of_that_key_and_database_dirty_and_nobody_else),
        cmocka_unit_test(a_key_is_ready_once_and_its_first_waiter_comes_first),
        cmocka_unit_test(a_served_key_keeps_its_name_until_the_next_one),
        cmocka_unit_test(a_key_whose_waiters_left_is_not_ready_any_more),
        cmocka_unit_test(many_keys_are_kept_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
