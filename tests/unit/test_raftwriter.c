/* What is under the shared Raft log, on the real disk: what it says is durable is there for the next process, whichever way it was written. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cluster/raftlog.h"
#include "cluster/raftwriter.h"
#include "io/file_direct.h"

enum { SEGMENT = 256 << 10, GROUPS = 5 };

struct node {
    char dir[64];
    struct raftlog *log;
    struct raftwriter *writer;
    int event;
    struct buf error;
    struct file_ops failing; /* file_disk, but for what a test has in its place */
    int commits_left;        /* that go well */
    int64_t late_us; /* of a commit */
    bool rings; /* batches go by the ring, if `writes` allow it */
};

static void wake(void *ctx)
{
    const struct node *n = ctx;
    uint64_t one = 1;
    assert_int_equal(write(n->event, &one, sizeof one), sizeof one);
}

static void node_open(struct node *n, const struct file_ops *writes)
{
    struct raftlog_options options = {.segment_bytes = SEGMENT, .cache_bytes = 1, .random = 77};
    n->log = raftlog_open(&file_disk, n->dir, &options, &n->error);
    assert_non_null(n->log);
    n->writer = raftwriter_new(n->log, &(struct raftwriter_options){.files = &file_disk, .writes = writes, .wake = wake, .ctx = n, .wake_fd = n->rings ? n->event : 0}, &n->error);
    assert_non_null(n->writer);
    if (n->rings && !raftwriter_rings(n->writer)) skip(); /* this kernel has no io_uring */
}

/* Commits are what the test says. */
static void node_open_with(struct node *n, void (*commit)(void *ctx, struct file_piece *pieces, uint32_t count))
{
    n->failing = file_disk;
    n->failing.ctx = n;
    n->failing.commit = commit;
    node_open(n, &n->failing);
}

static void node_close(struct node *n)
{
    raftwriter_free(n->writer);
    raftlog_close(n->log);
}

static void node_init(struct node *n)
{
    *n = (struct node){.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    snprintf(n->dir, sizeof n->dir, "/tmp/raftwriter-test-%d", (int)getpid());
    assert_true(n->event >= 0);
}

static void delete_file(void *arg, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", (const char *)arg, name);
    unlink(path);
}

static void node_fini(struct node *n)
{
    file_disk.list(NULL, n->dir, delete_file, n->dir);
    rmdir(n->dir);
    close(n->event);
    buf_fini(&n->error);
}

static void await_wake(struct node *n)
{
    uint64_t count;
    struct pollfd p = {.fd = n->event, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 30000), 1);
    assert_int_equal(read(n->event, &count, sizeof count), sizeof count);
}

static int await_durable(struct node *n, uint64_t batch)
{
    int rc = raftwriter_step(n->writer);
    while (rc == 0 && raftlog_durable(n->log) < batch) {
        await_wake(n);
        rc = raftwriter_step(n->writer);
    }
    return rc;
}

static struct slice value_of(char *p, uint64_t index, uint32_t group)
{
    size_t len = 100 + index * 37 % 9000;
    memset(p, (int)(index + group), len);
    return slice_of(p, len);
}

/* Reads an older entry of each group, most often from disk, while batches are written to the same file. */
static void read_one(struct node *n, uint64_t random, char *value)
{
    for (uint32_t g = 0; g < GROUPS; g++) {
        struct raftlog_state s;
        struct raftlog_entry e;
        assert_true(raftlog_state(n->log, g, &s));
        uint64_t index = s.first + random % (s.last - s.first + 1);
        assert_int_equal(raftlog_read(n->log, g, index, &e), 0);
        assert_true(slice_eq(e.data, value_of(value, index, g)));
    }
}

/* Puts go on while writes are under way; now and then the owner waits for all of them. */
static void work(struct node *n, uint64_t from, uint64_t to)
{
    char *value = mem_alloc(16384);
    uint64_t batch = 0; /* that has what was put last */
    for (uint64_t index = from; index <= to; index++) {
        for (uint32_t g = 0; g < GROUPS; g++) raftlog_put_entry(n->log, g, index, 1 + index / 100, 1, value_of(value, index, g));
        if (index % 10 == 0 && index > 20)
            for (uint32_t g = 0; g < GROUPS; g++) raftlog_put_mark(n->log, g, &(struct raftlog_mark){index - 10, 1 + (index - 10) / 100, index - 19, 0, SLICE("")});
        batch = raftlog_open_batch(n->log);
        assert_int_equal(index % 7 ? raftwriter_step(n->writer) : await_durable(n, batch), 0);
        read_one(n, index * 7919, value);
    }
    assert_int_equal(await_durable(n, batch), 0);
    assert_false(raftwriter_busy(n->writer));
    mem_free(value);
}

static void assert_there(struct node *n, uint64_t last)
{
    char *value = mem_alloc(16384);
    for (uint32_t g = 0; g < GROUPS; g++) {
        struct raftlog_state s;
        assert_true(raftlog_state(n->log, g, &s));
        assert_int_equal(s.last, last);
        for (uint64_t index = s.first; index <= s.last; index++) {
            struct raftlog_entry e;
            assert_int_equal(raftlog_read(n->log, g, index, &e), 0);
            assert_true(slice_eq(e.data, value_of(value, index, g)));
        }
    }
    mem_free(value);
}

static void live_twice(struct node *n, const struct file_ops *writes)
{
    struct raftlog_info info;
    node_open(n, writes);
    work(n, 1, 150);
    raftlog_info(n->log, &info);
    assert_true(info.segments <= 4 && info.written_bytes > 8 * SEGMENT && info.reads_disk > 50);
    node_close(n);
    node_open(n, writes);
    assert_there(n, 150);
    work(n, 151, 300);
    assert_there(n, 300);
    node_close(n);
    node_fini(n);
}

static void what_is_durable_is_there_with_plain_writes(void **state)
{
    struct node n;
    node_init(&n);
    live_twice(&n, &file_disk);
}

static void what_is_durable_is_there_with_direct_writes(void **state)
{
    struct node n;
    struct file_direct direct;
    node_init(&n);
    file_direct_init(&direct);
    live_twice(&n, &direct.ops);
}

static void what_is_durable_is_there_with_direct_writes_by_the_ring(void **state)
{
    struct node n;
    struct file_direct direct;
    node_init(&n);
    n.rings = true;
    file_direct_init(&direct);
    live_twice(&n, &direct.ops);
}

static void fail_later(void *ctx, struct file_piece *pieces, uint32_t count)
{
    struct node *n = ctx;
    struct file_ops disk = file_disk;
    if (n->commits_left-- > 0) file_commit(&disk, pieces, count);
    else pieces[0].sync_rc = -EIO;
}

static void a_write_that_fails_breaks_the_log_and_is_told(void **state)
{
    struct node n;
    node_init(&n);
    n.commits_left = 3;
    node_open_with(&n, fail_later);
    for (uint64_t i = 1; i <= 3; i++) {
        raftlog_put_hard_state(n.log, 1, i, 0);
        assert_int_equal(await_durable(&n, i), 0);
    }
    raftlog_put_hard_state(n.log, 1, 4, 0);
    assert_int_equal(await_durable(&n, 4), -EIO);
    assert_true(raftlog_broken(n.log));
    assert_int_equal(raftlog_durable(n.log), 3);
    assert_int_equal(raftwriter_step(n.writer), -EIO);
    node_close(&n);
    node_fini(&n);
}

static void commit_late(void *ctx, struct file_piece *pieces, uint32_t count)
{
    struct node *n = ctx;
    usleep((useconds_t)n->late_us);
}

static uint64_t put_one(struct node *n)
{
    uint64_t batch = raftlog_open_batch(n->log);
    raftlog_put_hard_state(n->log, 1, batch, 0);
    return batch;
}

/* Until the owner has written by itself once. Where the machine is busy, a disk may seem slow: then others write meanwhile. */
static void write_by_owner(struct node *n)
{
    for (int i = 0; i < 1000; i++) {
        uint64_t batch = put_one(n);
        assert_false(raftwriter_busy(n->writer));
        if (raftwriter_write(n->writer)) {
            assert_int_equal(raftlog_durable(n->log), batch);
            assert_int_equal(raftwriter_look(n->writer), 0);
            return;
        }
        assert_int_equal(await_durable(n, batch), 0);
    }
    fail_msg("the owner never wrote");
}

static void the_owner_writes_while_the_disk_is_quick(void **state)
{
    static char much[300 * 1024];
    struct node n;
    node_init(&n);
    node_open_with(&n, commit_late);
    assert_int_equal(await_durable(&n, put_one(&n)), 0); /* there is a segment */
    assert_false(raftwriter_write(n.writer));            /* nothing to write */
    write_by_owner(&n);
    n.late_us = 5000;
    write_by_owner(&n); /* and now it knows */
    uint64_t batch = put_one(&n);
    assert_false(raftwriter_write(n.writer));
    assert_int_equal(raftlog_durable(n.log), batch - 1);
    assert_int_equal(raftwriter_look(n.writer), 0); /* it is left to others */
    assert_true(raftwriter_busy(n.writer));
    assert_int_equal(await_durable(&n, batch), 0);
    n.late_us = 0;
    write_by_owner(&n); /* when others found that it is quick again */
    batch = raftlog_open_batch(n.log);
    raftlog_put_entry(n.log, 2, 1, 1, 1, slice_of(much, sizeof much));
    assert_false(raftwriter_write(n.writer)); /* too much */
    assert_true(raftwriter_busy(n.writer) || raftlog_durable(n.log) < batch);
    assert_int_equal(await_durable(&n, batch), 0);
    node_close(&n);
    node_fini(&n);
}

static void an_owner_whose_write_fails_hears_of_it(void **state)
{
    struct node n;
    node_init(&n);
    n.commits_left = 1;
    node_open_with(&n, fail_later);
    assert_int_equal(await_durable(&n, put_one(&n)), 0);
    put_one(&n);
    if (!raftwriter_write(n.writer)) assert_int_equal(await_durable(&n, 2), -EIO);
    assert_int_equal(raftwriter_look(n.writer), -EIO);
    assert_true(raftlog_broken(n.log));
    assert_int_equal(raftlog_durable(n.log), 1);
    node_close(&n);
    node_fini(&n);
}

static int open_full(void *ctx, const char *path, enum file_mode mode) { return open("/dev/full", O_RDWR | O_CLOEXEC); }

static void a_write_of_the_ring_that_fails_breaks_the_log_and_is_told(void **state)
{
    struct node n;
    node_init(&n);
    n.rings = true;
    n.failing = file_disk;
    n.failing.dsync = true;
    n.failing.open = open_full;
    node_open(&n, &n.failing);
    raftlog_put_hard_state(n.log, 1, 1, 0);
    assert_int_equal(await_durable(&n, 1), -ENOSPC);
    assert_true(raftlog_broken(n.log));
    assert_int_equal(raftlog_durable(n.log), 0);
    node_close(&n);
    node_fini(&n);
}

/* A descriptor that says of every write that it makes no sense. */
static int open_senseless(void *ctx, const char *path, enum file_mode mode)
{
    sigset_t none;
    sigemptyset(&none);
    return signalfd(-1, &none, SFD_CLOEXEC);
}

static void commit_well(void *ctx, struct file_piece *pieces, uint32_t count)
{
    struct node *n = ctx;
    n->commits_left--;
}

static void what_the_ring_is_refused_goes_by_the_thread(void **state)
{
    struct node n;
    node_init(&n);
    n.rings = true;
    n.failing = file_disk;
    n.failing.ctx = &n;
    n.failing.dsync = true;
    n.failing.open = open_senseless;
    n.failing.commit = commit_well;
    node_open(&n, &n.failing);
    for (uint64_t i = 1; i <= 3; i++) {
        raftlog_put_hard_state(n.log, 1, i, 0);
        assert_int_equal(await_durable(&n, i), 0);
        assert_int_equal(n.commits_left, -(int)i);
        assert_false(raftwriter_rings(n.writer));
    }
    node_close(&n);
    node_fini(&n);
}

static void writes_that_are_not_aligned_are_written_the_other_way(void **state)
{
    char path[] = "/tmp/raftwriter-odd-XXXXXX", back[6] = {0};
    int made = mkstemp(path);
    struct file_direct direct;
    assert_true(made >= 0);
    file_direct_init(&direct);
    int fd = direct.ops.open(direct.ops.ctx, path, FILE_CHANGE);
    assert_true(fd >= 0);
    struct file_piece piece = {.fd = fd, .bytes = SLICE("bytes"), .at = 3};
    file_commit(&direct.ops, &piece, 1);
    assert_true(piece.write_rc == 0 && piece.sync_rc == 0);
    assert_int_equal(direct.ops.read(direct.ops.ctx, fd, back, 5, 3), 5);
    assert_string_equal(back, "bytes");
    direct.ops.close(direct.ops.ctx, fd);
    close(made);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_durable_is_there_with_plain_writes),
        cmocka_unit_test(what_is_durable_is_there_with_direct_writes),
        cmocka_unit_test(what_is_durable_is_there_with_direct_writes_by_the_ring),
        cmocka_unit_test(a_write_that_fails_breaks_the_log_and_is_told),
        cmocka_unit_test(the_owner_writes_while_the_disk_is_quick),
        cmocka_unit_test(an_owner_whose_write_fails_hears_of_it),
        cmocka_unit_test(a_write_of_the_ring_that_fails_breaks_the_log_and_is_told),
        cmocka_unit_test(what_the_ring_is_refused_goes_by_the_thread),
        cmocka_unit_test(writes_that_are_not_aligned_are_written_the_other_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
