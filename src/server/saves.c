#include "server/saves.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "io/file.h"
#include "server/conn.h"
#include "server/durability.h"
#include "server/families.h"
#include "server/front.h"
#include "shard/journal.h"
#include "shard/walk.h"
#include "store/evict.h"

static struct server *server_of(const struct exec *x) { return conn_of(x)->front->server; }

/* ---- the dumper's place in the server */

static struct dumper_options options_of(const struct server *s)
{
    const struct config *c = s->config;
    return (struct dumper_options){.log_bytes_max = (uint64_t)CONFIG_NUM(c, max_wal_size), .interval_s = CONFIG_NUM(c, snapshot_interval_s),
                                   .kept = (uint32_t)CONFIG_NUM(c, dumps_kept), .profile = (enum compress_profile)CONFIG_NUM(c, compression_profile),
                                   .min_size = (size_t)CONFIG_NUM(c, compression_min_size)};
}

static const char *reason_text(enum dumper_reason reason)
{
    switch (reason) {
    case DUMPER_LOG_LONG: return "the log is long";
    case DUMPER_AGE: return "the last dump is old";
    default: return "asked for";
    }
}

static double percent(uint64_t part, uint64_t whole) { return whole ? 100.0 * (double)part / (double)whole : 100.0; }

/* On the dumper's thread. */
static void told(void *ctx, enum dumper_event event)
{
    struct server *s = ctx;
    struct dumper_info i;
    dumper_info(s->dumper, &i);
    switch (event) {
    case DUMPER_BEGUN:
        s->changes_at_dump = durability_changes(s);
        slog(&s->log, SLOG_NOTICE, "dump begun", "reason=%s", reason_text(i.reason));
        return;
    case DUMPER_PROGRESS:
        slog(&s->log, SLOG_NOTICE, "dumping", "percent=%.1f keys=%llu of=%llu", percent(i.entries_done, i.entries_total), (unsigned long long)i.entries_done,
             (unsigned long long)i.entries_total);
        return;
    case DUMPER_ENDED:
        atomic_store(&s->changes_dumped, s->changes_at_dump);
        slog(&s->log, SLOG_NOTICE, "dump is durable", "keys=%llu bytes=%llu ratio=%.3f seconds=%.2f", (unsigned long long)i.last.entries,
             (unsigned long long)i.last.file_bytes, percent(i.last.stored_bytes, i.last.raw_bytes) / 100, (double)i.last_duration_ms / 1000);
        if (i.drop_error) slog(&s->log, SLOG_WARNING, "older dumps cannot be deleted", "error=%s", strerror(-i.drop_error));
        break;
    case DUMPER_FAILED: slog(&s->log, SLOG_WARNING, "dump failed, the last one stays", "error=%s", strerror(-i.last_error)); break;
    }
    for (uint32_t w = 0; w < s->engine->n_workers; w++) front_journal_advanced(s->fronts[w]); /* SAVE may wait for it */
}

void saves_open(struct server *s, const char *layout, const struct dumper_past *past)
{
    struct dumper_options o = options_of(s);
    s->dumper = dumper_new(s->engine, s->walk, s->journal, s->wal, &file_disk, layout, &o, past, told, s);
}

void saves_apply_config(struct server *s)
{
    struct dumper_options o = options_of(s);
    bool is_cold = CONFIG_NUM(s->config, maxmemory_policy) == EVICT_COLD; /* then maxmemory is to hold for the process */
    if (s->dumper) dumper_set_options(s->dumper, &o);
    if (s->walk) walk_set_backlog_max(s->walk, is_cold ? (uint64_t)CONFIG_NUM(s->config, maxmemory) / 32 : 0);
}

/* ---- commands */

/* False: an error was answered. */
static bool can_save(struct exec *x)
{
    const struct server *s = server_of(x);
    int error = s->journal ? journal_error(s->journal) : 0;
    if (!s->journal) reply_error(&x->out, "ERR the server is ephemeral: it keeps nothing on disk");
    else if (error) reply_errorf(&x->out, "MISCONF Errors writing to the log: %s. Nothing can be saved.", strerror(-error));
    return s->journal && !error;
}

/* The answer leaves when the dump has ended, as an error if it failed (conn.c). */
static void cmd_save(struct exec *x)
{
    struct conn *c = conn_of(x);
    if (!can_save(x)) return;
    c->dump_ticket = dumper_ask(server_of(x)->dumper);
    c->save_at = x->out.out->len;
    reply_ok(&x->out);
}

static void cmd_bgsave(struct exec *x)
{
    struct dumper_info i;
    bool schedule = x->argc == 2 && slice_is(x->argv[1], "schedule");
    if (x->argc > 2 || (x->argc == 2 && !schedule)) {
        exec_syntax(x);
        return;
    }
    if (!can_save(x)) return;
    dumper_info(server_of(x)->dumper, &i);
    if (i.running && i.reason == DUMPER_ASKED && !schedule) {
        reply_error(&x->out, "ERR Background save already in progress");
        return;
    }
    dumper_ask(server_of(x)->dumper);
    reply_simple(&x->out, i.running ? "Background saving scheduled" : "Background saving started");
}

static void cmd_bgrewriteaof(struct exec *x)
{
    struct dumper_info i;
    if (!can_save(x)) return;
    dumper_info(server_of(x)->dumper, &i);
    dumper_ask(server_of(x)->dumper);
    reply_simple(&x->out, i.running ? "Background append only file rewriting scheduled" : "Background append only file rewriting started");
}

static void cmd_lastsave(struct exec *x)
{
    struct server *s = server_of(x);
    struct dumper_info i = {.last.cut_ms = s->started_ms};
    if (s->dumper) dumper_info(s->dumper, &i);
    reply_int(&x->out, i.last.cut_ms / 1000);
}

#define SAVES .class = CLASS_LOCAL, .group = "server"

static const struct command rows[] = {
    {.name = "save", SAVES, .fn = cmd_save, .arity = 1, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_NO_MULTI, .since = "1.0.0",
     .summary = "Writes a dump and answers when it is durable; other clients go on meanwhile.", .args = ""},
    {.name = "bgsave", SAVES, .fn = cmd_bgsave, .arity = -1, .flags = CMD_ADMIN | CMD_NOSCRIPT, .since = "1.0.0",
     .summary = "Begins a dump and does not wait for it.", .args = "[SCHEDULE]"},
    {.name = "bgrewriteaof", SAVES, .fn = cmd_bgrewriteaof, .arity = 1, .flags = CMD_ADMIN | CMD_NOSCRIPT, .since = "1.0.0",
     .summary = "Begins a dump; when it is durable, the log that it covers is deleted.", .args = ""},
    {.name = "lastsave", SAVES, .fn = cmd_lastsave, .arity = 1, .flags = CMD_LOADING | CMD_STALE | CMD_FAST, .since = "1.0.0",
     .summary = "Returns when the last dump was cut, in unix seconds.", .args = ""},
};

const struct command_family saves_family = COMMAND_FAMILY(rows);
