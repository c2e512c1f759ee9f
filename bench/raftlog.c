/* How fast the shared Raft log of a node is on a disk: batches of different sizes, written one after the other by its threads, each put as soon as the one before is durable.
 *
 *     raftlog FOLDER [SECONDS]     a log is made in FOLDER/raftlog-bench and deleted afterwards; SECONDS for each line, 1 if not given
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "cluster/raftlog.h"
#include "cluster/raftwriter.h"
#include "io/file_direct.h"

enum { GROUPS = 64, MARK_EVERY = 256 };

struct node {
    struct raftlog *log;
    struct raftwriter *writer;
    int event;
    uint64_t last[GROUPS];
};

struct load {
    uint32_t entries, bytes; /* in each batch */
};

static void wake(void *ctx)
{
    const struct node *n = ctx;
    uint64_t one = 1;
    CHECK(write(n->event, &one, sizeof one) == sizeof one);
}

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void await_durable(struct node *n, uint64_t batch)
{
    for (int rc = raftwriter_step(n->writer); raftlog_durable(n->log) < batch; rc = raftwriter_step(n->writer)) {
        uint64_t count;
        struct pollfd p = {.fd = n->event, .events = POLLIN};
        CHECK(rc == 0 && poll(&p, 1, 60000) == 1 && read(n->event, &count, sizeof count) == sizeof count);
    }
}

/* Entries go to the groups in turn; each group says now and then that a snapshot holds all it has. */
static void put_batch(struct node *n, struct load load, uint64_t round, const char *bytes)
{
    for (uint32_t i = 0; i < load.entries; i++) {
        uint32_t g = (uint32_t)((round * load.entries + i) % GROUPS);
        raftlog_put_entry(n->log, g, ++n->last[g], 1, 1, slice_of(bytes, load.bytes));
    }
    uint32_t g = (uint32_t)(round % GROUPS);
    if (round % (MARK_EVERY / GROUPS) == 0 && n->last[g]) raftlog_put_mark(n->log, g, &(struct raftlog_mark){.index = n->last[g], .term = 1, .first = n->last[g] + 1});
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void measure(struct node *n, const char *method, struct load load, uint64_t seconds)
{
    enum { TIMES_MAX = 1 << 20 };
    char *bytes = mem_zalloc(load.bytes);
    uint32_t *times = mem_alloc(TIMES_MAX * sizeof *times), rounds = 0;
    struct raftlog_info before, after;
    raftlog_info(n->log, &before);
    uint64_t start = now_us(), at = start;
    while (at - start < seconds * 1000000 && rounds < TIMES_MAX) {
        put_batch(n, load, rounds, bytes);
        await_durable(n, raftlog_open_batch(n->log));
        uint64_t then = at;
        at = now_us();
        times[rounds++] = (uint32_t)(at - then);
    }
    double took = (double)(at - start) / 1e6;
    raftlog_info(n->log, &after);
    qsort(times, rounds, sizeof *times, by_size);
    printf("%-7s %6u x %7u B  %8.0f batches/s %9.0f entries/s %7.1f MB/s  p50 %6u us  p99 %6u us  segments %llu\n", method, load.entries, load.bytes, rounds / took, rounds * (double)load.entries / took,
           (double)(after.written_bytes - before.written_bytes) / 1e6 / took, times[rounds / 2], times[(uint64_t)rounds * 99 / 100], (unsigned long long)after.segments);
    mem_free(bytes);
    mem_free(times);
}

static void delete_file(void *arg, const char *name)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", (const char *)arg, name);
    unlink(path);
}

static int run(const char *dir, const char *method, const struct file_ops *writes, uint64_t seconds)
{
    static const struct load loads[] = {{1, 128}, {64, 128}, {1024, 128}, {8192, 128}, {16, 65536}, {4, 1 << 20}};
    struct node n = {.event = eventfd(0, EFD_CLOEXEC)};
    struct buf error = {0};
    n.log = raftlog_open(&file_disk, dir, &(struct raftlog_options){.random = 1, .ready = 2}, &error);
    if (n.log) n.writer = raftwriter_new(n.log, &(struct raftwriter_options){.files = &file_disk, .writes = writes, .wake = wake, .ctx = &n}, &error);
    if (!n.writer) {
        fprintf(stderr, "%.*s\n", (int)error.len, error.p);
        return 1;
    }
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) measure(&n, method, loads[i], seconds);
    raftwriter_free(n.writer);
    raftlog_close(n.log);
    close(n.event);
    file_disk.list(NULL, dir, delete_file, (void *)(uintptr_t)dir);
    return rmdir(dir) ? 1 : 0;
}

int main(int argc, char **argv)
{
    char dir[4096];
    uint64_t seconds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct file_direct direct;
    if (argc < 2 || seconds == 0 || snprintf(dir, sizeof dir, "%s/raftlog-bench", argv[1]) >= 4000) {
        fprintf(stderr, "usage: raftlog FOLDER [SECONDS]\n");
        return 2;
    }
    file_direct_init(&direct);
    int rc = run(dir, "direct", &direct.ops, seconds);
    return rc ? rc : run(dir, "plain", &file_disk, seconds);
}
