#include "snapshot/tempfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *tempfile_dir(const char *dir)
{
    if (dir && *dir) return dir;
    const char *env = getenv("TMPDIR");
    return env && *env ? env : "/tmp";
}

/* For file systems that know no file without a name: it has one for a moment. */
static int open_named(const char *dir)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/sherd-XXXXXX", dir) >= (int)sizeof path) return -ENAMETOOLONG;
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) return -errno;
    unlink(path);
    return fd;
}

int tempfile_open(const char *dir)
{
    dir = tempfile_dir(dir);
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
    return errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL ? open_named(dir) : -errno;
}
