/* The real disk for files whose every write is to be durable when it returns: past the page cache (O_DIRECT | O_DSYNC) where the file system takes it, else by write and fdatasync.
 *
 * Made for files that have all their blocks already. Buffers, offsets and lengths of writes are multiples of 4096; others are written too, by the slower way from then on. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>

#include "io/file.h"

struct file_direct {
    struct file_ops ops;  /* of io/file.h; open with FILE_CHANGE and commit are its own, the others those of file_disk */
    atomic_bool refused;  /* O_DIRECT was, by the file system */
};

void file_direct_init(struct file_direct *d); /* d does not move from then on */
