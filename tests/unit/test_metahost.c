#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metahostrig.h"

/* ---- looking at the whole */

static const struct metagroups *groups_of(struct metahostrig *r, uint64_t id) { return metahost_groups(r->nodes[id].host); }
static const struct metanodes *nodes_of(struct metahostrig *r, uint64_t id) { return metahost_nodes(r->nodes[id].host); }

static enum metacode_node_state state_of(struct metahostrig *r, uint64_t at, uint64_t id)
{
    const struct metanodes_node *n = metanodes_find(nodes_of(r, at), id);
    assert_non_null(n);
    return n->state;
}

static uint64_t first_up(struct metahostrig *r)
{
    uint64_t id = 1;
    while (!r->nodes[id].up) id++;
    return id;
}

/* Every node that runs has the same two states. */
static void assert_equal_states(struct metahostrig *r)
{
    uint64_t first = first_up(r);
    for (uint64_t id = first; id <= METAHOSTRIG_NODES; id++) {
        if (!r->nodes[id].up) continue;
        metanodes_check(nodes_of(r, id));
        metagroups_check(groups_of(r, id));
        assert_int_equal(metanodes_digest(nodes_of(r, id)), metanodes_digest(nodes_of(r, first)));
        assert_int_equal(metagroups_digest(groups_of(r, id)), metagroups_digest(groups_of(r, first)));
        assert_int_equal(r->nodes[id].map_version, groups_of(r, id)->map->version);
    }
}

static uint32_t replicas_of(struct metahostrig *r, uint64_t id)
{
    uint32_t n = 0;
    for (uint32_t g = 2; g < METAHOSTRIG_GROUPS; g++) n += r->nodes[id].at[g].here;
    return n;
}

static uint32_t leads_of(struct metahostrig *r, uint64_t id)
{
    uint32_t n = 0;
    for (uint32_t g = 2; g < METAHOSTRIG_GROUPS; g++) n += r->groups[g].leader == id;
    return n;
}

static enum raftnode_role role_of(struct metahostrig *r, uint32_t group, uint64_t id)
{
    return meta_members_role(metahostrig_members(&r->groups[group], r->groups[group].n), id);
}

static uint32_t voters_of(struct metahostrig *r, uint32_t group)
{
    const struct raftnode_members *m = metahostrig_members(&r->groups[group], r->groups[group].n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) n += m->m[i].role == RAFTNODE_VOTER;
    return n;
}

/* Nothing is under way, what is wanted is so, and replicas are where the map says. */
static bool at_rest(struct metahostrig *r)
{
    uint64_t first = first_up(r);
    const struct metagroups *m = groups_of(r, first);
    if (!m->version || m->n_ops) return false;
    for (uint32_t i = 0; i < m->n; i++) {
        const struct metagroups_group *g = &m->groups[i];
        if (g->id >= 2 && !meta_members_equal(&g->wanted, &g->told)) return false;
        if (g->told.index != metahostrig_members(&r->groups[g->id], r->groups[g->id].n)->index) return false;
        for (uint64_t id = 1; g->id >= 2 && id <= METAHOSTRIG_NODES; id++)
            if (r->nodes[id].up && r->nodes[id].at[g->id].here != meta_members_has(&g->told, id)) return false;
    }
    return true;
}

static void run_to_rest(struct metahostrig *r, uint32_t seconds)
{
    uint32_t calm = 0;
    for (uint32_t i = 0; i < seconds * 1000 / METAHOSTRIG_STEP_MS && calm < 100; i++) {
        metahostrig_step(r);
        calm = at_rest(r) ? calm + 1 : 0;
    }
    assert_true(calm >= 100);
}

static void join(struct metahostrig *r, uint64_t through, uint64_t id, struct metahostrig_answer *a)
{
    char words[128];
    snprintf(words, sizeof words, "%u 10.0.0.%u:7001 10.0.0.%u:6379 n%u -", 100 + (unsigned)id, (unsigned)id, (unsigned)id, (unsigned)id);
    assert_int_equal(metahostrig_ask(r, through, METAHOST_JOIN, words, a), 0);
}

static uint64_t not_the_leader(struct metahostrig *r, uint32_t group)
{
    for (uint64_t id = 1;; id++)
        if (r->nodes[id].up && r->nodes[id].at[group].here && r->groups[group].leader != id) return id;
}

/* ---- founding */

static void three_nodes_found_one_cluster_whoever_leads(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct metahostrig *r = metahostrig_new(3, 16, seed);
        run_to_rest(r, 60);
        assert_equal_states(r);
        assert_int_equal(nodes_of(r, 1)->n, 3);
        assert_int_equal(groups_of(r, 1)->n, 18);
        for (uint64_t id = 1; id <= 3; id++) {
            assert_true(r->nodes[id].maps >= 1);
            assert_int_equal(replicas_of(r, id), 16);
            assert_true(leads_of(r, id) >= 4 && leads_of(r, id) <= 7); /* 16 over three */
            for (uint32_t g = 0; g < 18; g++) assert_int_equal(metahost_leader(r->nodes[id].host, g), r->groups[g].leader);
        }
        metahostrig_free(r);
    }
}

static void founders_beyond_the_voters_follow_groups_0_and_1(void **state)
{
    struct metahostrig *r = metahostrig_new(5, 10, 3);
    run_to_rest(r, 60);
    assert_equal_states(r);
    for (uint32_t g = 0; g < 2; g++) {
        assert_int_equal(voters_of(r, g), 3);
        for (uint64_t id = 1; id <= 5; id++) assert_true(role_of(r, g, id) >= RAFTNODE_STANDBY);
    }
    for (uint64_t id = 1; id <= 5; id++) assert_int_equal(replicas_of(r, id), 6);
    /* Of groups without a replica here the nodes' reports tell who leads. */
    uint32_t elsewhere = 0;
    for (uint64_t id = 1; id <= 5; id++)
        for (uint32_t g = 2; g < 12; g++) {
            elsewhere += !r->nodes[id].at[g].here;
            assert_int_equal(metahost_leader(r->nodes[id].host, g), r->groups[g].leader);
        }
    assert_true(elsewhere > 10);
    metahostrig_free(r);
}

static void a_founding_that_is_lost_with_its_leader_is_made_again(void **state)
{
    uint32_t again = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct metahostrig *r = metahostrig_new(3, 4, seed);
        for (uint32_t i = 0; i < 3; i++) {
            metahostrig_step(r);
            for (uint32_t g = 0; g < 2; g++)
                if (r->groups[g].leader) metahostrig_unseat(r, g);
        }
        again += groups_of(r, 1)->version == 0;
        run_to_rest(r, 60);
        assert_equal_states(r);
        metahostrig_free(r);
    }
    assert_true(again > 0);
}

/* ---- joining */

static void a_node_joins_and_gets_its_share(void **state)
{
    struct metahostrig_answer a = {0}, b = {0};
    struct metahostrig *r = metahostrig_new(3, 16, 5);
    run_to_rest(r, 60);
    join(r, not_the_leader(r, 0), 4, &a);
    /* The answer was lost: it asks again, another one. */
    join(r, r->groups[0].leader, 4, &b);
    assert_string_equal(a.text.p, b.text.p);
    assert_string_equal(a.text.p, "node 4\ncluster 6120636c7573746572206f66206f7500\nseed 0000000000000007\npeer 1 10.0.0.1:7001\npeer 2 10.0.0.2:7001\npeer 3 10.0.0.3:7001\n");
    metahostrig_start(r, 4);
    run_to_rest(r, 300);
    assert_equal_states(r);
    for (uint32_t g = 0; g < 2; g++) {
        assert_int_equal(role_of(r, g, 4), RAFTNODE_STANDBY);
        assert_int_equal(voters_of(r, g), 3);
    }
    for (uint64_t id = 1; id <= 4; id++) {
        assert_int_equal(replicas_of(r, id), 12);
        assert_int_equal(leads_of(r, id), 4);
    }
    assert_int_equal(metahostrig_ask(r, 4, METAHOST_STATUS, "", &a), 0);
    assert_non_null(strstr(a.text.p, "1 2 3 4~ "));
    buf_fini(&a.text);
    buf_fini(&b.text);
    metahostrig_free(r);
}

static void more_nodes_than_a_group_has_members_are_refused(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(3, 2, 6);
    run_to_rest(r, 60);
    for (uint64_t id = 4; id <= RAFTNODE_MEMBERS_MAX; id++) join(r, 1, id, &a);
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_JOIN, "200 h:1 h:2 late -", &a), -ENOSPC);
    assert_string_equal(a.text.p, "a cluster has at most 16 nodes");
    join(r, 2, 9, &a); /* who is in is told so */
    assert_non_null(strstr(a.text.p, "node 9\n"));
    buf_fini(&a.text);
    metahostrig_free(r);
}

/* ---- leaving */

static void a_node_that_leaves_is_drained_and_then_gone(void **state)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct metahostrig_answer a = {0};
        struct metahostrig *r = metahostrig_new(4, 8, seed);
        run_to_rest(r, 60);
        uint64_t leaver = 1 + seed % 4;
        char word[8];
        snprintf(word, sizeof word, "%u", (unsigned)leaver);
        assert_int_equal(metahostrig_ask(r, 1 + (seed + 1) % 4, METAHOST_LEAVE, word, &a), 0);
        assert_string_equal(a.text.p, "draining");
        for (uint32_t i = 0; i < 4000 && r->nodes[leaver].up; i++) metahostrig_step(r);
        assert_false(r->nodes[leaver].up); /* it found that it is gone, and ended */
        assert_true(r->nodes[leaver].failed);
        run_to_rest(r, 60);
        metahostrig_run(r, 10000);
        assert_equal_states(r);
        assert_int_equal(state_of(r, first_up(r), leaver), METACODE_GONE);
        for (uint32_t g = 0; g < 10; g++) {
            assert_int_equal(role_of(r, g, leaver), RAFTNODE_GONE);
            assert_int_equal(voters_of(r, g), 3);
        }
        for (uint64_t id = 1; id <= 4; id++) assert_false(r->nodes[id].up && r->nodes[id].peer[leaver]);
        buf_fini(&a.text);
        metahostrig_free(r);
    }
}

static void leaving_can_be_called_off(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(4, 8, 9);
    run_to_rest(r, 60);
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_LEAVE, "3", &a), 0);
    metahostrig_run(r, 1500);
    assert_int_equal(state_of(r, 1, 3), METACODE_DRAINING);
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_RETURN, "3", &a), 0);
    run_to_rest(r, 300);
    assert_int_equal(state_of(r, 1, 3), METACODE_UP);
    for (uint64_t id = 1; id <= 4; id++) assert_int_equal(replicas_of(r, id), 6);
    buf_fini(&a.text);
    metahostrig_free(r);
}

/* ---- dying */

static void a_dead_node_is_replaced_after_the_time_out_and_gone_then(void **state)
{
    for (uint64_t dead = 1; dead <= 4; dead++) {
        struct metahostrig_answer a = {0};
        struct metahostrig *r = metahostrig_new(4, 8, 20 + dead);
        run_to_rest(r, 60);
        assert_int_equal(metahostrig_ask(r, 1, METAHOST_SET, "dead-after-ms 20000", &a), 0);
        metahostrig_run(r, 1000); /* everybody knows */
        metahostrig_crash(r, dead);
        uint64_t other = dead % 4 + 1;
        metahostrig_run(r, 15000);
        assert_false(metahost_alive(r->nodes[other].host, dead));
        assert_int_equal(groups_of(r, other)->n_ops, 0); /* not yet */
        assert_int_equal(groups_of(r, other)->next_op, 1);
        metahostrig_run(r, 10000);
        run_to_rest(r, 300);
        assert_equal_states(r);
        for (uint32_t g = 0; g < 10; g++) {
            assert_int_equal(voters_of(r, g), 3);
            assert_int_not_equal(role_of(r, g, dead), RAFTNODE_VOTER);
        }
        metahostrig_run(r, 20000);
        assert_int_equal(state_of(r, other, dead), METACODE_GONE);
        /* It comes back, and is told. */
        metahostrig_start(r, dead);
        metahostrig_run(r, 5000);
        assert_false(r->nodes[dead].up);
        assert_true(r->nodes[dead].failed);
        buf_fini(&a.text);
        metahostrig_free(r);
    }
}

static void a_node_that_is_dead_for_good_is_removed_by_word(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(3, 4, 30);
    run_to_rest(r, 60);
    assert_int_equal(metahostrig_ask(r, 1, METAHOST_REMOVE, "3", &a), -EBUSY);
    metahostrig_crash(r, 3);
    metahostrig_run(r, 5000);
    assert_int_equal(metahostrig_ask(r, 1, METAHOST_REMOVE, "3", &a), 0);
    run_to_rest(r, 300);
    metahostrig_run(r, 10000);
    assert_equal_states(r);
    for (uint32_t g = 0; g < 6; g++) {
        assert_int_equal(role_of(r, g, 3), RAFTNODE_GONE); /* nobody is there to replace it */
        assert_int_equal(voters_of(r, g), 2);
    }
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_LEAVE, "3", &a), -ESTALE);
    buf_fini(&a.text);
    metahostrig_free(r);
}

static void a_short_silence_moves_nothing(void **state)
{
    struct metahostrig *r = metahostrig_new(4, 8, 31);
    run_to_rest(r, 60);
    uint64_t before = groups_of(r, 1)->next_op;
    metahostrig_crash(r, 4);
    metahostrig_run(r, 60000);
    metahostrig_start(r, 4);
    run_to_rest(r, 60);
    assert_int_equal(groups_of(r, 1)->next_op, before);
    assert_int_equal(replicas_of(r, 4), 6);
    assert_equal_states(r);
    metahostrig_free(r);
}

static void a_process_that_stood_still_takes_nobody_for_dead(void **state)
{
    struct metahostrig *r = metahostrig_new(4, 8, 32);
    run_to_rest(r, 60);
    r->now += 3600 * 1000; /* all of them, by a suspended machine */
    metahostrig_run(r, 20000);
    assert_int_equal(groups_of(r, 1)->next_op, 1);
    for (uint64_t id = 1; id <= 4; id++) assert_int_equal(state_of(r, 1, id), METACODE_UP);
    metahostrig_free(r);
}

/* ---- asking */

static void questions_are_answered_with_a_result_or_a_sentence(void **state)
{
    static const struct {
        enum metahost_question q;
        const char *words;
        int rc;
        const char *text;
    } asked[] = {
        {METAHOST_SET, "moves-per-node 5", 0, "set"},
        {METAHOST_SET, "moves-per-node 5", 0, "set"},
        {METAHOST_SET, "moves-per-node 0", -EINVAL, "moves-per-node is a number from 1 to 64, not 0"},
        {METAHOST_SET, "moves-per-node many", -EINVAL, "moves-per-node is a number"},
        {METAHOST_SET, "colour 3", -EINVAL, "there is no setting of that name"},
        {METAHOST_SET, "replication", -EINVAL, "that takes 2 arguments"},
        {METAHOST_LEAVE, "9", -ENOENT, "there is no node 9"},
        {METAHOST_LEAVE, "x", -EINVAL, "that takes 1 arguments, which are numbers"},
        {METAHOST_RETURN, "2", 0, "up"},
        {METAHOST_MOVE, "1 1 2", -EINVAL, "every node has a replica of groups 0 and 1"},
        {METAHOST_MOVE, "77 1 2", -ENOENT, "there is no group 77"},
        {METAHOST_MOVE, "3 1 9", -EINVAL, "node 9 is not known"},
        {METAHOST_MOVE, "3 1 2", -ESTALE, "node 2 is a member of group 3 already"},
        {METAHOST_SPLIT_GROUP, "1", -EINVAL, "groups 0 and 1 hold no keys"},
        {METAHOST_SPLIT_GROUP, "77", -EINVAL, "there is no such group"},
        {METAHOST_SPLIT_GROUP, "2 no", -EINVAL, "a hash is a number of 1 to 16 hex digits"},
        {METAHOST_SPLIT_GROUP, "2 ffffffffffffffff", -EINVAL, "that hash is another group's"},
        {METAHOST_SPACE, "users SIDEWAYS", -EINVAL, "the mode of a key space is HASH, BUCKET or RANGE"},
        {METAHOST_MOVE_RANGE, "users users/a 3", -EINVAL, "the key space has no ranges: SPACE.SET it BUCKET or RANGE first"},
        {METAHOST_SPLIT, "users users/m", -EINVAL, "the key space has no ranges: SPACE.SET it RANGE first"},
        {METAHOST_MERGE, "users users/m", -EINVAL, "the key space has no ranges: SPACE.SET it RANGE first"},
        {METAHOST_SPACE, "users RANGE", 0, ""},
        {METAHOST_SPACE, "users range", 0, ""},
        {METAHOST_SPLIT, "users other/m", -EINVAL, "\"other/m\" is no key of space \"users\": the space of a key is what stands before its last '/', here \"other\""},
        {METAHOST_SPLIT, "users users/m", 0, ""},
        {METAHOST_SPLIT, "users users/m", -EINVAL, "the cut is not inside the range"},
        {METAHOST_MOVE_RANGE, "users users/a there", -EINVAL, "a group is a number"},
        {METAHOST_MERGE, "users users/n", -EINVAL, "no range begins at that key"},
        {METAHOST_MERGE, "users users/m", 0, ""},
        {METAHOST_SPLIT, "users users/m", 0, ""},
        {METAHOST_SPACE, "users BUCKET", 0, ""},
        {METAHOST_MOVE_RANGE, "users users/a 77", -ENOENT, "there is no group 77"},
        {METAHOST_MOVE_RANGE, "users users/a 1", -EINVAL, "groups 0 and 1 hold no keys"},
        {METAHOST_SPACE, "carts/9 HASH", 0, ""},
        {METAHOST_SPACE, "carts/9 RANGE", -EBUSY, "operation 6 (change-mode) is under way there"},
        {METAHOST_SPACE, "carts/17 BUCKET", 0, ""},
        {METAHOST_SPACE, "carts/18 RANGE", 0, ""},
        {METAHOST_LEAD, "77 2", -ENOENT, "there is no group 77"},
        {METAHOST_LEAD, "3 9", -EINVAL, "node 9 does not vote in group 3"},
        {METAHOST_JOIN, "0 h:1 h:2 n -", -EINVAL, "the instance of a node is not 0"},
        {METAHOST_JOIN, "99 h:1 h:2 n1 -", -EEXIST, "node 1 has that name"},
    };
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(3, 4, 40);
    assert_int_equal(metahostrig_ask(r, 1, METAHOST_LEAVE, "1", &a), -EAGAIN); /* nothing is founded */
    run_to_rest(r, 60);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        assert_int_equal(metahostrig_ask(r, 1 + i % 3, asked[i].q, asked[i].words, &a), asked[i].rc);
        assert_string_equal(a.text.p, asked[i].text);
    }
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_STATUS, "", &a), 0);
    assert_non_null(strstr(a.text.p, "node  name  state"));
    assert_non_null(strstr(a.text.p, "group  leader"));
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_NODES, "", &a), 0);
    assert_non_null(strstr(a.text.p, "myself,master"));
    buf_fini(&a.text);
    metahostrig_free(r);
}

/* Whoever was asked plans a change of the map and then has it done. If it is lost in between, the cluster finishes. */
static void what_a_lost_node_had_planned_for_a_key_space_is_done(void **state)
{
    uint32_t planned = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct metahostrig_answer a = {0};
        struct metahostrig *r = metahostrig_new(3, 4, seed);
        run_to_rest(r, 60);
        uint64_t asked = r->groups[META_MAP_GROUP].leader % 3 + 1;
        metahostrig_begin(r, asked, METAHOST_SPACE, "users RANGE", &a);
        for (uint32_t i = 0; i < 2000 && groups_of(r, asked % 3 + 1)->n_ops == 0 && groups_of(r, asked % 3 + 1)->n_ended == 0; i++) metahostrig_step(r);
        planned += groups_of(r, asked % 3 + 1)->n_ops;
        metahostrig_crash(r, asked);
        metahostrig_run(r, 20000);
        const struct metagroups *g = groups_of(r, asked % 3 + 1);
        struct space_info info;
        spaces_info(g->map, SLICE("users"), &info);
        assert_true(g->n_ops == 0 && info.set && info.mode == SPACE_RANGE && info.n_ranges == 1);
        buf_fini(&a.text);
        metahostrig_free(r);
    }
    assert_true(planned > 0);
}

static void note_version(void *ctx, uint64_t version) { *(uint64_t *)ctx = version; }

static uint64_t step_of(struct metahostrig *r, uint64_t node, uint64_t op, enum metaops_step from, enum metaops_step to, const char *boundary)
{
    uint64_t version = UINT64_MAX;
    metahost_step(r->nodes[node].host, op, from, to, slice_str(boundary), 5000, note_version, &version);
    for (uint32_t i = 0; i < 1000 && version == UINT64_MAX; i++) metahostrig_step(r);
    assert_true(version != UINT64_MAX);
    return version;
}

/* A key space is gathered from all groups, and goes to another one: the plan is the same at each step, until the map has what it is for. */
static void who_leads_the_map_knows_what_is_to_be_carried(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(3, 4, 42);
    run_to_rest(r, 60);
    uint64_t leader = r->groups[META_MAP_GROUP].leader, other = leader % 3 + 1;
    assert_int_equal(metahostrig_ask(r, other, METAHOST_SPACE, "users HASH", &a), 0);
    metahostrig_run(r, 1000);
    struct metahost_moves *none = metahost_moves(r->nodes[other].host), *m = metahost_moves(r->nodes[leader].host);
    assert_true(none->term == 0 && none->n == 0);
    metahost_moves_free(none);
    assert_true(m->term == r->groups[META_MAP_GROUP].term && m->n == 1 && m->ops[0].step == METAOPS_WALKING && m->map->version == groups_of(r, leader)->map->version);
    const struct holding_plan *p = &m->ops[0].plan;
    assert_true(p->old_side.n == 1 && !p->old_side.hashed && p->new_side.hashed && p->start.n == 0 && p->end.n == 0 && slice_is(p->space, "users"));
    uint64_t op = p->op;
    uint32_t home = p->old_side.pieces[0].group;
    metahost_moves_free(m);

    uint64_t version = step_of(r, leader, op, METAOPS_WALKING, METAOPS_WALKING, "users/m");
    assert_int_equal(version, groups_of(r, leader)->map->version);
    assert_int_equal(step_of(r, leader, op, METAOPS_WALKING, METAOPS_WALKING, "users/a"), 0); /* it has gone further */
    m = metahost_moves(r->nodes[leader].host);
    assert_true(m->n == 1 && m->ops[0].plan.old_side.n == 1 && m->ops[0].plan.old_side.pieces[0].group == home && m->ops[0].plan.new_side.hashed);
    metahost_moves_free(m);
    assert_true(step_of(r, leader, op, METAOPS_WALKING, METAOPS_CARRIED, "") > version);
    m = metahost_moves(r->nodes[leader].host);
    assert_true(m->n == 1 && m->ops[0].step == METAOPS_CARRIED && m->ops[0].n_groups == 4 && m->ops[0].groups[0] == META_FIRST_DATA_GROUP);
    metahost_moves_free(m);
    assert_true(step_of(r, leader, op, METAOPS_CARRIED, METAOPS_DONE, "") > version);
    m = metahost_moves(r->nodes[leader].host);
    assert_true(m->term && m->n == 0);
    metahost_moves_free(m);
    buf_fini(&a.text);
    metahostrig_free(r);
}

/* Both nodes that are there make it; who was away joins it, or makes it, too, if nobody has told of it yet. */
static void a_new_group_is_made_by_its_first_members_whenever_they_come(void **state)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct metahostrig_answer a = {0};
        struct metahostrig *r = metahostrig_new(3, 4, 50 + seed);
        run_to_rest(r, 60);
        uint64_t away = not_the_leader(r, META_MAP_GROUP);
        metahostrig_crash(r, away);
        metahostrig_run(r, seed % 2 ? 5000 : 100);
        uint64_t leader = r->groups[META_MAP_GROUP].leader;
        assert_int_equal(metahostrig_ask(r, leader, METAHOST_SPLIT_GROUP, "2", &a), 0);
        assert_string_equal(a.text.p, "6");
        metahostrig_run(r, 3000);
        assert_true(r->groups[6].leader && groups_of(r, leader)->groups[6].told.n == 3);
        assert_int_equal(voters_of(r, 6), 3);

        struct metahost_moves *m = metahost_moves(r->nodes[leader].host);
        const struct holding_plan *p = &m->ops[0].plan;
        assert_true(m->n == 1 && m->ops[0].step == METAOPS_PLANNED && p->of_hash && p->first == UINT64_C(1) << 61 && p->last == (UINT64_C(1) << 62) - 1);
        assert_true(p->old_side.pieces[0].group == 2 && p->new_side.pieces[0].group == 6);
        uint64_t op = p->op;
        metahost_moves_free(m);
        assert_true(step_of(r, leader, op, METAOPS_PLANNED, METAOPS_WALKING, ""));
        m = metahost_moves(r->nodes[leader].host);
        assert_true(m->n == 1 && m->ops[0].plan.first == UINT64_C(1) << 61 && m->ops[0].plan.last == (UINT64_C(1) << 62) - 1); /* the same, now that it is cut */
        metahost_moves_free(m);

        metahostrig_start(r, away);
        metahostrig_run(r, 3000);
        assert_true(r->nodes[away].at[6].here);
        assert_true(step_of(r, leader, op, METAOPS_WALKING, METAOPS_CARRIED, "") && step_of(r, leader, op, METAOPS_CARRIED, METAOPS_DONE, ""));
        run_to_rest(r, 60);
        assert_equal_states(r);
        buf_fini(&a.text);
        metahostrig_free(r);
    }
}

static void a_replica_and_a_leadership_are_moved_by_word(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(4, 8, 41);
    run_to_rest(r, 60);
    uint64_t from = r->groups[5].leader, to = 1; /* the leader's own replica */
    while (role_of(r, 5, to) != RAFTNODE_GONE) to++;
    char words[32];
    snprintf(words, sizeof words, "5 %u %u", (unsigned)from, (unsigned)to);
    assert_int_equal(metahostrig_ask(r, 3, METAHOST_MOVE, words, &a), 0);
    assert_string_equal(a.text.p, "1");
    for (uint32_t i = 0; i < 1000 && groups_of(r, 1)->n_ended == 0; i++) metahostrig_step(r);
    assert_int_equal(groups_of(r, 1)->ended[0].step, METAOPS_DONE);
    assert_int_equal(role_of(r, 5, from), RAFTNODE_GONE);
    assert_int_equal(role_of(r, 5, to), RAFTNODE_VOTER);
    assert_true(r->nodes[to].at[5].here);
    metahostrig_run(r, 2000);
    assert_false(r->nodes[from].at[5].here);

    uint64_t heir = 1;
    while (heir == r->groups[6].leader || role_of(r, 6, heir) != RAFTNODE_VOTER) heir++;
    snprintf(words, sizeof words, "6 %u", (unsigned)heir);
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_LEAD, words, &a), 0);
    assert_int_equal(r->groups[6].leader, heir);
    buf_fini(&a.text);
    metahostrig_free(r);
}

/* A leader whose map was old has taken the newcomer for one that nobody wants. */
static void a_newcomer_that_was_removed_again_is_added_again(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(4, 8, 43);
    run_to_rest(r, 60);
    uint64_t from = not_the_leader(r, 5), to = 1;
    while (role_of(r, 5, to) != RAFTNODE_GONE) to++;
    char words[32];
    snprintf(words, sizeof words, "5 %u %u", (unsigned)from, (unsigned)to);
    assert_int_equal(metahostrig_ask(r, 3, METAHOST_MOVE, words, &a), 0);
    struct metahostrig_group *g = &r->groups[5];
    for (uint32_t i = 0; i < 1000 && role_of(r, 5, from) != RAFTNODE_GONE; i++) metahostrig_step(r);
    assert_true(groups_of(r, g->leader)->n_ops == 1 && groups_of(r, g->leader)->ops[0]->step == METAOPS_ADDED);
    struct raftnode_members m = *metahostrig_members(g, g->n);
    meta_members_set(&m, to, RAFTNODE_GONE);
    m.index = g->n + 1;
    metahostrig_append(g, RAFTNODE_CHANGE)->members = m;
    run_to_rest(r, 60);
    assert_int_equal(groups_of(r, 1)->ended[0].step, METAOPS_DONE);
    assert_true(role_of(r, 5, to) == RAFTNODE_VOTER && role_of(r, 5, from) == RAFTNODE_GONE);
    buf_fini(&a.text);
    metahostrig_free(r);
}

static void a_proposal_survives_changes_of_leaders_and_is_applied_once(void **state)
{
    uint64_t repeated = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct metahostrig_answer a[40] = {0};
        struct metahostrig *r = metahostrig_new(3, 2, seed);
        run_to_rest(r, 60);
        r->loss = 30;
        uint64_t version = nodes_of(r, 1)->version, before = r->proposals;
        for (uint32_t i = 0; i < 1000; i++) {
            char value[8];
            snprintf(value, sizeof value, "%u", i % 64 + 1);
            const struct slice argv[] = {SLICE("moves-per-node"), slice_str(value)};
            if (i < 40) metahost_ask(r->nodes[1 + seed % 3].host, METAHOST_SET, argv, 2, 60000, metahostrig_answered, &a[i]); /* more than the window, when nobody leads for long */
            metahostrig_step(r);
            if (i < 100 && rng_below(&r->rng, 4) && r->groups[0].leader) metahostrig_unseat(r, 0);
        }
        r->loss = 0;
        metahostrig_run(r, 3000);
        uint32_t done = 0;
        for (uint32_t i = 0; i < 40; i++) {
            assert_int_equal(a[i].n, 1);
            assert_int_equal(a[i].rc, 0);
            buf_fini(&a[i].text);
            done++;
        }
        /* Each was another value than the one before it, or came beside it in another order: none counts twice. */
        assert_true(nodes_of(r, 1)->version - version <= done);
        assert_true(nodes_of(r, 1)->version - version >= done / 2);
        repeated += r->proposals - before - done;

        assert_equal_states(r);
        metahostrig_free(r);
    }
    assert_true(repeated > 50);
}

static void a_question_that_nobody_can_decide_times_out(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(3, 2, 43);
    run_to_rest(r, 60);
    metahostrig_crash(r, 1);
    metahostrig_crash(r, 2);
    assert_int_equal(metahostrig_ask(r, 3, METAHOST_LEAVE, "1", &a), -ETIMEDOUT);
    assert_non_null(strstr(a.text.p, "may yet happen"));
    const struct slice two[] = {SLICE("3"), SLICE("1")};
    a.n = 0;
    metahost_ask(r->nodes[3].host, METAHOST_LEAD, two, 2, 60000, metahostrig_answered, &a);
    metahostrig_crash(r, 3); /* whoever waits is told */
    assert_int_equal(a.n, 1);
    assert_int_equal(a.rc, -ESHUTDOWN);
    buf_fini(&a.text);
    metahostrig_free(r);
}

/* ---- what others send */

static void frames_that_make_no_sense_are_refused(void **state)
{
    struct metahostrig *r = metahostrig_new(3, 2, 50);
    run_to_rest(r, 60);
    static const char *const bad[][4] = {{"PROPOSE", "0", "\1entry"}, {"PROPOSE", "2", "\1entry"}, {"LEAD", "x", "1", "why"}, {"LEAD", "1"}, {"GONE"}, {"HELLO", "1"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct slice argv[4];
        uint32_t argc = 0;
        while (argc < 4 && bad[i][argc]) argv[argc] = slice_str(bad[i][argc]), argc++;
        struct wirecall_request q = {.id = 1, .resp = 3, .argc = argc};
        struct buf b = {0};
        struct wire_frame f;
        const char *why;
        wirecall_add_request(&b, 0, &q, argv);
        assert_int_equal(wire_frame(buf_slice(&b), &f, &why), WIRE_OK);
        assert_int_equal(metahost_frame(r->nodes[1].host, 2, &f), -EBADMSG);
        f.type = WIRE_ANSWER;
        assert_int_equal(metahost_frame(r->nodes[1].host, 2, &f), -EBADMSG);
        f.type = WIRE_STATUS;
        assert_int_equal(metahost_frame(r->nodes[1].host, 2, &f), -EBADMSG);
        buf_fini(&b);
    }
    metahostrig_free(r);
}

/* ---- anything */

static uint64_t count_up(struct metahostrig *r)
{
    uint64_t n = 0;
    for (uint64_t id = 1; id <= METAHOSTRIG_NODES; id++) n += r->nodes[id].up;
    return n;
}

static void disturb(struct metahostrig *r, uint64_t *next, uint32_t *counts, struct metahostrig_answer *a)
{
    uint64_t id = 1 + rng_below(&r->rng, *next - 1);
    struct metahostrig_node *n = &r->nodes[id];
    char words[128];
    switch (rng_below(&r->rng, 8)) {
    case 0:
        if (n->up && count_up(r) > 3) metahostrig_crash(r, id), counts[0]++;
        break;
    case 1:
    case 2:
        if (!n->up && n->exists && !n->failed) metahostrig_start(r, id), counts[1]++;
        break;
    case 3:
        if (n->up) metahostrig_save(r, id), counts[2]++;
        break;
    case 4: metahostrig_install(r, (uint32_t)rng_below(&r->rng, 2), first_up(r), id); break;
    case 5:
        if (*next > 7 || !groups_of(r, first_up(r))->version) break;
        snprintf(words, sizeof words, "%u 10.0.0.%u:7001 10.0.0.%u:6379 n%u -", 100 + (unsigned)*next, (unsigned)*next, (unsigned)*next, (unsigned)*next);
        if (metahostrig_ask(r, first_up(r), METAHOST_JOIN, words, a) == 0) metahostrig_start(r, (*next)++), counts[3]++;
        break;
    case 6: {
        uint32_t group = (uint32_t)rng_below(&r->rng, 8);
        if (r->groups[group].leader) metahostrig_unseat(r, group), counts[4]++;
        break;
    }
    default:
        snprintf(words, sizeof words, "%u", (unsigned)id);
        if (rng_below(&r->rng, 4) == 0 && count_up(r) > 4) counts[5] += metahostrig_ask(r, first_up(r), METAHOST_LEAVE, words, a) == 0;
    }
}

static void whatever_happens_all_come_to_rest_with_equal_states(void **state)
{
    uint32_t counts[6] = {0};
    uint64_t moves = 0, drops = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct metahostrig_answer a = {0};
        struct metahostrig *r = metahostrig_new(3 + seed % 3, 6, seed * 77);
        uint64_t next = r->founders + 1;
        metahostrig_run(r, 3000);
        r->loss = 10;
        for (uint32_t i = 0; i < 60; i++) {
            disturb(r, &next, counts, &a);
            metahostrig_run(r, rng_below(&r->rng, 4000));
        }
        r->loss = 0;
        for (uint64_t id = 1; id < next; id++)
            if (!r->nodes[id].up && !r->nodes[id].failed) metahostrig_start(r, id);
        metahostrig_run(r, 10000);
        run_to_rest(r, 600);
        metahostrig_run(r, 10000);
        assert_equal_states(r);
        for (uint32_t g = 0; g < 8; g++) assert_true(voters_of(r, g) == 3);
        moves += groups_of(r, first_up(r))->next_op;
        for (uint64_t id = 1; id < next; id++) drops += r->nodes[id].drops;
        buf_fini(&a.text);
        metahostrig_free(r);
    }
    for (int i = 0; i < 6; i++) assert_true(counts[i] > 5);
    assert_true(moves > 100 && drops > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_nodes_found_one_cluster_whoever_leads),
        cmocka_unit_test(founders_beyond_the_voters_follow_groups_0_and_1),
        cmocka_unit_test(a_founding_that_is_lost_with_its_leader_is_made_again),
        cmocka_unit_test(a_node_joins_and_gets_its_share),
        cmocka_unit_test(more_nodes_than_a_group_has_members_are_refused),
        cmocka_unit_test(a_node_that_leaves_is_drained_and_then_gone),
        cmocka_unit_test(leaving_can_be_called_off),
        cmocka_unit_test(a_dead_node_is_replaced_after_the_time_out_and_gone_then),
        cmocka_unit_test(a_node_that_is_dead_for_good_is_removed_by_word),
        cmocka_unit_test(a_short_silence_moves_nothing),
        cmocka_unit_test(a_process_that_stood_still_takes_nobody_for_dead),
        cmocka_unit_test(questions_are_answered_with_a_result_or_a_sentence),
        cmocka_unit_test(what_a_lost_node_had_planned_for_a_key_space_is_done),
        cmocka_unit_test(who_leads_the_map_knows_what_is_to_be_carried),
        cmocka_unit_test(a_new_group_is_made_by_its_first_members_whenever_they_come),
        cmocka_unit_test(a_replica_and_a_leadership_are_moved_by_word),
        cmocka_unit_test(a_newcomer_that_was_removed_again_is_added_again),
        cmocka_unit_test(a_proposal_survives_changes_of_leaders_and_is_applied_once),
        cmocka_unit_test(a_question_that_nobody_can_decide_times_out),
        cmocka_unit_test(frames_that_make_no_sense_are_refused),
        cmocka_unit_test(whatever_happens_all_come_to_rest_with_equal_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
