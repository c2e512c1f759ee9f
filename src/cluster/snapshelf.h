/* Which whole snapshots this node has, of all its groups, with what peers must know to fetch one. Any thread; nobody holds its lock for long. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cluster/groupdir.h"
#include "cluster/groupsnap.h"

struct snapshelf_item {
    struct groupdir_file file;
    struct groupsnap_totals totals;
};

struct snapshelf {
    pthread_mutex_t lock;
    struct snapshelf_item *v; /* in no order: a group has one, for a while two */
    uint32_t n, cap;
};

void snapshelf_init(struct snapshelf *s);
void snapshelf_fini(struct snapshelf *s);
/* In place of one of the same group and index. */
void snapshelf_put(struct snapshelf *s, const struct groupdir_file *f, const struct groupsnap_totals *t);
bool snapshelf_find(struct snapshelf *s, uint32_t group, uint64_t index, struct snapshelf_item *out);
/* Forgets it if it still is the one with this checksum; false: it is not there, or another has its place. */
bool snapshelf_take_out(struct snapshelf *s, uint32_t group, uint64_t index, uint64_t checksum);
void snapshelf_drop_before(struct snapshelf *s, uint32_t group, uint64_t index); /* UINT64_MAX: all of the group's */
