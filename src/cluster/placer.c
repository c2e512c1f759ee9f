/* A plan is made in passes over the groups, one per rule. What has been planned counts as done for what follows: replicas and leaderships of each node are kept as they will be. */
#include "cluster/placer.h"

#include "base/mem.h"

static const char *const reason_texts[PLACER_REASONS] = {
    [PLACER_NEWCOMER_DEAD] = "the newcomer died before it was a member",
    [PLACER_DEAD] = "its node is gone or has been silent for too long",
    [PLACER_TOO_FEW] = "the group has fewer replicas than it should",
    [PLACER_DRAIN] = "its node leaves the cluster",
    [PLACER_DRAIN_LEADER] = "the leader's node leaves the cluster",
    [PLACER_TOO_MANY] = "the group has more replicas than it should",
    [PLACER_LEADER_LEAVES] = "the leader's replica is to be removed",
    [PLACER_ZONES] = "two replicas of the group are in one zone, and another zone has none",
    [PLACER_BALANCE] = "its node has more replicas than another",
    [PLACER_LEADERS] = "its node leads more groups than another",
};

const char *placer_reason_text(enum placer_reason r)
{
    CHECK((unsigned)r < PLACER_REASONS);
    return reason_texts[r];
}

/* ---- the view */

void placer_view_init(struct placer_view *v, const struct metanodes *nodes, const struct metagroups *groups, uint64_t now_ms)
{
    *v = (struct placer_view){.now_ms = now_ms,
                              .replication = (uint32_t)nodes->settings[METACODE_REPLICATION],
                              .moves_per_node = (uint32_t)nodes->settings[METACODE_MOVES_PER_NODE],
                              .dead_after_ms = nodes->settings[METACODE_DEAD_AFTER_MS],
                              .lag_max = 1000,
                              .n_nodes = nodes->n,
                              .n_groups = groups->n};
    v->nodes = mem_zalloc((v->n_nodes + 1) * sizeof *v->nodes);
    v->groups = mem_zalloc((v->n_groups + 1) * sizeof *v->groups);
    for (uint32_t i = 0; i < v->n_nodes; i++) {
        const struct metanodes_node *n = &nodes->nodes[i];
        v->nodes[i] = (struct placer_node){.id = n->id, .state = n->state, .zone = n->is.zone, .alive = n->state != METACODE_GONE};
    }
    for (uint32_t i = 0; i < v->n_groups; i++) {
        const struct metagroups_group *g = &groups->groups[i];
        const struct metaops_op *op = metagroups_op_of(groups, g->id);
        v->groups[i] = (struct placer_group){.id = g->id, .members = g->told.n ? g->told : g->wanted, .busy = op != NULL};
        if (!op || op->plan.kind != METAOPS_MOVE_REPLICA) continue;
        v->groups[i].moving = true;
        v->groups[i].undoing = op->step == METAOPS_UNDOING;
        v->groups[i].op = op->id;
        v->groups[i].from = op->plan.from;
        v->groups[i].to = op->plan.to;
    }
}

void placer_view_fini(struct placer_view *v)
{
    mem_free(v->nodes);
    mem_free(v->groups);
    *v = (struct placer_view){0};
}

/* ---- planning */

/* How a node will be when everything under way and planned is done. */
struct outlook {
    uint32_t replicas, leads, moves;
};

struct planning {
    const struct placer_view *v;
    struct outlook *nodes; /* as v->nodes */
    bool *touched;         /* as v->groups: busy, or has a step */
    uint32_t goal;         /* replicas of a group */
    struct placer_step *out;
    uint32_t n, max;
};

static int place_of(const struct placer_view *v, uint64_t id)
{
    for (uint32_t low = 0, high = v->n_nodes; low < high;) {
        uint32_t mid = (low + high) / 2;
        if (v->nodes[mid].id == id) return (int)mid;
        if (v->nodes[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return -1;
}

static const struct placer_node *node_of(const struct placer_view *v, uint64_t id)
{
    int i = place_of(v, id);
    return i < 0 ? NULL : &v->nodes[i];
}

/* Where a node is not known any more it went long ago. */
static bool lost(const struct placer_view *v, uint64_t id)
{
    const struct placer_node *n = node_of(v, id);
    if (!n || n->state == METACODE_GONE) return true;
    return !n->alive && v->now_ms >= n->dead_since_ms && v->now_ms - n->dead_since_ms >= v->dead_after_ms;
}

static bool alive(const struct placer_view *v, uint64_t id)
{
    const struct placer_node *n = node_of(v, id);
    return n && n->alive && n->state != METACODE_GONE;
}

static bool closed(const struct placer_view *v, uint64_t id)
{
    const struct placer_node *n = node_of(v, id);
    return n && n->closed;
}

static bool draining(const struct placer_view *v, uint64_t id)
{
    const struct placer_node *n = node_of(v, id);
    return n && n->state == METACODE_DRAINING;
}

static struct outlook *outlook_of(struct planning *p, uint64_t id)
{
    int i = place_of(p->v, id);
    return i < 0 ? NULL : &p->nodes[i];
}

/* Members that vote, live and are up to date. Where no leader is known nobody is. */
static bool sound(const struct placer_view *v, const struct placer_group *g, uint32_t i)
{
    return g->members.m[i].role == RAFTNODE_VOTER && alive(v, g->members.m[i].node) && g->leader && g->match[i] + v->lag_max >= g->last;
}

static uint32_t voters_of(const struct placer_group *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->members.n; i++) n += g->members.m[i].role == RAFTNODE_VOTER;
    return n;
}

/* A live majority, also when one of the members (0: none) has been taken away. */
static bool has_quorum(const struct placer_view *v, const struct placer_group *g, uint64_t without)
{
    uint32_t voters = 0, good = 0;
    for (uint32_t i = 0; i < g->members.n; i++) {
        if (g->members.m[i].node == without) continue;
        voters += g->members.m[i].role == RAFTNODE_VOTER;
        good += sound(v, g, i);
    }
    return good > voters / 2;
}

static uint32_t same_zone(const struct placer_view *v, const struct raftnode_members *m, struct slice zone, uint64_t without)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        const struct placer_node *node = m->m[i].node == without ? NULL : node_of(v, m->m[i].node);
        n += node && slice_eq(node->zone, zone);
    }
    return n;
}

static bool at_limit(const struct planning *p, const struct placer_node *n) { return p->nodes[n - p->v->nodes].moves >= p->v->moves_per_node; }

/* The best node for a new replica that replaces the one on `instead` (0: none): a zone with fewest of the group, then the emptiest. NULL: none can take it. What is urgent goes to one that can
 * take it at once; what is not waits for the best one. */
static const struct placer_node *newcomer_for(struct planning *p, const struct placer_group *g, uint64_t instead, bool urgent)
{
    const struct placer_node *best = NULL;
    uint32_t best_zone = 0, best_replicas = 0;
    for (uint32_t i = 0; i < p->v->n_nodes; i++) {
        const struct placer_node *n = &p->v->nodes[i];
        const struct outlook *o = &p->nodes[i];
        if (n->state != METACODE_UP || !n->alive || n->closed || (n->room && o->replicas >= n->room) || (urgent && at_limit(p, n)) || meta_members_has(&g->members, n->id)) continue;
        uint32_t zone = same_zone(p->v, &g->members, n->zone, instead);
        if (best && (zone > best_zone || (zone == best_zone && (o->replicas > best_replicas || (o->replicas == best_replicas && n->load >= best->load))))) continue;
        best = n;
        best_zone = zone;
        best_replicas = o->replicas;
    }
    return best && at_limit(p, best) ? NULL : best;
}

/* A member to lead in the place of the present leader: the one that leads least. 0: none is fit. */
static uint64_t heir_of(struct planning *p, const struct placer_group *g)
{
    uint64_t best = 0;
    uint32_t best_leads = 0;
    for (uint32_t i = 0; i < g->members.n; i++) {
        uint64_t id = g->members.m[i].node;
        const struct outlook *o = outlook_of(p, id);
        if (id == g->leader || !sound(p->v, g, i) || draining(p->v, id) || closed(p->v, id) || (best && o->leads >= best_leads)) continue;
        best = id;
        best_leads = o->leads;
    }
    return best;
}

/* ---- steps */

static bool free_for_move(struct planning *p, uint64_t from)
{
    /* A dead node does nothing, so it is never overburdened. */
    const struct outlook *o = from && alive(p->v, from) ? outlook_of(p, from) : NULL;
    return p->n < p->max && (!o || o->moves < p->v->moves_per_node);
}

static void count_move(struct planning *p, uint64_t from, uint64_t to)
{
    struct outlook *a = from ? outlook_of(p, from) : NULL, *b = to ? outlook_of(p, to) : NULL;
    if (a) a->replicas -= a->replicas > 0, a->moves++;
    if (b) b->replicas++, b->moves++;
}

static bool move(struct planning *p, uint32_t at, uint64_t from, uint64_t to, enum placer_reason why)
{
    if (!free_for_move(p, from)) return false;
    count_move(p, from, to);
    p->touched[at] = true;
    p->out[p->n++] = (struct placer_step){.kind = PLACER_MOVE, .reason = why, .group = p->v->groups[at].id, .from = from, .to = to};
    return true;
}

static bool transfer(struct planning *p, uint32_t at, uint64_t to, enum placer_reason why)
{
    const struct placer_group *g = &p->v->groups[at];
    struct outlook *a = outlook_of(p, g->leader), *b = outlook_of(p, to);
    if (p->n == p->max || !b) return false;
    if (a) a->leads -= a->leads > 0;
    b->leads++;
    p->touched[at] = true;
    p->out[p->n++] = (struct placer_step){.kind = PLACER_TRANSFER, .reason = why, .group = g->id, .from = g->leader, .to = to};
    return true;
}

/* ---- rules, each for one group that is not touched yet and has a live majority */

static void undo(struct planning *p, uint32_t at)
{
    const struct placer_group *g = &p->v->groups[at];
    /* Once the other one has left there is no way back; then the newcomer is repaired like any member. */
    bool back = !g->from || meta_members_has(&g->members, g->from);
    if (!g->moving || g->undoing || !g->to || !back || !lost(p->v, g->to) || p->n == p->max) return;
    p->out[p->n++] = (struct placer_step){.kind = PLACER_UNDO, .reason = PLACER_NEWCOMER_DEAD, .group = g->id, .op = g->op, .from = g->from, .to = g->to};
}

static uint64_t first_lost(const struct placer_view *v, const struct placer_group *g)
{
    for (uint32_t i = 0; i < g->members.n; i++)
        if (lost(v, g->members.m[i].node)) return g->members.m[i].node;
    return 0;
}

static void repair(struct planning *p, uint32_t at)
{
    const struct placer_group *g = &p->v->groups[at];
    uint64_t dead = first_lost(p->v, g);
    bool few = voters_of(g) < p->goal;
    /* With enough of them a dead one is trimmed, not replaced. */
    if ((!dead && !few) || voters_of(g) > p->goal) return;
    const struct placer_node *to = newcomer_for(p, g, few ? 0 : dead, true);
    if (to) move(p, at, few ? 0 : dead, to->id, few ? PLACER_TOO_FEW : PLACER_DEAD);
}

/* Member i in the order in which they are moved: the leader last, because its place has to be handed over first (which the move does by itself, once the newcomer votes). */
static uint64_t movable(const struct placer_group *g, uint32_t i)
{
    uint32_t leader = 0;
    while (leader < g->members.n && g->members.m[leader].node != g->leader) leader++;
    if (leader == g->members.n) return g->members.m[i].node;
    return i == g->members.n - 1 ? g->leader : g->members.m[i < leader ? i : i + 1].node;
}

static void drain(struct planning *p, uint32_t at)
{
    const struct placer_group *g = &p->v->groups[at];
    if (g->leader && draining(p->v, g->leader)) {
        uint64_t heir = heir_of(p, g);
        if (heir && transfer(p, at, heir, PLACER_DRAIN_LEADER)) return;
    }
    for (uint32_t i = 0; i < g->members.n; i++) {
        uint64_t id = movable(g, i);
        if (!draining(p->v, id) || voters_of(g) > p->goal || !free_for_move(p, id)) continue;
        const struct placer_node *to = newcomer_for(p, g, id, true);
        if (to && move(p, at, id, to->id, PLACER_DRAIN)) return;
    }
}

/* Which of two members is rather given up. */
static bool rather(struct planning *p, const struct placer_group *g, uint64_t a, uint64_t b)
{
    const bool facts[][2] = {{lost(p->v, a), lost(p->v, b)}, {draining(p->v, a), draining(p->v, b)}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (facts[i][0] != facts[i][1]) return facts[i][0];
    const struct placer_node *na = node_of(p->v, a), *nb = node_of(p->v, b);
    if (!na || !nb) return na == NULL && nb != NULL;
    uint32_t za = same_zone(p->v, &g->members, na->zone, 0), zb = same_zone(p->v, &g->members, nb->zone, 0);
    return za != zb ? za > zb : outlook_of(p, a)->replicas > outlook_of(p, b)->replicas;
}

static void trim(struct planning *p, uint32_t at)
{
    const struct placer_group *g = &p->v->groups[at];
    uint64_t who = 0;
    if (voters_of(g) <= p->goal) return;
    for (uint32_t i = 0; i < g->members.n; i++) {
        uint64_t id = g->members.m[i].node;
        if (has_quorum(p->v, g, id) && (!who || rather(p, g, id, who))) who = id;
    }
    if (!who) return;
    if (who != g->leader) {
        move(p, at, who, 0, PLACER_TOO_MANY);
        return;
    }
    uint64_t heir = heir_of(p, g);
    if (heir) transfer(p, at, heir, PLACER_LEADER_LEAVES);
}

/* Some member's move lets the group be in one zone more. */
static void spread(struct planning *p, uint32_t at)
{
    const struct placer_group *g = &p->v->groups[at];
    for (uint32_t i = 0; i < g->members.n; i++) {
        uint64_t id = movable(g, i);
        const struct placer_node *n = node_of(p->v, id);
        if (!n || same_zone(p->v, &g->members, n->zone, 0) < 2 || !free_for_move(p, id)) continue;
        const struct placer_node *to = newcomer_for(p, g, id, false);
        if (to && same_zone(p->v, &g->members, to->zone, id) == 0 && move(p, at, id, to->id, PLACER_ZONES)) return;
    }
}

/* What each node would have if all had the same, rounded down. */
static uint32_t even_share(const struct planning *p)
{
    uint64_t replicas = 0, nodes = 0;
    for (uint32_t i = 0; i < p->v->n_nodes; i++) {
        if (p->v->nodes[i].state != METACODE_UP || !p->v->nodes[i].alive) continue;
        replicas += p->nodes[i].replicas;
        nodes++;
    }
    return nodes ? (uint32_t)(replicas / nodes) : 0;
}

/* Where the replica on `id` would go to even things out; NULL: it stays. Only those give that have more than their share, so that nobody gives what it is then given back. */
static const struct placer_node *relief_for(struct planning *p, const struct placer_group *g, uint64_t id, uint32_t share)
{
    const struct placer_node *n = node_of(p->v, id);
    if (!n || outlook_of(p, id)->replicas <= share || !free_for_move(p, id)) return NULL;
    const struct placer_node *to = newcomer_for(p, g, id, false);
    if (!to || outlook_of(p, id)->replicas < outlook_of(p, to->id)->replicas + 2) return NULL;
    /* Not at the price of a zone. */
    return same_zone(p->v, &g->members, to->zone, id) > same_zone(p->v, &g->members, n->zone, id) ? NULL : to;
}

static void balance(struct planning *p, uint32_t at)
{
    const struct placer_group *g = &p->v->groups[at];
    const struct placer_node *to = NULL;
    uint64_t from = 0;
    uint32_t share = even_share(p);
    for (uint32_t i = 0; i < g->members.n; i++) {
        uint64_t id = movable(g, i);
        const struct placer_node *relief = relief_for(p, g, id, share);
        if (!relief || (from && outlook_of(p, id)->replicas <= outlook_of(p, from)->replicas)) continue;
        from = id;
        to = relief;
    }
    if (from) move(p, at, from, to->id, PLACER_BALANCE);
}

static void balance_leaders(struct planning *p, uint32_t at)
{
    const struct placer_group *g = &p->v->groups[at];
    const struct outlook *o = g->leader ? outlook_of(p, g->leader) : NULL;
    uint64_t heir = o ? heir_of(p, g) : 0;
    if (heir && o->leads >= outlook_of(p, heir)->leads + 2) transfer(p, at, heir, PLACER_LEADERS);
}

/* ---- all of it */

static void look_around(struct planning *p)
{
    uint32_t usable = 0;
    for (uint32_t i = 0; i < p->v->n_nodes; i++) usable += p->v->nodes[i].state == METACODE_UP;
    p->goal = usable < p->v->replication ? usable : p->v->replication;
    for (uint32_t i = 0; i < p->v->n_groups; i++) {
        const struct placer_group *g = &p->v->groups[i];
        struct outlook *leader = g->leader ? outlook_of(p, g->leader) : NULL;
        for (uint32_t j = 0; j < g->members.n; j++) {
            struct outlook *o = outlook_of(p, g->members.m[j].node);
            if (o) o->replicas++;
        }
        if (leader) leader->leads++;
        p->touched[i] = g->busy;
        if (!g->moving) continue;
        /* A move under way is half done in the members: what is there already is not counted twice. */
        uint64_t from = g->undoing ? g->to : g->from, to = g->undoing ? g->from : g->to;
        struct outlook *a = from ? outlook_of(p, from) : NULL, *b = to ? outlook_of(p, to) : NULL;
        if (a) a->moves++, a->replicas -= meta_members_has(&g->members, from) && a->replicas > 0;
        if (b) b->moves++, b->replicas += !meta_members_has(&g->members, to);
    }
}

typedef void rule_fn(struct planning *p, uint32_t at);

static void apply_rule(struct planning *p, rule_fn *rule)
{
    for (uint32_t i = 0; i < p->v->n_groups && p->n < p->max; i++)
        if (!p->touched[i] && has_quorum(p->v, &p->v->groups[i], 0)) rule(p, i);
}

uint32_t placer_plan(const struct placer_view *v, struct placer_step *out, uint32_t max)
{
    static rule_fn *const rules[] = {repair, drain, trim, spread, balance, balance_leaders};
    struct planning p = {.v = v, .out = out, .max = max};
    p.nodes = mem_zalloc((v->n_nodes + 1) * sizeof *p.nodes);
    p.touched = mem_zalloc((v->n_groups + 1) * sizeof *p.touched);
    look_around(&p);
    for (uint32_t i = 0; i < v->n_groups; i++) undo(&p, i);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) apply_rule(&p, rules[i]);
    mem_free(p.nodes);
    mem_free(p.touched);
    return p.n;
}

bool placer_empty(const struct placer_view *v, uint64_t node)
{
    for (uint32_t i = 0; i < v->n_groups; i++) {
        const struct placer_group *g = &v->groups[i];
        if (meta_members_has(&g->members, node) || (g->moving && (g->from == node || g->to == node))) return false;
    }
    return true;
}
