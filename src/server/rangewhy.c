/* RANGE.EXPLAIN: why ranges did or did not split, merge and move by themselves. On one server its keeper says it; in a cluster each range is judged by the node that leads its group, so the leaders of all groups are asked:
 *
 *   range.reasons SPACE    a read of the group: three things. The number of the node; for each range of the space that is in the group: id, and the words on splitting, merging and moving; the node's last decisions about the space,
 *                          newest first: time and text */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/node.h"
#include "route/place.h"
#include "server/conn.h"
#include "server/families.h"
#include "server/front.h"
#include "server/rangeask.h"
#include "server/rangekeeper_own.h"
#include "server/wide_own.h"

/* ---- words */

struct words { /* on one range */
    struct slice split, merge, move;
};

static void add_range(struct reply *out, const struct range_desc *d, const struct words *words)
{
    reply_map(out, 6);
    reply_bulk_str(out, "id");
    reply_int(out, (int64_t)d->id);
    reply_bulk_str(out, "start");
    reply_bulk(out, d->start.n ? d->start : SLICE("-"));
    reply_bulk_str(out, "end");
    reply_bulk(out, d->end.n ? d->end : SLICE("+"));
    reply_bulk_str(out, "split");
    reply_bulk(out, words->split);
    reply_bulk_str(out, "merge");
    reply_bulk(out, words->merge);
    reply_bulk_str(out, "move");
    reply_bulk(out, words->move);
}

static struct slice or_nothing(const struct buf *words) { return words->len ? buf_slice(words) : SLICE("not looked at yet"); }

/* With the keeper's own words, as of its last round. Under its lock. */
static void say(const struct rangekeeper *k, const struct range_desc *d, struct reply *out, void (*add)(struct reply *out, const struct range_desc *d, const struct words *words))
{
    struct splitter_words own = {0};
    splitter_explain(k->splitter, d->id, &own);
    const struct words words = {or_nothing(&own.split), or_nothing(&own.merge), or_nothing(&own.move)};
    add(out, d, &words);
    buf_fini(&own.split);
    buf_fini(&own.merge);
    buf_fini(&own.move);
}

static int64_t unix_offset_ms(void) { return clock_unix_ms() - rangekeeper_now_ms(); } /* from the keeper's clock to that of the world */

/* The space by this name, if it has ranges to speak of; else an error. */
static const struct space *find_space(const struct space_map *m, struct slice name, struct space_info *info, struct reply *out)
{
    const struct space *s = m ? spaces_find(m, name) : NULL;
    *info = (struct space_info){0};
    if (s) spaces_describe(s, info);
    if (s && info->mode == SPACE_RANGE && !info->moving) return s;
    reply_error(out, info->moving ? "TRYAGAIN the key space changes its mode" : "ERR the key space has no ranges: SPACE.SET it RANGE first");
    return NULL;
}

/* ---- on one server */

struct telling {
    struct reply *out;
    int64_t offset_ms;
    size_t n;
};

static void tell_decision(void *ctx, int64_t at_ms, struct slice text)
{
    struct telling *t = ctx;
    reply_map(t->out, 2);
    reply_bulk_str(t->out, "time");
    reply_int(t->out, at_ms + t->offset_ms);
    reply_bulk_str(t->out, "text");
    reply_bulk(t->out, text);
    t->n++;
}

static void explain(struct exec *x)
{
    struct rangekeeper *k = conn_of(x)->front->server->rangekeeper;
    struct space_info info;
    const struct space *s = find_space(route_map(x->route), x->argv[1], &info, &x->out);
    struct telling t = {.out = &x->out, .offset_ms = unix_offset_ms()};
    if (!s) return;
    pthread_mutex_lock(&k->lock);
    reply_map(&x->out, 2);
    reply_bulk_str(&x->out, "ranges");
    reply_array(&x->out, info.n_ranges);
    for (uint32_t i = 0; i < info.n_ranges; i++) say(k, spaces_range(s, false, i), &x->out, add_range);
    reply_bulk_str(&x->out, "decisions");
    size_t mark = reply_open(&x->out);
    splitter_log(k->splitter, info.name, tell_decision, &t);
    reply_close_array(&x->out, mark, t.n);
    pthread_mutex_unlock(&k->lock);
}

/* ---- a group's leader: under the token of its seat */

static void add_reasons(struct reply *out, const struct range_desc *d, const struct words *words)
{
    reply_int(out, (int64_t)d->id);
    reply_bulk(out, words->split);
    reply_bulk(out, words->merge);
    reply_bulk(out, words->move);
}

static void add_decision(void *ctx, int64_t at_ms, struct slice text)
{
    struct telling *t = ctx;
    reply_int(t->out, at_ms + t->offset_ms);
    reply_bulk(t->out, text);
    t->n++;
}

static void range_reasons(struct exec *x)
{
    struct server *server = front_of(engine_worker_of(x))->server;
    struct rangekeeper *k = server->rangekeeper;
    const struct space_map *m = route_map(x->route);
    const struct space *s = m ? spaces_find(m, x->argv[1]) : NULL;
    struct telling t = {.out = &x->out, .offset_ms = unix_offset_ms()};
    struct space_info info = {0};
    size_t n = 0;
    if (s) spaces_describe(s, &info);
    reply_array(&x->out, 3);
    reply_int(&x->out, (int64_t)node_id(server->node));
    pthread_mutex_lock(&k->lock);
    size_t mark = reply_open(&x->out);
    for (uint32_t i = 0; i < info.n_ranges; i++) {
        const struct range_desc *d = spaces_range(s, false, i);
        if (route_place(x->route, d->shard) != x->shard) continue;
        say(k, d, &x->out, add_reasons);
        n++;
    }
    reply_close_array(&x->out, mark, 4 * n);
    mark = reply_open(&x->out);
    splitter_log(k->splitter, x->argv[1], add_decision, &t);
    reply_close_array(&x->out, mark, 2 * t.n);
    pthread_mutex_unlock(&k->lock);
}

/* ---- a node that was asked: what leaders say, which is never trusted */

static bool take_bulk(struct slice *s, struct slice *out)
{
    int64_t n;
    if (!wide_take_number(s, '$', &n) || (uint64_t)n + 2 > s->n) return false;
    *out = slice_of(s->p, (size_t)n);
    *s = slice_of(s->p + n + 2, s->n - (size_t)n - 2);
    return true;
}

/* The node that speaks, and how many words on ranges follow. */
static bool begin_reasons(struct slice *s, int64_t *node, int64_t *n)
{
    int64_t three;
    return wide_take_number(s, '*', &three) && three == 3 && wide_take_number(s, ':', node) && wide_take_number(s, '*', n) && *n % 4 == 0;
}

static bool next_reason(struct slice *s, int64_t *id, struct words *w) { return wide_take_number(s, ':', id) && take_bulk(s, &w->split) && take_bulk(s, &w->merge) && take_bulk(s, &w->move); }

static bool find_words(struct slice reply, uint64_t range, struct words *out)
{
    int64_t node, n, id = 0;
    if (!begin_reasons(&reply, &node, &n)) return false;
    for (; n > 0; n -= 4) {
        if (!next_reason(&reply, &id, out)) return false;
        if ((uint64_t)id == range) return true;
    }
    return false;
}

static void add_asked(const struct rangeask *a, const struct range_desc *d, struct reply *out)
{
    struct slice reply;
    struct words words;
    bool answered = rangeask_reply(a, d->shard, &reply);
    if (!answered) words.split = reply;
    else if (!find_words(reply, d->id, &words)) words.split = SLICE("not looked at yet: it was changed just now");
    else {
        add_range(out, d, &words);
        return;
    }
    words.merge = words.move = words.split;
    add_range(out, d, &words);
}

struct decision {
    int64_t node, at_ms;
    struct slice text;
};

struct decisions {
    struct decision *of;
    size_t n, cap;
    uint64_t *nodes; /* that were heard */
    size_t n_nodes;
};

static bool is_new(struct decisions *d, int64_t node)
{
    for (size_t i = 0; i < d->n_nodes; i++)
        if (d->nodes[i] == (uint64_t)node) return false;
    d->nodes = mem_resize(d->nodes, (d->n_nodes + 1) * sizeof *d->nodes);
    d->nodes[d->n_nodes++] = (uint64_t)node;
    return true;
}

/* A node that leads several groups says the same for each of them. */
static void take_decisions(struct decisions *d, struct slice reply)
{
    int64_t node, n, id, at_ms;
    struct words words;
    struct slice text;
    if (!begin_reasons(&reply, &node, &n) || !is_new(d, node)) return;
    for (; n > 0; n -= 4)
        if (!next_reason(&reply, &id, &words)) return;
    if (!wide_take_number(&reply, '*', &n)) return;
    for (; n > 0 && wide_take_number(&reply, ':', &at_ms) && take_bulk(&reply, &text); n -= 2) {
        if (d->n == d->cap) d->of = mem_resize(d->of, (d->cap = d->cap * 2 + 16) * sizeof *d->of);
        d->of[d->n++] = (struct decision){node, at_ms, text};
    }
}

static int newest_first(const void *a, const void *b)
{
    const struct decision *x = a, *y = b;
    return x->at_ms != y->at_ms ? (x->at_ms < y->at_ms ? 1 : -1) : x->node < y->node ? -1 : x->node > y->node;
}

static void add_decisions(const struct rangeask *a, struct reply *out)
{
    struct decisions d = {0};
    struct wide_groups groups;
    struct slice reply;
    wide_find_groups(rangeask_map(a), &groups);
    for (uint32_t g = 0; (g = wide_next_group(&groups, g)) < META_GROUPS_MAX; g++)
        if (rangeask_reply(a, g, &reply)) take_decisions(&d, reply);
    if (d.n) qsort(d.of, d.n, sizeof *d.of, newest_first);
    reply_array(out, d.n);
    for (size_t i = 0; i < d.n; i++) {
        reply_map(out, 3);
        reply_bulk_str(out, "time");
        reply_int(out, d.of[i].at_ms);
        reply_bulk_str(out, "text");
        reply_bulk(out, d.of[i].text);
        reply_bulk_str(out, "node");
        reply_int(out, d.of[i].node);
    }
    mem_free(d.of);
    mem_free(d.nodes);
}

static void answer(const struct rangeask *a, const struct slice *argv, uint32_t argc, struct reply *out)
{
    struct space_info info;
    const struct space *s = find_space(rangeask_map(a), argv[1], &info, out);
    if (!s) return;
    reply_map(out, 2);
    reply_bulk_str(out, "ranges");
    reply_array(out, info.n_ranges);
    for (uint32_t i = 0; i < info.n_ranges; i++) add_asked(a, spaces_range(s, false, i), out);
    reply_bulk_str(out, "decisions");
    add_decisions(a, out);
}

void rangewhy_command(struct exec *x)
{
    const struct space_map *m = route_map(x->route);
    struct space_info info;
    struct wide_groups groups;
    if (!m) {
        wide_reply_no_map(&x->out);
        return;
    }
    if (!find_space(m, x->argv[1], &info, &x->out)) return;
    wide_find_groups(m, &groups);
    rangeask_send(x, m, &groups, "range.reasons", true, answer);
}

static const struct command rows[] = {
    {.name = "range.explain", .fn = explain, .arity = 2, .class = CLASS_LOCAL, .flags = CMD_READONLY, .group = "range", .since = "7.2.0",
     .summary = "Why each range of a key space did or did not split, merge and move by itself, and the last decisions.", .args = "space"},
    {.name = "range.reasons", .fn = range_reasons, .arity = 2, .class = CLASS_KEYED, .flags = CMD_OF_GROUP | CMD_READONLY, .group = "cluster", .since = "0.1.0",
     .summary = "Why the ranges of a key space that are in a group did or did not split, merge and move by themselves.", .args = "space"},
};

const struct command_family rangewhy_family = COMMAND_FAMILY(rows);
