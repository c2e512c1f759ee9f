/* Transactions over groups: clients that ask for them, coordinators (cluster/txn.h) and the care for orphans (cluster/txncare.h) on the nodes.
 *
 * A transaction is about a pair of keys, which are mostly in different groups. Those of some pairs are sums that amounts are moved between, those of the others words that are set together; both are read together. Other clients
 * (nodesim_client.c) read and change them one by one. The history is judged for pairs, so it says whether all that anybody saw of two keys can have been so at one moment.
 *
 * A coordinator dies with its node. Then its client knows nothing, and what it left behind is the others' to clean up. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "cluster/intentevent.h"
#include "cluster/intents.h"
#include "cluster/txn.h"
#include "cluster/txncare.h"
#include "cluster/txncmd.h"
#include "nodesim_own.h"
#include "resp/answer.h"
#include "shard/scratch.h"
#include "shard/task.h"

enum {
    CLIENTS = 6,
    TXN_MS = 3000,    /* the time of a transaction */
    CLIENT_MS = 6000, /* and of its client: the node is gone, or stands still */
    CARE_MS = 500,
};

/* ---- what there is */

/* A coordinator's answer to a client, on its way. */
struct letter {
    uint32_t to, attempt;
    enum txn_outcome outcome;
    bool wide; /* its keys were in two groups */
    struct buf bytes;
};

enum wish { READ, MOVE, WRITE };

struct client {
    bool busy;
    uint32_t attempt, pair;
    enum wish wish;
    size_t op; /* of the history */
    char keys[2][NODESIM_KEY_BYTES], args[2][NODESIM_WORD_BYTES];
};

struct nodesim_txns {
    struct letter *letters;
    uint32_t n_letters, cap_letters;
    struct client clients[CLIENTS];
    uint64_t names; /* of transactions */
};

struct coordination {
    struct coordination *next;
    struct nodesim_node *node;
    struct txn *txn;
    uint32_t number, attempt; /* of the client */
    uint64_t id;
    struct client wishes; /* as they were when it began */
    struct txn_key keys[2];
    struct buf replies;
    bool over;
};

struct nodesim_txn_node {
    struct coordination *first;
    struct scratch *scratch;
    struct txncare *care;
    struct txncare_counts counted;
};

static uint64_t now_ms(const struct nodesim *s) { return world_now(s->w) / WORLD_MS; }

static uint32_t add_letter(struct nodesim *s, const struct letter *l)
{
    struct nodesim_txns *t = s->txns;
    if (t->n_letters == t->cap_letters) {
        t->cap_letters = t->cap_letters * 2 + 64;
        t->letters = mem_resize(t->letters, t->cap_letters * sizeof *t->letters);
    }
    t->letters[t->n_letters] = *l;
    return t->n_letters++;
}

/* ---- coordinators */

static uint32_t group_of(void *ctx, struct slice key)
{
    const struct coordination *c = ctx;
    const struct route *route = &c->node->engine->route;
    const struct space_map *m = route_map(route);
    return m ? spaces_shard(m, key, keyhash(key, route->seed)) : TXN_NO_GROUP;
}

static void go_on(struct coordination *c);

static void txn_is_answered(void *ctx, uint64_t arg, const struct txn_answer *answers, uint32_t n)
{
    struct coordination *c = ctx;
    txn_answered(c->txn, (int64_t)now_ms(c->node->sim), answers, n);
    go_on(c);
}

static void txn_send(void *ctx, struct txn *t, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct coordination *c = ctx;
    const struct nodesim_call call = {.done = txn_is_answered, .ctx = c};
    nodesim_leg_send(c->node, &call, requests, n, timeout_ms);
}

static void write_op(void *ctx, uint16_t db, struct slice key, struct slice op)
{
    struct coordination *c = ctx;
    txn_write(c->txn, slice_eq(key, c->keys[1].key), op);
}

static void write_event(void *ctx, const struct scratch_event *e)
{
    struct coordination *c = ctx;
    txn_event(c->txn, slice_eq(e->key, c->keys[1].key), &(struct intentevent){e->event_class, slice_str(e->name), e->key, e->db});
}

static void run_command(struct coordination *c, int i)
{
    static const char *const names[] = {[READ] = "get", [MOVE] = "incrby", [WRITE] = "set"};
    struct nodesim_node *n = c->node;
    const struct slice argv[] = {slice_str(names[c->wishes.wish]), c->keys[i].key, slice_str(c->wishes.args[i])};
    const struct scratch_request r = {.cmd = command_find(n->sim->commands, argv[0]), .argv = argv, .argc = c->wishes.wish == READ ? 2 : 3, .resp = 2, .now_ms = nodesim_unix_ms(n), .events = UINT32_MAX};
    scratch_run(n->txns->scratch, n->worker, &r, &c->replies);
}

static bool txn_run(void *ctx, struct txn *t)
{
    struct coordination *c = ctx;
    struct scratch *scratch = c->node->txns->scratch;
    struct slice raw;
    scratch_clear(scratch);
    c->replies.len = 0;
    for (uint32_t i = 0; i < 2; i++)
        if (txn_entry(t, i, &raw)) CHECK(scratch_put(scratch, raw));
    for (int i = 0; i < 2; i++) run_command(c, i);
    scratch_ops(scratch, write_op, c);
    scratch_events(scratch, write_event, c);
    return true;
}

/* ---- */

static void txn_settled(void *ctx, struct txn *t, enum txn_outcome o)
{
    struct coordination *c = ctx;
    struct nodesim *s = c->node->sim;
    struct letter l = {.to = c->number, .attempt = c->attempt, .outcome = o, .wide = group_of(c, c->keys[0].key) != group_of(c, c->keys[1].key)};
    if (o == TXN_REFUSED) world_fail(s->w, "a transaction is refused: %.*s", (int)txn_error(t).n, txn_error(t).p);
    buf_add_slice(&l.bytes, buf_slice(&c->replies));
    world_after(s->w, 0, 50 + rng_below(world_rng(s->w), 500), NODESIM_TXN_END, add_letter(s, &l));
}

static void txn_over(void *ctx, struct txn *t) { ((struct coordination *)ctx)->over = true; }

static void free_coordination(struct coordination *c)
{
    struct coordination **at = &c->node->txns->first;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    txn_free(c->txn);
    buf_fini(&c->replies);
    mem_free(c);
}

/* Something has happened to it. */
static void go_on(struct coordination *c)
{
    const struct nodesim *s = c->node->sim;
    if (c->over) {
        free_coordination(c);
        return;
    }
    int64_t wakes = txn_wakes_ms(c->txn), now = (int64_t)now_ms(s);
    if (wakes != INT64_MAX) world_after(s->w, c->node->id, (uint64_t)(wakes > now ? wakes - now : 0) * WORLD_MS + 1, NODESIM_TXN_WAKE, c->id);
}

static void on_wake(struct nodesim_node *n, uint64_t id)
{
    struct coordination *c = n->txns->first;
    while (c && c->id != id) c = c->next;
    if (!c) return;
    txn_wake(c->txn, (int64_t)now_ms(n->sim));
    go_on(c);
}

static void on_begin(struct nodesim_node *n, uint64_t arg)
{
    struct nodesim *s = n->sim;
    struct client *client = &s->txns->clients[arg >> 32];
    char name[32];
    if (!client->busy || client->attempt != (uint32_t)arg) return;
    struct coordination *c = mem_zalloc(sizeof *c);
    *c = (struct coordination){.next = n->txns->first, .node = n, .number = (uint32_t)(arg >> 32), .attempt = (uint32_t)arg, .id = ++s->txns->names, .wishes = *client};
    n->txns->first = c;
    static const char uses[] = {[READ] = 'r', [MOVE] = 'w', [WRITE] = 'k'};
    for (int i = 0; i < 2; i++) c->keys[i] = (struct txn_key){.use = uses[client->wish], .key = slice_str(c->wishes.keys[i])};
    const struct txn_host host = {.ctx = c, .group_of = group_of, .send = txn_send, .run = txn_run, .settled = txn_settled, .over = txn_over};
    snprintf(name, sizeof name, "%llu", (unsigned long long)c->id);
    c->txn = txn_new(&host, slice_str(name), c->keys, 2);
    txn_start(c->txn, (int64_t)now_ms(s), TXN_MS);
    go_on(c);
}

/* ---- the care */

static bool care_leads(void *ctx, uint32_t group)
{
    const struct nodesim_node *n = ctx;
    return group >= META_FIRST_DATA_GROUP && n->leads[group];
}

static void count_care(struct nodesim_node *n)
{
    const struct txncare_counts *c = txncare_counts(n->txns->care);
    struct txncare_counts *before = &n->txns->counted;
    n->sim->result->recovered += c->committed + c->dropped + c->settled - before->committed - before->dropped - before->settled;
    *before = *c;
}

static void care_is_answered(void *ctx, uint64_t arg, const struct txn_answer *answers, uint32_t n)
{
    struct nodesim_node *node = ctx;
    txncare_answered(node->txns->care, answers, n);
    count_care(node);
}

static void care_send(void *ctx, struct txncare *c, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    const struct nodesim_call call = {.done = care_is_answered, .ctx = ctx};
    nodesim_leg_send(ctx, &call, requests, n, timeout_ms);
}

static void on_care(struct nodesim_node *n)
{
    world_after(n->sim->w, n->id, CARE_MS * WORLD_MS, NODESIM_CARE, 0);
    txncare_look(n->txns->care);
}

/* ---- a node's */

void nodesim_txn_open(struct nodesim_node *n)
{
    const struct txncare_host host = {.ctx = n, .leads = care_leads, .groups = NODESIM_GROUPS, .send = care_send};
    n->txns = mem_zalloc(sizeof *n->txns);
    n->txns->scratch = scratch_new(n->engine);
    n->txns->care = txncare_new(&host);
    world_after(n->sim->w, n->id, CARE_MS * WORLD_MS, NODESIM_CARE, 0);
}

void nodesim_txn_close(struct nodesim_node *n)
{
    while (n->txns->first) free_coordination(n->txns->first);
    scratch_free(n->txns->scratch);
    txncare_free(n->txns->care);
    mem_free(n->txns);
}

void nodesim_txn_task(struct nodesim_node *n, enum nodesim_task kind, uint64_t arg)
{
    if (kind == NODESIM_TXN_BEGIN) on_begin(n, arg);
    if (kind == NODESIM_TXN_WAKE) on_wake(n, arg);
    if (kind == NODESIM_CARE) on_care(n);
}

/* ---- clients */

/* Words are told as they are; a sum changes by what is moved. */
static void parts_of(const struct client *c, struct wgl_part parts[2])
{
    static const enum wgl_kind kinds[] = {[READ] = WGL_GET, [MOVE] = WGL_INCR, [WRITE] = WGL_SET};
    for (int i = 0; i < 2; i++) {
        parts[i] = (struct wgl_part){.kind = kinds[c->wish], .key = slice_str(c->keys[i])};
        if (c->wish == WRITE) parts[i].arg = slice_str(c->args[i]);
        if (c->wish == MOVE) parts[i].by = strtoll(c->args[i], NULL, 10);
    }
}

static void wish(struct nodesim *s, struct client *c)
{
    struct rng *rng = world_rng(s->w);
    c->pair = (uint32_t)rng_below(rng, NODESIM_PAIRS + 1);
    c->wish = rng_below(rng, 3) == 0 ? READ : nodesim_is_sum(c->pair) ? MOVE : WRITE;
    int amount = 1 + (int)rng_below(rng, 9);
    bool other_way = rng_below(rng, 2); /* the order of the keys in a transaction is anybody's */
    ++s->unique;
    for (int i = 0; i < 2; i++) {
        nodesim_key_name(c->keys[i], nodesim_pair_key(c->pair, (uint32_t)i ^ other_way));
        if (c->wish == MOVE) snprintf(c->args[i], sizeof c->args[i], "%d", i ? amount : -amount);
        else snprintf(c->args[i], sizeof c->args[i], "w%llu.", (unsigned long long)s->unique);
    }
}

static void think(struct nodesim *s, uint32_t number)
{
    s->txns->clients[number].busy = false;
    world_after(s->w, 0, 1 + rng_below(world_rng(s->w), 4 * s->think_us), NODESIM_TXN_CLIENT, number);
}

static void client_begin(struct nodesim *s, uint32_t number)
{
    struct client *c = &s->txns->clients[number];
    struct wgl_part parts[2];
    uint32_t node = 1 + (uint32_t)rng_below(world_rng(s->w), NODESIM_NODES);
    const struct nodesim_node *n = world_node(s->w, node);
    if (!s->load) return;
    if (!n || !n->member) {
        think(s, number);
        return;
    }
    wish(s, c);
    c->busy = true;
    c->attempt++;
    parts_of(c, parts);
    c->op = wgl_call(s->history, NODESIM_FIRST_TXN + number, (int64_t)world_now(s->w), parts, 2);
    uint64_t arg = (uint64_t)number << 32 | c->attempt;
    world_after(s->w, node, 50 + rng_below(world_rng(s->w), 500), NODESIM_TXN_BEGIN, arg);
    world_after(s->w, 0, CLIENT_MS * WORLD_MS, NODESIM_TXN_TIMEOUT, arg);
}

static void read_replies(struct nodesim *s, struct slice in, struct wgl_answer answers[2])
{
    struct answer a;
    for (int i = 0; i < 2; i++) {
        bool good = answer_next(&in, &a) && a.type != '-';
        if (!good) world_fail(s->w, "a transaction is answered %.*s", (int)in.n, in.n ? in.p : "");
        answers[i] = (struct wgl_answer){.nil = a.type == '_', .value = a.type == '$' ? a.text : SLICE(""), .number = a.n};
    }
}

static void client_end(struct nodesim *s, uint32_t number)
{
    const struct letter l = s->txns->letters[number];
    struct client *c = &s->txns->clients[l.to];
    struct wgl_answer answers[2] = {0};
    if (!c->busy || c->attempt != l.attempt) return;
    world_note(s->w, (uint64_t)l.outcome << 32 | l.to);
    if (l.outcome == TXN_DONE) {
        read_replies(s, buf_slice(&l.bytes), answers);
        wgl_return(s->history, c->op, (int64_t)world_now(s->w), answers);
        if (l.wide && c->wish == READ) s->result->wide_reads++;
        else if (l.wide) s->result->wide_writes++;
    } else if (l.outcome == TXN_UNCERTAIN) {
        s->result->wide_uncertain++;
    } else {
        wgl_refused(s->history, c->op);
        s->result->wide_refused++;
    }
    think(s, l.to);
}

static void client_timeout(struct nodesim *s, uint32_t number, uint32_t attempt)
{
    struct client *c = &s->txns->clients[number];
    if (!c->busy || c->attempt != attempt) return;
    c->attempt++;
    if (c->wish == READ) wgl_refused(s->history, c->op);
    else s->result->wide_uncertain++;
    think(s, number);
}

void nodesim_txn_event(struct nodesim *s, enum nodesim_task kind, uint64_t arg)
{
    if (kind == NODESIM_TXN_CLIENT) client_begin(s, (uint32_t)arg);
    if (kind == NODESIM_TXN_END) client_end(s, (uint32_t)arg);
    if (kind == NODESIM_TXN_TIMEOUT) client_timeout(s, (uint32_t)(arg >> 32), (uint32_t)arg);
}

/* ---- the whole */

void nodesim_txn_new(struct nodesim *s) { s->txns = mem_zalloc(sizeof *s->txns); }

void nodesim_txn_start(struct nodesim *s)
{
    for (uint32_t i = 0; i < CLIENTS; i++) world_after(s->w, 0, 700 * WORLD_MS, NODESIM_TXN_CLIENT, i);
}

void nodesim_txn_free(struct nodesim *s)
{
    struct nodesim_txns *t = s->txns;
    for (uint32_t i = 0; i < t->n_letters; i++) buf_fini(&t->letters[i].bytes);
    mem_free(t->letters);
    mem_free(t);
}

void nodesim_txn_check(struct nodesim *s, struct nodesim_node *leader, uint32_t group)
{
    struct seat_info info;
    if (!seats_look(leader->seats, group, &info)) return;
    struct intents *i = leader->real->intents(leader->real->ctx, &leader->engine->shards[info.shard]);
    intents_check(i);
    struct intents_info one;
    const void *at = NULL;
    if (intents_next(i, INTENTS_INTENT, &at, &one)) world_fail(s->w, "group %u: transaction %.*s is still under way in the end", group, (int)one.id.n, one.id.p);
}
