/* Reads a shard file: looks keys up and walks them in order, over any page source (snapshot/pages.h).
 *
 * A struct shardread does not change once it is open and may be shared by threads; a cursor belongs to one. Keys are compared as bytes. Values may be BLOB or TEXT and are given as
 * bytes either way. A row whose key is not a BLOB is never found, and no cursor shows it: the format's readers ask for BLOBs.
 *
 * Bytes come from outside: whatever is wrong with them is ERR_SHARD_DAMAGED, after a bounded number of steps. Not every damage is noticed by every call: shardread_check looks at
 * all. Errors of the source are passed on. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "snapshot/pages.h"
#include "snapshot/treepage.h"

enum { SHARDREAD_DEPTH_MAX = 20 };

struct leafindex;

struct shardread {
    const struct page_source *source;
    uint32_t root;
    struct leafindex *index; /* NULL, or what the opener made for lookups (snapshot/leafindex.h); kept */
};

/* Keeps the source. Finds the table; 0, or an error, for ERR_SHARD_* with a sentence in *why (static; may be NULL): ERR_SHARD_UNSUPPORTED if there is no table kv of the format's
 * form. Reads page 1 and the root. Nothing needs to be closed. */
int shardread_open(struct shardread *r, const struct page_source *source, const char **why);

/* 1 and the value, 0 if there is no such key, or an error. The value lies in the mapped file where it is in one piece there, else in *buf, whose contents are replaced; it lives as long as
 * both stay as they are. */
int shardread_get(const struct shardread *r, struct slice key, struct buf *buf, struct slice *value);

/* Many lookups at once. Thirty-two at a time go down the tree together: pages that have to be fetched are asked for in one call per level, and from memory their cache misses overlap.
 * Asks in ascending order of keys share the most pages; any order works. */
struct shardread_ask {
    struct slice key;
    struct slice value; /* if found: in the mapped file, or in *buf */
    int rc;             /* as of shardread_get */
    size_t at;          /* private: of the value, in buf */
    bool in_buf;        /* private */
    const struct shardread *r;
};
/* buf gets the values that are not in one piece in mapped memory; its contents are replaced. 0, or the first error among the asks. */
int shardread_get_many(const struct shardread *r, struct shardread_ask *asks, size_t n, struct buf *buf);
/* The same of several files at once, all in memory: each ask says which, in `r`. */
int shardread_get_mapped(struct shardread_ask *asks, size_t n, struct buf *buf);

/* ---- walking in order */

struct shardread_step {
    struct treepage page; /* held */
    uint32_t number;
    uint32_t cell;        /* the row; above the row's page: the child that was gone down to */
    uint32_t wanted;      /* children up to this one were asked for */
};

struct shardread_cursor {
    const struct shardread *r;
    struct shardread_step path[SHARDREAD_DEPTH_MAX];
    uint32_t depth, leaf_depth; /* depth 0: not on a row */
    uint32_t entered; /* pages since the walk took this direction: more than there are means a cycle */
    uint32_t ahead;   /* pages to ask for ahead of a walk */
    bool forward;
    struct slice key;
    struct buf key_buf, value_buf; /* what lies in overflow pages */
};

void shardread_cursor_init(struct shardread_cursor *c, const struct shardread *r); /* keeps r */
void shardread_cursor_fini(struct shardread_cursor *c);

/* All of these give 1 if the cursor is on a row now, 0 if there is none (the cursor is then on no row), or an error (likewise). A cursor that is on a row of a source without base
 * holds up to SHARDREAD_DEPTH_MAX pages. */
int shardread_seek(struct shardread_cursor *c, struct slice key);        /* the first row >= key; an empty key: the first of all */
int shardread_seek_before(struct shardread_cursor *c, struct slice key); /* the last row < key */
int shardread_seek_last(struct shardread_cursor *c);
int shardread_next(struct shardread_cursor *c); /* these two: only on a row */
int shardread_prev(struct shardread_cursor *c);

/* Of the row that the cursor is on; they live until it moves. */
static inline struct slice shardread_key(const struct shardread_cursor *c) { return c->key; }
int shardread_value(struct shardread_cursor *c, struct slice *value); /* 0 or an error */

/* ---- the whole file */

struct shardread_stats {
    uint64_t rows, key_bytes, value_bytes;
    uint32_t interior_pages, leaf_pages, overflow_pages;
    uint32_t depth;
};

/* Reads every page of the table: order of the keys, types, lengths, chains, and that no page is used twice. 0 and the stats, or an error. */
int shardread_check(const struct shardread *r, struct shardread_stats *stats);
