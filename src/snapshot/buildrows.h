/* The first half of a build: reads all rows, routes them and sorts them. One thread. */
#pragma once
#include "snapshot/build.h"
#include "snapshot/pagesize.h"
#include "snapshot/sorter.h"

struct buildrows {
    struct sorter *sorter; /* finished; its buckets are numbered by `buckets` */
    uint32_t num_dbs;
    uint32_t *buckets;     /* [num_dbs] the sorter's bucket of a shard; NULL: the same number */
    struct router_cel cel; /* with the routing values found, if the options have cel */
    struct tokens *tokens; /* what cel's tokens point into */
    struct pagesize *sizes; /* of all rows */
    uint64_t rows, bad_rows;
};

/* buildrows_fini in any case. Errors and `error` as build_run. */
int buildrows_read(struct buildrows *b, const struct build_options *o, struct buf *error);
void buildrows_fini(struct buildrows *b);
