#include "server/widerange.h"

#include "base/check.h"
#include "base/mem.h"
#include "cluster/meta.h"
#include "cluster/txncmd.h"
#include "log/opcode.h"
#include "server/relay.h"
#include "server/relay_call.h"
#include "server/relay_parts.h"
#include "server/spancmd.h"
#include "server/stats.h"
#include "server/wide_own.h"
#include "server/widerange_own.h"
#include "server/widetxn.h"

struct counts { /* one writer, read by anyone: relaxed */
    uint64_t committed, aborted, uncertain, under_way;
};

struct wideranges {
    struct front *front;
    struct widerange *first;
    bool stops;
    struct counts counts;
};

static const struct space_map *map_of(const struct widerange *w) { return route_map(&w->front->worker.engine->route); }

/* ---- pieces of the line */

struct cutting {
    struct widerange_piece *pieces;
    uint32_t n;
};

static bool add_piece(void *ctx, const struct space_piece *p)
{
    struct cutting *c = ctx;
    struct widerange_piece *last = c->n ? &c->pieces[c->n - 1] : NULL;
    if (last && !p->hashed && !last->hashed && last->group == p->shard) { /* neighbours in one group are one */
        last->end = p->end;
        return true;
    }
    c->pieces = mem_resize(c->pieces, (c->n + 1) * sizeof *c->pieces);
    c->pieces[c->n++] = (struct widerange_piece){p->start, p->end, p->hashed, p->shard};
    return true;
}

struct widerange_piece *widerange_pieces(const struct widerange *w, struct slice space, struct slice start, struct slice end, uint32_t *n)
{
    struct cutting c = {0};
    if (map_of(w)) spaces_overlap(map_of(w), space, start, end, add_piece, &c);
    *n = c.n;
    return c.pieces;
}

static void ask_one(const struct widerange *w, uint32_t group, const char *command, struct slice space, const struct widerange_piece *p, const struct slice *words, uint32_t n)
{
    char hashes[SPANCMD_HASHES_BYTES + 1];
    struct slice all[8] = {space, p->start, p->end, p->hashed ? spancmd_hashes(map_of(w), hashes) : SLICE("")};
    CHECK(n + 4 <= sizeof all / sizeof all[0]);
    for (uint32_t i = 0; i < n; i++) all[4 + i] = words[i];
    txn_ask(w->txn, group, command, all, n + 4);
}

/* Each group that hashes go to, once. */
static uint32_t ask_hashed(const struct widerange *w, const char *command, struct slice space, const struct widerange_piece *p, const struct slice *words, uint32_t n)
{
    const struct space_map *m = map_of(w);
    struct wide_groups groups = {0};
    uint32_t asked = 0;
    for (uint32_t i = 0; i < m->n_hash; i++) {
        wide_note_group(&groups, m->hash[i].shard);
        if (m->hash[i].moving) wide_note_group(&groups, m->hash[i].to_shard);
    }
    for (uint32_t group = 0; (group = wide_next_group(&groups, group)) < META_GROUPS_MAX; group++, asked++) ask_one(w, group, command, space, p, words, n);
    return asked;
}

uint32_t widerange_ask(const struct widerange *w, const char *command, struct slice space, const struct widerange_piece *p, const struct slice *words, uint32_t n)
{
    if (p->hashed) return ask_hashed(w, command, space, p, words, n);
    ask_one(w, p->group, command, space, p, words, n);
    return 1;
}

void widerange_ask_all(const struct widerange *w, const char *command, struct slice space, struct slice start, struct slice end, const struct slice *words, uint32_t n)
{
    if (txn_asked(w->txn)) return;
    uint32_t n_pieces;
    struct widerange_piece *pieces = widerange_pieces(w, space, start, end, &n_pieces);
    for (uint32_t i = 0; i < n_pieces; i++) widerange_ask(w, command, space, &pieces[i], words, n);
    mem_free(pieces);
}

void widerange_write(struct widerange *w, uint32_t ask, const struct op *op)
{
    struct buf bytes = {0};
    opcode_write(&bytes, op);
    txn_write_there(w->txn, ask, buf_slice(&bytes));
    buf_fini(&bytes);
}

/* ---- the host of cluster/txn.h */

static void answered(void *ctx, struct call *c)
{
    static const enum txn_fate fates[] = {[CALL_ANSWERED] = TXN_ANSWERED, [CALL_NOBODY] = TXN_NOT_DONE, [CALL_UNCERTAIN] = TXN_MAY_BE_DONE};
    struct txn_answer *a = mem_alloc(call_size(c) * sizeof *a);
    for (uint32_t i = 0; i < call_size(c); i++) a[i].fate = fates[call_fate(c, i, &a[i].reply)];
    txn_answered(((struct widerange *)ctx)->txn, relay_now_ms(), a, call_size(c));
    mem_free(a);
    call_free(c);
}

static void send(void *ctx, struct txn *t, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct widerange *w = ctx;
    struct call *c = call_new(w->front, w->db, w->resp, answered, w);
    for (uint32_t i = 0; i < n; i++) {
        const struct command *cmd = command_find_any(w->front->worker.engine->commands, requests[i].argv[0]);
        CHECK(cmd);
        call_add(c, requests[i].group, cmd, requests[i].argv, requests[i].argc);
    }
    call_send(c, timeout_ms);
}

static void asks(void *ctx, struct txn *t)
{
    struct widerange *w = ctx;
    w->kind->asks(w, t);
}

static bool run(void *ctx, struct txn *t)
{
    struct widerange *w = ctx;
    struct reply out = {.out = &w->answer, .resp = w->resp};
    w->answer.len = 0;
    w->senseless = !w->kind->run(w, t, &out);
    return !w->senseless;
}

static void settled(void *ctx, struct txn *t, enum txn_outcome o)
{
    struct widerange *w = ctx;
    struct reply out = {.out = &w->answer, .resp = w->resp};
    struct counts *k = &w->front->ranges->counts;
    struct conn *c = w->conn;
    if (o == TXN_DONE) STAT_ADD(k->committed, 1);
    else if (o == TXN_UNCERTAIN) STAT_ADD(k->uncertain, 1);
    else STAT_ADD(k->aborted, 1);
    if (o != TXN_DONE) w->answer.len = 0;
    switch (o) {
    case TXN_DONE: break;
    case TXN_STOPPED: wide_reply_nonsense(&out); break;
    case TXN_NOBODY: reply_error(&out, "CLUSTERDOWN nobody leads a shard of the range: nothing was done"); break;
    case TXN_BUSY: reply_error(&out, "TRYAGAIN others wrote in the range all the time: nothing was done"); break;
    case TXN_REFUSED: buf_add_slice(&w->answer, txn_error(t)); break;
    case TXN_UNCERTAIN: reply_error(&out, "UNCERTAIN the leader was lost while the command was under way: it may have happened, or may yet"); break;
    }
    w->conn = NULL;
    wide_finish(c, &w->answer);
}

static void free_range(struct widerange *w)
{
    STAT_ADD(w->front->ranges->counts.under_way, (uint64_t)-1);
    *w->back = w->next;
    if (w->next) w->next->back = w->back;
    if (w->txn) txn_free(w->txn);
    buf_fini(&w->at);
    buf_fini(&w->answer);
    mem_free(w);
}

static void over(void *ctx, struct txn *t) { free_range(ctx); }

/* ---- */

static struct widerange *new_range(struct conn *c, const struct widerange_kind *kind)
{
    struct wideranges *all = c->front->ranges;
    struct widerange *w = mem_zalloc(sizeof *w);
    w->front = c->front;
    w->conn = c;
    w->kind = kind;
    w->db = c->db;
    w->resp = c->resp;
    w->next = all->first;
    w->back = &all->first;
    if (w->next) w->next->back = &w->next;
    all->first = w;
    STAT_ADD(all->counts.under_way, 1);
    return w;
}

static const struct widerange_kind *kind_of(const struct command *c)
{
    static const struct widerange_kind *const kinds[] = {&widepage_get, &widepage_bucket, &widepage_count, &widepage_del};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i]->name, c->name) == 0) return kinds[i];
    CHECK(c->flags & CMD_OF_LOCKS);
    return &widelock_kind;
}

static bool start(struct widerange *w)
{
    struct conn *c = w->conn;
    struct front *f = w->front;
    char name[TXN_NAME_MAX + 8];
    const struct txn_host host = {.ctx = w, .send = send, .run = run, .settled = settled, .over = over, .asks = asks};
    w->txn = txn_new(&host, widetxn_name(f, name, sizeof name), NULL, 0);
    c->errand = true;
    txn_start(w->txn, relay_now_ms(), relay_timeout_ms(f->server->relay));
    return false;
}

bool widerange_run(struct conn *c)
{
    struct task *t = &c->batch->task;
    const struct request *r = &t->requests[t->pos++];
    struct widerange *w = new_range(c, kind_of(r->cmd));
    struct exec x = {.cmd = r->cmd, .argv = t->args + r->first_arg, .argc = r->argc, .out = {.out = &c->out, .resp = c->resp}};
    size_t at = c->out.len;
    if (w->kind->parse(w, &x)) {
        c->away = !start(w);
    } else {
        stats_note_error(c->front->server, &c->front->worker, slice_of(c->out.p + at, c->out.len - at));
        free_range(w);
    }
    return !c->away;
}

/* ---- a front's */

struct wideranges *widerange_front_new(struct front *f)
{
    struct wideranges *all = mem_zalloc(sizeof *all);
    all->front = f;
    return all;
}

void widerange_front_free(struct wideranges *all)
{
    while (all->first) free_range(all->first);
    mem_free(all);
}

void widerange_count(const struct front *f, struct widetxn_info *out)
{
    const struct counts *k = &f->ranges->counts;
    out->committed += STAT_GET(k->committed);
    out->aborted += STAT_GET(k->aborted);
    out->uncertain += STAT_GET(k->uncertain);
    out->under_way += STAT_GET(k->under_way);
}

void widerange_turn(struct front *f)
{
    struct wideranges *all = f->ranges;
    if (likely(!all->first)) return;
    int64_t now_ms = relay_now_ms();
    bool stops = f->stopping && !all->stops;
    all->stops |= stops;
    for (struct widerange *w = all->first, *next; w; w = next) {
        next = w->next;
        if (stops) txn_hurry(w->txn, now_ms);
        txn_wake(w->txn, now_ms);
    }
}

int widerange_wait_ms(const struct front *f)
{
    int64_t until = INT64_MAX;
    for (const struct widerange *w = f->ranges->first; w; w = w->next)
        if (txn_wakes_ms(w->txn) < until) until = txn_wakes_ms(w->txn);
    if (until == INT64_MAX) return -1;
    int64_t ms = until - relay_now_ms();
    return ms < 0 ? 0 : (int)ms;
}
