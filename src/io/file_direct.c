#include "io/file_direct.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int direct_open(void *ctx, const char *path, enum file_mode mode)
{
    struct file_direct *d = ctx;
    if (mode != FILE_CHANGE) return file_disk.open(file_disk.ctx, path, mode);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_DIRECT | O_DSYNC);
    if (fd < 0 && errno == EINVAL) {
        atomic_store(&d->refused, true);
        fd = open(path, O_RDWR | O_CLOEXEC | O_DSYNC);
    }
    return fd < 0 ? -errno : fd;
}

/* Some file systems take the flag and refuse the write. Nothing was written then, so it can be done the other way. */
static int write_piece(struct file_direct *d, const struct file_piece *p)
{
    int rc = file_write_all(&file_disk, p->fd, p->bytes, p->at), flags = rc == -EINVAL ? fcntl(p->fd, F_GETFL) : 0;
    if (rc != -EINVAL || flags < 0 || !(flags & O_DIRECT)) return rc;
    atomic_store(&d->refused, true);
    if (fcntl(p->fd, F_SETFL, flags & ~O_DIRECT)) return -errno;
    return file_write_all(&file_disk, p->fd, p->bytes, p->at);
}

/* O_DSYNC, which every descriptor for changing has, makes the write durable and reports what a sync would. */
static void direct_commit(void *ctx, struct file_piece *pieces, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        pieces[i].write_rc = write_piece(ctx, &pieces[i]);
        pieces[i].sync_rc = pieces[i].write_rc ? -ECANCELED : pieces[i].bytes.n ? 0 : file_disk.sync(file_disk.ctx, &pieces[i].fd, 1);
    }
}

void file_direct_init(struct file_direct *d)
{
    d->ops = file_disk;
    d->ops.ctx = d;
    d->ops.open = direct_open;
    d->ops.commit = direct_commit;
    d->ops.dsync = true;
    atomic_init(&d->refused, false);
}
