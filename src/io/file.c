#include "io/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the disk --- */

static int disk_open(void *ctx, const char *path, enum file_mode mode)
{
    static const int flags[] = {[FILE_READ] = O_RDONLY, [FILE_CHANGE] = O_RDWR, [FILE_CREATE] = O_RDWR | O_CREAT | O_TRUNC};
    int fd = open(path, flags[mode] | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : fd;
}

static void disk_close(void *ctx, int fd) { close(fd); }

static int64_t disk_size(void *ctx, int fd)
{
    struct stat st;
    return fstat(fd, &st) ? -errno : (int64_t)st.st_size;
}

static ssize_t disk_read(void *ctx, int fd, void *p, size_t n, uint64_t at)
{
    ssize_t done;
    do done = pread(fd, p, n, (off_t)at);
    while (done < 0 && errno == EINTR);
    return done < 0 ? -errno : done;
}

static ssize_t disk_write(void *ctx, int fd, const void *p, size_t n, uint64_t at)
{
    ssize_t done;
    do done = pwrite(fd, p, n, (off_t)at);
    while (done < 0 && errno == EINTR);
    return done < 0 ? -errno : done;
}

static int disk_truncate(void *ctx, int fd, uint64_t size) { return ftruncate(fd, (off_t)size) ? -errno : 0; }

static int disk_sync(void *ctx, const int *fds, uint32_t n)
{
    int rc = 0;
    for (uint32_t i = 0; i < n; i++)
        if (fdatasync(fds[i]) && rc == 0) rc = -errno;
    return rc;
}

static int disk_sync_dir(void *ctx, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int rc = fsync(fd) ? -errno : 0;
    close(fd);
    return rc;
}

static int disk_rename(void *ctx, const char *from, const char *to) { return rename(from, to) ? -errno : 0; }
static int disk_unlink(void *ctx, const char *path) { return unlink(path) ? -errno : 0; }
static int disk_mkdir(void *ctx, const char *path) { return mkdir(path, 0755) ? -errno : 0; }

static int disk_list(void *ctx, const char *path, void (*each)(void *arg, const char *name), void *arg)
{
    DIR *dir = opendir(path);
    if (!dir) return -errno;
    errno = 0;
    for (struct dirent *d; (d = readdir(dir)); errno = 0)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) each(arg, d->d_name);
    int rc = -errno;
    closedir(dir);
    return rc;
}

const struct file_ops file_disk = {
    .open = disk_open,
    .close = disk_close,
    .size = disk_size,
    .read = disk_read,
    .write = disk_write,
    .truncate = disk_truncate,
    .sync = disk_sync,
    .sync_dir = disk_sync_dir,
    .rename = disk_rename,
    .unlink = disk_unlink,
    .mkdir = disk_mkdir,
    .list = disk_list,
};

/* --- for any table --- */

int file_write_all(const struct file_ops *ops, int fd, struct slice bytes, uint64_t at)
{
    while (bytes.n) {
        ssize_t n = ops->write(ops->ctx, fd, bytes.p, bytes.n, at);
        if (n < 0) return (int)n;
        if (n == 0) return -EIO;
        bytes = slice_of(bytes.p + n, bytes.n - (size_t)n);
        at += (uint64_t)n;
    }
    return 0;
}

/* One after the other: all writes, and if none failed all syncs. */
static void commit_in_turn(const struct file_ops *ops, struct file_piece *pieces, uint32_t n)
{
    int failed = 0;
    for (uint32_t i = 0; i < n; i++) {
        pieces[i].write_rc = failed ? 0 : file_write_all(ops, pieces[i].fd, pieces[i].bytes, pieces[i].at);
        if (pieces[i].write_rc) failed = pieces[i].write_rc;
    }
    for (uint32_t i = 0; i < n; i++) pieces[i].sync_rc = failed ? -ECANCELED : ops->sync(ops->ctx, &pieces[i].fd, 1);
}

void file_commit(const struct file_ops *ops, struct file_piece *pieces, uint32_t n)
{
    if (ops->commit) ops->commit(ops->ctx, pieces, n);
    else commit_in_turn(ops, pieces, n);
}

static int read_all(const struct file_ops *ops, int fd, struct buf *out)
{
    int64_t size = ops->size(ops->ctx, fd);
    if (size < 0) return (int)size;
    if (size == 0) return 0;
    buf_room(out, (size_t)size);
    for (uint64_t at = 0; at < (uint64_t)size;) {
        ssize_t n = ops->read(ops->ctx, fd, out->p + out->len, (size_t)size - at, at);
        if (n < 0) return (int)n;
        if (n == 0) break;
        out->len += (size_t)n;
        at += (uint64_t)n;
    }
    return 0;
}

int file_read_whole(const struct file_ops *ops, const char *path, struct buf *out)
{
    int fd = ops->open(ops->ctx, path, FILE_READ);
    if (fd < 0) return fd;
    int rc = read_all(ops, fd, out);
    ops->close(ops->ctx, fd);
    return rc;
}

int file_put_whole(const struct file_ops *ops, const char *dir, const char *to, struct slice bytes)
{
    char temp[PATH_MAX];
    if (snprintf(temp, sizeof temp, "%s.new", to) >= (int)sizeof temp) return -ENAMETOOLONG;
    int fd = ops->open(ops->ctx, temp, FILE_CREATE);
    if (fd < 0) return fd;
    int rc = file_write_all(ops, fd, bytes, 0);
    if (rc == 0) rc = ops->sync(ops->ctx, &fd, 1);
    ops->close(ops->ctx, fd);
    if (rc == 0) rc = ops->rename(ops->ctx, temp, to);
    if (rc == 0) rc = ops->sync_dir(ops->ctx, dir);
    else ops->unlink(ops->ctx, temp);
    return rc;
}
