/* The file calls that durable formats need, behind a table of functions, so that tests can put a disk of their own under them (io/file_sim.h).
 *
 * All functions give 0, a count or a descriptor, or -errno. Paths are borrowed. A table may be used by several threads as far as its files are not shared. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/slice.h"

enum file_mode { FILE_READ, FILE_CHANGE, FILE_CREATE /* read and write; made if it is not there, emptied if it is */ };

struct file_piece { /* of a commit: what one file gets */
    int fd;
    struct slice bytes; /* none: the file is only synced */
    uint64_t at;
    int write_rc, sync_rc; /* 0 or -errno; sync_rc is -ECANCELED if nothing was synced because a write had failed */
};

struct file_ops {
    void *ctx;
    int (*open)(void *ctx, const char *path, enum file_mode mode);
    void (*close)(void *ctx, int fd);
    int64_t (*size)(void *ctx, int fd);
    ssize_t (*read)(void *ctx, int fd, void *p, size_t n, uint64_t at);        /* may be short; 0 at the end */
    ssize_t (*write)(void *ctx, int fd, const void *p, size_t n, uint64_t at); /* may be short */
    int (*truncate)(void *ctx, int fd, uint64_t size);
    /* Makes bytes and lengths of all these files durable; a failure of one is a failure of the call, and leaves unknown what is durable. One call for all, so
     * that an implementation may have the disk do them together. */
    int (*sync)(void *ctx, const int *fds, uint32_t n);
    /* Each piece is written whole to its file, which then is synced; no file stands twice. The files are independent: one may be durable while another fails. NULL: file_commit
     * does it with the calls above. */
    void (*commit)(void *ctx, struct file_piece *pieces, uint32_t n);
    int (*sync_dir)(void *ctx, const char *path); /* makes the names in a directory durable */
    int (*rename)(void *ctx, const char *from, const char *to);
    int (*unlink)(void *ctx, const char *path);
    int (*mkdir)(void *ctx, const char *path); /* -EEXIST if it is there */
    int (*list)(void *ctx, const char *path, void (*each)(void *arg, const char *name), void *arg); /* without . and .. */
    bool dsync; /* descriptors are the kernel's, and what is written to one that was opened to be changed is durable when the write is done */
};

extern const struct file_ops file_disk; /* the real one */

/* All of it, or the error of the write that failed. */
int file_write_all(const struct file_ops *ops, int fd, struct slice bytes, uint64_t at);

/* Writes and syncs all pieces, together if the table can. */
void file_commit(const struct file_ops *ops, struct file_piece *pieces, uint32_t n);

/* Appends the whole file to out. */
int file_read_whole(const struct file_ops *ops, const char *path, struct buf *out);

/* Makes `to` a durable file with these bytes, both names in directory dir: written beside it as `to`.new, synced, renamed. */
int file_put_whole(const struct file_ops *ops, const char *dir, const char *to, struct slice bytes);
