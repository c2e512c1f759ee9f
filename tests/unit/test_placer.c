/* Placement: by hand where a plan can be read off, and clusters that live for virtual hours, with nodes that die, return, join and leave. The placer sees what the state machines of groups 0 and 1 know, and what it
 * asks for happens through them, entry by entry, as slowly as real members change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "cluster/placer.h"
#include "metakit.h"

enum { STEPS_MAX = 64, TICK_MS = 1000, GROUPS_MAX = 64 };

/* ---- a cluster that lives */

struct life {
    struct metakit k;
    struct rng rng;
    uint64_t now_ms;
    uint32_t zones, joined; /* joined: nodes that ever were */
    uint32_t room;          /* for replicas, on each node; 0: for any number */
    bool alive[METAKIT_NODES_MAX + 1];
    uint64_t dead_since[METAKIT_NODES_MAX + 1];
    uint64_t leader[GROUPS_MAX];
    uint32_t moves, transfers, undone;
};

static bool lives(const struct life *l, uint64_t node) { return node <= METAKIT_NODES_MAX && l->alive[node]; }

static uint32_t live_voters(const struct life *l, const struct raftnode_members *m, uint32_t *voters)
{
    uint32_t live = 0;
    *voters = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->m[i].role != RAFTNODE_VOTER) continue;
        ++*voters;
        live += lives(l, m->m[i].node);
    }
    return live;
}

static bool quorate(const struct life *l, const struct raftnode_members *m)
{
    uint32_t voters, live = live_voters(l, m, &voters);
    return live > voters / 2;
}

static void tell(struct life *l, struct metagroups_group *g, uint64_t node, enum raftnode_role role)
{
    struct raftnode_members m = g->told;
    meta_members_set(&m, node, role);
    m.index++;
    /* A change of members is an entry in the group's log: only a live majority can make it. */
    assert_true(quorate(l, &g->told));
    assert_int_equal(metakit_told(&l->k, g->id, &m), META_DONE);
}

static void life_init(struct life *l, uint64_t seed, uint32_t nodes, uint32_t zones, uint32_t shards, uint32_t rf)
{
    memset(l, 0, sizeof *l);
    metakit_init(&l->k, nodes, zones, shards, rf, SPACE_BUCKET);
    rng_init(&l->rng, seed);
    l->zones = zones;
    l->joined = nodes;
    l->now_ms = 1000000;
    for (uint32_t i = 1; i <= nodes; i++) l->alive[i] = true;
    for (uint32_t i = 0; i < l->k.groups->n; i++) {
        struct raftnode_members m = l->k.groups->groups[i].wanted;
        m.index = 1;
        assert_int_equal(metakit_told(&l->k, l->k.groups->groups[i].id, &m), META_DONE);
    }
}

/* Any live voter may win an election. */
static void elect(struct life *l)
{
    for (uint32_t i = 0; i < l->k.groups->n; i++) {
        const struct raftnode_members *m = &l->k.groups->groups[i].told;
        if (!quorate(l, m))
            l->leader[i] = 0;
        else
            while (!lives(l, l->leader[i]) || meta_members_role(m, l->leader[i]) != RAFTNODE_VOTER) l->leader[i] = m->m[rng_below(&l->rng, m->n)].node;
    }
}

static void look(const struct life *l, struct placer_view *v)
{
    placer_view_init(v, l->k.nodes, l->k.groups, l->now_ms);
    for (uint32_t i = 0; i < v->n_nodes; i++) {
        v->nodes[i].alive = v->nodes[i].state != METACODE_GONE && lives(l, v->nodes[i].id);
        v->nodes[i].dead_since_ms = l->dead_since[v->nodes[i].id];
        v->nodes[i].room = l->room;
    }
    for (uint32_t i = 0; i < v->n_groups; i++) {
        v->groups[i].leader = l->leader[i];
        v->groups[i].last = 100;
        for (uint32_t j = 0; j < v->groups[i].members.n; j++) v->groups[i].match[j] = 100;
    }
}

static enum meta_code step(struct life *l, const struct metaops_op *op, enum metaops_step to) { return metakit_step(&l->k, op->id, op->step, to, SLICE("")); }

static uint32_t votes_in(const struct life *l, uint64_t node)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->k.groups->n; i++) n += meta_members_role(&l->k.groups->groups[i].told, node) == RAFTNODE_VOTER;
    return n;
}

static bool has_room(const struct life *l, uint64_t node) { return !l->room || votes_in(l, node) < l->room; }

/* One move of a replica goes on a little, if its group can decide anything. */
static void drive(struct life *l, const struct metaops_op *op)
{
    const struct metaops_plan *p = &op->plan;
    struct metagroups_group *g = metagroups_find(l->k.groups, p->group);
    if (!quorate(l, &g->told)) return;
    if (op->step == METAOPS_UNDOING) {
        if (meta_members_has(&g->told, p->to)) tell(l, g, p->to, RAFTNODE_GONE);
        assert_int_equal(step(l, op, METAOPS_UNDONE), META_DONE);
    } else if (op->step == METAOPS_PLANNED && p->to) {
        enum raftnode_role role = meta_members_role(&g->told, p->to);
        if (role == RAFTNODE_VOTER) assert_int_equal(step(l, op, METAOPS_ADDED), META_DONE);
        else if (role == RAFTNODE_GONE) tell(l, g, p->to, RAFTNODE_SPARE);
        else if (lives(l, p->to) && has_room(l, p->to) && rng_below(&l->rng, 3) == 0) tell(l, g, p->to, RAFTNODE_VOTER); /* it has caught up */
    } else {
        struct raftnode_members after = g->told;
        meta_members_set(&after, p->from, RAFTNODE_GONE);
        /* The engine removes nobody who is needed for a majority. */
        if (p->from && !quorate(l, &after)) return;
        if (p->from && meta_members_has(&g->told, p->from)) tell(l, g, p->from, RAFTNODE_GONE);
        assert_int_equal(step(l, op, METAOPS_DONE), META_DONE);
    }
}

static void take(struct life *l, const struct placer_step *s)
{
    uint32_t at = (uint32_t)(metagroups_find(l->k.groups, s->group) - l->k.groups->groups);
    switch (s->kind) {
    case PLACER_MOVE:
        assert_int_equal(metakit_begin(&l->k, &(struct metaops_plan){.kind = METAOPS_MOVE_REPLICA, .group = s->group, .from = s->from, .to = s->to}), META_DONE);
        l->moves++;
        break;
    case PLACER_TRANSFER:
        assert_int_equal(l->leader[at], s->from);
        assert_true(lives(l, s->to));
        l->leader[at] = s->to;
        l->transfers++;
        break;
    case PLACER_UNDO:
        assert_int_equal(step(l, metagroups_op(l->k.groups, s->op), METAOPS_UNDOING), META_DONE);
        l->undone++;
        break;
    }
}

/* What a plan promises, whatever the cluster is like. */
static void check_plan(const struct placer_view *v, const struct life *l, const struct placer_step *steps, uint32_t n)
{
    uint32_t moves[METAKIT_NODES_MAX + 1] = {0};
    for (uint32_t i = 0; i < v->n_groups; i++) {
        if (!v->groups[i].moving) continue;
        if (v->groups[i].from) moves[v->groups[i].from]++;
        if (v->groups[i].to) moves[v->groups[i].to]++;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct placer_step *s = &steps[i];
        const struct metagroups_group *g = metagroups_find(l->k.groups, s->group);
        if (s->kind == PLACER_UNDO) continue;
        assert_true(quorate(l, &g->told));
        for (uint32_t j = 0; j < i; j++) assert_true(steps[j].group != s->group);
        if (s->kind != PLACER_MOVE) continue;
        assert_true(s->to == 0 || (lives(l, s->to) && metanodes_find(l->k.nodes, s->to)->state == METACODE_UP));
        if (s->from && lives(l, s->from)) assert_true(++moves[s->from] <= v->moves_per_node);
        if (s->to) assert_true(++moves[s->to] <= v->moves_per_node);
        if (s->to) continue;
        struct raftnode_members after = g->told;
        meta_members_set(&after, s->from, RAFTNODE_GONE);
        assert_true(quorate(l, &after));
    }
}

/* A node that has been emptied goes. */
static void let_go(struct life *l, const struct placer_view *v)
{
    for (uint32_t i = 0; i < l->k.nodes->n; i++) {
        const struct metanodes_node *n = &l->k.nodes->nodes[i];
        if (n->state != METACODE_DRAINING || !placer_empty(v, n->id)) continue;
        struct metacode_entry e = {.kind = METACODE_NODE_STATE};
        e.state.node = n->id;
        e.state.from = METACODE_DRAINING;
        e.state.to = METACODE_GONE;
        assert_int_equal(metakit_propose(&l->k, &e), META_DONE);
        l->alive[e.state.node] = false;
    }
}

/* Gives how many steps were planned. */
static uint32_t tick(struct life *l)
{
    struct placer_view v;
    struct placer_step steps[STEPS_MAX];
    l->now_ms += TICK_MS;
    for (uint32_t i = l->k.groups->n_ops; i-- > 0;) drive(l, l->k.groups->ops[i]);
    elect(l);
    look(l, &v);
    uint32_t n = placer_plan(&v, steps, 1 + (uint32_t)rng_below(&l->rng, STEPS_MAX));
    check_plan(&v, l, steps, n);
    let_go(l, &v);
    placer_view_fini(&v);
    for (uint32_t i = 0; i < n; i++) take(l, &steps[i]);
    return n;
}

static void kill_node(struct life *l, uint64_t node)
{
    l->alive[node] = false;
    l->dead_since[node] = l->now_ms;
}

static uint64_t join(struct life *l)
{
    struct metacode_entry e = {.kind = METACODE_NODE_JOIN};
    e.join = metakit_node(&l->k, l->joined++, l->zones);
    assert_int_equal(metakit_propose(&l->k, &e), META_DONE);
    l->alive[l->k.r.id] = true;
    return l->k.r.id;
}

static void drain(struct life *l, uint64_t node)
{
    struct metacode_entry e = {.kind = METACODE_NODE_STATE};
    e.state.node = node;
    e.state.to = METACODE_DRAINING;
    assert_int_equal(metakit_propose(&l->k, &e), META_DONE);
}

static void settle(struct life *l)
{
    uint32_t quiet = 0;
    for (int i = 0; i < 3000 && quiet < 10; i++) quiet = tick(l) == 0 && l->k.groups->n_ops == 0 ? quiet + 1 : 0;
    assert_int_equal(quiet, 10);
}

static void wait_for_death(struct life *l) { l->now_ms += l->k.nodes->settings[METACODE_DEAD_AFTER_MS]; }

static uint32_t count_up(const struct life *l)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->k.nodes->n; i++) n += l->k.nodes->nodes[i].state == METACODE_UP && lives(l, l->k.nodes->nodes[i].id);
    return n;
}

/* Every group has its replicas, on live nodes, and nobody has much more than another. */
static void assert_settled(const struct life *l, uint32_t replicas)
{
    uint32_t have[METAKIT_NODES_MAX + 1] = {0}, leads[METAKIT_NODES_MAX + 1] = {0}, least = UINT32_MAX, most = 0, most_leads = 0;
    for (uint32_t i = 0; i < l->k.groups->n; i++) {
        const struct metagroups_group *g = &l->k.groups->groups[i];
        assert_int_equal(g->told.n, replicas);
        assert_true(meta_members_equal(&g->told, &g->wanted));
        for (uint32_t j = 0; j < g->told.n; j++) {
            assert_true(lives(l, g->told.m[j].node));
            have[g->told.m[j].node]++;
        }
        leads[l->leader[i]]++;
    }
    for (uint32_t i = 0; i < l->k.nodes->n; i++) {
        const struct metanodes_node *n = &l->k.nodes->nodes[i];
        if (n->state != METACODE_UP || !lives(l, n->id)) continue;
        if (have[n->id] < least) least = have[n->id];
        if (have[n->id] > most) most = have[n->id];
        if (leads[n->id] > most_leads) most_leads = leads[n->id];
    }
    if (l->zones == 0) assert_true(most - least <= 1);
    if (l->zones == 0 && count_up(l) > 1) assert_true(most_leads <= l->k.groups->n / 2 + 1);
}

static void life_fini(struct life *l) { metakit_fini(&l->k); }

/* ---- stories */

static void a_settled_cluster_is_left_alone(void **unused)
{
    struct life l;
    life_init(&l, 1, 3, 0, 16, 3);
    settle(&l);
    assert_int_equal(l.moves, 0);
    assert_settled(&l, 3);
    uint32_t transfers = l.transfers;
    for (int i = 0; i < 100; i++) assert_int_equal(tick(&l), 0);
    assert_int_equal(l.transfers, transfers);
    life_fini(&l);
}

static void a_dead_node_is_replaced_on_a_spare_after_the_time_out(void **unused)
{
    struct life l;
    life_init(&l, 2, 4, 0, 16, 3);
    settle(&l);
    uint32_t before = l.moves, had = metagroups_of_node(l.k.groups, 2, NULL, 0);
    kill_node(&l, 2);
    for (int i = 0; i < 20; i++) tick(&l);
    assert_int_equal(l.moves, before);
    wait_for_death(&l);
    settle(&l);
    assert_settled(&l, 3);
    assert_int_equal(metagroups_of_node(l.k.groups, 2, NULL, 0), 0);
    assert_true(l.moves - before >= had && l.moves - before <= had + 6);
    life_fini(&l);
}

static void a_node_that_returns_in_time_costs_nothing(void **unused)
{
    struct life l;
    life_init(&l, 3, 4, 0, 16, 3);
    settle(&l);
    uint32_t before = l.moves;
    kill_node(&l, 1);
    for (int i = 0; i < 60; i++) tick(&l);
    l.alive[1] = true;
    settle(&l);
    assert_int_equal(l.moves, before);
    life_fini(&l);
}

static void without_a_spare_a_dead_node_keeps_its_replicas(void **unused)
{
    struct life l;
    life_init(&l, 4, 3, 0, 8, 3);
    settle(&l);
    kill_node(&l, 3);
    wait_for_death(&l);
    settle(&l);
    assert_int_equal(l.moves, 0);
    join(&l);
    settle(&l);
    assert_settled(&l, 3);
    life_fini(&l);
}

static void nothing_moves_without_a_majority(void **unused)
{
    struct life l;
    life_init(&l, 5, 5, 0, 8, 3);
    settle(&l);
    uint32_t before = l.moves;
    for (uint64_t i = 1; i <= 4; i++) kill_node(&l, i);
    wait_for_death(&l);
    for (int i = 0; i < 50; i++) tick(&l);
    assert_int_equal(l.moves, before);
    for (uint64_t i = 1; i <= 4; i++) l.alive[i] = true;
    settle(&l);
    assert_settled(&l, 3);
    life_fini(&l);
}

static void a_node_that_leaves_is_emptied_first(void **unused)
{
    struct life l;
    life_init(&l, 6, 4, 0, 16, 3);
    settle(&l);
    drain(&l, 1);
    settle(&l);
    assert_true(metanodes_gone(l.k.nodes, 1));
    assert_settled(&l, 3);
    life_fini(&l);
}

/* Thirty replicas, and three nodes with room for nine each: what does not fit stays where it is, and no move begins that cannot end. */
static void a_node_without_room_gets_no_replica(void **unused)
{
    struct life l;
    life_init(&l, 5, 4, 0, 8, 3);
    l.room = 9;
    settle(&l);
    drain(&l, 4);
    settle(&l);
    for (uint64_t node = 1; node <= 3; node++) assert_int_equal(votes_in(&l, node), 9);
    assert_int_equal(votes_in(&l, 4), 3);
    l.room = 10;
    settle(&l);
    assert_true(metanodes_gone(l.k.nodes, 4));
    assert_settled(&l, 3);
    life_fini(&l);
}

static void the_third_of_three_nodes_may_leave_too(void **unused)
{
    struct life l;
    life_init(&l, 7, 3, 0, 8, 3);
    settle(&l);
    drain(&l, 2);
    settle(&l);
    assert_true(metanodes_gone(l.k.nodes, 2));
    assert_settled(&l, 2);
    life_fini(&l);
}

static void a_single_replica_can_leave_its_node(void **unused)
{
    struct life l;
    life_init(&l, 8, 2, 0, 8, 1);
    settle(&l);
    drain(&l, 2);
    settle(&l);
    assert_true(metanodes_gone(l.k.nodes, 2));
    assert_settled(&l, 1);
    life_fini(&l);
}

static void newcomers_get_their_share_in_few_moves(void **unused)
{
    struct life l;
    life_init(&l, 9, 3, 0, 16, 3);
    settle(&l);
    join(&l);
    settle(&l);
    assert_settled(&l, 3);
    /* 18 groups of 3 on 4 nodes: 13 or 14 each, and nothing moves twice. */
    assert_true(l.moves >= 13 && l.moves <= 14);
    life_fini(&l);
}

static void a_new_replication_factor_is_filled_up_and_trimmed(void **unused)
{
    struct life l;
    life_init(&l, 10, 5, 0, 8, 3);
    settle(&l);
    struct metacode_entry e = {.kind = METACODE_SETTING};
    e.setting.setting = METACODE_REPLICATION;
    for (uint64_t factor = 5; factor >= 1; factor -= 2) {
        e.setting.value = factor;
        assert_int_equal(metakit_propose(&l.k, &e), META_DONE);
        settle(&l);
        assert_settled(&l, (uint32_t)factor);
        if (factor == 1) break;
    }
    life_fini(&l);
}

static uint32_t zones_of(const struct raftnode_members *m, uint32_t zones)
{
    bool seen[8] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t z = (uint32_t)(m->m[i].node - 1) % zones;
        n += !seen[z];
        seen[z] = true;
    }
    return n;
}

static void replicas_go_back_to_three_zones(void **unused)
{
    struct life l;
    life_init(&l, 11, 5, 3, 16, 3); /* nodes 1 and 4 in zone 0, 2 and 5 in zone 1, 3 in zone 2 */
    settle(&l);
    kill_node(&l, 3);
    wait_for_death(&l);
    settle(&l);
    for (uint32_t i = 0; i < l.k.groups->n; i++) assert_int_equal(zones_of(&l.k.groups->groups[i].told, 3), 2);
    assert_int_equal(join(&l), 6); /* zone 2 */
    settle(&l);
    for (uint32_t i = 0; i < l.k.groups->n; i++) assert_int_equal(zones_of(&l.k.groups->groups[i].told, 3), 3);
    life_fini(&l);
}

static void a_newcomer_that_dies_is_given_up(void **unused)
{
    struct life l;
    life_init(&l, 12, 3, 0, 16, 3);
    settle(&l);
    uint64_t fourth = join(&l);
    for (int i = 0; i < 3; i++) tick(&l);
    assert_true(l.k.groups->n_ops > 0);
    kill_node(&l, fourth);
    wait_for_death(&l);
    settle(&l);
    assert_true(l.undone > 0);
    for (uint32_t i = 0; i < l.k.groups->n; i++) {
        uint32_t voters;
        assert_true(live_voters(&l, &l.k.groups->groups[i].told, &voters) >= 2);
    }
    life_fini(&l);
}

/* ---- any life */

/* True if every group would still have a majority without the node. */
static bool can_spare(struct life *l, uint64_t node)
{
    bool ok = true;
    l->alive[node] = false;
    for (uint32_t i = 0; i < l->k.groups->n && ok; i++) ok = quorate(l, &l->k.groups->groups[i].told);
    l->alive[node] = true;
    return ok;
}

static void something_happens(struct life *l)
{
    const struct metanodes_node *n = &l->k.nodes->nodes[rng_below(&l->rng, l->k.nodes->n)];
    switch (rng_below(&l->rng, 4)) {
    case 0:
        if (lives(l, n->id) && n->state == METACODE_UP && count_up(l) > 4 && can_spare(l, n->id)) kill_node(l, n->id);
        break;
    case 1:
        if (n->state != METACODE_GONE && !lives(l, n->id)) l->alive[n->id] = true;
        break;
    case 2:
        if (n->state == METACODE_UP && count_up(l) > 4) drain(l, n->id);
        break;
    default:
        if (l->joined < METAKIT_NODES_MAX) join(l);
    }
}

static void every_cluster_comes_to_rest_and_never_loses_a_majority(void **unused)
{
    uint32_t moves = 0, undone = 0, gone = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct life l;
        life_init(&l, seed, 4 + seed % 3, seed % 2 ? 0 : 3, 8 + (uint32_t)(seed % 3) * 8, 3);
        uint32_t events = 0;
        for (int i = 0; i < 1500; i++) {
            if (rng_below(&l.rng, 60) == 0) something_happens(&l), events++;
            tick(&l);
            metagroups_check(l.k.groups);
            for (uint32_t j = 0; j < l.k.groups->n; j++) assert_true(quorate(&l, &l.k.groups->groups[j].told));
        }
        for (uint32_t i = 1; i <= METAKIT_NODES_MAX; i++)
            if (metanodes_find(l.k.nodes, i) && !metanodes_gone(l.k.nodes, i)) l.alive[i] = true;
        settle(&l);
        assert_settled(&l, 3);
        /* An event touches the replicas of one node, and what evens them out again. */
        assert_true(l.moves <= (events + 1) * 2 * l.k.groups->n);
        moves += l.moves;
        undone += l.undone;
        for (uint32_t i = 1; i < l.k.nodes->next_node; i++) gone += metanodes_gone(l.k.nodes, i);
        life_fini(&l);
    }
    print_message("%u moves, %u undone, %u nodes left\n", moves, undone, gone);
    assert_true(moves > 500 && undone > 0 && gone > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_settled_cluster_is_left_alone),
        cmocka_unit_test(a_dead_node_is_replaced_on_a_spare_after_the_time_out),
        cmocka_unit_test(a_node_that_returns_in_time_costs_nothing),
        cmocka_unit_test(without_a_spare_a_dead_node_keeps_its_replicas),
        cmocka_unit_test(nothing_moves_without_a_majority),
        cmocka_unit_test(a_node_that_leaves_is_emptied_first),
        cmocka_unit_test(a_node_without_room_gets_no_replica),
        cmocka_unit_test(the_third_of_three_nodes_may_leave_too),
        cmocka_unit_test(a_single_replica_can_leave_its_node),
        cmocka_unit_test(newcomers_get_their_share_in_few_moves),
        cmocka_unit_test(a_new_replication_factor_is_filled_up_and_trimmed),
        cmocka_unit_test(replicas_go_back_to_three_zones),
        cmocka_unit_test(a_newcomer_that_dies_is_given_up),
        cmocka_unit_test(every_cluster_comes_to_rest_and_never_loses_a_majority),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
