/* SNAPSHOT.EXPORT: the strings of a database, as they were at one moment, fetched by a client piece by piece.
 *
 * A thread of its own takes the rows from a walk at one cut (shard/livefeed.h) and writes them to a temporary file as fast as they come; the client fetches them from there. So the walk never
 * waits for a client, however slow it is: no writer is held back, no dump waits in line behind it, and what is in memory is a piece or two. The price is a file of the size of the strings, which
 * has no name and goes with the export.
 *
 * An export belongs to the connection that began it and ends with it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "resp/reply.h"

struct exporter;
struct export;
struct errands;
struct server;

enum { EXPORTER_MAX = 4 /* at a time */ };

struct exporter *exporter_new(struct server *s);
/* After the workers have ended and the walk is stopped: gives up what is running and waits for its end. Before the workers are freed; then exporter_free. */
void exporter_stop(struct exporter *e);
void exporter_free(struct exporter *e);
struct errands *exporter_errands(struct exporter *e); /* the threads on which exporter_next may wait */

/* ---- the connection's worker; neither blocks */
struct export_options {
    uint16_t db;
    bool others; /* keys of other types are named; else they are only counted */
};
struct export *exporter_begin(struct exporter *e, const struct export_options *o); /* NULL: as many as there may be are running */
void exporter_end(struct exporter *e, struct export *x);

/* Answers the next piece, or an empty one if none came for a moment: a map
 *     more        1: ask again; 0: this was the last piece
 *     cut_ms      the moment, unix; 0: it waits for its cut
 *     keys_done, keys_total    how far the walk is, of all keys that the shards held
 *     left_out    keys of other types, unless these are named
 *     others      their names
 *     rows        key, value, key, value, ...
 * or the error that ended the export. False: there is nothing more to come. May block for a moment. */
bool exporter_next(struct export *x, struct reply *out);

/* ---- any thread */
struct exporter_info {
    uint64_t running, begun, completed, failed;
    uint64_t file_bytes; /* of those that are running */
};
struct exporter_info exporter_info(struct exporter *e);
