#include "server/wide.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/num.h"
#include "cluster/meta.h"
#include "server/front.h"
#include "server/relay.h"
#include "server/relay_call.h"
#include "server/stats.h"
#include "server/wide_own.h"
#include "server/wideexec.h"
#include "server/widerange.h"
#include "shard/seating.h"

struct wide;

struct kind {
    const char *name, *of_group; /* the client's command, and what it is in a group */
    /* Puts the replies of all groups together. False: one of them makes no sense. */
    bool (*merge)(struct wide *w, const struct call *c, struct reply *out);
    bool writes;
    bool once; /* to do it again would undo it */
};

struct wide { /* a command over all keys, under way */
    struct conn *conn;
    const struct kind *kind;
    const struct slice *argv; /* of the connection's batch, which stays until it is back */
    uint32_t argc;
    int64_t until_ms;  /* by worker.now_ms */
    uint64_t version;  /* of the map that says which groups there are */
    uint64_t newest;   /* that some group's leader had */
    bool asks_first;   /* whether every group is led */
};

static const struct engine *engine_of(const struct wide *w) { return w->conn->front->worker.engine; }

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

static struct slice reply_of(const struct call *c, uint32_t i)
{
    struct slice reply;
    call_fate(c, i, &reply);
    return reply;
}

static bool take_version(struct wide *w, struct slice *reply, int64_t elements)
{
    uint64_t version;
    if (!wide_take_version(reply, elements, &version)) return false;
    if (version > w->newest) w->newest = version;
    return true;
}

static bool merge_sizes(struct wide *w, const struct call *c, struct reply *out)
{
    int64_t sum = 0, n;
    for (uint32_t i = 0; i < call_size(c); i++) {
        struct slice reply = reply_of(c, i);
        if (!take_version(w, &reply, 1) || !wide_take_number(&reply, ':', &n)) return false;
        sum += n;
    }
    reply_int(out, sum);
    return true;
}

static bool merge_keys(struct wide *w, const struct call *c, struct reply *out)
{
    size_t mark = reply_open(out);
    int64_t sum = 0, n;
    for (uint32_t i = 0; i < call_size(c); i++) {
        struct slice reply = reply_of(c, i);
        if (!take_version(w, &reply, 1) || !wide_take_number(&reply, '*', &n)) return false;
        buf_add_slice(out->out, reply);
        sum += n;
    }
    reply_close_array(out, mark, (size_t)sum);
    return true;
}

/* Each group's key replaces the one before with the probability (keys there) / (keys so far): each key of the cluster is equally likely in the end. */
static bool merge_random(struct wide *w, const struct call *c, struct reply *out)
{
    struct slice chosen = {0};
    int64_t sum = 0, n;
    for (uint32_t i = 0; i < call_size(c); i++) {
        struct slice reply = reply_of(c, i);
        if (!take_version(w, &reply, 2) || !wide_take_number(&reply, ':', &n)) return false;
        sum += n;
        if (n > 0 && rng_below(&w->conn->front->worker.rng, (uint64_t)sum) < (uint64_t)n) chosen = reply;
    }
    if (chosen.n) buf_add_slice(out->out, chosen);
    else reply_null(out);
    return true;
}

static bool merge_done(struct wide *w, const struct call *c, struct reply *out)
{
    for (uint32_t i = 0; i < call_size(c); i++) {
        struct slice reply = reply_of(c, i);
        if (!take_version(w, &reply, 0)) return false;
    }
    reply_ok(out);
    return true;
}

static const struct kind kinds[] = {
    {.name = "dbsize", .of_group = "group.dbsize", .merge = merge_sizes},
    {.name = "keys", .of_group = "group.keys", .merge = merge_keys},
    {.name = "randomkey", .of_group = "group.randomkey", .merge = merge_random},
    {.name = "flushdb", .of_group = "group.flushdb", .merge = merge_done, .writes = true},
    {.name = "flushall", .of_group = "group.flushall", .merge = merge_done, .writes = true},
    {.name = "swapdb", .of_group = "group.swapdb", .merge = merge_done, .writes = true, .once = true},
};

/* ---- asking */

static void answered(void *ctx, struct call *c);

/* False: nobody knows yet which groups there are. */
static bool ask(struct wide *w)
{
    struct conn *conn = w->conn;
    const struct engine *e = engine_of(w);
    const struct space_map *m = route_map(&e->route);
    const struct command *cmd = command_find_any(e->commands, slice_str(w->asks_first ? "group.dbsize" : w->kind->of_group));
    int64_t left_ms = w->until_ms - conn->front->worker.now_ms;
    struct wide_groups groups;
    if (!m) return false;
    w->version = m->version;
    w->newest = 0;
    wide_find_groups(m, &groups);
    struct call *c = call_new(conn->front, conn->db, conn->resp, answered, w);
    for (uint32_t group = 0; (group = wide_next_group(&groups, group)) < META_GROUPS_MAX; group++) call_add(c, group, cmd, w->argv, w->asks_first ? 1 : w->argc);
    call_send(c, left_ms > 0 ? (uint32_t)left_ms : 0);
    return true;
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

static bool is_moving(const struct space_map *m)
{
    for (uint32_t i = 0; m && i < m->n_spaces; i++) {
        struct space_info info;
        spaces_describe(m->spaces[i], &info);
        if (info.moving) return true;
        for (uint32_t k = 0; k < info.n_ranges; k++)
            if (spaces_range(m->spaces[i], false, k)->moving) return true;
    }
    return false;
}

static void wide_command(struct exec *x)
{
    struct conn *conn = conn_of(x);
    const struct kind *kind = kinds;
    while (strcmp(kind->name, x->cmd->name) != 0) kind++;
    if (kind->once && is_moving(route_map(x->route))) { /* what is on its way would come out in the other database */
        reply_error(&x->out, "TRYAGAIN keys are being carried between shards: nothing was done");
        return;
    }
    struct wide *w = mem_alloc(sizeof *w);
    *w = (struct wide){.conn = conn, .kind = kind, .argv = x->argv, .argc = x->argc, .asks_first = kind->writes};
    w->until_ms = conn->front->worker.now_ms + relay_timeout_ms(conn->front->server->relay);
    if (ask(w)) {
        conn->errand = true;
    } else {
        wide_reply_no_map(&x->out);
        mem_free(w);
    }
}

/* ---- the answer */

/* Some group has not answered: what that means as a whole. */
static void reply_failed(const struct wide *w, const struct call *c, struct reply *out)
{
    uint32_t n[3] = {0};
    struct slice reply;
    for (uint32_t i = 0; i < call_size(c); i++) n[call_fate(c, i, &reply)]++;
    bool wrote = w->kind->writes && !w->asks_first && n[CALL_NOBODY] < call_size(c);
    if (wrote) reply_errorf(out, "UNCERTAIN leaders were lost while the command was under way: it was done in %u of %u shards, and in %u more it may have been", n[CALL_ANSWERED], call_size(c), n[CALL_UNCERTAIN]);
    else reply_errorf(out, "CLUSTERDOWN nobody leads %u of %u shards: nothing was done", n[CALL_NOBODY], call_size(c));
}

/* True: some group has not answered, or with an error; that is the answer. */
static bool is_failed(const struct wide *w, const struct call *c, struct reply *out)
{
    struct slice reply;
    for (uint32_t i = 0; i < call_size(c); i++) {
        if (call_fate(c, i, &reply) == CALL_ANSWERED) continue;
        reply_failed(w, c, out);
        return true;
    }
    for (uint32_t i = 0; i < call_size(c); i++) {
        reply = reply_of(c, i);
        if (reply.n && reply.p[0] != '-') continue;
        buf_add_slice(out->out, reply);
        return true;
    }
    return false;
}

/* Keys may have gone from a group that had not been asked to one that had. */
static bool is_overtaken(const struct wide *w) { return !w->kind->once && (w->newest > w->version || w->version != route_version(&engine_of(w)->route)); }

/* Asks all groups once more, if there is time. */
static bool goes_on(struct wide *w, struct reply *out)
{
    out->out->len = 0;
    if (w->until_ms <= w->conn->front->worker.now_ms) reply_errorf(out, "TRYAGAIN keys are being carried between shards%s", w->kind->writes ? ": some of them may be as they were" : "");
    else if (ask(w)) return true;
    else wide_reply_no_map(out);
    return false;
}

/* The answer is complete, or there is none. False: it goes on. */
static bool settle(struct wide *w, const struct call *c, struct reply *out)
{
    if (is_failed(w, c, out)) return true;
    if (w->asks_first) {
        w->asks_first = false;
        return !goes_on(w, out);
    }
    if (!w->kind->merge(w, c, out)) wide_reply_nonsense(out);
    else if (is_overtaken(w)) return !goes_on(w, out);
    return true;
}

static void answered(void *ctx, struct call *c)
{
    struct wide *w = ctx;
    struct buf answer = {0};
    struct reply out = {.out = &answer, .resp = w->conn->resp};
    if (settle(w, c, &out)) {
        wide_finish(w->conn, &answer);
        mem_free(w);
    }
    call_free(c);
}

/* ---- rows */

static bool is_scan(const struct command *c) { return strcmp(c->name, "scan") == 0; }

bool wide_has(const struct command *c)
{
    if (is_scan(c)) return true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, c->name) == 0) return true;
    return false;
}

void wide_make_row(struct command *row)
{
    row->fn = is_scan(row) ? widescan_command : wide_command;
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
