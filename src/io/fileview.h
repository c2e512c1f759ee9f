/* A file's bytes, to be read from front to back: mapped where the files are those of the disk, read whole where they are of another table. For files that nobody changes
 * meanwhile, and that may be larger than memory.
 *
 * A disk error shows when the view is opened, as far as the file fits in memory at once; behind that it ends the process (SIGBUS), so views are for times when nothing has been
 * changed yet: recovery, and reading off line. */
#pragma once
#include "io/file.h"

struct fileview {
    struct slice bytes;
    void *map;       /* NULL: bytes are those of copy */
    struct buf copy;
};

/* 0, or -errno; a view that was not opened, or is zeroed, may be closed. */
int fileview_open(struct fileview *v, const struct file_ops *files, const char *path);
void fileview_close(struct fileview *v);
