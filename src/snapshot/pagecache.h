/* Pages of remote files in memory: what ranged reads have fetched, bounded, the page that was not used for longest going first.
 *
 * It is split into parts with a lock each, so that threads seldom meet. A page is fetched by one thread, and whoever wants it meanwhile waits for that. A page that is held stays where it
 * is. Any number of threads. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pagecache;
struct pagecache_page;

struct pagecache *pagecache_new(uint64_t bytes_max);
void pagecache_free(struct pagecache *c); /* no page may be held; NULL is allowed */

/* A number for a file, under which its pages are kept: never given twice. */
uint64_t pagecache_file(struct pagecache *c);

enum pagecache_found {
    PAGECACHE_READY,
    PAGECACHE_WAIT, /* somebody is fetching it: pagecache_wait */
    PAGECACHE_LOAD, /* it is now the caller's to fill and to end with pagecache_loaded, whatever happens, before it waits for any other */
};

/* Holds a page until pagecache_put. */
enum pagecache_found pagecache_take(struct pagecache *c, uint64_t file, uint32_t number, uint32_t bytes, struct pagecache_page **page);
uint8_t *pagecache_bytes(struct pagecache_page *page);
struct pagecache_page *pagecache_of(const uint8_t *bytes); /* the page whose bytes these are */
/* rc 0: the page is filled. Else it is forgotten, and those who wait get rc. It stays held. */
void pagecache_loaded(struct pagecache *c, struct pagecache_page *page, int rc);
int pagecache_wait(struct pagecache *c, struct pagecache_page *page); /* 0, or the rc of the thread that fetched it */
void pagecache_put(struct pagecache *c, struct pagecache_page *page);

/* Forgets all pages of a file; those that are held go when they are put. */
void pagecache_forget(struct pagecache *c, uint64_t file);

struct pagecache_stats {
    uint64_t hits, misses, evicted, bytes;
};
void pagecache_stats(struct pagecache *c, struct pagecache_stats *s);
