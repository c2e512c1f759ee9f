#include "server/options.h"

#include <stdbool.h>
#include <string.h>

#include "server/config.h"

#define AT(f) .field = offsetof(struct config, f)
#define RANGE(lo, hi) .min = (lo), .max = (hi)
#define BOOL .type = OPTION_BOOL, RANGE(0, 1)
#define INT(lo, hi) .type = OPTION_INT, RANGE(lo, hi)
#define BYTES(lo, hi) .type = OPTION_BYTES, RANGE(lo, hi)
#define ENUM(list) .type = OPTION_ENUM, .words = (list)
#define ALIAS(...) .aliases = {__VA_ARGS__}
#define TEXT(longest) .type = OPTION_TEXT, .max = (longest)
#define LIVE .flags = OPTION_RUNTIME
#define VIEW .flags = OPTION_RUNTIME | OPTION_VIEW
#define COMPAT .flags = OPTION_RUNTIME | OPTION_COMPAT
#define COMPAT_FIXED .flags = OPTION_COMPAT
#define IN(table, name_in_it) .section = (table), .key = (name_in_it)
#define MB (1024ll * 1024)
#define BIG INT64_MAX

static const char *const policy_words[] = {"noeviction",   "allkeys-lru",  "allkeys-lfu",     "allkeys-random", "volatile-lru",
                                           "volatile-lfu", "volatile-random", "volatile-ttl", "cold", NULL};
static const char *const debug_words[] = {"no", "yes", "local", NULL};
static const char *const io_words[] = {"auto", "epoll", "uring", NULL};
static const char *const level_words[] = {"debug", "verbose", "notice", "warning", NULL};
static const char *const format_words[] = {"text", "logfmt", NULL};
/* Each list has the same three twice: both names of the option understand both languages, and answer in their own. */
static const char *const fsync_words[] = {"always", "everysec", "no", "EveryWrite", "EverySecond", "OsManaged", NULL};
static const char *const sync_words[] = {"EveryWrite", "EverySecond", "OsManaged", "always", "everysec", "no", NULL};
static const char *const recovery_words[] = {"lenient", "strict", NULL};
static const char *const profile_words[] = {"none", "fast", "balanced", "high", NULL};
static const char *const mode_words[] = {"auto", "download", "range", NULL};
static const char *const only_no[] = {"no", NULL};
static const char *const diskless_words[] = {"disabled", "on-empty-db", "swapdb", NULL};

const struct option options[] = {
    {"config", TEXT(4095), AT(config_path), .flags = OPTION_START, .fallback = "", .help = "TOML file with options."},

    {"port", INT(0, 65535), AT(port), .fallback = "6379", .help = "TCP port; 0: no TCP, a Unix socket only."},
    {"bind", .type = OPTION_LIST, AT(bind), .fallback = "127.0.0.1",
     .help = "Addresses to listen on, as a list; one with a leading - may be missing on this machine."},
    {"unixsocket", TEXT(107), AT(unixsocket), .fallback = "", .help = "Path of a Unix socket to listen on too."},
    {"unixsocketperm", .type = OPTION_OCTAL, RANGE(0, 0777), AT(unixsocketperm), .fallback = "0",
     .help = "Permissions of the Unix socket, octal; 0 leaves the umask's."},
    {"tcp-backlog", INT(1, 65535), AT(tcp_backlog), .fallback = "511", .help = "Connections that may wait to be accepted, per listener."},
    {"workers", INT(0, 1024), AT(workers), .fallback = "0", .help = "Worker threads, each the home of one shard; 0: one per usable core."},
    {"io-backend", ENUM(io_words), AT(io_backend), .fallback = "auto", .help = "How the kernel is asked for events, and to write the log: epoll with plain calls, or io_uring."},

    {"data", ALIAS("dir", "data-dir"), IN("storage", "data_dir"), TEXT(4000), AT(data), .fallback = "./data", .help = "The data directory."},
    {"sync-policy", IN("storage", "sync_policy"), ENUM(sync_words), .values = 3, LIVE, AT(sync_policy), .fallback = "EverySecond",
     .help = "When the log is made durable: before a write is answered, within a second, or when the kernel likes."},
    {"appendfsync", ENUM(fsync_words), .values = 3, VIEW, AT(sync_policy), .fallback = "everysec", .help = "The same in Redis's words."},
    {"max-wal-size", IN("storage", "max_wal_size"), BYTES(4096, BIG), LIVE, AT(max_wal_size), .fallback = "64mb",
     .help = "Log of a shard from which on a dump is made and the log cut; the size of the shard's last dump, if that is more."},
    {"snapshot-interval", IN("storage", "snapshot_interval"), INT(0, INT32_MAX), LIVE, AT(snapshot_interval_s), .fallback = "3600", .unit = "seconds",
     .help = "A dump is made when the last one is older than this and something has changed; 0: only when the log is long."},
    {"save", .type = OPTION_SAVE, RANGE(0, INT32_MAX), VIEW, AT(snapshot_interval_s), .fallback = "3600 1",
     .help = "The same in Redis's words: pairs of seconds and changes, of which the one with the fewest changes counts; empty: 0."},
    {"dumps-kept", IN("storage", "dumps_kept"), INT(1, 1000), LIVE, AT(dumps_kept), .fallback = "1",
     .help = "Dumps to keep, each with the log after it."},
    {"recovery", IN("storage", "recovery"), ENUM(recovery_words), AT(recovery), .fallback = "lenient",
     .help = "A record of the log that is damaged, with others behind it: skip it with a warning, or refuse to start."},
    {"compression-profile", IN("compression", "profile"), ENUM(profile_words), LIVE, AT(compression_profile), .fallback = "balanced",
     .help = "How hard values on disk are compressed, with LZ4."},
    {"compression-min-size", IN("compression", "min_size"), BYTES(0, 1024 * MB), LIVE, AT(compression_min_size), .fallback = "128",
     .help = "What is shorter is stored as it is."},
    {"ephemeral", BOOL, AT(ephemeral), .fallback = "no", .help = "Keep everything in memory and touch no data directory."},
    {"snapshot", TEXT(4000), AT(snapshot), .fallback = "",
     .help = "URL of a published snapshot (file:// or s3://) to serve, read-only, in place of data of its own."},
    {"snapshot-refresh", ALIAS("refresh"), INT(0, 86400), LIVE, AT(snapshot_refresh_s), .fallback = "10", .unit = "seconds",
     .help = "How often to look for a newer snapshot and switch to it; 0: only when SNAPSHOT.REFRESH asks. 10s and 5m are understood."},
    {"snapshot-mode", ENUM(mode_words), AT(snapshot_mode), .fallback = "auto",
     .help = "How a snapshot is read: downloaded, by ranged requests to the store, or as its size suggests."},
    {"snapshot-cache", TEXT(4000), AT(snapshot_cache), .fallback = "", .help = "Folder of downloaded shards; empty: below the user's cache folder."},
    /* A core answers some hundred thousand accesses per second at most, and a fifth of that without pipelining: a range that takes 25,000 is worth a place of its own, and one that takes a few thousand
     * is not, whatever the number of cores. 64 MiB move in about a second in the background; larger spaces are cut into a few ranges per shard, so their number depends on the cores and not on the data. What merges is far below
     * what splits. Sixteen waiting tasks are more than chance makes of any number of clients whose work is spread. */
    {"ranges-auto", IN("ranges", "auto"), BOOL, LIVE, AT(ranges.automatic), .fallback = "yes", .help = "Ranges of key spaces split, move and merge by themselves."},
    {"ranges-split-bytes", IN("ranges", "split_bytes"), BYTES(0, BIG), LIVE, AT(ranges.split_bytes), .fallback = "64mb",
     .help = "A range larger than this splits, if it also is larger than a quarter of a shard's even share of its key space; 0: size splits none."},
    {"ranges-split-ops", IN("ranges", "split_ops"), INT(0, BIG), LIVE, AT(ranges.split_ops), .fallback = "25000",
     .help = "A range with so many accesses per second splits, if another shard has clearly less to do; 0: the rate splits none."},
    {"ranges-split-backlog", IN("ranges", "split_backlog"), INT(0, BIG), LIVE, AT(ranges.split_backlog), .fallback = "16",
     .help = "So many tasks that wait for a shard split the range that it works for most; 0: never."},
    {"ranges-sustain", IN("ranges", "sustain"), INT(0, 86400), LIVE, AT(ranges.sustain_s), .fallback = "10", .unit = "seconds", .help = "A load must last so long before a range splits or moves for it."},
    {"ranges-settle", IN("ranges", "settle"), INT(0, 86400), LIVE, AT(ranges.settle_s), .fallback = "30", .unit = "seconds",
     .help = "A range that has changed is left alone so long, and neighbours must be small and cold so long to merge; longer after each time that it was wrong."},
    {"ranges-merge-bytes", IN("ranges", "merge_bytes"), BYTES(0, BIG), LIVE, AT(ranges.merge_bytes), .fallback = "16mb",
     .help = "Neighbours that are together no larger, and are not used much, merge; at most half of ranges-split-bytes counts."},
    {"ranges-merge-ops", IN("ranges", "merge_ops"), INT(0, BIG), LIVE, AT(ranges.merge_ops), .fallback = "2000",
     .help = "Neighbours with together no more accesses per second are not used much; at most half of ranges-split-ops counts."},
    {"ranges-max-changes", IN("ranges", "max_changes"), INT(1, 64), LIVE, AT(ranges.max_changes), .fallback = "4", .help = "Splits, moves and merges under way at a time; in a cluster those of all nodes."},
    {"cluster", ALIAS("cluster-enabled"), IN("cluster", "enabled"), BOOL, AT(cluster.enabled), .fallback = "no",
     .help = "Be a node of a cluster: the data is kept by Raft groups on several nodes."},
    {"node-id", ALIAS("cluster-node-id"), IN("cluster", "node_id"), INT(0, UINT32_MAX), AT(cluster.node_id), .fallback = "0", .help = "Which of cluster-peers this node is, at its first start; 0 for a node that joins: it gets a number."},
    {"cluster-peers", ALIAS("peers"), IN("cluster", "peers"), .type = OPTION_LIST, AT(cluster.peers), .fallback = "",
     .help = "The first nodes of a new cluster, the same list on each: number=host:cluster-port/host:port, for instance 1=10.0.0.1:16379/10.0.0.1:6379. Only the first start looks at it."},
    {"cluster-join", ALIAS("join"), IN("cluster", "join"), .type = OPTION_LIST, AT(cluster.join), .fallback = "",
     .help = "Nodes of a running cluster that this one is to join, as host:port of clients. Only the first start looks at it."},
    {"cluster-port", IN("cluster", "port"), INT(0, 65535), AT(cluster.port), .fallback = "0", .help = "TCP port for the other nodes; 0: 10000 more than port."},
    {"cluster-advertise", ALIAS("advertise"), IN("cluster", "advertise"), TEXT(255), AT(cluster.advertise), .fallback = "",
     .help = "How other nodes reach this one: host:cluster-port, or the host alone; empty: the first address of bind."},
    {"cluster-name", IN("cluster", "name"), TEXT(64), AT(cluster.name), .fallback = "", .help = "Name of this node, for people."},
    {"cluster-zone", IN("cluster", "zone"), TEXT(64), AT(cluster.zone), .fallback = "", .help = "What fails together: replicas are spread over as many zones as there are."},
    {"cluster-secret", IN("cluster", "secret"), .type = OPTION_LIST, .flags = OPTION_RUNTIME | OPTION_SECRET | OPTION_HIDDEN, AT(cluster.secret), .fallback = "",
     .help = "What nodes prove to each other before they speak, 16 characters or more, the same on each; empty: nothing. Up to four: the first is proven, all are accepted, so that it can be changed node by node. CONFIG GET does not show it."},
    {"cluster-secret-file", IN("cluster", "secret_file"), TEXT(4095), LIVE, AT(cluster.secret_file), .fallback = "",
     .help = "File with the cluster-secret, one on each line; it is read at start, and when CONFIG SET sets this option, also to the same file."},
    {"cluster-shards", IN("cluster", "shards"), INT(1, 1024), AT(cluster.shards), .fallback = "16", .help = "Raft groups that the keys of a new cluster are spread over."},
    {"cluster-replication", IN("cluster", "replication"), INT(1, 7), AT(cluster.replication), .fallback = "3", .help = "Replicas of each group of a new cluster."},
    {"cluster-seats", IN("cluster", "seats"), INT(2, 4096), AT(cluster.seats), .fallback = "256", .help = "Replicas that this node has room for, and one."},
    {"cluster-timeout-ms", IN("cluster", "timeout_ms"), INT(1, 600000), LIVE, AT(cluster.timeout_ms), .fallback = "5000", .unit = "milliseconds",
     .help = "How long a command may wait for a group to have a leader before it is answered CLUSTERDOWN."},
    {"cluster-election-ms", IN("cluster", "election_ms"), INT(0, 60000), AT(cluster.election_ms), .fallback = "0", .unit = "milliseconds",
     .help = "A leader that is silent so long is replaced; 0: 600."},
    {"cluster-heartbeat-ms", IN("cluster", "heartbeat_ms"), INT(0, 10000), AT(cluster.heartbeat_ms), .fallback = "0", .unit = "milliseconds",
     .help = "How often a leader says that it is there; 0: 60."},
    {"cluster-segment-bytes", IN("cluster", "segment_bytes"), BYTES(0, 1024 * MB), AT(cluster.segment_bytes), .fallback = "0", .help = "Size of a file of the Raft log, 8mb or more; 0: 64mb."},
    {"cluster-snapshot-bytes", IN("cluster", "snapshot_bytes"), BYTES(0, BIG), AT(cluster.snapshot_bytes), .fallback = "0",
     .help = "Log of a group from which on a snapshot of it is taken and the log cut; 0: the usual."},
    {"databases", INT(1, 16), AT(databases), .fallback = "16", .help = "Databases that SELECT may choose from."},

    {"requirepass", TEXT(512), .flags = OPTION_RUNTIME | OPTION_SECRET, AT(requirepass), .fallback = "", .help = "Password that clients must give; empty: none."},
    {"protected-mode", BOOL, LIVE, AT(protected_mode), .fallback = "yes",
     .help = "Refuse to listen beyond this machine without a password."},
    {"enable-debug-command", ENUM(debug_words), AT(enable_debug_command), .fallback = "local",
     .help = "Who may use DEBUG, which can stop the server for a while: nobody, everybody, or clients on this machine."},
    {"maxclients", INT(1, 1000000), LIVE, AT(maxclients), .fallback = "10000", .help = "Connections at the same time."},
    {"timeout", INT(0, INT32_MAX), LIVE, AT(timeout_s), .fallback = "0", .unit = "seconds", .help = "Close a connection idle this long; 0: never."},
    {"tcp-keepalive", INT(0, INT32_MAX), LIVE, AT(tcp_keepalive_s), .fallback = "300", .unit = "seconds",
     .help = "Ask a silent peer for a sign of life this often; 0: never."},
    {"proto-max-bulk-len", BYTES(1 * MB, UINT32_MAX), LIVE, AT(proto_max_bulk_len), .fallback = "512mb", .help = "Longest argument of a request."},
    {"client-query-buffer-limit", BYTES(1 * MB, UINT32_MAX), LIVE, AT(client_query_buffer_limit), .fallback = "1gb",
     .help = "Unfinished request bytes that a connection may hold."},
    {"client-output-buffer-limit", .type = OPTION_CLIENTS, LIVE, AT(client_output_buffer_limit),
     .fallback = "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60",
     .help = "Unread reply bytes per class of clients: hard limit, soft limit, and seconds above the soft one; 0: none."},

    {"maxmemory", BYTES(0, BIG), LIVE, AT(maxmemory), .fallback = "0", .help = "Memory for data in the whole server; 0: no limit."},
    {"maxmemory-policy", ENUM(policy_words), LIVE, AT(maxmemory_policy), .fallback = "noeviction", .help = "What to give up at the limit; cold gives up nothing: values that are not used go to disk."},
    {"maxmemory-samples", INT(1, 64), LIVE, AT(maxmemory_samples), .fallback = "5", .help = "Keys to compare when one is to be evicted."},
    {"lfu-log-factor", INT(0, 255), LIVE, AT(lfu_log_factor), .fallback = "10", .help = "How slowly the access counter saturates."},
    {"lfu-decay-time", INT(0, 255), LIVE, AT(lfu_decay_time), .fallback = "1", .unit = "minutes", .help = "The access counter loses one this often."},

    {"hash-max-listpack-entries", ALIAS("hash-max-ziplist-entries"), INT(0, INT32_MAX), LIVE, AT(hash_max_listpack_entries),
     .fallback = "128", .help = "Fields of a hash in the compact encoding."},
    {"hash-max-listpack-value", ALIAS("hash-max-ziplist-value"), INT(0, INT32_MAX), LIVE, AT(hash_max_listpack_value), .fallback = "64",
     .help = "Longest field or value of a hash in the compact encoding."},
    {"list-max-listpack-size", ALIAS("list-max-ziplist-size"), INT(INT32_MIN, INT32_MAX), LIVE, AT(list_max_listpack_size),
     .fallback = "-2", .help = "Size of a list's pieces: elements, or -1 to -5 for 4, 8, 16, 32, 64 KiB."},
    {"set-max-intset-entries", INT(0, INT32_MAX), LIVE, AT(set_max_intset_entries), .fallback = "512",
     .help = "Members of a set of integers in the compact encoding."},
    {"set-max-listpack-entries", INT(0, INT32_MAX), LIVE, AT(set_max_listpack_entries), .fallback = "128",
     .help = "Members of a set in the compact encoding."},
    {"set-max-listpack-value", INT(0, INT32_MAX), LIVE, AT(set_max_listpack_value), .fallback = "64",
     .help = "Longest member of a set in the compact encoding."},
    {"zset-max-listpack-entries", ALIAS("zset-max-ziplist-entries"), INT(0, INT32_MAX), LIVE, AT(zset_max_listpack_entries),
     .fallback = "128", .help = "Members of a sorted set in the compact encoding."},
    {"zset-max-listpack-value", ALIAS("zset-max-ziplist-value"), INT(0, INT32_MAX), LIVE, AT(zset_max_listpack_value), .fallback = "64",
     .help = "Longest member of a sorted set in the compact encoding."},
    {"hll-sparse-max-bytes", BYTES(0, 16000), LIVE, AT(hll_sparse_max_bytes), .fallback = "3000", .help = "Size at which a HyperLogLog turns dense."},

    {"log-level", ALIAS("loglevel"), ENUM(level_words), LIVE, AT(log_level), .fallback = "notice", .help = "Least important lines to log."},
    {"log-format", ENUM(format_words), AT(log_format), .fallback = "text", .help = "Form of log lines."},
    {"logfile", TEXT(4095), AT(logfile), .fallback = "", .help = "File to append log lines to; empty: standard error."},
    {"slowlog-log-slower-than", INT(-1, BIG), LIVE, AT(slowlog_log_slower_than), .fallback = "10000", .unit = "microseconds",
     .help = "Commands slower than this enter the slow log; -1: none."},
    {"slowlog-max-len", INT(0, 10000000), LIVE, AT(slowlog_max_len), .fallback = "128", .help = "Entries that the slow log keeps."},
    {"latency-tracking", BOOL, LIVE, AT(latency_tracking), .fallback = "yes", .help = "Keep a histogram of durations per command."},
    {"latency-tracking-info-percentiles", .type = OPTION_PERCENTS, LIVE, AT(latency_percentiles), .fallback = "50 99 99.9",
     .help = "The percentiles of durations that INFO latencystats shows."},
    {"notify-keyspace-events", .type = OPTION_NOTIFY, LIVE, AT(notify_keyspace_events), .fallback = "",
     .help = "Letters of the keyspace events to publish, as in Redis; empty: none."},

    {"appendonly", BOOL, COMPAT, AT(compat.appendonly), .fallback = "yes", .help = "There is a log unless the server is ephemeral."},
    {"no-appendfsync-on-rewrite", BOOL, COMPAT, AT(compat.no_appendfsync_on_rewrite), .fallback = "no", .help = "A dump does not change when the log is synced."},
    {"auto-aof-rewrite-percentage", INT(0, INT32_MAX), COMPAT, AT(compat.auto_aof_rewrite_percentage), .fallback = "100",
     .help = "max-wal-size says when the log is cut."},
    {"auto-aof-rewrite-min-size", BYTES(0, BIG), COMPAT, AT(compat.auto_aof_rewrite_min_size), .fallback = "64mb",
     .help = "max-wal-size says when the log is cut."},
    {"dbfilename", TEXT(255), COMPAT, AT(compat.dbfilename), .fallback = "dump.rdb", .help = "Dumps are named by what they hold."},
    {"rdbcompression", BOOL, COMPAT, AT(compat.rdbcompression), .fallback = "yes", .help = "See compression-profile."},
    {"rdbchecksum", BOOL, COMPAT_FIXED, AT(compat.rdbchecksum), .fallback = "yes", .help = "Dumps always have checksums."},
    {"stop-writes-on-bgsave-error", BOOL, COMPAT, AT(compat.stop_writes_on_bgsave_error), .fallback = "yes", .help = "Writes stop when the log cannot be written."},
    {"lazyfree-lazy-eviction", BOOL, COMPAT, AT(compat.lazyfree_eviction), .fallback = "no", .help = "Memory is freed the same way in each case."},
    {"lazyfree-lazy-expire", BOOL, COMPAT, AT(compat.lazyfree_expire), .fallback = "no", .help = "Memory is freed the same way in each case."},
    {"lazyfree-lazy-server-del", BOOL, COMPAT, AT(compat.lazyfree_server_del), .fallback = "no", .help = "Memory is freed the same way in each case."},
    {"lazyfree-lazy-user-del", BOOL, COMPAT, AT(compat.lazyfree_user_del), .fallback = "no", .help = "Memory is freed the same way in each case."},
    {"lazyfree-lazy-user-flush", BOOL, COMPAT, AT(compat.lazyfree_user_flush), .fallback = "no", .help = "Memory is freed the same way in each case."},
    {"stream-node-max-bytes", BYTES(0, BIG), COMPAT, AT(compat.stream_node_max_bytes), .fallback = "4096", .help = "There are no streams."},
    {"stream-node-max-entries", INT(0, BIG), COMPAT, AT(compat.stream_node_max_entries), .fallback = "100", .help = "There are no streams."},
    {"list-compress-depth", INT(0, INT32_MAX), COMPAT, AT(compat.list_compress_depth), .fallback = "0", .help = "Lists are not compressed."},
    {"maxmemory-eviction-tenacity", INT(0, 100), COMPAT, AT(compat.maxmemory_eviction_tenacity), .fallback = "10", .help = "A write evicts until there is room."},
    {"hz", INT(1, 500), COMPAT, AT(compat.hz), .fallback = "10", .help = "There are ten rounds of upkeep per second, and more while there is more to do."},
    {"activerehashing", BOOL, COMPAT, AT(compat.activerehashing), .fallback = "yes", .help = "Growing tables move on in every round of upkeep."},
    {"active-expire-effort", INT(1, 10), COMPAT, AT(compat.active_expire_effort), .fallback = "1", .help = "Expired keys are looked for in every round of upkeep, and again while many are found."},
    {"latency-monitor-threshold", INT(0, BIG), COMPAT, AT(compat.latency_monitor_threshold), .fallback = "0", .unit = "milliseconds",
     .help = "There is no latency monitor; latency-tracking shows durations."},
    {"busy-reply-threshold", ALIAS("lua-time-limit"), INT(0, BIG), COMPAT, AT(compat.busy_reply_threshold), .fallback = "5000",
     .unit = "milliseconds", .help = "There are no scripts."},
    {"replica-read-only", ALIAS("slave-read-only"), BOOL, COMPAT, AT(compat.replica_read_only), .fallback = "yes", .help = "There are no replicas."},
    {"replica-serve-stale-data", ALIAS("slave-serve-stale-data"), BOOL, COMPAT, AT(compat.replica_serve_stale_data), .fallback = "yes",
     .help = "There are no replicas."},
    {"replica-priority", ALIAS("slave-priority"), INT(0, INT32_MAX), COMPAT, AT(compat.replica_priority), .fallback = "100",
     .help = "There are no replicas."},
    {"replica-lazy-flush", ALIAS("slave-lazy-flush"), BOOL, COMPAT, AT(compat.replica_lazy_flush), .fallback = "no", .help = "There are no replicas."},
    {"replica-ignore-maxmemory", ALIAS("slave-ignore-maxmemory"), BOOL, COMPAT, AT(compat.replica_ignore_maxmemory), .fallback = "yes",
     .help = "There are no replicas."},
    {"repl-timeout", INT(1, INT32_MAX), COMPAT, AT(compat.repl_timeout), .fallback = "60", .unit = "seconds", .help = "There are no replicas."},
    {"repl-ping-replica-period", ALIAS("repl-ping-slave-period"), INT(1, INT32_MAX), COMPAT, AT(compat.repl_ping_period), .fallback = "10",
     .unit = "seconds", .help = "There are no replicas."},
    {"repl-backlog-size", BYTES(1, BIG), COMPAT, AT(compat.repl_backlog_size), .fallback = "1mb", .help = "There are no replicas."},
    {"repl-backlog-ttl", INT(0, BIG), COMPAT, AT(compat.repl_backlog_ttl), .fallback = "3600", .unit = "seconds", .help = "There are no replicas."},
    {"repl-diskless-sync", BOOL, COMPAT, AT(compat.repl_diskless_sync), .fallback = "yes", .help = "There are no replicas."},
    {"repl-diskless-sync-delay", INT(0, INT32_MAX), COMPAT, AT(compat.repl_diskless_sync_delay), .fallback = "5", .unit = "seconds",
     .help = "There are no replicas."},
    {"repl-diskless-load", ENUM(diskless_words), COMPAT, AT(compat.repl_diskless_load), .fallback = "disabled", .help = "There are no replicas."},
    {"repl-disable-tcp-nodelay", BOOL, COMPAT, AT(compat.repl_disable_tcp_nodelay), .fallback = "no", .help = "There are no replicas."},
    {"min-replicas-to-write", ALIAS("min-slaves-to-write"), INT(0, 0), COMPAT, AT(compat.min_replicas_to_write), .fallback = "0",
     .help = "There are no replicas; only 0 is accepted."},
    {"min-replicas-max-lag", ALIAS("min-slaves-max-lag"), INT(0, INT32_MAX), COMPAT, AT(compat.min_replicas_max_lag), .fallback = "10",
     .unit = "seconds", .help = "There are no replicas."},
    {"tracking-table-max-keys", INT(0, BIG), COMPAT, AT(compat.tracking_table_max_keys), .fallback = "1000000", .help = "There is no client tracking."},
    {"acllog-max-len", INT(0, INT32_MAX), COMPAT, AT(compat.acllog_max_len), .fallback = "128", .help = "There is no log of refused access."},
    {"io-threads", INT(1, 1024), COMPAT_FIXED, AT(compat.io_threads), .fallback = "1", .help = "Use workers instead."},
    {"maxmemory-clients", BYTES(0, 0), COMPAT, AT(compat.maxmemory_clients), .fallback = "0", .help = "Use client-output-buffer-limit; only 0 is accepted."},
    {"dynamic-hz", BOOL, COMPAT, AT(compat.dynamic_hz), .fallback = "yes", .help = "hz does not change by itself."},
    {"activedefrag", ENUM(only_no), COMPAT, AT(compat.activedefrag), .fallback = "no", .help = "Only no is accepted."},
    {"jemalloc-bg-thread", BOOL, COMPAT, AT(compat.jemalloc_bg_thread), .fallback = "yes", .help = "The allocator is set up at build time."},
    {"daemonize", ENUM(only_no), COMPAT_FIXED, AT(compat.daemonize), .fallback = "no",
     .help = "A service manager keeps the server in the background; only no is accepted."},
    {"pidfile", TEXT(0), COMPAT_FIXED, AT(compat.pidfile), .fallback = "", .help = "The data directory's LOCK file has the process id; only the empty text is accepted."},
    {"tls-port", INT(0, 0), COMPAT_FIXED, AT(compat.tls_port), .fallback = "0", .help = "There is no TLS; only 0 is accepted."},
};

size_t options_count(void) { return sizeof options / sizeof options[0]; }

/* ---- finding a row */

static char fold(char c)
{
    if (c == '_') return '-';
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_name(struct slice given, const char *name)
{
    if (!name || given.n != strlen(name)) return false;
    for (size_t i = 0; i < given.n; i++) {
        if (fold(given.p[i]) != fold(name[i])) return false;
    }
    return true;
}

static bool has_name(const struct option *o, struct slice name)
{
    bool found = same_name(name, o->name);
    for (int i = 0; i < OPTION_ALIASES; i++) found |= same_name(name, o->aliases[i]);
    return found;
}

const struct option *options_find(struct slice name)
{
    for (size_t i = 0; i < options_count(); i++) {
        if (has_name(&options[i], name)) return &options[i];
    }
    return NULL;
}

const struct option *options_find_in(struct slice section, struct slice key)
{
    for (size_t i = 0; i < options_count(); i++) {
        if (same_name(section, options[i].section) && same_name(key, options[i].key)) return &options[i];
    }
    return NULL;
}

/* How many characters must be added, removed or changed to make b of a; one row of the classic table is enough. */
static unsigned distance(struct slice a, const char *b)
{
    enum { LONGEST = 64 };
    unsigned row[LONGEST + 1];
    size_t n = strlen(b);
    if (a.n > LONGEST || n > LONGEST) return LONGEST;
    for (size_t j = 0; j <= n; j++) row[j] = (unsigned)j;
    for (size_t i = 1; i <= a.n; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            unsigned best = diagonal + (fold(a.p[i - 1]) != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

const char *options_nearest(struct slice name)
{
    const char *nearest = NULL;
    unsigned least = 3; /* further away is another word, not a misspelling */
    for (size_t i = 0; i < options_count(); i++) {
        unsigned d = distance(name, options[i].name);
        if (d < least && !(options[i].flags & OPTION_START)) {
            least = d;
            nearest = options[i].name;
        }
    }
    return nearest;
}

/* ---- showing the table */

static const char *type_word(const struct option *o)
{
    switch (o->type) {
    case OPTION_BOOL: return "yes|no";
    case OPTION_INT: return o->unit ? o->unit : "N";
    case OPTION_BYTES: return "bytes";
    case OPTION_OCTAL: return "octal";
    case OPTION_LIST: return "words";
    case OPTION_PERCENTS: return "percentiles";
    case OPTION_NOTIFY: return "letters";
    case OPTION_CLIENTS: return "limits";
    case OPTION_SAVE: return "pairs";
    case OPTION_ENUM:
    case OPTION_TEXT: break;
    }
    return "text";
}

static void add_type(const struct option *o, const char *separator, struct buf *out)
{
    if (o->type != OPTION_ENUM) {
        buf_add_str(out, type_word(o));
        return;
    }
    for (size_t i = 0; o->words[i] && (!o->values || i < o->values); i++) buf_printf(out, "%s%s", i ? separator : "", o->words[i]);
}

static void add_help(const struct option *o, struct buf *out)
{
    size_t start = out->len;
    buf_printf(out, "  --%s <", o->name);
    add_type(o, "|", out);
    buf_add_byte(out, '>');
    /* Descriptions stand in one column; a long head gets a line of its own. */
    enum { COLUMN = 44 };
    size_t width = out->len - start;
    if (width + 2 > COLUMN) {
        buf_add_byte(out, '\n');
        width = 0;
    }
    buf_printf(out, "%*s%s [%s]\n", (int)(COLUMN - width), "", o->help, *o->fallback ? o->fallback : "none");
}

void options_help(struct buf *out)
{
    buf_add_str(out, "usage: sherd serve [--option value]...\n\n"
                     "Options come from a TOML file (--config), the environment (SHERD_PORT=6379) and the command line\n"
                     "(--port 6379 or --port=6379), the later ones winning. Sizes: 512, 64kb, 1gb. A yes|no option alone means yes.\n\n"
                     "  --check-config    read all options, say if they are good, and end\n"
                     "  --help            this text\n\n");
    for (size_t i = 0; i < options_count(); i++) {
        if (!(options[i].flags & OPTION_COMPAT)) add_help(&options[i], out);
    }
    buf_add_str(out, "\nAccepted for programs written for Redis, without effect:\n ");
    size_t column = 1;
    for (size_t i = 0; i < options_count(); i++) {
        if (!(options[i].flags & OPTION_COMPAT)) continue;
        size_t n = strlen(options[i].name) + 1;
        if (column + n > 110) {
            buf_add_str(out, "\n ");
            column = 1;
        }
        buf_printf(out, " %s", options[i].name);
        column += n;
    }
    buf_add_byte(out, '\n');
}

static void add_markdown_row(const struct option *o, struct buf *out)
{
    buf_printf(out, "| `%s`", o->name);
    for (int i = 0; i < OPTION_ALIASES && o->aliases[i]; i++) buf_printf(out, "<br>`%s`", o->aliases[i]);
    if (o->section) buf_printf(out, "<br>`[%s]` `%s`", o->section, o->key);
    buf_add_str(out, " | ");
    if (o->type == OPTION_BOOL)
        buf_add_str(out, "yes, no");
    else
        add_type(o, ", ", out);
    buf_printf(out, " | %s%s%s | %s | %s |\n", *o->fallback ? "`" : "", *o->fallback ? o->fallback : "empty", *o->fallback ? "`" : "",
               o->flags & OPTION_RUNTIME ? "yes" : "no", o->help);
}

static void add_markdown_table(bool compat, struct buf *out)
{
    buf_add_str(out, "| option | value | default | CONFIG SET | meaning |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < options_count(); i++) {
        if (!!(options[i].flags & OPTION_COMPAT) == compat) add_markdown_row(&options[i], out);
    }
}

void options_markdown(struct buf *out)
{
    buf_add_str(out,
                "# Configuration\n\n"
                "This page is made by `make docs` from the program's own table of options (`src/server/options.c`).\n\n"
                "Options come from three places, the later ones winning:\n\n"
                "1. a TOML file: `sherd serve --config sherd.toml`, with lines such as `port = 6379` or `maxmemory = \"1gb\"`;\n"
                "2. the environment: `SHERD_PORT=6379`, `SHERD_MAXMEMORY=1gb`;\n"
                "3. the command line: `--port 6379` or `--maxmemory=1gb`; a yes/no option alone means yes.\n\n"
                "Dashes and underscores in names are the same. Sizes may end in `k`, `m`, `g` (powers of 1000) or `kb`, `mb`, `gb` (powers of\n"
                "1024). An option that is unknown or malformed stops the start with its name and, in a file, its line;\n"
                "`sherd serve --check-config` only looks. `CONFIG SET` changes the options marked so at run time, all of one call or\n"
                "none; `CONFIG REWRITE` brings the file up to date and keeps its comments.\n\n"
                "Without a password the server listens on this machine only: a `bind` beyond loopback is refused at start unless `requirepass`\n"
                "is set or `protected-mode` is `no`.\n\n"
                "## Options\n\n");
    add_markdown_table(false, out);
    buf_add_str(out, "\n## Options without effect\n\n"
                     "Programs written for Redis read or set these. They are accepted and reported, and change nothing.\n\n");
    add_markdown_table(true, out);
}
