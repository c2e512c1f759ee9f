/* SNAPSHOT.*: publishing what a live server holds (PUBLISH STATUS CANCEL), handing it to a client (EXPORT), and about the snapshot that is served (INFO HISTORY REFRESH USE ROLLBACK; reads are in snapreads.c). */
#include "server/snapcmd.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "server/exporter.h"
#include "server/families.h"
#include "server/front.h"
#include "server/publisher.h"
#include "server/snapserve.h"
#include "snapshot/snappath.h"

enum { HISTORY_COUNT = 20 };

static struct server *server_of(const struct exec *x) { return conn_of(x)->front->server; }

/* ---- publishing */

static char *text_of(struct slice s)
{
    char *text = mem_alloc(s.n + 1);
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    return text;
}

/* False: the error is answered. */
static bool parse_shards(struct exec *x, struct slice word, uint32_t *shards)
{
    int64_t n;
    if (!exec_arg_i64(x, word, &n)) return false;
    if (n < 1 || n > PUBLISHER_SHARDS_MAX) reply_errorf(&x->out, "ERR SHARDS must be between 1 and %d", PUBLISHER_SHARDS_MAX);
    else *shards = (uint32_t)n;
    return n >= 1 && n <= PUBLISHER_SHARDS_MAX;
}

static bool parse_run_id(struct exec *x, struct slice word, struct slice *run_id)
{
    const char *flaw = snappath_check_run_id(word);
    if (flaw) reply_errorf(&x->out, "ERR %s", flaw);
    else *run_id = word;
    return !flaw;
}

static bool parse_encoding(struct exec *x, struct slice word, enum snapkey_encoding *e)
{
    if (snapkey_encoding_parse(word, e)) return true;
    reply_error(&x->out, "ERR KEY-ENCODING is one of utf8, raw, u64be, u32be");
    return false;
}

/* url [SHARDS n] [KEY-ENCODING e] [RUNID id] [STRICT]. False: the error is answered. */
static bool parse_job(struct exec *x, struct publisher_job *job, struct slice *run_id)
{
    *job = (struct publisher_job){.shards = PUBLISHER_SHARDS, .encoding = SNAPKEY_UTF8, .db = x->db};
    for (uint32_t i = 2; i < x->argc; i++) {
        struct slice word = x->argv[i];
        bool has_value = i + 1 < x->argc, good;
        if (slice_is(word, "strict")) {
            job->strict = true;
            continue;
        }
        if (has_value && slice_is(word, "shards")) good = parse_shards(x, x->argv[++i], &job->shards);
        else if (has_value && slice_is(word, "key-encoding")) good = parse_encoding(x, x->argv[++i], &job->encoding);
        else if (has_value && slice_is(word, "runid")) good = parse_run_id(x, x->argv[++i], run_id);
        else {
            exec_syntax(x);
            return false;
        }
        if (!good) return false;
    }
    return true;
}

static void cmd_publish(struct exec *x)
{
    struct publisher_job job;
    struct slice run_id = {0};
    if (!server_of(x)->walk) {
        reply_error(&x->out, "ERR this server has no data of its own to publish");
        return;
    }
    if (!parse_job(x, &job, &run_id)) return;
    job.url = text_of(x->argv[1]);
    job.run_id = run_id.n ? text_of(run_id) : NULL;
    if (publisher_ask(server_of(x)->publisher, &job)) reply_simple(&x->out, "Publishing started");
    else reply_error(&x->out, "ERR a snapshot is being published already");
}

static void cmd_cancel(struct exec *x) { reply_int(&x->out, publisher_cancel(server_of(x)->publisher)); }

/* One list of fields for SNAPSHOT.STATUS and INFO: numbers where text is NULL. */
struct field {
    const char *name, *text;
    int64_t n;
};

enum { FIELDS = 17 };

static void list_fields(const struct publisher_info *i, struct field f[FIELDS])
{
    int64_t until_ms = i->ended_ms ? i->ended_ms : i->began_ms ? clock_unix_ms() : 0;
    const struct field all[FIELDS] = {
        {"state", publisher_state_name(i->state), 0}, {"id", NULL, (int64_t)i->id}, {"url", i->url, 0}, {"run_id", i->run_id, 0}, {"manifest_ref", i->manifest_ref, 0},
        {"error", i->error, 0}, {"shards", NULL, i->shards}, {"began_ms", NULL, i->began_ms}, {"cut_ms", NULL, i->cut_ms}, {"duration_ms", NULL, until_ms - i->began_ms},
        {"keys_done", NULL, (int64_t)i->keys_done}, {"keys_total", NULL, (int64_t)i->keys_total}, {"rows", NULL, (int64_t)i->rows}, {"left_out", NULL, (int64_t)i->left_out},
        {"bytes", NULL, (int64_t)i->bytes}, {"published", NULL, (int64_t)i->published}, {"failed", NULL, (int64_t)i->failed},
    };
    memcpy(f, all, sizeof all);
}

static void cmd_status(struct exec *x)
{
    struct publisher_info i;
    struct field f[FIELDS];
    publisher_info(server_of(x)->publisher, &i);
    list_fields(&i, f);
    reply_map(&x->out, FIELDS);
    for (size_t k = 0; k < FIELDS; k++) {
        reply_bulk_str(&x->out, f[k].name);
        if (f[k].text) reply_bulk_str(&x->out, f[k].text);
        else reply_int(&x->out, f[k].n);
    }
    publisher_info_fini(&i);
}

void snapcmd_info(struct server *s, struct buf *out)
{
    struct publisher_info i;
    struct field f[FIELDS];
    publisher_info(s->publisher, &i);
    list_fields(&i, f);
    for (size_t k = 0; k < FIELDS; k++) {
        if (f[k].text) buf_printf(out, "publish_%s:%s\r\n", f[k].name, f[k].text);
        else buf_printf(out, "publish_%s:%lld\r\n", f[k].name, (long long)f[k].n);
    }
    publisher_info_fini(&i);
    struct exporter_info e = exporter_info(s->exporter);
    buf_printf(out, "exports_running:%llu\r\nexports_begun:%llu\r\nexports_completed:%llu\r\nexports_failed:%llu\r\nexports_file_bytes:%llu\r\n", (unsigned long long)e.running,
               (unsigned long long)e.begun, (unsigned long long)e.completed, (unsigned long long)e.failed, (unsigned long long)e.file_bytes);
}

/* ---- exporting */

enum { UNREAD_MAX = 4 << 20 };

void snapcmd_end_export(struct conn *c)
{
    if (c->export) exporter_end(c->front->server->exporter, c->export);
    c->export = NULL;
}

static void cmd_export_begin(struct exec *x)
{
    struct conn *c = conn_of(x);
    struct export_options o = {.db = x->db, .others = x->argc == 3};
    if (x->argc > 3 || (o.others && !slice_is(x->argv[2], "others"))) {
        exec_syntax(x);
        return;
    }
    if (!server_of(x)->walk) {
        reply_error(&x->out, "NODATA this server serves a snapshot and has no data of its own to export");
        return;
    }
    if (c->export) {
        reply_error(&x->out, "ERR an export is running on this connection already; SNAPSHOT.EXPORT END gives it up");
        return;
    }
    c->export = exporter_begin(server_of(x)->exporter, &o);
    if (c->export) reply_ok(&x->out);
    else reply_errorf(&x->out, "ERR %d exports are running, and there may not be more", EXPORTER_MAX);
}

static void next_piece(struct errands_call *call)
{
    if (!exporter_next(call->conn->export, call->out)) snapcmd_end_export(call->conn);
}

/* A client that asks and does not read would have its answers piled up here. */
static void cmd_export_next(struct exec *x)
{
    struct conn *c = conn_of(x);
    if (!c->export) reply_error(&x->out, "ERR no export is running on this connection; SNAPSHOT.EXPORT BEGIN begins one");
    else if (stream_unsent(&c->stream) + x->out.out->len > UNREAD_MAX) reply_error(&x->out, "ERR too many pieces were asked for and not read; read them, then ask on");
    else errands_send(exporter_errands(server_of(x)->exporter), x, next_piece);
}

static void cmd_export_end(struct exec *x)
{
    bool running = conn_of(x)->export != NULL;
    snapcmd_end_export(conn_of(x));
    reply_int(&x->out, running);
}

static const struct exec_subcommand export_subs[] = {
    {"begin", cmd_export_begin, -2},
    {"next", cmd_export_next, 2},
    {"end", cmd_export_end, 2},
    {NULL, NULL, 0},
};

static const char *const export_help[] = {
    "BEGIN [OTHERS]",
    "    Begins to export the strings of the database as they are now. With OTHERS",
    "    the keys of other types are named; else they are left out and counted.",
    "NEXT",
    "    Returns the next piece; to be repeated while its field 'more' is 1.",
    "END",
    "    Gives the export up, as the end of the connection does.",
    NULL,
};

static void cmd_export(struct exec *x) { exec_subcommand(x, export_subs, export_help); }

/* ---- the one that is served */

static void history(struct errands_call *c)
{
    int64_t count = HISTORY_COUNT;
    if (c->argc == 2 && (!num_parse_i64(c->argv[1], &count) || count < 1)) reply_error(c->out, reply_notint);
    else snapserve_history(c, (size_t)count);
}

static void use(struct errands_call *c) { snapserve_use(c, c->argv[1]); }
static void roll_back(struct errands_call *c) { snapserve_rollback(c, c->argc == 2 ? c->argv[1] : SLICE("1")); }

static void cmd_info(struct exec *x) { snapserve_run(x, snapserve_describe, SNAPSERVE_SHORT); }
static void cmd_refresh(struct exec *x) { snapserve_run(x, snapserve_refresh, SNAPSERVE_LONG); }
static void cmd_use(struct exec *x) { snapserve_run(x, use, SNAPSERVE_LONG); }

/* At most one argument. */
static void run_with_option(struct exec *x, errands_fn *fn)
{
    if (x->argc > 2) exec_wrong_arity(x);
    else snapserve_run(x, fn, SNAPSERVE_LONG);
}

static void cmd_history(struct exec *x) { run_with_option(x, history); }
static void cmd_rollback(struct exec *x) { run_with_option(x, roll_back); }

#define SNAPSHOT .class = CLASS_LOCAL, .group = "snapshot", .since = "7.2.0"

static const struct command rows[] = {
    {.name = "snapshot.publish", SNAPSHOT, .fn = cmd_publish, .arity = -2, .flags = CMD_ADMIN | CMD_NOSCRIPT,
     .summary = "Publishes the strings of the database as they are now, at one moment, as a snapshot at that URL; answers at once and works in the background.",
     .args = "url [SHARDS count] [KEY-ENCODING <utf8 | raw | u64be | u32be>] [RUNID id] [STRICT]"},
    {.name = "snapshot.status", SNAPSHOT, .fn = cmd_status, .arity = 1, .flags = CMD_LOADING | CMD_FAST,
     .summary = "Returns how far the publishing is, or what came of the last one.", .args = ""},
    {.name = "snapshot.cancel", SNAPSHOT, .fn = cmd_cancel, .arity = 1, .flags = CMD_ADMIN,
     .summary = "Gives up the publishing that is running; readers see nothing of it. Returns 1 if there was one.", .args = ""},
    {.name = "snapshot.export", SNAPSHOT, .fn = cmd_export, .arity = -2, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_NO_MULTI, .subs = export_subs,
     .summary = "Hands the strings of the database, as they were at one moment, to the client, piece by piece.", .args = "<BEGIN [OTHERS] | NEXT | END>"},
    {.name = "snapshot.info", SNAPSHOT, .fn = cmd_info, .arity = 1, .flags = CMD_LOADING,
     .summary = "Returns which snapshot is served, how it is read, and how the last look for a newer one went.", .args = ""},
    {.name = "snapshot.history", SNAPSHOT, .fn = cmd_history, .arity = -1, .flags = CMD_NO_MULTI,
     .summary = "Returns the snapshots that were published there, newest first.", .args = "[count]"},
    {.name = "snapshot.refresh", SNAPSHOT, .fn = cmd_refresh, .arity = 1, .flags = CMD_ADMIN | CMD_NO_MULTI,
     .summary = "Looks for a newer snapshot now and switches to it; answers switched or unchanged.", .args = ""},
    {.name = "snapshot.use", SNAPSHOT, .fn = cmd_use, .arity = 2, .flags = CMD_ADMIN | CMD_NO_MULTI,
     .summary = "Switches this server to another snapshot and keeps it there: by the manifest's URL, its run, or its place in the history, the newest being 0; LATEST follows the pointer again.",
     .args = "<ref | run | offset | LATEST>"},
    {.name = "snapshot.rollback", SNAPSHOT, .fn = cmd_rollback, .arity = -1, .flags = CMD_ADMIN | CMD_NO_MULTI,
     .summary = "Makes an older snapshot the current one for all readers: the one before the newest, unless another is named.", .args = "[ref | run | offset]"},
};

const struct command_family snapcmd_family = COMMAND_FAMILY(rows);
