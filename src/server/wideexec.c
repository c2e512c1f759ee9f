#include "server/wideexec.h"

#include "base/mem.h"
#include "base/num.h"
#include "cluster/txncmd.h"
#include "resp/answer.h"
#include "server/front.h"
#include "server/relay.h"
#include "server/relay_call.h"
#include "server/stats.h"
#include "server/transactions.h"
#include "server/widetxn.h"

struct digest { /* of a watched key */
    struct digest *next;
    uint16_t db;
    uint8_t n;
    char bytes[TXNCMD_DIGEST_BYTES];
    uint32_t key_n;
    char key[];
};

/* ---- WATCH */

struct watching { /* a WATCH under way */
    struct conn *conn;
    const struct slice *argv; /* of the connection's batch, which stays until it is back */
    uint32_t argc;
};

void wideexec_unwatch(struct conn *c)
{
    while (unlikely(c->digests != NULL)) {
        struct digest *d = c->digests;
        c->digests = d->next;
        mem_free(d);
    }
}

static bool is_watched(const struct conn *c, struct slice key)
{
    for (const struct digest *d = c->digests; d; d = d->next)
        if (d->db == c->db && slice_eq(slice_of(d->key, d->key_n), key)) return true;
    return false;
}

/* A key that is watched already keeps its first digest. */
static void watch(struct conn *c, struct slice key, struct slice digest)
{
    if (is_watched(c, key)) return;
    struct digest *d = mem_alloc(sizeof *d + key.n);
    *d = (struct digest){.next = c->digests, .db = c->db, .n = (uint8_t)digest.n, .key_n = (uint32_t)key.n};
    if (digest.n) memcpy(d->bytes, digest.p, digest.n);
    if (key.n) memcpy(d->key, key.p, key.n);
    c->digests = d;
}

static bool take_digest(struct watching *w, uint32_t i, struct slice reply)
{
    struct answer a;
    if (!answer_next(&reply, &a) || a.type != '$' || a.text.n > TXNCMD_DIGEST_BYTES) return false;
    watch(w->conn, w->argv[i + 1], a.text);
    return true;
}

/* All digests are taken, or none. */
static void take_answers(struct watching *w, const struct call *c, struct reply *out)
{
    struct slice reply;
    for (uint32_t i = 0; i < call_size(c); i++) {
        call_fate(c, i, &reply);
        if (reply.n && reply.p[0] != '-') continue;
        buf_add_slice(out->out, reply);
        return;
    }
    for (uint32_t i = 0; i < call_size(c); i++) {
        call_fate(c, i, &reply);
        if (take_digest(w, i, reply)) continue;
        reply_error(out, "ERR a group's answer makes no sense");
        return;
    }
    reply_ok(out);
}

static void watched(void *ctx, struct call *c)
{
    struct watching *w = ctx;
    struct front *f = w->conn->front;
    struct buf answer = {0};
    struct reply out = {.out = &answer, .resp = w->conn->resp};
    take_answers(w, c, &out);
    if (answer.p[0] == '-') stats_note_error(f->server, &f->worker, buf_slice(&answer));
    call_free(c);
    conn_errand_done(w->conn, buf_slice(&answer));
    buf_fini(&answer);
    mem_free(w);
}

static void watch_command(struct exec *x)
{
    struct conn *c = conn_of(x);
    struct front *f = c->front;
    if (c->in_multi) {
        reply_error(&x->out, "ERR WATCH inside MULTI is not allowed");
        return;
    }
    struct watching *w = mem_alloc(sizeof *w);
    *w = (struct watching){.conn = c, .argv = x->argv, .argc = x->argc};
    const struct command *cmd = command_find_any(f->worker.engine->commands, SLICE("txn.digest"));
    struct call *call = call_new(f, c->db, 2, watched, w);
    for (uint32_t i = 1; i < x->argc; i++) call_add(call, 0, cmd, (const struct slice[]){x->argv[0], x->argv[i]}, 2); /* to the group of the key */
    c->errand = true;
    call_send(call, relay_timeout_ms(f->server->relay));
}

/* ---- EXEC */

/* What SELECT makes the database of the commands behind it; it answers by itself when it runs. */
static uint16_t db_after(const struct conn *c, const struct multi_command *q, uint16_t db)
{
    int64_t n;
    if (strcmp(q->cmd->name, "select") != 0) return db;
    bool good = num_parse_i64(c->multi.args[q->first_arg + 1], &n) && n >= 0 && n < CONFIG_NUM(c->front->server->config, databases);
    return good ? (uint16_t)n : db;
}

static void exec_command(struct exec *x)
{
    struct conn *c = conn_of(x);
    bool in_multi = c->in_multi;
    if (transactions_refuse(c, &x->out)) {
        if (!in_multi) return;
        transactions_reset(c);
        wideexec_unwatch(c);
        return;
    }
    struct widetxn *w = widetxn_new(c, true);
    uint16_t db = c->db;
    for (uint32_t i = 0; i < c->multi.n; i++) {
        const struct multi_command *q = &c->multi.commands[i];
        widetxn_add(w, q->cmd, c->multi.args + q->first_arg, q->argc, db);
        db = db_after(c, q, db);
    }
    for (const struct digest *d = c->digests; d; d = d->next) widetxn_check(w, d->db, slice_of(d->key, d->key_n), slice_of(d->bytes, d->n));
    widetxn_keep(w, &c->multi);
    transactions_reset(c);
    wideexec_unwatch(c);
    widetxn_start(w);
}

/* ---- */

bool wideexec_has(const struct command *c)
{
    static const char *const names[] = {"multi", "exec", "discard", "watch", "unwatch"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], c->name) == 0) return true;
    return false;
}

void wideexec_make_row(struct command *row)
{
    if (strcmp(row->name, "exec") == 0) {
        row->fn = exec_command;
        row->each_inner = NULL;
    } else if (strcmp(row->name, "watch") == 0) {
        row->fn = watch_command;
        row->class = CLASS_LOCAL;
    }
}

bool wideexec_run(struct conn *c)
{
    struct task *t = &c->batch->task;
    const struct request *r = &t->requests[t->pos++];
    struct widetxn *w = widetxn_new(c, false);
    widetxn_add(w, r->cmd, t->args + r->first_arg, r->argc, c->db);
    c->away = !widetxn_start(w);
    return !c->away;
}
