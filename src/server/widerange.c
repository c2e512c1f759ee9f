#include "server/widerange.h"

#include "base/mem.h"
#include "server/front.h"
#include "server/notify.h"
#include "server/rangetxn.h"
#include "server/relay.h"
#include "server/relay_call.h"
#include "server/relay_parts.h"
#include "server/stats.h"
#include "server/wide_own.h"
#include "server/widetxn.h"

struct counts { /* one writer, read by anyone: relaxed */
    uint64_t committed, aborted, uncertain, under_way;
};

struct widerange {
    struct widerange *next, **back; /* of the front's */
    struct front *front;
    struct conn *conn; /* NULL: it has its answer */
    uint16_t db;
    uint8_t resp;
    struct rangetxn *range;
};

struct wideranges {
    struct front *front;
    struct widerange *first;
    bool stops;
    struct counts counts;
};

static struct txn *txn_of(const struct widerange *w) { return rangetxn_txn(w->range); }

/* ---- the host of server/rangetxn.h */

static void answered(void *ctx, struct call *c)
{
    struct txn_answer *a = wide_answers(c);
    txn_answered(txn_of(ctx), relay_now_ms(), a, call_size(c));
    mem_free(a);
    call_free(c);
}

static void send(void *ctx, struct txn *t, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct widerange *w = ctx;
    struct call *c = call_new(w->front, w->db, w->resp, answered, w);
    wide_add_requests(c, w->front, requests, n);
    call_send(c, timeout_ms);
}

static void settled(void *ctx, enum txn_outcome o, struct buf *answer)
{
    struct widerange *w = ctx;
    struct counts *k = &w->front->ranges->counts;
    struct conn *c = w->conn;
    if (o == TXN_DONE) STAT_ADD(k->committed, 1);
    else if (o == TXN_UNCERTAIN) STAT_ADD(k->uncertain, 1);
    else STAT_ADD(k->aborted, 1);
    w->conn = NULL;
    wide_finish(c, answer);
}

static void free_range(struct widerange *w)
{
    STAT_ADD(w->front->ranges->counts.under_way, (uint64_t)-1);
    *w->back = w->next;
    if (w->next) w->next->back = w->back;
    if (w->range) rangetxn_free(w->range);
    mem_free(w);
}

static void over(void *ctx) { free_range(ctx); }

/* ---- */

static struct widerange *new_range(struct conn *c)
{
    struct wideranges *all = c->front->ranges;
    struct widerange *w = mem_zalloc(sizeof *w);
    w->front = c->front;
    w->conn = c;
    w->db = c->db;
    w->resp = c->resp;
    w->next = all->first;
    w->back = &all->first;
    if (w->next) w->next->back = &w->next;
    all->first = w;
    STAT_ADD(all->counts.under_way, 1);
    return w;
}

bool widerange_run(struct conn *c)
{
    struct front *f = c->front;
    struct task *t = &c->batch->task;
    const struct request *r = &t->requests[t->pos++];
    struct widerange *w = new_range(c);
    struct exec x = {.cmd = r->cmd, .argv = t->args + r->first_arg, .argc = r->argc, .out = {.out = &c->out, .resp = c->resp}};
    const struct rangetxn_host host = {w, send, settled, over, notify_wanted(f->server)};
    char name[TXN_NAME_MAX + 8];
    size_t at = c->out.len;
    w->range = rangetxn_new(&host, f->worker.engine, w->db, widetxn_name(f, name, sizeof name), &x);
    if (w->range) {
        c->errand = c->away = true;
        txn_start(txn_of(w), relay_now_ms(), relay_timeout_ms(f->server->relay));
    } else {
        stats_note_error(f->server, &f->worker, slice_of(c->out.p + at, c->out.len - at));
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
        if (stops) txn_hurry(txn_of(w), now_ms);
        txn_wake(txn_of(w), now_ms);
    }
}

int widerange_wait_ms(const struct front *f)
{
    int64_t until = INT64_MAX;
    for (const struct widerange *w = f->ranges->first; w; w = w->next)
        if (txn_wakes_ms(txn_of(w)) < until) until = txn_wakes_ms(txn_of(w));
    if (until == INT64_MAX) return -1;
    int64_t ms = until - relay_now_ms();
    return ms < 0 ? 0 : (int)ms;
}
