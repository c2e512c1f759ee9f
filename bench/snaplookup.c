/* Lookups in a published snapshot, counted: for `make bench-snapshot`. Uses nothing but the public header.
 *
 *     snaplookup URL get|multiget|scan [--keys N] [--seconds S] [--batch B] [--threads T] [--mode auto|download|range] [--cache DIR]
 *
 * Keys are the integers 0 to N - 1, asked for at random. Prints one line of JSON: what, seconds, of them on a processor, operations, keys, found, rates. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sherd.h"

enum { THREADS_MAX = 64, CHECK_EVERY = 64 };

struct job {
    struct sherd_reader *reader;
    const char *what;
    uint64_t keys, seed;
    size_t batch;
    double seconds;
    uint64_t operations, asked, found; /* results */
};

static double read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double now(void) { return read_clock(CLOCK_MONOTONIC); }

static uint64_t next_key(struct job *j)
{
    j->seed ^= j->seed >> 12;
    j->seed ^= j->seed << 25;
    j->seed ^= j->seed >> 27;
    return (uint64_t)(((unsigned __int128)(j->seed * 0x2545f4914f6cdd1dull) * j->keys) >> 64);
}

static void die(const struct sherd_error *why)
{
    fprintf(stderr, "snaplookup: %s\n", why->text);
    exit(1);
}

static void get_one(struct job *j, struct sherd_value *value)
{
    struct sherd_error why;
    struct sherd_key key = sherd_key_int(next_key(j));
    int rc = sherd_reader_get(j->reader, &key, NULL, value, &why);
    if (rc < 0) die(&why);
    j->asked++;
    j->found += (uint64_t)rc;
}

static void get_batch(struct job *j, struct sherd_key *keys)
{
    struct sherd_error why;
    const void *data;
    size_t size;
    for (size_t i = 0; i < j->batch; i++) keys[i] = sherd_key_int(next_key(j));
    struct sherd_batch *b = sherd_reader_multi_get(j->reader, keys, j->batch, NULL, &why);
    if (!b) die(&why);
    for (size_t i = 0; i < j->batch; i++) j->found += sherd_batch_get(b, i, &data, &size);
    j->asked += j->batch;
    sherd_batch_free(b);
}

/* All rows, once. */
static void scan_all(struct job *j)
{
    struct sherd_error why;
    struct sherd_key key;
    const void *data;
    size_t size;
    int rc;
    struct sherd_cursor *c = sherd_reader_scan(j->reader, NULL, &why);
    if (!c) die(&why);
    while ((rc = sherd_cursor_next(c, &key, &data, &size, &why)) == 1) j->found++;
    if (rc < 0) die(&why);
    j->asked = j->found;
    sherd_cursor_close(c);
}

static void *work(void *arg)
{
    struct job *j = arg;
    struct sherd_value value = {0};
    struct sherd_key *keys = malloc(j->batch * sizeof *keys);
    double end = now() + j->seconds;
    bool is_get = strcmp(j->what, "get") == 0, is_scan = strcmp(j->what, "scan") == 0;
    do {
        for (int i = 0; i < CHECK_EVERY; i++) {
            if (is_scan)
                scan_all(j);
            else if (is_get)
                get_one(j, &value);
            else
                get_batch(j, keys);
            j->operations++;
            if (is_scan) break;
        }
    } while (now() < end && !is_scan);
    sherd_value_free(&value);
    free(keys);
    return NULL;
}

static const char *option(int argc, char **argv, const char *name, const char *usual)
{
    for (int i = 3; i + 1 < argc; i += 2)
        if (strcmp(argv[i], name) == 0) return argv[i + 1];
    return usual;
}

static struct sherd_reader *open_reader(int argc, char **argv)
{
    struct sherd_error why;
    const char *mode = option(argc, argv, "--mode", "auto");
    struct sherd_options o = {.size = sizeof o, .cache_dir = option(argc, argv, "--cache", NULL), .open_all = true};
    o.mode = strcmp(mode, "range") == 0 ? SHERD_RANGE : strcmp(mode, "download") == 0 ? SHERD_DOWNLOAD : SHERD_AUTO;
    struct sherd_reader *r = sherd_reader_open(argv[1], &o, &why);
    if (!r) die(&why);
    return r;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: snaplookup URL get|multiget|scan [--keys N] [--seconds S] [--batch B] [--threads T] [--mode M] [--cache DIR]\n");
        return 2;
    }
    int threads = atoi(option(argc, argv, "--threads", "1"));
    if (threads < 1 || threads > THREADS_MAX) threads = 1;
    struct job jobs[THREADS_MAX], sum = {0};
    pthread_t ids[THREADS_MAX];
    struct sherd_reader *reader = open_reader(argc, argv);
    double start = now(), start_cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < threads; i++) {
        jobs[i] = (struct job){.reader = reader, .what = argv[2], .keys = strtoull(option(argc, argv, "--keys", "1000000"), NULL, 10), .seed = 88172645463325252ull + (uint64_t)i};
        jobs[i].batch = strtoull(option(argc, argv, "--batch", "100"), NULL, 10);
        jobs[i].seconds = atof(option(argc, argv, "--seconds", "3"));
        pthread_create(&ids[i], NULL, work, &jobs[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        sum.operations += jobs[i].operations;
        sum.asked += jobs[i].asked;
        sum.found += jobs[i].found;
    }
    double seconds = now() - start, cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID) - start_cpu;
    printf("{\"what\": \"%s\", \"threads\": %d, \"seconds\": %.3f, \"cpu_seconds\": %.3f, \"operations\": %llu, \"keys\": %llu, \"found\": %llu, \"keys_per_second\": %.0f, \"keys_per_cpu_second\": %.0f}\n",
           argv[2], threads, seconds, cpu, (unsigned long long)sum.operations, (unsigned long long)sum.asked, (unsigned long long)sum.found, (double)sum.asked / seconds, (double)sum.asked / cpu);
    sherd_reader_close(reader);
    return 0;
}
