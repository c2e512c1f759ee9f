/* A front: what a worker thread has besides its part of the engine: an event loop, listeners, connections, timers.
 *
 * A turn: wait for events; parse what came and touch the buckets it will need; run the inbox; run the parsed requests; upkeep. */
#pragma once
#include <semaphore.h>

#include "io/loop.h"
#include "server/conn.h"
#include "server/server.h"
#include "shard/engine.h"

struct movers;
struct relay_front;
struct topics;
struct wideranges;
struct wides;
struct widetxns;

struct listener_socket {
    int fd;
    bool is_unix;
};

struct front {
    struct worker worker; /* first: a worker of the server is its front */
    struct server *server;
    struct loop *loop;
    pthread_t thread;
    pthread_mutex_t lock; /* the list of connections and their texts: held for changes, and by readers on other threads */
    struct conn *conns;
    uint32_t n_conns;
    uint32_t n_unfreed; /* and those that are closed, but that the loop has not let go of */
    struct conn *ready, **ready_end; /* to be run in this turn */
    struct conn *held;               /* whose replies wait for the log */
    struct mail journal_mail;        /* the log has advanced */
    atomic_bool journal_told;        /* that mail is on its way */
    struct batch *spare_batches;
    struct slice *argv; /* the parser's scratch */
    uint32_t argv_cap;
    char last_name[16]; /* of the command found last, as it was written */
    uint32_t last_name_len;
    const struct command *last_command;
    struct conn **timers; /* a heap by deadline_ms */
    uint32_t n_timers, cap_timers;
    struct relay_front *relay; /* in a cluster: its part of server/relay.h; NULL: none */
    struct widetxns *txns;     /* in a cluster: server/widetxn.h; NULL: none */
    struct wideranges *ranges; /* likewise: server/widerange.h */
    struct wides *wides;       /* likewise: server/wide.h */
    struct movers *movers;     /* in a cluster, on the first front: server/movers.h; NULL: none */
    struct topics *topics; /* local subscribers: server/subscribe.h */
    int64_t next_cron_ms; /* by the worker's mono_ms, as the timers are */
    uint64_t cron_count;
    struct conn *cron_at; /* the next connection to look at */
    bool more_upkeep;     /* the last slice did not finish: go on soon */
    bool starving;        /* connections are paused until there is memory */
    bool stopping;
    struct mail stop_mail;
    struct listener_socket *listeners; /* until the loop has them */
    int n_listeners;
    sem_t *started;
    bool start_failed;
};

struct front *front_new(struct server *s);
void front_free(struct front *f);
bool front_start(struct front *f); /* starts the thread and waits for its loop; false: the error is logged */
void front_join(struct front *f);

void front_ready(struct front *f, struct conn *c); /* conn_run will be called in this turn */
void front_hold(struct front *f, struct conn *c);   /* until the log allows its epoch */
void front_unhold(struct front *f, struct conn *c); /* it closes */
void front_journal_advanced(struct front *f);       /* any thread */
void front_set_timer(struct front *f, struct conn *c, int64_t deadline_ms); /* 0: none */
struct batch *front_batch(struct front *f); /* an empty one */
void front_batch_put(struct front *f, struct batch *b);
void front_starve(struct front *f, struct conn *c); /* it needs memory that is being made: paused for a few milliseconds */
void front_unpause(struct front *f); /* runs the connections that a pause held */

static inline struct front *front_of(struct worker *w) { return (struct front *)w; }
