/* A log that rots: what is replayed is always what was written, in order, and damage is never silent. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "log/segment.h"
#include "walbench.h"

/* A log of which all but the last epoch was durable, and known to be: two shards, several segments. */
static struct bench *durable_log(void)
{
    struct bench *b = bench_new(2, 300, 11);
    b->ops.string_max = 12;
    assert_true(open_log(b, 0));
    for (unsigned i = 0; i < 12; i++) {
        epoch_on(b, 1 + i % 3);
        assert_int_equal(sync_log(b), 0);
    }
    close_log(b, true);
    return b;
}

static bool is_told(const struct wal_replay *r) { return r->bad_records || r->torn_bytes || r->dropped_records; }

/* The damaged log replays only what was written, in order, and says so if something is missing; strict takes nothing but a run of epochs. */
static void assert_not_silent(struct bench *b, const char *what, uint64_t at)
{
    struct twin *got = twin_new(), *strictly = twin_new();
    struct wal_replay r = {0}, s = {0};
    int strict_rc = replay(b, 0, true, strictly, &s);
    if (strict_rc == 0 && !is_same_run(strictly, b->truth, 0, s.last)) fail_msg("%s at %" PRIu64 ": strict replayed what is no run", what, at);
    if (strict_rc == 0 && s.last < b->truth->cut && !is_told(&s)) fail_msg("%s at %" PRIu64 ": strict lost silently", what, at);
    int rc = replay(b, 0, false, got, &r);
    if (!is_subsequence(got, b->truth)) fail_msg("%s at %" PRIu64 ": an op that nobody wrote", what, at);
    bool all = rc == 0 && is_same_run(got, b->truth, 0, b->truth->cut);
    if (rc == 0 && !all && !is_told(&r) && !is_told(&s)) fail_msg("%s at %" PRIu64 ": silent", what, at);
    if (all && strict_rc) assert_true(is_told(&r) || b->error.len);
    twin_free(got);
    twin_free(strictly);
}

/* Spoils a new log at every byte of every file. Gives how often. */
static unsigned spoil_everywhere(void (*spoil)(struct buf *file, size_t at), const char *what)
{
    unsigned times = 0;
    for (uint32_t shard = 0; shard < 2; shard++)
        for (uint64_t segment = 1;; segment++) {
            struct bench *b = durable_log();
            size_t n = bytes_of(b, shard, segment) ? bytes_of(b, shard, segment)->len : 0;
            bench_free(b);
            if (n == 0) break;
            for (size_t at = 0; at < n; at++, times++) {
                b = durable_log();
                spoil(bytes_of(b, shard, segment), at);
                assert_not_silent(b, what, at);
                bench_free(b);
            }
        }
    return times;
}

static void flip(struct buf *file, size_t at) { file->p[at] ^= (char)(1 << at % 8); }
static void cut_off(struct buf *file, size_t at) { file->len = at; }

static void no_flipped_byte_is_silent(void **state) { assert_true(spoil_everywhere(flip, "flip") > 800); }
static void no_truncation_is_silent(void **state) { assert_true(spoil_everywhere(cut_off, "truncation") > 800); }

static void random_bytes_over_a_log_are_survived(void **state)
{
    struct rng rng;
    rng_init(&rng, 77);
    for (unsigned i = 0; i < 600; i++) {
        struct bench *b = durable_log();
        for (uint64_t k = 1 + rng_below(&rng, 4); k; k--) {
            struct buf *file = bytes_of(b, (uint32_t)rng_below(&rng, 2), 1 + rng_below(&rng, 2));
            size_t at = rng_below(&rng, file->len), n = 1 + rng_below(&rng, 60);
            for (size_t j = at; j < at + n && j < file->len; j++) file->p[j] = rng_below(&rng, 3) ? (char)rng_u64(&rng) : 0;
        }
        assert_not_silent(b, "noise", i);
        bench_free(b);
    }
}

static void a_bad_record_in_the_middle_is_skipped_and_named_and_the_file_kept(void **state)
{
    struct bench *b = bench_new(1, 1 << 20, 12);
    struct wal_replay r;
    struct twin *got = twin_new(), *none = twin_new();
    assert_true(open_log(b, 0));
    for (unsigned i = 0; i < 5; i++) append(b, 0);
    cut(b);
    assert_int_equal(wal_write(b->wal), 0);
    assert_int_equal(sync_log(b), 0);
    epoch_on(b, 1);
    close_log(b, false);
    struct buf *file = bytes_of(b, 0, 1);
    size_t second = SEGMENT_HEADER_BYTES + 8 + (uint8_t)file->p[SEGMENT_HEADER_BYTES];
    file->p[second + 5] ^= 4;
    size_t size = file->len;
    file_sim_crash(b->disk, false);
    assert_int_equal(replay(b, 0, true, none, &r), -EINVAL);
    assert_int_equal(none->n[0], 0);
    assert_int_equal(replay(b, 0, false, got, &r), 0);
    assert_int_equal(r.bad_records, 1);
    assert_int_equal(got->n[0], 5);
    assert_true(is_subsequence(got, b->truth));
    char expected[128];
    snprintf(expected, sizeof expected, "d/shard-0/0000000001.wal: damaged records at offset %zu", second);
    assert_string_equal(r.note, expected);
    assert_non_null(file_sim_bytes(b->disk, "d/shard-0/0000000001.wal.corrupt"));
    assert_true(bytes_of(b, 0, 1)->len >= size); /* all is still there, and a mark behind it */
    /* A second start tells it again, and the log goes on behind it. */
    assert_true(open_log(b, r.last));
    epoch_on(b, 1);
    assert_int_equal(sync_log(b), 0);
    close_log(b, true);
    twin_free(none);
    none = twin_new();
    assert_int_equal(replay(b, 0, false, none, &r), 0);
    assert_int_equal(none->n[0], 6);
    assert_int_equal(r.bad_records, 1);
    /* A dump that has the damaged epoch heals it. */
    assert_int_equal(replay_run(b, 1).bad_records, 0);
    twin_free(got);
    twin_free(none);
    bench_free(b);
}

/* Two synced epochs in one segment, the first damaged. */
static void write_and_damage(struct bench *b, uint64_t segment)
{
    for (int i = 0; i < 2; i++) {
        epoch_on(b, 1);
        assert_int_equal(sync_log(b), 0);
    }
    close_log(b, false);
    assert_non_null(bytes_of(b, 0, segment));
    bytes_of(b, 0, segment)->p[SEGMENT_HEADER_BYTES + 5] ^= 4;
    file_sim_crash(b->disk, false);
}

/* All segments went with a dump, and the numbers would begin again: a file that was kept has its number for itself. */
static void every_damaged_segment_is_kept_under_a_number_of_its_own(void **state)
{
    struct bench *b = bench_new(1, 1 << 20, 15);
    struct twin *got = twin_new();
    struct wal_replay r;
    assert_true(open_log(b, 0));
    write_and_damage(b, 1);
    assert_int_equal(replay(b, 0, false, got, &r), 0);
    assert_non_null(file_sim_bytes(b->disk, "d/shard-0/0000000001.wal.corrupt"));
    assert_true(open_log(b, r.last));
    assert_int_equal(wal_drop_before(b->wal, r.last + 1), 0);
    close_log(b, false);
    assert_null(bytes_of(b, 0, 1));
    assert_true(open_log(b, r.last));
    write_and_damage(b, 2);
    assert_int_equal(replay(b, r.last, false, got, &r), 0);
    assert_int_equal(r.bad_records, 1);
    assert_non_null(file_sim_bytes(b->disk, "d/shard-0/0000000002.wal.corrupt"));
    twin_free(got);
    bench_free(b);
}

static void damage_is_still_damage_when_the_record_that_knows_what_was_durable_is_cut(void **state)
{
    struct bench *b = bench_new(2, 1 << 20, 13);
    struct twin *got = twin_new(), *again = twin_new();
    struct wal_replay first, second;
    assert_true(open_log(b, 0));
    epoch_on(b, 3);
    size_t second_epoch = bytes_of(b, 0, 1)->len;
    epoch_on(b, 3);
    epoch_on(b, 3);
    assert_int_equal(sync_log(b), 0);
    epoch_on(b, 3); /* the only one that knows */
    close_log(b, false);
    bytes_of(b, 0, 1)->p[second_epoch + 5] ^= 1;
    bytes_of(b, 1, 1)->len -= 5;
    file_sim_crash(b->disk, false);
    assert_int_equal(replay(b, 0, false, got, &first), 0);
    assert_int_equal(first.last, 3);
    assert_int_equal(got->n[0] + got->n[1], 5);
    close_log(b, true);
    assert_int_equal(replay(b, 0, false, again, &second), 0);
    assert_int_equal(second.last, 3);
    assert_true(again->n[0] == 2 && again->n[1] == 3);
    assert_int_equal(second.torn_bytes, 0);
    twin_free(got);
    twin_free(again);
    bench_free(b);
}

static void the_records_of_a_durable_epoch_outlive_its_end_record(void **state)
{
    struct bench *b = bench_new(1, 1 << 20, 14);
    struct twin *got = twin_new();
    struct wal_replay r;
    assert_true(open_log(b, 0));
    for (unsigned i = 0; i < 3; i++) {
        epoch_on(b, 1);
        assert_int_equal(sync_log(b), 0);
    }
    size_t end = bytes_of(b, 0, 1)->len - 10;
    epoch_on(b, 1);
    close_log(b, false);
    bytes_of(b, 0, 1)->p[end] ^= 1;
    assert_int_equal(replay(b, 0, false, got, &r), 0);
    assert_int_equal(r.last, 4);
    assert_true(r.bad_records > 0 && is_same_run(got, b->truth, 0, 4));
    twin_free(got);
    bench_free(b);
}

static void a_log_of_another_shard_count_or_version_is_refused_and_left_alone(void **state)
{
    struct bench *b = durable_log();
    struct twin *got = twin_new();
    struct wal_replay r;
    b->shards = 3;
    assert_int_equal(replay(b, 0, false, got, &r), -EINVAL);
    b->shards = 2;
    struct segment_header h;
    struct buf *file = bytes_of(b, 0, 1), header = {0};
    assert_int_equal(segment_read_header(buf_slice(file), &h), SEGMENT_GOOD);
    h.number = 2;
    segment_write_header(&header, &h);
    memcpy(file->p, header.p, header.len);
    size_t size = file->len;
    assert_int_equal(replay(b, 0, false, got, &r), -EINVAL);
    assert_int_equal(bytes_of(b, 0, 1)->len, size);
    assert_int_equal(got->n[0] + got->n[1], 0);
    buf_fini(&header);
    twin_free(got);
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_flipped_byte_is_silent),
        cmocka_unit_test(no_truncation_is_silent),
        cmocka_unit_test(random_bytes_over_a_log_are_survived),
        cmocka_unit_test(a_bad_record_in_the_middle_is_skipped_and_named_and_the_file_kept),
        cmocka_unit_test(every_damaged_segment_is_kept_under_a_number_of_its_own),
        cmocka_unit_test(damage_is_still_damage_when_the_record_that_knows_what_was_durable_is_cut),
        cmocka_unit_test(the_records_of_a_durable_epoch_outlive_its_end_record),
        cmocka_unit_test(a_log_of_another_shard_count_or_version_is_refused_and_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
