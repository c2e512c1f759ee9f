/* CONFIG: the configuration as clients see it. server/config.h does the work. */
#include "base/glob.h"
#include "server/conn.h"
#include "server/families.h"
#include "server/front.h"
#include "server/stats.h"
#include "server/totals.h"

static struct server *server_of(const struct exec *x) { return conn_of(x)->front->server; }

/* ---- GET */

struct getting {
    struct exec *x;
    uint32_t pattern; /* its index in argv */
    size_t pairs;
};

/* An option that several patterns match is shown once. */
static bool shown_before(const struct getting *g, const char *name)
{
    for (uint32_t i = 2; i < g->pattern; i++)
        if (glob_match(g->x->argv[i], slice_str(name), true)) return true;
    return false;
}

static void add_pair(void *ctx, const char *name, struct slice value)
{
    struct getting *g = ctx;
    if (shown_before(g, name)) return;
    reply_bulk_str(&g->x->out, name);
    reply_bulk(&g->x->out, value);
    g->pairs++;
}

static void cmd_get(struct exec *x)
{
    struct getting g = {.x = x};
    size_t mark = reply_open(&x->out);
    for (g.pattern = 2; g.pattern < x->argc; g.pattern++) config_get(server_of(x)->config, x->argv[g.pattern], add_pair, &g);
    reply_close_map(&x->out, mark, g.pairs);
}

/* ---- SET, REWRITE, RESETSTAT */

static void reply_outcome(struct exec *x, int rc, const struct buf *error)
{
    if (rc == 0) reply_ok(&x->out);
    else reply_errorf(&x->out, "ERR %.*s", (int)error->len, error->p);
}

static void cmd_set(struct exec *x)
{
    if (x->argc % 2 != 0) {
        exec_syntax(x);
        return;
    }
    struct buf error = {0};
    reply_outcome(x, config_set(server_of(x)->config, x->argv + 2, (x->argc - 2) / 2, &error), &error);
    buf_fini(&error);
}

static void cmd_rewrite(struct exec *x)
{
    struct buf error = {0};
    reply_outcome(x, config_rewrite(server_of(x)->config, &error), &error);
    buf_fini(&error);
}

static void cmd_resetstat(struct exec *x)
{
    struct server *s = server_of(x);
    totals_reset(s);
    stats_reset(s);
    reply_ok(&x->out);
}

static const struct exec_subcommand subs[] = {
    {"get", cmd_get, -3},
    {"set", cmd_set, -4},
    {"resetstat", cmd_resetstat, 2},
    {"rewrite", cmd_rewrite, 2},
    {0},
};

static const char *const help[] = {
    "GET <pattern> [<pattern> ...]",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value> [<directive> <value> ...]",
    "    Set the configuration <directive> to <value>; all of them or none.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
    NULL,
};

static void cmd_config(struct exec *x) { exec_subcommand(x, subs, help); }

static const struct command rows[] = {
    {.name = "config", .fn = cmd_config, .arity = -2, .class = CLASS_LOCAL, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE, .subs = subs,
     .group = "server", .since = "2.0.0", .summary = "Reads and changes the server's options.",
     .args = "GET pattern [pattern ...] | SET option value [option value ...] | RESETSTAT | REWRITE | HELP"},
};

const struct command_family configs_family = COMMAND_FAMILY(rows);
