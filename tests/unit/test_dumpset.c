#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dump/dumpfile.h"
#include "dump/dumpset.h"
#include "io/file.h"
#include "io/file_sim.h"
#include "log/logdir.h"

enum { SHARDS = 3, ENTRIES = 40, LISTED_MAX = 8 };

#define DIR "/d"

static void make_folders(const struct file_ops *f)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        char path[LOGDIR_PATH_MAX];
        logdir_shard(path, DIR, i);
        assert_int_equal(f->mkdir(f->ctx, path), 0);
    }
    assert_int_equal(f->sync_dir(f->ctx, DIR), 0);
}

/* Each shard gets entries that name it and the epoch. */
static int write_set(const struct file_ops *f, uint64_t epoch)
{
    struct dumpset *d;
    int rc = dumpset_new(&d, f, DIR, SHARDS);
    if (rc == 0) dumpset_begin(d, &(struct dumpset_header){.epoch = epoch, .seed = 7, .cut_ms = 1000 + (int64_t)epoch}, COMPRESS_BALANCED, 128);
    for (uint32_t i = 0; i < SHARDS && rc == 0; i++) {
        struct buf raw = {0};
        for (int k = 0; k < ENTRIES; k++) {
            char key[32], image[32];
            int n = snprintf(key, sizeof key, "%u.%d", i, k), m = snprintf(image + 2, sizeof image - 2, "%llu", (unsigned long long)epoch);
            image[0] = 0;
            image[1] = (char)m;
            dumpfile_add_image(&raw, 0, slice_of(key, (size_t)n), 0, slice_of(image, (size_t)m + 2));
        }
        rc = dumpset_write(d, i, buf_slice(&raw), ENTRIES);
        buf_fini(&raw);
    }
    if (rc == 0) rc = dumpset_finish(d);
    dumpset_free(d);
    return rc;
}

static void assert_good(const struct file_ops *f, uint64_t epoch)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        char path[LOGDIR_PATH_MAX];
        struct buf file = {0}, why = {0};
        struct dumpfile_info info;
        logdir_dump(path, DIR, i, epoch);
        assert_int_equal(file_read_whole(f, path, &file), 0);
        assert_int_equal(dumpfile_check(buf_slice(&file), &info, &why), DUMPFILE_GOOD);
        assert_int_equal(info.entries, ENTRIES);
        assert_int_equal(info.header.epoch, epoch);
        assert_int_equal(info.header.shard, i);
        buf_fini(&file);
        buf_fini(&why);
    }
}

static bool is_there(const struct file_ops *f, const char *path)
{
    int fd = f->open(f->ctx, path, FILE_READ);
    if (fd >= 0) f->close(f->ctx, fd);
    return fd >= 0;
}

static void a_set_is_listed_when_every_shard_has_it(void **state)
{
    struct file_sim *sim = file_sim_new(DIR, 1);
    const struct file_ops *f = file_sim_ops(sim);
    uint64_t epochs[LISTED_MAX];
    char path[LOGDIR_PATH_MAX];
    make_folders(f);
    assert_int_equal(dumpset_list(f, DIR, SHARDS, epochs, LISTED_MAX), 0);
    for (uint64_t e = 5; e <= 20; e += 5) assert_int_equal(write_set(f, e), 0);
    assert_int_equal(dumpset_list(f, DIR, SHARDS, epochs, LISTED_MAX), 4);
    assert_int_equal(epochs[0], 20);
    assert_int_equal(epochs[3], 5);
    assert_int_equal(dumpset_list(f, DIR, SHARDS, epochs, 2), 2);
    assert_int_equal(epochs[1], 15);
    logdir_dump(path, DIR, 1, 15);
    f->unlink(f->ctx, path);
    assert_int_equal(dumpset_list(f, DIR, SHARDS, epochs, LISTED_MAX), 3);
    assert_int_equal(epochs[1], 10);
    assert_int_equal(dumpset_drop_before(f, DIR, SHARDS, 20), 0);
    assert_int_equal(dumpset_list(f, DIR, SHARDS, epochs, LISTED_MAX), 1);
    logdir_dump(path, DIR, 0, 15);
    assert_false(is_there(f, path));
    assert_good(f, 20);
    file_sim_free(sim);
}

static void a_failed_call_leaves_the_older_set_and_nothing_unfinished(void **state)
{
    uint64_t epochs[LISTED_MAX], failed = 0;
    for (uint64_t k = 1;; k++) {
        struct file_sim *sim = file_sim_new(DIR, k);
        const struct file_ops *f = file_sim_ops(sim);
        make_folders(f);
        assert_int_equal(write_set(f, 1), 0);
        file_sim_set_faults(sim, (struct file_sim_faults){.fail_at = file_sim_calls(sim) + k, .fail_errno = ENOSPC});
        int rc = write_set(f, 2);
        file_sim_set_faults(sim, (struct file_sim_faults){0});
        int n = dumpset_list(f, DIR, SHARDS, epochs, LISTED_MAX);
        assert_true(n >= 1 && epochs[n - 1] == 1);
        assert_good(f, 1);
        if (n == 2) assert_good(f, 2);
        failed += rc != 0;
        if (rc == 0) assert_int_equal(n, 2);
        for (uint32_t i = 0; i < SHARDS && rc != -EIO; i++) {
            char path[LOGDIR_PATH_MAX];
            logdir_unfinished_dump(path, DIR, i);
            assert_false(is_there(f, path));
        }
        file_sim_free(sim);
        if (rc == 0) break;
    }
    assert_true(failed >= 4 * SHARDS); /* create, write, rename, sync of the folder: of each shard */
}

static void power_lost_at_any_call_leaves_whole_sets_only(void **state)
{
    unsigned with_one = 0, with_two = 0;
    for (uint64_t k = 1; k <= 24; k++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            uint64_t epochs[LISTED_MAX];
            struct file_sim *sim = file_sim_new(DIR, seed * 100 + k);
            const struct file_ops *f = file_sim_ops(sim);
            make_folders(f);
            assert_int_equal(write_set(f, 1), 0);
            file_sim_set_faults(sim, (struct file_sim_faults){.power_off_at = file_sim_calls(sim) + k});
            write_set(f, 2);
            file_sim_crash(sim, true);
            int n = dumpset_list(f, DIR, SHARDS, epochs, LISTED_MAX);
            assert_in_range(n, 1, 2);
            for (int i = 0; i < n; i++) assert_good(f, epochs[i]);
            with_one += n == 1;
            with_two += n == 2;
            file_sim_free(sim);
        }
    assert_true(with_one > 20 && with_two > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_is_listed_when_every_shard_has_it),
        cmocka_unit_test(a_failed_call_leaves_the_older_set_and_nothing_unfinished),
        cmocka_unit_test(power_lost_at_any_call_leaves_whole_sets_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
