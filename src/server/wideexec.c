#include "server/wideexec.h"

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "base/num.h"
#include "cluster/meta.h"
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
    uint32_t *groups; /* of each argument */
    uint64_t version; /* of the map that they were found with */
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

/* The digests of the keys that are in the group of the argument `first`, in their order. */
static bool take_digests(struct watching *w, uint32_t first, struct slice in)
{
    struct answer a;
    uint32_t n;
    if (!answer_array(&in, &n)) return false;
    for (uint32_t i = first; i < w->argc; i++) {
        if (w->groups[i] != w->groups[first]) continue;
        if (n-- == 0 || !answer_next(&in, &a) || a.type != '$' || a.text.n > TXNCMD_DIGEST_BYTES) return false;
        watch(w->conn, w->argv[i], a.text);
    }
    return n == 0;
}

static bool is_first_of_group(const struct watching *w, uint32_t i)
{
    for (uint32_t k = 1; k < i; k++)
        if (w->groups[k] == w->groups[i]) return false;
    return true;
}

/* All groups' digests are taken, or none. */
static void take_answers(struct watching *w, const struct call *c, struct reply *out)
{
    struct slice reply;
    uint32_t k = 0;
    for (uint32_t i = 0; i < call_size(c); i++) {
        call_fate(c, i, &reply);
        if (reply.n && reply.p[0] != '-') continue;
        if (answer_is_error(reply, "TXNMOVED")) reply_error(out, "TRYAGAIN a key is on its way to another shard: nothing was done");
        else buf_add_slice(out->out, reply);
        return;
    }
    for (uint32_t i = 1; i < w->argc; i++) {
        if (!is_first_of_group(w, i)) continue;
        call_fate(c, k++, &reply);
        if (take_digests(w, i, reply)) continue;
        reply_error(out, "ERR a group's answer makes no sense");
        return;
    }
    reply_ok(out);
}

static void ask_for_digests(struct watching *w);

static bool is_any_moved(const struct call *c)
{
    struct slice reply;
    for (uint32_t i = 0; i < call_size(c); i++)
        if (call_fate(c, i, &reply) == CALL_ANSWERED && answer_is_error(reply, "TXNMOVED")) return true;
    return false;
}

/* Where the keys are now. False: that is not known, or no better than before. */
static bool find_groups(struct watching *w)
{
    const struct route *r = &w->conn->front->worker.engine->route;
    const struct space_map *m = route_map(r);
    if (!m || m->version == w->version) return false;
    w->version = m->version;
    for (uint32_t i = 1; i < w->argc; i++) w->groups[i] = spaces_shard(m, w->argv[i], keyhash(w->argv[i], r->seed));
    return true;
}

static void watched(void *ctx, struct call *c)
{
    struct watching *w = ctx;
    struct front *f = w->conn->front;
    if (is_any_moved(c) && find_groups(w)) {
        call_free(c);
        ask_for_digests(w);
        return;
    }
    struct buf answer = {0};
    struct reply out = {.out = &answer, .resp = w->conn->resp};
    take_answers(w, c, &out);
    if (answer.p[0] == '-') stats_note_error(f->server, &f->worker, buf_slice(&answer));
    call_free(c);
    conn_errand_done(w->conn, buf_slice(&answer));
    buf_fini(&answer);
    mem_free(w->groups);
    mem_free(w);
}

static void ask_for_digests(struct watching *w)
{
    struct front *f = w->conn->front;
    struct slice *argv = mem_alloc(w->argc * sizeof *argv);
    const struct command *cmd = command_find_any(f->worker.engine->commands, SLICE("txn.digest"));
    struct call *c = call_new(f, w->conn->db, 2, watched, w);
    argv[0] = slice_str(cmd->name);
    for (uint32_t i = 1; i < w->argc; i++) {
        uint32_t n = 1;
        if (!is_first_of_group(w, i)) continue;
        for (uint32_t k = i; k < w->argc; k++)
            if (w->groups[k] == w->groups[i]) argv[n++] = w->argv[k];
        call_add(c, w->groups[i], cmd, argv, n);
    }
    mem_free(argv);
    w->conn->errand = true;
    call_send(c, relay_timeout_ms(f->server->relay));
}

static void watch_command(struct exec *x)
{
    struct conn *c = conn_of(x);
    if (c->in_multi) {
        reply_error(&x->out, "ERR WATCH inside MULTI is not allowed");
        return;
    }
    struct watching *w = mem_zalloc(sizeof *w);
    *w = (struct watching){.conn = c, .argv = x->argv, .argc = x->argc, .groups = mem_alloc(x->argc * sizeof *w->groups)};
    if (find_groups(w)) {
        ask_for_digests(w);
        return;
    }
    reply_error(&x->out, "CLUSTERDOWN this node does not know the cluster's map yet: nothing was done");
    mem_free(w->groups);
    mem_free(w);
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
