/* A commit on the real disk: by io_uring, and by plain calls. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "io/file.h"
#include "io/file_uring.h"

enum { FILES = 150 };

/* Syncs by plain calls of one descriptor are counted, and not made; those of others are. */
static int counted_fd = -1;
static unsigned syncs;

int fdatasync(int fd)
{
    if (fd != counted_fd) return (int)syscall(SYS_fdatasync, fd);
    syncs++;
    return 0;
}

struct bench {
    struct file_uring *uring; /* NULL: plain calls */
    const struct file_ops *ops;
    char dir[32];
    int fds[FILES];
    struct buf want[FILES]; /* what each file holds */
};

static void path_of(const struct bench *b, int i, char path[64]) { snprintf(path, 64, "%s/%d", b->dir, i); }

/* False: the kernel has no io_uring. */
static bool bench_init(struct bench *b, bool uring)
{
    *b = (struct bench){.ops = &file_disk, .dir = "/tmp/sherd-file-XXXXXX"};
    if (uring && !(b->uring = file_uring_open())) return false;
    if (uring) b->ops = file_uring_ops(b->uring);
    assert_non_null(mkdtemp(b->dir));
    for (int i = 0; i < FILES; i++) {
        char path[64];
        path_of(b, i, path);
        b->fds[i] = b->ops->open(b->ops->ctx, path, FILE_CREATE);
        assert_true(b->fds[i] >= 0);
    }
    return true;
}

static void bench_fini(struct bench *b)
{
    for (int i = 0; i < FILES; i++) {
        char path[64];
        path_of(b, i, path);
        b->ops->close(b->ops->ctx, b->fds[i]);
        b->ops->unlink(b->ops->ctx, path);
        buf_fini(&b->want[i]);
    }
    rmdir(b->dir);
    if (b->uring) file_uring_close(b->uring);
}

static void assert_files_are_as_wanted(const struct bench *b)
{
    for (int i = 0; i < FILES; i++) {
        char path[64];
        struct buf got = {0};
        path_of(b, i, path);
        assert_int_equal(file_read_whole(b->ops, path, &got), 0);
        assert_true(slice_eq(buf_slice(&got), buf_slice(&b->want[i])));
        buf_fini(&got);
    }
}

/* Appends random bytes, or none, to the first n files. */
static void commit_random(struct bench *b, uint32_t n, struct rng *rng)
{
    struct file_piece pieces[FILES];
    for (uint32_t i = 0; i < n; i++) {
        size_t at = b->want[i].len, more = rng_below(rng, 4) ? rng_below(rng, 3000) : 0;
        for (size_t k = 0; k < more; k++) buf_add_byte(&b->want[i], (char)rng_below(rng, 256));
        pieces[i] = (struct file_piece){.fd = b->fds[i], .bytes = more ? slice_of(b->want[i].p + at, more) : slice_of(NULL, 0), .at = at, .write_rc = 1, .sync_rc = 1};
    }
    file_commit(b->ops, pieces, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(pieces[i].write_rc, 0);
        assert_int_equal(pieces[i].sync_rc, 0);
    }
}

static void check_commit(bool uring)
{
    static const uint32_t counts[] = {0, 1, 2, 3, 63, 64, 65, FILES};
    struct rng rng;
    struct bench b;
    rng_init(&rng, 7);
    if (!bench_init(&b, uring)) skip();
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) commit_random(&b, counts[i], &rng);
    assert_files_are_as_wanted(&b);
    bench_fini(&b);
}

static void a_commit_by_plain_calls_writes_every_piece(void **state) { check_commit(false); }
static void a_commit_by_io_uring_writes_every_piece(void **state) { check_commit(true); }

/* One file is only open for reading: it cannot be written. */
static void check_failed_write(bool uring)
{
    struct bench b;
    char path[64];
    if (!bench_init(&b, uring)) skip();
    path_of(&b, 1, path);
    int fd = b.ops->open(b.ops->ctx, path, FILE_READ);
    struct file_piece pieces[3] = {{.fd = b.fds[0], .bytes = SLICE("zero")}, {.fd = fd, .bytes = SLICE("one")}, {.fd = b.fds[2], .bytes = SLICE("two")}};
    file_commit(b.ops, pieces, 3);
    assert_int_equal(pieces[0].write_rc, 0);
    assert_int_equal(pieces[1].write_rc, -EBADF);
    assert_int_equal(pieces[1].sync_rc, -ECANCELED);
    assert_int_equal(pieces[2].write_rc, 0);
    if (uring) assert_int_equal(pieces[0].sync_rc | pieces[2].sync_rc, 0);
    b.ops->close(b.ops->ctx, fd);
    bench_fini(&b);
}

static void a_failed_write_is_told_by_plain_calls(void **state) { check_failed_write(false); }
static void a_failed_write_is_told_by_io_uring_and_leaves_other_files_alone(void **state) { check_failed_write(true); }

/* A file may not grow beyond a limit: the write that crosses it is short, the rest of it fails. */
static void a_short_write_is_finished_or_told(void **state)
{
    struct bench b;
    struct rlimit old, low = {.rlim_cur = 100, .rlim_max = RLIM_INFINITY};
    char bytes[150] = {0};
    if (!bench_init(&b, true)) skip();
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    struct file_piece pieces[2] = {{.fd = b.fds[0], .bytes = slice_of(bytes, 150)}, {.fd = b.fds[1], .bytes = slice_of(bytes, 80)}};
    file_commit(b.ops, pieces, 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(pieces[0].write_rc, -EFBIG);
    assert_int_equal(pieces[0].sync_rc, -ECANCELED);
    assert_int_equal(pieces[1].write_rc | pieces[1].sync_rc, 0);
    assert_int_equal(b.ops->size(b.ops->ctx, b.fds[0]), 100);
    bench_fini(&b);
}

/* More bytes than the kernel takes at once: only a sync behind the last of them makes them durable. The device swallows them, and cannot be synced by the kernel: a sync that it is asked for fails. */
static void a_piece_of_several_writes_is_synced_behind_the_last(void **state)
{
    enum { BYTES = (1 << 30) + 4096 };
    struct bench b;
    if (!bench_init(&b, true)) skip();
    char *zeros = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(zeros, MAP_FAILED);
    counted_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct file_piece pieces[2] = {{.fd = counted_fd, .bytes = slice_of(zeros, BYTES)}, {.fd = b.fds[1], .bytes = SLICE("small")}};
    file_commit(b.ops, pieces, 2);
    assert_int_equal(pieces[0].write_rc | pieces[0].sync_rc, 0);
    assert_int_equal(pieces[1].write_rc | pieces[1].sync_rc, 0);
    assert_int_equal(syncs, 1);
    close(counted_fd);
    counted_fd = -1;
    munmap(zeros, BYTES);
    bench_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_by_plain_calls_writes_every_piece),
        cmocka_unit_test(a_commit_by_io_uring_writes_every_piece),
        cmocka_unit_test(a_failed_write_is_told_by_plain_calls),
        cmocka_unit_test(a_failed_write_is_told_by_io_uring_and_leaves_other_files_alone),
        cmocka_unit_test(a_short_write_is_finished_or_told),
        cmocka_unit_test(a_piece_of_several_writes_is_synced_behind_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
