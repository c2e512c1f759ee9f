#include "server/widetxn.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "base/num.h"
#include "cluster/intentevent.h"
#include "cluster/meta.h"
#include "cluster/txnask.h"
#include "cluster/txncare.h"
#include "cluster/txncmd.h"
#include "dump/dumpfile.h"
#include "resp/answer.h"
#include "server/front.h"
#include "server/keyaccess.h"
#include "server/notify.h"
#include "server/relay_call.h"
#include "server/relay_parts.h"
#include "server/stats.h"
#include "server/transactions.h"
#include "server/wide_own.h"
#include "server/widerange.h"
#include "shard/scratch.h"

enum {
    LOOK_EVERY_MS = 500, /* at the groups that this node leads: for what coordinators left behind */
    KEYS_ON_STACK = 64,
};

struct part {
    const struct command *cmd;
    const struct slice *argv;
    uint32_t argc;
    uint16_t db;
    bool has_keys;
    size_t at, n; /* its reply, in replies */
};

struct check {
    uint16_t db;
    struct slice key, digest;
    char *bytes; /* of both */
};

struct key {
    struct txn_key k;
    bool writes, needs_value;
};

struct widetxn {
    struct widetxn *next, **back; /* of the front's */
    struct front *front;
    struct conn *conn; /* NULL: it has its answer */
    bool is_exec;
    uint8_t resp;
    int64_t now_ms; /* of the transaction */
    struct part *parts;
    uint32_t n_parts, cap_parts;
    struct check *checks;
    uint32_t n_checks, cap_checks;
    struct key *keys; /* by database and name */
    uint32_t n_keys, cap_keys;
    struct multi kept;
    struct txn *txn; /* NULL: it is in one group, or in none */
    struct buf replies;
};

struct counts { /* one writer, read by anyone: relaxed */
    uint64_t committed, aborted, uncertain, in_one_group, under_way, recovered, forgotten, intents;
};

struct widetxns {
    struct front *front;
    struct widetxn *first;
    struct scratch *scratch;
    uint64_t counter; /* of names */
    struct txncare *care; /* on the first front; NULL: not here */
    int64_t next_look_ms;
    bool stops;
    struct counts counts;
};

static struct widetxns *all_of(const struct widetxn *w) { return w->front->txns; }
static const struct engine *engine_of(const struct front *f) { return f->worker.engine; }

static uint32_t group_of_key(const struct front *f, struct slice key)
{
    const struct route *r = &engine_of(f)->route;
    const struct space_map *m = route_map(r);
    return m ? spaces_shard(m, key, keyhash(key, r->seed)) : TXN_NO_GROUP;
}

/* ---- making one */

struct widetxn *widetxn_new(struct conn *c, bool is_exec)
{
    struct widetxn *w = mem_zalloc(sizeof *w);
    w->front = c->front;
    w->conn = c;
    w->is_exec = is_exec;
    w->resp = c->resp;
    w->now_ms = c->front->worker.now_ms;
    w->next = all_of(w)->first;
    w->back = &all_of(w)->first;
    if (w->next) w->next->back = &w->next;
    all_of(w)->first = w;
    STAT_ADD(all_of(w)->counts.under_way, 1);
    return w;
}

static void widetxn_free(struct widetxn *w)
{
    STAT_ADD(all_of(w)->counts.under_way, (uint64_t)-1);
    *w->back = w->next;
    if (w->next) w->next->back = w->back;
    if (w->txn) txn_free(w->txn);
    transactions_free_queue(&w->kept);
    for (uint32_t i = 0; i < w->n_checks; i++) mem_free(w->checks[i].bytes);
    mem_free(w->parts);
    mem_free(w->checks);
    mem_free(w->keys);
    buf_fini(&w->replies);
    mem_free(w);
}

void widetxn_keep(struct widetxn *w, struct multi *m)
{
    w->kept = *m;
    *m = (struct multi){0};
}

static void add_key(struct widetxn *w, uint16_t db, struct slice key, bool writes, bool needs_value)
{
    if (w->n_keys == w->cap_keys) {
        w->cap_keys = w->cap_keys ? w->cap_keys * 2 : 16;
        w->keys = mem_resize(w->keys, w->cap_keys * sizeof *w->keys);
    }
    w->keys[w->n_keys++] = (struct key){.k = {.db = db, .key = key}, .writes = writes, .needs_value = needs_value};
}

/* MOVE, and COPY with DB, also touch keys of these names in another database. */
static bool other_db(const struct part *p, uint16_t *db)
{
    struct slice arg = {0};
    int64_t n;
    if (strcmp(p->cmd->name, "move") == 0) arg = p->argv[2];
    for (uint32_t i = 3; strcmp(p->cmd->name, "copy") == 0 && i + 1 < p->argc; i++)
        if (slice_is(p->argv[i], "db")) arg = p->argv[i + 1];
    if (!arg.n || !num_parse_i64(arg, &n) || n < 0 || n >= STORE_DBS) return false;
    *db = (uint16_t)n;
    return true;
}

static void add_keys(struct widetxn *w, struct part *p)
{
    uint32_t on_stack[KEYS_ON_STACK], *at = on_stack;
    int n = p->cmd->class == CLASS_KEYED ? command_keys(p->cmd, p->argv, p->argc, at, KEYS_ON_STACK) : 0;
    if (n > KEYS_ON_STACK) {
        at = mem_alloc((size_t)n * sizeof *at);
        n = command_keys(p->cmd, p->argv, p->argc, at, n);
    }
    struct keyaccess access = keyaccess_of(p->cmd);
    bool value = command_needs_values(p->cmd, p->argv, p->argc);
    uint16_t other;
    p->has_keys = n > 0;
    for (int i = 0; i < n; i++) {
        bool writes = p->cmd->flags & CMD_WRITE && strncmp(keyaccess_of_key(access, i), "RO", 2) != 0;
        add_key(w, p->db, p->argv[at[i]], writes, value);
        if (other_db(p, &other)) add_key(w, other, p->argv[at[i]], true, true);
    }
    if (at != on_stack) mem_free(at);
}

void widetxn_add(struct widetxn *w, const struct command *cmd, const struct slice *argv, uint32_t argc, uint16_t db)
{
    if (w->n_parts == w->cap_parts) {
        w->cap_parts = w->cap_parts ? w->cap_parts * 2 : 8;
        w->parts = mem_resize(w->parts, w->cap_parts * sizeof *w->parts);
    }
    struct part *p = &w->parts[w->n_parts++];
    *p = (struct part){.cmd = cmd, .argv = argv, .argc = argc, .db = db};
    add_keys(w, p);
}

void widetxn_check(struct widetxn *w, uint16_t db, struct slice key, struct slice digest)
{
    if (w->n_checks == w->cap_checks) {
        w->cap_checks = w->cap_checks ? w->cap_checks * 2 : 8;
        w->checks = mem_resize(w->checks, w->cap_checks * sizeof *w->checks);
    }
    char *p = mem_alloc(key.n + digest.n + 1);
    if (key.n) memcpy(p, key.p, key.n);
    if (digest.n) memcpy(p + key.n, digest.p, digest.n);
    struct check *k = &w->checks[w->n_checks++];
    *k = (struct check){db, slice_of(p, key.n), slice_of(p + key.n, digest.n), p};
    add_key(w, db, k->key, false, true);
}

static int by_key(const void *a, const void *b)
{
    const struct txn_key *x = &((const struct key *)a)->k, *y = &((const struct key *)b)->k;
    return x->db != y->db ? (x->db < y->db ? -1 : 1) : slice_cmp(x->key, y->key);
}

/* Each key once, used as all commands together use it. */
static void join_keys(struct widetxn *w)
{
    static const char uses[2][2] = {{'e', 'r'}, {'k', 'w'}};
    uint32_t n = 0;
    if (!w->n_keys) return;
    qsort(w->keys, w->n_keys, sizeof *w->keys, by_key);
    for (uint32_t i = 0; i < w->n_keys; i++) {
        if (n && by_key(&w->keys[n - 1], &w->keys[i]) == 0) {
            w->keys[n - 1].writes |= w->keys[i].writes;
            w->keys[n - 1].needs_value |= w->keys[i].needs_value;
        } else w->keys[n++] = w->keys[i];
    }
    w->n_keys = n;
    for (uint32_t i = 0; i < n; i++) w->keys[i].k.use = uses[w->keys[i].writes][w->keys[i].needs_value];
}

/* ---- the answer */

/* Commands without keys run now. */
static void run_part_here(struct widetxn *w, const struct part *p, struct buf *out)
{
    struct conn *c = w->conn;
    scratch_run(all_of(w)->scratch, &w->front->worker, &(struct scratch_request){p->cmd, p->argv, p->argc, c->db, c->resp, w->now_ms, c, 0}, out);
}

static void add_answer(struct widetxn *w, struct buf *out)
{
    struct reply r = {.out = out, .resp = w->resp};
    if (w->is_exec) reply_array(&r, w->n_parts);
    for (uint32_t i = 0; i < w->n_parts; i++) {
        const struct part *p = &w->parts[i];
        if (p->has_keys) buf_add(out, w->replies.p + p->at, p->n);
        else run_part_here(w, p, out);
    }
    scratch_clear(all_of(w)->scratch);
}

static void go_home(struct widetxn *w, struct buf *answer)
{
    struct conn *c = w->conn;
    w->conn = NULL;
    if (answer->p[0] == '-') stats_note_error(w->front->server, &w->front->worker, buf_slice(answer));
    conn_errand_done(c, buf_slice(answer));
    buf_fini(answer);
}

/* An error of a group, or of its relay: nothing happened. */
static void add_refusal(const struct widetxn *w, struct buf *out, struct slice error)
{
    if (w->is_exec && !answer_is_error(error, "TRYAGAIN") && !answer_is_error(error, "CLUSTERDOWN") && !answer_is_error(error, "UNCERTAIN")) {
        buf_add_str(out, "-EXECABORT Transaction discarded because of: ");
        error = slice_of(error.p + 1, error.n - 1);
    }
    buf_add_slice(out, error);
}

/* ---- in one group: txn.run does it all */

static void add_run(struct widetxn *w, struct txnask *a, uint32_t group)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_parts; i++) n += w->parts[i].has_keys;
    txnask_add(a, group, "txn.run");
    txnask_number(a, w->n_checks);
    for (uint32_t i = 0; i < w->n_checks; i++) {
        txnask_number(a, w->checks[i].db);
        txnask_word(a, w->checks[i].key);
        txnask_word(a, w->checks[i].digest);
    }
    txnask_number(a, n);
    for (uint32_t i = 0; i < w->n_parts; i++) {
        const struct part *p = &w->parts[i];
        if (!p->has_keys) continue;
        txnask_number(a, p->db);
        txnask_number(a, p->argc);
        for (uint32_t k = 0; k < p->argc; k++) txnask_word(a, p->argv[k]);
    }
}

/* The replies of the commands that ran; false: it is no such answer. */
static bool take_replies(struct widetxn *w, struct slice in)
{
    uint32_t n;
    struct slice value;
    if (!answer_array(&in, &n)) return false;
    for (uint32_t i = 0; i < w->n_parts; i++) {
        struct part *p = &w->parts[i];
        if (!p->has_keys) continue;
        if (n-- == 0 || !answer_whole(&in, &value)) return false;
        p->at = w->replies.len;
        p->n = value.n;
        buf_add_slice(&w->replies, value);
    }
    return n == 0;
}

static bool is_null(struct slice in)
{
    struct answer a;
    return answer_next(&in, &a) && a.type == '_';
}

static void run_over_groups(struct widetxn *w);

static void ran_in_one_group(void *ctx, struct call *c)
{
    struct widetxn *w = ctx;
    struct slice reply;
    struct buf answer = {0};
    struct reply out = {.out = &answer, .resp = w->resp};
    call_fate(c, 0, &reply); /* what is not answered has an error for a reply */
    if (answer_is_error(reply, "TXNMOVED")) { /* keys are being carried: it looks for them as often as it needs to */
        call_free(c);
        run_over_groups(w);
        return;
    }
    if (reply.n && reply.p[0] == '-') add_refusal(w, &answer, reply);
    else if (is_null(reply)) reply_null_array(&out);
    else if (take_replies(w, reply)) add_answer(w, &answer);
    else reply_error(&out, "ERR a group's answer makes no sense");
    STAT_ADD(all_of(w)->counts.in_one_group, 1);
    call_free(c);
    go_home(w, &answer);
    widetxn_free(w);
}

/* ---- calls */

static void run_in_one_group(struct widetxn *w, uint32_t group)
{
    struct txnask ask = {0};
    struct call *c = call_new(w->front, w->conn->db, w->resp, ran_in_one_group, w);
    add_run(w, &ask, group);
    wide_add_requests(c, w->front, txnask_requests(&ask), 1);
    txnask_fini(&ask);
    call_send(c, relay_timeout_ms(w->front->server->relay));
}

static void answered(void *ctx, struct call *c)
{
    struct txn_answer *a = wide_answers(c);
    txn_answered(((struct widetxn *)ctx)->txn, relay_now_ms(), a, call_size(c));
    mem_free(a);
    call_free(c);
}

/* ---- over several groups: the host of cluster/txn.h */

static uint32_t group_of(void *ctx, struct slice key) { return group_of_key(((struct widetxn *)ctx)->front, key); }

static void send(void *ctx, struct txn *t, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct widetxn *w = ctx;
    struct call *c = call_new(w->front, 0, 2, answered, w);
    wide_add_requests(c, w->front, requests, n);
    call_send(c, timeout_ms);
}

static void run_parts(struct widetxn *w, struct scratch *s)
{
    w->replies.len = 0;
    for (uint32_t i = 0; i < w->n_parts; i++) {
        struct part *p = &w->parts[i];
        if (!p->has_keys) continue;
        p->at = w->replies.len;
        scratch_run(s, &w->front->worker, &(struct scratch_request){p->cmd, p->argv, p->argc, p->db, w->resp, w->now_ms, NULL, notify_wanted(w->front->server)}, &w->replies);
        p->n = w->replies.len - p->at;
    }
}

static bool is_expired(const struct widetxn *w, uint32_t key)
{
    struct slice raw;
    struct dumpfile_entry e;
    return txn_entry(w->txn, key, &raw) && dumpfile_take_entry(raw, &e) && e.expiry_ms && e.expiry_ms < w->now_ms;
}

static uint32_t key_at(const struct widetxn *w, uint16_t db, struct slice name)
{
    const struct key *k = bsearch(&(struct key){.k = {.db = db, .key = name}}, w->keys, w->n_keys, sizeof *w->keys, by_key);
    CHECK(k); /* commands write keys that their rows name, and watched ones are among them */
    return (uint32_t)(k - w->keys);
}

static void note_op(void *ctx, uint16_t db, struct slice name, struct slice op)
{
    struct widetxn *w = ctx;
    uint32_t i = key_at(w, db, name);
    if (w->keys[i].writes) txn_write(w->txn, i, op);
    else CHECK(is_expired(w, i)); /* it was found so, and is gone for who looks; to remove it is its group's affair */
}

static void note_event(void *ctx, const struct scratch_event *e)
{
    struct widetxn *w = ctx;
    uint32_t i = key_at(w, e->db, e->key);
    if (w->keys[i].writes) txn_event(w->txn, i, &(struct intentevent){e->event_class, slice_str(e->name), e->key, e->db});
}

/* All keys' entries are put in; false: one of them makes no sense. */
static bool fill(const struct widetxn *w, struct scratch *s)
{
    struct slice raw;
    scratch_clear(s);
    for (uint32_t i = 0; i < w->n_keys; i++)
        if (txn_entry(w->txn, i, &raw) && !scratch_put(s, raw)) return false;
    return true;
}

static bool run(void *ctx, struct txn *t)
{
    struct widetxn *w = ctx;
    struct scratch *s = all_of(w)->scratch;
    w->now_ms = w->front->worker.now_ms;
    bool sensible = fill(w, s);
    if (sensible) {
        run_parts(w, s);
        scratch_ops(s, note_op, w);
        scratch_events(s, note_event, w);
    }
    scratch_clear(s);
    return sensible;
}

static void add_outcome(struct widetxn *w, enum txn_outcome o, struct buf *answer)
{
    struct reply out = {.out = answer, .resp = w->resp};
    switch (o) {
    case TXN_DONE: add_answer(w, answer); break;
    case TXN_STOPPED: wide_reply_nonsense(&out); break;
    case TXN_CHANGED: reply_null_array(&out); break;
    case TXN_NOBODY: reply_error(&out, "CLUSTERDOWN nobody leads the shard of a key: nothing was done"); break;
    case TXN_BUSY: reply_error(&out, "TRYAGAIN other transactions had the keys all the time: nothing was done"); break;
    case TXN_REFUSED: add_refusal(w, answer, txn_error(w->txn)); break;
    case TXN_UNCERTAIN: reply_error(&out, "UNCERTAIN the leader was lost while the transaction was under way: it may have happened, or may yet"); break;
    }
}

static void settled(void *ctx, struct txn *t, enum txn_outcome o)
{
    struct widetxn *w = ctx;
    struct counts *k = &all_of(w)->counts;
    struct buf answer = {0};
    if (o == TXN_DONE) STAT_ADD(k->committed, 1);
    else if (o == TXN_UNCERTAIN) STAT_ADD(k->uncertain, 1);
    else STAT_ADD(k->aborted, 1);
    add_outcome(w, o, &answer);
    go_home(w, &answer);
}

static void over(void *ctx, struct txn *t) { widetxn_free(ctx); }

struct slice widetxn_name(struct front *f, char *out, size_t max)
{
    int n = snprintf(out, max, "%.16s%02x%llx", f->server->run_id, f->worker.id & 0xffu, (unsigned long long)f->txns->counter++);
    return slice_of(out, (size_t)n);
}

static void run_over_groups(struct widetxn *w)
{
    char name[TXN_NAME_MAX + 8];
    struct txn_key *keys = mem_alloc(w->n_keys * sizeof *keys);
    for (uint32_t i = 0; i < w->n_keys; i++) keys[i] = w->keys[i].k;
    for (uint32_t i = 0; i < w->n_checks; i++) keys[key_at(w, w->checks[i].db, w->checks[i].key)].digest = w->checks[i].digest;
    struct txn_host host = {w, group_of, send, run, settled, over, NULL};
    w->txn = txn_new(&host, widetxn_name(w->front, name, sizeof name), keys, w->n_keys);
    mem_free(keys);
    txn_start(w->txn, relay_now_ms(), relay_timeout_ms(w->front->server->relay));
}

/* The one group of all keys; TXN_NO_GROUP: there are several, or nobody knows. */
static uint32_t only_group(const struct widetxn *w)
{
    uint32_t group = group_of_key(w->front, w->keys[0].k.key);
    for (uint32_t i = 1; i < w->n_keys; i++)
        if (group_of_key(w->front, w->keys[i].k.key) != group) return TXN_NO_GROUP;
    return group;
}

bool widetxn_start(struct widetxn *w)
{
    struct conn *c = w->conn;
    join_keys(w);
    if (w->n_keys == 0) {
        add_answer(w, &c->out);
        widetxn_free(w);
        return true;
    }
    c->errand = true;
    uint32_t group = w->is_exec ? only_group(w) : TXN_NO_GROUP;
    if (group != TXN_NO_GROUP) run_in_one_group(w, group);
    else run_over_groups(w);
    return false;
}

/* ---- the care for what others left behind: on the first front, for the whole node */

static bool leads(void *ctx, uint32_t group)
{
    const struct relay_cluster *c = &((struct front *)ctx)->relay->relay->cluster;
    return c->serves(c->ctx, group);
}

static void care_answered(void *ctx, struct call *c)
{
    struct widetxns *w = ((struct front *)ctx)->txns;
    struct txn_answer *a = wide_answers(c);
    txncare_answered(w->care, a, call_size(c));
    const struct txncare_counts *k = txncare_counts(w->care);
    __atomic_store_n(&w->counts.recovered, k->committed + k->dropped + k->settled, __ATOMIC_RELAXED);
    __atomic_store_n(&w->counts.forgotten, k->forgotten, __ATOMIC_RELAXED);
    __atomic_store_n(&w->counts.intents, k->intents, __ATOMIC_RELAXED);
    mem_free(a);
    call_free(c);
}

static void care_send(void *ctx, struct txncare *care, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct front *f = ctx;
    struct call *c = call_new(f, 0, 2, care_answered, f);
    wide_add_requests(c, f, requests, n);
    call_send(c, timeout_ms);
}

/* ---- a front's */

struct widetxns *widetxn_front_new(struct front *f)
{
    struct widetxns *w = mem_zalloc(sizeof *w);
    w->front = f;
    w->scratch = scratch_new(engine_of(f));
    w->next_look_ms = relay_now_ms() + LOOK_EVERY_MS;
    if (f->worker.id == 0) w->care = txncare_new(&(struct txncare_host){.ctx = f, .leads = leads, .groups = META_GROUPS_MAX, .send = care_send});
    return w;
}

void widetxn_front_free(struct widetxns *w)
{
    while (w->first) widetxn_free(w->first);
    if (w->care) txncare_free(w->care);
    scratch_free(w->scratch);
    mem_free(w);
}

static void wake(struct widetxns *all, int64_t now_ms)
{
    bool stops = all->front->stopping && !all->stops;
    all->stops |= stops;
    for (struct widetxn *w = all->first, *next; w; w = next) {
        next = w->next;
        if (!w->txn) continue;
        if (stops) txn_hurry(w->txn, now_ms);
        txn_wake(w->txn, now_ms);
    }
}

void widetxn_turn(struct front *f)
{
    struct widetxns *all = f->txns;
    if (likely(!all->first && !all->care)) return;
    int64_t now_ms = relay_now_ms();
    if (all->first) wake(all, now_ms);
    if (!all->care || now_ms < all->next_look_ms || f->stopping) return;
    all->next_look_ms = now_ms + LOOK_EVERY_MS;
    txncare_look(all->care);
}

int widetxn_wait_ms(const struct front *f)
{
    const struct widetxns *all = f->txns;
    int64_t until = all->care ? all->next_look_ms : INT64_MAX;
    for (const struct widetxn *w = all->first; w; w = w->next)
        if (w->txn && txn_wakes_ms(w->txn) < until) until = txn_wakes_ms(w->txn);
    if (until == INT64_MAX) return -1;
    int64_t ms = until - relay_now_ms();
    return ms < 0 ? 0 : (int)ms;
}

void widetxn_look(const struct server *s, struct widetxn_info *out)
{
    *out = (struct widetxn_info){0};
    for (uint32_t i = 0; i < s->engine->n_workers; i++) {
        const struct counts *k = &s->fronts[i]->txns->counts;
        out->committed += STAT_GET(k->committed);
        out->aborted += STAT_GET(k->aborted);
        out->uncertain += STAT_GET(k->uncertain);
        out->in_one_group += STAT_GET(k->in_one_group);
        out->under_way += STAT_GET(k->under_way);
        out->recovered += STAT_GET(k->recovered);
        out->forgotten += STAT_GET(k->forgotten);
        out->intents += STAT_GET(k->intents);
        widerange_count(s->fronts[i], out);
    }
}
