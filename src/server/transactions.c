#include "server/transactions.h"

#include "base/mem.h"
#include "server/evictor.h"
#include "server/front.h"
#include "server/wideexec.h"

/* ---- the queue */

void transactions_queue(struct conn *c, const struct command *cmd, const struct slice *argv, uint32_t argc)
{
    struct multi *m = &c->multi;
    if (m->n == m->cap) {
        m->cap = m->cap ? m->cap * 2 : 8;
        m->commands = mem_resize(m->commands, m->cap * sizeof *m->commands);
    }
    while (m->cap_args < m->n_args + argc) {
        m->cap_args = m->cap_args ? m->cap_args * 2 : 32;
        m->args = mem_resize(m->args, m->cap_args * sizeof *m->args);
    }
    size_t bytes = 0;
    for (uint32_t i = 0; i < argc; i++) bytes += argv[i].n;
    char *p = mem_alloc(bytes + 1);
    m->writes |= (cmd->flags & CMD_WRITE) != 0;
    m->needs_memory |= (cmd->flags & CMD_DENYOOM) != 0;
    m->commands[m->n++] = (struct multi_command){.cmd = cmd, .bytes = p, .first_arg = m->n_args, .argc = argc};
    for (uint32_t i = 0; i < argc; i++) {
        if (argv[i].n) memcpy(p, argv[i].p, argv[i].n);
        m->args[m->n_args++] = slice_of(p, argv[i].n);
        p += argv[i].n;
    }
}

void transactions_free_queue(struct multi *m)
{
    for (uint32_t i = 0; i < m->n; i++) mem_free(m->commands[i].bytes);
    mem_free(m->commands);
    mem_free(m->args);
    *m = (struct multi){0};
}

void transactions_reset(struct conn *c)
{
    transactions_free_queue(&c->multi);
    c->in_multi = false;
}

void transactions_unwatch(struct conn *c)
{
    watch_drop(&c->front->worker, &c->watches);
    wideexec_unwatch(c);
}

/* ---- routing */

struct routing {
    struct task *task;
    struct request *r;
};

static void add_watched_shard(void *ctx, uint32_t shard)
{
    struct routing *to = ctx;
    task_add_shard(to->task, to->r, shard);
}

/* Adds the shards of one queued command; true if it needs all. */
static bool add_command(const struct routing *to, const struct engine *e, const struct multi *m, const struct multi_command *q)
{
    const struct slice *argv = m->args + q->first_arg;
    struct task probe = {0};
    const struct request *r = task_add(&probe, e, q->cmd, argv, q->argc);
    bool all = r->kind == REQUEST_EACH || r->n_shards == e->route.shards;
    if (r->kind == REQUEST_ONE) task_add_shard(to->task, to->r, r->shard);
    for (uint32_t i = 0; !all && i < r->n_shards; i++) task_add_shard(to->task, to->r, probe.shards[r->first_shard + i]);
    if (q->cmd->class == CLASS_LOCAL) to->r->at_home = true;
    task_fini(&probe);
    return all;
}

static void add_shards(struct conn *c, const struct engine *e, struct task *t, struct request *r)
{
    struct routing to = {t, r};
    bool all = false;
    for (uint32_t i = 0; i < c->multi.n; i++) all |= add_command(&to, e, &c->multi, &c->multi.commands[i]);
    watch_shards(&c->watches, add_watched_shard, &to);
    if (all) task_add_all_shards(t, r, e);
}

static bool has_room(struct conn *c)
{
    struct server *s = c->front->server;
    return !c->multi.needs_memory || !CONFIG_NUM(s->config, maxmemory) || evictor_make_room(&c->front->worker, s) != EVICTOR_NO_ROOM;
}

void transactions_route(struct conn *c, struct request *r)
{
    if (strcmp(r->cmd->name, "exec") != 0 || c->multi.broken) return;
    c->multi.out_of_memory = !has_room(c);
    if (c->multi.out_of_memory || c->front->server->relay) return; /* on a node of a cluster it is server/wideexec.c that finds its keys' places */
    const struct engine *e = c->front->worker.engine;
    r->routed = route_version(&e->route);
    r->first_shard = c->batch->task.n_shards;
    r->n_shards = 0;
    add_shards(c, e, &c->batch->task, r);
}

void transactions_route_again(void *ctx, struct task *t, struct request *r)
{
    struct conn *c = t->session;
    struct server *s = ctx;
    if (c->in_multi && !c->multi.broken && !c->multi.out_of_memory) add_shards(c, s->engine, t, r);
}

/* ---- commands */

static void multi_command(struct exec *x)
{
    struct conn *c = conn_of(x);
    if (c->in_multi) {
        reply_error(&x->out, "ERR MULTI calls can not be nested");
        return;
    }
    c->in_multi = true;
    reply_ok(&x->out);
}

static void discard_command(struct exec *x)
{
    struct conn *c = conn_of(x);
    if (!c->in_multi) {
        reply_error(&x->out, "ERR DISCARD without MULTI");
        return;
    }
    transactions_reset(c);
    transactions_unwatch(c);
    reply_ok(&x->out);
}

static void watch_command(struct exec *x)
{
    struct conn *c = conn_of(x);
    if (c->in_multi) {
        reply_error(&x->out, "ERR WATCH inside MULTI is not allowed");
        return;
    }
    for (uint32_t i = 1; i < x->argc; i++) watch_add(x, &c->watches, x->argv[i]);
    reply_ok(&x->out);
}

static void unwatch_command(struct exec *x)
{
    transactions_unwatch(conn_of(x));
    reply_ok(&x->out);
}

static void run_queued(struct worker *w, struct conn *c)
{
    struct task *t = &c->batch->task;
    for (uint32_t i = 0; i < c->multi.n; i++) {
        const struct multi_command *q = &c->multi.commands[i];
        const struct slice *argv = c->multi.args + q->first_arg;
        t->db = c->db;
        w->x.out.resp = t->resp = c->resp;
        task_run_command(w, t, q->cmd, argv, q->argc);
    }
}

/* The log may have failed since the commands were queued. */
static int log_error(const struct conn *c)
{
    return c->multi.writes ? atomic_load_explicit(&c->front->server->write_error, memory_order_relaxed) : 0;
}

bool transactions_refuse(const struct conn *c, struct reply *out)
{
    if (!c->in_multi) reply_error(out, "ERR EXEC without MULTI");
    else if (c->multi.broken) reply_error(out, "EXECABORT Transaction discarded because of previous errors.");
    else if (c->multi.out_of_memory) reply_error(out, "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.");
    else if (log_error(c)) reply_errorf(out, "EXECABORT Transaction discarded because of: MISCONF Errors writing to the log: %s. Writes are refused, reads go on.", strerror(-log_error(c)));
    else return false;
    return true;
}

static void exec_command(struct exec *x)
{
    struct worker *w = engine_worker_of(x);
    struct conn *c = conn_of(x);
    const struct command *self = x->cmd;
    bool in_multi = c->in_multi;
    if (transactions_refuse(c, &x->out)) {
        if (!in_multi) return;
    } else if (x->unreadable) {
        exec_unreadable(x);
    } else if (watch_dirty(x, &c->watches)) {
        reply_null_array(&x->out);
    } else {
        c->in_multi = false; /* a queued command sees no transaction around it */
        reply_array(&x->out, c->multi.n);
        run_queued(w, c);
        x->cmd = self;
        x->sub = NULL; /* the last queued command's */
    }
    transactions_reset(c);
    watch_drop(w, &c->watches);
}

/* Commands that a transaction may have after one which changes what a database is may see any of them. */
static bool changes_databases(const struct command *c) { return strcmp(c->name, "select") == 0 || strcmp(c->name, "swapdb") == 0; }

static void each_queued(void *session, command_visit *one, void *ctx)
{
    const struct conn *c = session;
    const struct multi *m = &c->multi;
    uint16_t db = c->db;
    if (!c->in_multi || m->broken || m->out_of_memory) return;
    for (uint32_t i = 0; i < m->n; i++)
        if (changes_databases(m->commands[i].cmd)) db = UINT16_MAX;
    for (uint32_t i = 0; i < m->n; i++) one(ctx, m->commands[i].cmd, m->args + m->commands[i].first_arg, m->commands[i].argc, db);
}

static const struct command rows[] = {
    {.name = "multi", .fn = multi_command, .arity = 1, .class = CLASS_LOCAL, .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST | CMD_AT_ONCE,
     .group = "transactions", .since = "1.2.0", .summary = "Starts a transaction.", .args = ""},
    {.name = "exec", .fn = exec_command, .arity = 1, .class = CLASS_LOCAL, .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_SKIP_SLOWLOG | CMD_AT_ONCE,
     .each_inner = each_queued, .group = "transactions", .since = "1.2.0", .summary = "Executes all commands in a transaction.", .args = ""},
    {.name = "discard", .fn = discard_command, .arity = 1, .class = CLASS_LOCAL, .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST | CMD_AT_ONCE,
     .group = "transactions", .since = "2.0.0", .summary = "Discards a transaction.", .args = ""},
    {.name = "watch", .fn = watch_command, .arity = -2, .class = CLASS_KEYED, .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST | CMD_AT_ONCE | CMD_KEY_ONLY,
     .first_key = 1, .last_key = -1, .key_step = 1,
     .group = "transactions", .since = "2.2.0", .summary = "Monitors changes to keys to determine the execution of a transaction.", .args = "key [key ...]"},
    {.name = "unwatch", .fn = unwatch_command, .arity = 1, .class = CLASS_LOCAL, .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST,
     .group = "transactions", .since = "2.2.0", .summary = "Forgets about watched keys of a transaction.", .args = ""},
};

const struct command_family transactions_family = COMMAND_FAMILY(rows);
