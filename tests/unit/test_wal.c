/* The log against a disk that crashes, fills up and fails: what is replayed is always a run of whole epochs from the first one on, with all that was synced, the same on every shard. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "io/wholefile.h"
#include "log/segment.h"
#include "walbench.h"

/* --- plain life --- */

static void what_was_written_is_replayed_in_order_on_every_shard(void **state)
{
    struct bench *b = bench_new(3, 1 << 20, 1);
    assert_true(open_log(b, 0));
    assert_int_equal(wal_cut(b->wal), 0);
    for (unsigned i = 0; i < 30; i++) epoch_on(b, 1 + i % 7);
    assert_int_equal(wal_written_epoch(b->wal), 30);
    assert_int_equal(wal_synced_epoch(b->wal), 0);
    assert_int_equal(sync_log(b), 0);
    assert_int_equal(wal_synced_epoch(b->wal), 30);
    close_log(b, true);
    struct wal_replay r = replay_run(b, 0);
    assert_int_equal(r.last, 30);
    assert_int_equal(r.epochs, 30);
    assert_int_equal(r.bad_records + r.torn_bytes + r.dropped_records, 0);
    assert_string_equal(r.note, "");
    bench_free(b);
}

static void an_empty_directory_is_an_empty_log(void **state)
{
    struct bench *b = bench_new(2, 1 << 20, 1);
    struct wal_replay r = replay_run(b, 7);
    assert_int_equal(r.last, 7);
    assert_int_equal(r.records, 0);
    assert_true(open_log(b, r.last));
    assert_int_equal(wal_open_epoch(b->wal), 8);
    bench_free(b);
}

static void lives_follow_one_another_without_gap(void **state)
{
    struct bench *b = bench_new(3, 300, 5);
    wal_epoch last = 0;
    for (unsigned life = 0; life < 6; life++) {
        assert_true(open_log(b, last));
        for (unsigned i = 0; i < 10; i++) epoch_on(b, 1 + (life + i) % 7);
        if (life % 2) assert_int_equal(sync_log(b), 0);
        close_log(b, life % 2);
        last = replay_run(b, 0).last;
        assert_int_equal(last, 10 * (life + 1));
    }
    bench_free(b);
}

static void old_segments_go_only_when_a_dump_has_their_epochs(void **state)
{
    struct bench *b = bench_new(3, 200, 2);
    struct wal_info info;
    assert_true(open_log(b, 0));
    for (unsigned i = 0; i < 40; i++) epoch_on(b, 1 + i % 7);
    wal_shard_info(b->wal, 0, &info);
    assert_true(info.segments > 3 && info.bytes > 600 && info.records == b->truth->n[0]);
    assert_int_equal(wal_drop_before(b->wal, 21), 0);
    assert_null(bytes_of(b, 0, 1));
    close_log(b, false);
    assert_int_equal(replay_run(b, 20).last, 40);
    assert_true(open_log(b, 40));
    wal_rotate(b->wal);
    for (unsigned i = 0; i < 4; i++) epoch_on(b, 2); /* shards 0 and 2 are idle from now on */
    wal_rotate(b->wal);
    assert_int_equal(wal_drop_before(b->wal, 45), 0);
    for (uint32_t s = 0; s < 3; s++) {
        wal_shard_info(b->wal, s, &info);
        assert_int_equal(info.segments, 0);
        assert_int_equal(info.bytes, 0);
    }
    epoch_on(b, 7);
    assert_int_equal(sync_log(b), 0);
    close_log(b, true);
    assert_int_equal(replay_run(b, 44).last, 45);
    bench_free(b);
}

static void an_op_longer_than_a_record_is_kept_in_parts(void **state)
{
    struct bench *b = bench_new(1, 1 << 30, 3);
    struct buf value = {0};
    struct wal_replay r;
    struct twin *got = twin_new();
    assert_true(open_log(b, 0));
    for (uint32_t i = 0; i < 10u << 20; i++) buf_add(&value, &i, 4);
    struct op op = {.kind = OP_SET, .key = SLICE("k"), .value = buf_slice(&value)};
    append(b, 0);
    twin_add(b->truth, 0, &op);
    b->truth->ops[0][1].epoch = 1;
    wal_append(b->wal, 0, &op);
    append(b, 0);
    cut(b);
    assert_int_equal(wal_write(b->wal), 0);
    epoch_on(b, 1);
    assert_int_equal(sync_log(b), 0);
    epoch_on(b, 1);
    close_log(b, false);
    assert_int_equal(replay_run(b, 0).last, 3);
    /* Without its first part the rest of it is nothing, whatever stands there. */
    bytes_of(b, 0, 1)->p[SEGMENT_HEADER_BYTES + 200] ^= 1;
    assert_int_equal(replay(b, 0, false, got, &r), 0);
    assert_int_equal(got->n[0], 4);
    assert_true(r.bad_records > 0 && is_subsequence(got, b->truth));
    twin_free(got);
    buf_fini(&value);
    bench_free(b);
}

/* --- crashes --- */

static int commit_log(struct bench *b)
{
    int rc = wal_commit(b->wal);
    if (rc == 0) b->truth->synced = wal_synced_epoch(b->wal);
    return rc;
}

/* The ways to bring an epoch to the disk: written only, committed with the files in turn, committed with the files together. */
enum way { WAY_WRITE, WAY_COMMIT, WAY_COMMIT_TOGETHER, WAYS };

static int write_by(struct bench *b, enum way way)
{
    file_sim_commit_together(b->disk, way == WAY_COMMIT_TOGETHER);
    return way == WAY_WRITE ? wal_write(b->wal) : commit_log(b);
}

/* Writes the closed epoch, now and then with the sync in the same call. */
static int write_log(struct bench *b) { return rng_below(&b->ops.rng, 3) == 0 ? commit_log(b) : wal_write(b->wal); }

/* A life of the log: random appends, cuts, writes, syncs, rotations. Stops when a call fails. */
static void live(struct bench *b, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        for (uint64_t n = rng_below(&b->ops.rng, 5); n; n--) append(b, (uint32_t)rng_below(&b->ops.rng, b->shards));
        cut(b);
        if (write_log(b)) return;
        if (rng_below(&b->ops.rng, 3) == 0 && sync_log(b)) return;
        if (rng_below(&b->ops.rng, 12) == 0) wal_rotate(b->wal);
    }
}

/* The log as after a crash at changing call k of its first life; gives false if the life ended before. */
static bool crash_at(struct bench *b, uint64_t k, bool power)
{
    file_sim_set_faults(b->disk, (struct file_sim_faults){.power_off_at = k, .short_writes = true});
    if (open_log(b, 0)) live(b, 25);
    bool crashed = file_sim_calls(b->disk) >= k;
    close_log(b, power);
    return crashed;
}

static void a_crash_at_any_call_leaves_a_run_of_epochs_with_all_that_was_synced(void **state)
{
    unsigned crashes = 0, dropped = 0;
    for (uint64_t seed = 1; seed <= 12; seed++)
        for (uint64_t k = 1, more = 1; more; k++) {
            struct bench *b = bench_new(1 + (uint32_t)seed % 4, 150 + seed * 20, seed);
            more = crash_at(b, k, seed % 3);
            struct wal_replay r = replay_run(b, 0);
            assert_in_range(r.last, b->truth->synced, b->truth->cut);
            assert_int_equal(r.bad_records, 0);
            if (seed % 3 == 0) assert_true(b->truth->cut - r.last <= 1); /* only the process died */
            crashes += (unsigned)more;
            dropped += r.last < b->truth->cut;
            /* The next life, and a loss of power at its end. */
            twin_cut(b->truth, r.last);
            assert_true(open_log(b, r.last));
            live(b, 6);
            close_log(b, true);
            r = replay_run(b, 0);
            assert_in_range(r.last, b->truth->synced, b->truth->cut);
            assert_int_equal(r.bad_records, 0);
            bench_free(b);
        }
    assert_true(crashes > 500 && dropped > 100);
}

static void a_crash_during_recovery_leaves_the_same_log(void **state)
{
    unsigned crashes = 0;
    for (uint64_t seed = 1; seed <= 40; seed++)
        for (uint64_t k = 1, more = 1; more; k++) {
            struct bench *b = bench_new(3, 400, seed);
            crash_at(b, 60 + seed, true);
            struct twin *got = twin_new();
            struct wal_replay first, r;
            uint64_t before = file_sim_calls(b->disk);
            file_sim_set_faults(b->disk, (struct file_sim_faults){.power_off_at = before + k});
            more = replay(b, 0, false, got, &first) != 0;
            crashes += (unsigned)more;
            file_sim_crash(b->disk, true);
            r = replay_run(b, 0);
            if (!more) assert_int_equal(r.last, first.last);
            assert_in_range(r.last, b->truth->synced, b->truth->cut);
            twin_free(got);
            bench_free(b);
        }
    assert_true(crashes > 50);
}

static void an_epoch_that_one_shard_lost_is_dropped_on_all_with_those_behind_it(void **state)
{
    struct bench *b = bench_new(3, 1 << 20, 4);
    assert_true(open_log(b, 0));
    epoch_on(b, 7);
    size_t kept = bytes_of(b, 1, 1)->len;
    epoch_on(b, 3); /* shard 1 will lose its part */
    epoch_on(b, 5);
    close_log(b, false);
    bytes_of(b, 1, 1)->len = kept;
    struct wal_replay r = replay_run(b, 0);
    assert_int_equal(r.last, 1);
    assert_int_equal(r.dropped_records, 3);
    bench_free(b);
}

static void an_epoch_lost_without_trace_ends_the_run(void **state)
{
    struct bench *b = bench_new(2, 1 << 20, 4);
    assert_true(open_log(b, 0));
    epoch_on(b, 3);
    size_t kept = bytes_of(b, 0, 1)->len;
    epoch_on(b, 1); /* on shard 0 alone */
    epoch_on(b, 2);
    close_log(b, false);
    bytes_of(b, 0, 1)->len = kept;
    assert_int_equal(replay_run(b, 0).last, 1);
    assert_int_equal(replay_run(b, 0).torn_bytes, 0); /* it was cut off at the first time */
    bench_free(b);
}

/* --- failing calls --- */

/* Several epochs committed, then the process is gone without a word. */
static struct bench *killed_with_room(void)
{
    struct bench *b = bench_new(2, 1 << 20, 41);
    assert_true(open_log(b, 0));
    for (unsigned i = 0; i < 5; i++) {
        append(b, 0);
        append(b, 1);
        cut(b);
        assert_int_equal(commit_log(b), 0);
    }
    file_sim_set_faults(b->disk, (struct file_sim_faults){.power_off_at = file_sim_calls(b->disk) + 1});
    close_log(b, true);
    assert_true(bytes_of(b, 0, 1)->len > 200 << 10);
    return b;
}

static void room_for_epochs_to_come_is_no_damage_and_is_cut_off(void **state)
{
    struct bench *b = killed_with_room();
    struct wal_replay r = replay_run(b, 0);
    assert_int_equal(r.last, 5);
    assert_int_equal(r.bad_records + r.torn_bytes + r.dropped_records, 0);
    assert_string_equal(r.note, "");
    assert_true(bytes_of(b, 0, 1)->len < 2000);
    bench_free(b);
    /* A log that is closed in peace leaves none. */
    b = bench_new(2, 1 << 20, 41);
    assert_true(open_log(b, 0));
    append(b, 0);
    cut(b);
    assert_int_equal(commit_log(b), 0);
    assert_true(bytes_of(b, 0, 1)->len > 200 << 10);
    close_log(b, false);
    assert_true(bytes_of(b, 0, 1)->len < 2000);
    bench_free(b);
}

static void a_byte_in_the_room_that_is_not_zero_is_told_and_cut_off(void **state)
{
    struct bench *b = killed_with_room();
    bytes_of(b, 1, 1)->p[bytes_of(b, 1, 1)->len - 100] = 1;
    struct wal_replay r = replay_run(b, 0);
    assert_int_equal(r.last, 5);
    assert_true(r.torn_bytes > 0 && r.bad_records == 0);
    bench_free(b);
}

static void fill_disk(enum way way, unsigned *failures)
{
    for (uint64_t space = 0; space < 3000; space += 7) {
        struct bench *b = bench_new(3, 400, 6);
        file_sim_set_faults(b->disk, (struct file_sim_faults){.space_bytes = space + 1, .short_writes = true});
        assert_true(open_log(b, 0));
        for (unsigned i = 0; i < 12; i++) {
            for (uint32_t s = 0; s < 3; s++) append(b, s);
            wal_epoch e = cut(b);
            if (write_by(b, way) == -ENOSPC) {
                ++*failures;
                assert_true(wal_written_epoch(b->wal) < e && wal_synced_epoch(b->wal) < e && !wal_broken(b->wal));
                file_sim_set_faults(b->disk, (struct file_sim_faults){0});
                assert_int_equal(write_by(b, way), 0);
            }
            assert_int_equal(wal_written_epoch(b->wal), e);
            if (way != WAY_WRITE) assert_int_equal(wal_synced_epoch(b->wal), e);
        }
        assert_int_equal(sync_log(b), 0);
        close_log(b, true);
        struct wal_replay r = replay_run(b, 0);
        assert_int_equal(r.last, 12);
        assert_int_equal(r.bad_records + r.torn_bytes, 0);
        bench_free(b);
    }
}

static void a_full_disk_undoes_the_epoch_and_a_second_try_writes_it(void **state)
{
    for (int way = 0; way < WAYS; way++) {
        unsigned failures = 0;
        fill_disk((enum way)way, &failures);
        assert_true(failures > 100);
    }
}

static void crash_after_failed_write(enum way way, unsigned *failures)
{
    for (uint64_t space = 0; space < 2500; space += 11) {
        struct bench *b = bench_new(3, 1 << 20, 6);
        file_sim_set_faults(b->disk, (struct file_sim_faults){.space_bytes = space + 1});
        assert_true(open_log(b, 0));
        int rc = 0;
        for (unsigned i = 0; i < 20 && rc == 0; i++) {
            for (uint32_t s = 0; s < 3; s++) append(b, s);
            cut(b);
            rc = write_by(b, way);
            if (rc == 0) assert_int_equal(sync_log(b), 0);
        }
        *failures += rc == -ENOSPC;
        close_log(b, space % 2);
        assert_int_equal(replay_run(b, 0).last, b->truth->synced);
        bench_free(b);
    }
}

static void a_crash_between_the_failed_write_and_the_next_try_drops_the_epoch(void **state)
{
    for (int way = 0; way < WAYS; way++) {
        unsigned failures = 0;
        crash_after_failed_write((enum way)way, &failures);
        assert_true(failures > 100);
    }
}

/* A life in which changing call k fails. */
static void live_with_failure(struct bench *b, enum way way, unsigned *retried)
{
    bool opened = open_log(b, 0) || open_log(b, 0);
    assert_true(opened);
    for (unsigned i = 0; i < 15 && !wal_broken(b->wal); i++) {
        for (uint32_t s = 0; s < 3; s++) append(b, s);
        cut(b);
        int rc = write_by(b, way);
        if (rc && !wal_broken(b->wal)) {
            ++*retried;
            rc = write_by(b, way);
        }
        if (rc == 0 && i % 3 == 2) sync_log(b);
    }
}

static void fail_each_call(enum way way)
{
    unsigned broken = 0, retried = 0;
    for (uint64_t k = 1;; k++) {
        struct bench *b = bench_new(3, 300, 9);
        file_sim_set_faults(b->disk, (struct file_sim_faults){.fail_at = k, .fail_errno = EDQUOT});
        live_with_failure(b, way, &retried);
        if (wal_broken(b->wal)) {
            broken++;
            /* For good: not even a disk that works again brings it back, and no promise is made any more. */
            wal_epoch synced = wal_synced_epoch(b->wal);
            assert_int_equal(wal_write(b->wal), -EIO);
            assert_int_equal(wal_sync(b->wal), -EIO);
            assert_int_equal(wal_commit(b->wal), -EIO);
            assert_true(wal_synced_epoch(b->wal) == synced);
        }
        bool done = file_sim_calls(b->disk) < k;
        close_log(b, true);
        struct wal_replay r = replay_run(b, 0);
        assert_in_range(r.last, b->truth->synced, b->truth->cut);
        bench_free(b);
        if (done) break;
    }
    assert_true(broken > 10 && retried > 10);
}

static void any_call_may_fail_once(void **state)
{
    for (int way = 0; way < WAYS; way++) fail_each_call((enum way)way);
}

/* --- the real disk, and the witness of the format --- */

static void write_golden(struct bench *b)
{
    static const unsigned masks[] = {1, 6, 7, 2, 5};
    b->ops.dbs = STORE_DBS; /* the files are older than the system's database */
    assert_true(open_log(b, 0));
    for (unsigned i = 0; i < 5; i++) {
        for (uint32_t s = 0; s < 3; s++)
            for (unsigned k = 0; k < 5 && masks[i] >> s & 1; k++) {
                struct op op = oprandom_of_kind(&b->ops, (enum op_kind)((i * 7 + s * 5 + k) % OP_KINDS));
                b->truth->ops[s][b->truth->n[s]].epoch = i + 1;
                twin_add(b->truth, s, &op);
                wal_append(b->wal, s, &op);
            }
        cut(b);
        assert_int_equal(wal_write(b->wal), 0);
        if (i % 2) assert_int_equal(sync_log(b), 0);
        if (i == 2) wal_rotate(b->wal);
    }
}

/* With SHERD_GOLDEN=write in the environment the files are written, not compared. */
static void the_format_is_that_of_the_golden_files(void **state)
{
    struct bench *b = bench_new(3, 1 << 20, 21);
    const char *mode = getenv("SHERD_GOLDEN");
    unsigned files = 0;
    write_golden(b);
    for (uint32_t s = 0; s < 3; s++)
        for (uint64_t k = 1; k <= 2; k++) {
            char path[128];
            struct buf golden = {0}, *now = bytes_of(b, s, k);
            if (!now) continue;
            snprintf(path, sizeof path, "tests/golden/wal/shard-%" PRIu32 "/%010" PRIu64 ".wal", s, k);
            if (mode && strcmp(mode, "write") == 0) assert_int_equal(wholefile_replace(path, buf_slice(now), 0644), 0);
            assert_int_equal(wholefile_read(path, 1 << 20, &golden), 0);
            assert_true(slice_eq(buf_slice(&golden), buf_slice(now)));
            buf_fini(&golden);
            files++;
        }
    assert_int_equal(files, 6);
    bench_free(b);
}

static void copy_file(const char *from, const char *to)
{
    struct buf bytes = {0};
    assert_int_equal(wholefile_read(from, 1 << 20, &bytes), 0);
    assert_int_equal(wholefile_replace(to, buf_slice(&bytes), 0644), 0);
    buf_fini(&bytes);
}

static void the_golden_files_replay_from_a_real_disk_to_the_same_ops(void **state)
{
    struct bench *b = bench_new(3, 1 << 20, 21);
    struct twin *got = twin_new();
    struct wal_replay r;
    char dir[] = "/tmp/sherd-wal-XXXXXX", from[128], to[128], command[64];
    assert_non_null(mkdtemp(dir));
    write_golden(b);
    for (uint32_t s = 0; s < 3; s++) {
        snprintf(to, sizeof to, "%s/shard-%" PRIu32, dir, s);
        assert_int_equal(mkdir(to, 0755), 0);
        for (uint64_t k = 1; k <= 2; k++) {
            snprintf(from, sizeof from, "tests/golden/wal/shard-%" PRIu32 "/%010" PRIu64 ".wal", s, k);
            snprintf(to, sizeof to, "%s/shard-%" PRIu32 "/%010" PRIu64 ".wal", dir, s, k);
            copy_file(from, to);
        }
    }
    assert_int_equal(wal_replay_all(&file_disk, dir, 3, 0, true, twin_add, got, &r, &b->error), 0);
    assert_int_equal(r.last, 5);
    assert_true(is_same_run(got, b->truth, 0, 5));
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
    twin_free(got);
    bench_free(b);
}

static void a_log_on_the_real_disk_lives_and_is_cut(void **state)
{
    struct bench *b = bench_new(2, 200, 31);
    struct twin *got = twin_new();
    struct wal_replay r;
    char dir[] = "/tmp/sherd-wal-XXXXXX", command[64], path[128];
    assert_non_null(mkdtemp(dir));
    b->wal = wal_open(&file_disk, dir, 2, 0, 200, &b->error);
    assert_non_null(b->wal);
    for (unsigned i = 0; i < 20; i++) epoch_on(b, 1 + i % 3);
    assert_int_equal(wal_sync(b->wal), 0);
    assert_int_equal(wal_drop_before(b->wal, 6), 0);
    epoch_on(b, 3);
    struct wal_info info;
    wal_shard_info(b->wal, 1, &info);
    wal_close(b->wal);
    b->wal = NULL;
    /* Half of the last epoch's end record is gone. */
    snprintf(path, sizeof path, "%s/shard-1/%010u.wal", dir, 1);
    for (unsigned k = 1; k < 99; k++) {
        struct stat st;
        char next[128];
        snprintf(next, sizeof next, "%s/shard-1/%010u.wal", dir, k);
        if (stat(next, &st) == 0 && st.st_size > SEGMENT_HEADER_BYTES) strcpy(path, next);
    }
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 10), 0);
    assert_int_equal(wal_replay_all(&file_disk, dir, 2, 5, true, twin_add, got, &r, &b->error), 0);
    assert_int_equal(r.last, 20);
    assert_true(r.torn_bytes > 0 && r.dropped_records >= 1);
    assert_true(is_same_run(got, b->truth, 5, 20));
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
    twin_free(got);
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_replayed_in_order_on_every_shard),
        cmocka_unit_test(an_empty_directory_is_an_empty_log),
        cmocka_unit_test(lives_follow_one_another_without_gap),
        cmocka_unit_test(old_segments_go_only_when_a_dump_has_their_epochs),
        cmocka_unit_test(an_op_longer_than_a_record_is_kept_in_parts),
        cmocka_unit_test(a_crash_at_any_call_leaves_a_run_of_epochs_with_all_that_was_synced),
        cmocka_unit_test(a_crash_during_recovery_leaves_the_same_log),
        cmocka_unit_test(an_epoch_that_one_shard_lost_is_dropped_on_all_with_those_behind_it),
        cmocka_unit_test(an_epoch_lost_without_trace_ends_the_run),
        cmocka_unit_test(room_for_epochs_to_come_is_no_damage_and_is_cut_off),
        cmocka_unit_test(a_byte_in_the_room_that_is_not_zero_is_told_and_cut_off),
        cmocka_unit_test(a_full_disk_undoes_the_epoch_and_a_second_try_writes_it),
        cmocka_unit_test(a_crash_between_the_failed_write_and_the_next_try_drops_the_epoch),
        cmocka_unit_test(any_call_may_fail_once),
        cmocka_unit_test(the_format_is_that_of_the_golden_files),
        cmocka_unit_test(the_golden_files_replay_from_a_real_disk_to_the_same_ops),
        cmocka_unit_test(a_log_on_the_real_disk_lives_and_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
