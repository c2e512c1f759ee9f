/* A client's connection: bytes in, requests parsed and admitted, tasks started, replies out in order.
 *
 * A connection belongs to one front (thread) for life. While its task travels through foreign shards (`away`) or its command waits for
 * a key (`waiter`), nothing more of it is parsed; bytes that arrive meanwhile are kept. While it is away, the thread that runs its task owns
 * the fields marked T; the front does not touch them. */
#pragma once
#include "base/buf.h"
#include "io/loop.h"
#include "resp/parse.h"
#include "server/server.h"
#include "shard/task.h"
#include "shard/wait.h"
#include "shard/watch.h"

struct digest;
struct front;
struct subscriptions;
struct relay_wait;
struct wave;
struct export;

enum reply_mode { REPLY_ON, REPLY_OFF, REPLY_SKIP_NEXT, REPLY_SKIP }; /* SKIP_NEXT: from the next command on */

/* Requests of one read, with the bytes they point into. Pooled by the front. */
struct batch {
    struct task task; /* first: a task of a connection is its batch */
    struct chunk *chunk;
    struct buf bytes;
    struct batch *next;
};

struct multi_command {
    const struct command *cmd;
    char *bytes; /* of the arguments */
    uint32_t first_arg, argc;
};

/* MULTI: the queued commands with bytes of their own. */
struct multi {
    struct multi_command *commands;
    struct slice *args;
    uint32_t n, cap, n_args, cap_args;
    bool broken;        /* a command was refused: EXEC aborts */
    bool writes;        /* one of them may not run while the log takes nothing */
    bool needs_memory;  /* one of them may not run above maxmemory */
    bool out_of_memory; /* and that is where we are: EXEC aborts */
};

struct conn {
    struct stream stream; /* first: a stream is its connection */
    struct front *front;
    struct conn *next, *prev; /* the front's list */
    struct conn *next_ready, *next_held;
    uint64_t id;

    struct parser parser;
    struct buf in;        /* an unfinished request, or bytes that came while busy */
    struct batch *batch;  /* parsed requests; NULL when idle */
    char *protocol_error; /* answered when everything before it is */
    struct buf out;       /* T: replies not yet sent */
    uint64_t epoch;       /* of the log: what must be durable before they may be; 0: nothing */
    uint64_t seen;        /* of the log: what of it they may show must be durable, too; 0: nothing */
    uint64_t dump_ticket; /* T: SAVE: and this dump must have ended; 0: none */
    size_t save_at;       /* T: where in `out` SAVE's answer stands */

    uint16_t db;            /* T */
    uint8_t resp;           /* T */
    uint8_t reply_mode;
    bool authenticated;
    bool ready;             /* on the front's ready list */
    bool away;              /* the task is on its way, or its wave is (server/relay.h) */
    bool errand;            /* T: it is so because of an errand (server/errands.h) */
    bool ended;             /* the peer sent its last byte */
    bool closing;           /* close as soon as nothing is under way */
    bool close_after_reply; /* T */
    bool paused;            /* held: by CLIENT PAUSE, or because it publishes too fast */
    bool held;              /* its replies wait for the log; it is on the front's list of such */
    bool in_multi;          /* T */
    bool no_evict, no_touch;
    bool stale;             /* in a cluster: its reads are content with what this node's replica has */
    bool is_unix;
    atomic_bool killed;     /* CLIENT KILL has sent for it: nobody sees it any more */
    struct multi multi;       /* T */
    struct watch_set watches; /* T */
    struct digest *digests;   /* T: on a node of a cluster: of watched keys (server/wideexec.h); NULL: none */
    struct wave *wave;        /* server/relay.h; NULL: none */
    struct relay_wait *wait;  /* likewise: the command that it is away for waits, or is about to */
    atomic_bool waits;        /* in line on some node: its output is the front's meanwhile. Read by other threads */
    struct export *export;    /* T: server/exporter.h; NULL: none */
    struct waiter *waiter;    /* its command waits for a key; changes under the front's lock */
    int64_t deadline_ms;      /* in the front's timer heap */
    int timer;                /* place there, -1: none */
    size_t reply_from;        /* where in the output the reply in progress begins */
    struct buf pushes;        /* messages that came while away or held */
    struct subscriptions *subs; /* NULL: none; changes under the front's lock */
    int64_t over_soft_since_ms; /* output above the soft limit */

    /* For CLIENT LIST, read by other threads: numbers relaxed, texts under the front's lock. */
    char *name, *lib_name, *lib_ver;
    char peer[64], local[64];
    int64_t since_ms, active_ms; /* by mono_ms */
    const struct command *last_command;
    uint64_t bytes_in, bytes_out, commands;
};

struct conn *conn_new(struct front *f, int fd, bool is_unix);
void conn_data(struct conn *c, struct chunk *chunk, char *p, size_t n); /* parses; conn_run comes later in the turn */
void conn_ended(struct conn *c, int error);
bool conn_drained(struct conn *c); /* true: it is closed by that */
void conn_run(struct conn *c);   /* runs what is parsed, as far as it goes */
void conn_close(struct conn *c); /* now or as soon as possible */
void conn_freed(struct conn *c); /* the loop has let go of it */

void conn_errand_done(struct conn *c, struct slice answer); /* of the command that it was away for */
/* Sets the batch's task up to run requests [pos, end). */
void conn_prepare_task(struct conn *c, uint32_t end);
void conn_wave_over(struct conn *c); /* that it was away for: the answers are in its output */
void conn_timeout(struct conn *c); /* its deadline has come */
void conn_add_unserved(struct conn *c, const struct command *cmd); /* the answer to a command that waited in vain; NULL: to one that was unblocked with an error */
/* CLIENT UNBLOCK: ends a wait that the caller has claimed (wait_claim), as by timeout or with an error. */
void conn_unblock(struct conn *c, bool with_error);
void conn_push(struct conn *c, struct slice message); /* out of band: after the reply in progress */
bool conn_may_send(const struct conn *c); /* the log allows its replies */
void conn_release(struct conn *c); /* the log has advanced: the held replies may go */
bool conn_check_limits(struct conn *c, int64_t mono_ms); /* false: it did not read its answers and was closed, perhaps freed */
bool conn_idle(const struct conn *c); /* nothing under way, nothing unsent */

/* The running command's connection. */
static inline struct conn *conn_of(const struct exec *x) { return x->session; }
