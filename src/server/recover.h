/* Start: from the data directory back to the served state, while clients can already connect.
 *
 * recover_hold, before the workers start, takes every shard's token, so that nothing but the loader gets at the stores, and marks the server as loading: commands that need a shard answer -LOADING
 * meanwhile. recover_start has the layout in use loaded (server/loader.h) on threads of its own; when that is done the log is opened, `loaded` is called, and the tokens go to their
 * shards' home workers.
 *
 * If the layout was written for another number of shards, the state is written out as a dump set of a new layout next to the old one (server/relayout.h), synced; then the identity file names the new
 * layout in one atomic step; then the old one goes. A crash before that step leaves the old layout in use and the rest of the new one to be removed; a crash after it, the other
 * way round. A layout in which something was damaged is kept as layout-N.corrupt. */
#pragma once
#include "server/datadir.h"
#include "server/server.h"
#include "shard/dumper.h"

void recover_hold(struct server *s);
/* Called on the recovery's thread with all tokens held, s->wal open and the stores full; clears s->loading. Told the folder of the layout in use and what its newest dump set is. */
typedef void recover_loaded(struct server *s, const char *layout, const struct dumper_past *newest);
void recover_start(struct server *s, struct datadir *d, recover_loaded *loaded); /* keeps d */
/* After s->stopping was set: waits for the recovery's end. False: it had failed, the reason is logged and nothing on disk was lost. */
bool recover_join(struct server *s);
void recover_free(struct server *s); /* after the workers have ended */

/* Tells on the log how far the loading is, about once a second; front 0's cron. */
void recover_tick(struct server *s, int64_t now_ms);

struct recover_progress {
    int64_t start_ms;
    uint64_t total_bytes, loaded_bytes; /* total 0: the files are still being checked */
};
/* While s->loading; any thread. */
void recover_progress(const struct server *s, struct recover_progress *out);
