/* Start: from the data directory back to the served state.
 *
 * The log of the layout in use is replayed into the stores. When it was written for another number of shards, or is much larger than what it amounts to, the state is
 * written out as a new layout: all of it into a fresh log next to the old one, synced; then the identity file names the new layout in one atomic step; then the old one goes. A crash before that step
 * leaves the old layout in use and the rest of the new one to be removed; a crash after it, the other way round. */
#pragma once
#include "server/datadir.h"
#include "server/server.h"

/* Fills the engine's stores and opens s->wal. False: the reason is logged, nothing on disk was lost. */
bool recover(struct server *s, struct datadir *d);
