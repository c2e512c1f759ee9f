/* A few threads that help one call make several requests at once.
 *
 * The caller always works too, and waits only for what a helper is already doing, so work may hand out work of its own: there is no way to wait in a circle. Threads start when they are
 * first needed. Any number of threads may use one pool. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct readpool;

struct readpool *readpool_new(uint32_t width); /* calls run at most this many pieces at once, the caller's among them; at least 1 */
void readpool_free(struct readpool *p);        /* after all calls; waits for what was posted. NULL is allowed */

/* Runs piece(arg, i) for every i below n, in any order and on any thread; all are done when it returns. */
void readpool_run(struct readpool *p, uint32_t n, void (*piece)(void *arg, uint32_t i), void *arg);

/* Has a helper run work(arg) some time. False, and nothing happens, if too much is waiting already, or if there are no helpers. */
bool readpool_post(struct readpool *p, void (*work)(void *arg), void *arg);
