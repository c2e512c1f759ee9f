/* The server: configuration, engine, one front per worker thread, and what they share.
 * Fields without a remark are set before the threads start and never change. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/slog.h"
#include "server/config.h"
#include "shard/engine.h"

struct front;
struct sampler;
struct totals_base;
struct pubsub;
struct slowlog;
struct wal;
struct journal;
struct file_ops;
struct file_uring;
struct pager;
struct dumper;
struct topology;
struct rangekeeper;
struct walk;
struct error_counts;
struct recovery;
struct snapserve;
struct publisher;
struct exporter;
struct clusternode;
struct clusterpub;
struct node;
struct relay;

struct server {
    struct config *config;
    struct slog log;
    struct command_table *commands;
    struct engine *engine;
    struct pager *pager;
    struct front **fronts; /* [engine->n_workers] */
    const struct file_ops *files;  /* the disk, for the log */
    struct file_uring *file_uring; /* NULL: plain calls */
    _Atomic(struct wal *) wal;         /* NULL: ephemeral, or still loading */
    _Atomic(struct journal *) journal; /* NULL: ephemeral, or still loading */
    _Atomic(struct dumper *) dumper;   /* NULL: ephemeral, or still loading */
    _Atomic(struct walk *) walk;       /* NULL: still loading */
    struct recovery *recovery;         /* server/recover.h; NULL: ephemeral */
    struct topology *topology;         /* shard/topology.h */
    struct rangekeeper *rangekeeper;   /* server/rangekeeper.h */
    struct publisher *publisher;       /* server/publisher.h */
    struct exporter *exporter;         /* server/exporter.h */
    struct snapserve *snapserve;       /* server/snapserve.h; NULL: the server is a live one */
    struct clusternode *clusternode;   /* server/clusternode.h; NULL, and so are the next three: the server is no node of a cluster */
    struct node *node;                 /* cluster/node.h */
    struct relay *relay;               /* server/relay.h */
    struct clusterpub *clusterpub;     /* server/clusterpub.h */
    struct pubsub *pubsub;
    struct slowlog *slowlog;
    struct sampler *sampler;
    struct totals_base *totals;
    struct error_counts *errors; /* server/stats.h */
    const char *io_backend;
    char run_id[41];
    int64_t started_ms;

    _Atomic uint64_t next_client_id;
    _Atomic uint64_t connections_total, connections_rejected, connections_closed_by_limit, connections_closed_by_query;
    atomic_uint connections, blocked;
    _Atomic int64_t pause_until_ms;     /* CLIENT PAUSE; 0: no pause */
    _Atomic int64_t pause_all_until_ms; /* reads are held so long; only writes afterwards */
    atomic_bool active_expire;      /* DEBUG SET-ACTIVE-EXPIRE */
    atomic_bool stopping;
    atomic_bool loading;            /* the loader has the shards' tokens */
    _Atomic uint64_t changes_dumped; /* of durability_changes: those that the last dump has, or a few less */
    uint64_t changes_at_dump;        /* the dumper's thread's: those when it began */
    _Atomic uint64_t replay_errors; /* records that were damaged or did not fit at the last start */
    atomic_int drop_error;          /* of log files that a dump covers, a negative errno; 0: none */
    atomic_int write_error;         /* of the log, a negative errno: writes are refused; 0: none */
    atomic_bool bytes_unknown;      /* maxmemory was just set: the shards' byte counts are of some time ago */
    _Atomic uint64_t data_limit;    /* maxmemory-policy cold: what the data may take, so that the process keeps to maxmemory */
    int64_t next_limit_ms, next_purge_ms; /* the evictor's, on front 0 */
    _Atomic uint64_t peak_bytes;    /* highest used memory seen: server/sampler.h */
};

/* Runs until SIGTERM, SIGINT or SHUTDOWN. Gives the exit code; errors are logged. */
int server_run(struct config *config);

/* The table of all commands, as the server has it: also for docs and the command line. */
struct command_table *server_commands(void);
/* The same with each row as row_of makes it: for a server that is no plain one. */
struct command_table *server_commands_changed(struct command (*row_of)(const struct command *live));

/* Bytes that count against maxmemory: live bytes of all shards, each as of its last release. */
uint64_t server_used_bytes(const struct server *s);

/* Stops the server as SIGTERM does; any thread. */
void server_stop(struct server *s);
