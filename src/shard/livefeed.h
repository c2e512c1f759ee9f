/* The strings of one database of all shards at one moment, as the input of a snapshot: what SNAPSHOT.PUBLISH builds from.
 *
 * A thread of its own runs the walk (shard/walk.h), waiting its turn, and hands what comes to whoever reads the input; if nobody reads, the walk stands still. Keys of other types are left out
 * and counted, or, if the feed is strict, given as bad rows, which have a key. Keys whose time had run out at that moment are left out too; times to live are not part of a snapshot. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shard/walk.h"
#include "snapshot/input.h"

struct livefeed_options {
    uint16_t db;
    bool strict; /* keys of other types are bad rows */
    const atomic_bool *cancel; /* when it becomes true the feed ends soon, failed; NULL: it never does. Kept */
};

/* Keeps the walk. input_free gives the walk up, if it has not ended, and waits for its end. */
struct input *livefeed_open(struct walk *w, const struct livefeed_options *o);

/* Of an input that livefeed_open gave; any thread, as long as it is not freed. */
struct livefeed_progress {
    uint64_t keys_done, keys_total; /* that the walk has passed, of those that all shards hold */
    uint64_t rows;     /* that were read */
    uint64_t left_out; /* of other types */
    int64_t cut_ms;    /* the moment, unix; 0: not yet */
};
struct livefeed_progress livefeed_progress(struct input *in);
