#include "log/logdir.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "io/file.h"

static int fits(int n) { return n < LOGDIR_PATH_MAX ? 0 : -ENAMETOOLONG; }

int logdir_shard(char path[LOGDIR_PATH_MAX], const char *dir, uint32_t shard)
{
    return fits(snprintf(path, LOGDIR_PATH_MAX, "%s/shard-%" PRIu32, dir, shard));
}

int logdir_segment(char path[LOGDIR_PATH_MAX], const char *dir, uint32_t shard, uint64_t number)
{
    return fits(snprintf(path, LOGDIR_PATH_MAX, "%s/shard-%" PRIu32 "/%010" PRIu64 ".wal", dir, shard, number));
}

int logdir_dump(char path[LOGDIR_PATH_MAX], const char *dir, uint32_t shard, uint64_t epoch)
{
    return fits(snprintf(path, LOGDIR_PATH_MAX, "%s/shard-%" PRIu32 "/%020" PRIu64 ".dump", dir, shard, epoch));
}

int logdir_unfinished_dump(char path[LOGDIR_PATH_MAX], const char *dir, uint32_t shard)
{
    return fits(snprintf(path, LOGDIR_PATH_MAX, "%s/shard-%" PRIu32 "/unfinished.dump", dir, shard));
}

/* Only names that we would write ourselves count. */

static bool is_segment(const char *name, uint64_t number)
{
    char again[40];
    snprintf(again, sizeof again, "%010" PRIu64 ".wal", number);
    return number && strcmp(name, again) == 0;
}

static bool is_kept_segment(const char *name, uint64_t number)
{
    char again[40];
    snprintf(again, sizeof again, "%010" PRIu64 ".wal.corrupt", number);
    return number && strcmp(name, again) == 0;
}

static bool is_dump(const char *name, uint64_t number)
{
    char again[40];
    snprintf(again, sizeof again, "%020" PRIu64 ".dump", number);
    return strcmp(name, again) == 0;
}

struct listing {
    bool (*counts)(const char *name, uint64_t number);
    struct logdir_numbers *out;
};

static void add_name(void *arg, const char *name)
{
    const struct listing *l = arg;
    uint64_t number = strtoull(name, NULL, 10);
    if (!l->counts(name, number)) return;
    l->out->v = mem_resize(l->out->v, (l->out->n + 1) * sizeof *l->out->v);
    l->out->v[l->out->n++] = number;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int list(const struct file_ops *files, const char *dir, uint32_t shard, const struct listing *l)
{
    char path[LOGDIR_PATH_MAX];
    struct logdir_numbers *out = l->out;
    *out = (struct logdir_numbers){0};
    int rc = logdir_shard(path, dir, shard);
    if (rc == 0) rc = files->list(files->ctx, path, add_name, (void *)l);
    if (rc == -ENOENT) return 0;
    if (rc) {
        mem_free(out->v);
        *out = (struct logdir_numbers){0};
        return rc;
    }
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_number);
    return 0;
}

int logdir_list(const struct file_ops *files, const char *dir, uint32_t shard, struct logdir_numbers *out)
{
    return list(files, dir, shard, &(struct listing){is_segment, out});
}

int logdir_list_kept(const struct file_ops *files, const char *dir, uint32_t shard, struct logdir_numbers *out)
{
    return list(files, dir, shard, &(struct listing){is_kept_segment, out});
}

int logdir_list_dumps(const struct file_ops *files, const char *dir, uint32_t shard, struct logdir_numbers *out)
{
    return list(files, dir, shard, &(struct listing){is_dump, out});
}
