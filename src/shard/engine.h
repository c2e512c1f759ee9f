/* The engine: shards, the workers that run them, and the one way work passes between threads.
 *
 * A shard is a store and a token. Whoever holds the token is, for that moment, the shard's one thread. A worker takes the token of
 * the shard it needs with one compare-and-swap and runs the command itself, its home shard or a foreign one alike; only if the
 * token is busy the work goes into the shard's mailbox, and whoever holds the token runs it. A worker also has an inbox: finished
 * work, handed-over tokens, messages from other workers.
 *
 * Rules
 *  R1. Nothing blocks, sleeps or does I/O under a token.
 *  R2. A token is set free only after its mailbox was seen empty. engine_post pushes and then looks at the token; engine_release
 *      frees the token and then looks at the mailbox; all four are seq_cst, so one of the two sees the other: no message is lost,
 *      and none needs a wake-up.
 *  R3. Tokens held together are taken in ascending order of shards. A task that meets a busy one travels into that shard's
 *      mailbox and keeps the lower ones: no thread waits for a token, so there is no deadlock; mailboxes are FIFO, so there is
 *      no starvation.
 *  R4. A worker's inbox is pushed first and its `sleeping` flag read after (seq_cst); the worker sets the flag first and looks
 *      at the inbox after.
 *  R5. Running a mailbox or a command never recurses: a task that needs another token goes to the worker's runnable list, a token that becomes
 *      free meanwhile is released (and its mailbox run) afterwards. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hist.h"
#include "base/rng.h"
#include "command/command.h"
#include "route/place.h"
#include "store/store.h"

struct worker;
struct shard;
struct task;
struct request;
struct engine;
struct loads;
struct seating;
struct thaws;
struct topology;
struct wal;

/* A message. Embedded in what it carries; belongs to whoever it was sent to until its function has run. */
struct mail {
    struct mail *next;
    void (*to_worker)(struct worker *w, struct mail *m);                 /* run by the worker it was sent to */
    bool (*to_shard)(struct worker *w, struct shard *s, struct mail *m); /* run by the token's holder; false: took the token along */
};

typedef _Atomic(struct mail *) mailbox;

struct shard_stats { /* written by the token's holder, read by anyone: relaxed */
    uint64_t ops, local, foreign;
};

struct shard_numbers { /* as of the last engine_publish_numbers; written by the token's holder, read by anyone: relaxed */
    uint64_t keys[STORE_DBS], expiring[STORE_DBS];
    uint64_t heap_bytes; /* of the live bytes: those in the process heap */
    uint64_t cold;       /* keys whose value is on disk */
};

struct shard {
    _Alignas(64) atomic_uint token; /* 1: held */
    uint16_t id, home;              /* home: the worker that does its background work and gets the token from tired helpers */
    struct store *store;
    struct mail *backlog;           /* the token's holder's: the rest of a drain that was cut short */
    struct shard_stats stats;
    struct shard_numbers numbers;
    _Atomic uint64_t bytes;         /* live bytes of the store as of the last engine_publish */
    _Alignas(64) mailbox inbox;
    atomic_uint depth;              /* messages posted and not yet run */
    struct mail handover;
};

struct command_stat { /* of one command on one worker; relaxed */
    uint64_t calls, ticks, rejected, failed;
    struct hist *hist; /* made at the first call */
};

struct worker_stats { /* relaxed; one writer */
    uint64_t commands, turns, travelled, handovers, helped;
    uint64_t cpu_us; /* as of its last cron */
};

struct worker {
    struct engine *engine;
    uint16_t id;
    int wake_fd;               /* eventfd: written to end its sleep */
    struct task *runnable;     /* tasks that can go on, oldest first */
    struct task **runnable_end;
    bool occupied;                /* a mailbox or a command is being run */
    struct shard **release_later; /* tokens to release when that is over */
    uint32_t n_release_later, cap_release_later;
    int64_t now_ms;            /* the turn's time, */
    int64_t mono_ms;           /* and that of a clock which nobody sets: for what waits */
    uint64_t now_ticks;        /* when it was read */
    struct rng rng;
    struct exec x;             /* the running command; constant parts filled once */
    struct command_stat *commands; /* [command_places] */
    struct worker_stats stats;
    _Alignas(64) mailbox inbox;
    _Alignas(64) atomic_bool sleeping;
};

struct engine_hooks { /* what the server adds; called on any worker thread; may be NULL */
    void (*slow)(void *ctx, const struct task *t, const struct exec *x, uint64_t ticks); /* a command took slow_ticks or longer */
    void (*error)(void *ctx, struct worker *w, struct slice text);                       /* a command answered an error */
    /* A request that runs others (EXEC) has to find its shards again: as it did at first, with task_add_shard. */
    void (*route)(void *ctx, struct task *t, struct request *r);
    void (*mapped)(void *ctx); /* another map of key spaces is in force */
    void *ctx;
};

struct engine {
    struct route route;
    uint64_t random; /* seed of everything that is left to chance */
    struct store **stores; /* [route.shards] */
    struct shard *shards;
    struct worker **workers;
    uint32_t n_workers;
    const struct command_table *commands;
    struct store_limits limits;
    struct exec_host host;
    struct engine_hooks hooks;
    uint64_t ticks_per_ms;
    const struct wal *_Atomic wal; /* where the stores' ops go; NULL: there is no log, or not yet */
    struct topology *topology;   /* of key spaces (shard/topology.h); NULL: there are none */
    struct loads *loads;         /* of ranges (shard/load.h); NULL: nobody asks for them */
    struct thaws *thaws;         /* of cold values (shard/thaw.h); NULL: there are none */
    const struct seating *seating; /* of a cluster's groups (shard/seating.h); NULL: the shards are this server's own */
    _Atomic uint64_t slow_ticks; /* UINT64_MAX: never */
    atomic_bool track_latency;
    atomic_bool reads_wait;  /* answers of reads wait for the log as those of writes do: the policy is to sync every write */
    atomic_bool count_bytes; /* publish each shard's bytes after every command: maxmemory is set */
    struct engine_maps *maps; /* those of before that some worker may still be looking at */
};

/* Shards without workers yet; hooks, host and limits are the caller's to fill before the first command. seed is that of the key hash; r is a random number, a
 * new one each time: it chooses random members, and orders of tables. */
struct engine *engine_new(uint32_t shards, uint64_t seed, uint64_t r, const struct command_table *commands);
void engine_free(struct engine *e);
void engine_init_worker(struct worker *w, struct engine *e); /* joins the engine, which keeps it; before the threads start */
void engine_fini_worker(struct worker *w);

/* A new map of key spaces comes into force; takes m. The caller holds the token of shard 0, so maps follow each other, and those of all shards that lose or get a key by it; w is NULL before the threads start.
 * Requests that were routed before are routed again when they have their tokens. */
void engine_set_map(struct engine *e, struct worker *w, struct space_map *m);

/* ---- tokens */
static inline bool engine_try(struct shard *s)
{
    unsigned free_token = 0;
    return !atomic_load(&s->token) && atomic_compare_exchange_strong(&s->token, &free_token, 1);
}
void engine_release(struct worker *w, struct shard *s);
void engine_send_token_home(struct engine *e, struct shard *s); /* held by a thread that is no worker: the home worker gets it and releases it */
void engine_release_rest(struct worker *w); /* what came free during a command that held no token itself */
void engine_publish(struct shard *s); /* under the token: makes its byte count visible to all */
void engine_publish_numbers(struct shard *s); /* under the token: and how many keys there are */
void engine_post(struct worker *w, struct shard *s, struct mail *m); /* takes m */

/* ---- workers */
void engine_send(struct engine *e, uint32_t to, struct mail *m); /* takes m; any thread */
/* For a thread that has much to send: engine_put sends without waking anybody, and engine_wake, when all is put, wakes whoever sleeps over his mail. So a worker is woken once for all of it. */
void engine_put(struct engine *e, uint32_t to, struct mail *m);
void engine_wake(struct engine *e);
void engine_receive(struct worker *w);                           /* runs the inbox */
bool engine_may_sleep(struct worker *w);                         /* announces sleep; false: there is work, do not */
void engine_awake(struct worker *w);
void engine_clock(struct worker *w);                             /* reads the clocks into now_ms and mono_ms */

/* The worker that runs this command. */
static inline struct worker *engine_worker_of(struct exec *x) { return (struct worker *)((char *)x - offsetof(struct worker, x)); }

/* Counters with one writer that others may read. */
#define STAT_ADD(counter, n) \
    __atomic_store_n(&(counter), __atomic_load_n(&(counter), __ATOMIC_RELAXED) + (n), __ATOMIC_RELAXED)
#define STAT_GET(counter) __atomic_load_n(&(counter), __ATOMIC_RELAXED)
