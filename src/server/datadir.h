/* The data directory of a server: its lock and its identity.
 *
 * LOCK is held with flock(2) for the life of the process and has its process id as text. SHERD says what the directory is: format version,
 * shard count, seed of the key hash. A server never guesses these; a directory that it does not understand is refused, not repaired.
 *
 * A node of a cluster has such a directory too, without layouts: what it keeps is in the folder `cluster` (cluster/node.h). Neither kind is ever taken for the other. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { DATADIR_FORMAT = 1 };

struct datadir {
    char *path;
    int lock_fd;
    uint32_t shards;    /* as recorded: what is on disk is laid out for this many */
    uint32_t layout;    /* the folder layout-N is the one in use; another one is the rest of a change that was cut short; 0: a node's */
    uint64_t seed;      /* of the key hash; a node has that of its cluster, and not this one */
    int64_t created_s;  /* unix seconds */
    bool fresh;         /* made by this call */
};

/* Opens the directory, creating it (with its parents) and its identity for `shards` shards when it is not there or empty.
 * Gives 0, or -1 with the reason in error; nothing stays open or locked then. */
int datadir_open(struct datadir *d, const char *path, uint32_t shards, struct buf *error);
/* The same for a node of a cluster. */
int datadir_open_node(struct datadir *d, const char *path, struct buf *error);
/* Reads the identity of a directory without taking its lock or changing anything: for looking at it off line. Gives as datadir_open does, nodes' are refused; datadir_close must follow a success. */
int datadir_peek(struct datadir *d, const char *path, bool *in_use, struct buf *error);
void datadir_close(struct datadir *d);

/* Records another layout, in one atomic step: the last one of laying the data out anew. */
int datadir_set_layout(struct datadir *d, uint32_t layout, uint32_t shards, struct buf *error);
char *datadir_layout_path(const struct datadir *d, uint32_t layout); /* gives DIR/layout-N; mem_free */
int datadir_make_layout(const struct datadir *d, uint32_t layout, struct buf *error); /* the folder, if it is not there */
void datadir_keep_layout_aside(const struct datadir *d, uint32_t layout);             /* under the name layout-N.corrupt */
void datadir_remove_other_layouts(const struct datadir *d);                           /* but not what was kept aside */

/* A seed that nobody can guess, for a server without a data directory too. */
uint64_t datadir_random_seed(void);
