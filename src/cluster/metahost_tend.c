/* What a leader does for its own groups.
 *
 * It tells group 1 who their members are. It founds groups 0 and 1, and sees to their voters. Of data groups it carries out the moves of replicas that group 1 has: every replica of group 1 knows of them, so whoever leads the data
 * group drives them, and the next leader goes on from what its own log says. A change of members comes first, then the report of it, then the step (cluster/metaops.h).
 *
 * And every node sees to the replicas that it should have. A newcomer is added when it has said that it knows of the move: from then on it keeps its replica. So no answer of a replica that was dropped is taken for one of the
 * replica that came after it. */
#include <inttypes.h>

#include "base/mem.h"
#include "cluster/metahost_own.h"

/* ---- founding */

static void found(struct metahost *h, struct metahost_group *g)
{
    uint64_t version = g->id == META_NODES_GROUP ? h->nodes->version : h->groups->version, index;
    if (version || !h->found[g->id].len || g->founded_term == g->term) return;
    if (h->calls.propose(h->calls.ctx, g->id, g->term, buf_slice(&h->found[g->id]), &index) == 0) g->founded_term = g->term;
}

/* ---- what members there are */

static void report_members(struct metahost *h, const struct metahost_group *g)
{
    const struct metagroups_group *known = metagroups_find(h->groups, g->id);
    if (!known || !g->members.n || g->members.index <= known->told.index || metahost_ask_open(h, META_MAP_GROUP, METAHOST_ASK_MEMBERS, g->id)) return;
    struct metacode_entry e = {.kind = METACODE_MEMBERS};
    e.members.group = g->id;
    e.members.members = g->members;
    metahost_ask_propose(h, &e, METAHOST_ASK_MEMBERS, g->id, METAHOST_GIVE_UP_MS, NULL, NULL);
}

/* ---- changing them */

/* A voter that has not heard yet that it is one gives nobody its vote. So another one that is there is waited for before the next change: who counted on its vote could not be elected, and a leader might never be found. */
static bool is_unheard_of(const struct metahost *h, const struct raftnode_info *info, uint64_t but)
{
    for (uint32_t i = 0; i < info->members.n; i++) {
        uint64_t id = info->members.m[i].node;
        if (info->members.m[i].role == RAFTNODE_VOTER && id != h->me && id != but && metahost_alive(h, id) && info->match[i] < info->members.index) return true;
    }
    return false;
}

static void change(struct metahost *h, struct metahost_group *g, uint64_t node, enum raftnode_role role)
{
    struct raftnode_info info;
    static const char *const roles[] = {[RAFTNODE_GONE] = "none", [RAFTNODE_SPARE] = "spare", [RAFTNODE_STANDBY] = "standby", [RAFTNODE_VOTER] = "voter"};
    if (node == h->me) {
        metahost_ask_lead(h, g->id, 0, "its replica is to have another role");
        return;
    }
    bool waits = h->calls.look(h->calls.ctx, g->id, &info) == 0 && is_unheard_of(h, &info, node);
    int rc = waits ? -EAGAIN : h->calls.change(h->calls.ctx, g->id, node, role);
    g->changing = rc == 0;
    if (rc == 0)
        slog(h->log, SLOG_NOTICE, "a member changes", "group=%u node=%" PRIu64 " role=%s", g->id, node, roles[role]);
    else
        g->rest_until = h->now + (rc == -EAGAIN ? METAHOST_TEND_MS : METAHOST_REST_MS);
}

/* ---- groups 0 and 1: every node is a member, as many vote as groups have replicas */

static bool up(const struct metahost *h, uint64_t id)
{
    const struct metanodes_node *n = metanodes_find(h->nodes, id);
    return n && n->state == METACODE_UP;
}

static bool good(const struct metahost *h, uint64_t id) { return up(h, id) && !metahost_peers_lost(h, id); }

static uint32_t voters_wanted(const struct metahost *h)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->nodes->n; i++) n += h->nodes->nodes[i].state == METACODE_UP;
    return n < h->nodes->settings[METACODE_REPLICATION] ? n : (uint32_t)h->nodes->settings[METACODE_REPLICATION];
}

/* A node that is no member yet, or no longer should be. */
static bool admit_or_remove(struct metahost *h, struct metahost_group *g, const struct raftnode_members *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        const struct metahost_peer *p = metahost_peers_find(h, m->m[i].node);
        if (!metanodes_gone(h->nodes, m->m[i].node) || (p && metahost_alive(h, p->id))) continue; /* it shall hear of it */
        change(h, g, m->m[i].node, RAFTNODE_GONE);
        return true;
    }
    for (uint32_t i = 0; i < h->nodes->n; i++) {
        const struct metanodes_node *n = &h->nodes->nodes[i];
        if (n->state == METACODE_GONE || meta_members_role(m, n->id) > RAFTNODE_SPARE || !metahost_alive(h, n->id)) continue;
        if (m->n == RAFTNODE_MEMBERS_MAX && !meta_members_has(m, n->id)) continue; /* one that is gone has to be removed first */
        change(h, g, n->id, RAFTNODE_STANDBY);
        return true;
    }
    return false;
}

static uint32_t voters_in_zone(const struct metahost *h, const struct raftnode_members *m, struct slice zone)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        const struct metanodes_node *node = metanodes_find(h->nodes, m->m[i].node);
        n += node && m->m[i].role == RAFTNODE_VOTER && good(h, node->id) && slice_eq(node->is.zone, zone);
    }
    return n;
}

/* A standby that can vote, best in a zone that has fewest. 0: none. */
static uint64_t best_standby(const struct metahost *h, const struct metahost_group *g, const struct raftnode_members *m)
{
    uint64_t best = 0;
    uint32_t best_zone = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        uint64_t id = m->m[i].node;
        if (m->m[i].role != RAFTNODE_STANDBY || !up(h, id) || !metahost_alive(h, id) || metahost_peers_is_behind(g, id)) continue;
        uint32_t zone = voters_in_zone(h, m, metanodes_find(h->nodes, id)->is.zone);
        if (best && zone >= best_zone) continue;
        best = id;
        best_zone = zone;
    }
    return best;
}

/* A voter that need not be one: leaving or lost ones first, then the highest number. 0: none. */
static uint64_t spare_voter(const struct metahost *h, const struct raftnode_members *m, uint32_t n_good, uint32_t wanted)
{
    uint64_t surplus = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->m[i].role != RAFTNODE_VOTER) continue;
        if (!good(h, m->m[i].node)) return m->m[i].node;
        if (n_good > wanted && m->m[i].node != h->me) surplus = m->m[i].node;
    }
    return surplus;
}

static void tend_own(struct metahost *h, struct metahost_group *g, const struct raftnode_members *m)
{
    uint32_t n_good = 0, wanted = voters_wanted(h);
    if (!h->nodes->version || admit_or_remove(h, g, m)) return;
    for (uint32_t i = 0; i < m->n; i++) n_good += m->m[i].role == RAFTNODE_VOTER && good(h, m->m[i].node);
    uint64_t more = n_good < wanted ? best_standby(h, g, m) : 0, less = n_good >= wanted ? spare_voter(h, m, n_good, wanted) : 0;
    if (more) change(h, g, more, RAFTNODE_VOTER);
    if (less) change(h, g, less, RAFTNODE_STANDBY);
}

/* ---- data groups */

/* Whether the node has said that it knows of everything up to this version of group 1. */
static bool has_heard(const struct metahost *h, uint64_t node, uint64_t version)
{
    const struct metahost_peer *p = metahost_peers_find(h, node);
    return node == h->me || (p && metahost_alive(h, node) && p->map_version >= version);
}

/* What this node knows of group 1 is no older than what its leader has told since this node started: before that it may be from long ago. */
static bool knows_groups(const struct metahost *h)
{
    uint64_t leader = metahost_leader(h, META_MAP_GROUP);
    const struct metahost_peer *p = metahost_peers_find(h, leader);
    return leader == h->me || (p && metahost_alive(h, leader) && p->map_version && p->map_version <= h->groups->version);
}

static uint64_t op_version(const struct metahost *h, uint64_t op)
{
    for (uint32_t i = 0; i < h->n_known_ops; i++)
        if (h->known_ops[i].op == op) return h->known_ops[i].version;
    return h->groups->version;
}

static void stepped(struct metahost *h, void *ctx, const struct meta_result *r)
{
    if (!r || (r->code != META_DONE && r->code != META_SAME)) metahost_peers_group(h, (uint32_t)(uintptr_t)ctx)->rest_until = h->now + METAHOST_REST_MS;
}

static void step(struct metahost *h, const struct metaops_op *op, enum metaops_step to)
{
    if (metahost_ask_open(h, META_MAP_GROUP, METAHOST_ASK_OP, op->id)) return;
    struct metacode_entry e = {.kind = METACODE_OP_STEP};
    e.step.op = op->id;
    e.step.from = op->step;
    e.step.to = to;
    metahost_ask_propose(h, &e, METAHOST_ASK_OP, op->id, METAHOST_GIVE_UP_MS, stepped, (void *)(uintptr_t)op->plan.group);
    if (metaops_step_ends(to))
        slog(h->log, SLOG_NOTICE, to == METAOPS_DONE ? "a replica was moved" : "the move of a replica was taken back", "op=%" PRIu64 " group=%u from=%" PRIu64 " to=%" PRIu64, op->id, op->plan.group, op->plan.from, op->plan.to);
}

static void add_replica(struct metahost *h, struct metahost_group *g, const struct raftnode_members *m, const struct raftnode_members *told, const struct metaops_op *op)
{
    uint64_t to = op->plan.to;
    if (meta_members_role(m, to) != RAFTNODE_VOTER) {
        if (has_heard(h, to, op_version(h, op->id))) change(h, g, to, RAFTNODE_VOTER);
    } else if (meta_members_role(told, to) == RAFTNODE_VOTER) {
        step(h, op, METAOPS_ADDED);
    }
}

static void remove_replica(struct metahost *h, struct metahost_group *g, const struct raftnode_members *m, const struct raftnode_members *told, const struct metaops_op *op, uint64_t node, enum metaops_step to)
{
    if (node && meta_members_has(m, node))
        change(h, g, node, RAFTNODE_GONE);
    else if (!node || (told->n && !meta_members_has(told, node)))
        step(h, op, to);
}

/* What an operation that was taken back or that lost a race left: members that nobody wants, or the other way round. The report is compared, not the log: group 1 has it behind the entries that made it so. */
static void tidy_up(struct metahost *h, struct metahost_group *g, const struct metagroups_group *known)
{
    if (known->told.index != g->members.index) return;
    for (uint32_t i = 0; i < known->told.n; i++) {
        if (meta_members_has(&known->wanted, known->told.m[i].node)) continue;
        change(h, g, known->told.m[i].node, RAFTNODE_GONE);
        return;
    }
    for (uint32_t i = 0; i < known->wanted.n; i++) {
        uint64_t id = known->wanted.m[i].node;
        if (meta_members_role(&known->told, id) == RAFTNODE_VOTER || !has_heard(h, id, h->groups->version)) continue;
        change(h, g, id, RAFTNODE_VOTER);
        return;
    }
}

static void tend_data(struct metahost *h, struct metahost_group *g, const struct raftnode_members *m)
{
    const struct metagroups_group *known = metagroups_find(h->groups, g->id);
    const struct metaops_op *op = known ? metagroups_op_of(h->groups, g->id) : NULL;
    if (!knows_groups(h)) return;
    if (known && !op) tidy_up(h, g, known);
    if (!op || op->plan.kind != METAOPS_MOVE_REPLICA) return;
    uint64_t to = op->plan.to;
    if (op->step == METAOPS_UNDOING)
        remove_replica(h, g, m, &known->told, op, to, METAOPS_UNDONE);
    else if (to && (op->step == METAOPS_PLANNED || meta_members_role(m, to) != RAFTNODE_VOTER)) /* a leader whose map was old may have removed it again */
        add_replica(h, g, m, &known->told, op);
    else
        remove_replica(h, g, m, &known->told, op, op->plan.from, METAOPS_DONE);
}

/* ---- a node whose log has no room */

/* A voter that can take over. 0: none. */
static uint64_t heir_with_room(const struct metahost *h, const struct metahost_group *g, const struct raftnode_members *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        uint64_t id = m->m[i].node;
        const struct metahost_peer *p = metahost_peers_find(h, id);
        if (id == h->me || m->m[i].role != RAFTNODE_VOTER || !p || p->full || !metahost_peers_lively(h, id) || metahost_peers_is_behind(g, id)) continue;
        return id;
    }
    return 0;
}

/* Entries that it proposes are refused, so it leads to no purpose. */
static bool give_up_lead(struct metahost *h, struct metahost_group *g, const struct raftnode_members *m)
{
    uint64_t heir = h->report.full ? heir_with_room(h, g, m) : 0;
    if (heir) metahost_ask_lead(h, g->id, heir, "the log of its node has no room");
    return heir != 0;
}

static void tend_group(struct metahost *h, struct metahost_group *g)
{
    struct raftnode_info info;
    if (g->id < META_FIRST_DATA_GROUP) found(h, g);
    report_members(h, g);
    if (g->changing || h->now < g->rest_until || h->calls.look(h->calls.ctx, g->id, &info) < 0) return;
    if (!info.ready || info.changing || info.transferring) return;
    if (give_up_lead(h, g, &info.members)) return;
    if (g->id < META_FIRST_DATA_GROUP)
        tend_own(h, g, &info.members);
    else
        tend_data(h, g, &info.members);
}

/* ---- replicas of this node */

static void join(struct metahost *h, uint32_t group)
{
    int rc = h->calls.join(h->calls.ctx, group);
    if (rc == 0) metahost_peers_group(h, group)->here = true;
    if (rc == 0)
        slog(h->log, SLOG_NOTICE, "a replica comes here", "group=%u", group);
    else if (rc != -EEXIST && rc != -EAGAIN)
        slog(h->log, SLOG_WARNING, "a replica cannot come here", "group=%u rc=%d", group, rc);
}

static bool has_replica(const struct metahost *h, uint32_t group, struct raftnode_info *info) { return h->calls.look(h->calls.ctx, group, info) == 0; }

/* A group that was made in a cluster that lives, and of which nobody has told yet. Its first members are those that are wanted, for as long as that is so (cluster/metabegin.c), whenever each of them comes to see it. */
static bool should_make(const struct metahost *h, const struct metagroups_group *g) { return g->wanted.index && !g->told.n && meta_members_has(&g->wanted, h->me); }

static void make(struct metahost *h, const struct metagroups_group *g)
{
    struct metahost_group *known = metahost_peers_group(h, g->id);
    if (h->now < known->rest_until) return;
    int rc = h->calls.create(h->calls.ctx, g->id, g->wanted.m, g->wanted.n);
    known->here = rc == 0;
    if (rc == 0) slog(h->log, SLOG_NOTICE, "a new group is made", "group=%u", g->id);
    else known->rest_until = h->now + METAHOST_GIVE_UP_MS; /* who has no room says so, but not all the time */
}

/* Whoever votes has a log, and must not begin anew. But a group that was made while this node was away has counted it among its voters from the beginning: it has never said anything there, or its log remembers that (cluster/raftfloor.h). */
static bool should_join(const struct metahost *h, const struct metagroups_group *g)
{
    bool votes = meta_members_role(&g->told, h->me) == RAFTNODE_VOTER && !g->wanted.index;
    if (!g->told.n || votes) return false;
    return meta_members_has(&g->wanted, h->me) || meta_members_has(&g->told, h->me);
}

void metahost_stranger(struct metahost *h, uint32_t group, uint64_t from)
{
    (void)from;
    if (group >= META_FIRST_DATA_GROUP || metanodes_gone(h->nodes, h->me))
        h->dirty = true; /* the map says whether it belongs here */
    else
        metahost_peers_group(h, group)->called = true;
}

/* A leader speaks to this node of groups 0 and 1: it is a member of them, whether it knows or not. */
static void answer_calls(struct metahost *h)
{
    struct raftnode_info info;
    for (uint32_t id = 0; id < META_FIRST_DATA_GROUP; id++) {
        struct metahost_group *g = metahost_peers_group(h, id);
        if (!g->called) continue;
        g->called = false;
        if (!has_replica(h, id, &info)) join(h, id);
    }
}

/* Not wanted, not told, and the group's own log or a later report of it says the same. */
static bool should_drop(const struct metahost *h, uint32_t group, const struct raftnode_info *info)
{
    const struct metagroups_group *g = metagroups_find(h->groups, group);
    const struct metaops_op *op = metagroups_op_of(h->groups, group);
    if (!g) return false; /* it is being made, or was merged away by its own entries */
    if (op && op->plan.kind == METAOPS_MOVE_REPLICA && (op->plan.from == h->me || op->plan.to == h->me)) return false;
    if (!g->told.n || meta_members_has(&g->told, h->me) || meta_members_has(&g->wanted, h->me)) return false;
    return !meta_members_has(&info->members, h->me) || g->told.index > info->members.index;
}

static void drop(struct metahost *h, uint32_t group)
{
    struct metahost_group *g = metahost_peers_group(h, group);
    slog(h->log, SLOG_NOTICE, "a replica goes from here", "group=%u", group);
    h->calls.drop(h->calls.ctx, group);
    *g = (struct metahost_group){.id = group, .hint = g->hint, .hint_term = g->hint_term};
}

static void tend_replicas(struct metahost *h)
{
    struct raftnode_info info;
    if (!metahost_map_is_fresh(h)) return;
    for (uint32_t i = 0; i < h->groups->n; i++) {
        const struct metagroups_group *g = &h->groups->groups[i];
        if (g->id < META_FIRST_DATA_GROUP) continue;
        bool here = has_replica(h, g->id, &info);
        if (here && should_drop(h, g->id, &info))
            drop(h, g->id);
        else if (!here && should_make(h, g))
            make(h, g);
        else if (!here && should_join(h, g))
            join(h, g->id);
    }
}

/* The node's own record: it may have moved to another address. */
static void tend_self(struct metahost *h)
{
    const struct metanodes_node *n = metanodes_find(h->nodes, h->me);
    if (!n || n->state == METACODE_GONE || metahost_ask_open(h, META_NODES_GROUP, METAHOST_ASK_NODE, h->me)) return;
    if (slice_eq(n->is.peer, h->is.peer) && slice_eq(n->is.client, h->is.client) && slice_eq(n->is.name, h->is.name) && slice_eq(n->is.zone, h->is.zone)) return;
    if (h->now < h->describe_at) return;
    h->describe_at = h->now + METAHOST_GIVE_UP_MS;
    struct metacode_entry e = {.kind = METACODE_NODE_CHANGE};
    e.change.node = h->me;
    e.change.generation = n->generation;
    e.change.to = h->is;
    metahost_ask_propose(h, &e, METAHOST_ASK_NODE, h->me, METAHOST_GIVE_UP_MS, NULL, NULL);
}

void metahost_tend(struct metahost *h)
{
    answer_calls(h);
    tend_replicas(h);
    tend_self(h);
    for (uint32_t i = 0; i < h->n_known; i++)
        if (h->known[i].here && h->known[i].state == RAFTNODE_LEADER) tend_group(h, &h->known[i]);
}
