#include "io/wholefile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_fd(int fd, size_t max, struct buf *out)
{
    size_t start = out->len;
    for (;;) {
        ssize_t n = read(fd, buf_room(out, 4096), 4096);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        if (n == 0) return 0;
        out->len += (size_t)n;
        if (out->len - start > max) return -EFBIG;
    }
}

int wholefile_read(const char *path, size_t max, struct buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int rc = read_fd(fd, max, out);
    close(fd);
    return rc;
}

static int write_fd(int fd, struct slice bytes)
{
    while (bytes.n) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        bytes = slice_of(bytes.p + n, bytes.n - (size_t)n);
    }
    return fsync(fd) ? -errno : 0;
}

static int sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    else
        snprintf(folder, sizeof folder, ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int rc = fsync(fd) ? -errno : 0;
    close(fd);
    return rc;
}

int wholefile_replace(const char *path, struct slice bytes, unsigned mode)
{
    char temp[PATH_MAX];
    if (snprintf(temp, sizeof temp, "%s.new", path) >= (int)sizeof temp) return -ENAMETOOLONG;
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0) return -errno;
    struct stat old;
    int rc = stat(path, &old) == 0 && fchmod(fd, old.st_mode & 07777) != 0 ? -errno : 0;
    if (rc == 0) rc = write_fd(fd, bytes);
    close(fd);
    if (rc == 0 && rename(temp, path) != 0) rc = -errno;
    if (rc != 0) {
        unlink(temp);
        return rc;
    }
    return sync_folder_of(path);
}
