/* Errands: commands whose answer may take long to make, because it comes from an object store. They run on threads of a pool; the connection is away meanwhile, as if its task travelled, and
 * all others go on. Replies stay in order: nothing else of that connection runs before its errand is back. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "resp/reply.h"

struct errands;
struct conn;
struct exec;
struct server;

/* What a command of this kind sees: it may block, and it has no shard. */
struct errands_call {
    struct server *server;
    struct conn *conn; /* which is away, or whose worker this is */
    const struct slice *argv; /* argv[0] is the command's name */
    uint32_t argc;
    struct reply *out;
};
typedef void errands_fn(struct errands_call *c);

struct errands *errands_new(struct server *s, unsigned threads); /* they start with the first errand */
/* After the workers have ended. Waits for those that are under way. */
void errands_free(struct errands *e);

/* The running command, which is of CLASS_LOCAL, is answered by fn: on another thread, */
void errands_send(struct errands *e, struct exec *x, errands_fn *fn);
/* or here and now: fn will not block. */
void errands_run_here(struct exec *x, errands_fn *fn);
