/* Numbers that must be taken from time to time: rates per second, and memory as the allocator and the kernel see it, space on the disk.
 *
 * Front 0 samples from its cron, so that whoever shows the numbers makes no system call for them, not even under a token. Any thread may read. */
#pragma once
#include "server/server.h"

struct sampler;

struct sampler_rates { /* over the last second and a half */
    double commands, bytes_in, bytes_out; /* per second */
};

struct sampler_memory {
    uint64_t used;     /* all live bytes: data and the rest */
    uint64_t data;     /* live bytes of the shards: what maxmemory limits */
    uint64_t startup;  /* used, before the first client came */
    uint64_t peak;     /* highest used seen */
    uint64_t rss;      /* as of the last second */
    uint64_t allocated, active, resident; /* the allocator's numbers, as of the last second; 0 if it does not tell */
};

struct sampler_disk { /* of the data directory, as of the last second; 0: not told, or there is none */
    uint64_t free_bytes, total_bytes;
};

struct sampler *sampler_new(struct server *s); /* takes the first sample; the engine is there, its threads do not run yet */
void sampler_free(struct sampler *m);
uint64_t sampler_resident_bytes(void); /* of the process, now */
void sampler_tick(struct server *s, int64_t now_ms); /* front 0 */

const char *sampler_allocator(char out[32]); /* "jemalloc-5.3.0" or "libc" */
void sampler_rates(const struct server *s, struct sampler_rates *out);
void sampler_memory(struct server *s, struct sampler_memory *out); /* data is as new as what the shards published */
void sampler_disk(const struct server *s, struct sampler_disk *out);
