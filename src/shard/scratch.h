/* A scratch store: commands run on copies of keys, and what they would write, and tell of, is noted instead of done. For transactions over several groups (docs/decisions/020): the coordinator has none of the groups' stores, but all that the
 * commands need of them.
 *
 * One thread. What is put in is a key's entry as dump/dumpfile writes it; databases as ever. Keys that were not put in are absent. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct command;
struct engine;
struct entry;
struct scratch;
struct worker;

struct scratch *scratch_new(const struct engine *e); /* with the engine's limits and seed; keeps e */
void scratch_free(struct scratch *s);
void scratch_clear(struct scratch *s); /* nothing is in it, and nothing noted */

/* An entry, of the key and database that it names; false: it is none, and nothing was put in. */
bool scratch_put(struct scratch *s, struct slice raw);

struct scratch_request {
    const struct command *cmd;
    const struct slice *argv;
    uint32_t argc;
    uint16_t db;
    uint8_t resp;
    int64_t now_ms; /* of the whole transaction: nothing expires under it */
    void *session;  /* handed to the command */
    unsigned events; /* those that are noted: a set of enum notify_class */
};
/* Runs one command, as one of a transaction, on the worker's own struct exec, which is as it was afterwards. Its reply is appended to out. */
void scratch_run(struct scratch *s, struct worker *w, const struct scratch_request *r, struct buf *out);

/* The ops that were noted, in their order, as log/opcode writes them, each told with its database and key. */
void scratch_ops(const struct scratch *s, void (*each)(void *ctx, uint16_t db, struct slice key, struct slice op), void *ctx);

struct scratch_event {
    unsigned event_class; /* of enum notify_class */
    const char *name;
    uint16_t db;
    struct slice key;
};
/* The events that were noted, in their order. */
void scratch_events(const struct scratch *s, void (*each)(void *ctx, const struct scratch_event *e), void *ctx);
