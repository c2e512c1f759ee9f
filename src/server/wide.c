#include "server/wide.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/num.h"
#include "cluster/meta.h"
#include "cluster/txn.h"
#include "server/front.h"
#include "server/relay.h"
#include "server/relay_call.h"
#include "server/relay_parts.h"
#include "server/stats.h"
#include "server/wide_own.h"
#include "server/wideall.h"
#include "server/wideexec.h"
#include "server/widerange.h"
#include "shard/seating.h"

/* ---- which groups there are */

void wide_note_group(struct wide_groups *g, uint32_t group)
{
    CHECK(group < META_GROUPS_MAX);
    g->bits[group / 64] |= 1ull << group % 64;
}

static void note_ranges(struct wide_groups *g, const struct space *s, bool of_new, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct range_desc *d = spaces_range(s, of_new, i);
        wide_note_group(g, d->shard);
        if (d->moving) wide_note_group(g, d->to_shard);
    }
}

void wide_find_groups(const struct space_map *m, struct wide_groups *out)
{
    *out = (struct wide_groups){0};
    for (uint32_t i = 0; i < m->n_hash; i++) {
        wide_note_group(out, m->hash[i].shard);
        if (m->hash[i].moving) wide_note_group(out, m->hash[i].to_shard);
    }
    for (uint32_t i = 0; i < m->n_spaces; i++) {
        struct space_info info;
        spaces_describe(m->spaces[i], &info);
        note_ranges(out, m->spaces[i], false, info.n_ranges);
        note_ranges(out, m->spaces[i], true, info.n_to);
    }
}

uint32_t wide_next_group(const struct wide_groups *g, uint32_t from)
{
    while (from < META_GROUPS_MAX && !(g->bits[from / 64] >> from % 64 & 1)) from++;
    return from;
}

/* ---- the answers of groups: RESP, from another node */

bool wide_take_number(struct slice *s, char letter, int64_t *n)
{
    const char *end = s->n ? memchr(s->p, '\r', s->n) : NULL;
    if (!end || s->p[0] != letter || (size_t)(end - s->p) + 2 > s->n || end[1] != '\n') return false;
    if (!num_parse_i64(slice_of(s->p + 1, (size_t)(end - s->p) - 1), n) || *n < 0) return false;
    *s = slice_of(end + 2, s->n - (size_t)(end + 2 - s->p));
    return true;
}

bool wide_take_version(struct slice *s, int64_t elements, uint64_t *version)
{
    int64_t n, v;
    if (!wide_take_number(s, '*', &n) || n != elements + 1 || !wide_take_number(s, ':', &v)) return false;
    *version = (uint64_t)v;
    return true;
}

struct txn_answer *wide_answers(const struct call *c)
{
    static const enum txn_fate fates[] = {[CALL_ANSWERED] = TXN_ANSWERED, [CALL_NOBODY] = TXN_NOT_DONE, [CALL_UNCERTAIN] = TXN_MAY_BE_DONE};
    struct txn_answer *a = mem_alloc(call_size(c) * sizeof *a);
    for (uint32_t i = 0; i < call_size(c); i++) a[i].fate = fates[call_fate(c, i, &a[i].reply)];
    return a;
}

void wide_add_requests(struct call *c, const struct front *f, const struct txn_request *requests, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct command *cmd = command_find_any(f->worker.engine->commands, requests[i].argv[0]);
        CHECK(cmd);
        call_add(c, requests[i].group, cmd, requests[i].argv, requests[i].argc);
    }
}

void wide_finish(struct conn *c, struct buf *answer)
{
    struct front *f = c->front;
    if (answer->p[0] == '-') stats_note_error(f->server, &f->worker, buf_slice(answer));
    conn_errand_done(c, buf_slice(answer));
    buf_fini(answer);
}

void wide_reply_nonsense(struct reply *out)
{
    out->out->len = 0;
    reply_error(out, "ERR the answer of a shard makes no sense");
}

void wide_reply_no_map(struct reply *out) { reply_error(out, "CLUSTERDOWN this node does not know the cluster's map yet: nothing was done"); }

/* ---- commands over all keys: the host of server/wideall.h */

struct errand {
    struct errand *next; /* of those that wait */
    struct conn *conn;
    struct wideall *all;
};

struct wides {
    struct errand *waiting; /* for a map */
    uint64_t waits;         /* how often one did. One writer, read by anyone: relaxed */
};

static void free_errand(struct errand *e)
{
    wideall_free(e->all);
    mem_free(e);
}

/* It has its answer, or goes on by itself, or waits. */
static void go_on(struct errand *e, bool over, struct buf *answer)
{
    struct wides *all = e->conn->front->wides;
    if (over) {
        wide_finish(e->conn, answer);
        free_errand(e);
    } else if (wideall_wakes_ms(e->all) != INT64_MAX) {
        e->next = all->waiting;
        all->waiting = e;
    }
}

static void answered(void *ctx, struct call *c)
{
    struct errand *e = ctx;
    struct txn_answer *answers = wide_answers(c);
    struct buf answer = {0};
    bool over = wideall_answered(e->all, answers, call_size(c), &answer);
    if (!over && wideall_wakes_ms(e->all) != INT64_MAX) STAT_ADD(e->conn->front->wides->waits, 1);
    mem_free(answers);
    call_free(c);
    go_on(e, over, &answer);
}

static void send(void *ctx, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct errand *e = ctx;
    struct conn *conn = e->conn;
    struct call *c = call_new(conn->front, conn->db, conn->resp, answered, e);
    wide_add_requests(c, conn->front, requests, n);
    call_send(c, timeout_ms);
}

static int64_t now_ms(void *ctx) { return relay_now_ms(); }

static void wide_command(struct exec *x)
{
    struct conn *conn = conn_of(x);
    struct errand *e = mem_alloc(sizeof *e);
    e->conn = conn;
    e->all = wideall_new(&(struct wideall_host){e, conn->front->worker.engine, now_ms, send}, x, relay_timeout_ms(conn->front->server->relay));
    if (e->all) conn->errand = true;
    else mem_free(e);
}

/* ---- a front's */

struct wides *wide_front_new(void) { return mem_zalloc(sizeof(struct wides)); }

void wide_front_free(struct wides *all)
{
    for (struct errand *e = all->waiting, *next; e; e = next) {
        next = e->next;
        free_errand(e);
    }
    mem_free(all);
}

static void wake(struct errand *e, bool stops)
{
    struct buf answer = {0};
    if (stops) wideall_hurry(e->all);
    bool over = wideall_wake(e->all, &answer);
    go_on(e, over, &answer);
}

void wide_turn(struct front *f)
{
    struct errand *e = f->wides->waiting;
    f->wides->waiting = NULL; /* those that wait on come back */
    for (struct errand *next; e; e = next) {
        next = e->next;
        wake(e, f->stopping);
    }
}

int wide_wait_ms(const struct front *f)
{
    int64_t until = INT64_MAX;
    for (const struct errand *e = f->wides->waiting; e; e = e->next)
        if (wideall_wakes_ms(e->all) < until) until = wideall_wakes_ms(e->all);
    if (until == INT64_MAX) return -1;
    int64_t ms = until - relay_now_ms();
    return ms < 0 ? 0 : (int)ms;
}

uint64_t wide_waits(const struct server *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->engine->n_workers; i++) n += STAT_GET(s->fronts[i]->wides->waits);
    return n;
}

/* ---- rows */

bool wide_has(const struct command *c) { return wideall_has(c); }

void wide_make_row(struct command *row)
{
    row->fn = wide_command;
    row->class = CLASS_LOCAL;
    row->flags |= CMD_NO_MULTI;
}

/* ---- keys in several groups */

bool wide_wants(const struct conn *c, uint32_t request) { return c->batch->task.requests[request].group == SEATING_MIXED; }

/* A command that waits for keys of several groups: no transaction can be made of it. */
static bool refuse(struct conn *c)
{
    struct reply out = {.out = &c->out, .resp = c->resp};
    size_t at = c->out.len;
    reply_error(&out, "CROSSSHARD keys of one command are in different shards: nothing was done");
    stats_note_error(c->front->server, &c->front->worker, slice_of(c->out.p + at, c->out.len - at));
    c->batch->task.pos++;
    return true;
}

bool wide_run(struct conn *c)
{
    const struct command *cmd = c->batch->task.requests[c->batch->task.pos].cmd;
    if (cmd->class == CLASS_SPACE) return widerange_run(c);
    return cmd->class == CLASS_KEYED && !(cmd->flags & CMD_BLOCKING) ? wideexec_run(c) : refuse(c);
}
