#include "server/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/version.h"
#include "cluster/carrycmd.h"
#include "cluster/node.h"
#include "cluster/txncmd.h"
#include "command/families.h"
#include "io/file.h"
#include "io/file_uring.h"
#include "io/pager.h"
#include "server/clusternode.h"
#include "server/clusterrules.h"
#include "server/datadir.h"
#include "server/evictor.h"
#include "server/exporter.h"
#include "server/families.h"
#include "server/front.h"
#include "server/listen.h"
#include "server/notify.h"
#include "server/publisher.h"
#include "server/rangekeeper.h"
#include "server/recover.h"
#include "server/relay.h"
#include "server/sampler.h"
#include "server/saves.h"
#include "server/slowlog.h"
#include "server/snapreads.h"
#include "server/snapserve.h"
#include "server/spancmd.h"
#include "server/stats.h"
#include "server/subscribe.h"
#include "server/totals.h"
#include "server/transactions.h"
#include "shard/journal.h"
#include "shard/thaw.h"
#include "shard/topology.h"
#include "shard/walk.h"
#include "store/evict.h"

struct command_table *server_commands(void)
{
    const struct command_family families[] = {
        strings_family, keys_family, groups_family, txncmd_family, spancmd_family, carrycmd_family, expiry_family, lists_family, hashes_family, sets_family,
        zsets_family, zpops_family, zranges_family, zstores_family, bits_family, hll_family, sort_family, restore_family,
        transactions_family, subscribe_family, connection_family, clients_family, configs_family,
        catalog_family, info_family, slowlog_family, latency_family, memory_family, debug_family, stats_family, admin_family, saves_family, durability_family,
        snapreads_family, snapcmd_family, spacecmd_family, rangecmd_family, rangelock_family, rangeexec_family, rangemap_family, rangewhy_family, rangefigures_family, clustercmd_family,
    };
    return command_table_new(families, sizeof families / sizeof families[0]);
}

struct command_table *server_commands_changed(struct command (*row_of)(const struct command *live))
{
    struct command_table *live = server_commands();
    size_t n = command_rows(live);
    struct command *all = mem_alloc(n * sizeof *all);
    for (size_t i = 0; i < n; i++) all[i] = row_of(command_at(live, i));
    struct command_table *t = command_table_new(&(struct command_family){all, n}, 1);
    mem_free(all);
    command_table_free(live);
    return t;
}

uint64_t server_used_bytes(const struct server *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->engine->route.shards; i++)
        sum += atomic_load_explicit(&s->engine->shards[i].bytes, memory_order_relaxed);
    return sum;
}

void server_stop(struct server *s)
{
    atomic_store(&s->stopping, true);
    kill(getpid(), SIGTERM); /* the main thread waits for it */
}

static void mapped(void *ctx)
{
    struct server *s = ctx;
    if (s->relay) relay_mapped(s->relay);
}

/* ---- configuration that the engine reads: copied whenever CONFIG SET changed something */

static void apply_config(void *ctx)
{
    struct server *s = ctx;
    struct config *c = s->config;
    struct store_limits *l = &s->engine->limits;
    __atomic_store_n(&l->hash_entries, (uint32_t)CONFIG_NUM(c, hash_max_listpack_entries), __ATOMIC_RELAXED);
    __atomic_store_n(&l->hash_value, (uint32_t)CONFIG_NUM(c, hash_max_listpack_value), __ATOMIC_RELAXED);
    __atomic_store_n(&l->set_ints, (uint32_t)CONFIG_NUM(c, set_max_intset_entries), __ATOMIC_RELAXED);
    __atomic_store_n(&l->set_entries, (uint32_t)CONFIG_NUM(c, set_max_listpack_entries), __ATOMIC_RELAXED);
    __atomic_store_n(&l->set_value, (uint32_t)CONFIG_NUM(c, set_max_listpack_value), __ATOMIC_RELAXED);
    __atomic_store_n(&l->zset_entries, (uint32_t)CONFIG_NUM(c, zset_max_listpack_entries), __ATOMIC_RELAXED);
    __atomic_store_n(&l->zset_value, (uint32_t)CONFIG_NUM(c, zset_max_listpack_value), __ATOMIC_RELAXED);
    __atomic_store_n(&l->list_size, (int32_t)CONFIG_NUM(c, list_max_listpack_size), __ATOMIC_RELAXED);
    __atomic_store_n(&l->hll_sparse_bytes, (uint32_t)CONFIG_NUM(c, hll_sparse_max_bytes), __ATOMIC_RELAXED);
    __atomic_store_n(&l->lfu, evict_policy_is_lfu((enum evict_policy)CONFIG_NUM(c, maxmemory_policy)), __ATOMIC_RELAXED);
    __atomic_store_n(&l->lfu_log_factor, (uint8_t)CONFIG_NUM(c, lfu_log_factor), __ATOMIC_RELAXED);
    __atomic_store_n(&l->lfu_decay_minutes, (uint8_t)CONFIG_NUM(c, lfu_decay_time), __ATOMIC_RELAXED);
    int64_t slower_us = CONFIG_NUM(c, slowlog_log_slower_than);
    uint64_t slow_ticks = slower_us < 0 ? UINT64_MAX : (uint64_t)((double)slower_us * clock_ticks_per_us());
    atomic_store(&s->engine->slow_ticks, slow_ticks);
    atomic_store(&s->engine->track_latency, CONFIG_NUM(c, latency_tracking) != 0);
    bool limited = CONFIG_NUM(c, maxmemory) > 0;
    if (limited && !atomic_exchange(&s->engine->count_bytes, true)) atomic_store(&s->bytes_unknown, true);
    if (!limited) atomic_store(&s->engine->count_bytes, false);
    if (s->journal) journal_set_policy(s->journal, (enum journal_policy)CONFIG_NUM(c, sync_policy));
    if (s->engine->thaws)
        tier_set_compression(s->engine->thaws->tier, (enum compress_profile)CONFIG_NUM(c, compression_profile), (size_t)CONFIG_NUM(c, compression_min_size));
    if (s->relay) relay_set_timeout(s->relay, (uint32_t)CONFIG_NUM(c, cluster.timeout_ms));
    if (s->node) clusternode_apply_secret(s);
    saves_apply_config(s);
    slog_set_level(&s->log, (enum slog_level)CONFIG_NUM(c, log_level));
}

/* ---- start */

static void make_run_id(struct server *s)
{
    uint8_t bytes[20];
    CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
    for (int i = 0; i < 20; i++) snprintf(s->run_id + 2 * i, 3, "%02x", bytes[i]);
}

static bool start_fronts(struct server *s)
{
    for (uint32_t i = 0; i < s->engine->n_workers; i++)
        if (!front_start(s->fronts[i])) return false;
    return true;
}

static void announce(const struct server *s)
{
    const struct config *c = s->config;
    slog(&s->log, SLOG_NOTICE, "sherd is ready", "version=%s workers=%u io=%s bind=%s port=%d data=%s pid=%d", SHERD_VERSION,
         s->engine->n_workers, s->io_backend, c->bind, (int)CONFIG_NUM(c, port), CONFIG_NUM(c, ephemeral) ? "none (ephemeral)" : c->data,
         (int)getpid());
}

static struct command_table *choose_commands(const struct config *c)
{
    if (c->snapshot[0]) return snapreads_commands();
    return CONFIG_NUM(c, cluster.enabled) ? clusterrules_commands() : server_commands();
}

static void build(struct server *s, unsigned workers, uint32_t shards, uint64_t seed)
{
    s->commands = choose_commands(s->config);
    s->engine = engine_new(shards, seed, datadir_random_seed(), s->commands);
    s->topology = topology_new(s->engine);
    s->rangekeeper = rangekeeper_new(s);
    s->pager = pager_new();
    for (uint32_t i = 0; i < shards; i++) s->engine->stores[i]->pager = s->pager;
    s->pubsub = subscribe_registry_new(workers);
    s->slowlog = slowlog_new();
    s->totals = totals_new(command_places(s->commands));
    s->errors = stats_errors_new();
    s->publisher = publisher_new(s);
    s->exporter = exporter_new(s);
    s->fronts = mem_zalloc(workers * sizeof *s->fronts);
    for (unsigned i = 0; i < workers; i++) s->fronts[i] = front_new(s);
    s->sampler = sampler_new(s);
    make_run_id(s);
    s->started_ms = clock_unix_ms();
    atomic_store(&s->active_expire, true);
    s->config->on_change = apply_config;
    s->config->on_change_ctx = s;
    apply_config(s);
    notify_install(s);
    s->engine->hooks = (struct engine_hooks){.slow = slowlog_note, .error = stats_note_error, .route = transactions_route_again, .mapped = mapped, .ctx = s};
}

static void tear_down(struct server *s)
{
    for (uint32_t i = 0; i < s->engine->n_workers; i++) front_free(s->fronts[i]);
    mem_free(s->fronts);
    sampler_free(s->sampler);
    totals_free(s->totals);
    slowlog_free(s->slowlog);
    stats_errors_free(s->errors);
    publisher_free(s->publisher);
    exporter_free(s->exporter);
    subscribe_registry_free(s->pubsub);
    rangekeeper_free(s->rangekeeper);
    topology_free(s->topology);
    engine_free(s->engine);
    pager_free(s->pager);
    command_table_free(s->commands);
}

/* ---- signals: blocked everywhere, taken by the main thread one at a time */

static sigset_t block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error of the write, as a full disk is */
    return set;
}

enum { LOOK_NS = 10 * 1000 * 1000 };

/* A node of a cluster is up when its groups are back: that is looked for while waiting. */
static int wait_for_signal(struct server *s, const sigset_t *set)
{
    int got = 0;
    while (s->node && atomic_load(&s->loading)) {
        if ((got = sigtimedwait(set, NULL, &(struct timespec){.tv_nsec = LOOK_NS})) > 0) return got;
        if (!node_is_up(s->node)) continue;
        atomic_store(&s->loading, false);
        announce(s);
    }
    while (sigwait(set, &got) != 0) {
    }
    return got;
}

/* False: it ends because the data could not be recovered. */
static bool wait_for_end(struct server *s, const sigset_t *set)
{
    int got = wait_for_signal(s, set);
    slog(&s->log, SLOG_NOTICE, "stopping", "signal=%s", got == SIGINT ? "SIGINT" : "SIGTERM");
    atomic_store(&s->stopping, true);
    bool recovered = !s->recovery || recover_join(s);
    if (s->node) clusternode_stop(s->clusternode);
    for (uint32_t i = 0; i < s->engine->n_workers; i++) engine_send(s->engine, i, &s->fronts[i]->stop_mail);
    for (uint32_t i = 0; i < s->engine->n_workers; i++) front_join(s->fronts[i]);
    return recovered;
}

/* ---- the log */

/* On the journal's thread: the log has advanced, or fails, or works again. */
static void journal_told(void *ctx)
{
    struct server *s = ctx;
    int error = journal_error(s->journal), before = atomic_exchange(&s->write_error, error);
    if (error && !before) slog(&s->log, SLOG_WARNING, "cannot write the log, writes are refused", "error=%s", strerror(-error));
    if (!error && before) slog(&s->log, SLOG_NOTICE, "the log can be written again", "");
    int kept = journal_drop_error(s->journal), kept_before = atomic_exchange(&s->drop_error, kept);
    if (kept && kept != kept_before) slog(&s->log, SLOG_WARNING, "log files that a dump covers cannot be deleted", "error=%s", strerror(-kept));
    for (uint32_t i = 0; i < s->engine->n_workers; i++) front_journal_advanced(s->fronts[i]);
}

static void choose_files(struct server *s)
{
    if (CONFIG_NUM(s->config, io_backend) != CONFIG_IO_EPOLL) s->file_uring = file_uring_open();
    s->files = s->file_uring ? file_uring_ops(s->file_uring) : &file_disk;
}

/* ---- the cold tier */

static bool open_cold(struct server *s, const struct datadir *d)
{
    if (!d) return true;
    struct buf path = {0}, error = {0};
    buf_printf(&path, "%s/cold", d->path);
    buf_add_byte(&path, '\0');
    struct tier *t = tier_open(&file_disk, path.p, &s->log, &error);
    buf_add_byte(&error, '\0');
    if (!t) slog(&s->log, SLOG_WARNING, "cannot open the cold tier", "error=%s", error.p);
    buf_fini(&path);
    buf_fini(&error);
    if (!t) return false;
    thaw_open(s->engine, t);
    apply_config(s);
    evictor_tick(s, clock_mono_us() / 1000);
    return true;
}

/* On the recovery's thread, all tokens held. */
static void loaded(struct server *s, const char *layout, const struct dumper_past *past)
{
    struct journal *j = journal_new(s->engine, s->wal, (enum journal_policy)CONFIG_NUM(s->config, sync_policy), journal_told, s);
    s->journal = j;
    journal_set_policy(j, (enum journal_policy)CONFIG_NUM(s->config, sync_policy)); /* it may have changed before there was a journal to tell */
    s->walk = walk_new(s->engine, j);
    saves_open(s, layout, past);
    saves_apply_config(s);
    journal_start(j);
    dumper_start(s->dumper);
    atomic_store(&s->loading, false);
    announce(s);
}

static void ready_without_log(struct server *s)
{
    if (s->snapserve) snapserve_start(s);
    announce(s);
}

/* After the fronts have ended: everything that was acknowledged becomes durable. */
static int close_log(struct server *s)
{
    if (s->walk) walk_stop(s->walk);
    if (s->node) clusternode_close(s->clusternode);
    publisher_stop(s->publisher);
    exporter_stop(s->exporter);
    if (s->dumper) dumper_stop(s->dumper);
    int rc = s->journal ? journal_stop(s->journal) : 0;
    if (rc < 0) slog(&s->log, SLOG_WARNING, "the last writes could not be made durable", "error=%s", strerror(-rc));
    if (s->dumper) dumper_free(s->dumper);
    if (s->walk) walk_free(s->walk);
    if (s->journal) journal_free(s->journal);
    if (s->wal) wal_close(s->wal);
    if (s->recovery) recover_free(s);
    if (s->file_uring) file_uring_close(s->file_uring);
    return rc < 0 ? 1 : 0;
}

/* d: NULL if ephemeral. */
static int run(struct server *s, struct datadir *d)
{
    sigset_t set = block_signals();
    unsigned workers = config_workers(s->config);
    build(s, workers, workers, d ? d->seed : datadir_random_seed());
    int code = 1;
    listen_make_room(s);
    if (d) {
        choose_files(s);
        recover_hold(s);
    }
    bool opened = s->config->snapshot[0] ? snapserve_open(s) : open_cold(s, d);
    if (!d && !s->snapserve) s->walk = walk_new(s->engine, NULL); /* before the first client can ask for one */
    if (opened && listen_open(s) && start_fronts(s)) {
        if (d) recover_start(s, d, loaded);
        else ready_without_log(s);
        bool recovered = wait_for_end(s, &set);
        code = close_log(s);
        if (s->engine->thaws) thaw_close(s->engine->thaws);
        if (s->snapserve) snapserve_close(s);
        if (!recovered) code = 1;
        slog(&s->log, SLOG_NOTICE, "stopped", "exit=%d", code);
        tear_down(s);
    } /* else threads may be running: the process ends anyway */
    listen_cleanup(s);
    return code;
}

/* A node of a cluster: its data is in Raft's log and in snapshots of groups, so there is nothing else to load, log or dump. */
static int run_node(struct server *s, const struct datadir *d)
{
    s->clusternode = clusternode_new(s, d);
    if (!s->clusternode) return 1;
    sigset_t set = block_signals();
    int code = 1;
    build(s, config_workers(s->config), (uint32_t)CONFIG_NUM(s->config, cluster.seats), clusternode_seed(s->clusternode));
    listen_make_room(s);
    s->walk = walk_new(s->engine, NULL);
    atomic_store(&s->loading, true);
    if (clusternode_open(s->clusternode) && listen_open(s) && start_fronts(s) && clusternode_start(s->clusternode)) {
        wait_for_end(s, &set);
        code = close_log(s);
        slog(&s->log, SLOG_NOTICE, "stopped", "exit=%d", code);
        tear_down(s);
        clusternode_free(s->clusternode);
    } /* else threads may be running: the process ends anyway */
    listen_cleanup(s);
    return code;
}

static int open_datadir(struct datadir *d, const struct config *c, struct buf *error)
{
    return CONFIG_NUM(c, cluster.enabled) ? datadir_open_node(d, c->data, error) : datadir_open(d, c->data, config_workers(c), error);
}

int server_run(struct config *config)
{
    struct server *s = mem_zalloc(sizeof *s);
    s->config = config;
    clock_calibrate();
    int rc = slog_open(&s->log, config->logfile, (enum slog_format)CONFIG_NUM(config, log_format), (enum slog_level)CONFIG_NUM(config, log_level));
    if (rc < 0) {
        fprintf(stderr, "sherd: cannot open log file %s: %s\n", config->logfile, strerror(-rc));
        return 1;
    }
    struct datadir d = {0};
    int code = 1;
    struct buf error = {0};
    if (config->snapshot[0]) { /* what it serves lies elsewhere, and is one database */
        atomic_store(&config->ephemeral, 1);
        atomic_store(&config->databases, 1);
    }
    if (CONFIG_NUM(config, ephemeral)) {
        code = run(s, NULL);
    } else if (open_datadir(&d, config, &error) < 0) {
        buf_add_byte(&error, '\0');
        slog(&s->log, SLOG_WARNING, "cannot use the data directory", "error=%s", error.p);
    } else {
        code = CONFIG_NUM(config, cluster.enabled) ? run_node(s, &d) : run(s, &d);
        datadir_close(&d);
    }
    buf_fini(&error);
    slog_close(&s->log);
    if (code == 0) mem_free(s);
    return code;
}
