#include "io/fileview.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { POPULATE_MAX = 1 << 30 };

/* Kernels before 5.14 do not know the request: then pages come as they are touched. */
static int populate(void *map, size_t n)
{
    if (n > POPULATE_MAX || madvise(map, n, MADV_POPULATE_READ) == 0 || errno == EINVAL) return 0;
    return errno == EFAULT || errno == EHWPOISON ? -EIO : -errno;
}

static int map_fd(struct fileview *v, int fd)
{
    int64_t size = file_disk.size(file_disk.ctx, fd);
    if (size <= 0) return (int)size;
    void *map = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) return -errno;
    madvise(map, (size_t)size, MADV_SEQUENTIAL);
    v->map = map;
    v->bytes = slice_of(map, (size_t)size);
    return populate(map, (size_t)size);
}

int fileview_open(struct fileview *v, const struct file_ops *files, const char *path)
{
    *v = (struct fileview){0};
    int rc;
    if (files == &file_disk) {
        int fd = files->open(files->ctx, path, FILE_READ);
        if (fd < 0) return fd;
        rc = map_fd(v, fd);
        files->close(files->ctx, fd);
    } else {
        rc = file_read_whole(files, path, &v->copy);
        v->bytes = buf_slice(&v->copy);
    }
    if (rc) fileview_close(v);
    return rc;
}

void fileview_close(struct fileview *v)
{
    if (v->map) munmap(v->map, v->bytes.n);
    buf_fini(&v->copy);
    *v = (struct fileview){0};
}
