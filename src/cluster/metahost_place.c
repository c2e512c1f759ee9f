/* What the leaders of groups 0 and 1 do for the cluster: the one declares nodes gone, the other looks after placement. Groups 0 and 1 themselves are on every node, so the placer does not see them. */
#include <inttypes.h>

#include "base/mem.h"
#include "cluster/metahost_own.h"

enum { STEPS_MAX = 16 };

static const struct metahost_group *led(const struct metahost *h, uint32_t group)
{
    const struct metahost_group *g = metahost_peers_group_known(h, group);
    return g && g->here && g->state == RAFTNODE_LEADER ? g : NULL;
}

/* ---- the view */

static void view_group(const struct metahost *h, struct placer_view *v, struct placer_group *g)
{
    const struct metahost_group *known = metahost_peers_group_known(h, g->id);
    g->leader = metahost_live_leader(h, g->id);
    g->last = v->lag_max + 1;
    for (uint32_t i = 0; i < g->members.n; i++) g->match[i] = known && metahost_peers_is_behind(known, g->members.m[i].node) ? 0 : g->last;
}

static void view_node(const struct metahost *h, struct placer_node *n)
{
    const struct metahost_peer *p = metahost_peers_find(h, n->id);
    n->alive = n->alive && metahost_alive(h, n->id);
    n->dead_since_ms = metahost_peers_silent_since(h, n->id);
    n->room = h->seats; /* what room the others have is theirs to know, but nodes are started alike */
    n->load = n->id == h->me ? h->report.bytes : p ? p->bytes : 0;
    n->closed = n->id == h->me ? h->report.full : (p && p->full) || !metahost_peers_lively(h, n->id);
}

static void view_init(const struct metahost *h, struct placer_view *v)
{
    placer_view_init(v, h->nodes, h->groups, h->now);
    CHECK(v->n_groups >= META_FIRST_DATA_GROUP);
    v->n_groups -= META_FIRST_DATA_GROUP;
    memmove(v->groups, v->groups + META_FIRST_DATA_GROUP, v->n_groups * sizeof *v->groups);
    for (uint32_t i = 0; i < v->n_groups; i++) view_group(h, v, &v->groups[i]);
    for (uint32_t i = 0; i < v->n_nodes; i++) view_node(h, &v->nodes[i]);
}

/* ---- placement */

static void move_done(struct metahost *h, void *ctx, const struct meta_result *r)
{
    struct placer_step *s = ctx;
    if (r && r->code == META_DONE)
        slog(h->log, SLOG_NOTICE, "a replica moves", "op=%" PRIu64 " group=%u from=%" PRIu64 " to=%" PRIu64 " why=%s", r->id, s->group, s->from, s->to, placer_reason_text(s->reason));
    else
        h->place_at = h->now + METAHOST_REST_MS;
    mem_free(s);
}

static void move(struct metahost *h, const struct placer_step *s)
{
    struct metacode_entry e = {.kind = METACODE_OP_BEGIN};
    uint64_t leader = metahost_leader(h, s->group);
    e.begin.driver = leader ? leader : h->me;
    e.begin.plan = (struct metaops_plan){.kind = METAOPS_MOVE_REPLICA, .group = s->group, .from = s->from, .to = s->to};
    metahost_ask_propose(h, &e, METAHOST_ASK_MOVE, s->group, METAHOST_GIVE_UP_MS, move_done, mem_dup(s, sizeof *s));
}

static void undo(struct metahost *h, const struct placer_step *s)
{
    const struct metaops_op *op = metagroups_op(h->groups, s->op);
    if (!op || metahost_ask_open(h, META_MAP_GROUP, METAHOST_ASK_OP, op->id)) return;
    struct metacode_entry e = {.kind = METACODE_OP_STEP};
    e.step.op = op->id;
    e.step.from = op->step;
    e.step.to = METAOPS_UNDOING;
    slog(h->log, SLOG_NOTICE, "the move of a replica is taken back", "op=%" PRIu64 " group=%u why=%s", op->id, s->group, placer_reason_text(s->reason));
    metahost_ask_propose(h, &e, METAHOST_ASK_OP, op->id, METAHOST_GIVE_UP_MS, NULL, NULL);
}

void metahost_place(struct metahost *h)
{
    struct placer_step steps[STEPS_MAX];
    struct placer_view v;
    if (!metahost_founded(h) || !led(h, META_MAP_GROUP) || h->now - h->started < METAHOST_PLACE_MS) return;
    metahost_spaces_sweep(h);
    /* A plan is made of what is so, not of what was asked for. */
    for (uint32_t i = 0; i < h->groups->n; i++)
        if (metahost_ask_open(h, META_MAP_GROUP, METAHOST_ASK_MOVE, h->groups->groups[i].id)) return;
    view_init(h, &v);
    uint32_t n = placer_plan(&v, steps, STEPS_MAX);
    placer_view_fini(&v);
    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].kind == PLACER_MOVE) move(h, &steps[i]);
        if (steps[i].kind == PLACER_TRANSFER) metahost_ask_lead(h, steps[i].group, steps[i].to, placer_reason_text(steps[i].reason));
        if (steps[i].kind == PLACER_UNDO) undo(h, &steps[i]);
    }
}

/* ---- nodes that are gone */

/* Nothing depends on it: it has no replica of data and no vote. */
static bool is_clear(const struct metahost *h, uint64_t node)
{
    for (uint32_t i = 0; i < h->groups->n; i++) {
        const struct metagroups_group *g = &h->groups->groups[i];
        const struct raftnode_members *m = g->told.n ? &g->told : &g->wanted;
        if (g->id < META_FIRST_DATA_GROUP ? meta_members_role(m, node) == RAFTNODE_VOTER : meta_members_has(m, node) || meta_members_has(&g->wanted, node)) return false;
    }
    for (uint32_t i = 0; i < h->groups->n_ops; i++) {
        const struct metaops_plan *p = &h->groups->ops[i]->plan;
        if (p->from == node || p->to == node) return false;
    }
    return true;
}

void metahost_place_gone(struct metahost *h)
{
    if (!metahost_founded(h) || !led(h, META_NODES_GROUP) || !metahost_map_is_fresh(h)) return;
    for (uint32_t i = 0; i < h->nodes->n; i++) {
        const struct metanodes_node *n = &h->nodes->nodes[i];
        bool dead = n->state == METACODE_UP && metahost_peers_lost(h, n->id);
        if ((n->state != METACODE_DRAINING && !dead) || !is_clear(h, n->id) || metahost_ask_open(h, META_NODES_GROUP, METAHOST_ASK_NODE, n->id)) continue;
        struct metacode_entry e = {.kind = METACODE_NODE_STATE};
        e.state.node = n->id;
        e.state.from = n->state;
        e.state.to = METACODE_GONE;
        e.state.dead = dead;
        metahost_ask_propose(h, &e, METAHOST_ASK_NODE, n->id, METAHOST_GIVE_UP_MS, NULL, NULL);
    }
}
