/* The disk, with a commit that hands all writes and syncs to the kernel at once, by io_uring: the files become durable side by side and not in turn. Every other call is file_disk's.
 *
 * One thread commits at a time. */
#pragma once
#include "io/file.h"

struct file_uring;

struct file_uring *file_uring_open(void); /* NULL: the kernel does not offer it */
void file_uring_close(struct file_uring *f);
const struct file_ops *file_uring_ops(struct file_uring *f); /* lives as long as f */
