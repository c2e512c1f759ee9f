/* The files of a dump set while they are written: one dump per shard, all of the same cut.
 *
 * Everything goes into unfinished.dump of each shard first. dumpset_finish ends the files, makes them durable and only then gives them their names, the epoch of the cut; so a
 * name promises a whole file, and a set counts when every shard has it. Whatever happens before leaves the older sets as they were. One thread, except where it is said. */
#pragma once
#include <stdint.h>

#include "base/compress.h"
#include "base/slice.h"

struct dumpset;
struct file_ops;

struct dumpset_header { /* the same for all shards */
    uint64_t epoch, seed;
    int64_t cut_ms;
};

struct dumpset_totals {
    uint64_t entries, raw_bytes; /* raw: before compression */
    uint64_t stored_bytes;       /* of the compressed contents */
    uint64_t file_bytes;         /* what was written so far */
};

/* Makes the unfinished files, over those of an earlier try. The shards' folders are there. Borrows dir, keeps files. Gives 0 or -errno; *out is freed by dumpset_free either way. */
int dumpset_new(struct dumpset **out, const struct file_ops *files, const char *dir, uint32_t shards);
/* Removes what is unfinished, unless dumpset_finish succeeded. */
void dumpset_free(struct dumpset *d);

void dumpset_begin(struct dumpset *d, const struct dumpset_header *h, enum compress_profile profile, size_t min_size);
/* Whole entries as dumpfile_add_entry makes them; different shards may be written by different threads. Gives 0 or -errno; after an error only dumpset_free makes sense. */
int dumpset_write(struct dumpset *d, uint32_t shard, struct slice raw, uint64_t entries);
int dumpset_finish(struct dumpset *d);

struct dumpset_totals dumpset_totals(const struct dumpset *d);
uint64_t dumpset_file_bytes(const struct dumpset *d, uint32_t shard);

/* Deletes all dumps of epochs before this one. */
int dumpset_drop_before(const struct file_ops *files, const char *dir, uint32_t shards, uint64_t epoch);
/* The epochs that every shard has a dump of, the newest `cap` of them, newest first; gives how many, or -errno. Whether the files are valid is not looked at. */
int dumpset_list(const struct file_ops *files, const char *dir, uint32_t shards, uint64_t *epochs, uint32_t cap);
