/* Stores go into group snapshots and come back the same; damage of any byte is found and named; whatever fails, what has a snapshot's name is whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/crc32c.h"
#include "base/le.h"
#include "base/mem.h"
#include "groupsnaprig.h"
#include "io/file_sim.h"
#include "io/wholefile.h"

#define DIR GROUPSNAPRIG_DIR
#define GOLDEN "tests/golden/groupsnap/g7-100-3.snap"

static bool is_there(const struct file_ops *f, const char *path)
{
    int fd = f->open(f->ctx, path, FILE_READ);
    if (fd >= 0) f->close(f->ctx, fd);
    return fd >= 0;
}

static bool is_named(struct file_sim *sim, uint64_t index, enum groupdir_kind kind)
{
    char path[GROUPDIR_PATH_MAX];
    groupsnaprig_path(path, index, kind);
    return is_there(file_sim_ops(sim), path);
}

static struct buf *bytes_of(struct file_sim *sim, uint64_t index)
{
    char path[GROUPDIR_PATH_MAX];
    groupsnaprig_path(path, index, GROUPDIR_SNAPSHOT);
    return file_sim_bytes(sim, path);
}

static int find(struct file_sim *sim, struct groupsnap_reader **r, struct buf *why)
{
    return groupsnap_find(r, file_sim_ops(sim), DIR, groupsnaprig_cluster, GROUPSNAPRIG_GROUP, UINT64_MAX, why);
}

static int verify(struct file_sim *sim, const char *path, struct buf *why)
{
    struct groupsnap_reader *r;
    int rc = groupsnap_open(&r, file_sim_ops(sim), path, why);
    if (rc == 0) rc = groupsnap_verify(r, why);
    groupsnap_close(r);
    return rc;
}

/* ---- there and back */

static void expect_same(struct groupsnap_reader *r, struct store *s)
{
    struct groupsnap_header want = groupsnaprig_header(100, SLICE("all of it"));
    const struct groupsnap_header *h = groupsnap_header(r);
    struct buf why = {0};
    uint64_t entries;
    struct store *again = store_new(99, &storerandom_limits, 1);
    again->now_ms = s->now_ms;
    assert_int_equal(groupsnaprig_load(r, again, &entries, &why), 0);
    assert_int_equal(entries, storerandom_keys(s));
    assert_int_equal(entries, groupsnap_totals(r).entries);
    assert_true(store_digest(again) == store_digest(s));
    assert_true(slice_eq(h->owned, want.owned));
    assert_memory_equal(h->cluster, want.cluster, sizeof want.cluster);
    assert_memory_equal(&h->members, &want.members, sizeof want.members);
    assert_true(h->group == want.group && h->index == want.index && h->term == want.term && h->cut_ms == want.cut_ms);
    store_free(again);
    buf_fini(&why);
}

static void a_random_store_survives_its_snapshot(void **state)
{
    for (unsigned seed = 1; seed <= 18; seed++) {
        struct file_sim *sim = file_sim_new(DIR, seed);
        struct storerandom m = groupsnaprig_store(seed, seed == 1 ? 0 : seed % 6 ? seed * 10 : 3000);
        struct groupsnap_totals t;
        struct groupsnap_reader *r;
        struct buf why = {0};
        file_sim_set_faults(sim, (struct file_sim_faults){.short_writes = true});
        assert_int_equal(groupsnaprig_write(file_sim_ops(sim), m.store, 100, (enum compress_profile)(seed % COMPRESS_PROFILES), seed % 3 ? 1 << 20 : 1000, &t), 0);
        file_sim_crash(sim, true);
        assert_int_equal(find(sim, &r, &why), 1);
        assert_int_equal(why.len, 0);
        assert_int_equal(t.file_bytes, bytes_of(sim, 100)->len);
        struct groupsnap_totals read = groupsnap_totals(r);
        assert_memory_equal(&read, &t, sizeof t);
        expect_same(r, m.store);
        groupsnap_rewind(r);
        expect_same(r, m.store);
        groupsnap_close(r);
        store_free(m.store);
        buf_fini(&why);
        file_sim_free(sim);
    }
}

static void an_entry_longer_than_a_block_survives(void **state)
{
    struct file_sim *sim = file_sim_new(DIR, 1);
    struct storerandom m = groupsnaprig_store(5, 0);
    struct groupsnap_totals t;
    struct groupsnap_reader *r;
    struct buf value = {0}, why = {0};
    for (size_t i = 0; i < 1u << 20; i++) buf_add_byte(&value, (char)rng_u64(&m.rng));
    for (int d = -20; d <= 4; d++) {
        char key[16];
        snprintf(key, sizeof key, "long%d", d);
        storerandom_add(&m, (unsigned)(d + 20));
        store_apply(m.store, &(struct op){.kind = OP_SET, .key = slice_str(key), .value = slice_of(value.p, (size_t)(DUMPFILE_BLOCK_BYTES + d))}, NULL);
    }
    store_apply(m.store, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = SLICE("longest"), .value = buf_slice(&value)}, NULL);
    assert_int_equal(groupsnaprig_write(file_sim_ops(sim), m.store, 100, COMPRESS_BALANCED, 1 << 20, &t), 0);
    assert_int_equal(find(sim, &r, &why), 1);
    expect_same(r, m.store);
    groupsnap_close(r);
    store_free(m.store);
    buf_fini(&value);
    buf_fini(&why);
    file_sim_free(sim);
}

/* ---- damage */

static void expect_found(struct file_sim *sim, const char *path, size_t at)
{
    struct buf why = {0};
    int rc = verify(sim, path, &why);
    buf_add_byte(&why, '\0');
    if (rc != -EINVAL) fail_msg("damage of byte %zu: %d, %s", at, rc, why.p);
    assert_non_null(strstr(why.p, path));
    assert_non_null(strstr(why.p, ": at byte "));
    buf_fini(&why);
}

static void every_damaged_byte_is_found_and_named(void **state)
{
    struct file_sim *sim = file_sim_new(DIR, 1);
    struct groupsnap_totals t;
    char path[GROUPDIR_PATH_MAX];
    struct rng rng;
    rng_init(&rng, 3);
    groupsnaprig_make(file_sim_ops(sim), 2, 25, 100, &t);
    groupsnaprig_path(path, 100, GROUPDIR_SNAPSHOT);
    struct buf *b = file_sim_bytes(sim, path);
    for (size_t at = 0; at < b->len; at++) {
        char was = b->p[at];
        b->p[at] ^= (char)(1u << rng_below(&rng, 8));
        expect_found(sim, path, at);
        b->p[at] = was;
    }
    size_t whole = b->len;
    for (size_t n = 0; n < whole; n += n < 200 || n > whole - 100 ? 1 : 17) {
        b->len = n;
        expect_found(sim, path, n);
    }
    b->len = whole;
    struct buf why = {0};
    assert_int_equal(verify(sim, path, &why), 0);
    buf_fini(&why);
    file_sim_free(sim);
}

static void blocks_that_change_places_are_found(void **state)
{
    struct file_sim *sim = file_sim_new(DIR, 1);
    struct groupsnap_totals t;
    char path[GROUPDIR_PATH_MAX];
    groupsnaprig_make(file_sim_ops(sim), 2, 25, 100, &t);
    assert_true(t.blocks >= 2);
    groupsnaprig_path(path, 100, GROUPDIR_SNAPSHOT);
    struct buf *b = file_sim_bytes(sim, path), swapped = {0};
    char *first = b->p + le_u32(b->p + 12);
    size_t n = DUMPFILE_HEAD_BYTES + le_u32(first + 4), m = DUMPFILE_HEAD_BYTES + le_u32(first + n + 4);
    buf_add(&swapped, first + n, m);
    buf_add(&swapped, first, n);
    memcpy(first, swapped.p, n + m);
    expect_found(sim, path, (size_t)(first - b->p));
    buf_fini(&swapped);
    file_sim_free(sim);
}

static void a_later_version_is_not_taken_for_damage(void **state)
{
    struct file_sim *sim = file_sim_new(DIR, 1);
    struct groupsnap_totals t;
    char path[GROUPDIR_PATH_MAX];
    struct buf why = {0};
    groupsnaprig_make(file_sim_ops(sim), 2, 5, 100, &t);
    groupsnaprig_path(path, 100, GROUPDIR_SNAPSHOT);
    struct buf *b = file_sim_bytes(sim, path);
    uint32_t n = le_u32(b->p + 12);
    le_set_u32(b->p + 8, GROUPSNAP_VERSION + 1);
    le_set_u32(b->p + n - 4, crc32c(CRC32C_START, b->p, n - 4));
    assert_int_equal(verify(sim, path, &why), -EPROTONOSUPPORT);
    assert_true(why.len > 0);
    buf_fini(&why);
    file_sim_free(sim);
}

/* ---- the golden file */

static bool is_writing_golden(void)
{
    const char *mode = getenv("SHERD_GOLDEN");
    return mode && strcmp(mode, "write") == 0;
}

static void the_golden_file_is_read_as_the_store_that_it_was(void **state)
{
    struct file_sim *sim = file_sim_new(DIR, 1);
    const struct file_ops *f = file_sim_ops(sim);
    struct storerandom m = groupsnaprig_store(11, 40);
    struct groupsnap_totals t;
    struct groupsnap_reader *r;
    struct buf golden = {0}, why = {0};
    char path[GROUPDIR_PATH_MAX];
    groupsnaprig_path(path, 100, GROUPDIR_SNAPSHOT);
    if (is_writing_golden()) {
        assert_int_equal(groupsnaprig_write(f, m.store, 100, COMPRESS_BALANCED, 4000, &t), 0);
        assert_int_equal(wholefile_replace(GOLDEN, buf_slice(file_sim_bytes(sim, path)), 0644), 0);
    }
    assert_int_equal(wholefile_read(GOLDEN, 1 << 20, &golden), 0);
    assert_int_equal(file_put_whole(f, DIR, path, buf_slice(&golden)), 0);
    assert_int_equal(find(sim, &r, &why), 1);
    expect_same(r, m.store);
    groupsnap_close(r);
    store_free(m.store);
    buf_fini(&golden);
    buf_fini(&why);
    file_sim_free(sim);
}

/* ---- which one */

static uint64_t found_index(struct file_sim *sim, struct buf *why)
{
    struct groupsnap_reader *r;
    why->len = 0;
    int rc = find(sim, &r, why);
    uint64_t index = rc == 1 ? groupsnap_header(r)->index : 0;
    assert_true(rc == 0 || rc == 1);
    groupsnap_close(r);
    return index;
}

static void the_newest_valid_one_of_the_group_is_found(void **state)
{
    struct file_sim *sim = file_sim_new(DIR, 1);
    const struct file_ops *f = file_sim_ops(sim);
    struct groupsnap_totals t;
    struct buf why = {0};
    char from[GROUPDIR_PATH_MAX], to[GROUPDIR_PATH_MAX];
    assert_int_equal(found_index(sim, &why), 0);
    groupsnaprig_make(f, 1, 10, 9, &t);
    groupsnaprig_make(f, 2, 10, 100, &t);
    groupsnaprig_make(f, 3, 10, 20, &t);
    assert_int_equal(found_index(sim, &why), 100);
    assert_int_equal(why.len, 0);
    struct groupsnap_reader *r;
    assert_int_equal(groupsnap_find(&r, f, DIR, groupsnaprig_cluster, GROUPSNAPRIG_GROUP, 99, &why), 1);
    assert_int_equal(groupsnap_header(r)->index, 20);
    groupsnap_close(r);
    assert_int_equal(groupsnap_find(&r, f, DIR, groupsnaprig_cluster, GROUPSNAPRIG_GROUP, 8, &why), 0);
    bytes_of(sim, 100)->p[200] ^= 1;
    assert_int_equal(found_index(sim, &why), 20);
    assert_true(why.len > 0 && why.p[why.len - 1] == '\n');
    groupsnaprig_path(from, 9, GROUPDIR_SNAPSHOT);
    groupsnaprig_path(to, 30, GROUPDIR_SNAPSHOT);
    assert_int_equal(f->rename(f->ctx, from, to), 0); /* a name that its content denies */
    assert_int_equal(found_index(sim, &why), 20);
    assert_int_equal(groupsnap_find(&r, f, DIR, (const uint8_t *)"another cluster", GROUPSNAPRIG_GROUP, UINT64_MAX, &why), 0);
    assert_int_equal(groupsnap_find(&r, f, DIR, groupsnaprig_cluster, GROUPSNAPRIG_GROUP + 1, UINT64_MAX, &why), 0);
    assert_null(r);
    buf_fini(&why);
    file_sim_free(sim);
}

/* ---- the folder */

static void touch(const struct file_ops *f, const struct groupdir_file *file)
{
    char path[GROUPDIR_PATH_MAX];
    assert_int_equal(groupdir_path(path, DIR, file), 0);
    int fd = f->open(f->ctx, path, FILE_CREATE);
    assert_true(fd >= 0);
    f->close(f->ctx, fd);
}

static uint32_t count(const struct file_ops *f)
{
    struct groupdir_list l;
    assert_int_equal(groupdir_list(f, DIR, &l), 0);
    mem_free(l.v);
    return l.n;
}

static void names_have_one_spelling(void **state)
{
    static const char *const bad[] = {"", "g", "g1-2-3", "g1-2-3.sna", "g01-2-3.snap", "g1-+2-3.snap", "g1- 2-3.snap", "g1-2-3.snap.new2", "x1-2-3.snap", "g4294967296-2-3.snap",
                                      "g1-18446744073709551616-3.snap", "g1-2-3-ff-5.part", "g1-2-3-00000000000000FF-5.part", "g1-2-3-00000000000000ff-05.part", "g-1-2-3.snap"};
    const struct groupdir_file good[] = {{GROUPDIR_SNAPSHOT, 0, 0, 0, 0, 0},
                                         {GROUPDIR_UNFINISHED, UINT32_MAX, UINT64_MAX, UINT64_MAX, 0, 0},
                                         {GROUPDIR_PART, 2, UINT64_MAX, 1, UINT64_MAX, UINT64_MAX},
                                         {GROUPDIR_PART, 2, 3, 1, 0, 0}};
    struct groupdir_file f;
    char path[GROUPDIR_PATH_MAX], dir[GROUPDIR_PATH_MAX];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (groupdir_parse(bad[i], &f)) fail_msg("%s", bad[i]);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(groupdir_path(path, DIR, &good[i]), 0);
        assert_true(groupdir_parse(path + strlen(DIR) + 1, &f));
        assert_memory_equal(&f, &good[i], sizeof f);
    }
    memset(dir, 'd', sizeof dir);
    dir[sizeof dir - 1] = '\0';
    assert_int_equal(groupdir_path(path, dir, &good[0]), -ENAMETOOLONG);
}

static void only_what_is_old_or_unfinished_goes(void **state)
{
    struct file_sim *sim = file_sim_new(DIR, 1);
    const struct file_ops *f = file_sim_ops(sim);
    const struct groupdir_file all[] = {{GROUPDIR_SNAPSHOT, 2, 5, 1, 0, 0},  {GROUPDIR_SNAPSHOT, 2, 9, 1, 0, 0}, {GROUPDIR_UNFINISHED, 2, 12, 1, 0, 0}, {GROUPDIR_PART, 2, 9, 1, 3, 4},
                                        {GROUPDIR_PART, 2, 10, 1, 3, 4},     {GROUPDIR_PART, 2, 10, 1, 5, 4},    {GROUPDIR_SNAPSHOT, 3, 1, 1, 0, 0},     {GROUPDIR_PART, 4, 1, 1, 3, 4},
                                        {GROUPDIR_SNAPSHOT, 5, 9, 1, 0, 0},  {GROUPDIR_PART, 6, 1, 1, 3, 4}};
    const uint32_t here[] = {2, 3, 4};
    int fd = f->open(f->ctx, DIR "/other.file", FILE_CREATE);
    f->close(f->ctx, fd);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) touch(f, &all[i]);
    assert_int_equal(count(f), 10);
    assert_int_equal(groupdir_sweep(f, DIR, here, 3), 0); /* the unfinished one, the part at 9, and what is of groups 5 and 6 */
    assert_int_equal(count(f), 6);
    assert_int_equal(groupdir_drop_before(f, DIR, 2, 9), 0);
    assert_int_equal(count(f), 5);
    assert_int_equal(groupdir_drop_parts(f, DIR, 2, &all[5]), 0);
    assert_int_equal(count(f), 4);
    assert_int_equal(groupdir_drop_parts(f, DIR, 2, NULL), 0);
    assert_int_equal(count(f), 3);
    assert_int_equal(groupdir_drop_group(f, DIR, 2), 0);
    assert_int_equal(count(f), 2);
    assert_true(is_there(f, DIR "/other.file"));
    struct groupdir_list l;
    assert_int_equal(groupdir_list(f, "/nowhere", &l), 0);
    assert_int_equal(l.n, 0);
    file_sim_free(sim);
}

/* ---- faults */

static void a_failed_call_leaves_the_older_one_and_nothing_unfinished(void **state)
{
    struct storerandom m = groupsnaprig_store(4, 30);
    unsigned failed = 0;
    for (uint64_t k = 1;; k++) {
        struct file_sim *sim = file_sim_new(DIR, k);
        struct groupsnap_totals t;
        struct buf why = {0};
        assert_int_equal(groupsnaprig_write(file_sim_ops(sim), m.store, 1, COMPRESS_BALANCED, 1000, &t), 0);
        file_sim_set_faults(sim, (struct file_sim_faults){.fail_at = file_sim_calls(sim) + k, .fail_errno = k % 2 ? EIO : ENOSPC});
        int rc = groupsnaprig_write(file_sim_ops(sim), m.store, 2, COMPRESS_BALANCED, 1000, &t);
        file_sim_set_faults(sim, (struct file_sim_faults){0});
        uint64_t index = found_index(sim, &why);
        assert_int_equal(why.len, 0);
        assert_true(index == 1 || index == 2);
        assert_true(rc || index == 2);
        assert_false(is_named(sim, 2, GROUPDIR_UNFINISHED));
        buf_fini(&why);
        file_sim_free(sim);
        if (rc == 0) break;
        failed++;
    }
    assert_true(failed >= 5); /* create, write, sync, rename, sync of the folder */
    store_free(m.store);
}

static void a_full_disk_is_told_and_leaves_nothing_unfinished(void **state)
{
    struct storerandom m = groupsnaprig_store(4, 200);
    unsigned failed = 0;
    for (uint64_t space = 1;; space += 1500) {
        struct file_sim *sim = file_sim_new(DIR, space);
        struct groupsnap_totals t;
        file_sim_set_faults(sim, (struct file_sim_faults){.space_bytes = space, .short_writes = true});
        int rc = groupsnaprig_write(file_sim_ops(sim), m.store, 2, COMPRESS_NONE, 1000, &t);
        assert_true(rc == 0 || rc == -ENOSPC);
        assert_false(is_named(sim, 2, GROUPDIR_UNFINISHED));
        assert_true(is_named(sim, 2, GROUPDIR_SNAPSHOT) == (rc == 0));
        file_sim_free(sim);
        if (rc == 0) break;
        failed++;
    }
    assert_true(failed > 3);
    store_free(m.store);
}

static void power_lost_at_any_call_leaves_whole_ones_only(void **state)
{
    struct storerandom m = groupsnaprig_store(4, 30);
    unsigned with_one = 0, with_two = 0;
    for (uint64_t k = 1; k <= 8; k++)
        for (uint64_t seed = 1; seed <= 30; seed++) {
            struct file_sim *sim = file_sim_new(DIR, seed * 100 + k);
            struct groupsnap_totals t;
            struct buf why = {0};
            assert_int_equal(groupsnaprig_write(file_sim_ops(sim), m.store, 1, COMPRESS_BALANCED, 1000, &t), 0);
            file_sim_set_faults(sim, (struct file_sim_faults){.power_off_at = file_sim_calls(sim) + k});
            int rc = groupsnaprig_write(file_sim_ops(sim), m.store, 2, COMPRESS_BALANCED, 1000, &t);
            file_sim_crash(sim, true);
            uint64_t index = found_index(sim, &why);
            assert_int_equal(why.len, 0);
            assert_true(index == 2 || (index == 1 && rc != 0));
            assert_int_equal(groupdir_sweep(file_sim_ops(sim), DIR, &(uint32_t){GROUPSNAPRIG_GROUP}, 1), 0);
            assert_int_equal(count(file_sim_ops(sim)), index);
            with_one += index == 1;
            with_two += index == 2;
            buf_fini(&why);
            file_sim_free(sim);
        }
    assert_true(with_one && with_two);
    store_free(m.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_random_store_survives_its_snapshot),
        cmocka_unit_test(an_entry_longer_than_a_block_survives),
        cmocka_unit_test(every_damaged_byte_is_found_and_named),
        cmocka_unit_test(blocks_that_change_places_are_found),
        cmocka_unit_test(a_later_version_is_not_taken_for_damage),
        cmocka_unit_test(the_golden_file_is_read_as_the_store_that_it_was),
        cmocka_unit_test(the_newest_valid_one_of_the_group_is_found),
        cmocka_unit_test(names_have_one_spelling),
        cmocka_unit_test(only_what_is_old_or_unfinished_goes),
        cmocka_unit_test(a_failed_call_leaves_the_older_one_and_nothing_unfinished),
        cmocka_unit_test(a_full_disk_is_told_and_leaves_nothing_unfinished),
        cmocka_unit_test(power_lost_at_any_call_leaves_whole_ones_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
