/* Cleanup: what goes, what stays, and that nothing goes that somebody needs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "snapdir.h"
#include "snapshot/cleanup.h"
#include "snapshot/runrecord.h"

enum { HOUR_S = 3600 };
#define HOURS(n) ((int64_t)(n) * HOUR_S * 1000000)

/* The files that a snapshot's manifest names, and its run record. */
static void add_run_record(struct snapdir *d, const char *run_id, enum runrecord_status status, int64_t started_us, int64_t lease_us)
{
    struct runrecord r = {.run_id = (char *)run_id, .status = status, .started_us = started_us, .updated_us = started_us, .lease_expires_us = lease_us};
    struct buf key = {0}, yaml = {0};
    snappath_run(&key, started_us, run_id, "0123456789abcdef0123456789abcdef");
    buf_add_byte(&key, '\0');
    runrecord_write(&r, &yaml);
    assert_int_equal(object_put(d->inner, NULL, key.p, buf_slice(&yaml), NULL, NULL), 0);
    buf_fini(&key);
    buf_fini(&yaml);
}

static void publish_run(struct snapdir *d, const char *run_id, int64_t at_us)
{
    for (uint32_t id = 1; id <= 2; id++) snapdir_attempt(d, run_id, id, 0);
    assert_int_equal(snapdir_publish(d, d->inner, run_id, at_us), 0);
    add_run_record(d, run_id, RUNRECORD_SUCCEEDED, at_us - 10, at_us);
}

static int clean(struct snapdir *d, struct cleanup_options o, struct cleanup_report *r)
{
    struct buf why = {0};
    if (o.now_us == 0) o.now_us = clock_unix_us();
    int rc = cleanup_run(d->s, NULL, &o, r, &why);
    buf_fini(&why);
    return rc;
}

static void clean_ok(struct snapdir *d, struct cleanup_options o)
{
    struct cleanup_report r;
    assert_int_equal(clean(d, o, &r), 0);
    for (size_t i = 0; i < r.n; i++) assert_int_equal(r.items[i].deleted, !o.dry_run);
    cleanup_report_fini(&r);
}

/* Every shard that a manifest of the history names is there. */
static void assert_history_is_whole(struct snapdir *d)
{
    struct history h;
    assert_int_equal(history_load(d->inner, NULL, 0, &h, NULL), 0);
    assert_true(h.n > 0 && h.has_current);
    bool current = false;
    for (size_t i = 0; i < h.n; i++) {
        struct manifest *m;
        current |= h.entries[i].is_current;
        assert_int_equal(history_manifest(d->inner, NULL, h.entries[i].ref, &m, NULL), 0);
        for (uint32_t k = 0; k < m->n_shards; k++) {
            char key[300];
            snprintf(key, sizeof key, "%s/shard.db", object_key_of(d->inner, m->shards[k].db_url));
            if (!snapdir_has(d, key)) fail_msg("%s has lost %s", h.entries[i].run_id, key);
        }
        manifest_free(m);
    }
    assert_true(current);
    history_fini(&h);
}

static void losing_attempts_go_and_winners_stay(void **state)
{
    struct snapdir *d = *state;
    struct cleanup_report r;
    publish_run(d, "one", SNAPDIR_NOW);
    snapdir_attempt(d, "one", 1, 1);
    snapdir_attempt(d, "one", 3, 0);
    snapdir_put(d, "shards/README", "not ours");
    assert_int_equal(clean(d, (struct cleanup_options){.dry_run = true}, &r), 0);
    assert_int_equal(r.n, 2);
    assert_string_equal(r.items[0].key, "shards/run_id=one/db=00001/attempt=01");
    assert_string_equal(r.items[0].reason, "losing attempt");
    assert_int_equal(r.items[0].objects, 2);
    assert_int_equal(r.items[0].bytes, 9);
    assert_true(r.objects_deleted == 0 && r.kept_snapshots == 1 && !r.items[0].deleted);
    cleanup_report_fini(&r);
    assert_true(snapdir_has(d, "shards/run_id=one/db=00001/attempt=01/shard.db")); /* a dry run */
    assert_int_equal(clean(d, (struct cleanup_options){0}, &r), 0);
    assert_int_equal(r.objects_deleted, 4);
    cleanup_report_fini(&r);
    assert_int_equal(snapdir_count(d, "shards/"), 5);
    assert_history_is_whole(d);
}

static void old_snapshots_go_with_manifests_and_records(void **state)
{
    struct snapdir *d = *state;
    const char *runs[] = {"a", "b", "c", "d"};
    int64_t now = clock_unix_us();
    for (int i = 0; i < 4; i++) publish_run(d, runs[i], now - HOURS(10 * (4 - i)));
    clean_ok(d, (struct cleanup_options){0}); /* nothing without being asked */
    assert_int_equal(snapdir_count(d, "manifests/"), 4);
    clean_ok(d, (struct cleanup_options){.keep_last = 1, .older_than_us = HOURS(25)}); /* either keeps: c and d are young */
    assert_int_equal(snapdir_count(d, "manifests/"), 2);
    assert_int_equal(snapdir_count(d, "runs/"), 2);
    assert_int_equal(snapdir_count(d, "shards/"), 8);
    clean_ok(d, (struct cleanup_options){.keep_last = 1});
    assert_int_equal(snapdir_count(d, "manifests/"), 1);
    assert_int_equal(snapdir_count(d, "shards/run_id=d/"), 4);
    assert_int_equal(snapdir_count(d, "shards/"), 4);
    clean_ok(d, (struct cleanup_options){.older_than_us = 1}); /* the current one stays, however old */
    assert_history_is_whole(d);
}

static void the_current_snapshot_stays_also_after_a_rollback(void **state)
{
    struct snapdir *d = *state;
    struct buf ref = {0};
    publish_run(d, "one", SNAPDIR_NOW);
    publish_run(d, "two", SNAPDIR_NOW + 10);
    assert_int_equal(history_rollback(d->s, NULL, &(struct history_pick){.run_id = "one"}, SNAPDIR_NOW + 20, &ref, NULL), 0);
    clean_ok(d, (struct cleanup_options){.older_than_us = 1, .now_us = SNAPDIR_NOW + HOURS(100)});
    assert_true(snapdir_has(d, "shards/run_id=one/db=00001/attempt=00/shard.db"));
    assert_false(snapdir_has(d, "shards/run_id=two/db=00001/attempt=00/shard.db"));
    assert_history_is_whole(d);
    buf_fini(&ref);
}

static void shards_that_a_newer_snapshot_reuses_stay(void **state)
{
    struct snapdir *d = *state;
    struct publish_base base;
    struct publish_result r;
    publish_run(d, "one", SNAPDIR_NOW);
    struct manifest *m = snapdir_manifest(d, "two", "one"); /* all shards are those of run one */
    assert_int_equal(publish_observe(d->s, NULL, &base, NULL), 0);
    assert_int_equal(publish_snapshot(d->s, NULL, m, &base, SNAPDIR_NOW + 10, &r, NULL), 0);
    clean_ok(d, (struct cleanup_options){.keep_last = 1});
    assert_int_equal(snapdir_count(d, "manifests/"), 1);
    assert_int_equal(snapdir_count(d, "shards/run_id=one/"), 4);
    assert_history_is_whole(d);
    clean_ok(d, (struct cleanup_options){.keep_last = 1, .orphan_age_us = 1, .now_us = clock_unix_us() + HOURS(1)}); /* run one has neither manifest nor record any more */
    assert_history_is_whole(d);
    publish_result_fini(&r);
    publish_base_fini(&base);
    manifest_free(m);
}

static void nothing_of_a_running_build_goes(void **state)
{
    struct snapdir *d = *state;
    struct cleanup_report r;
    int64_t now = clock_unix_us();
    publish_run(d, "old", now - HOURS(50));
    publish_run(d, "base", now - HOURS(40));
    snapdir_attempt(d, "building", 0, 0);
    snapdir_attempt(d, "building", 0, 1);
    add_run_record(d, "building", RUNRECORD_RUNNING, now - HOURS(30), now + 1000000);
    publish_run(d, "newer", now - HOURS(20));
    publish_run(d, "newest", now - HOURS(10));
    assert_int_equal(clean(d, (struct cleanup_options){.keep_last = 1, .now_us = now}, &r), 0);
    assert_int_equal(r.n_live, 1);
    assert_string_equal(r.live_runs[0], "building");
    cleanup_report_fini(&r);
    assert_int_equal(snapdir_count(d, "shards/run_id=building/"), 4);
    assert_int_equal(snapdir_count(d, "shards/run_id=base/"), 4); /* it may reuse these */
    assert_int_equal(snapdir_count(d, "shards/run_id=newer/"), 4);
    assert_int_equal(snapdir_count(d, "shards/run_id=old/"), 0);
    assert_history_is_whole(d);
    /* Its lease runs out: it has died. */
    clean_ok(d, (struct cleanup_options){.keep_last = 1, .now_us = now + HOURS(1)});
    assert_int_equal(snapdir_count(d, "shards/run_id=building/"), 0);
    assert_int_equal(snapdir_count(d, "manifests/"), 1);
    assert_int_equal(snapdir_count(d, "runs/"), 2); /* the record of the dead stays a week */
    clean_ok(d, (struct cleanup_options){.now_us = now + HOURS(24 * 8)});
    assert_int_equal(snapdir_count(d, "runs/"), 1);
}

static void failed_builds_and_orphans_go_and_young_orphans_stay(void **state)
{
    struct snapdir *d = *state;
    int64_t now = clock_unix_us();
    publish_run(d, "good", now);
    snapdir_attempt(d, "failed", 0, 0);
    add_run_record(d, "failed", RUNRECORD_FAILED, now, now);
    snapdir_attempt(d, "orphan", 0, 0);
    snapdir_put(d, "runs/2026-11-15T12:00:00.000000Z_run_id=broken_0123456789abcdef0123456789abcdef/run.yaml", "{not yaml");
    snapdir_attempt(d, "broken", 0, 0); /* its record cannot be read: it may be at work */
    clean_ok(d, (struct cleanup_options){.now_us = now});
    assert_int_equal(snapdir_count(d, "shards/run_id=failed/"), 0);
    assert_int_equal(snapdir_count(d, "shards/run_id=orphan/"), 2);
    assert_int_equal(snapdir_count(d, "shards/run_id=broken/"), 2);
    clean_ok(d, (struct cleanup_options){.now_us = now + HOURS(25)});
    assert_int_equal(snapdir_count(d, "shards/run_id=orphan/"), 0);
    assert_int_equal(snapdir_count(d, "shards/run_id=broken/"), 0);
    assert_history_is_whole(d);
}

static void a_kept_manifest_that_cannot_be_read_stops_everything(void **state)
{
    struct snapdir *d = *state;
    struct cleanup_report r;
    publish_run(d, "one", SNAPDIR_NOW);
    publish_run(d, "two", SNAPDIR_NOW + 10);
    snapdir_attempt(d, "two", 1, 7);
    snapdir_put(d, "manifests/2026-11-15T12:00:00.000000Z_run_id=one/manifest", "broken");
    size_t before = snapdir_count(d, "");
    assert_int_equal(clean(d, (struct cleanup_options){0}, &r), ERR_SNAPSHOT_BAD_MANIFEST);
    cleanup_report_fini(&r);
    assert_int_equal(snapdir_count(d, ""), before);
    clean_ok(d, (struct cleanup_options){.keep_last = 1}); /* it need not be read to be removed */
    assert_int_equal(snapdir_count(d, "manifests/"), 1);
    const char *current = "_CURRENT";
    object_delete(d->inner, NULL, &current, 1, NULL);
    assert_int_equal(clean(d, (struct cleanup_options){.keep_last = 1}, &r), ERR_SNAPSHOT_NO_CURRENT);
    cleanup_report_fini(&r);
}

static void a_cleanup_that_fails_at_the_kth_request_leaves_whole_snapshots_and_is_finished_by_the_next(void **state)
{
    struct snapdir *d = *state;
    size_t reached = 0;
    for (int kind = FAULTSTORE_FAIL; kind <= FAULTSTORE_HALF; kind++)
        for (uint64_t k = 1;; k++) {
            struct cleanup_report r;
            snapdir_clear(d);
            for (int i = 0; i < 3; i++) publish_run(d, (const char *[]){"a", "b", "c"}[i], SNAPDIR_NOW + i);
            snapdir_attempt(d, "c", 1, 1);
            faultstore_plan(d->s, (struct faultstore_plan){.at = k, .kind = (enum faultstore_kind)kind});
            int rc = clean(d, (struct cleanup_options){.keep_last = 1}, &r);
            bool fired = faultstore_fired(d->s);
            cleanup_report_fini(&r);
            assert_history_is_whole(d);
            faultstore_plan(d->s, (struct faultstore_plan){0});
            assert_true(rc != 0 || !fired || kind == FAULTSTORE_LOSE);
            clean_ok(d, (struct cleanup_options){.keep_last = 1, .now_us = clock_unix_us() + HOURS(24 * 8)});
            assert_history_is_whole(d);
            assert_int_equal(snapdir_count(d, "shards/"), 4);
            assert_int_equal(snapdir_count(d, "manifests/"), 1);
            assert_int_equal(snapdir_count(d, "runs/"), 1);
            if (!fired) break;
            reached++;
        }
    assert_true(reached > 30);
}

/* Somebody rolls back just before the k-th request of a cleanup. */
struct roller {
    struct snapdir *d;
    uint64_t at;
    bool acted;
    int rc;
};

static void roll_back(void *arg, uint64_t number, const char *verb, const char *key)
{
    struct roller *r = arg;
    struct buf ref = {0};
    if (number != r->at) return;
    r->acted = true;
    r->rc = history_rollback(r->d->inner, NULL, &(struct history_pick){.run_id = "a"}, SNAPDIR_NOW + 50, &ref, NULL);
    buf_fini(&ref);
}

static void a_rollback_during_a_cleanup_never_leaves_a_snapshot_without_shards(void **state)
{
    struct snapdir *d = *state;
    size_t rolled = 0, refused = 0;
    for (uint64_t k = 1;; k++) {
        struct roller roller = {.d = d, .at = k};
        struct cleanup_report r;
        snapdir_clear(d);
        publish_run(d, "a", SNAPDIR_NOW);
        publish_run(d, "b", SNAPDIR_NOW + 10);
        faultstore_plan(d->s, (struct faultstore_plan){0});
        faultstore_on_request(d->s, roll_back, &roller);
        int rc = clean(d, (struct cleanup_options){.keep_last = 1}, &r);
        faultstore_on_request(d->s, NULL, NULL);
        cleanup_report_fini(&r);
        if (!roller.acted) break;
        assert_history_is_whole(d);
        assert_true(rc == 0 || rc == ERR_SNAPSHOT_RACE);
        rolled += roller.rc == 0;
        refused += roller.rc != 0;
    }
    assert_true(rolled > 3 && refused > 0);
}

/* Builders publish, reuse, fail and die at random while cleanup runs with random options; what the history names is always there. */
static void a_random_life_never_loses_a_shard(void **state)
{
    struct snapdir *d = *state;
    struct rng rng;
    int64_t now = clock_unix_us();
    char last[16] = "";
    rng_init(&rng, 7);
    for (int i = 0; i < 300; i++) {
        char run[16];
        snprintf(run, sizeof run, "r%d", i);
        now += HOURS(1) / 2;
        switch (rng_below(&rng, 5)) {
        case 0:
        case 1: publish_run(d, run, now); strcpy(last, run); break;
        case 2: { /* reuses the shards of what is current */
            struct publish_base base;
            struct publish_result r = {0};
            struct pointer p;
            struct manifest *m, *old = NULL;
            if (history_current(d->inner, NULL, &p, &old, NULL) == 0) {
                m = snapdir_manifest(d, run, NULL);
                m->n_shards = 0;
                for (uint32_t k = 0; k < old->n_shards; k++) manifest_add_shard(m, &old->shards[k]);
                assert_int_equal(publish_observe(d->inner, NULL, &base, NULL), 0);
                assert_int_equal(publish_snapshot(d->inner, NULL, m, &base, now, &r, NULL), 0);
                publish_result_fini(&r);
                publish_base_fini(&base);
                manifest_free(m);
            }
            pointer_fini(&p);
            manifest_free(old);
            break;
        }
        case 3:
            snapdir_attempt(d, run, 0, 0);
            add_run_record(d, run, rng_below(&rng, 2) ? RUNRECORD_FAILED : RUNRECORD_RUNNING, now, now + HOURS(rng_below(&rng, 3)));
            break;
        default:
            if (last[0]) clean_ok(d, (struct cleanup_options){.now_us = now, .keep_last = (uint32_t)rng_below(&rng, 4), .older_than_us = HOURS(rng_below(&rng, 6)), .dry_run = rng_below(&rng, 4) == 0});
        }
        if (last[0]) assert_history_is_whole(d);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, snapdir_set_up, snapdir_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(losing_attempts_go_and_winners_stay),
        TEST(old_snapshots_go_with_manifests_and_records),
        TEST(the_current_snapshot_stays_also_after_a_rollback),
        TEST(shards_that_a_newer_snapshot_reuses_stay),
        TEST(nothing_of_a_running_build_goes),
        TEST(failed_builds_and_orphans_go_and_young_orphans_stay),
        TEST(a_kept_manifest_that_cannot_be_read_stops_everything),
        TEST(a_cleanup_that_fails_at_the_kth_request_leaves_whole_snapshots_and_is_finished_by_the_next),
        TEST(a_rollback_during_a_cleanup_never_leaves_a_snapshot_without_shards),
        TEST(a_random_life_never_loses_a_shard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
