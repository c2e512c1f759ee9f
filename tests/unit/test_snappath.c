/* Names of objects and times in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "snapdir.h"

static void times_go_there_and_back(void **state)
{
    struct rng r;
    char ts[SNAPPATH_TIME_CHARS + 1], before[SNAPPATH_TIME_CHARS + 1] = "";
    int64_t us, last = INT64_MIN;
    rng_init(&r, 1);
    snappath_time(0, ts);
    assert_string_equal(ts, "1970-01-01T00:00:00.000000Z");
    snappath_time(-1, ts);
    assert_string_equal(ts, "1969-12-31T23:59:59.999999Z");
    snappath_time(1709210096000001, ts);
    assert_string_equal(ts, "2024-02-29T12:34:56.000001Z");
    for (int i = 0; i < 10000; i++) {
        int64_t t = (int64_t)rng_below(&r, 253402300799000000) - 62135596800000000 / 2;
        snappath_time(t, ts);
        assert_true(snappath_parse_time(slice_str(ts), &us));
        assert_int_equal(us, t);
        if (last != INT64_MIN) assert_true((t < last) == (strcmp(ts, before) < 0)); /* names sort by time */
        strcpy(before, ts);
        last = t;
    }
}

static void what_is_no_time_is_refused(void **state)
{
    static const char *const bad[] = {"", "x", "2026-13-01", "2026-00-01", "2026-01-00", "2025-02-29", "2026-01-01T", "2026-01-01T24:00", "2026-01-01T00:60", "2026-01-01T00:00:60", "2026-01-01T00:00:00.", "2026-01-01T00:00Zz",
                                      "2026-01-01T00:00+2", "2026-01-01T00:00+24:00", "0000-01-01", "0001-01-01T00:00+01:00", "--1", "1e5", "99999999999999999999"};
    int64_t us;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (snappath_parse_time(slice_str(bad[i]), &us)) fail_msg("accepted: %s", bad[i]);
}

static void keys_are_made_and_taken_apart(void **state)
{
    struct buf key = {0};
    int64_t us;
    struct slice run, folder;
    snappath_manifest(&key, SNAPDIR_NOW, "a_run_id=b");
    assert_true(slice_eq(buf_slice(&key), SLICE("manifests/2026-11-15T12:00:00.000000Z_run_id=a_run_id=b/manifest")));
    assert_true(snappath_parse_manifest(buf_slice(&key), &us, &run) && us == SNAPDIR_NOW && slice_eq(run, SLICE("a_run_id=b")));
    key.len = 0;
    snappath_run(&key, SNAPDIR_NOW, "r_1", "0123456789abcdef0123456789abcdef");
    assert_true(snappath_parse_run(buf_slice(&key), &us, &run) && us == SNAPDIR_NOW && slice_eq(run, SLICE("r_1")));
    key.len = 0;
    snappath_attempt(&key, "r", 123456, 3);
    assert_true(slice_eq(buf_slice(&key), SLICE("shards/run_id=r/db=123456/attempt=03")));
    buf_add_str(&key, "/shard.db");
    assert_true(snappath_parse_attempt(buf_slice(&key), &run, &folder) && slice_eq(run, SLICE("r")) && slice_eq(folder, SLICE("shards/run_id=r/db=123456/attempt=03")));
    buf_fini(&key);
    static const char *const bad[] = {"", "manifests/", "manifests/x/manifest", "manifests/2026-11-15T12:00:00.000000Z_run_id=/manifest", "manifests/2026-11-15T12:00:00.00000Z_run_id=a/manifest", "manifests/2026-11-15T12:00:00.000000Z_run_id=a/manifest/x",
                                      "manifests/2026-11-15T12:00:00.000000Z_run_id=a/other", "x/manifests/2026-11-15T12:00:00.000000Z_run_id=a/manifest", "manifests/2026-19-15T12:00:00.000000Z_run_id=a/manifest", "shards/run_id=r/attempt=0/x", "shards/run_id=/d/attempt=0/x",
                                      "shards/run_id=r/d/attempt=/x", "shards/run_id=r/d/attempt=0", "runs/2026-11-15T12:00:00.000000Z_run_id=a/run.yaml"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct slice s = slice_str(bad[i]);
        assert_false(snappath_parse_manifest(s, &us, &run) || snappath_parse_run(s, &us, &run) || snappath_parse_attempt(s, &run, &folder));
    }
}

static void run_ids_that_would_break_paths_are_refused(void **state)
{
    char id[SNAPPATH_ID_CHARS + 1];
    snappath_new_id(id);
    assert_int_equal(strlen(id), 32);
    assert_true(id[12] == '4' && strchr("89ab", id[16]));
    assert_null(snappath_check_run_id(slice_str(id)));
    assert_null(snappath_check_run_id(SLICE("2026-11-15T12:00_nightly=1.2")));
    assert_non_null(snappath_check_run_id(SLICE("")));
    assert_non_null(snappath_check_run_id(SLICE("a/b")));
    assert_non_null(snappath_check_run_id(SLICE("..")));
    assert_non_null(snappath_check_run_id(SLICE("a b")));
    assert_non_null(snappath_check_run_id(SLICE("a\0b")));
}

static void urls_find_their_keys_also_in_a_copy(void **state)
{
    struct snapdir *d = *state;
    char url[200];
    snprintf(url, sizeof url, "%s/shards/x", d->url);
    assert_string_equal(snappath_key(d->s, NULL, url), "shards/x");
    assert_string_equal(snappath_key(d->s, "s3://b/p/", "s3://b/p/shards/x"), "shards/x");
    assert_null(snappath_key(d->s, "s3://b/p", "s3://b/pq/shards/x"));
    assert_null(snappath_key(d->s, "s3://b/p", "s3://c/p/shards/x"));
    assert_null(snappath_key(d->s, NULL, "s3://b/p/shards/x"));
    assert_string_equal(snappath_ref_key(d->s, "s3://b/manifests/manifests/2026-11-15T12:00:00.000000Z_run_id=a/manifest"), "manifests/2026-11-15T12:00:00.000000Z_run_id=a/manifest");
    assert_null(snappath_ref_key(d->s, "s3://b/p/elsewhere"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_go_there_and_back),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(keys_are_made_and_taken_apart),
        cmocka_unit_test(run_ids_that_would_break_paths_are_refused),
        cmocka_unit_test_setup_teardown(urls_find_their_keys_also_in_a_copy, snapdir_set_up, snapdir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
