/* The list of snapshots, choosing among them, and going back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "snapdir.h"

static void publish_three(struct snapdir *d)
{
    assert_int_equal(snapdir_publish(d, d->inner, "one", SNAPDIR_NOW), 0);
    assert_int_equal(snapdir_publish(d, d->inner, "two", SNAPDIR_NOW + 10), 0);
    assert_int_equal(snapdir_publish(d, d->inner, "three", SNAPDIR_NOW + 20), 0);
}

static void an_empty_store_says_that_nothing_is_published(void **state)
{
    struct snapdir *d = *state;
    struct history h;
    struct pointer p;
    assert_int_equal(history_pointer(d->s, NULL, &p, NULL, NULL), ERR_SNAPSHOT_NO_CURRENT);
    assert_int_equal(history_load(d->s, NULL, 0, &h, NULL), 0);
    assert_true(h.n == 0 && !h.has_current);
    history_fini(&h);
    struct buf ref = {0}, why = {0};
    assert_int_equal(history_rollback(d->s, NULL, &(struct history_pick){.by_offset = true, .offset = 1}, SNAPDIR_NOW, &ref, &why), ERR_SNAPSHOT_NO_REF);
    buf_fini(&why);
}

static void the_newest_stands_first_and_other_objects_are_skipped(void **state)
{
    struct snapdir *d = *state;
    struct history h;
    publish_three(d);
    snapdir_put(d, "manifests/not-a-snapshot/manifest", "x");
    snapdir_put(d, "manifests/2027-01-01T00:00:00.000000Z_run_id=x/other", "x");
    assert_int_equal(history_load(d->s, NULL, 0, &h, NULL), 0);
    assert_int_equal(h.n, 3);
    assert_string_equal(h.entries[0].run_id, "three");
    assert_string_equal(h.entries[2].run_id, "one");
    assert_int_equal(h.entries[2].published_us, SNAPDIR_NOW);
    assert_true(h.has_current && h.entries[0].is_current);
    assert_string_equal(object_key_of(d->s, h.entries[1].ref), h.entries[1].key);
    history_fini(&h);
    assert_int_equal(history_load(d->s, NULL, 2, &h, NULL), 0);
    assert_int_equal(h.n, 2);
    assert_string_equal(h.entries[1].run_id, "two");
    history_fini(&h);
}

static void a_malformed_pointer_does_not_hide_the_history(void **state)
{
    struct snapdir *d = *state;
    struct history h;
    char seen[64];
    publish_three(d);
    snapdir_put(d, "_CURRENT", "{broken");
    assert_int_equal(history_load(d->s, NULL, 0, &h, NULL), 0);
    assert_true(h.n == 3 && !h.has_current);
    history_fini(&h);
    /* The next publish mends it. */
    assert_int_equal(snapdir_publish(d, d->s, "four", SNAPDIR_NOW + 30), 0);
    assert_int_equal(snapdir_current(d, seen), 0);
    assert_string_equal(seen, "four");
}

static int roll(struct snapdir *d, struct history_pick pick, char seen[64])
{
    struct buf ref = {0};
    int rc = history_rollback(d->s, NULL, &pick, SNAPDIR_NOW + 100, &ref, NULL);
    assert_int_equal(rc == 0, ref.len > 0);
    buf_fini(&ref);
    int sees = snapdir_current(d, seen);
    return rc ? rc : sees;
}

static void a_rollback_goes_by_offset_by_run_and_by_ref(void **state)
{
    struct snapdir *d = *state;
    char seen[64], url[200];
    publish_three(d);
    assert_int_equal(roll(d, (struct history_pick){.by_offset = true, .offset = 1}, seen), 0);
    assert_string_equal(seen, "two");
    assert_int_equal(roll(d, (struct history_pick){.run_id = "one"}, seen), 0);
    assert_string_equal(seen, "one");
    assert_int_equal(roll(d, (struct history_pick){.ref = "manifests/2026-11-15T12:00:00.000020Z_run_id=three/manifest"}, seen), 0);
    assert_string_equal(seen, "three");
    snprintf(url, sizeof url, "%s/manifests/2026-11-15T12:00:00.000010Z_run_id=two/manifest", d->url);
    assert_int_equal(roll(d, (struct history_pick){.ref = url}, seen), 0);
    assert_string_equal(seen, "two");
    assert_int_equal(roll(d, (struct history_pick){.by_offset = true, .offset = 3}, seen), ERR_SNAPSHOT_NO_REF);
    assert_int_equal(roll(d, (struct history_pick){.run_id = "four"}, seen), ERR_SNAPSHOT_NO_REF);
    assert_int_equal(roll(d, (struct history_pick){.ref = "manifests/nothing"}, seen), ERR_SNAPSHOT_NO_REF);
    assert_int_equal(roll(d, (struct history_pick){.ref = "s3://other/thing"}, seen), ERR_SNAPSHOT_ELSEWHERE);
    assert_string_equal(seen, "two");
}

static void nobody_is_rolled_back_to_a_broken_manifest(void **state)
{
    struct snapdir *d = *state;
    char seen[64];
    publish_three(d);
    snapdir_put(d, "manifests/2026-11-15T12:00:00.000010Z_run_id=two/manifest", "no database");
    assert_int_equal(roll(d, (struct history_pick){.run_id = "two"}, seen), ERR_SNAPSHOT_BAD_MANIFEST);
    assert_string_equal(seen, "three");
}

static void a_rollback_under_faults_leaves_the_old_snapshot_or_the_new(void **state)
{
    struct snapdir *d = *state;
    size_t reached = 0;
    for (int kind = FAULTSTORE_FAIL; kind <= FAULTSTORE_HALF; kind++)
        for (uint64_t k = 1;; k++) {
            char seen[64];
            snapdir_clear(d);
            publish_three(d);
            faultstore_plan(d->s, (struct faultstore_plan){.at = k, .kind = (enum faultstore_kind)kind});
            int rc = roll(d, (struct history_pick){.run_id = "one"}, seen);
            assert_true(strcmp(seen, "three") == 0 || strcmp(seen, "one") == 0);
            if (rc == 0) assert_string_equal(seen, "one");
            else if (rc != ERR_SNAPSHOT_UNCERTAIN) assert_string_equal(seen, "three");
            if (!faultstore_fired(d->s)) break;
            reached++;
        }
    assert_true(reached >= 12);
}

/* ---- against a cleanup that removes the manifest at the worst moment */

struct remover {
    struct snapdir *d;
    uint64_t at;
    bool acted;
};

static void remove_manifest(void *arg, uint64_t number, const char *verb, const char *key)
{
    struct remover *r = arg;
    const char *manifest = "manifests/2026-11-15T12:00:00.000000Z_run_id=one/manifest";
    if (number != r->at) return;
    r->acted = true;
    object_delete(r->d->inner, NULL, &manifest, 1, NULL);
}

static void a_rollback_to_what_a_cleanup_removes_is_taken_back(void **state)
{
    struct snapdir *d = *state;
    size_t taken_back = 0;
    for (uint64_t k = 1;; k++) {
        struct remover r = {.d = d, .at = k};
        char seen[64] = "";
        snapdir_clear(d);
        publish_three(d);
        faultstore_plan(d->s, (struct faultstore_plan){0});
        faultstore_on_request(d->s, remove_manifest, &r);
        int rc = roll(d, (struct history_pick){.run_id = "one"}, seen);
        faultstore_on_request(d->s, NULL, NULL);
        if (!r.acted) break;
        assert_int_equal(rc, ERR_SNAPSHOT_NO_REF);
        assert_string_equal(seen, "three");
        taken_back++;
    }
    assert_true(taken_back >= 4);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, snapdir_set_up, snapdir_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_empty_store_says_that_nothing_is_published),
        TEST(the_newest_stands_first_and_other_objects_are_skipped),
        TEST(a_malformed_pointer_does_not_hide_the_history),
        TEST(a_rollback_goes_by_offset_by_run_and_by_ref),
        TEST(nobody_is_rolled_back_to_a_broken_manifest),
        TEST(a_rollback_under_faults_leaves_the_old_snapshot_or_the_new),
        TEST(a_rollback_to_what_a_cleanup_removes_is_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
