#include "server/slowlog.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "server/conn.h"
#include "server/families.h"
#include "server/front.h"
#include "server/options.h"

enum { ARGS_MAX = 32, ARG_MAX_BYTES = 128, GET_DEFAULT = 10 };

struct entry_arg {
    uint32_t off, len;
};

struct slow_entry {
    uint64_t id;
    int64_t at_s;
    int64_t us;
    struct buf text; /* arguments, address and name, one behind the other */
    struct entry_arg args[ARGS_MAX], peer, name;
    uint32_t n_args;
};

struct slowlog {
    pthread_mutex_t lock;
    struct slow_entry **ring; /* [cap]; the oldest at `first`, n of them */
    size_t cap, first, n;
    uint64_t next_id;
};

struct slowlog *slowlog_new(void)
{
    struct slowlog *l = mem_zalloc(sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

/* ---- the ring */

static void drop_oldest(struct slowlog *l)
{
    struct slow_entry *e = l->ring[l->first];
    l->first = (l->first + 1) % l->cap;
    l->n--;
    buf_fini(&e->text);
    mem_free(e);
}

static void trim(struct slowlog *l, size_t keep)
{
    while (l->n > keep) drop_oldest(l);
}

void slowlog_free(struct slowlog *l)
{
    trim(l, 0);
    mem_free(l->ring);
    pthread_mutex_destroy(&l->lock);
    mem_free(l);
}

static void grow(struct slowlog *l)
{
    size_t cap = l->cap ? l->cap * 2 : 16;
    struct slow_entry **ring = mem_alloc(cap * sizeof(struct slow_entry *));
    for (size_t i = 0; i < l->n; i++) ring[i] = l->ring[(l->first + i) % l->cap];
    mem_free(l->ring);
    l->ring = ring;
    l->cap = cap;
    l->first = 0;
}

/* The i-th newest. */
static const struct slow_entry *newest(const struct slowlog *l, size_t i) { return l->ring[(l->first + l->n - 1 - i) % l->cap]; }

static void add(struct slowlog *l, struct slow_entry *e, size_t keep)
{
    pthread_mutex_lock(&l->lock);
    e->id = l->next_id++;
    if (l->n == l->cap) grow(l);
    l->ring[(l->first + l->n++) % l->cap] = e;
    trim(l, keep);
    pthread_mutex_unlock(&l->lock);
}

/* ---- noting */

static struct entry_arg end_text(struct slow_entry *e, size_t from)
{
    return (struct entry_arg){.off = (uint32_t)from, .len = (uint32_t)(e->text.len - from)};
}

static struct entry_arg add_text(struct slow_entry *e, struct slice s)
{
    size_t from = e->text.len;
    buf_add_slice(&e->text, s);
    return end_text(e, from);
}

/* A password stays out of the log. (AUTH and HELLO are never noted.) */
static bool is_secret(const struct exec *x, uint32_t i)
{
    if (strcmp(x->cmd->name, "config") != 0 || i <= 2) return false;
    const struct option *o = options_find(x->argv[i - 1]);
    return o && o->flags & OPTION_SECRET;
}

static struct entry_arg add_arg(struct slow_entry *e, const struct exec *x, uint32_t i)
{
    size_t from = e->text.len;
    struct slice arg = x->argv[i];
    if (is_secret(x, i)) {
        buf_add_str(&e->text, "(redacted)");
    } else if (arg.n > ARG_MAX_BYTES) {
        buf_add(&e->text, arg.p, ARG_MAX_BYTES);
        buf_printf(&e->text, "... (%zu more bytes)", arg.n - ARG_MAX_BYTES);
    } else {
        buf_add_slice(&e->text, arg);
    }
    return end_text(e, from);
}

static void add_args(struct slow_entry *e, const struct exec *x)
{
    uint32_t whole = x->argc <= ARGS_MAX ? x->argc : ARGS_MAX - 1;
    for (; e->n_args < whole; e->n_args++) e->args[e->n_args] = add_arg(e, x, e->n_args);
    if (whole == x->argc) return;
    size_t from = e->text.len;
    buf_printf(&e->text, "... (%u more arguments)", x->argc - whole);
    e->args[e->n_args++] = end_text(e, from);
}

static void add_client(struct slow_entry *e, const struct conn *c)
{
    if (!c) { /* of another node of the cluster */
        e->peer = e->name = add_text(e, slice_str(""));
        return;
    }
    e->peer = add_text(e, slice_str(c->peer));
    pthread_mutex_lock(&c->front->lock);
    e->name = add_text(e, slice_str(c->name ? c->name : ""));
    pthread_mutex_unlock(&c->front->lock);
}

void slowlog_note(void *server, const struct task *t, const struct exec *x, uint64_t ticks)
{
    struct server *s = server;
    size_t keep = (size_t)CONFIG_NUM(s->config, slowlog_max_len);
    if (keep == 0 || x->cmd->flags & CMD_SKIP_SLOWLOG) return;
    struct slow_entry *e = mem_zalloc(sizeof *e);
    e->at_s = x->now_ms / 1000;
    e->us = (int64_t)((double)ticks / clock_ticks_per_us());
    add_args(e, x);
    add_client(e, t->session);
    add(s->slowlog, e, keep);
}

uint64_t slowlog_length(struct server *s)
{
    pthread_mutex_lock(&s->slowlog->lock);
    uint64_t n = s->slowlog->n;
    pthread_mutex_unlock(&s->slowlog->lock);
    return n;
}

/* ---- SLOWLOG */

static struct server *server_of(const struct exec *x) { return conn_of(x)->front->server; }

static void reply_text(struct exec *x, const struct slow_entry *e, struct entry_arg a)
{
    reply_bulk(&x->out, slice_of(a.len ? e->text.p + a.off : "", a.len));
}

static void reply_entry(struct exec *x, const struct slow_entry *e)
{
    reply_array(&x->out, 6);
    reply_int(&x->out, (int64_t)e->id);
    reply_int(&x->out, e->at_s);
    reply_int(&x->out, e->us);
    reply_array(&x->out, e->n_args);
    for (uint32_t i = 0; i < e->n_args; i++) reply_text(x, e, e->args[i]);
    reply_text(x, e, e->peer);
    reply_text(x, e, e->name);
}

static void cmd_get(struct exec *x)
{
    struct slowlog *l = server_of(x)->slowlog;
    int64_t count = GET_DEFAULT;
    if (x->argc > 3) {
        exec_syntax(x);
        return;
    }
    if (x->argc == 3 && (!num_parse_i64(x->argv[2], &count) || count < -1)) {
        reply_error(&x->out, "ERR count should be greater than or equal to -1");
        return;
    }
    pthread_mutex_lock(&l->lock);
    size_t n = count < 0 || (uint64_t)count > l->n ? l->n : (size_t)count;
    reply_array(&x->out, n);
    for (size_t i = 0; i < n; i++) reply_entry(x, newest(l, i));
    pthread_mutex_unlock(&l->lock);
}

static void cmd_len(struct exec *x) { reply_int(&x->out, (int64_t)slowlog_length(server_of(x))); }

static void cmd_reset(struct exec *x)
{
    struct slowlog *l = server_of(x)->slowlog;
    pthread_mutex_lock(&l->lock);
    trim(l, 0);
    pthread_mutex_unlock(&l->lock);
    reply_ok(&x->out);
}

static const struct exec_subcommand subs[] = {
    {"get", cmd_get, -2},
    {"len", cmd_len, 2},
    {"reset", cmd_reset, 2},
    {0},
};

static const char *const help[] = {
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
    NULL,
};

static void cmd_slowlog(struct exec *x) { exec_subcommand(x, subs, help); }

static const struct command rows[] = {
    {.name = "slowlog", .fn = cmd_slowlog, .arity = -2, .class = CLASS_LOCAL, .flags = CMD_ADMIN | CMD_LOADING | CMD_STALE, .subs = subs,
     .group = "server", .since = "2.2.12", .summary = "Shows the latest slow commands.", .args = "GET [count] | LEN | RESET | HELP"},
};

const struct command_family slowlog_family = COMMAND_FAMILY(rows);
