/* The names of a log's files: DIR/shard-S/NNNNNNNNNN.wal, numbered from 1 in each shard. */
#pragma once
#include <stdint.h>

struct file_ops;

enum { LOGDIR_PATH_MAX = 4096 };

int logdir_shard(char path[LOGDIR_PATH_MAX], const char *dir, uint32_t shard); /* 0 or -ENAMETOOLONG, as the next one */
int logdir_segment(char path[LOGDIR_PATH_MAX], const char *dir, uint32_t shard, uint64_t number);

struct logdir_numbers { /* ascending; mem_free(v) */
    uint64_t *v;
    uint32_t n;
};
/* The segments of a shard; other files are passed over, and a missing directory is an empty one. Gives 0 or -errno. */
int logdir_list(const struct file_ops *files, const char *dir, uint32_t shard, struct logdir_numbers *out);
