/* maxmemory: one number for the whole server, kept by evicting before a command that needs memory runs, and by upkeep when the limit itself was lowered. */
#pragma once
#include "server/server.h"

/* Evicts by the configured policy until the live bytes of all shards together are within maxmemory. False: they are not, and nothing may go. Called with no token held. */
bool evictor_make_room(struct worker *w, struct server *s);

/* A slice of the same in the background; true while there is more. Called with no token held. */
bool evictor_step(struct worker *w, struct server *s);
