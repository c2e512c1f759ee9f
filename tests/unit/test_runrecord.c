/* Run records: the other writer's, ours there and back, and the thread that keeps one alive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "snapdir.h"
#include "snapgolden.h"
#include "snapshot/runrecord.h"

static void records_of_the_other_writer_are_read_and_written_byte_for_byte(void **state)
{
    for (int i = 0; i < SNAPGOLDEN_COUNT; i++) {
        struct buf yaml = {0}, ours = {0};
        struct runrecord r;
        char text[100];
        json_t *e = snapgolden_expected(snapgolden_names[i]);
        snapgolden_object(snapgolden_text(e, "run_record_ref"), &yaml);
        assert_int_equal(runrecord_parse(buf_slice(&yaml), &r, NULL), 0);
        snprintf(text, sizeof text, "run-%s", snapgolden_names[i]);
        assert_string_equal(r.run_id, text);
        snprintf(text, sizeof text, "s3://fx/%s", snapgolden_names[i]);
        assert_string_equal(r.s3_prefix, text);
        assert_string_equal(r.manifest_ref, snapgolden_text(e, "manifest_ref"));
        assert_string_equal(r.writer_type, "python");
        assert_string_equal(r.shard_prefix, "shards");
        assert_string_equal(r.db_path_template, "db={db_id:05d}");
        assert_int_equal(r.status, RUNRECORD_SUCCEEDED);
        assert_null(r.error_type);
        assert_null(r.error_message);
        assert_int_equal(r.updated_us, r.lease_expires_us);
        assert_true(r.started_us < r.updated_us);
        runrecord_write(&r, &ours);
        assert_true(slice_eq(buf_slice(&ours), buf_slice(&yaml)));
        runrecord_fini(&r);
        buf_fini(&yaml);
        buf_fini(&ours);
        json_decref(e);
    }
}

static void any_text_survives_the_way_there_and_back(void **state)
{
    static const char *const texts[] = {
        "plain", "", " ", "a b", "a: b", "a #b", "#", "null", "~", "Yes", "n", "123", "1e5", "0x1f", "0b1", "1.5", "59524cab", "2026-11-15", "- x", "it's", "say \"hi\"", "back\\slash", "two\nlines", "tab\t", "\xc3\xa9t\xc3\xa9",
        "\xf0\x9f\x98\x80", "{a}", "[a]", "&a", "*a", "!a", "|", ">", "%a", "@a", "`a", "a:", ":a", "ends ", "\x7f", "\x01", "db={db_id:05d}", "s3://b/p", "=", "<<", "/path", "a, b", "? a", "...", "---", "'", "\"",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct runrecord r = {.run_id = (char *)"r", .error_message = (char *)texts[i], .status = RUNRECORD_FAILED}, back;
        struct buf yaml = {0}, why = {0};
        runrecord_write(&r, &yaml);
        if (runrecord_parse(buf_slice(&yaml), &back, &why) != 0) fail_msg("%s: %.*s", texts[i], (int)why.len, why.p);
        assert_non_null(back.error_message);
        assert_string_equal(back.error_message, texts[i]);
        assert_null(back.manifest_ref);
        runrecord_fini(&back);
        buf_fini(&yaml);
    }
}

static void what_is_no_record_is_refused(void **state)
{
    static const char *const bad[] = {
        "", "x", "- a", "{", "a: b", "run_id: r\nstatus: done\nlease_expires_at: '2026-11-15T12:00:00Z'", "run_id: r\nstatus: running", "status: running\nlease_expires_at: 2026-11-15T12:00:00Z",
        "run_id: [r]\nstatus: running\nlease_expires_at: 2026-11-15T12:00:00Z", "run_id: r\nstatus: running\nlease_expires_at: soon", "run_id: r\nstatus: running\nlease_expires_at: 2026-11-15T12:00:00Z\nstarted_at: x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct runrecord r;
        if (runrecord_parse(slice_str(bad[i]), &r, NULL) != ERR_SNAPSHOT_BAD_RUN) fail_msg("accepted: %s", bad[i]);
    }
    struct runrecord r;
    assert_int_equal(runrecord_parse(SLICE("{lease_expires_at: 2026-11-15T12:00:00Z, more: [1], run_id: r, status: running}"), &r, NULL), 0);
    runrecord_fini(&r);
}

static void a_builder_is_at_work_while_its_lease_holds(void **state)
{
    struct runrecord r = {.status = RUNRECORD_RUNNING, .lease_expires_us = SNAPDIR_NOW};
    assert_true(runrecord_is_live(&r, SNAPDIR_NOW - 1));
    assert_true(runrecord_is_live(&r, SNAPDIR_NOW + 60 * 1000000ll)); /* clocks differ */
    assert_false(runrecord_is_live(&r, SNAPDIR_NOW + 600 * 1000000ll));
    r.status = RUNRECORD_FAILED;
    assert_false(runrecord_is_live(&r, SNAPDIR_NOW - 1));
}

/* ---- the keeper */

static struct runrecord read_own(struct snapdir *d, const struct runrecord_keeper *k, const char *ref)
{
    struct runrecord r;
    struct buf yaml = {0};
    assert_int_equal(object_get(d->inner, NULL, object_key_of(d->inner, ref ? ref : runrecord_ref(k)), 10000, &yaml, NULL), 0);
    assert_int_equal(runrecord_parse(buf_slice(&yaml), &r, NULL), 0);
    buf_fini(&yaml);
    return r;
}

static void a_record_is_renewed_and_ends_as_its_build_does(void **state)
{
    struct snapdir *d = *state;
    for (int failed = 0; failed < 2; failed++) {
        struct runrecord_keeper *k;
        char ref[300];
        assert_int_equal(runrecord_begin(&k, d->s, NULL, &(struct runrecord_start){.run_id = "mine", .writer_type = "sherd", .beat_ms = 5}), 0);
        snprintf(ref, sizeof ref, "%s", runrecord_ref(k));
        struct runrecord first = read_own(d, k, NULL), later;
        assert_int_equal(first.status, RUNRECORD_RUNNING);
        assert_int_equal(first.lease_expires_us - first.updated_us, RUNRECORD_LEASE_MS * 1000ll);
        assert_null(first.manifest_ref);
        for (int tries = 0; tries < 1000; tries++) {
            later = read_own(d, k, NULL);
            bool renewed = later.updated_us > first.updated_us;
            if (renewed) break;
            runrecord_fini(&later);
            assert_true(tries < 999);
            usleep(2000);
        }
        assert_true(later.lease_expires_us > first.lease_expires_us && later.started_us == first.started_us);
        runrecord_fini(&first);
        runrecord_fini(&later);
        assert_true(runrecord_lease_holds(k));
        assert_int_equal(failed ? runrecord_fail(k, NULL, "Cancelled", "by hand: ^C") : runrecord_succeed(k, NULL, "file:///m"), 0);
        later = read_own(d, NULL, ref);
        assert_int_equal(later.status, failed ? RUNRECORD_FAILED : RUNRECORD_SUCCEEDED);
        assert_int_equal(later.updated_us, later.lease_expires_us);
        if (failed) assert_string_equal(later.error_message, "by hand: ^C");
        else assert_string_equal(later.manifest_ref, "file:///m");
        runrecord_fini(&later);
    }
}

static void a_lease_that_cannot_be_renewed_runs_out_and_the_builder_knows(void **state)
{
    struct snapdir *d = *state;
    struct runrecord_keeper *k;
    assert_int_equal(runrecord_begin(&k, d->s, NULL, &(struct runrecord_start){.run_id = "mine", .beat_ms = 5, .lease_ms = 60}), 0);
    faultstore_plan(d->s, (struct faultstore_plan){.at = 1, .for_good = true});
    for (int tries = 0; tries < 2000 && runrecord_lease_holds(k); tries++) usleep(2000);
    assert_false(runrecord_lease_holds(k));
    assert_true(runrecord_misses(k) > 0);
    assert_int_not_equal(runrecord_succeed(k, NULL, "x"), 0);
}

static void without_a_record_there_is_no_build(void **state)
{
    struct snapdir *d = *state;
    struct runrecord_keeper *k;
    faultstore_plan(d->s, (struct faultstore_plan){.at = 1, .code = ERR_OBJECT_DENIED});
    assert_int_equal(runrecord_begin(&k, d->s, NULL, &(struct runrecord_start){.run_id = "mine"}), ERR_OBJECT_DENIED);
}

int main(void)
{
#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, snapdir_set_up, snapdir_tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_the_other_writer_are_read_and_written_byte_for_byte),
        cmocka_unit_test(any_text_survives_the_way_there_and_back),
        cmocka_unit_test(what_is_no_record_is_refused),
        cmocka_unit_test(a_builder_is_at_work_while_its_lease_holds),
        IN_DIR(a_record_is_renewed_and_ends_as_its_build_does),
        IN_DIR(a_lease_that_cannot_be_renewed_runs_out_and_the_builder_knows),
        IN_DIR(without_a_record_there_is_no_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
