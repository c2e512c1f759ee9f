#include "log/logdir.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "io/file.h"

int logdir_shard(char path[LOGDIR_PATH_MAX], const char *dir, uint32_t shard)
{
    return snprintf(path, LOGDIR_PATH_MAX, "%s/shard-%" PRIu32, dir, shard) < LOGDIR_PATH_MAX ? 0 : -ENAMETOOLONG;
}

int logdir_segment(char path[LOGDIR_PATH_MAX], const char *dir, uint32_t shard, uint64_t number)
{
    int n = snprintf(path, LOGDIR_PATH_MAX, "%s/shard-%" PRIu32 "/%010" PRIu64 ".wal", dir, shard, number);
    return n < LOGDIR_PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* The number in a segment's name, or 0: only names that we would write ourselves. */
static uint64_t number_of(const char *name)
{
    char again[40], *end;
    uint64_t number = strtoull(name, &end, 10);
    snprintf(again, sizeof again, "%010" PRIu64 ".wal", number);
    return strcmp(name, again) == 0 ? number : 0;
}

static void add_name(void *arg, const char *name)
{
    struct logdir_numbers *out = arg;
    uint64_t number = number_of(name);
    if (!number) return;
    out->v = mem_resize(out->v, (out->n + 1) * sizeof *out->v);
    out->v[out->n++] = number;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int logdir_list(const struct file_ops *files, const char *dir, uint32_t shard, struct logdir_numbers *out)
{
    char path[LOGDIR_PATH_MAX];
    *out = (struct logdir_numbers){0};
    int rc = logdir_shard(path, dir, shard);
    if (rc == 0) rc = files->list(files->ctx, path, add_name, out);
    if (rc == -ENOENT) return 0;
    if (rc) {
        mem_free(out->v);
        *out = (struct logdir_numbers){0};
        return rc;
    }
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_number);
    return 0;
}
