/* The names of the files of a layout: DIR/shard-S/NNNNNNNNNN.wal, the segments of its log, numbered from 1 in each shard; DIR/shard-S/NNNNNNNNNNNNNNNNNNNN.dump, the
 * dump of the shard as it is after that epoch; DIR/shard-S/unfinished.dump, one that is being written or never was to its end. */
#pragma once
#include <stdint.h>

struct file_ops;

enum { LOGDIR_PATH_MAX = 4096 };

int logdir_shard(char path[LOGDIR_PATH_MAX], const char *dir, uint32_t shard); /* 0 or -ENAMETOOLONG, as the next one */
int logdir_segment(char path[LOGDIR_PATH_MAX], const char *dir, uint32_t shard, uint64_t number);
int logdir_dump(char path[LOGDIR_PATH_MAX], const char *dir, uint32_t shard, uint64_t epoch);
int logdir_unfinished_dump(char path[LOGDIR_PATH_MAX], const char *dir, uint32_t shard);

struct logdir_numbers { /* ascending; mem_free(v) */
    uint64_t *v;
    uint32_t n;
};
/* The segments of a shard; other files are passed over, and a missing directory is an empty one. Gives 0 or -errno. */
int logdir_list(const struct file_ops *files, const char *dir, uint32_t shard, struct logdir_numbers *out);
int logdir_list_kept(const struct file_ops *files, const char *dir, uint32_t shard, struct logdir_numbers *out); /* those that were damaged: NNNNNNNNNN.wal.corrupt */
int logdir_list_dumps(const struct file_ops *files, const char *dir, uint32_t shard, struct logdir_numbers *out); /* their epochs */
