/* RANGE.MAP: where the ranges of key spaces are, what they hold and how much they are used. On one server its own figures; in a cluster those of the leaders, asked for each time. */
#include "cluster/node.h"
#include "route/place.h"
#include "server/families.h"
#include "server/front.h"
#include "server/rangeask.h"
#include "server/rangefigures.h"
#include "server/spacereply.h"
#include "server/wide_own.h"
#include "shard/load.h"
#include "shard/topology.h"

struct line { /* about one range */
    struct slice space;
    const struct range_desc *d;
    uint64_t keys, bytes, ops;
    bool unset;         /* the space is a bucket by default: nobody counts it */
    struct node *node;  /* NULL: there is no cluster */
    struct slice error; /* in a cluster: why there are no figures; empty: there are */
};

static void add_figure(struct reply *r, const char *name, const struct line *l, uint64_t value)
{
    reply_bulk_str(r, name);
    if (l->error.n || l->unset) reply_null(r);
    else reply_int(r, (int64_t)value);
}

/* In a cluster: who has the range. */
static void add_replicas(struct reply *r, struct node *n, uint32_t group)
{
    uint64_t nodes[RAFTNODE_MEMBERS_MAX];
    uint32_t count = node_replicas(n, group, nodes, RAFTNODE_MEMBERS_MAX);
    spacereply_int(r, "leader", node_leader(n, group));
    reply_bulk_str(r, "replicas");
    reply_array(r, count);
    for (uint32_t i = 0; i < count; i++) reply_int(r, (int64_t)nodes[i]);
}

static void add_line(struct reply *r, const struct line *l)
{
    const struct range_desc *d = l->d;
    reply_map(r, 9 + (l->node ? 2 : 0) + (l->error.n ? 1 : 0) + (d->moving ? 2 : 0));
    reply_bulk_str(r, "space");
    reply_bulk(r, l->space);
    spacereply_int(r, "id", d->id);
    spacereply_bound(r, "start", d->start, "-");
    spacereply_bound(r, "end", d->end, "+");
    spacereply_int(r, "shard", d->shard);
    spacereply_int(r, "generation", d->generation);
    add_figure(r, "keys", l, l->keys);
    add_figure(r, "bytes", l, l->bytes);
    add_figure(r, "ops", l, l->ops);
    if (l->node) add_replicas(r, l->node, d->shard);
    if (l->error.n) {
        reply_bulk_str(r, "error");
        reply_bulk(r, l->error);
    }
    if (!d->moving) return;
    spacereply_int(r, "to-shard", d->to_shard);
    spacereply_bound(r, "boundary", d->boundary, "-");
}

/* ---- which ranges */

struct tour {
    void (*visit)(struct tour *t, struct slice space, const struct range_desc *d);
    size_t n;
    struct exec *x;                  /* of one server */
    struct wide_groups *groups;      /* of a cluster: whom to ask, */
    const struct rangeask *asked;    /* and what came of it */
    struct reply *out;
};

static void visit_space(struct tour *t, const struct space *s)
{
    struct space_info info;
    spaces_describe(s, &info);
    for (uint32_t i = 0; i < info.n_ranges; i++) t->visit(t, info.name, spaces_range(s, false, i));
    for (uint32_t i = 0; i < info.n_to; i++) t->visit(t, info.name, spaces_range(s, true, i));
    t->n += info.n_ranges + info.n_to;
}

/* Those of the space that the arguments name, or of all. */
static void visit_ranges(struct tour *t, const struct space_map *m, const struct slice *argv, uint32_t argc)
{
    const struct space *one = argc > 1 ? spaces_find(m, argv[1]) : NULL;
    if (one) visit_space(t, one);
    for (uint32_t i = 0; argc == 1 && i < m->n_spaces; i++) visit_space(t, m->spaces[i]);
}

/* ---- on one server: all tokens are held */

static void show_own(struct tour *t, struct slice space, const struct range_desc *d)
{
    struct exec *x = t->x;
    struct line l = {.space = space, .d = d, .ops = (uint64_t)loads_ops(engine_worker_of(x)->engine->loads, d->id)};
    rangefigures_weigh(x->stores[d->shard], space, d->start, d->end, &l.keys, &l.bytes);
    if (d->moving) rangefigures_weigh(x->stores[d->to_shard], space, d->start, d->end, &l.keys, &l.bytes);
    add_line(&x->out, &l);
}

static void range_map(struct exec *x)
{
    struct tour t = {.visit = show_own, .x = x};
    if (x->argc > 2) {
        exec_wrong_arity(x);
        return;
    }
    size_t mark = reply_open(&x->out);
    visit_ranges(&t, topology_map(engine_worker_of(x)->engine->topology), x->argv, x->argc);
    reply_close_array(&x->out, mark, t.n);
}

/* ---- in a cluster */

static void note_groups(struct tour *t, struct slice space, const struct range_desc *d)
{
    wide_note_group(t->groups, d->shard);
    if (d->moving) wide_note_group(t->groups, d->to_shard);
}

static void take_figures(struct line *l, const struct rangeask *a, uint32_t group)
{
    struct slice reply;
    struct rangefigures f;
    struct rangefigures_range r;
    if (!rangeask_reply(a, group, &reply)) {
        l->error = reply;
        return;
    }
    bool ok = rangefigures_begin(&f, reply), found = false;
    while (ok && !found && rangefigures_next(&f, &r)) found = r.id == l->d->id;
    if (!found) {
        l->error = SLICE("TRYAGAIN its group does not have it: it was changed just now");
        return;
    }
    l->keys += r.keys;
    l->bytes += r.bytes;
    l->ops += r.ops;
}

static void show_asked(struct tour *t, struct slice space, const struct range_desc *d)
{
    struct line l = {.space = space, .d = d, .node = rangeask_node(t->asked)};
    take_figures(&l, t->asked, d->shard);
    if (d->moving && !l.error.n) take_figures(&l, t->asked, d->to_shard);
    add_line(t->out, &l);
}

static void answer(const struct rangeask *a, const struct slice *argv, uint32_t argc, struct reply *out)
{
    struct tour t = {.visit = show_asked, .asked = a, .out = out};
    size_t mark = reply_open(out);
    visit_ranges(&t, rangeask_map(a), argv, argc);
    reply_close_array(out, mark, t.n);
}

/* Of a space that is not set: where its bucket is. Nobody is asked. */
static void show_unset(struct exec *x, const struct range_desc *d)
{
    reply_array(&x->out, 1);
    add_line(&x->out, &(struct line){.space = x->argv[1], .d = d, .unset = true, .node = conn_of(x)->front->server->node});
}

void rangemap_command(struct exec *x)
{
    const struct space_map *m = route_map(x->route);
    struct wide_groups groups = {0};
    struct tour t = {.visit = note_groups, .groups = &groups};
    struct range_desc bucket;
    if (x->argc > 2) {
        exec_wrong_arity(x);
        return;
    }
    if (!m) {
        wide_reply_no_map(&x->out);
        return;
    }
    visit_ranges(&t, m, x->argv, x->argc);
    if (t.n) rangeask_send(x, m, &groups, "range.figures", false, answer);
    else if (x->argc > 1 && spaces_unset_bucket(m, x->argv[1], &bucket)) show_unset(x, &bucket);
    else reply_array(&x->out, 0);
}

static const struct command rows[] = {
    {.name = "range.map", .fn = range_map, .arity = -1, .class = CLASS_ALL, .flags = CMD_READONLY, .group = "range", .since = "7.2.0",
     .summary = "The ranges of a key space, or of all that were set: bounds, shard, generation, keys, bytes and accesses per second; in a cluster also who leads it and who has replicas.", .args = "[space]"},
};

const struct command_family rangemap_family = COMMAND_FAMILY(rows);
