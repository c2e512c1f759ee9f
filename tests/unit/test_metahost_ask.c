/* What nodes of a cluster are asked: for an answer, for a change of the map, or for a move. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metahostrig.h"

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
        {METAHOST_SET, "colour 3", -EINVAL, "there is no setting of that name, but replication, dead-after-ms, moves-per-node"},
        {METAHOST_SET, "replication", -EINVAL, "what it takes is a setting and a number"},
        {METAHOST_LEAVE, "9", -ENOENT, "there is no node 9"},
        {METAHOST_LEAVE, "x", -EINVAL, "what it takes is the number of a node"},
        {METAHOST_RETURN, "2", 0, "up"},
        {METAHOST_MOVE, "1 1 2", -EINVAL, "every node has a replica of groups 0 and 1"},
        {METAHOST_MOVE, "77 1 2", -ENOENT, "there is no group 77"},
        {METAHOST_MOVE, "3 1 9", -EINVAL, "node 9 is not known"},
        {METAHOST_MOVE, "3 1 2", -EINVAL, "node 2 is a member of group 3 already"},
        {METAHOST_SPLIT_GROUP, "1", -EINVAL, "groups 0 and 1 hold no keys"},
        {METAHOST_SPLIT_GROUP, "77", -EINVAL, "there is no such group"},
        {METAHOST_SPLIT_GROUP, "2 no", -EINVAL, "a hash is a number of 1 to 16 hex digits"},
        {METAHOST_SPLIT_GROUP, "2 ffffffffffffffff", -EINVAL, "that hash is another group's"},
        {METAHOST_SPACE, "users SIDEWAYS", -EINVAL, "the mode of a key space is HASH, BUCKET or RANGE"},
        {METAHOST_MOVE_RANGE, "users users/a 3", -EINVAL, "the key space has no ranges: SPACE.SET it BUCKET or RANGE first"},
        {METAHOST_SPLIT, "users users/m", -EINVAL, "space \"users\" was never given a mode: SPACE.SET does that"},
        {METAHOST_MERGE, "users users/m", -EINVAL, "space \"users\" was never given a mode: SPACE.SET does that"},
        {METAHOST_SPACE, "users RANGE", 0, ""},
        {METAHOST_SPACE, "users range", 0, ""},
        {METAHOST_SPLIT, "users other/m", -EINVAL, "\"other/m\" is no key of space \"users\": the space of a key is what stands before its last '/', here \"other\""},
        {METAHOST_SPLIT, "users users/m", 0, ""},
        {METAHOST_SPLIT, "users users/m", -EINVAL, "a range begins at \"users/m\" already: id 6"},
        {METAHOST_MOVE_RANGE, "users users/a there", -EINVAL, "a group is a number"},
        {METAHOST_MOVE_RANGE, "users other/a 3", -EINVAL, "\"other/a\" is no key of space \"users\": the space of a key is what stands before its last '/', here \"other\""},
        {METAHOST_MERGE, "users users/n", -EINVAL, "no range of space \"users\" begins at \"users/n\": the one that holds it begins at \"users/m\""},
        {METAHOST_MERGE, "users users/a", -EINVAL, "\"users/a\" is in the first range of space \"users\", which has none before it"},
        {METAHOST_MERGE, "users users/m", 0, ""},
        {METAHOST_SPLIT, "users users/m", 0, ""},
        {METAHOST_SPACE, "users BUCKET", 0, ""},
        {METAHOST_MERGE, "users users/m", -EINVAL, "space \"users\" has no ranges: its mode is bucket; SPACE.SET \"users\" RANGE gives it some"},
        {METAHOST_MOVE_RANGE, "users - 77", -ENOENT, "there is no group 77"},
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
    metahostrig_run_to_rest(r, 60);
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
        metahostrig_run_to_rest(r, 60);
        uint64_t asked = r->groups[META_MAP_GROUP].leader % 3 + 1;
        metahostrig_begin(r, asked, METAHOST_SPACE, "users RANGE", &a);
        for (uint32_t i = 0; i < 2000 && metahostrig_groups(r, asked % 3 + 1)->n_ops == 0 && metahostrig_groups(r, asked % 3 + 1)->n_ended == 0; i++) metahostrig_step(r);
        planned += metahostrig_groups(r, asked % 3 + 1)->n_ops;
        metahostrig_crash(r, asked);
        metahostrig_run(r, 20000);
        const struct metagroups *g = metahostrig_groups(r, asked % 3 + 1);
        struct space_info info;
        spaces_info(g->map, SLICE("users"), &info);
        assert_true(g->n_ops == 0 && info.set && info.mode == SPACE_RANGE && info.n_ranges == 1);
        buf_fini(&a.text);
        metahostrig_free(r);
    }
    assert_true(planned > 0);
}

static void a_replica_is_moved_only_to_a_node_that_has_a_seat_for_it(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(4, 4, 43);
    metahostrig_run_to_rest(r, 60);
    const struct raftnode_members *m = &metagroups_find(metahostrig_groups(r, 1), 3)->wanted;
    uint64_t from = m->m[0].node, to = 1;
    while (meta_members_has(m, to)) to++;
    char words[32], text[96];
    snprintf(words, sizeof words, "3 %u %u", (unsigned)from, (unsigned)to);
    snprintf(text, sizeof text, "node %u has no room for another replica: cluster-seats is too small", (unsigned)to);
    r->seats = 3; /* all of them have three replicas */
    metahostrig_crash(r, 1);
    metahostrig_start(r, 1);
    metahostrig_run_to_rest(r, 60);
    assert_int_equal(metahostrig_ask(r, 1, METAHOST_MOVE, words, &a), -ENOSPC);
    assert_string_equal(a.text.p, text);
    r->seats = 4;
    metahostrig_crash(r, 1);
    metahostrig_start(r, 1);
    metahostrig_run_to_rest(r, 60);
    assert_int_equal(metahostrig_ask(r, 1, METAHOST_MOVE, words, &a), 0);
    buf_fini(&a.text);
    metahostrig_free(r);
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
    metahostrig_run_to_rest(r, 60);
    uint64_t leader = r->groups[META_MAP_GROUP].leader, other = leader % 3 + 1;
    assert_int_equal(metahostrig_ask(r, other, METAHOST_SPACE, "users HASH", &a), 0);
    metahostrig_run(r, 1000);
    struct metahost_moves *none = metahost_moves(r->nodes[other].host), *m = metahost_moves(r->nodes[leader].host);
    assert_true(none->term == 0 && none->n == 0);
    metahost_moves_free(none);
    assert_true(m->term == r->groups[META_MAP_GROUP].term && m->n == 1 && m->ops[0].step == METAOPS_WALKING && m->map->version == metahostrig_groups(r, leader)->map->version);
    const struct holding_plan *p = &m->ops[0].plan;
    assert_true(p->old_side.n == 1 && !p->old_side.hashed && p->new_side.hashed && p->start.n == 0 && p->end.n == 0 && slice_is(p->space, "users"));
    uint64_t op = p->op;
    uint32_t home = p->old_side.pieces[0].group;
    metahost_moves_free(m);

    uint64_t version = step_of(r, leader, op, METAOPS_WALKING, METAOPS_WALKING, "users/m");
    assert_int_equal(version, metahostrig_groups(r, leader)->map->version);
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
        metahostrig_run_to_rest(r, 60);
        uint64_t away = metahostrig_not_the_leader(r, META_MAP_GROUP);
        metahostrig_crash(r, away);
        metahostrig_run(r, seed % 2 ? 5000 : 100);
        uint64_t leader = r->groups[META_MAP_GROUP].leader;
        assert_int_equal(metahostrig_ask(r, leader, METAHOST_SPLIT_GROUP, "2", &a), 0);
        assert_string_equal(a.text.p, "6");
        metahostrig_run(r, 3000);
        assert_true(r->groups[6].leader && metahostrig_groups(r, leader)->groups[6].told.n == 3);
        assert_int_equal(metahostrig_voters(r, 6), 3);

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
        metahostrig_run_to_rest(r, 60);
        metahostrig_assert_equal_states(r);
        buf_fini(&a.text);
        metahostrig_free(r);
    }
}

static void a_replica_and_a_leadership_are_moved_by_word(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(4, 8, 41);
    metahostrig_run_to_rest(r, 60);
    uint64_t from = r->groups[5].leader, to = 1; /* the leader's own replica */
    while (metahostrig_role(r, 5, to) != RAFTNODE_GONE) to++;
    char words[32];
    snprintf(words, sizeof words, "5 %u %u", (unsigned)from, (unsigned)to);
    assert_int_equal(metahostrig_ask(r, 3, METAHOST_MOVE, words, &a), 0);
    assert_string_equal(a.text.p, "1");
    for (uint32_t i = 0; i < 1000 && metahostrig_groups(r, 1)->n_ended == 0; i++) metahostrig_step(r);
    assert_int_equal(metahostrig_groups(r, 1)->ended[0].step, METAOPS_DONE);
    assert_int_equal(metahostrig_role(r, 5, from), RAFTNODE_GONE);
    assert_int_equal(metahostrig_role(r, 5, to), RAFTNODE_VOTER);
    assert_true(r->nodes[to].at[5].here);
    metahostrig_run(r, 2000);
    assert_false(r->nodes[from].at[5].here);

    uint64_t heir = 1;
    while (heir == r->groups[6].leader || metahostrig_role(r, 6, heir) != RAFTNODE_VOTER) heir++;
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
    metahostrig_run_to_rest(r, 60);
    uint64_t from = metahostrig_not_the_leader(r, 5), to = 1;
    while (metahostrig_role(r, 5, to) != RAFTNODE_GONE) to++;
    char words[32];
    snprintf(words, sizeof words, "5 %u %u", (unsigned)from, (unsigned)to);
    assert_int_equal(metahostrig_ask(r, 3, METAHOST_MOVE, words, &a), 0);
    struct metahostrig_group *g = &r->groups[5];
    for (uint32_t i = 0; i < 1000 && metahostrig_role(r, 5, from) != RAFTNODE_GONE; i++) metahostrig_step(r);
    assert_true(metahostrig_groups(r, g->leader)->n_ops == 1 && metahostrig_groups(r, g->leader)->ops[0]->step == METAOPS_ADDED);
    struct raftnode_members m = *metahostrig_members(g, g->n);
    meta_members_set(&m, to, RAFTNODE_GONE);
    m.index = g->n + 1;
    metahostrig_append(g, RAFTNODE_CHANGE)->members = m;
    metahostrig_run_to_rest(r, 60);
    assert_int_equal(metahostrig_groups(r, 1)->ended[0].step, METAOPS_DONE);
    assert_true(metahostrig_role(r, 5, to) == RAFTNODE_VOTER && metahostrig_role(r, 5, from) == RAFTNODE_GONE);
    buf_fini(&a.text);
    metahostrig_free(r);
}

static void a_proposal_survives_changes_of_leaders_and_is_applied_once(void **state)
{
    uint64_t repeated = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct metahostrig_answer a[40] = {0};
        struct metahostrig *r = metahostrig_new(3, 2, seed);
        metahostrig_run_to_rest(r, 60);
        r->loss = 30;
        uint64_t version = metahostrig_nodes(r, 1)->version, before = r->proposals;
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
        assert_true(metahostrig_nodes(r, 1)->version - version <= done);
        assert_true(metahostrig_nodes(r, 1)->version - version >= done / 2);
        repeated += r->proposals - before - done;

        metahostrig_assert_equal_states(r);
        metahostrig_free(r);
    }
    assert_true(repeated > 50);
}

/* Its answer needs nobody else. */
static int ask_at_once(struct metahostrig *r, uint64_t node, enum metahost_question q, const struct slice *argv, uint32_t argc, struct metahostrig_answer *a)
{
    a->n = 0;
    metahost_ask(r->nodes[node].host, q, argv, argc, 5000, metahostrig_answered, a);
    assert_int_equal(a->n, 1);
    return a->rc;
}

/* What is too long for an entry never becomes one: whoever is asked says so, leader of the group or not. */
static void words_that_are_too_long_are_refused(void **state)
{
    static const size_t lengths[] = {META_KEY_MAX + 1, UINT16_MAX, UINT16_MAX + 1, 2 * WIRECALL_PIECE, META_ENTRY_MAX + 1};
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(3, 4, 44);
    char *word = mem_alloc(META_ENTRY_MAX + 1);
    memset(word, 'k', META_ENTRY_MAX + 1);
    memcpy(word, "users/", 6);
    metahostrig_run_to_rest(r, 60);
    assert_int_equal(metahostrig_ask(r, 1, METAHOST_SPACE, "users RANGE", &a), 0);
    metahostrig_run_to_rest(r, 60);
    uint64_t proposals = r->proposals;
    for (uint64_t node = 1; node <= 3; node++) {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            assert_int_equal(ask_at_once(r, node, METAHOST_SPLIT, (struct slice[]){SLICE("users"), slice_of(word, lengths[i])}, 2, &a), -EINVAL);
            assert_string_equal(a.text.p, "a cluster's ranges are split at keys of at most 4096 bytes");
            assert_int_equal(ask_at_once(r, node, METAHOST_SPACE, (struct slice[]){slice_of(word, lengths[i]), SLICE("HASH")}, 2, &a), -EINVAL);
        }
        for (uint32_t long_one = 1; long_one < 5; long_one++) {
            struct slice is[] = {SLICE("99"), SLICE("h:1"), SLICE("h:2"), SLICE("n"), SLICE("z")};
            memcpy(word + META_TEXT_MAX - 1, ":1", 2);
            is[long_one] = slice_of(word, META_TEXT_MAX + 1);
            assert_int_equal(ask_at_once(r, node, METAHOST_JOIN, is, 5, &a), -EINVAL);
            assert_string_equal(a.text.p, "an address, the name and the zone of a node have at most 255 bytes each");
        }
    }
    assert_int_equal(r->proposals, proposals);
    mem_free(word);
    buf_fini(&a.text);
    metahostrig_free(r);
}

static void a_question_that_nobody_can_decide_times_out(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(3, 2, 43);
    metahostrig_run_to_rest(r, 60);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replica_is_moved_only_to_a_node_that_has_a_seat_for_it),
        cmocka_unit_test(questions_are_answered_with_a_result_or_a_sentence),
        cmocka_unit_test(what_a_lost_node_had_planned_for_a_key_space_is_done),
        cmocka_unit_test(who_leads_the_map_knows_what_is_to_be_carried),
        cmocka_unit_test(a_new_group_is_made_by_its_first_members_whenever_they_come),
        cmocka_unit_test(a_replica_and_a_leadership_are_moved_by_word),
        cmocka_unit_test(a_newcomer_that_was_removed_again_is_added_again),
        cmocka_unit_test(a_proposal_survives_changes_of_leaders_and_is_applied_once),
        cmocka_unit_test(words_that_are_too_long_are_refused),
        cmocka_unit_test(a_question_that_nobody_can_decide_times_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
