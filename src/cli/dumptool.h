/* What `sherd dump info`, `verify` and `export` do with one file; dumptool.c finds the files. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/slice.h"

struct store;

enum dumptool_format { DUMPTOOL_UNKNOWN, DUMPTOOL_DUMP, DUMPTOOL_SEGMENT, DUMPTOOL_RDB };

struct dumptool_file {
    const char *path;
    struct slice bytes;
    enum dumptool_format format;
    int64_t now_ms;
};

enum dumptool_format dumptool_format_of(struct slice bytes); /* by its first bytes; too short for any: unknown */

/* Prints what the file says about itself, and whether it is in order. False: it is not. */
bool dumpinfo_show(const struct dumptool_file *f);

/* Looks at everything; each fault becomes a line "PATH: at byte N: what" on standard output. Gives the number of faults. */
uint64_t dumpverify_file(const struct dumptool_file *f);

/* Lines of JSON. */
struct dumpexport {
    FILE *to;
    struct buf lines;
    uint64_t written; /* lines */
    int error;        /* -errno of the first write that failed */
};
bool dumpexport_key(struct dumpexport *x, uint64_t db, struct slice key, int64_t expiry_ms, struct slice image); /* false: the value is not valid */
void dumpexport_flush(struct dumpexport *x, bool all); /* hands the lines on when there are enough of them */
bool dumpexport_file(struct dumpexport *x, const struct dumptool_file *f); /* false: the file is damaged, which was told; or x->error */
/* The keys that a server would have after a start on this layout; those past their expiry are left out. Nothing on disk is changed. False: it cannot be loaded, or some of it
 * was damaged; which was told. */
bool dumplayout_export(struct dumpexport *x, const char *layout, uint32_t shards, uint64_t seed, int64_t now_ms);

/* The stores that a server would have after a start on a layout. */
struct dumplayout {
    struct store **stores; /* [shards] */
    uint32_t shards;
    bool complete; /* nothing was damaged or missing */
};
/* False: it cannot be loaded; which was told. dumplayout_free in any case. */
bool dumplayout_load(struct dumplayout *d, const char *layout, uint32_t shards, uint64_t seed, int64_t now_ms);
void dumplayout_free(struct dumplayout *d);
