/* Reads Redis's dump.rdb, of Redis 2.4 to 7.4 (RDB versions 1 to 12). Pure; takes any bytes. The bytes stand at the top of rdbfile.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum { RDBFILE_VERSION_MAX = 12 };

enum rdbfile_kind {
    RDBFILE_KEY,
    RDBFILE_LEFT_OUT, /* something that Sherd does not have: `what` names its kind */
};

struct rdbfile_item {
    enum rdbfile_kind kind;
    const char *what;  /* RDBFILE_LEFT_OUT: "stream", "module value", "module data", "function library", "hash with expiring fields" */
    uint64_t db;
    int64_t expiry_ms; /* 0: none */
    struct slice key;  /* empty for what has none */
    struct slice image; /* RDBFILE_KEY: store/image.h; not looked at but for its extent */
    size_t at;         /* offset in the file */
};

struct rdbfile_reader {
    struct slice file;
    struct slice left;   /* not read yet */
    unsigned version;
    uint64_t db;
    size_t summed;       /* the checksum covers what is before this offset */
    uint64_t crc;
    struct buf key, image;
    char redis_version[32]; /* as the file has it; "" if it has none */
    uint64_t sized_keys; /* keys that the file announces, so far */
    bool is_summed;      /* at the end: the file had a checksum, and it is right */
    const char *fault;   /* after a negative result: what is wrong */
    size_t fault_at;
};

bool rdbfile_is_one(struct slice file); /* by its first bytes */

/* Keeps file until rdbfile_reader_fini, which must follow. Gives 0, or -EINVAL if it does not begin like such a file or is of a newer version; `fault` is set then. */
int rdbfile_reader_init(struct rdbfile_reader *r, struct slice file);
/* 1: an item, its slices valid until the next call. 0: that was all, the file ends as it should and its checksum, if it has one, is right.
 * -EINVAL: not valid; all further calls say the same. What comes before the fault was not known to be right: read the file to its end before anything is done with it. */
int rdbfile_next(struct rdbfile_reader *r, struct rdbfile_item *item);
void rdbfile_reader_fini(struct rdbfile_reader *r);
