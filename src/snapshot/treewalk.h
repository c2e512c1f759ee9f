/* Goes through all of a b-tree in order, pages and rows, over any page source; whatever the pages hold, it ends. */
#pragma once
#include "snapshot/pages.h"
#include "snapshot/treepage.h"

enum { TREEWALK_DEPTH_MAX = 20 }; /* of SQLite too */

/* Results other than 0 end the walk and are given. Either function may be NULL. */
struct treewalk_visitor {
    int (*page)(void *arg, uint32_t number, const struct treepage *page, uint32_t depth); /* before its rows; the root has depth 1 */
    int (*row)(void *arg, const struct treecell *cell); /* in order of keys; both kinds of page of an index, leaves of a rowid table */
    void *arg;
};

/* A set of pages: which were used. */
struct treewalk_used {
    uint64_t *bits;
    uint32_t n_pages;
};
void treewalk_used_init(struct treewalk_used *u, uint32_t n_pages);
void treewalk_used_fini(struct treewalk_used *u);
bool treewalk_use(struct treewalk_used *u, uint32_t number); /* false: used already, or no page */

/* The tree at page `root`. Pages that are in `used` already are damage, others come to it; NULL: a set for this walk alone. 0, or an error: pages of a kind that does not
 * belong into this tree, leaves of different depth, a page used twice. */
int treewalk(const struct page_source *source, uint32_t root, const struct treewalk_visitor *visitor, struct treewalk_used *used);
