/* Publishing: two phases, races, and a store that fails at every request in turn. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "snapdir.h"

static void a_first_publish_makes_a_manifest_and_a_pointer(void **state)
{
    struct snapdir *d = *state;
    struct publish_base base;
    struct publish_result r;
    struct manifest *m = snapdir_manifest(d, "one", NULL);
    assert_int_equal(publish_observe(d->s, NULL, &base, NULL), 0);
    assert_false(base.exists);
    assert_int_equal(publish_snapshot(d->s, NULL, m, &base, SNAPDIR_NOW, &r, NULL), 0);
    assert_int_equal(r.guard, PUBLISH_BY_STORE);
    assert_int_equal(r.published_us, SNAPDIR_NOW);
    assert_string_equal(object_key_of(d->s, r.manifest_ref), "manifests/2026-11-15T12:00:00.000000Z_run_id=one/manifest");
    assert_true(snapdir_has(d, object_key_of(d->s, r.manifest_ref)));
    char seen[64];
    assert_int_equal(snapdir_current(d, seen), 0);
    assert_string_equal(seen, "one");
    publish_result_fini(&r);
    publish_base_fini(&base);
    manifest_free(m);
}

static void names_sort_in_order_of_publishing_whatever_the_clock_says(void **state)
{
    struct snapdir *d = *state;
    struct history h;
    assert_int_equal(snapdir_publish(d, d->s, "z", SNAPDIR_NOW), 0);
    assert_int_equal(snapdir_publish(d, d->s, "a", SNAPDIR_NOW - 5000000), 0);
    assert_int_equal(snapdir_publish(d, d->s, "m", SNAPDIR_NOW), 0);
    assert_int_equal(history_load(d->s, NULL, 0, &h, NULL), 0);
    assert_int_equal(h.n, 3);
    assert_string_equal(h.entries[0].run_id, "m");
    assert_string_equal(h.entries[1].run_id, "a");
    assert_string_equal(h.entries[2].run_id, "z");
    assert_true(h.entries[0].is_current && !h.entries[1].is_current);
    history_fini(&h);
}

/* One publish upon `old`, with the k-th request going wrong; gives whether it was reached. */
static bool publish_with_fault(struct snapdir *d, struct faultstore_plan plan, enum faultstore_conditions conditions, bool first)
{
    char seen[64] = "";
    snapdir_clear(d);
    if (!first) assert_int_equal(snapdir_publish(d, d->inner, "old", SNAPDIR_NOW), 0);
    faultstore_set_conditions(d->s, conditions);
    faultstore_plan(d->s, plan);
    int rc = snapdir_publish(d, d->s, "new", SNAPDIR_NOW + 1);
    bool fired = faultstore_fired(d->s);
    faultstore_plan(d->s, (struct faultstore_plan){0});
    int sees = snapdir_current(d, seen);
    if (first && sees == ERR_SNAPSHOT_NO_CURRENT) strcpy(seen, "old");
    else assert_int_equal(sees, 0);
    assert_true(strcmp(seen, "old") == 0 || strcmp(seen, "new") == 0);
    if (rc == 0) assert_string_equal(seen, "new");
    else if (rc != ERR_SNAPSHOT_UNCERTAIN) assert_string_equal(seen, "old");
    assert_true(rc == 0 || rc == ERR_SNAPSHOT_MANIFEST || rc == ERR_SNAPSHOT_CURRENT || rc == ERR_SNAPSHOT_UNCERTAIN || rc == ERR_OBJECT_CONNECTION || rc == ERR_OBJECT_DENIED);
    assert_int_not_equal(rc, ERR_SNAPSHOT_RACE); /* nobody else was there */
    if (rc == ERR_SNAPSHOT_CURRENT) assert_int_equal(snapdir_count(d, "manifests/"), first ? 1 : 2);
    /* Whatever happened, the next one succeeds. */
    assert_int_equal(snapdir_publish(d, d->s, "next", SNAPDIR_NOW + 2), 0);
    assert_int_equal(snapdir_current(d, seen), 0);
    assert_string_equal(seen, "next");
    return fired;
}

static void a_store_that_fails_at_the_kth_request_leaves_the_old_snapshot_or_the_new(void **state)
{
    static const enum faultstore_kind kinds[] = {FAULTSTORE_FAIL, FAULTSTORE_LOSE, FAULTSTORE_HALF};
    static const int codes[] = {0, ERR_OBJECT_DENIED};
    size_t reached = 0;
    for (int conditions = 0; conditions < 3; conditions++)
        for (int variant = 0; variant < 3 * 2 * 2 * 2; variant++)
            for (uint64_t k = 1;; k++) {
                struct faultstore_plan plan = {.at = k, .kind = kinds[variant % 3], .code = codes[variant / 3 % 2], .for_good = variant / 6 % 2};
                if (plan.kind == FAULTSTORE_LOSE && plan.code == ERR_OBJECT_DENIED) break; /* a store that says no has not done it */
                if (!publish_with_fault(*state, plan, (enum faultstore_conditions)conditions, variant / 12 % 2)) break;
                reached++;
            }
    assert_true(reached > 150);
}

static void each_failure_has_its_own_code(void **state)
{
    struct snapdir *d = *state;
    struct publish_base base;
    struct publish_result r;
    struct buf why = {0};
    char seen[64];
    struct manifest *m = snapdir_manifest(d, "new", NULL);
    assert_int_equal(snapdir_publish(d, d->s, "old", SNAPDIR_NOW), 0);
    assert_int_equal(publish_observe(d->s, NULL, &base, NULL), 0);
    faultstore_plan(d->s, (struct faultstore_plan){.at = 1, .code = ERR_OBJECT_DENIED});
    assert_int_equal(publish_snapshot(d->s, NULL, m, &base, SNAPDIR_NOW + 1, &r, &why), ERR_SNAPSHOT_MANIFEST);
    assert_null(r.manifest_ref);
    assert_true(why.len > 0);
    faultstore_plan(d->s, (struct faultstore_plan){.at = 2, .code = ERR_OBJECT_DENIED});
    assert_int_equal(publish_snapshot(d->s, NULL, m, &base, SNAPDIR_NOW + 1, &r, &why), ERR_SNAPSHOT_CURRENT);
    assert_true(snapdir_has(d, object_key_of(d->s, r.manifest_ref)));
    assert_int_equal(snapdir_current(d, seen), 0);
    assert_string_equal(seen, "old");
    /* The second phase alone may be repeated. */
    faultstore_plan(d->s, (struct faultstore_plan){0});
    assert_int_equal(publish_current(d->s, NULL, r.manifest_ref, m->run_id, &base, SNAPDIR_NOW + 1, NULL, &why), 0);
    assert_int_equal(publish_current(d->s, NULL, r.manifest_ref, m->run_id, &base, SNAPDIR_NOW + 1, NULL, &why), 0);
    publish_result_fini(&r);
    publish_base_fini(&base);
    manifest_free(m);
    buf_fini(&why);
}

static void a_lost_answer_of_the_swap_is_found_out(void **state)
{
    struct snapdir *d = *state;
    char seen[64];
    assert_int_equal(snapdir_publish(d, d->s, "old", SNAPDIR_NOW), 0);
    faultstore_plan(d->s, (struct faultstore_plan){.at = 3, .kind = FAULTSTORE_LOSE}); /* observe, manifest, swap */
    assert_int_equal(snapdir_publish(d, d->s, "new", SNAPDIR_NOW + 1), 0);
    assert_true(faultstore_fired(d->s));
    assert_int_equal(snapdir_current(d, seen), 0);
    assert_string_equal(seen, "new");
}

/* ---- races */

struct intruder {
    struct snapdir *d;
    uint64_t at;
    bool acted;
};

static void intrude(void *arg, uint64_t number, const char *verb, const char *key)
{
    struct intruder *i = arg;
    if (number != i->at) return;
    i->acted = true;
    assert_int_equal(snapdir_publish(i->d, i->d->inner, "intruder", SNAPDIR_NOW + 5), 0);
}

/* Somebody publishes just before our k-th request. The store decides: whoever comes second, knowing of the first or not at all. */
static void whoever_publishes_in_between_is_never_overwritten(void **state)
{
    struct snapdir *d = *state;
    size_t races = 0;
    for (int conditions = 0; conditions < 3; conditions++) {
        for (uint64_t k = 2;; k++) {
            struct intruder i = {.d = d, .at = k};
            char seen[64];
            snapdir_clear(d);
            assert_int_equal(snapdir_publish(d, d->inner, "old", SNAPDIR_NOW), 0);
            faultstore_set_conditions(d->s, (enum faultstore_conditions)conditions);
            faultstore_plan(d->s, (struct faultstore_plan){0});
            faultstore_on_request(d->s, intrude, &i);
            int rc = snapdir_publish(d, d->s, "new", SNAPDIR_NOW + 1);
            faultstore_on_request(d->s, NULL, NULL);
            if (!i.acted) break;
            assert_int_equal(snapdir_current(d, seen), 0);
            if (rc == ERR_SNAPSHOT_RACE) {
                assert_string_equal(seen, "intruder");
                assert_int_equal(snapdir_count(d, "manifests/"), 2); /* ours was taken back */
                races++;
            } else {
                /* Without the store's help there is one gap: between the look and the put. And behind our put anybody may publish upon it. */
                assert_int_equal(rc, 0);
                assert_true(conditions != FAULTSTORE_CONDITIONS_KEPT || strcmp(seen, "new") != 0);
            }
        }
    }
    assert_true(races >= 5);
}

struct racer {
    struct snapdir *d;
    unsigned id;
    size_t won, lost;
};

enum { ROUNDS = 200 };

static void *race(void *arg)
{
    struct racer *r = arg;
    for (int i = 0; i < ROUNDS; i++) {
        char run[32];
        snprintf(run, sizeof run, "r%u-%d", r->id, i);
        int rc = snapdir_publish(r->d, r->d->inner, run, SNAPDIR_NOW + i);
        r->won += rc == 0;
        r->lost += rc == ERR_SNAPSHOT_RACE;
        if (rc != 0 && rc != ERR_SNAPSHOT_RACE) return (void *)1;
    }
    return NULL;
}

static void two_publishers_racing_two_hundred_times_never_overwrite_each_other_silently(void **state)
{
    struct snapdir *d = *state;
    struct racer racers[2] = {{.d = d, .id = 0}, {.d = d, .id = 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
        assert_int_equal(racers[i].won + racers[i].lost, ROUNDS);
    }
    /* Every success is in the history once, and every loss is not: had one overwritten another without knowing, the losers would be fewer than the manifests that are missing. */
    assert_int_equal(snapdir_count(d, "manifests/"), racers[0].won + racers[1].won);
    /* Each winner built upon the one before it, so names ascend in the order of swaps, and the newest name is the current one. */
    struct history h;
    assert_int_equal(history_load(d->inner, NULL, 0, &h, NULL), 0);
    assert_true(h.entries[0].is_current);
    history_fini(&h);
}

/* ---- winners */

static void the_smallest_attempt_of_each_shard_wins(void **state)
{
    struct publish_attempt a[] = {
        {.shard = {.db_id = 0, .attempt = 1, .db_url = "u/0/1"}, .task_attempt_id = 3},
        {.shard = {.db_id = 0, .attempt = 0, .db_url = "u/0/0b"}, .task_attempt_id = PUBLISH_NO_TASK},
        {.shard = {.db_id = 0, .attempt = 0, .db_url = "u/0/0a"}, .task_attempt_id = PUBLISH_NO_TASK},
        {.shard = {.db_id = 0, .attempt = 0, .db_url = "u/0/0c"}, .task_attempt_id = 9},
        {.shard = {.db_id = 2, .attempt = 5, .db_url = NULL}, .task_attempt_id = 0},
        {.shard = {.db_id = 3, .attempt = 2, .db_url = "u/3"}, .task_attempt_id = 0},
    };
    assert_int_equal(publish_choose(a, 6, 4, NULL), 0);
    for (size_t i = 0; i < 6; i++) assert_int_equal(a[i].wins, i == 3 || i == 5);
    struct manifest *m = manifest_new();
    publish_add_winners(m, a, 6);
    assert_int_equal(m->n_shards, 2);
    assert_string_equal(manifest_find(m, 0)->db_url, "u/0/0c");
    manifest_free(m);
    struct buf why = {0};
    assert_int_equal(publish_choose(a, 6, 3, &why), ERR_SNAPSHOT_COVERAGE);
    assert_true(why.len > 0);
    buf_fini(&why);
}

static void losers_are_deleted_and_nothing_else(void **state)
{
    struct snapdir *d = *state;
    char urls[3][200];
    struct publish_attempt a[3] = {0};
    for (uint32_t i = 0; i < 3; i++) {
        snapdir_attempt(d, "run", 1, i);
        snprintf(urls[i], sizeof urls[i], "%s/shards/run_id=run/db=00001/attempt=%02u", d->url, i);
        a[i] = (struct publish_attempt){.shard = {.db_id = 1, .attempt = i, .db_url = urls[i]}, .task_attempt_id = PUBLISH_NO_TASK};
    }
    snapdir_attempt(d, "run", 1, 10); /* "attempt=10" begins like "attempt=1" */
    struct manifest *m = manifest_new();
    assert_int_equal(publish_choose(a, 3, 2, NULL), 0);
    publish_add_winners(m, a, 3);
    assert_int_equal(publish_delete_losers(d->s, NULL, m, a, 3), 4);
    assert_true(snapdir_has(d, "shards/run_id=run/db=00001/attempt=00/shard.db"));
    assert_true(snapdir_has(d, "shards/run_id=run/db=00001/attempt=10/shard.db"));
    assert_int_equal(snapdir_count(d, "shards/"), 4);
    manifest_free(m);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, snapdir_set_up, snapdir_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_first_publish_makes_a_manifest_and_a_pointer),
        TEST(names_sort_in_order_of_publishing_whatever_the_clock_says),
        TEST(a_store_that_fails_at_the_kth_request_leaves_the_old_snapshot_or_the_new),
        TEST(each_failure_has_its_own_code),
        TEST(a_lost_answer_of_the_swap_is_found_out),
        TEST(whoever_publishes_in_between_is_never_overwritten),
        TEST(two_publishers_racing_two_hundred_times_never_overwrite_each_other_silently),
        TEST(the_smallest_attempt_of_each_shard_wins),
        TEST(losers_are_deleted_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
