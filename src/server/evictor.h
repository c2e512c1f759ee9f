/* maxmemory: one number for the whole server, kept by evicting before a command that needs memory runs, and by upkeep when the limit itself was lowered or values that were read came
 * back to memory. With the policy cold nothing is deleted: values go to the cold tier (docs/COLD.md). */
#pragma once
#include "server/server.h"

enum evictor_room {
    EVICTOR_ROOM,
    EVICTOR_NO_ROOM, /* and nothing may go */
    EVICTOR_LATER,   /* values are on their way to disk: try again in a moment */
};

/* Evicts by the configured policy until the live bytes of all shards together are within maxmemory. Called with no token held. */
enum evictor_room evictor_make_room(struct worker *w, struct server *s);

/* A slice of the same in the background; true while there is more. Called with no token held. */
bool evictor_step(struct worker *w, struct server *s);

/* In every turn of one thread: looks now and then how much the process occupies, for the policy cold. */
void evictor_tick(struct server *s, int64_t mono_ms);

/* The process occupies so much beyond its data that it pays to look for holes in the arenas. */
bool evictor_wants_compaction(const struct server *s);

/* For a loader that is alone with a store and may wait: chills until it takes no more than one of `share` equal parts of the limit. To be called every few hundred keys. With another policy than
 * cold it does nothing. */
void evictor_load(struct server *s, struct store *store, unsigned share);
