/* Memory of one database of one shard: small sizes in 8-byte steps, exact accounting, dropped as a whole.
 *
 * Why not malloc: general allocators round 278 bytes up to 320; with 8-byte classes the same entry takes 280. Whoever holds the
 * shard's token is the only user, so there are no locks and no thread caches, the live byte count is exact at any moment
 * (maxmemory needs it), and FLUSHDB gives back whole regions instead of walking millions of entries.
 *
 * Sizes: up to ARENA_SMALL_MAX in 8-byte classes, carved from 64 KiB spans (which come from regions of many MiB that the kernel fills as they are used); above that, one
 * allocation each from the process heap or, from 1 MiB, straight from the kernel (zero pages, given back at once when released).
 * A released block must be given with the size it was asked with (any size that rounds to the same class will do).
 * Blocks whose size is a multiple of 64 are 64-byte aligned, all others 8-byte aligned. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct arena;
struct pager;

#define ARENA_SMALL_MAX 4096

struct arena *arena_new(void);
void arena_free(struct arena *a); /* everything in it is gone */
void arena_set_pager(struct arena *a, struct pager *p); /* keeps p, which gets pages ready ahead of their use; without one nobody does */

void *arena_alloc(struct arena *a, size_t bytes);  /* never NULL; bytes > 0 */
void *arena_zalloc(struct arena *a, size_t bytes); /* zeroed; large blocks cost nothing until touched */
void arena_release(struct arena *a, void *p, size_t bytes);

/* Changes a block's size, in place if the class stays the same. Gives the (perhaps new) address; contents are kept up to
 * the smaller size. */
void *arena_resize(struct arena *a, void *p, size_t old_bytes, size_t new_bytes);

/* For a block whose pages are used one after the other, as a table's arrays are while they grow. Blocks below 1 MiB ignore both.
 * discard: the whole pages within bytes [from, to) of the block go back to the kernel, read as zero from then on and are away.
 * set_away: `bytes` of the block's pages are away, that is, not used yet or not any more. What is away is not live.
 * expect: bytes [from, to) of the block will be used soon, the huge pages that begin there are made ready. */
void arena_discard(struct arena *a, void *p, size_t block_bytes, size_t from, size_t to);
void arena_set_away(struct arena *a, void *p, size_t block_bytes, size_t bytes);
void arena_expect(struct arena *a, void *p, size_t block_bytes, size_t from, size_t to);

size_t arena_round(size_t bytes);               /* what a block of that size really occupies */
size_t arena_live_bytes(const struct arena *a);   /* sum of arena_round over all live blocks, less what is away */
size_t arena_heap_bytes(const struct arena *a);   /* of the live bytes, those in the process heap; the others are mapped */
size_t arena_mapped_bytes(const struct arena *a); /* memory held, live or free, in whole huge pages; not what is away */
void arena_trim(struct arena *a);                 /* gives empty spans back to the kernel */

/* Thinning out: gives memory back that many small holes keep. thin_out chooses spans that the holes of others make superfluous; the owner of the blocks moves what is_leaving (alloc, copy, release), and says when
 * it has seen all. What it could not move stays. One round at a time. */
size_t arena_holes(const struct arena *a); /* bytes of spans that are neither live nor given back */
bool arena_thin_out(struct arena *a);      /* false: there is nothing to be had */
bool arena_is_leaving(const void *p, size_t bytes);
void arena_thin_out_done(struct arena *a);
void arena_check(const struct arena *a);          /* for tests: walks all spans and counts again */
