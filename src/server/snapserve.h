/* `sherd serve --snapshot URL`: a server whose data is a published snapshot, read-only, switched as a whole when a newer one is published.
 *
 * Shards that lie in local files are read where the connection lives; what has to be asked of the object store is asked by threads beside the workers (server/errands.h). A read keeps to
 * the snapshot on which it began; a pipeline may begin on one and end on the next. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "server/errands.h"

struct exec;
struct reader;
struct server;

/* Makes s->snapserve and opens the snapshot: blocks. False: the reason is logged. */
bool snapserve_open(struct server *s);
void snapserve_start(struct server *s); /* looks for newer ones from now on */
/* After the workers have ended. */
void snapserve_close(struct server *s);

enum snapserve_length { SNAPSERVE_SHORT /* some keys */, SNAPSERVE_LONG /* many, or a request to the store in any case */ };
/* Runs fn for the command: here, if it is short and everything it needs is in local files; else as an errand. */
void snapserve_run(struct exec *x, errands_fn *fn, enum snapserve_length length);
struct reader *snapserve_reader(const struct server *s);

/* ---- the answers of SNAPSHOT.REFRESH and its like; on an errand, for they ask the store */
void snapserve_refresh(struct errands_call *c);
void snapserve_use(struct errands_call *c, struct slice which);
void snapserve_rollback(struct errands_call *c, struct slice which);
void snapserve_history(struct errands_call *c, size_t limit);
void snapserve_describe(struct errands_call *c);

/* ---- SCAN: a cursor is a number that stands for the stored key behind which it goes on. False: it was given out too long ago, or never. */
uint64_t snapserve_keep_cursor(struct server *s, struct slice key);
bool snapserve_find_cursor(struct server *s, uint64_t cursor, struct buf *key);

uint64_t snapserve_rows(struct server *s);
void snapserve_info(struct server *s, struct buf *out); /* lines of INFO */
