/* Where `sherd import` puts what it reads: a data directory (importdir.c) or a server (importnet.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cli/cliargs.h"
#include "dump/rdbfile.h"

struct import_options {
    const char *file;
    const char *data;             /* the data directory, or NULL */
    const char *to;               /* host:port, or NULL */
    struct cliargs_login login;
    int64_t db, into_db;          /* -1: all of them; each into its own */
    uint32_t workers;             /* shards of a new data directory */
    bool replace, skip_existing, strict;
};

/* Each call gives 0, or -1 and a reason in error; after that only free makes sense. */
struct import_sink {
    int (*put)(struct import_sink *s, uint16_t db, const struct rdbfile_item *key, struct buf *error); /* borrows key */
    int (*finish)(struct import_sink *s, struct buf *error); /* everything is where it belongs, for good */
    void (*free)(struct import_sink *s);
    uint64_t put_keys; /* after finish: those that are there now */
    uint64_t existing; /* those that were there before and were left as they are */
};

struct import_sink *importdir_open(const struct import_options *o, int64_t now_ms, struct buf *error);
struct import_sink *importnet_open(const struct import_options *o, struct buf *error);
