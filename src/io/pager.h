/* A thread that has memory filled with zeroes before it is needed.
 *
 * The kernel zeroes a page when it is first touched, and a huge page is 2 MiB of that: a quarter of a millisecond, or six where a hypervisor has to find the
 * memory first. Whoever holds a shard's token should not be the one who waits. So those who know which pages they will touch next say so, and this thread touches them.
 *
 * It is a help, nothing depends on it: a wish that comes while too many others are waiting is forgotten, and its pages are zeroed when they are touched, as ever. */
#pragma once
#include <stddef.h>

struct pager;

enum { PAGER_BYTES = 2 << 20 }; /* what one wish is about: a huge page */

struct pager *pager_new(void); /* starts the thread */
void pager_free(struct pager *p);

/* The PAGER_BYTES from `at` on, which is where a page begins, will be written to soon. Any thread; never waits. The contents do not change, and if the
 * memory is unmapped meanwhile, nothing happens. */
void pager_want(struct pager *p, void *at);

void pager_settle(struct pager *p); /* for tests: waits until all wishes are served */
