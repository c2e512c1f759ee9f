/* The rows of a shard file's interior pages, flat in memory: from a key to its leaf in one search instead of one per level.
 *
 * In order of keys, leaves and rows of interior pages take turns: leaf 0, row 0, leaf 1, ... row n - 1, leaf n. Of each row the index has the head (snapshot/pagesearch.h) and where it stands; a table
 * over the heads' leading bits tells where to begin. Nineteen bytes for a leaf, half a percent of a file with pages of 4096 bytes.
 *
 * It is made by the lookups themselves, as they come: a lookup reads one interior page of the lowest level, in order, until all are read. So none waits long, and a file that is asked for a few keys
 * is not read for the sake of the index. A file that has no interior pages, too many leaves, keys that are no BLOBs, or whose rows are out of order gets none; lookups then walk the tree as ever.
 *
 * Any number of threads. What it says of a damaged file may be wrong, never unsafe: page numbers and cells are checked by whoever follows them. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/slice.h"
#include "snapshot/pages.h"

enum {
    LEAFINDEX_LEAVES_MAX = 1 << 22, /* of one file */
    LEAFINDEX_SHARED_MAX = 64,      /* shared bytes that are left out of heads */
    LEAFINDEX_PATIENCE = 64,        /* lookups before the first page is read */
    LEAFINDEX_PER_START = 4,        /* rows for an entry of the table, if heads are spread evenly */
};

struct leafindex_row {
    uint64_t head;
    uint32_t leaf; /* before it */
    uint32_t page; /* where it stands */
};

struct leafindex_build;

struct leafindex {
    _Atomic bool ready; /* what follows up to `build` is there, and does not change any more */
    uint32_t n;             /* rows */
    uint32_t skip;          /* of the heads: all rows' keys begin with these bytes of `shared` */
    struct slice shared;    /* in the file */
    struct leafindex_row *rows; /* [n + 1], heads ascending; of the last there is only the leaf */
    uint16_t *cells;        /* [n]: which cell of its page a row is */
    uint64_t least;         /* the first head */
    uint32_t shift, n_starts;
    uint32_t *starts;       /* [n_starts + 1]: how many heads have (head - least) >> shift below this */
    struct leafindex_build *build;
};

/* Keeps the source, whose pages must lie in memory. */
struct leafindex *leafindex_new(const struct page_source *source, uint32_t root);
void leafindex_free(struct leafindex *x); /* NULL is allowed */

/* So many lookups have come, and may do their share of the work. */
void leafindex_work(struct leafindex *x, uint32_t lookups);

/* Whether the index can be used by these lookups. */
static inline bool leafindex_ready(struct leafindex *x, uint32_t lookups)
{
    if (likely(atomic_load_explicit(&x->ready, memory_order_acquire))) return true;
    leafindex_work(x, lookups);
    return false;
}

/* The first row whose head is not below this one; n: none. Only of an index that is ready. */
static inline uint32_t leafindex_lower(const struct leafindex *x, uint64_t head)
{
    if (head <= x->least) return 0;
    uint64_t at = (head - x->least) >> x->shift;
    if (at >= x->n_starts) return x->n;
    uint32_t lo = x->starts[at], n = x->starts[at + 1] - lo;
    while (n) {
        uint32_t half = n / 2;
        bool less = x->rows[lo + half].head < head;
        lo = less ? lo + half + 1 : lo;
        n = less ? n - half - 1 : half;
    }
    return lo;
}
