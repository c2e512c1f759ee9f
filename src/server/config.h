/* The configuration of a running server.
 *
 * Sources in rising precedence: defaults, the TOML file (--config), the environment (SHERD_PORT), the command line (--port). What is
 * unknown or malformed is refused by name. server/options.h has the table of options.
 *
 * Threads: every number is an atomic of its own, read by any thread with CONFIG_NUM (relaxed: one option's change needs no order with
 * another's). Texts that CONFIG SET may change (requirepass, cluster-secret) are reached through the functions below, which lock; texts
 * that are fixed at start may be read as they are. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "cluster/linksecret.h"

typedef _Atomic int64_t config_num;
#define CONFIG_NUM(cfg, field) atomic_load_explicit(&(cfg)->field, memory_order_relaxed)

/* Places in the lists of words of options.c; those of maxmemory-policy are enum evict_policy. */
enum config_debug { CONFIG_DEBUG_NO, CONFIG_DEBUG_YES, CONFIG_DEBUG_LOCAL };
enum config_recovery { CONFIG_RECOVERY_LENIENT, CONFIG_RECOVERY_STRICT };
enum config_io { CONFIG_IO_AUTO, CONFIG_IO_EPOLL, CONFIG_IO_URING };
enum config_client { CONFIG_CLIENT_NORMAL, CONFIG_CLIENT_REPLICA, CONFIG_CLIENT_PUBSUB, CONFIG_CLIENT_CLASSES };

struct config_clients {
    struct {
        config_num hard_bytes, soft_bytes, soft_seconds; /* 0: no limit */
    } of[CONFIG_CLIENT_CLASSES];
};

struct config {
    /* Where to listen. Fixed at start. */
    char *config_path; /* as given; "" if there is no file */
    char *bind;        /* words; see config_word */
    char *unixsocket;  /* "" for none */
    char *data;        /* the data directory */
    char *logfile;     /* "" for standard error */
    config_num port, unixsocketperm, tcp_backlog, workers, databases, ephemeral, io_backend, log_format;

    /* Durability. */
    config_num sync_policy; /* enum journal_policy */
    config_num recovery; /* enum config_recovery */
    config_num max_wal_size, snapshot_interval_s /* 0: never */, dumps_kept;
    config_num compression_profile /* enum compress_profile */, compression_min_size;

    /* Serving a published snapshot. Texts are fixed at start. */
    char *snapshot;       /* URL; "" for a live server */
    char *snapshot_cache; /* folder of downloads; "" for the usual one */
    config_num snapshot_refresh_s /* 0: never */, snapshot_mode; /* enum readstate_mode */

    /* Ranges that split, move and merge by themselves (server/rangekeeper.h). */
    struct {
        config_num automatic, split_bytes, split_ops, split_backlog, merge_bytes, merge_ops, sustain_s, settle_s, max_changes;
    } ranges;

    /* A node of a cluster (server/clusternode.h). Other texts than the secret are fixed at start. */
    struct {
        char *peers, *join;     /* words; see config_word */
        char *advertise;        /* host or host:port; "" for the first of bind */
        char *name, *zone;
        char *secret, *secret_file; /* guarded by lock, as is what they say: config_secret */
        struct linksecret keys;
        config_num enabled, node_id, port /* 0: 10000 above the clients' */, shards, replication, seats;
        config_num timeout_ms, election_ms, heartbeat_ms /* 0: the usual */, segment_bytes, snapshot_bytes /* 0: the usual */;
    } cluster;

    /* Clients. */
    char *requirepass; /* guarded by lock: config_password_ok */
    config_num has_password;
    config_num protected_mode, enable_debug_command, maxclients, timeout_s, tcp_keepalive_s;
    config_num proto_max_bulk_len, client_query_buffer_limit;
    struct config_clients client_output_buffer_limit;

    /* Memory. */
    config_num maxmemory, maxmemory_policy, maxmemory_samples, lfu_log_factor, lfu_decay_time;
    config_num hash_max_listpack_entries, hash_max_listpack_value;
    config_num list_max_listpack_size;
    config_num set_max_intset_entries, set_max_listpack_entries, set_max_listpack_value;
    config_num zset_max_listpack_entries, zset_max_listpack_value;
    config_num hll_sparse_max_bytes;

    /* Looking inside. */
    config_num log_level, slowlog_log_slower_than, slowlog_max_len, latency_tracking;
    char *latency_percentiles; /* guarded by lock: config_get */
    config_num notify_keyspace_events; /* a set of enum notify_class */

    /* What programs written for Redis read or set, and what has no effect here. */
    struct {
        char *dbfilename, *pidfile;
        config_num appendonly, no_appendfsync_on_rewrite, auto_aof_rewrite_percentage, auto_aof_rewrite_min_size;
        config_num rdbcompression, rdbchecksum, stop_writes_on_bgsave_error;
        config_num lazyfree_eviction, lazyfree_expire, lazyfree_server_del, lazyfree_user_del, lazyfree_user_flush;
        config_num stream_node_max_bytes, stream_node_max_entries, latency_monitor_threshold, busy_reply_threshold;
        config_num replica_read_only, replica_serve_stale_data, replica_priority, replica_lazy_flush, replica_ignore_maxmemory;
        config_num repl_timeout, repl_ping_period, repl_backlog_size, repl_backlog_ttl, repl_diskless_sync, repl_diskless_sync_delay;
        config_num repl_diskless_load, repl_disable_tcp_nodelay, min_replicas_to_write, min_replicas_max_lag;
        config_num tracking_table_max_keys, acllog_max_len, io_threads, maxmemory_clients, maxmemory_eviction_tenacity, list_compress_depth;
        config_num hz, dynamic_hz, activerehashing, active_expire_effort;
        config_num activedefrag, jemalloc_bg_thread, daemonize, tls_port;
    } compat;

    pthread_mutex_t lock; /* texts that may change, and the order of changes */
    /* Told after CONFIG SET changed something, on the thread that ran it, with no lock held. Set by the server; may be NULL. */
    void (*on_change)(void *ctx);
    void *on_change_ctx;
};

enum config_outcome {
    CONFIG_READY,         /* loaded and consistent */
    CONFIG_BAD,           /* the error text says what and where */
    CONFIG_SHOW_HELP,     /* --help */
    CONFIG_SHOW_MARKDOWN, /* --help-markdown */
    CONFIG_CHECKED,       /* --check-config and all is well */
};

/* Defaults only. config_fini in every case. */
void config_init(struct config *cfg);
void config_fini(struct config *cfg);

/* Initialises cfg from all sources. argv has the options alone, env ends with NULL. error is an empty buffer that the caller frees. */
enum config_outcome config_load(struct config *cfg, int argc, char *const *argv, char *const *env, struct buf *error);

/* Options that contradict each other, the open network without a password above all: -1 and the reason. */
int config_check(const struct config *cfg, struct buf *why);

/* Calls `each` with every option whose name or alias matches the glob, and its value. */
void config_get(struct config *cfg, struct slice pattern, void (*each)(void *ctx, const char *name, struct slice value), void *ctx);

/* CONFIG SET name value [name value ...]: all or nothing. -1 and the text of the error (without "ERR ") if any is refused. */
int config_set(struct config *cfg, const struct slice *pairs, size_t count, struct buf *error);

/* CONFIG REWRITE: brings the file up to date, keeping its comments and layout, in one atomic step. */
int config_rewrite(struct config *cfg, struct buf *error);

bool config_password_ok(struct config *cfg, struct slice password);
void config_secret(struct config *cfg, struct linksecret *out); /* of the cluster, as it was when it was last set */
unsigned config_workers(const struct config *cfg); /* the number asked for, or of usable cores */
/* Takes the next word off a list: false when there is none. */
bool config_word(struct slice *rest, struct slice *word);

/* ---- for the parts of this module */
struct option;
struct optval;
/* Takes the value's text. The caller holds the lock once other threads run. */
void config_apply(struct config *cfg, const struct option *o, struct optval *v);
/* A value of the TOML file as the text that the command line would have; false if its kind never is an option's value. */
struct toml_value;
struct toml_item;
bool config_toml_text(const struct toml_value *v, struct buf *out);
/* The option that a line of the file sets, or NULL. */
const struct option *config_toml_option(const struct toml_item *item);
/* The present value as text. */
void config_format(const struct config *cfg, const struct option *o, struct buf *out);
