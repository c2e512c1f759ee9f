/* SNAPSHOT.*: about the snapshot that is served (INFO HISTORY REFRESH USE ROLLBACK; reads are in snapreads.c). */
#include "base/num.h"
#include "server/families.h"
#include "server/front.h"
#include "server/snapserve.h"

enum { HISTORY_COUNT = 20 };

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
