/* A durable write that its owner does not wait for, without a thread: by io_uring, which tells of its end through an eventfd that the owner waits for anyhow. One write at a time.
 *
 *     filering_begin(r, fd, bytes, at)      the owner goes on
 *     ... the eventfd is written to ...
 *     filering_collect(r, false, &rc)       true: it is done
 *
 * The descriptor is one whose writes are durable when they are done (O_DSYNC); the bytes stay as they are until then. One thread at a time. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct filering;

struct filering *filering_open(int wake_fd); /* NULL: the kernel does not offer it */
void filering_close(struct filering *r);     /* nothing is under way */
int filering_begin(struct filering *r, int fd, struct slice bytes, uint64_t at); /* 0, or -errno: nothing was begun */
/* False: it is not done yet. Else *rc is 0 or -errno. wait: sleeps until it is. */
bool filering_collect(struct filering *r, bool wait, int *rc);
