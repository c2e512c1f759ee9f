/* The local cache of downloaded shard files: a folder that any number of processes share.
 *
 *   NAME.db      a whole file. NAME is its SHA-256 where the manifest tells it, so that the same content is never fetched twice, else a hash of its URL, checkpoint and size
 *   NAME.part    a download under way, or one that broke off: the next one begins anew
 *   locks/xyz    a file per first three digits of NAME; whoever holds its lock may download
 *
 * A file becomes visible by a rename when it is whole, checked and synced. Who uses it holds a shared lock on it, so that eviction, in whichever process, leaves it alone; were it removed
 * all the same, the mapping would stay good. Any number of threads may use one cache. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache;
struct object_call;
struct object_store;

/* Makes the folder if it is not there. Above bytes_max the files that nobody uses are removed, oldest use first. Gives 0 or -errno. */
int cache_open(struct cache **c, const char *dir, uint64_t bytes_max);
void cache_close(struct cache *c); /* NULL is allowed; files that were given stay good */

struct cache_want {
    struct object_store *store; /* where it is */
    const char *key;
    const char *url, *checkpoint_id; /* its identity; checkpoint_id may be NULL */
    uint64_t bytes;                  /* 0: not known */
    const uint8_t *sha256;           /* [32]; NULL: not known */
};

/* A file that can be read. */
struct cache_file {
    const void *map;
    size_t bytes;
    int fd;      /* holds the lock; -1: none */
    bool reused; /* it was there */
};

/* Gives 0 and the file, downloaded if need be; -errno, an error of the store, or ERR_SNAPSHOT_SHARD if what came has another size or checksum than wanted. Only one download of the same file runs
 * at a time in all processes; the others wait for it. */
int cache_get(struct cache *c, const struct cache_want *want, struct object_call *call, struct cache_file *file);

/* Maps a file where it lies. Gives 0 or -errno. */
int cache_map(const char *path, struct cache_file *file);
void cache_release(struct cache_file *file); /* a zeroed or released one is allowed */

/* Removes unused files until the rest fits; gives how many. cache_get does it after a download. */
uint32_t cache_trim(struct cache *c);
