/* The reader of snapshots: what it finds, and what it costs. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "readerrig.h"

/* ---- finding */

static void every_key_is_found_in_every_way(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan plans[] = {
        {.rows = 3000, .shards = 4, .version = 1, .value_bytes = 20}, {.rows = 300, .shards = 3, .version = 2, .value_bytes = 9000, .text = true}, {.rows = 2, .shards = 16, .version = 3}, {.rows = 0, .shards = 3}};
    for (size_t k = 0; k < sizeof plans / sizeof plans[0]; k++) {
        mem_free(snapmake_snapshot(&f->made, &plans[k]));
        for (enum way way = 0; way < WAYS; way++) {
            struct reader *r = open_reader(f, way);
            for (uint32_t i = 0; i < plans[k].rows + 20; i++) expect_row(f, r, &plans[k], i);
            reader_close(r);
        }
    }
}

static void many_keys_get_the_answers_of_single_ones(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 2000, .shards = 5, .version = 7, .value_bytes = 700, .text = true};
    struct rng rng;
    rng_init(&rng, 11);
    mem_free(snapmake_snapshot(&f->made, &p));
    for (enum way way = 0; way < WAYS; way++) {
        struct reader *r = open_reader(f, way);
        for (int round = 0; round < 20; round++) {
            struct snapkey keys[300];
            char texts[300][16], value[1000];
            struct readstate_answer answers[300];
            uint32_t numbers[300];
            struct buf out = {0};
            size_t n = rng_below(&rng, 300);
            for (size_t i = 0; i < n; i++) {
                numbers[i] = (uint32_t)rng_below(&rng, 2200);
                keys[i] = snapmake_key(&p, numbers[i], texts[i]);
            }
            int64_t found = reader_get_many(r, keys, n, NULL, answers, &out, &f->why);
            assert_true(found >= 0);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(answers[i].found, numbers[i] < p.rows);
                found -= answers[i].found;
                if (!answers[i].found) continue;
                size_t bytes = snapmake_value(&p, numbers[i], value);
                assert_int_equal(answers[i].n, bytes);
                assert_memory_equal(out.p + answers[i].at, value, bytes);
            }
            assert_int_equal(found, 0);
            buf_fini(&out);
        }
        reader_close(r);
    }
}

static void keys_that_the_encoding_does_not_have_are_refused(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 10, .shards = 2};
    struct buf out = {0};
    mem_free(snapmake_snapshot(&f->made, &p));
    struct reader *r = open_reader(f, IN_PLACE);
    struct snapkey text = snapkey_text(SLICE("5")), negative = snapkey_int(-1), large = snapkey_uint(UINT64_MAX);
    assert_int_equal(reader_get(r, &text, NULL, &out, &f->why), ERR_SNAPSHOT_KEY);
    assert_int_equal(reader_get(r, &negative, NULL, &out, &f->why), ERR_SNAPSHOT_KEY);
    assert_int_equal(reader_get(r, &large, NULL, &out, &f->why), ERR_SNAPSHOT_ROUTE);
    struct reader_report report;
    reader_report(r, &report);
    assert_int_equal(report.shard_code, 0);
    reader_close(r);
    buf_fini(&out);
}

/* ---- scanning, against the naive twin: all rows in order */

struct model_range {
    uint32_t from, to; /* keys from <= i < to */
    bool reverse;
};

static void expect_scan(struct fixture *f, struct reader *r, const struct snapmake_plan *p, struct readscan_range *range, struct model_range model)
{
    struct reader_lease lease = reader_enter(r);
    struct readscan *scan;
    struct slice key, value;
    range->reverse = model.reverse;
    int rc = readscan_open(&scan, lease.state, range, &f->why);
    assert_int_equal(rc, 0);
    uint32_t n = model.to > model.from ? model.to - model.from : 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = model.reverse ? model.to - 1 - k : model.from + k;
        char text[16], expected[100];
        snapmake_key(p, i, text);
        assert_int_equal(readscan_next(scan, &key, &value, &f->why), 1);
        assert_true(slice_eq(key, slice_of(text, 10)));
        assert_true(slice_eq(value, slice_of(expected, snapmake_value(p, i, expected))));
    }
    assert_int_equal(readscan_next(scan, &key, &value, &f->why), 0);
    assert_int_equal(readscan_next(scan, &key, &value, &f->why), 0);
    readscan_close(scan);
    reader_leave(r, lease);
    readscan_range_fini(range);
}

static void a_scan_gives_the_rows_of_its_range_in_order(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 3000, .shards = 5, .version = 1, .value_bytes = 30, .text = true};
    struct rng rng;
    rng_init(&rng, 5);
    mem_free(snapmake_snapshot(&f->made, &p));
    for (enum way way = 0; way < WAYS; way++) {
        struct reader *r = open_reader(f, way);
        for (int round = 0; round < 60; round++) {
            struct readscan_range range = {0};
            struct model_range model = {.to = p.rows, .reverse = rng_below(&rng, 2)};
            char text[16];
            if (rng_below(&rng, 2)) {
                bool without = rng_below(&rng, 2);
                model.from = (uint32_t)rng_below(&rng, p.rows);
                snapmake_key(&p, model.from, text);
                readscan_from(&range, slice_of(text, 10), without);
                model.from += without;
            }
            if (rng_below(&rng, 2)) {
                bool with = rng_below(&rng, 2);
                model.to = (uint32_t)rng_below(&rng, p.rows);
                snapmake_key(&p, model.to, text);
                readscan_to(&range, slice_of(text, 10), with);
                model.to += with;
            }
            if (rng_below(&rng, 2)) {
                uint32_t tens = (uint32_t)rng_below(&rng, p.rows / 100);
                snapmake_key(&p, tens * 100, text);
                readscan_prefix(&range, slice_of(text, 8));
                if (tens * 100 > model.from) model.from = tens * 100;
                if (tens * 100 + 100 < model.to) model.to = tens * 100 + 100;
            }
            expect_scan(f, r, &p, &range, model);
        }
        reader_close(r);
    }
}

static void a_prefix_of_highest_bytes_has_no_end(void **state)
{
    struct readscan_range range = {0};
    readscan_prefix(&range, SLICE("a\xff\xff"));
    assert_true(range.has_to && slice_eq(buf_slice(&range.to), SLICE("b")));
    readscan_range_fini(&range);
    range = (struct readscan_range){0};
    readscan_prefix(&range, SLICE("\xff\xff"));
    assert_false(range.has_to);
    readscan_range_fini(&range);
}

/* ---- switching */

static void a_refresh_switches_and_an_unchanged_pointer_costs_one_request(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 100, .shards = 3, .version = 1}, q = {.rows = 150, .shards = 4, .version = 2};
    mem_free(snapmake_snapshot(&f->made, &p));
    for (enum way way = 0; way < WAYS; way++) {
        struct reader *r = open_reader(f, way);
        expect_row(f, r, &p, 5);
        plan(f);
        assert_int_equal(reader_refresh(r, &f->why), READER_UNCHANGED);
        assert_int_equal(faultstore_requests(f->counted), 1);
        mem_free(snapmake_snapshot(&f->made, &q));
        expect_row(f, r, &p, 6);
        assert_int_equal(reader_refresh(r, &f->why), READER_SWITCHED);
        for (uint32_t i = 0; i < 160; i++) expect_row(f, r, &q, i);
        reader_close(r);
        p = q;
        q.version++;
    }
}

static void a_scan_ends_on_the_snapshot_on_which_it_began(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 500, .shards = 3, .version = 1, .text = true}, q = p;
    q.version = 2;
    mem_free(snapmake_snapshot(&f->made, &p));
    struct reader *r = open_reader(f, RANGE);
    struct reader_lease lease = reader_enter(r);
    struct readscan *scan;
    struct readscan_range range = {0};
    struct slice key, value;
    assert_int_equal(readscan_open(&scan, lease.state, &range, &f->why), 0);
    for (uint32_t i = 0; i < p.rows; i++) {
        char expected[100];
        if (i == 100) {
            mem_free(snapmake_snapshot(&f->made, &q));
            assert_int_equal(reader_refresh(r, &f->why), READER_SWITCHED);
            expect_row(f, r, &q, 7);
        }
        assert_int_equal(readscan_next(scan, &key, &value, &f->why), 1);
        assert_true(slice_eq(value, slice_of(expected, snapmake_value(&p, i, expected))));
    }
    readscan_close(scan);
    reader_leave(r, lease);
    reader_close(r);
}

static void shards_that_both_snapshots_have_are_not_read_again(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 400, .shards = 4, .version = 1}, q = p;
    for (enum way way = DOWNLOAD; way <= RANGE; way++) {
        struct manifest *first = snapmake_manifest(&f->made, &p);
        mem_free(snapmake_publish(&f->made, first));
        struct reader *r = open_reader(f, way);
        for (uint32_t i = 0; i < p.rows; i++) expect_row(f, r, &p, i);
        q.keep_shards = 4;
        q.before = first;
        mem_free(snapmake_snapshot(&f->made, &q));
        plan(f);
        assert_int_equal(reader_refresh(r, &f->why), READER_SWITCHED);
        assert_int_equal(faultstore_requests(f->counted), 2); /* pointer and manifest */
        for (uint32_t i = 0; i < p.rows; i++) expect_row(f, r, &p, i);
        assert_int_equal(faultstore_requests(f->counted), 2);
        reader_close(r);
        manifest_free(first);
    }
}

static void same_content_under_another_url_is_not_downloaded_again(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 400, .shards = 4, .version = 1};
    struct reader_report report;
    mem_free(snapmake_snapshot(&f->made, &p));
    struct reader *r = open_reader(f, DOWNLOAD);
    for (uint32_t i = 0; i < p.rows; i++) expect_row(f, r, &p, i);
    mem_free(snapmake_snapshot(&f->made, &p));
    assert_int_equal(reader_refresh(r, &f->why), READER_SWITCHED);
    for (uint32_t i = 0; i < p.rows; i++) expect_row(f, r, &p, i);
    reader_report(r, &report);
    assert_int_equal(report.downloads, 4);
    assert_int_equal(report.reuses, 4);
    reader_close(r);
    r = open_reader(f, DOWNLOAD);
    for (uint32_t i = 0; i < p.rows; i++) expect_row(f, r, &p, i);
    reader_report(r, &report);
    assert_int_equal(report.downloads, 0);
    reader_close(r);
}

/* ---- what a lookup costs */

static void a_cold_lookup_by_ranges_needs_one_request_for_data(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 20000, .shards = 2, .version = 1, .value_bytes = 100};
    mem_free(snapmake_snapshot(&f->made, &p));
    struct reader *r = open_reader(f, RANGE);
    plan(f);
    expect_row(f, r, &p, 5);
    assert_int_equal(faultstore_requests(f->counted), 2); /* the sidecar and the leaf */
    uint32_t other = 5;
    char text[16];
    uint32_t shard, first;
    struct reader_lease lease = reader_enter(r);
    struct snapkey key = snapmake_key(&p, 5, text);
    assert_int_equal(readstate_route(lease.state, &key, NULL, &first, &f->why), 0);
    do {
        other += 4000;
        key = snapmake_key(&p, other, text);
        assert_int_equal(readstate_route(lease.state, &key, NULL, &shard, &f->why), 0);
    } while (shard != first && other < 16000);
    reader_leave(r, lease);
    plan(f);
    expect_row(f, r, &p, other);
    assert_int_equal(faultstore_requests(f->counted), shard == first ? 1 : 2);
    expect_row(f, r, &p, other);
    assert_int_equal(faultstore_requests(f->counted), shard == first ? 1 : 2);
    reader_close(r);
}

static void a_sidecar_of_another_file_is_not_believed(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p = {.rows = 3000, .shards = 1, .version = 1, .value_bytes = 50}, q = p;
    q.version = 2; /* of the same size, so that only the tag tells */
    mem_free(snapmake_snapshot(&f->made, &q));
    struct pointer pointer = {0};
    struct manifest *m;
    struct buf key = {0}, bytes = {0};
    assert_int_equal(history_current(f->made.store, NULL, &pointer, &m, &f->why), 0);
    buf_printf(&key, "%s/" SNAPPATH_SHARD_FILE "%c", object_key_of(f->made.store, m->shards[0].db_url), 0);
    assert_int_equal(object_get(f->made.store, NULL, key.p, 1 << 30, &bytes, NULL), 0);
    manifest_free(m);
    pointer_fini(&pointer);
    mem_free(snapmake_snapshot(&f->made, &p));
    overwrite_shard(f, 0, buf_slice(&bytes));
    struct reader *r = open_reader(f, RANGE);
    for (uint32_t i = 0; i < p.rows + 5; i += 7) expect_row(f, r, &q, i);
    reader_close(r);
    buf_fini(&key);
    buf_fini(&bytes);
}

/* ---- pins */

static void a_pinned_reader_stays(void **state)
{
    struct fixture *f = *state;
    struct snapmake_plan p[3] = {{.rows = 20, .shards = 2, .version = 1}, {.rows = 20, .shards = 2, .version = 2}, {.rows = 20, .shards = 2, .version = 3}};
    char *refs[3];
    for (int i = 0; i < 3; i++) refs[i] = snapmake_snapshot(&f->made, &p[i]);
    struct history_pick picks[3] = {{.ref = refs[0]}, {.by_offset = true, .offset = 1}, {.by_offset = true}};
    struct reader_options o = options_of(f, IN_PLACE);
    for (int i = 0; i < 3; i++) {
        struct reader *r;
        o.pin = &picks[i];
        assert_int_equal(reader_open(&r, f->counted, &o, &f->why), 0);
        expect_row(f, r, &p[i], 7);
        assert_int_equal(reader_refresh(r, &f->why), READER_UNCHANGED);
        expect_row(f, r, &p[i], 7);
        int other = (i + 1) % 3;
        assert_int_equal(reader_use(r, &picks[other], &f->why), READER_SWITCHED);
        expect_row(f, r, &p[other], 8);
        assert_int_equal(reader_use(r, NULL, &f->why), other == 2 ? READER_UNCHANGED : READER_SWITCHED);
        expect_row(f, r, &p[2], 9);
        reader_close(r);
    }
    struct reader *r;
    o.pin = &(struct history_pick){.by_offset = true, .offset = 17};
    assert_true(reader_open(&r, f->counted, &o, &f->why) < 0);
    for (int i = 0; i < 3; i++) mem_free(refs[i]);
}

/* ---- under load */

enum { THREADS = 8, PUBLISHES = 100, LOAD_ROWS = 64 };

struct load {
    struct fixture *f;
    struct reader *reader;
    atomic_uint refreshed; /* the version that a refresh has returned with */
    atomic_uint published;
    atomic_bool stop;
    atomic_uint entered;
    atomic_uint seen[THREADS]; /* the version that each thread has seen last */
};

static uint32_t version_of(struct slice value, uint32_t *key)
{
    uint32_t version;
    char text[64];
    assert_true(value.n > 0 && value.n < sizeof text);
    memcpy(text, value.p, value.n);
    text[value.n] = 0;
    assert_int_equal(sscanf(text, "%u:%u;", &version, key), 2);
    return version;
}

/* All keys in one call are of one version, which is none that was left before the call began. */
static void *read_without_pause(void *arg)
{
    struct load *l = arg;
    uint32_t me = atomic_fetch_add(&l->entered, 1);
    struct snapkey keys[LOAD_ROWS];
    struct readstate_answer answers[LOAD_ROWS];
    struct buf out = {0}, why = {0};
    for (uint32_t i = 0; i < LOAD_ROWS; i++) keys[i] = snapkey_int(i);
    for (uint32_t round = 0; !atomic_load(&l->stop); round++) {
        uint32_t least = atomic_load(&l->refreshed), key, version;
        if (reader_get_many(l->reader, keys, LOAD_ROWS, NULL, answers, &out, &why) != LOAD_ROWS) fail_msg("a key is missing: %.*s", (int)why.len, why.p);
        for (uint32_t i = 0; i < LOAD_ROWS; i++) {
            uint32_t one = version_of(slice_of(out.p + answers[i].at, answers[i].n), &key);
            assert_int_equal(key, i);
            if (i == 0) version = one;
            assert_int_equal(one, version);
        }
        assert_true(version >= least && version <= atomic_load(&l->published));
        least = atomic_load(&l->refreshed);
        assert_int_equal(reader_get(l->reader, &keys[round % LOAD_ROWS], NULL, &out, &why), 1);
        assert_true(version_of(buf_slice(&out), &key) >= least && key == round % LOAD_ROWS);
        atomic_store(&l->seen[me], version);
    }
    buf_fini(&out);
    buf_fini(&why);
    return NULL;
}

/* No publish passes unread: the next one waits until all threads have seen this one. They read on meanwhile. */
static void wait_until_all_have_seen(struct load *l, uint32_t version)
{
    for (int i = 0; i < THREADS; i++)
        while (atomic_load(&l->seen[i]) < version) sched_yield();
}

static void run_load(struct fixture *f, enum way way)
{
    struct snapmake_plan p = {.rows = LOAD_ROWS, .shards = 4, .version = 1};
    struct load l = {.f = f};
    pthread_t threads[THREADS];
    mem_free(snapmake_snapshot(&f->made, &p));
    l.reader = open_reader(f, way);
    atomic_store(&l.published, 1);
    atomic_store(&l.refreshed, 1);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, read_without_pause, &l), 0);
    for (uint32_t i = 0; i < PUBLISHES; i++) {
        p.version++;
        atomic_store(&l.published, p.version);
        mem_free(snapmake_snapshot(&f->made, &p));
        assert_int_equal(reader_refresh(l.reader, &f->why), READER_SWITCHED);
        atomic_store(&l.refreshed, p.version);
        wait_until_all_have_seen(&l, p.version);
    }
    atomic_store(&l.stop, true);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    reader_close(l.reader);
}

static void eight_threads_read_without_pause_over_a_hundred_publishes(void **state)
{
    run_load(*state, IN_PLACE);
}

static void the_same_by_download_and_by_ranges(void **state)
{
    run_load(*state, DOWNLOAD);
    run_load(*state, RANGE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_key_is_found_in_every_way),
        TEST(many_keys_get_the_answers_of_single_ones),
        TEST(keys_that_the_encoding_does_not_have_are_refused),
        TEST(a_scan_gives_the_rows_of_its_range_in_order),
        TEST(a_prefix_of_highest_bytes_has_no_end),
        TEST(a_refresh_switches_and_an_unchanged_pointer_costs_one_request),
        TEST(a_scan_ends_on_the_snapshot_on_which_it_began),
        TEST(shards_that_both_snapshots_have_are_not_read_again),
        TEST(same_content_under_another_url_is_not_downloaded_again),
        TEST(a_cold_lookup_by_ranges_needs_one_request_for_data),
        TEST(a_sidecar_of_another_file_is_not_believed),
        TEST(a_pinned_reader_stays),
        TEST(eight_threads_read_without_pause_over_a_hundred_publishes),
        TEST(the_same_by_download_and_by_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
