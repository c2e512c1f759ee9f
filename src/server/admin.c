/* Commands about the server as a whole: time, role, end; and those of Redis whose subject does not exist here, which say so. */
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/version.h"
#include "server/conn.h"
#include "server/families.h"
#include "server/front.h"

static struct server *server_of(const struct exec *x) { return conn_of(x)->front->server; }

static void cmd_time(struct exec *x)
{
    int64_t us = clock_unix_us();
    reply_array(&x->out, 2);
    reply_bulk_i64(&x->out, us / 1000000);
    reply_bulk_i64(&x->out, us % 1000000);
}

static const char ephemeral[] = "ERR the server is ephemeral: it keeps nothing on disk";

/* ---- the end */

enum { SHUTDOWN_NOSAVE = 1, SHUTDOWN_SAVE = 2, SHUTDOWN_NOW = 4, SHUTDOWN_FORCE = 8, SHUTDOWN_ABORT = 16 };

/* The flags that the arguments name; -1 if they make no sense. */
static int shutdown_flags(const struct exec *x)
{
    static const char *const words[] = {"nosave", "save", "now", "force", "abort"};
    int flags = 0;
    for (uint32_t i = 1; i < x->argc; i++) {
        unsigned w = 0;
        while (w < 5 && !slice_is(x->argv[i], words[w])) w++;
        if (w == 5) return -1;
        flags |= 1 << w;
    }
    bool both = flags & SHUTDOWN_SAVE && flags & SHUTDOWN_NOSAVE;
    return both || (flags & SHUTDOWN_ABORT && flags != SHUTDOWN_ABORT) ? -1 : flags;
}

static void cmd_shutdown(struct exec *x)
{
    int flags = shutdown_flags(x);
    if (flags < 0) {
        exec_syntax(x);
    } else if (flags & SHUTDOWN_ABORT) {
        reply_error(&x->out, "ERR No shutdown in progress.");
    } else if (flags & SHUTDOWN_SAVE && !(flags & SHUTDOWN_FORCE) && !server_of(x)->journal) {
        reply_error(&x->out, ephemeral);
    } else {
        conn_of(x)->close_after_reply = true; /* there is no reply: that the connection ends is the answer */
        server_stop(server_of(x));
    }
}

/* ---- replication: this server is a master without replicas */

static void cmd_role(struct exec *x)
{
    reply_array(&x->out, 3);
    reply_bulk_str(&x->out, "master");
    reply_int(&x->out, 0);
    reply_array(&x->out, 0);
}

static void cmd_replicaof(struct exec *x)
{
    if (slice_is(x->argv[1], "no") && slice_is(x->argv[2], "one")) reply_ok(&x->out);
    else reply_error(&x->out, "ERR replication is not available in this version");
}

/* No replica will ever confirm: what is asked for is there at once, or at the timeout it is not. */
static void cmd_wait(struct exec *x)
{
    int64_t timeout_ms, replicas;
    if (!num_parse_i64(x->argv[2], &timeout_ms)) {
        reply_error(&x->out, "ERR timeout is not an integer or out of range");
        return;
    }
    if (timeout_ms < 0) {
        reply_error(&x->out, "ERR timeout is negative");
        return;
    }
    if (timeout_ms > INT64_MAX - x->now_ms) {
        reply_error(&x->out, "ERR timeout is out of range");
        return;
    }
    if (!exec_arg_i64(x, x->argv[1], &replicas)) return;
    if (replicas > 0 && exec_may_block(x)) exec_block(x, timeout_ms, 0, 0, 0);
    else reply_int(&x->out, 0);
}

/* ---- modules */

static void cmd_module_list(struct exec *x) { reply_array(&x->out, 0); }

static const struct exec_subcommand module_subs[] = {
    {"list", cmd_module_list, 2},
    {0},
};

static const char *const module_help[] = {"LIST", "    Return a list of loaded modules: there are none.", NULL};

static void cmd_module(struct exec *x) { exec_subcommand(x, module_subs, module_help); }

/* ---- LOLWUT */

/* One line per shard, as long as its share of the keys. */
static void draw_shard(struct buf *out, uint32_t id, uint64_t keys, uint64_t most)
{
    enum { WIDTH = 40 };
    unsigned cells = most ? (unsigned)(keys * WIDTH / most) : 0;
    buf_printf(out, "  %4u /", id);
    for (unsigned i = 0; i < cells; i++) buf_add_byte(out, '#');
    buf_printf(out, "\\ %llu\n", (unsigned long long)keys);
}

static uint64_t shard_keys(const struct shard *s)
{
    uint64_t sum = 0;
    for (int db = 0; db < STORE_DBS; db++) sum += STAT_GET(s->numbers.keys[db]);
    return sum;
}

static void cmd_lolwut(struct exec *x)
{
    enum { DRAWN_MAX = 64 };
    const struct engine *e = server_of(x)->engine;
    uint32_t n = e->route.shards < DRAWN_MAX ? e->route.shards : DRAWN_MAX;
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i++) most = shard_keys(&e->shards[i]) > most ? shard_keys(&e->shards[i]) : most;
    struct buf text = {0};
    buf_add_str(&text, "Every pot breaks into sherds; these hold its keys:\n\n");
    for (uint32_t i = 0; i < n; i++) draw_shard(&text, i, shard_keys(&e->shards[i]), most);
    buf_printf(&text, "\nSherd ver. %s, Redis ver. %s\n", SHERD_VERSION, REDIS_VERSION);
    reply_verbatim(&x->out, "txt", buf_slice(&text));
    buf_fini(&text);
}

#define ADMIN .class = CLASS_LOCAL, .group = "server"

static const struct command rows[] = {
    {.name = "time", ADMIN, .fn = cmd_time, .arity = 1, .flags = CMD_LOADING | CMD_STALE | CMD_FAST, .since = "2.6.0",
     .summary = "Returns the server's time: seconds and microseconds.", .args = ""},
    {.name = "role", ADMIN, .fn = cmd_role, .arity = 1, .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST, .since = "2.8.12",
     .summary = "Returns the replication role: a master without replicas.", .args = ""},
    {.name = "wait", .class = CLASS_LOCAL, .group = "generic", .fn = cmd_wait, .arity = 3, .flags = CMD_NOSCRIPT | CMD_BLOCKING, .since = "3.0.0",
     .summary = "Waits for replicas to confirm earlier writes; there are none, so the answer is 0.", .args = "numreplicas timeout"},
    {.name = "shutdown", ADMIN, .fn = cmd_shutdown, .arity = -1, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_NO_MULTI,
     .since = "1.0.0", .summary = "Stops the server.", .args = "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]"},
    {.name = "replicaof", ADMIN, .fn = cmd_replicaof, .arity = 3, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_STALE, .since = "5.0.0",
     .summary = "Accepts NO ONE; replication is not available in this version.", .args = "NO ONE"},
    {.name = "slaveof", ADMIN, .fn = cmd_replicaof, .arity = 3, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_STALE, .since = "1.0.0",
     .summary = "The older name of REPLICAOF.", .args = "NO ONE"},
    {.name = "module", ADMIN, .fn = cmd_module, .arity = -2, .flags = CMD_ADMIN | CMD_NOSCRIPT, .subs = module_subs, .since = "4.0.0",
     .summary = "Lists the loaded modules: none.", .args = "LIST | HELP"},
    {.name = "lolwut", ADMIN, .fn = cmd_lolwut, .arity = -1, .flags = CMD_READONLY | CMD_FAST, .since = "5.0.0",
     .summary = "Draws the shards and shows the version.", .args = "[VERSION version]"},
};

const struct command_family admin_family = COMMAND_FAMILY(rows);
