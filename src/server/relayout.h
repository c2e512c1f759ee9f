/* Another number of shards: what some stores hold goes into the stores where it belongs now, and on disk as a dump set of a new layout.
 *
 * Every key goes where the map of key spaces, brought to the new number of shards (spaces_reshard), says; so do the map's own records, locks on parts of spaces, and all others with the shard that they were in.
 *
 * The set is whole and durable when relayout_write succeeds; naming the layout in the identity file is the caller's step, and the one that counts. The log of the new
 * layout begins behind RELAYOUT_EPOCH, so that without its dump set it would be refused, not taken for everything. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/compress.h"
#include "shard/dumper.h"

struct file_ops;
struct store;

enum { RELAYOUT_EPOCH = 1 };

struct relayout {
    const struct file_ops *files;
    const char *dir; /* the new layout's folder, which is there and empty */
    uint32_t shards; /* the new number */
    uint64_t seed;
    enum compress_profile profile;
    size_t min_size;
    bool threads;            /* one per new shard; else the caller's does everything */
    const atomic_bool *stop; /* when it becomes true it ends soon with -ECANCELED; may be NULL */
    void (*relieve)(void *ctx, struct store *s); /* called now and then on the thread that fills s, one of `to`; NULL: none */
    void *relieve_ctx;
};

/* from keeps its content; to are empty stores, [shards]. Gives 0 and what the set is, or -errno (-EINVAL: the records of key spaces do not fit together) and a reason. */
int relayout_write(const struct relayout *r, struct store *const *from, uint32_t n_from, struct store *const *to, struct dumper_past *written, struct buf *error);
