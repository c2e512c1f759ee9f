/* Heap bytes of the shards are part of what the allocator counts; the rest of a shard's bytes comes straight from the kernel. So
 *
 *     used = data + other,   other = allocated - heap bytes of all shards
 *
 * where `other` (connections, buffers, tables of the server) is sampled and `data` is known at any moment. */
#include "server/sampler.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "server/totals.h"

enum { RATE_SAMPLES = 16, SLOW_MS = 1000 };

/* jemalloc's; sanitizer builds have another allocator, and this is NULL. */
int mallctl(const char *name, void *old, size_t *old_len, void *new, size_t new_len) __attribute__((weak));

struct rate_sample {
    int64_t at_ms;
    struct totals totals;
};

struct sampler {
    /* Front 0's. */
    struct rate_sample ring[RATE_SAMPLES];
    unsigned n;
    int64_t next_slow_ms;

    /* Written by front 0, read by anyone. */
    _Atomic double commands, bytes_in, bytes_out;
    _Atomic uint64_t other, startup, rss, allocated, active, resident;
    _Atomic uint64_t disk_free, disk_total;
};

/* ---- memory */

static uint64_t allocator_number(const char *name)
{
    size_t value = 0, n = sizeof value;
    if (!mallctl || mallctl(name, &value, &n, NULL, 0) != 0) return 0;
    return value;
}

static void refresh_allocator(void)
{
    uint64_t epoch = 1;
    size_t n = sizeof epoch;
    if (mallctl) mallctl("epoch", &epoch, &n, &epoch, n);
}

uint64_t sampler_resident_bytes(void)
{
    char text[128];
    unsigned long long size, pages;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return 0;
    text[n] = '\0';
    if (sscanf(text, "%llu %llu", &size, &pages) != 2) return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t shards_heap_bytes(const struct server *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->engine->route.shards; i++) sum += STAT_GET(s->engine->shards[i].numbers.heap_bytes);
    return sum;
}

static uint64_t used_bytes(const struct server *s, const struct sampler *m) { return server_used_bytes(s) + atomic_load(&m->other); }

static void sample_memory(struct server *s, struct sampler *m)
{
    refresh_allocator();
    uint64_t allocated = allocator_number("stats.allocated"), heap = shards_heap_bytes(s);
    atomic_store(&m->allocated, allocated);
    atomic_store(&m->active, allocator_number("stats.active"));
    atomic_store(&m->resident, allocator_number("stats.resident"));
    atomic_store(&m->other, allocated > heap ? allocated - heap : 0);
    atomic_store(&m->rss, sampler_resident_bytes());
}

static uint64_t raise_peak(struct server *s, uint64_t used)
{
    uint64_t peak = atomic_load(&s->peak_bytes);
    while (used > peak && !atomic_compare_exchange_weak(&s->peak_bytes, &peak, used)) {
    }
    return used > peak ? used : peak;
}

void sampler_memory(struct server *s, struct sampler_memory *out)
{
    const struct sampler *m = s->sampler;
    uint64_t used = used_bytes(s, m);
    *out = (struct sampler_memory){.used = used,
                                   .data = server_used_bytes(s),
                                   .startup = atomic_load(&m->startup),
                                   .peak = raise_peak(s, used),
                                   .rss = atomic_load(&m->rss),
                                   .allocated = atomic_load(&m->allocated),
                                   .active = atomic_load(&m->active),
                                   .resident = atomic_load(&m->resident)};
}

const char *sampler_allocator(char out[32])
{
    const char *version = NULL;
    size_t n = sizeof version;
    if (!mallctl || mallctl("version", &version, &n, NULL, 0) != 0) return "libc";
    snprintf(out, 32, "jemalloc-%.*s", (int)strcspn(version, "-"), version); /* the rest names its source revision */
    return out;
}

/* ---- the disk */

static void sample_disk(const struct server *s, struct sampler *m)
{
    struct statvfs fs;
    if (CONFIG_NUM(s->config, ephemeral) || statvfs(s->config->data, &fs) != 0) return;
    atomic_store(&m->disk_free, (uint64_t)fs.f_bavail * fs.f_frsize);
    atomic_store(&m->disk_total, (uint64_t)fs.f_blocks * fs.f_frsize);
}

void sampler_disk(const struct server *s, struct sampler_disk *out)
{
    *out = (struct sampler_disk){atomic_load(&s->sampler->disk_free), atomic_load(&s->sampler->disk_total)};
}

/* ---- rates */

static double rate(const struct rate_sample *from, const struct rate_sample *to, enum total t)
{
    int64_t ms = to->at_ms - from->at_ms;
    return ms > 0 ? (double)(to->totals.of[t] - from->totals.of[t]) * 1000 / (double)ms : 0;
}

static void sample_rates(struct server *s, struct sampler *m, int64_t now_ms)
{
    struct rate_sample *newest = &m->ring[m->n % RATE_SAMPLES];
    newest->at_ms = now_ms;
    totals_since_start(s, &newest->totals);
    m->n++;
    const struct rate_sample *oldest = &m->ring[m->n < RATE_SAMPLES ? 0 : m->n % RATE_SAMPLES];
    atomic_store(&m->commands, rate(oldest, newest, TOTAL_COMMANDS));
    atomic_store(&m->bytes_in, rate(oldest, newest, TOTAL_BYTES_IN));
    atomic_store(&m->bytes_out, rate(oldest, newest, TOTAL_BYTES_OUT));
}

void sampler_rates(const struct server *s, struct sampler_rates *out)
{
    const struct sampler *m = s->sampler;
    *out = (struct sampler_rates){atomic_load(&m->commands), atomic_load(&m->bytes_in), atomic_load(&m->bytes_out)};
}

/* ---- life */

void sampler_tick(struct server *s, int64_t now_ms)
{
    struct sampler *m = s->sampler;
    sample_rates(s, m, now_ms);
    if (now_ms >= m->next_slow_ms) {
        m->next_slow_ms = now_ms + SLOW_MS;
        sample_memory(s, m);
        sample_disk(s, m);
    }
    raise_peak(s, used_bytes(s, m));
}

struct sampler *sampler_new(struct server *s)
{
    struct sampler *m = mem_zalloc(sizeof *m);
    sample_memory(s, m);
    sample_disk(s, m);
    atomic_store(&m->startup, used_bytes(s, m));
    return m;
}

void sampler_free(struct sampler *m) { mem_free(m); }
