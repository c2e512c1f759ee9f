/* The reader of snapshots over a store that is not as it should be: an answer is the right one, or an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "readerrig.h"

static void put(struct fixture *f, const char *key, struct slice bytes) { assert_int_equal(object_put(f->made.store, NULL, key, bytes, NULL, NULL), 0); }

static void nothing_published_is_an_error_of_its_own(void **state)
{
    struct fixture *f = *state;
    struct reader *r;
    struct reader_options o = options_of(f, IN_PLACE);
    assert_int_equal(reader_open(&r, f->counted, &o, &f->why), ERR_SNAPSHOT_NO_CURRENT);
    put(f, SNAPPATH_CURRENT, SLICE("{not json"));
    assert_int_equal(reader_open(&r, f->counted, &o, &f->why), ERR_SNAPSHOT_BAD_CURRENT);
}

static void a_pointer_that_is_gone_is_an_error_and_reads_go_on(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 50, .shards = 2, .version = 1};
    mem_free(snapmake_snapshot(&f->made, &p));
    struct reader *r = open_reader(f, IN_PLACE);
    assert_int_equal(object_delete(f->made.store, NULL, (const char *const[]){SNAPPATH_CURRENT}, 1, NULL), 0);
    assert_int_equal(reader_refresh(r, &f->why), ERR_SNAPSHOT_NO_CURRENT);
    for (uint32_t i = 0; i < 60; i++) expect_row(f, r, &p, i);
    reader_close(r);
}

static void spoil(struct fixture *f, const char *ref) { put(f, object_key_of(f->made.store, ref), SLICE("SQLite format 3\0 and then nothing")); }

static void a_malformed_new_manifest_keeps_the_good_snapshot(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 50, .shards = 2, .version = 1}, q = {.rows = 50, .shards = 2, .version = 2};
    struct reader_report report;
    mem_free(snapmake_snapshot(&f->made, &p));
    struct reader *r = open_reader(f, IN_PLACE);
    char *ref = snapmake_snapshot(&f->made, &q);
    spoil(f, ref);
    assert_int_equal(reader_refresh(r, &f->why), READER_KEPT);
    assert_true(f->why.len > 0);
    for (uint32_t i = 0; i < 60; i++) expect_row(f, r, &p, i);
    reader_report(r, &report);
    assert_int_equal(report.refresh_code, ERR_SNAPSHOT_BAD_MANIFEST);
    put(f, SNAPPATH_CURRENT, SLICE("[]"));
    assert_int_equal(reader_refresh(r, &f->why), READER_KEPT);
    q.version = 3;
    mem_free(snapmake_snapshot(&f->made, &q));
    assert_int_equal(reader_refresh(r, &f->why), READER_SWITCHED);
    expect_row(f, r, &q, 3);
    reader_report(r, &report);
    assert_int_equal(report.refresh_code, 0);
    assert_int_equal(report.kept, 2);
    reader_close(r);
    mem_free(ref);
}

static void a_cold_start_falls_back_through_older_manifests(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 50, .shards = 2, .version = 1}, q = {.rows = 50, .shards = 2};
    struct reader_report report;
    struct reader_options o = options_of(f, IN_PLACE);
    struct reader *r;
    mem_free(snapmake_snapshot(&f->made, &p));
    for (uint32_t i = 0; i < 4; i++) { /* after so many spoilt ones the fallback gives up: the newest, and three after it */
        q.version = 2 + i;
        char *ref = snapmake_snapshot(&f->made, &q);
        spoil(f, ref);
        mem_free(ref);
        int rc = reader_open(&r, f->counted, &o, &f->why);
        assert_int_equal(rc, i < 3 ? 0 : ERR_SNAPSHOT_NO_VALID);
        if (rc < 0) break;
        expect_row(f, r, &p, 4);
        reader_report(r, &report);
        assert_true(report.fell_back);
        reader_close(r);
    }
    o.fallback_attempts = 0;
    assert_int_equal(reader_open(&r, f->counted, &o, &f->why), ERR_SNAPSHOT_BAD_MANIFEST);
    q.version = 9;
    mem_free(snapmake_snapshot(&f->made, &q));
    assert_int_equal(reader_open(&r, f->counted, &o, &f->why), 0);
    expect_row(f, r, &q, 4);
    reader_close(r);
}

static void a_newer_manifest_that_was_never_published_is_no_fallback(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 20, .shards = 1, .version = 1}, q = {.rows = 20, .shards = 1, .version = 2};
    struct publish_base base = {0};
    struct publish_result result = {0};
    char *ref = snapmake_snapshot(&f->made, &p);
    spoil(f, ref);
    struct manifest *m = snapmake_manifest(&f->made, &q);
    assert_int_equal(publish_observe(f->made.store, NULL, &base, &f->why), 0);
    assert_int_equal(publish_manifest(f->made.store, NULL, m, &base, clock_unix_us(), &result, &f->why), 0);
    struct reader *r;
    struct reader_options o = options_of(f, IN_PLACE);
    assert_int_equal(reader_open(&r, f->counted, &o, &f->why), ERR_SNAPSHOT_NO_VALID);
    publish_base_fini(&base);
    publish_result_fini(&result);
    manifest_free(m);
    mem_free(ref);
}

static void a_missing_shard_fails_its_keys_and_no_others(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 200, .shards = 4, .version = 1};
    for (enum way way = 0; way < WAYS; way++) {
        p.version++;
        mem_free(snapmake_snapshot(&f->made, &p));
        overwrite_shard(f, 2, (struct slice){0});
        struct reader *r = open_reader(f, way);
        struct reader_lease lease = reader_enter(r);
        uint32_t failed = 0;
        for (uint32_t i = 0; i < p.rows; i++) {
            char text[16];
            uint32_t shard;
            struct buf out = {0};
            struct snapkey key = snapmake_key(&p, i, text);
            assert_int_equal(readstate_route(lease.state, &key, NULL, &shard, &f->why), 0);
            f->why.len = 0;
            int rc = reader_get(r, &key, NULL, &out, &f->why);
            assert_int_equal(rc, shard == 2 ? ERR_SNAPSHOT_SHARD : 1);
            failed += rc < 0;
            buf_fini(&out);
            if (rc >= 0) continue;
            buf_add_byte(&f->why, 0);
            assert_non_null(strstr(f->why.p, "shard 2"));
        }
        assert_true(failed > 10);
        reader_leave(r, lease);
        reader_close(r);
    }
}

static void a_new_snapshot_whose_shard_is_missing_is_not_switched_to(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 200, .shards = 4, .version = 1}, q = p;
    q.version = 2;
    mem_free(snapmake_snapshot(&f->made, &p));
    struct reader *r = open_reader(f, IN_PLACE);
    for (uint32_t i = 0; i < p.rows; i++) expect_row(f, r, &p, i);
    mem_free(snapmake_snapshot(&f->made, &q));
    overwrite_shard(f, 1, (struct slice){0});
    assert_int_equal(reader_refresh(r, &f->why), READER_KEPT);
    for (uint32_t i = 0; i < p.rows; i++) expect_row(f, r, &p, i);
    reader_close(r);
}

static void a_damaged_download_is_refused(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 200, .shards = 1, .version = 1};
    struct buf out = {0}, bytes = {0};
    mem_free(snapmake_snapshot(&f->made, &p));
    memset(buf_room(&bytes, 1 << 20), 'x', 1 << 20);
    struct pointer pointer = {0};
    struct manifest *m;
    assert_int_equal(history_current(f->made.store, NULL, &pointer, &m, &f->why), 0);
    bytes.len = m->shards[0].db_bytes;
    overwrite_shard(f, 0, buf_slice(&bytes));
    struct reader *r = open_reader(f, DOWNLOAD);
    struct snapkey key = snapkey_int(5);
    assert_int_equal(reader_get(r, &key, NULL, &out, &f->why), ERR_SNAPSHOT_SHARD);
    struct reader_report report;
    reader_report(r, &report);
    assert_int_equal(report.shard_code, ERR_SNAPSHOT_SHARD);
    reader_close(r);
    manifest_free(m);
    pointer_fini(&pointer);
    buf_fini(&bytes);
    buf_fini(&out);
}

/* Every k-th request fails: a read gives the right answer or an error, and the next one is right again. */
static void a_failing_store_never_gives_a_wrong_answer(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 5000, .shards = 2, .version = 1, .value_bytes = 60};
    mem_free(snapmake_snapshot(&f->made, &p));
    for (enum way way = DOWNLOAD; way <= RANGE; way++) {
        for (uint64_t k = 1; k < 12; k++) {
            for (enum faultstore_kind kind = FAULTSTORE_FAIL; kind <= FAULTSTORE_HALF; kind++) {
                struct reader_options o = options_of(f, way);
                struct reader *r = NULL;
                uint32_t failures = 0;
                nftw(f->cache, snapmake_remove, 16, FTW_DEPTH | FTW_PHYS);
                faultstore_plan(f->counted, (struct faultstore_plan){.at = k, .kind = kind, .code = ERR_OBJECT_TIMEOUT});
                while (!r) {
                    int rc = reader_open(&r, f->counted, &o, &f->why);
                    if (rc < 0) assert_true(++failures < 3);
                }
                for (uint32_t i = 0; i < p.rows; i += 997) {
                    struct buf out = {0};
                    struct snapkey key = snapkey_int(i);
                    int rc = reader_get(r, &key, NULL, &out, &f->why);
                    failures += rc < 0;
                    if (rc >= 0) expect_row(f, r, &p, i);
                    buf_fini(&out);
                }
                assert_true(failures <= 1);
                reader_close(r);
            }
        }
    }
    plan(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_published_is_an_error_of_its_own),
        TEST(a_pointer_that_is_gone_is_an_error_and_reads_go_on),
        TEST(a_malformed_new_manifest_keeps_the_good_snapshot),
        TEST(a_cold_start_falls_back_through_older_manifests),
        TEST(a_newer_manifest_that_was_never_published_is_no_fallback),
        TEST(a_missing_shard_fails_its_keys_and_no_others),
        TEST(a_new_snapshot_whose_shard_is_missing_is_not_switched_to),
        TEST(a_damaged_download_is_refused),
        TEST(a_failing_store_never_gives_a_wrong_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
