/* The topology of a node's own shards: which key space, and which range of it, is where; and how that changes while the server runs.
 *
 * What is in force is the engine's map (route/spaces.h). What is durable are its records in the system databases (route/spacerecord.h): a change applies their ops and puts the new map into force under
 * the same tokens, so the log has the one with the other. Shard 0's token is always among them: changes follow each other.
 *
 * Two kinds of work follow from a change and are done in slices, between which everything else goes on:
 *   ordering   every store's key index is brought in line with the map: a space that is ordered now is indexed, one that is not is dropped
 *   moving     keys are carried to where they belong, from the lowest on, and the boundary behind them; keys, descriptor and map change in one slice, so a crash anywhere leaves a state that routes
 * A move waits for the ordering that it needs, begins by itself, and goes on after a restart.
 *
 * Changes are made by whoever holds the tokens; the slices run as tasks of worker 0, with rests between them. Without a running server (tests) topology_step does them. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shard/engine.h"

struct topology;

struct topology_stats { /* any thread */
    uint64_t ordered;        /* entries looked at by orderings */
    uint64_t moved_keys, moved_bytes;
    uint64_t moves, slices;  /* moves that are done; slices of moving */
    uint64_t longest_slice_us;
    uint64_t unreadable;     /* slices that stopped at a cold value that cannot be read */
};

/* Keeps e; its stores ask from now on which keys are ordered. The engine's workers need not be there yet. */
struct topology *topology_new(struct engine *e);
void topology_free(struct topology *t);

/* The stores have been loaded, and no worker touches them: the map comes into force and every ordered key is indexed. Gives 0, or -EINVAL and which record does not fit. */
int topology_load(struct topology *t, struct buf *error);

/* The map that the records in these stores make, [route->shards]. NULL: they have none; or, if error got a text, it does not fit together. */
struct space_map *topology_read(const struct route *route, struct store *const *stores, struct buf *error);

/* ---- with the tokens of shard 0 and of every shard whose records or keys the change concerns */

/* The map to make changes from: that in force, or one without any spaces. */
const struct space_map *topology_map(struct topology *t);
uint64_t topology_new_id(struct topology *t); /* never given before, on this data directory */
/* Puts a map into force that was made from topology_map, and its records into the stores. Takes it. w as in engine_set_map. */
void topology_put(struct topology *t, struct worker *w, struct space_map *next);

/* ---- a node of a cluster: its map comes from elsewhere, and names groups */

/* The map comes into force, after those before it; and stores put in order what it has ordered. Worker 0. Takes it. */
void topology_follow(struct topology *t, struct worker *w, struct space_map *next);

/* With this shard's token: all its keys of the space are in its key index. False: the space is not ordered, or not yet. */
bool topology_is_ordered(const struct topology *t, uint32_t shard, struct slice space);

/* With this shard's token: all its keys that no ordered space has are in order, too, together (store_line). If that was not wanted so far, it is from now on, until the line is let go. */
bool topology_line_is_ordered(struct topology *t, uint32_t shard);
/* With its token. Lines that are left when no interval of the hash moves go with the next map. */
void topology_let_line_go(struct topology *t, uint32_t shard);

/* ---- the work that follows */

void topology_tick(struct topology *t, struct worker *w); /* worker 0, in every turn: runs, or sends off, the next slice if it is due */
int topology_wait_ms(const struct topology *t);           /* worker 0: when that is; -1: when something has changed, or the slice under way is back */
/* One slice, here and now, with every token at hand: for tests without workers' loops. False: nothing is left to do. */
bool topology_step(struct topology *t, struct worker *w);

void topology_stats(const struct topology *t, struct topology_stats *out);
