#include "server/clusterrules.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "command/families.h"
#include "server/clusterquestion.h"
#include "server/families.h"
#include "server/rangeask.h"
#include "server/server.h"
#include "server/wide.h"
#include "server/wideexec.h"

/* Commands without keys that a node answers. Whatever is not here would have to ask all groups, or promises what a single node cannot keep: dumps are not how a cluster keeps its data. */
static const char *const answered_here[] = {
    "auth", "client", "echo", "hello", "ping", "quit", "reset", "select",                   /* the connection */
    "cluster", "readonly", "readwrite",                                                     /* the cluster */
    "command", "config", "health", "info", "latency", "lolwut", "module", "role", "shutdown", "slowlog", "time", /* this node */
    "stats.hotkeys", "stats.latency", "stats.memory", "stats.shards", "pfselftest", "wait",
    "publish", "spublish", "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe", "pubsub", /* server/clusterpub.h */
    "space.info", "space.list", /* the map, and what this node's replicas hold */
};

/* Changes of the cluster's map. */
static const struct {
    const char *name;
    enum metahost_question question;
} asked[] = {{"range.merge", METAHOST_MERGE}, {"range.move", METAHOST_MOVE_RANGE}, {"range.split", METAHOST_SPLIT}, {"space.set", METAHOST_SPACE}};

/* Commands with keys that are about more than their keys' values. */
static const char *const not_relayed[] = {
    "stats.shard", /* is about shards, and they are not the cluster's */
};

static bool is_among(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) return true;
    }
    return false;
}
#define IS_AMONG(name, names) is_among(name, names, sizeof(names) / sizeof((names)[0]))

/* METAHOST_QUESTIONS: it asks none. */
static enum metahost_question question_of(const struct command *c)
{
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        if (strcmp(asked[i].name, c->name) == 0) return asked[i].question;
    }
    return METAHOST_QUESTIONS;
}

enum clusterrule clusterrules_of(const struct command *c)
{
    if (wide_has(c)) return CLUSTERRULE_WIDE;
    if (wideexec_has(c)) return CLUSTERRULE_TRANSACTION;
    if (c->class == CLASS_SPACE) return CLUSTERRULE_RELAYED;
    if (rangeask_has(c)) return CLUSTERRULE_LEADERS;
    if (question_of(c) < METAHOST_QUESTIONS) return CLUSTERRULE_ASKED;
    if (c->class != CLASS_KEYED) return IS_AMONG(c->name, answered_here) ? CLUSTERRULE_HERE : CLUSTERRULE_REFUSED;
    if (IS_AMONG(c->name, not_relayed)) return CLUSTERRULE_REFUSED;
    if (c->flags & CMD_BLOCKING) return CLUSTERRULE_WAITS;
    return c->needs_all ? CLUSTERRULE_NARROW : CLUSTERRULE_RELAYED;
}

/* ---- the rows that follow from it */

static void refuse(struct exec *x, const char *what)
{
    char name[32];
    size_t n = 0;
    for (const char *p = x->cmd->name; *p && n < sizeof name - 1; p++) name[n++] = (char)toupper((unsigned char)*p);
    name[n] = '\0';
    reply_errorf(&x->out, "ERR %s%s is not available in a cluster", name, what);
}

static void cmd_refused(struct exec *x) { refuse(x, ""); }

/* The function that a live server has in the row of this name. */
static const struct command *live_row(const struct command *c)
{
    const struct command_family *families[] = {&sort_family, &memory_family};
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        for (size_t i = 0; i < families[f]->n; i++) {
            if (strcmp(families[f]->rows[i].name, c->name) == 0) return &families[f]->rows[i];
        }
    }
    CHECK(!"a command that may need all shards is in one of these families");
    return NULL;
}

static void cmd_narrow(struct exec *x)
{
    if (x->cmd->needs_all(x->argv, x->argc)) refuse(x, " over all keys");
    else live_row(x->cmd)->fn(x);
}

static void cmd_asked(struct exec *x)
{
    clusterquestion_ask(x, question_of(x->cmd), 1, x->argc, clusterquestion_word);
}

/* EXEC runs commands on their keys, wherever those are, and others here and now: not those that ask other nodes or visit shards. */
static bool may_be_queued(const struct command *live)
{
    switch (clusterrules_of(live)) {
    case CLUSTERRULE_RELAYED:
    case CLUSTERRULE_WAITS:
    case CLUSTERRULE_NARROW: return live->class == CLASS_KEYED && !live->inner_at;
    case CLUSTERRULE_TRANSACTION: return true;
    case CLUSTERRULE_HERE: return live->class == CLASS_LOCAL && strcmp(live->name, "cluster") != 0;
    case CLUSTERRULE_WIDE:
    case CLUSTERRULE_LEADERS:
    case CLUSTERRULE_ASKED:
    case CLUSTERRULE_REFUSED: break;
    }
    return false;
}

static struct command row_of(const struct command *live)
{
    struct command row = *live;
    switch (clusterrules_of(live)) {
    case CLUSTERRULE_RELAYED:
    case CLUSTERRULE_WAITS:
    case CLUSTERRULE_HERE: break;
    case CLUSTERRULE_ASKED:
        row.fn = cmd_asked;
        row.class = CLASS_LOCAL;
        row.flags = CMD_ADMIN | CMD_NO_MULTI;
        break;
    case CLUSTERRULE_NARROW:
        CHECK(live_row(live)->fn == live->fn);
        row.fn = cmd_narrow;
        break;
    case CLUSTERRULE_WIDE: wide_make_row(&row); break;
    case CLUSTERRULE_LEADERS: rangeask_make_row(&row); break;
    case CLUSTERRULE_TRANSACTION: wideexec_make_row(&row); break;
    case CLUSTERRULE_REFUSED:
        row.fn = cmd_refused;
        row.class = CLASS_LOCAL;
        row.flags &= ~(uint32_t)(CMD_WRITE | CMD_DENYOOM | CMD_BLOCKING | CMD_MOVABLE_KEYS);
        row.first_key = row.last_key = row.key_step = row.inner_at = 0;
        row.keys = NULL;
        row.needs_all = NULL;
        row.extent = NULL;
        row.each_inner = NULL;
        break;
    }
    if (!may_be_queued(live)) row.flags |= CMD_NO_MULTI;
    return row;
}

struct command_table *clusterrules_commands(void) { return server_commands_changed(row_of); }
