/* Three nodes of a cluster in one process, for the tests of server/relay.h: real engines, fronts and relays, whose seats, leaders and network are the test's, step by step.
 *
 *     struct relayrig *r = relayrig_new();               every group is led by some node
 *     struct relayrig_client *c = relayrig_client(r, 0); of node 0
 *     relayrig_ask(c, "SET k 1");                        adds a request to its pipeline
 *     relayrig_go(c);                                    starts it; c->busy until it is answered
 *     relayrig_settle(r);                                runs, delivers and commits until nothing is left to do
 *     relayrig_expect(c, "+OK\r\n");
 *     relayrig_free(r);
 *
 * A group's state is `truth`, the values of its keys as of the last commit. Whoever is elected begins with it. A leader that is deposed has entries that were committed, or not. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/le.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cluster/meta.h"
#include "cluster/once.h"
#include "cluster/termboard.h"
#include "server/front.h"
#include "server/relay_parts.h"
#include "server/stats.h"

enum {
    RELAYRIG_NODES = 3,
    RELAYRIG_FRONTS = 2,
    RELAYRIG_GROUPS = 6,
    RELAYRIG_FIRST = 2, /* group */
    RELAYRIG_KEYS = 24,
    RELAYRIG_REIGNS = 4096,
    RELAYRIG_CLIENTS = 16,
};

enum relayrig_fate { FATE_OPEN, FATE_LOST, FATE_UNCERTAIN };

struct relayrig_seat {
    uint32_t group;
    bool serves;
    uint64_t reign, term, made, round;
    struct {
        uint64_t committed, confirmed;
        enum relayrig_fate fate;
    } reigns[RELAYRIG_REIGNS];
};

struct relayrig_letter {
    struct relayrig_letter *next;
    enum wire_type type;
    uint32_t group;
    struct buf bytes;
};

struct relayrig;

struct relayrig_node {
    struct relayrig *rig;
    uint64_t id; /* from 1 */
    struct server server;
    struct config config;
    struct relayrig_seat seats[RELAYRIG_GROUPS];
    uint64_t hints[RELAYRIG_GROUPS];
    _Atomic uint16_t table[META_GROUPS_MAX];
    struct seating seating;
    int held; /* a shard whose token the test has; -1: none */
    bool busy; /* nothing is admitted, though it leads */
    struct termboard *board;
    uint64_t asked; /* holds for which Raft is to confirm that it leads, because the relay cannot prove it */
};

struct relayrig_client {
    struct conn conn; /* first */
    struct relayrig_node *node;
    char *words;
    size_t words_used;
    bool busy;
    void *role;
};

struct relayrig {
    struct relayrig_node nodes[RELAYRIG_NODES];
    struct command_table *commands;
    struct relayrig_letter *wires[RELAYRIG_NODES][RELAYRIG_NODES];
    bool cut[RELAYRIG_NODES][RELAYRIG_NODES];
    struct relayrig_client *clients[RELAYRIG_CLIENTS];
    uint32_t n_clients;
    char keys[RELAYRIG_KEYS][8];
    uint32_t group_of[RELAYRIG_KEYS];  /* from 0 */
    struct buf truth[RELAYRIG_KEYS];
    struct buf records[RELAYRIG_GROUPS]; /* likewise the system database: u32 length of the key, u32 length of the value, both */
    void (*on_idle)(struct relayrig_client *c);
    uint64_t repeated; /* requests that had happened before */
    uint64_t terms[RELAYRIG_GROUPS];
};

/* ---- seats */

static struct relayrig_seat *relayrig_seat(struct relayrig_node *n, uint32_t group) { return &n->seats[group - RELAYRIG_FIRST]; }

static bool relayrig_admits(void *ctx, const struct task *t, const struct request *r, const struct shard *s)
{
    struct relayrig_node *n = ctx;
    return r->group < META_GROUPS_MAX && relayrig_seat(n, r->group)->serves && !n->busy;
}

static struct store *relayrig_store(struct relayrig_node *n, uint32_t group) { return n->server.engine->stores[n->table[group]]; }

/* As a seat does it, but that it only ever looks behind those that were sent again. */
static bool relayrig_repeats(void *ctx, const struct task *t, const struct request *r, const struct shard *s, struct hold *h)
{
    struct relayrig_node *n = ctx;
    struct relayrig_seat *seat = relayrig_seat(n, r->group);
    struct store *store = relayrig_store(n, r->group);
    const struct ticket *ticket = &t->tickets[r - t->requests];
    struct slice reply;
    enum once_state state = ticket->seq ? once_look(store, ticket, &reply) : ONCE_NEW;
    for (const struct request *k = r + 1; state == ONCE_NEW && ticket->again && k < t->requests + t->n_requests; k++) {
        struct slice other;
        h->overtaken |= k->group == r->group && t->tickets[k - t->requests].seq && once_look(store, &t->tickets[k - t->requests], &other) == ONCE_HAPPENED;
    }
    if (state == ONCE_NEW) return h->overtaken;
    if (state == ONCE_LATE) {
        h->bounced = true;
        return true;
    }
    assert_int_equal(state, ONCE_HAPPENED);
    n->rig->repeated++;
    buf_add_slice(t->out, reply);
    *h = (struct hold){.seat = (struct seat *)seat, .reign = seat->reign, .sequence = seat->made, .round = seat->round + 1};
    return true;
}

static void relayrig_ran(void *ctx, const struct task *t, const struct request *r, const struct shard *s, const struct exec *x, struct hold *h)
{
    struct relayrig_seat *seat = relayrig_seat(ctx, r->group);
    const struct ticket *ticket = t->tickets ? &t->tickets[r - t->requests] : NULL;
    h->seat = (struct seat *)seat;
    h->reign = seat->reign;
    h->wrote = x->ops > 0;
    if (ticket && ticket->seq && (x->ops || ticket->again)) {
        once_note(relayrig_store(ctx, r->group), ticket, slice_of(t->out->p + t->reply_at, t->out->len - t->reply_at));
        h->wrote = true;
    }
    if (h->wrote) seat->made++;
    h->sequence = seat->made;
    h->unproven = !h->wrote && t->proves;
    h->group = seat->group;
    h->term = seat->term;
    h->round = h->wrote || t->proves ? 0 : seat->round + 1;
}

static void relayrig_ask_raft(void *ctx, struct hold *h)
{
    const struct relayrig_seat *seat = (const struct relayrig_seat *)h->seat;
    assert_true(h->unproven);
    h->unproven = false;
    h->round = seat->round + 1;
    ((struct relayrig_node *)ctx)->asked++;
}

static bool relayrig_rules(void *ctx, const struct shard *s) { return false; }
static void relayrig_settled(void *ctx, const struct shard *s) {}

static enum seat_outcome relayrig_outcome(void *ctx, const struct hold *h)
{
    const struct relayrig_seat *seat = (const struct relayrig_seat *)h->seat;
    if (seat->reigns[h->reign].committed >= h->sequence && seat->reigns[h->reign].confirmed >= h->round) return SEAT_DONE;
    switch (seat->reigns[h->reign].fate) {
    case FATE_OPEN: return SEAT_WAIT;
    case FATE_LOST: return SEAT_LOST;
    default: return h->wrote ? SEAT_UNCERTAIN : SEAT_LOST;
    }
}

/* ---- the stores, behind the seats' back */

static void relayrig_run(struct relayrig_node *n, struct buf *out, const char *name, struct slice key, struct slice value)
{
    struct engine *e = n->server.engine;
    struct task t = {.out = out, .resp = 2};
    struct slice argv[3] = {slice_str(name), key, value};
    const struct seating *seating = e->seating;
    e->seating = NULL;
    task_add(&t, e, command_find(e->commands, argv[0]), argv, value.p ? 3 : 2);
    t.end = 1;
    CHECK(task_start(&n->server.fronts[0]->worker, &t));
    task_fini(&t);
    e->seating = seating;
}

static void relayrig_let_go(struct relayrig_node *n)
{
    if (n->held >= 0) engine_release(&n->server.fronts[0]->worker, &n->server.engine->shards[n->held]);
    n->held = -1;
}

static void relayrig_load_records(struct relayrig_node *n, uint32_t group)
{
    struct store *store = relayrig_store(n, group);
    struct slice from = buf_slice(&n->rig->records[group - RELAYRIG_FIRST]);
    if (store->dbs[STORE_SYSTEM_DB]) store_apply(store, &(struct op){.kind = OP_FLUSH, .db = STORE_SYSTEM_DB}, NULL);
    while (from.n) {
        uint32_t key_n = le_u32(from.p), n_value = le_u32(from.p + 4);
        store_apply(store, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = slice_of(from.p + 8, key_n), .value = slice_of(from.p + 8 + key_n, n_value)}, NULL);
        from = slice_of(from.p + 8 + key_n + n_value, from.n - 8 - key_n - n_value);
    }
}

static void relayrig_read_records(struct relayrig_node *n, uint32_t group)
{
    const struct db *db = relayrig_store(n, group)->dbs[STORE_SYSTEM_DB];
    struct buf *to = &n->rig->records[group - RELAYRIG_FIRST];
    struct table_iter it;
    to->len = 0;
    if (!db) return;
    table_iter_init(&it, &db->keys);
    for (struct entry *e; (e = table_iter_next(&it));) {
        le_add_u32(to, (uint32_t)entry_key(e).n);
        le_add_u32(to, (uint32_t)entry_value(e).n);
        buf_add_slice(to, entry_key(e));
        buf_add_slice(to, entry_value(e));
    }
}

static void relayrig_load(struct relayrig_node *n, uint32_t group)
{
    struct buf out = {0};
    relayrig_load_records(n, group);
    for (uint32_t k = 0; k < RELAYRIG_KEYS; k++) {
        struct relayrig *r = n->rig;
        if (r->group_of[k] + RELAYRIG_FIRST != group) continue;
        if (r->truth[k].len) relayrig_run(n, &out, "SET", slice_str(r->keys[k]), buf_slice(&r->truth[k]));
        else relayrig_run(n, &out, "DEL", slice_str(r->keys[k]), (struct slice){0});
    }
    buf_fini(&out);
}

static void relayrig_read_truth(struct relayrig_node *n, uint32_t group)
{
    struct relayrig *r = n->rig;
    struct buf out = {0};
    relayrig_read_records(n, group);
    for (uint32_t k = 0; k < RELAYRIG_KEYS; k++) {
        if (r->group_of[k] + RELAYRIG_FIRST != group) continue;
        out.len = 0;
        relayrig_run(n, &out, "GET", slice_str(r->keys[k]), (struct slice){0});
        long len = strtol(out.p + 1, NULL, 10);
        r->truth[k].len = 0;
        if (len > 0) buf_add(&r->truth[k], out.p + out.len - 2 - len, (size_t)len);
    }
    buf_fini(&out);
}

/* ---- what happens to a group */

static bool relayrig_commit(struct relayrig_node *n, uint32_t group)
{
    struct relayrig_seat *seat = relayrig_seat(n, group);
    if (!seat->serves || n->held == (int)(group - RELAYRIG_FIRST + 1)) return false;
    bool news = seat->reigns[seat->reign].committed < seat->made || seat->reigns[seat->reign].confirmed <= seat->round;
    if (seat->reigns[seat->reign].committed < seat->made) relayrig_read_truth(n, group);
    seat->reigns[seat->reign].committed = seat->made;
    seat->reigns[seat->reign].confirmed = ++seat->round;
    relay_told(n->server.relay);
    return news;
}

static struct relayrig_node *relayrig_leader(struct relayrig *r, uint32_t group)
{
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++)
        if (relayrig_seat(&r->nodes[i], group)->serves) return &r->nodes[i];
    return NULL;
}

static inline void relayrig_depose(struct relayrig *r, uint32_t group, enum relayrig_fate fate, bool happened)
{
    struct relayrig_node *n = relayrig_leader(r, group);
    if (!n) return;
    struct relayrig_seat *seat = relayrig_seat(n, group);
    if (n->held == (int)(group - RELAYRIG_FIRST + 1)) relayrig_let_go(n);
    if (fate == FATE_UNCERTAIN && happened) relayrig_read_truth(n, group);
    seat->serves = false;
    seat->reigns[seat->reign].fate = fate;
    relay_told(n->server.relay);
}

/* What a node's board says of a group: this term, and that the nodes 1..voters vote. */
static inline void relayrig_post(struct relayrig *r, uint32_t node, uint32_t group, uint64_t term, uint32_t voters)
{
    struct termboard_group what = {.term = term};
    for (uint32_t i = 0; i < voters; i++) what.voters[what.n_voters++] = i + 1;
    termboard_put(r->nodes[node].board, group, &what);
}

static void relayrig_elect(struct relayrig *r, uint32_t group, uint32_t node)
{
    struct relayrig_node *n = &r->nodes[node];
    struct relayrig_seat *seat = relayrig_seat(n, group);
    if (n->held == (int)(group - RELAYRIG_FIRST + 1)) relayrig_let_go(n);
    relayrig_load(n, group);
    seat->reign++;
    seat->term = ++r->terms[group - RELAYRIG_FIRST];
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) relayrig_post(r, i, group, seat->term, RELAYRIG_NODES);
    CHECK(seat->reign < RELAYRIG_REIGNS);
    seat->reigns[seat->reign].committed = seat->made;
    seat->reigns[seat->reign].confirmed = seat->round;
    seat->serves = true;
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) r->nodes[i].hints[group - RELAYRIG_FIRST] = n->id;
}

/* ---- the cluster of a relay */

static bool relayrig_serves(void *ctx, uint32_t group) { return relayrig_seat(ctx, group)->serves; }
static uint64_t relayrig_hint(void *ctx, uint32_t group) { return ((struct relayrig_node *)ctx)->hints[group - RELAYRIG_FIRST]; }
static void relayrig_learn(void *ctx, uint32_t group, uint64_t leader) { ((struct relayrig_node *)ctx)->hints[group - RELAYRIG_FIRST] = leader; }
static void relayrig_hurry(void *ctx) {}

static void relayrig_send(void *ctx, uint64_t peer, struct slice frames)
{
    struct relayrig_node *n = ctx;
    struct relayrig *r = n->rig;
    struct wirecall_joiner *j = wirecall_joiner_new(64 * 1024 * 1024);
    while (frames.n) {
        struct wire_frame f;
        const char *why;
        struct slice whole;
        CHECK(wire_frame(frames, &f, &why) == WIRE_OK);
        frames = slice_of(frames.p + f.whole.n, frames.n - f.whole.n);
        enum wire_result joined = wirecall_join(j, &f, &whole);
        CHECK(joined != WIRE_BAD && f.group >= RELAYRIG_FIRST); /* others are not the relay's */
        if (joined != WIRE_OK || r->cut[n->id - 1][peer - 1]) continue;
        struct relayrig_letter *l = mem_zalloc(sizeof *l), **at = &r->wires[n->id - 1][peer - 1];
        l->type = f.type;
        l->group = f.group;
        buf_add_slice(&l->bytes, whole);
        while (*at) at = &(*at)->next;
        *at = l;
    }
    wirecall_joiner_free(j);
}

static struct relayrig_letter *relayrig_take(struct relayrig *r, uint32_t from, uint32_t to)
{
    struct relayrig_letter *l = r->wires[from][to];
    if (l) r->wires[from][to] = l->next;
    return l;
}

static void relayrig_drop(struct relayrig_letter *l)
{
    buf_fini(&l->bytes);
    mem_free(l);
}

static bool relayrig_deliver(struct relayrig *r, uint32_t from, uint32_t to)
{
    struct relayrig_letter *l = relayrig_take(r, from, to);
    if (!l) return false;
    struct relay *relay = r->nodes[to].server.relay;
    int rc = (l->type == WIRE_REQUEST ? relay_request : relay_answer)(relay, from + 1, l->group, buf_slice(&l->bytes));
    CHECK(rc == 0);
    relayrig_drop(l);
    return true;
}

static inline void relayrig_cut(struct relayrig *r, uint32_t a, uint32_t b)
{
    struct relayrig_letter *l;
    while ((l = relayrig_take(r, a, b))) relayrig_drop(l);
    while ((l = relayrig_take(r, b, a))) relayrig_drop(l);
    r->cut[a][b] = r->cut[b][a] = true;
    relay_down(r->nodes[a].server.relay, b + 1);
    relay_down(r->nodes[b].server.relay, a + 1);
}

static inline void relayrig_mend(struct relayrig *r, uint32_t a, uint32_t b) { r->cut[a][b] = r->cut[b][a] = false; }

/* ---- clients */

static inline struct relayrig_client *relayrig_client_at(struct relayrig *r, uint32_t node, uint32_t front)
{
    struct relayrig_client *c = mem_zalloc(sizeof *c);
    CHECK(r->n_clients < RELAYRIG_CLIENTS);
    c->node = &r->nodes[node];
    c->conn.front = c->node->server.fronts[front];
    c->conn.resp = 2;
    c->conn.timer = -1;
    c->conn.id = r->n_clients;
    c->words = mem_alloc(1024 * 1024);
    r->clients[r->n_clients++] = c;
    return c;
}

static inline struct relayrig_client *relayrig_client(struct relayrig *r, uint32_t node) { return relayrig_client_at(r, node, 0); }

static inline void __attribute__((format(printf, 2, 3))) relayrig_ask(struct relayrig_client *c, const char *fmt, ...)
{
    struct engine *e = c->node->server.engine;
    struct slice argv[16];
    uint32_t argc = 0;
    if (!c->conn.batch) {
        c->conn.batch = front_batch(c->conn.front);
        c->conn.batch->task.home = c->conn.front->worker.id;
        c->conn.batch->task.session = &c->conn;
    }
    va_list ap;
    va_start(ap, fmt);
    char *p = c->words + c->words_used;
    c->words_used += (size_t)vsnprintf(p, 4096, fmt, ap) + 1;
    va_end(ap);
    for (char *end = p + strlen(p); p < end; p++) {
        size_t n = strcspn(p, " ");
        argv[argc++] = slice_of(p, n);
        p += n;
    }
    const struct command *cmd = command_find(e->commands, argv[0]);
    CHECK(cmd && command_arity_ok(cmd, argc));
    task_add(&c->conn.batch->task, e, cmd, argv, argc);
}

static inline void relayrig_idle(struct relayrig_client *c)
{
    c->busy = false;
    c->words_used = 0;
    front_batch_put(c->conn.front, c->conn.batch);
    c->conn.batch = NULL;
    if (c->node->rig->on_idle) c->node->rig->on_idle(c);
}

static inline void relayrig_go(struct relayrig_client *c)
{
    struct task *t = &c->conn.batch->task;
    c->busy = true;
    while (t->pos < t->n_requests)
        if (!relay_run(&c->conn, t->n_requests)) return;
    relayrig_idle(c);
}

/* The client closes: what is under way is forgotten. */
static inline void relayrig_close(struct relayrig_client *c)
{
    c->conn.batch->task.n_requests = c->conn.batch->task.pos; /* nothing more is run when it comes home */
    relay_forget(&c->conn);
    if (!c->conn.away) relayrig_idle(c);
}

static inline bool relayrig_turn(struct relayrig_node *n, uint32_t front)
{
    struct front *f = n->server.fronts[front];
    bool any = (f->loop && loop_turn(f->loop, 0) > 0) || atomic_load(&f->worker.inbox) || f->worker.runnable;
    engine_receive(&f->worker);
    task_pump(&f->worker);
    struct conn *c = f->ready;
    f->ready = NULL;
    f->ready_end = &f->ready;
    for (struct conn *next; c; c = next) {
        next = c->next_ready;
        c->ready = false;
        any = true;
        if (c->wait) continue; /* it waits on */
        struct relayrig_client *client = (struct relayrig_client *)c;
        if (c->batch->task.pos < c->batch->task.n_requests) relayrig_go(client);
        else relayrig_idle(client);
    }
    relay_turn(f);
    return any;
}

/* Everything but the passing of time. */
static inline bool relayrig_step(struct relayrig *r)
{
    bool any = false;
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) {
        for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) any |= relayrig_turn(&r->nodes[i], k);
        for (uint32_t k = 0; k < RELAYRIG_NODES; k++)
            while (relayrig_deliver(r, i, k)) any = true;
        for (uint32_t g = RELAYRIG_FIRST; g < RELAYRIG_FIRST + RELAYRIG_GROUPS; g++) relayrig_commit(&r->nodes[i], g);
    }
    return any;
}

static inline bool relayrig_any_busy(const struct relayrig *r)
{
    for (uint32_t i = 0; i < r->n_clients; i++)
        if (r->clients[i]->busy) return true;
    return false;
}

/* Until every client is idle and nothing is under way. */
static inline void relayrig_settle(struct relayrig *r)
{
    int64_t give_up = clock_mono_us() + 20 * 1000 * 1000;
    for (uint32_t quiet = 0; quiet < 3;) {
        bool any = relayrig_step(r);
        quiet = any || relayrig_any_busy(r) ? 0 : quiet + 1;
        if (!any) usleep(200);
        if (clock_mono_us() > give_up) fail_msg("a client is never answered");
    }
}

static inline void relayrig_expect(struct relayrig_client *c, const char *replies)
{
    struct slice got = buf_slice(&c->conn.out);
    assert_false(c->busy);
    if (!slice_eq(got, slice_str(replies))) fail_msg("got %.*s\n  expected %s", (int)got.n, got.p ? got.p : "", replies);
    c->conn.out.len = 0;
}

static inline void relayrig_expect_begins(struct relayrig_client *c, const char *begin)
{
    struct slice got = buf_slice(&c->conn.out);
    assert_false(c->busy);
    if (got.n < strlen(begin) || memcmp(got.p, begin, strlen(begin)) != 0) fail_msg("got %.*s\n  expected %s...", (int)got.n, got.p ? got.p : "", begin);
    c->conn.out.len = 0;
}

/* ---- maps */

static void relayrig_mapped(void *ctx) { relay_mapped(((struct relayrig_node *)ctx)->server.relay); }

/* A node gets a map. Takes it. */
static inline void relayrig_map(struct relayrig_node *n, struct space_map *m) { engine_set_map(n->server.engine, &n->server.fronts[0]->worker, m); }
static inline const struct space_map *relayrig_map_of(const struct relayrig_node *n) { return route_map(&n->server.engine->route); }

/* A node gets a map by which the interval that a key is in has gone to another group. */
static inline void relayrig_move(struct relayrig_node *n, const char *key, uint32_t group)
{
    const struct space_map *m = relayrig_map_of(n);
    struct space_place place;
    enum spaces_error error;
    spaces_route(m, slice_str(key), keyhash(slice_str(key), 42), &place);
    struct space_map *moves = spaces_hash_move(m, place.id, group, &error, NULL);
    assert_non_null(moves);
    relayrig_map(n, spaces_hash_move_finish(moves, place.id, &error, NULL));
    spaces_unref(moves);
}

/* ---- life */

static void relayrig_open_node(struct relayrig *r, uint32_t i)
{
    struct relayrig_node *n = &r->nodes[i];
    struct server *s = &n->server;
    struct hash_desc intervals[RELAYRIG_GROUPS];
    uint64_t width = UINT64_MAX / RELAYRIG_GROUPS;
    n->rig = r;
    n->id = i + 1;
    n->held = -1;
    n->board = termboard_new(META_GROUPS_MAX);
    config_init(&n->config);
    s->config = &n->config;
    s->engine = engine_new(RELAYRIG_GROUPS + 1, 42, i + 1, r->commands);
    s->engine->ticks_per_ms = UINT64_MAX;
    for (uint32_t g = 0; g < RELAYRIG_GROUPS; g++) {
        intervals[g] = (struct hash_desc){.id = g + 1, .generation = 1, .shard = g + RELAYRIG_FIRST, .first = g * width, .last = g + 1 == RELAYRIG_GROUPS ? UINT64_MAX : (g + 1) * width - 1};
        atomic_init(&n->table[g + RELAYRIG_FIRST], (uint16_t)(g + 1));
        n->seats[g].group = g + RELAYRIG_FIRST;
    }
    s->engine->route.seats = n->table;
    n->seating = (struct seating){.ctx = n, .admits = relayrig_admits, .repeats = relayrig_repeats, .ran = relayrig_ran, .rules = relayrig_rules, .settle = relayrig_settled};
    s->engine->seating = &n->seating;
    engine_set_map(s->engine, NULL, spaces_new(&s->engine->route, SPACE_BUCKET, intervals, RELAYRIG_GROUPS, 1));
    s->errors = stats_errors_new();
    s->fronts = mem_zalloc(RELAYRIG_FRONTS * sizeof *s->fronts);
    for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) s->fronts[k] = front_new(s);
    s->relay = relay_new(s);
    s->engine->hooks = (struct engine_hooks){.mapped = relayrig_mapped, .ctx = n};
    relay_set_cluster(s->relay, &(struct relay_cluster){n, n->id, relayrig_serves, relayrig_hint, relayrig_learn, relayrig_outcome, relayrig_hurry, relayrig_send, relayrig_ask_raft, n->board});
}

static inline struct relayrig *relayrig_new(void)
{
    struct relayrig *r = mem_zalloc(sizeof *r);
    clock_calibrate();
    r->commands = server_commands();
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) relayrig_open_node(r, i);
    const struct engine *e = r->nodes[0].server.engine;
    for (uint32_t k = 0; k < RELAYRIG_KEYS; k++) {
        snprintf(r->keys[k], sizeof r->keys[k], "k%u", k);
        struct slice key = slice_str(r->keys[k]);
        r->group_of[k] = spaces_shard(route_map(&e->route), key, keyhash(key, 42)) - RELAYRIG_FIRST;
    }
    for (uint32_t g = 0; g < RELAYRIG_GROUPS; g++) relayrig_elect(r, g + RELAYRIG_FIRST, g % RELAYRIG_NODES);
    return r;
}

static inline void relayrig_free(struct relayrig *r)
{
    for (uint32_t i = 0; i < r->n_clients; i++) {
        struct relayrig_client *c = r->clients[i];
        assert_false(c->busy);
        buf_fini(&c->conn.out);
        mem_free(c->words);
        mem_free(c);
    }
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) {
        struct server *s = &r->nodes[i].server;
        for (uint32_t k = 0; k < RELAYRIG_NODES; k++)
            for (struct relayrig_letter *l; (l = relayrig_take(r, i, k));) relayrig_drop(l);
        for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) engine_receive(&s->fronts[k]->worker);
        relay_free(s->relay);
        for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) front_free(s->fronts[k]);
        mem_free(s->fronts);
        stats_errors_free(s->errors);
        engine_free(s->engine);
        termboard_free(r->nodes[i].board);
        config_fini(&r->nodes[i].config);
    }
    for (uint32_t k = 0; k < RELAYRIG_KEYS; k++) buf_fini(&r->truth[k]);
    for (uint32_t g = 0; g < RELAYRIG_GROUPS; g++) buf_fini(&r->records[g]);
    command_table_free(r->commands);
    mem_free(r);
}

/* A key of a group that this node leads; the i-th. */
static inline const char *relayrig_key(struct relayrig *r, uint32_t node, uint32_t i)
{
    for (uint32_t k = 0; k < RELAYRIG_KEYS; k++)
        if (r->group_of[k] % RELAYRIG_NODES == node && i-- == 0) return r->keys[k];
    fail_msg("no such key");
    return NULL;
}

static inline uint32_t relayrig_group(const struct relayrig *r, const char *key) { return r->group_of[atoi(key + 1)] + RELAYRIG_FIRST; }
