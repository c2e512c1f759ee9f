/* Sorts rows that may be more than memory holds, by (bucket, key bytes). Of rows with one bucket and key the one added last stays.
 *
 * Rows are collected in batches; a full batch is sorted and written to a temporary file as a run, by threads of the sorter's own, while the next one fills. Afterwards each bucket is a merge
 * of its parts of all runs, and any number of buckets may be read at once. The file has no name, so nothing is left of it however the process ends.
 *
 * Memory: batches and the buffers of all cursors together stay within memory_bytes, but for a row that alone is larger, and for 4 kB per run and cursor. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct sorter;
struct sorter_cursor;

enum { SORTER_ROW_MAX = 0x7fffff00 }; /* bytes of a key and its value */

struct sorter_options {
    const char *dir;       /* of the temporary file; NULL: TMPDIR, then /tmp */
    uint64_t memory_bytes; /* at least 64 kB is taken */
    uint32_t threads;      /* that sort; at least 1. As many cursors are expected to be open at once */
};

/* Borrows o. */
struct sorter *sorter_new(const struct sorter_options *o);
void sorter_free(struct sorter *s); /* at any time; no cursor may be open */

/* One thread adds. Borrows the slices; their bytes are at most SORTER_ROW_MAX. Gives 0, or -errno of the temporary file, which may come from an earlier row. */
int sorter_add(struct sorter *s, uint32_t bucket, struct slice key, struct slice value);
/* No more rows come. The same results. */
int sorter_finish(struct sorter *s);

/* ---- after sorter_finish */

uint32_t sorter_buckets(const struct sorter *s);                /* the highest in use, plus one */
uint64_t sorter_added(const struct sorter *s, uint32_t bucket); /* rows, those that did not stay included */
uint64_t sorter_added_bytes(const struct sorter *s, uint32_t bucket); /* of their keys and values */

/* Any thread; a cursor belongs to one at a time. A bucket may be read more than once. */
struct sorter_cursor *sorter_open(const struct sorter *s, uint32_t bucket);
void sorter_close(struct sorter_cursor *c);
/* 1: the next row, in ascending order of keys, valid until the next call. 0: that was all. -errno: the temporary file cannot be read. */
int sorter_next(struct sorter_cursor *c, struct slice *key, struct slice *value);
