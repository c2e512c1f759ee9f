/* INFO: numbers about the server as text, in sections.
 *
 * The command visits every shard in turn, so that key counts are exact for what the client itself has written; the visit to the last one writes
 * the answer. It runs under a token, hence makes no system call that could wait: what the kernel must be asked for was sampled (server/sampler.h). */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/version.h"
#include "cold/readers.h"
#include "server/clusternode.h"
#include "server/conn.h"
#include "server/durability.h"
#include "server/families.h"
#include "server/front.h"
#include "server/rangekeeper.h"
#include "server/recover.h"
#include "server/sampler.h"
#include "server/snapcmd.h"
#include "server/snapserve.h"
#include "server/stats.h"
#include "server/subscribe.h"
#include "server/totals.h"
#include "shard/thaw.h"
#include "store/entry.h"

/* What the visits have gathered of each database: kept in x->carry. */
struct ttl_samples {
    struct {
        double sum_ms; /* of each shard's average, weighted by its keys that expire */
        uint64_t keys;
    } of[STORE_DBS];
};

struct report {
    struct server *s;
    struct buf *out;
    int64_t now_ms;
    const struct ttl_samples *ttl;
};

/* ---- fields */

static void add_num(struct report *r, const char *name, uint64_t n) { buf_printf(r->out, "%s:%llu\r\n", name, (unsigned long long)n); }
static void add_text(struct report *r, const char *name, const char *text) { buf_printf(r->out, "%s:%s\r\n", name, text); }
static void add_ratio(struct report *r, const char *name, double ratio) { buf_printf(r->out, "%s:%.2f\r\n", name, ratio); }

/* Bytes, and once more for people: 1.50K. */
static void add_bytes(struct report *r, const char *name, uint64_t bytes)
{
    static const char units[] = "BKMGTP";
    double n = (double)bytes;
    unsigned u = 0;
    add_num(r, name, bytes);
    for (; n >= 1024 && u < sizeof units - 2; u++) n /= 1024;
    if (u == 0) buf_printf(r->out, "%s_human:%lluB\r\n", name, (unsigned long long)bytes);
    else buf_printf(r->out, "%s_human:%.2f%c\r\n", name, n, units[u]);
}

static double share(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

static void keep_value(void *ctx, const char *name, struct slice value) { buf_add_slice(ctx, value); }

static void add_option(struct report *r, const char *field, const char *option)
{
    buf_printf(r->out, "%s:", field);
    config_get(r->s->config, slice_str(option), keep_value, r->out);
    buf_add_str(r->out, "\r\n");
}

/* ---- sections */

static void add_server(struct report *r)
{
    const struct server *s = r->s;
    uint64_t up_s = (uint64_t)(r->now_ms - s->started_ms) / 1000;
    struct utsname os;
    uname(&os);
    buf_printf(r->out, "redis_version:%s\r\nserver_name:sherd\r\nsherd_version:%s\r\nsherd_build:%s\r\n", REDIS_VERSION, SHERD_VERSION, SHERD_BUILD);
    buf_printf(r->out, "redis_mode:%s\r\nos:%s %s %s\r\narch_bits:%zu\r\n", s->node ? "cluster" : "standalone", os.sysname, os.release, os.machine, 8 * sizeof(void *));
    add_text(r, "multiplexing_api", s->io_backend);
    add_text(r, "compiler_version", __VERSION__);
    add_num(r, "process_id", (uint64_t)getpid());
    add_text(r, "process_supervised", "no");
    add_text(r, "run_id", s->run_id);
    add_option(r, "tcp_port", "port");
    add_num(r, "server_time_usec", (uint64_t)clock_unix_us());
    add_num(r, "uptime_in_seconds", up_s);
    add_num(r, "uptime_in_days", up_s / 86400);
    add_option(r, "hz", "hz");
    add_option(r, "configured_hz", "hz");
    add_text(r, "config_file", s->config->config_path);
    add_num(r, "workers", s->engine->n_workers);
    add_num(r, "shards", s->engine->route.shards);
}

/* Connections by what they do at the moment: each is looked at, which is cheap beside what made them. */
struct client_counts {
    uint64_t subscribed, watching, held;
};

/* The front's lock keeps the connections; the numbers are those of a moment ago. */
__attribute__((no_sanitize("thread"))) static void count_clients(struct front *f, struct client_counts *n)
{
    pthread_mutex_lock(&f->lock);
    for (const struct conn *c = f->conns; c; c = c->next) {
        n->subscribed += c->subs != NULL;
        n->watching += *(const volatile uint32_t *)&c->watches.n > 0;
        n->held += *(const volatile bool *)&c->paused;
    }
    pthread_mutex_unlock(&f->lock);
}

static void add_clients(struct report *r)
{
    struct client_counts n = {0};
    for (uint32_t i = 0; i < r->s->engine->n_workers; i++) count_clients(r->s->fronts[i], &n);
    add_num(r, "connected_clients", atomic_load(&r->s->connections));
    add_text(r, "cluster_connections", "0");
    add_option(r, "maxclients", "maxclients");
    add_num(r, "blocked_clients", atomic_load(&r->s->blocked) + n.held);
    add_text(r, "tracking_clients", "0");
    add_num(r, "pubsub_clients", n.subscribed);
    add_num(r, "watching_clients", n.watching);
}

static void add_allocator(struct report *r, const struct sampler_memory *m)
{
    char name[32];
    add_text(r, "mem_allocator", sampler_allocator(name));
    if (!m->allocated) return; /* it does not tell */
    add_num(r, "allocator_allocated", m->allocated);
    add_num(r, "allocator_active", m->active);
    add_num(r, "allocator_resident", m->resident);
    add_ratio(r, "allocator_frag_ratio", share(m->active, m->allocated));
    add_num(r, "allocator_frag_bytes", m->active > m->allocated ? m->active - m->allocated : 0);
    add_ratio(r, "allocator_rss_ratio", share(m->resident, m->active));
    add_num(r, "allocator_rss_bytes", m->resident > m->active ? m->resident - m->active : 0);
}

static void add_memory(struct report *r)
{
    struct sampler_memory m;
    struct sysinfo machine;
    sampler_memory(r->s, &m);
    sysinfo(&machine);
    add_bytes(r, "used_memory", m.used);
    add_bytes(r, "used_memory_rss", m.rss);
    add_bytes(r, "used_memory_peak", m.peak);
    buf_printf(r->out, "used_memory_peak_perc:%.2f%%\r\n", share(m.used, m.peak) * 100);
    add_num(r, "used_memory_overhead", m.used - m.data);
    add_num(r, "used_memory_startup", m.startup);
    add_num(r, "used_memory_dataset", m.data);
    buf_printf(r->out, "used_memory_dataset_perc:%.2f%%\r\n", share(m.data, m.used) * 100);
    add_bytes(r, "total_system_memory", (uint64_t)machine.totalram * machine.mem_unit);
    add_bytes(r, "maxmemory", (uint64_t)CONFIG_NUM(r->s->config, maxmemory));
    add_option(r, "maxmemory_policy", "maxmemory-policy");
    add_ratio(r, "mem_fragmentation_ratio", share(m.rss, m.used));
    buf_printf(r->out, "mem_fragmentation_bytes:%lld\r\n", (long long)m.rss - (long long)m.used);
    add_num(r, "mem_not_counted_for_evict", m.used - m.data);
    add_allocator(r, &m);
    buf_add_str(r->out, "used_memory_lua:0\r\nused_memory_scripts:0\r\nnumber_of_cached_scripts:0\r\nmem_clients_slaves:0\r\n"
                        "active_defrag_running:0\r\nlazyfree_pending_objects:0\r\n");
    add_num(r, "mem_clients_normal", m.used - m.data > m.startup ? m.used - m.data - m.startup : 0);
}

static void add_loading(struct report *r)
{
    bool loading = atomic_load(&r->s->loading);
    buf_printf(r->out, "loading:%d\r\nasync_loading:0\r\n", loading);
    add_num(r, "wal_replay_errors", atomic_load(&r->s->replay_errors));
    if (!loading || !r->s->recovery) return;
    struct recover_progress p;
    recover_progress(r->s, &p);
    double part = share(p.loaded_bytes, p.total_bytes), seconds = (double)(r->now_ms - p.start_ms) / 1000;
    add_num(r, "loading_start_time", (uint64_t)p.start_ms / 1000);
    add_num(r, "loading_total_bytes", p.total_bytes);
    add_num(r, "loading_loaded_bytes", p.loaded_bytes);
    buf_printf(r->out, "loading_loaded_perc:%.2f\r\n", part * 100);
    buf_printf(r->out, "loading_eta_seconds:%.0f\r\n", part > 0 ? seconds / part - seconds : -1);
}

static void add_persistence(struct report *r)
{
    add_loading(r);
    durability_info(r->s, r->out);
}

static void add_cold(struct report *r)
{
    struct thaws *th = r->s->engine->thaws;
    struct tier_stats n = {0};
    uint64_t keys = 0;
    add_num(r, "cold_available", th != NULL);
    if (!th) return;
    for (uint32_t i = 0; i < r->s->engine->route.shards; i++) keys += STAT_GET(r->s->engine->shards[i].numbers.cold);
    tier_get_stats(th->tier, &n);
    add_num(r, "cold_keys", keys);
    add_num(r, "cold_bytes", n.live_bytes);
    add_num(r, "cold_raw_bytes", n.raw_bytes);
    buf_printf(r->out, "cold_ratio:%.2f\r\n", n.live_bytes ? (double)n.raw_bytes / (double)n.live_bytes : 0);
    add_num(r, "cold_disk_bytes", n.disk_bytes);
    add_num(r, "cold_files", n.segments);
    add_num(r, "cold_memory_bytes", n.pending_bytes + n.index_bytes);
    add_num(r, "cold_pending_bytes", n.pending_bytes);
    add_num(r, "cold_hits", atomic_load(&th->hits));
    add_num(r, "cold_hits_lent", atomic_load(&th->lent));
    add_num(r, "cold_reads", n.reads);
    add_num(r, "cold_reads_in_flight", readers_under_way(th->readers));
    add_num(r, "cold_chilled", n.puts);
    add_num(r, "cold_files_cleaned", n.cleaned);
    add_num(r, "cold_values_moved", n.moved);
    add_num(r, "cold_read_errors", n.read_errors);
    add_num(r, "cold_write_errors", n.write_errors);
    add_text(r, "cold_write_status", n.failing ? "err" : "ok");
    add_num(r, "cold_data_limit", atomic_load(&r->s->data_limit));
}

static void sum_errors(void *ctx, const char *code, uint64_t n) { *(uint64_t *)ctx += n; }

static void add_stats(struct report *r)
{
    struct totals t;
    struct sampler_rates rates;
    uint64_t errors = 0;
    totals_read(r->s, &t);
    sampler_rates(r->s, &rates);
    stats_errors(r->s, sum_errors, &errors);
    add_num(r, "total_connections_received", t.of[TOTAL_CONNECTIONS]);
    add_num(r, "total_commands_processed", t.of[TOTAL_COMMANDS]);
    buf_printf(r->out, "instantaneous_ops_per_sec:%.0f\r\n", rates.commands);
    add_num(r, "total_net_input_bytes", t.of[TOTAL_BYTES_IN]);
    add_num(r, "total_net_output_bytes", t.of[TOTAL_BYTES_OUT]);
    add_ratio(r, "instantaneous_input_kbps", rates.bytes_in / 1024);
    add_ratio(r, "instantaneous_output_kbps", rates.bytes_out / 1024);
    add_num(r, "rejected_connections", t.of[TOTAL_REJECTED]);
    buf_add_str(r->out, "sync_full:0\r\nsync_partial_ok:0\r\nsync_partial_err:0\r\n");
    add_num(r, "expired_keys", t.of[TOTAL_EXPIRED]);
    add_num(r, "evicted_keys", t.of[TOTAL_EVICTED]);
    add_num(r, "keyspace_hits", t.of[TOTAL_HITS]);
    add_num(r, "keyspace_misses", t.of[TOTAL_MISSES]);
    add_num(r, "pubsub_channels", subscribe_names(r->s, SUBSCRIBE_CHANNEL));
    add_num(r, "pubsub_patterns", subscribe_names(r->s, SUBSCRIBE_PATTERN));
    add_num(r, "pubsubshard_channels", subscribe_names(r->s, SUBSCRIBE_SHARD));
    buf_add_str(r->out, "latest_fork_usec:0\r\ntotal_forks:0\r\nmigrate_cached_sockets:0\r\nslave_expires_tracked_keys:0\r\n"
                        "tracking_total_keys:0\r\ntracking_total_items:0\r\ntracking_total_prefixes:0\r\n"
                        "active_defrag_hits:0\r\nactive_defrag_misses:0\r\nunexpected_error_replies:0\r\n");
    add_num(r, "total_error_replies", errors);
    add_num(r, "client_query_buffer_limit_disconnections", t.of[TOTAL_CLOSED_BY_QUERY]);
    add_num(r, "client_output_buffer_limit_disconnections", t.of[TOTAL_CLOSED_BY_LIMIT]);
    add_num(r, "eventloop_cycles", t.of[TOTAL_TURNS]);
}

/* A master without replicas; its history is as old as the process. */
static void add_replication(struct report *r)
{
    buf_printf(r->out, "role:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\nmaster_replid:%s\r\n", r->s->run_id);
    buf_printf(r->out, "master_replid2:%040d\r\nmaster_repl_offset:0\r\nsecond_repl_offset:-1\r\nrepl_backlog_active:0\r\n", 0);
    add_option(r, "repl_backlog_size", "repl-backlog-size");
    buf_add_str(r->out, "repl_backlog_first_byte_offset:0\r\nrepl_backlog_histlen:0\r\n");
}

static void add_time(struct report *r, const char *name, struct timeval t)
{
    buf_printf(r->out, "%s:%ld.%06ld\r\n", name, (long)t.tv_sec, (long)t.tv_usec);
}

static void add_cpu(struct report *r)
{
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    add_time(r, "used_cpu_sys", self.ru_stime);
    add_time(r, "used_cpu_user", self.ru_utime);
    add_time(r, "used_cpu_sys_children", children.ru_stime);
    add_time(r, "used_cpu_user_children", children.ru_utime);
}

static void add_commandstats(struct report *r)
{
    for (size_t i = 0; i < command_places(r->s->commands); i++) {
        struct totals_command c;
        totals_of_command(r->s, i, &c);
        if (!c.calls && !c.rejected) continue;
        buf_printf(r->out, "cmdstat_%s:calls=%llu,usec=%.0f,usec_per_call=%.2f,rejected_calls=%llu,failed_calls=%llu\r\n",
                   command_place_name(r->s->commands, i), (unsigned long long)c.calls, c.us, c.calls ? c.us / (double)c.calls : 0,
                   (unsigned long long)c.rejected, (unsigned long long)c.failed);
    }
}

static void add_error(void *ctx, const char *code, uint64_t n)
{
    const struct report *r = ctx;
    buf_printf(r->out, "errorstat_%s:count=%llu\r\n", code, (unsigned long long)n);
}

static void add_errorstats(struct report *r) { stats_errors(r->s, add_error, r); }

/* p50=0.431,p99=1.2: one for each of the words, which are numbers. */
static void add_percentiles(struct report *r, const struct hist *h, struct slice words)
{
    const char *before = "";
    double percent;
    for (struct slice word; config_word(&words, &word); before = ",") {
        num_parse_f64(word, &percent);
        buf_printf(r->out, "%sp%.*s=%.3f", before, (int)word.n, word.p, (double)hist_quantile(h, percent / 100) / clock_ticks_per_us());
    }
}

static void add_latencystats(struct report *r)
{
    struct buf percentiles = {0};
    config_get(r->s->config, SLICE("latency-tracking-info-percentiles"), keep_value, &percentiles);
    for (size_t i = 0; i < command_places(r->s->commands); i++) {
        struct hist h;
        if (!totals_durations(r->s, i, &h)) continue;
        buf_printf(r->out, "latency_percentiles_usec_%s:", command_place_name(r->s->commands, i));
        add_percentiles(r, &h, buf_slice(&percentiles));
        buf_add_str(r->out, "\r\n");
    }
    buf_fini(&percentiles);
}

static void add_cluster(struct report *r)
{
    add_num(r, "cluster_enabled", r->s->node != NULL);
    if (r->s->node) clusternode_info(r->s, r->out);
}

static void add_keyspace(struct report *r)
{
    const struct engine *e = r->s->engine;
    for (int db = 0; db < STORE_DBS; db++) {
        uint64_t keys = 0, expiring = 0;
        for (uint32_t i = 0; i < e->route.shards; i++) {
            keys += STAT_GET(e->shards[i].numbers.keys[db]);
            expiring += STAT_GET(e->shards[i].numbers.expiring[db]);
        }
        if (!keys) continue;
        uint64_t sampled = r->ttl->of[db].keys;
        buf_printf(r->out, "db%d:keys=%llu,expires=%llu,avg_ttl=%.0f\r\n", db, (unsigned long long)keys, (unsigned long long)expiring,
                   sampled ? r->ttl->of[db].sum_ms / (double)sampled : 0);
    }
}

static void add_shard(struct report *r, const struct shard *s)
{
    uint64_t keys = 0, expiring = 0;
    for (int db = 0; db < STORE_DBS; db++) {
        keys += STAT_GET(s->numbers.keys[db]);
        expiring += STAT_GET(s->numbers.expiring[db]);
    }
    buf_printf(r->out, "shard%u:keys=%llu,expires=%llu,bytes=%llu,ops=%llu,local=%llu,foreign=%llu,mailbox=%u,home=%u\r\n", s->id,
               (unsigned long long)keys, (unsigned long long)expiring,
               (unsigned long long)atomic_load_explicit(&s->bytes, memory_order_relaxed), (unsigned long long)STAT_GET(s->stats.ops),
               (unsigned long long)STAT_GET(s->stats.local), (unsigned long long)STAT_GET(s->stats.foreign),
               atomic_load_explicit(&s->depth, memory_order_relaxed), s->home);
}

static void add_worker(struct report *r, struct front *f)
{
    const struct worker_stats *n = &f->worker.stats;
    pthread_mutex_lock(&f->lock);
    uint32_t connections = f->n_conns;
    pthread_mutex_unlock(&f->lock);
    buf_printf(r->out, "worker%u:connections=%u,commands=%llu,turns=%llu,travelled=%llu,helped=%llu,handovers=%llu,cpu_seconds=%.3f\r\n",
               f->worker.id, connections, (unsigned long long)STAT_GET(n->commands), (unsigned long long)STAT_GET(n->turns),
               (unsigned long long)STAT_GET(n->travelled), (unsigned long long)STAT_GET(n->helped),
               (unsigned long long)STAT_GET(n->handovers), (double)STAT_GET(n->cpu_us) / 1e6);
}

static void add_shards(struct report *r)
{
    const struct engine *e = r->s->engine;
    for (uint32_t i = 0; i < e->route.shards; i++) add_shard(r, &e->shards[i]);
    for (uint32_t i = 0; i < e->n_workers; i++) add_worker(r, r->s->fronts[i]);
}

static void add_spaces(struct report *r) { rangekeeper_info(r->s->rangekeeper, r->out); }

static void add_snapshot(struct report *r)
{
    if (r->s->snapserve) snapserve_info(r->s, r->out);
    else snapcmd_info(r->s, r->out);
}

enum section_set { IN_DEFAULT = 1, IN_ALL = 2, IN_EVERYTHING = 4 };
enum { USUAL = IN_DEFAULT | IN_ALL | IN_EVERYTHING, DETAIL = IN_ALL | IN_EVERYTHING };

static const struct section {
    const char *title; /* its name is the same in lower case */
    unsigned sets;
    void (*add)(struct report *r); /* NULL: there is nothing to tell */
} sections[] = {
    {"Server", USUAL, add_server},
    {"Clients", USUAL, add_clients},
    {"Memory", USUAL, add_memory},
    {"Persistence", USUAL, add_persistence},
    {"Cold", USUAL, add_cold},
    {"Snapshot", USUAL, add_snapshot},
    {"Stats", USUAL, add_stats},
    {"Replication", USUAL, add_replication},
    {"CPU", USUAL, add_cpu},
    {"Modules", IN_DEFAULT | IN_EVERYTHING, NULL},
    {"Commandstats", DETAIL, add_commandstats},
    {"Errorstats", USUAL, add_errorstats},
    {"Latencystats", DETAIL, add_latencystats},
    {"Cluster", USUAL, add_cluster},
    {"Keyspace", USUAL, add_keyspace},
    {"Spaces", USUAL, add_spaces},
    {"Shards", DETAIL, add_shards},
};

/* ---- the command */

static unsigned set_of(struct slice word)
{
    if (slice_is(word, "default")) return IN_DEFAULT;
    if (slice_is(word, "all")) return IN_ALL;
    return slice_is(word, "everything") ? IN_EVERYTHING : 0;
}

static bool is_wanted(const struct exec *x, const struct section *s)
{
    if (x->argc == 1) return s->sets & IN_DEFAULT;
    for (uint32_t i = 1; i < x->argc; i++)
        if (slice_is(x->argv[i], s->title) || s->sets & set_of(x->argv[i])) return true;
    return false;
}

/* Notes what is to be known of this shard while its token is held. */
static void visit(struct exec *x, struct shard *s, struct ttl_samples *to)
{
    enum { SAMPLES = 16 };
    engine_publish_numbers(s);
    for (uint16_t db = 0; db < STORE_DBS; db++) {
        uint64_t n = store_expiring(s->store, db);
        double sum_ms = 0;
        for (int i = 0; n && i < SAMPLES; i++) {
            int64_t left_ms = entry_expiry_ms(table_random(&s->store->dbs[db]->expiring, rng_u64(x->rng))) - x->now_ms;
            if (left_ms > 0) sum_ms += (double)left_ms;
        }
        to->of[db].sum_ms += sum_ms / SAMPLES * (double)n;
        to->of[db].keys += n;
    }
}

static void answer(struct exec *x, struct server *s, const struct ttl_samples *ttl)
{
    struct buf text = {0};
    struct report r = {.s = s, .out = &text, .now_ms = x->now_ms, .ttl = ttl};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (!is_wanted(x, &sections[i])) continue;
        buf_printf(&text, "%s# %s\r\n", text.len ? "\r\n" : "", sections[i].title);
        if (sections[i].add) sections[i].add(&r);
    }
    reply_verbatim(&x->out, "txt", slice_of(text.p ? text.p : "", text.len));
    buf_fini(&text);
}

static void cmd_info(struct exec *x)
{
    struct server *s = conn_of(x)->front->server;
    struct ttl_samples ttl = {0};
    if (x->shard == EXEC_NO_SHARD) {
        answer(x, s, &ttl);
        return;
    }
    if (x->carry->len) memcpy(&ttl, x->carry->p, sizeof ttl);
    visit(x, &s->engine->shards[x->shard], &ttl);
    x->carry->len = 0;
    buf_add(x->carry, &ttl, sizeof ttl);
    if (x->shard == x->route->shards - 1) answer(x, s, &ttl);
}

static const struct command rows[] = {
    {.name = "info", .fn = cmd_info, .arity = -1, .class = CLASS_EACH, .flags = CMD_LOADING | CMD_STALE, .group = "server", .since = "1.0.0",
     .summary = "Returns information and statistics about the server.", .args = "[section [section ...]]"},
};

const struct command_family info_family = COMMAND_FAMILY(rows);
