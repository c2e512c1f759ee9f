/* A task: parsed requests on their way through the shards they need.
 *
 * The requests of a task run in order, each under the tokens of its shards, their replies appended to one buffer in that order. The thread that starts a task runs
 * it as far as tokens are free. At a busy token the task itself travels into that shard's mailbox, with all that is left of it, and
 * goes on wherever the token is: replies stay in order, later requests never overtake earlier ones, and a crossing costs no wake-up. When
 * the last request has run, the task returns to its home worker.
 *
 * Ownership: a task and everything it points to belong to the thread that is running it; posting hands it over. */
#pragma once
#include "shard/engine.h"

struct hold;
struct thaw;
struct waiter;

enum request_kind {
    REQUEST_ONE,  /* one shard */
    REQUEST_MANY, /* several (or no) shards, held together: task->shards[first_shard ...] ascending */
    REQUEST_EACH, /* every shard in turn, from `shard` on; if keys move between shards meanwhile it begins again, as REQUEST_MANY of all */
};

struct request {
    const struct command *cmd;
    uint32_t first_arg, argc; /* in task->args */
    uint64_t hash;            /* of the first key, if have_hash */
    uint64_t routed;          /* the map's version that its shards were found with (route/place.h) */
    uint32_t shard;           /* REQUEST_ONE: it; of a command that visits shards: the first */
    uint32_t first_shard, n_shards; /* REQUEST_MANY */
    uint32_t first_hash, n_hashes;  /* REQUEST_MANY: of its keys, in task->hashes */
    uint32_t group;           /* in a cluster (shard/seating.h): that of its keys, or the one that was named */
    uint8_t kind;
    uint8_t flaw;             /* 0: fine; else the connection's reason not to run it */
    bool have_hash;
    bool touched;             /* its entry was prefetched */
    bool at_home;             /* must run on the home worker: it touches what only that may touch */
    bool strayed;             /* an attempt whose keys have moved: it holds the shards that it stands in line at, and the new ones */
};

/* In a cluster: what a request that another node routed says of itself. The fence is where its sender's map has its first key: the request is refused when it is to run if the map here, under the tokens, has it in another
 * group; or, being a newer one, in another range or at another generation. The number is what a write is known by if it comes again (cluster/once.h). */
struct ticket {
    uint64_t map; /* version of the sender's; 0: there is no fence */
    uint64_t range, generation;
    uint32_t group;
    uint32_t front, slot;        /* of the sender's */
    uint64_t node, session, seq; /* seq 0: it has no number */
    bool again;                  /* of the task's requests some were sent before, and may have happened */
    uint64_t term;               /* in which the sender's replica of the group was when it sent it; 0: it did not say */
};

struct task {
    struct mail mail;
    struct task *next_runnable;
    void (*finish)(struct worker *w, struct task *t); /* called on the home worker when done, unless it ended where it began */
    void (*served)(struct worker *w, struct waiter *wt); /* handed to the waiter of a request that blocks (shard/wait.h), and so are the next two */
    void (*turn)(struct worker *w, struct waiter *wt);
    void *owner;
    /* Instead of requests: called once, with the tokens of its shards held (task_init_all, task_init_some). Must not block. */
    void (*with_all)(struct worker *w, struct task *t);
    void *session;           /* handed to commands */
    struct waiter *waiter;   /* this task is the attempt of a blocked command */
    struct thaw *thaw;       /* cold values that the request at pos needs (shard/thaw.h) */
    struct waiter *blocked;  /* set when the request at pos - 1 blocked: the task ended there */
    struct request *requests;
    const struct ticket *tickets; /* of its requests, if they came from another node; the owner's, and there before they are added */
    struct slice *args;
    uint16_t *shards;
    uint64_t *hashes;
    uint32_t n_requests, n_args, n_shards, n_hashes;
    uint32_t cap_requests, cap_args, cap_shards, cap_hashes;
    uint32_t pos, end;       /* requests [pos, end) are to run */
    uint64_t epoch;          /* of the log: the last one that an op of this task went into */
    uint64_t seen;           /* of the log: the last one that a read of this task may have shown; 0: that does not matter */
    struct hold *holds;      /* in a cluster: one for each request that ran or bounced (shard/seating.h) */
    uint32_t n_holds, cap_holds;
    uint32_t held;           /* REQUEST_MANY: tokens taken so far; REQUEST_EACH: shards visited */
    struct buf *out;
    size_t reply_at;         /* where the reply of the request that runs, or has just run, begins in it */
    size_t out_max;          /* when out has grown to this the task ends early, so that its owner can send; 0: no limit */
    struct buf carry;        /* REQUEST_EACH */
    int64_t carry_n;
    uint64_t carry_ticks;
    uint16_t home, db;
    uint8_t resp;
    bool no_touch;           /* its commands do not count as uses of keys */
    bool stale;              /* in a cluster: its reads are content with what this node's replica has */
    bool proves;             /* in a cluster: its owner sees to it that this node leads what it shows (struct hold) */
    bool sync;               /* still on the thread that started it */
};

/* Adds a request with these arguments (slices are copied, bytes are not) and finds its shards. */
struct request *task_add(struct task *t, const struct engine *e, const struct command *cmd, const struct slice *argv, uint32_t argc);
/* The same for a command that may be a group's own (CMD_OF_GROUP): it goes to this group. Others go to that of their keys. */
struct request *task_add_to(struct task *t, const struct engine *e, uint32_t group, const struct command *cmd, const struct slice *argv, uint32_t argc);
/* The fence of a request that goes to another node. */
void task_fence(const struct engine *e, const struct command *cmd, const struct slice *argv, uint32_t argc, struct ticket *out);
/* As task_add for a request whose shards are the union of others': start empty, add shards, then sort. */
void task_add_shard(struct task *t, struct request *r, uint32_t shard);
void task_add_all_shards(struct task *t, struct request *r, const struct engine *e);
/* A waiter's request that strayed has been put in line at the new places of its keys: from now on it needs no other shards. */
void task_settle(struct task *t, const struct engine *e);
/* Makes a task that takes the tokens of these shards, or of all, and then calls fn. */
void task_init_some(struct task *t, const struct engine *e, const uint32_t *shards, uint32_t n, void (*fn)(struct worker *w, struct task *t));
void task_init_all(struct task *t, const struct engine *e, void (*fn)(struct worker *w, struct task *t));
void task_clear(struct task *t); /* no requests; memory is kept */
void task_fini(struct task *t);

/* Touches the entry that the request at pos needs, if its shard is free just now: for the owner of many tasks that will start soon. */
void task_touch(struct worker *w, struct task *t);

/* Runs requests [pos, end). True: all done here. False: the task is on its way and no longer ours; finish will be called. */
bool task_start(struct worker *w, struct task *t);
/* Runs what the worker can go on with; call after anything that may release tokens. */
void task_pump(struct worker *w);
void task_schedule(struct worker *w, struct task *t); /* joins the runnable list */

/* A waiter's one-shard command again, under that shard's token. True: it answered, or has a turn and found nothing, and is on its way home. */
bool task_attempt(struct worker *w, struct task *t, struct shard *s);

/* Runs one command whose tokens are held: for EXEC, which runs many. Sets up everything but x->session and x->out. */
void task_run_command(struct worker *w, struct task *t, const struct command *cmd, const struct slice *argv, uint32_t argc);
/* Brings the shard's clock up to the worker's; after taking a token by hand. */
void task_enter(struct worker *w, struct shard *s);
