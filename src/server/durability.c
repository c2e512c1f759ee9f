#include "server/durability.h"

#include <stdio.h>

#include "base/clock.h"
#include "log/wal.h"
#include "server/clusternode.h"
#include "server/conn.h"
#include "server/families.h"
#include "server/front.h"
#include "server/sampler.h"
#include "shard/dumper.h"
#include "shard/journal.h"

uint64_t durability_changes(const struct server *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->engine->route.shards; i++) sum += STAT_GET(s->engine->stores[i]->stats.changes);
    return sum;
}

/* Those of earlier lives are not counted one by one, but the log's epochs tell of them. */
static uint64_t changes_since_dump(const struct server *s, const struct dumper_info *d)
{
    uint64_t all = durability_changes(s), dumped = atomic_load(&s->changes_dumped);
    if (all > dumped) return all - dumped;
    return s->wal && wal_open_epoch(s->wal) - 1 > d->last.epoch;
}

/* ---- INFO */

static void add_num(struct buf *out, const char *name, uint64_t n) { buf_printf(out, "%s:%llu\r\n", name, (unsigned long long)n); }
static void add_int(struct buf *out, const char *name, int64_t n) { buf_printf(out, "%s:%lld\r\n", name, (long long)n); }
static void add_text(struct buf *out, const char *name, const char *text) { buf_printf(out, "%s:%s\r\n", name, text); }
static const char *ok_or_err(bool ok) { return ok ? "ok" : "err"; }
static double share(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 1; }

struct log_sums {
    uint64_t bytes, segments, records;
};

/* One line for each shard; gives the sums. */
static struct log_sums add_shards(const struct server *s, const struct wal *w, struct buf *out)
{
    struct log_sums sum = {0};
    for (uint32_t i = 0; i < s->engine->route.shards; i++) {
        struct wal_info info;
        wal_shard_info(w, i, &info);
        buf_printf(out, "log_shard%u:bytes=%llu,segments=%llu,records=%llu\r\n", i, (unsigned long long)info.bytes, (unsigned long long)info.segments,
                   (unsigned long long)info.records);
        sum.bytes += info.bytes;
        sum.segments += info.segments;
        sum.records += info.records;
    }
    return sum;
}

static void add_log(const struct server *s, int64_t now_ms, struct buf *out)
{
    static const char *const policies[] = {[JOURNAL_EVERY_WRITE] = "EveryWrite", [JOURNAL_EVERY_SECOND] = "EverySecond", [JOURNAL_OS_MANAGED] = "OsManaged"};
    const struct journal *j = s->journal;
    const struct wal *w = s->wal;
    int64_t synced_ms = journal_last_sync_ms(j);
    struct log_sums sum = add_shards(s, w, out);
    add_num(out, "log_bytes", sum.bytes);
    add_num(out, "log_segments", sum.segments);
    add_num(out, "log_records", sum.records);
    add_num(out, "log_pending_bytes", wal_pending_bytes(w));
    add_num(out, "log_written_epoch", wal_written_epoch(w));
    add_num(out, "log_synced_epoch", wal_synced_epoch(w));
    add_int(out, "log_last_sync_time", synced_ms / 1000);
    add_int(out, "log_last_sync_age_ms", now_ms > synced_ms ? now_ms - synced_ms : 0);
    add_text(out, "log_sync_policy", policies[CONFIG_NUM(s->config, sync_policy)]);
    add_text(out, "log_io", s->file_uring ? "io_uring" : "plain");
    add_text(out, "log_status", journal_broken(j) ? "broken" : journal_error(j) ? "failing" : "ok");
    add_num(out, "aof_current_size", sum.bytes);
    add_num(out, "aof_buffer_length", wal_pending_bytes(w));
}

static void add_running(const struct dumper_info *d, int64_t now_ms, struct buf *out)
{
    add_num(out, "dump_in_progress", d->running);
    if (!d->running) return;
    add_int(out, "dump_seconds", (now_ms - d->began_ms) / 1000);
    add_num(out, "dump_keys_done", d->entries_done);
    add_num(out, "dump_keys_total", d->entries_total);
    buf_printf(out, "dump_progress_perc:%.2f\r\n", d->entries_total ? 100 * share(d->entries_done, d->entries_total) : 0);
    add_num(out, "dump_backlog_bytes", d->backlog_bytes);
}

static void add_last(const struct dumper_info *d, int64_t now_ms, struct buf *out)
{
    add_num(out, "dump_count", d->ended);
    add_num(out, "dump_failures", d->failed);
    add_text(out, "dump_last_status", ok_or_err(d->last_error == 0));
    add_int(out, "dump_last_duration_ms", d->last_duration_ms);
    if (!d->last.any) return;
    add_int(out, "dump_last_time", d->last.cut_ms / 1000);
    add_int(out, "dump_last_age_sec", (now_ms - d->last.cut_ms) / 1000);
    add_num(out, "dump_last_epoch", d->last.epoch);
    add_num(out, "dump_last_keys", d->last.entries);
    add_num(out, "dump_last_bytes", d->last.file_bytes);
    buf_printf(out, "dump_last_compression_ratio:%.3f\r\n", share(d->last.stored_bytes, d->last.raw_bytes));
}

static int64_t seconds_of(int64_t ms) { return ms < 0 ? -1 : ms / 1000; }

/* The same under Redis's names, for programs that look for them. A dump is also what it calls a rewrite: the log is cut after it. */
static void add_redis_names(const struct server *s, const struct dumper_info *d, int64_t now_ms, struct buf *out)
{
    int64_t running_s = d->running ? (now_ms - d->began_ms) / 1000 : -1;
    add_num(out, "rdb_changes_since_last_save", changes_since_dump(s, d));
    add_num(out, "rdb_bgsave_in_progress", d->running);
    add_int(out, "rdb_last_save_time", (d->last.any ? d->last.cut_ms : s->started_ms) / 1000);
    add_text(out, "rdb_last_bgsave_status", ok_or_err(d->last_error == 0));
    add_int(out, "rdb_last_bgsave_time_sec", seconds_of(d->last_duration_ms));
    add_int(out, "rdb_current_bgsave_time_sec", running_s);
    add_num(out, "rdb_saves", d->ended);
    add_num(out, "current_save_keys_processed", d->entries_done);
    add_num(out, "current_save_keys_total", d->entries_total);
    add_text(out, "aof_enabled", s->journal ? "1" : "0");
    add_num(out, "aof_rewrite_in_progress", d->running);
    add_int(out, "aof_last_rewrite_time_sec", seconds_of(d->last_duration_ms));
    add_int(out, "aof_current_rewrite_time_sec", running_s);
    add_text(out, "aof_last_bgrewrite_status", ok_or_err(d->last_error == 0));
    add_text(out, "aof_last_write_status", ok_or_err(!s->journal || !journal_error(s->journal)));
    add_num(out, "aof_rewrites", d->ended);
    add_num(out, "aof_base_size", d->last.file_bytes);
    buf_add_str(out, "rdb_last_cow_size:0\r\naof_last_cow_size:0\r\naof_rewrite_scheduled:0\r\naof_pending_rewrite:0\r\naof_pending_bio_fsync:0\r\n"
                     "aof_delayed_fsync:0\r\n");
}

void durability_info(struct server *s, struct buf *out)
{
    struct dumper_info d = {.last_duration_ms = -1};
    int64_t now_ms = clock_unix_ms();
    if (s->dumper) dumper_info(s->dumper, &d);
    add_redis_names(s, &d, now_ms, out);
    if (!s->journal) return;
    add_log(s, now_ms, out);
    add_running(&d, now_ms, out);
    add_last(&d, now_ms, out);
    struct sampler_disk disk;
    sampler_disk(s, &disk);
    add_num(out, "disk_free_bytes", disk.free_bytes);
    add_num(out, "disk_total_bytes", disk.total_bytes);
}

/* ---- HEALTH */

void durability_facts(struct server *s, struct health_facts *f)
{
    struct sampler_disk disk;
    struct dumper_info d = {0};
    sampler_disk(s, &disk);
    if (s->dumper) dumper_info(s->dumper, &d);
    *f = (struct health_facts){.durable = !CONFIG_NUM(s->config, ephemeral),
                               .loading = atomic_load(&s->loading),
                               .now_ms = clock_unix_ms(),
                               .started_ms = s->started_ms,
                               .shard = d.log_shard,
                               .log_bytes = d.log_bytes,
                               .log_limit = d.log_limit,
                               .log_error = s->journal ? -journal_error(s->journal) : 0,
                               .log_broken = s->journal && journal_broken(s->journal),
                               .dumped = d.last.any,
                               .dumping = d.running,
                               .dumped_ms = d.last.cut_ms,
                               .dump_bytes = d.last.file_bytes,
                               .interval_s = CONFIG_NUM(s->config, snapshot_interval_s),
                               .changes = changes_since_dump(s, &d),
                               .dump_error = -d.last_error,
                               .replay_errors = atomic_load(&s->replay_errors),
                               .disk_free = disk.free_bytes,
                               .disk_total = disk.total_bytes,
                               .data_bytes = server_used_bytes(s)};
}

static void reply_head(struct exec *x, const struct health_finding *found, int n)
{
    reply_map(&x->out, 1 + (size_t)n);
    reply_bulk_str(&x->out, "state");
    reply_bulk_str(&x->out, health_state_name(health_worst(found, n)));
}

static void reply_finding(struct exec *x, const char *check, const struct health_finding *found)
{
    reply_bulk_str(&x->out, check);
    reply_map(&x->out, 2);
    reply_bulk_str(&x->out, "state");
    reply_bulk_str(&x->out, health_state_name(found->state));
    reply_bulk_str(&x->out, "detail");
    reply_bulk_str(&x->out, found->text);
}

static void reply_node(struct exec *x, struct server *s)
{
    struct health_node_facts facts;
    struct health_finding found[HEALTH_NODE_CHECKS];
    clusternode_facts(s, &facts);
    health_judge_node(&facts, found);
    reply_head(x, found, HEALTH_NODE_CHECKS);
    for (int i = 0; i < HEALTH_NODE_CHECKS; i++) reply_finding(x, health_node_check_name((enum health_node_check)i), &found[i]);
}

static void cmd_health(struct exec *x)
{
    struct server *s = conn_of(x)->front->server;
    struct health_facts facts;
    struct health_finding found[HEALTH_CHECKS];
    if (s->node) {
        reply_node(x, s);
        return;
    }
    durability_facts(s, &facts);
    health_judge(&facts, found);
    reply_head(x, found, HEALTH_CHECKS);
    for (int i = 0; i < HEALTH_CHECKS; i++) reply_finding(x, health_check_name((enum health_check)i), &found[i]);
}

static const struct command rows[] = {
    {.name = "health", .fn = cmd_health, .arity = 1, .class = CLASS_LOCAL, .flags = CMD_LOADING | CMD_STALE | CMD_FAST, .group = "server", .since = "0.1.0",
     .summary = "Checks what durability depends on: the log's length, the last dump, checksums, disk space; of a cluster's node: leaders, peers, replicas, disk space.", .args = ""},
};

const struct command_family durability_family = COMMAND_FAMILY(rows);
