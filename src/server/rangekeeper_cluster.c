/* The keeper on a node of a cluster. The ranges of groups that this node leads are weighed and judged here; of the others their leaders are asked (server/rangefigures.h), for a range can be moved well, or be merged with its neighbour, by
 * those alone who know both sides. What is decided goes to group 1, as RANGE.SPLIT, RANGE.MOVE and RANGE.MERGE of a client do. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/node.h"
#include "route/place.h"
#include "server/front.h"
#include "server/rangefigures.h"
#include "server/rangekeeper_own.h"
#include "server/relay_call.h"
#include "server/wide_own.h"

enum {
    ASK_MS = 2000,
    CHANGE_MS = 10000, /* for group 1 to have it done */
    SHOW_MS = 10000,   /* and for the map of this node to show it */
    NONE = RANGEKEEPER_NONE,
};

static struct node *node_of(const struct rangekeeper *k) { return k->server->node; }

/* ---- who leads what */

static void make_room(struct rangekeeper *k, uint32_t groups)
{
    if (groups > k->cap_groups) {
        k->cap_groups = groups;
        k->shards = mem_resize(k->shards, groups * sizeof *k->shards);
        k->firsts = mem_resize(k->firsts, groups * sizeof *k->firsts);
        k->asked = mem_resize(k->asked, groups * sizeof *k->asked);
    }
    k->n_shards = groups;
    k->n_asked = 0;
    for (uint32_t i = 0; i < groups; i++) {
        k->shards[i] = (struct splitter_shard){.away = true};
        k->firsts[i] = NONE;
    }
}

static uint32_t end_of(const struct wide_groups *groups)
{
    uint32_t end = 0;
    for (uint32_t g = 0; (g = wide_next_group(groups, g)) < META_GROUPS_MAX; g++) end = g + 1;
    return end;
}

void rangekeeper_cluster_prepare(struct rangekeeper *k)
{
    const struct route *route = &k->server->engine->route;
    struct wide_groups groups;
    wide_find_groups(k->map, &groups);
    make_room(k, end_of(&groups));
    for (uint32_t g = 0; (g = wide_next_group(&groups, g)) < META_GROUPS_MAX; g++) {
        uint32_t seat = route_place(route, g);
        bool here = seat && seats_serves(node_seats(node_of(k)), g);
        k->shards[g].node = here ? node_id(node_of(k)) : node_leader(node_of(k), g);
        if (here) rangekeeper_visit(k, seat, g);
        else k->asked[k->n_asked++] = g;
    }
}

void rangekeeper_cluster_link(struct rangekeeper *k, uint32_t range)
{
    struct splitter_range *r = &k->ranges[range];
    uint32_t seat = route_place(&k->server->engine->route, r->shard);
    r->elsewhere = !seat || k->visits[seat].as != r->shard;
    r->unready = r->elsewhere; /* until its leader has answered */
    uint32_t *first = r->elsewhere ? &k->firsts[r->shard] : &k->visits[seat].first;
    k->kept[range].next_in_shard = *first;
    *first = range;
}

/* ---- what others lead */

static void take_range(struct rangekeeper *k, uint32_t group, const struct rangefigures_range *f)
{
    for (uint32_t i = k->firsts[group]; i != NONE; i = k->kept[i].next_in_shard) {
        struct splitter_range *r = &k->ranges[i];
        if (r->id != f->id) continue;
        r->unready = !f->ordered || f->generation != r->generation;
        r->keys = f->keys;
        r->bytes = f->bytes;
        r->load.ops = (double)f->ops;
        k->kept[i].past = f->past;
        r->past = &k->kept[i].past;
    }
}

static void take_group(struct rangekeeper *k, uint32_t group, struct slice reply)
{
    struct rangefigures f;
    struct rangefigures_range range;
    if (!rangefigures_begin(&f, reply)) return;
    k->shards[group].away = false;
    k->shards[group].bytes = f.bytes;
    k->shards[group].ops = (double)f.ops;
    while (rangefigures_next(&f, &range)) take_range(k, group, &range);
}

static void answered(void *ctx, struct call *c)
{
    struct rangekeeper *k = ctx;
    struct slice reply;
    for (uint32_t i = 0; i < call_size(c); i++)
        if (call_fate(c, i, &reply) == CALL_ANSWERED) take_group(k, k->asked[i], reply);
    call_free(c);
    rangekeeper_is_back(k, &k->server->fronts[0]->worker);
}

void rangekeeper_cluster_ask(struct rangekeeper *k, struct worker *w)
{
    const struct command *cmd = command_find_any(w->engine->commands, slice_str("range.figures"));
    if (!k->n_asked || !k->n_by_range || !CONFIG_NUM(k->server->config, ranges.automatic)) return; /* nothing is to be decided */
    struct call *c = call_new(front_of(w), 0, 2, answered, k);
    for (uint32_t i = 0; i < k->n_asked; i++) call_add(c, k->asked[i], cmd, &(struct slice){0}, 1);
    k->away++;
    call_send(c, ASK_MS);
}

/* ---- carrying out */

static bool shows(const struct space_map *m, const struct kept_change *c)
{
    const struct range_desc *d = spaces_range_by_id(m, c->id, NULL);
    return !d || d->generation != c->generation;
}

bool rangekeeper_cluster_waits(struct rangekeeper *k, const struct space_map *m)
{
    while (k->n_changes && (shows(m, &k->changes[k->n_changes - 1]) || rangekeeper_now_ms() > k->changes_until_ms)) k->n_changes--;
    return k->n_changes > 0;
}

static void note_change(struct rangekeeper *k, const struct splitter_decision *d)
{
    k->changes = mem_resize(k->changes, (k->n_changes + 1) * sizeof *k->changes);
    k->changes[k->n_changes++] = (struct kept_change){d->id, d->generation};
    k->changes_until_ms = rangekeeper_now_ms() + SHOW_MS;
}

static void come_home(struct worker *w, struct mail *m)
{
    struct rangekeeper *k = (struct rangekeeper *)((char *)m - offsetof(struct rangekeeper, home));
    if (!k->failed.len) note_change(k, &k->decisions[k->done]);
    rangekeeper_change_is_done(k, w);
}

/* On the raft thread: the decision is its until it sends it home. */
static void told(void *ctx, int rc, struct slice text)
{
    struct rangekeeper *k = ctx;
    if (rc < 0 && text.n) buf_add_slice(&k->failed, text);
    else if (rc < 0) buf_add_str(&k->failed, strerror(-rc));
    engine_send(k->server->engine, 0, &k->home);
}

void rangekeeper_cluster_carry_out(struct rangekeeper *k, struct worker *w)
{
    static const enum metahost_question asks[] = {[SPLITTER_SPLIT] = METAHOST_SPLIT, [SPLITTER_MERGE] = METAHOST_MERGE, [SPLITTER_MOVE] = METAHOST_MOVE_RANGE};
    const struct splitter_decision *d = &k->decisions[k->done];
    const struct range_desc *r = rangekeeper_find(route_map(&w->engine->route), d);
    char group[16];
    if (!r) {
        buf_add_str(&k->failed, "it has changed meanwhile");
        rangekeeper_change_is_done(k, w);
        return;
    }
    snprintf(group, sizeof group, "%u", d->to_shard);
    const struct slice argv[] = {d->space, d->key, slice_str(group)};
    k->home.to_worker = come_home;
    node_ask(node_of(k), asks[d->kind], argv, d->kind == SPLITTER_MOVE ? 3 : 2, CHANGE_MS, told, k);
}
