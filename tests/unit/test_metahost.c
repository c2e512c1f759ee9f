/* Nodes found a cluster, join it, leave it and die, and all that are left agree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metahostrig.h"

/* ---- looking at the whole */

static enum metacode_node_state state_of(struct metahostrig *r, uint64_t at, uint64_t id)
{
    const struct metanodes_node *n = metanodes_find(metahostrig_nodes(r, at), id);
    assert_non_null(n);
    return n->state;
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

static int join(struct metahostrig *r, uint64_t through, uint64_t id, struct metahostrig_answer *a)
{
    char words[128];
    snprintf(words, sizeof words, "%u 10.0.0.%u:7001 10.0.0.%u:6379 n%u -", 100 + (unsigned)id, (unsigned)id, (unsigned)id, (unsigned)id);
    return metahostrig_ask(r, through, METAHOST_JOIN, words, a);
}

/* ---- founding */

static void three_nodes_found_one_cluster_whoever_leads(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct metahostrig *r = metahostrig_new(3, 16, seed);
        metahostrig_run_to_rest(r, 60);
        metahostrig_assert_equal_states(r);
        assert_int_equal(metahostrig_nodes(r, 1)->n, 3);
        assert_int_equal(metahostrig_groups(r, 1)->n, 18);
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
    metahostrig_run_to_rest(r, 60);
    metahostrig_assert_equal_states(r);
    for (uint32_t g = 0; g < 2; g++) {
        assert_int_equal(metahostrig_voters(r, g), 3);
        for (uint64_t id = 1; id <= 5; id++) assert_true(metahostrig_role(r, g, id) >= RAFTNODE_STANDBY);
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
        again += metahostrig_groups(r, 1)->version == 0;
        metahostrig_run_to_rest(r, 60);
        metahostrig_assert_equal_states(r);
        metahostrig_free(r);
    }
    assert_true(again > 0);
}

/* ---- joining */

static void a_node_joins_and_gets_its_share(void **state)
{
    struct metahostrig_answer a = {0}, b = {0};
    struct metahostrig *r = metahostrig_new(3, 16, 5);
    metahostrig_run_to_rest(r, 60);
    assert_int_equal(join(r, metahostrig_not_the_leader(r, 0), 4, &a), 0);
    /* The answer was lost: it asks again, another one. */
    assert_int_equal(join(r, r->groups[0].leader, 4, &b), 0);
    assert_string_equal(a.text.p, b.text.p);
    assert_string_equal(a.text.p, "node 4\ncluster 6120636c7573746572206f66206f7500\nseed 0000000000000007\npeer 1 10.0.0.1:7001\npeer 2 10.0.0.2:7001\npeer 3 10.0.0.3:7001\n");
    metahostrig_start(r, 4);
    metahostrig_run_to_rest(r, 300);
    metahostrig_assert_equal_states(r);
    for (uint32_t g = 0; g < 2; g++) {
        assert_int_equal(metahostrig_role(r, g, 4), RAFTNODE_STANDBY);
        assert_int_equal(metahostrig_voters(r, g), 3);
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
    metahostrig_run_to_rest(r, 60);
    for (uint64_t id = 4; id <= RAFTNODE_MEMBERS_MAX; id++) assert_int_equal(join(r, 1, id, &a), 0);
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_JOIN, "200 h:1 h:2 late -", &a), -ENOSPC);
    assert_string_equal(a.text.p, "a cluster has at most 16 nodes");
    assert_int_equal(join(r, 2, 9, &a), 0); /* who is in is told so */
    assert_non_null(strstr(a.text.p, "node 9\n"));
    buf_fini(&a.text);
    metahostrig_free(r);
}

static void a_node_that_cannot_be_reached_gets_nothing_until_it_can(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(3, 16, 7);
    metahostrig_run_to_rest(r, 60);
    assert_int_equal(join(r, 2, 4, &a), 0);
    r->nodes[4].unreachable = true;
    metahostrig_start(r, 4);
    metahostrig_run(r, 20000);
    assert_true(metahost_alive(r->nodes[1].host, 4));
    assert_int_equal(replicas_of(r, 4), 0);
    assert_int_equal(metahostrig_groups(r, 1)->next_op, 1);
    assert_int_equal(metahostrig_ask(r, 1, METAHOST_STATUS, "", &a), 0);
    assert_non_null(strstr(a.text.p, "up, unreachable"));
    r->nodes[4].unreachable = false;
    metahostrig_run_to_rest(r, 300);
    assert_int_equal(replicas_of(r, 4), 12);
    assert_int_equal(metahostrig_ask(r, 1, METAHOST_STATUS, "", &a), 0);
    assert_null(strstr(a.text.p, "unreachable"));
    buf_fini(&a.text);
    metahostrig_free(r);
}

static void a_node_that_cannot_be_reached_can_leave(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(3, 4, 8);
    metahostrig_run_to_rest(r, 60);
    assert_int_equal(join(r, 2, 4, &a), 0);
    r->nodes[4].unreachable = true;
    metahostrig_start(r, 4);
    metahostrig_run(r, 5000);
    assert_int_equal(metahostrig_ask(r, 1, METAHOST_LEAVE, "4", &a), 0);
    metahostrig_run(r, 10000);
    assert_int_equal(state_of(r, 1, 4), METACODE_GONE);
    buf_fini(&a.text);
    metahostrig_free(r);
}

/* ---- leaving */

static void a_node_that_leaves_is_drained_and_then_gone(void **state)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct metahostrig_answer a = {0};
        struct metahostrig *r = metahostrig_new(4, 8, seed);
        metahostrig_run_to_rest(r, 60);
        uint64_t leaver = 1 + seed % 4;
        char word[8];
        snprintf(word, sizeof word, "%u", (unsigned)leaver);
        assert_int_equal(metahostrig_ask(r, 1 + (seed + 1) % 4, METAHOST_LEAVE, word, &a), 0);
        assert_string_equal(a.text.p, "draining");
        for (uint32_t i = 0; i < 4000 && r->nodes[leaver].up; i++) metahostrig_step(r);
        assert_false(r->nodes[leaver].up); /* it found that it is gone, and ended */
        assert_true(r->nodes[leaver].failed);
        metahostrig_run_to_rest(r, 60);
        metahostrig_run(r, 10000);
        metahostrig_assert_equal_states(r);
        assert_int_equal(state_of(r, metahostrig_first_up(r), leaver), METACODE_GONE);
        for (uint32_t g = 0; g < 10; g++) {
            assert_int_equal(metahostrig_role(r, g, leaver), RAFTNODE_GONE);
            assert_int_equal(metahostrig_voters(r, g), 3);
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
    metahostrig_run_to_rest(r, 60);
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_LEAVE, "3", &a), 0);
    metahostrig_run(r, 1500);
    assert_int_equal(state_of(r, 1, 3), METACODE_DRAINING);
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_RETURN, "3", &a), 0);
    metahostrig_run_to_rest(r, 300);
    assert_int_equal(state_of(r, 1, 3), METACODE_UP);
    for (uint64_t id = 1; id <= 4; id++) assert_int_equal(replicas_of(r, id), 6);
    buf_fini(&a.text);
    metahostrig_free(r);
}

/* Each of the two is asked while the other one stays, as far as it knows. */
static void of_the_last_two_nodes_one_leaves(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct metahostrig_answer a = {0}, b = {0};
        struct metahostrig *r = metahostrig_new(2, 4, seed);
        metahostrig_run_to_rest(r, 60);
        metahostrig_begin(r, 1, METAHOST_LEAVE, "2", &a);
        metahostrig_begin(r, 2, METAHOST_LEAVE, "1", &b);
        for (uint32_t i = 0; i < 300 && (!a.n || !b.n); i++) metahostrig_step(r);
        assert_true(a.n == 1 && b.n == 1);
        assert_true((a.rc == 0) != (b.rc == 0));
        assert_string_equal(a.rc ? a.text.p : b.text.p, "no other node would be left");
        metahostrig_run(r, 500);
        assert_true((state_of(r, 1, 1) == METACODE_UP) != (state_of(r, 1, 2) == METACODE_UP));
        buf_fini(&a.text);
        buf_fini(&b.text);
        metahostrig_free(r);
    }
}

/* ---- dying */

static void a_dead_node_is_replaced_after_the_time_out_and_gone_then(void **state)
{
    for (uint64_t dead = 1; dead <= 4; dead++) {
        struct metahostrig_answer a = {0};
        struct metahostrig *r = metahostrig_new(4, 8, 20 + dead);
        metahostrig_run_to_rest(r, 60);
        assert_int_equal(metahostrig_ask(r, 1, METAHOST_SET, "dead-after-ms 20000", &a), 0);
        metahostrig_run(r, 1000); /* everybody knows */
        metahostrig_crash(r, dead);
        uint64_t other = dead % 4 + 1;
        metahostrig_run(r, 15000);
        assert_false(metahost_alive(r->nodes[other].host, dead));
        assert_int_equal(metahostrig_groups(r, other)->n_ops, 0); /* not yet */
        assert_int_equal(metahostrig_groups(r, other)->next_op, 1);
        metahostrig_run(r, 10000);
        metahostrig_run_to_rest(r, 300);
        metahostrig_assert_equal_states(r);
        for (uint32_t g = 0; g < 10; g++) {
            assert_int_equal(metahostrig_voters(r, g), 3);
            assert_int_not_equal(metahostrig_role(r, g, dead), RAFTNODE_VOTER);
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

static void a_node_that_has_just_died_is_handed_no_leadership(void **state)
{
    for (uint64_t dead = 1; dead <= 3; dead++) {
        struct metahostrig_answer a = {0};
        struct metahostrig *r = metahostrig_new(3, 16, 40 + dead);
        metahostrig_run_to_rest(r, 60);
        uint64_t other = dead % 3 + 1;
        assert_true(leads_of(r, dead) >= 4);
        metahostrig_crash(r, dead);
        metahostrig_run(r, 2500);
        assert_true(metahost_alive(r->nodes[other].host, dead)); /* still: nobody has missed it yet */
        assert_int_equal(leads_of(r, dead), 0);                  /* so it seems to be the one to be given some */
        metahostrig_run(r, 5000);
        assert_int_equal(r->vain, 0);
        assert_int_equal(metahostrig_ask(r, other, METAHOST_STATUS, "", &a), 0);
        assert_non_null(strstr(a.text.p, "up, silent"));
        buf_fini(&a.text);
        metahostrig_free(r);
    }
}

static void a_node_that_has_just_fallen_silent_is_handed_no_leadership(void **state)
{
    for (uint64_t silent = 1; silent <= 3; silent++) {
        struct metahostrig *r = metahostrig_new(3, 16, 60 + silent);
        metahostrig_run_to_rest(r, 60);
        uint64_t other = silent % 3 + 1;
        metahostrig_crash(r, silent);
        metahostrig_run(r, 1000);
        metahostrig_start(r, silent);
        r->nodes[silent].silent = true;
        metahostrig_run(r, 1500);
        assert_true(metahost_alive(r->nodes[other].host, silent) && metahost_reaches(r->nodes[other].host, silent)); /* as far as one can tell */
        assert_int_equal(leads_of(r, silent), 0);
        metahostrig_run(r, 5000);
        assert_int_equal(r->vain, 0);
        r->nodes[silent].silent = false;
        metahostrig_run_to_rest(r, 60);
        assert_true(leads_of(r, silent) >= 4);
        metahostrig_free(r);
    }
}

static void nobody_is_asked_to_lead_who_does_not_answer(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(3, 4, 70);
    metahostrig_run_to_rest(r, 60);
    uint64_t leader = r->groups[2].leader, to = leader % 3 + 1;
    char words[32];
    snprintf(words, sizeof words, "2 %u", (unsigned)to);
    r->nodes[to].silent = true;
    assert_true(metahostrig_ask(r, leader, METAHOST_LEAD, words, &a) < 0);
    assert_int_equal(r->vain, 0);
    assert_int_equal(r->groups[2].leader, leader);
    r->nodes[to].silent = false;
    metahostrig_run(r, 1000);
    assert_int_equal(metahostrig_ask(r, leader, METAHOST_LEAD, words, &a), 0);
    assert_int_equal(r->groups[2].leader, to);
    buf_fini(&a.text);
    metahostrig_free(r);
}

static void a_leader_that_is_silent_is_not_shown_as_one(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(3, 4, 50);
    metahostrig_run_to_rest(r, 60);
    uint64_t leader = r->groups[2].leader, last = leader % 3 + 1, first = last % 3 + 1;
    metahostrig_crash(r, first);
    metahostrig_crash(r, leader);
    metahostrig_run(r, 5000);
    assert_int_equal(metahost_live_leader(r->nodes[last].host, 2), 0);
    assert_int_equal(metahostrig_ask(r, last, METAHOST_STATUS, "", &a), 0);
    assert_non_null(strstr(a.text.p, "2      ?       1 2 3"));
    buf_fini(&a.text);
    metahostrig_free(r);
}

static void a_node_that_is_dead_for_good_is_removed_by_word(void **state)
{
    struct metahostrig_answer a = {0};
    struct metahostrig *r = metahostrig_new(3, 4, 30);
    metahostrig_run_to_rest(r, 60);
    assert_int_equal(metahostrig_ask(r, 1, METAHOST_REMOVE, "3", &a), -EBUSY);
    metahostrig_crash(r, 3);
    metahostrig_run(r, 5000);
    assert_int_equal(metahostrig_ask(r, 1, METAHOST_REMOVE, "3", &a), 0);
    metahostrig_run_to_rest(r, 300);
    metahostrig_run(r, 10000);
    metahostrig_assert_equal_states(r);
    for (uint32_t g = 0; g < 6; g++) {
        assert_int_equal(metahostrig_role(r, g, 3), RAFTNODE_GONE); /* nobody is there to replace it */
        assert_int_equal(metahostrig_voters(r, g), 2);
    }
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_LEAVE, "3", &a), -EINVAL);
    assert_string_equal(a.text.p, "node 3 is gone");
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_RETURN, "3", &a), -EINVAL);
    assert_int_equal(metahostrig_ask(r, 2, METAHOST_REMOVE, "3", &a), 0);
    buf_fini(&a.text);
    metahostrig_free(r);
}

static void a_short_silence_moves_nothing(void **state)
{
    struct metahostrig *r = metahostrig_new(4, 8, 31);
    metahostrig_run_to_rest(r, 60);
    uint64_t before = metahostrig_groups(r, 1)->next_op;
    metahostrig_crash(r, 4);
    metahostrig_run(r, 60000);
    metahostrig_start(r, 4);
    metahostrig_run_to_rest(r, 60);
    assert_int_equal(metahostrig_groups(r, 1)->next_op, before);
    assert_int_equal(replicas_of(r, 4), 6);
    metahostrig_assert_equal_states(r);
    metahostrig_free(r);
}

static void a_process_that_stood_still_takes_nobody_for_dead(void **state)
{
    struct metahostrig *r = metahostrig_new(4, 8, 32);
    metahostrig_run_to_rest(r, 60);
    r->now += 3600 * 1000; /* all of them, by a suspended machine */
    metahostrig_run(r, 20000);
    assert_int_equal(metahostrig_groups(r, 1)->next_op, 1);
    for (uint64_t id = 1; id <= 4; id++) assert_int_equal(state_of(r, 1, id), METACODE_UP);
    metahostrig_free(r);
}

/* ---- what others send */

static void frames_that_make_no_sense_are_refused(void **state)
{
    struct metahostrig *r = metahostrig_new(3, 2, 50);
    metahostrig_run_to_rest(r, 60);
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
    char words[8];
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
    case 4: metahostrig_install(r, (uint32_t)rng_below(&r->rng, 2), metahostrig_first_up(r), id); break;
    case 5:
        if (*next > 7 || !metahostrig_groups(r, metahostrig_first_up(r))->version) break;
        if (join(r, metahostrig_first_up(r), *next, a) == 0) metahostrig_start(r, (*next)++), counts[3]++;
        break;
    case 6: {
        uint32_t group = (uint32_t)rng_below(&r->rng, 8);
        if (r->groups[group].leader) metahostrig_unseat(r, group), counts[4]++;
        break;
    }
    default:
        snprintf(words, sizeof words, "%u", (unsigned)id);
        if (rng_below(&r->rng, 4) == 0 && count_up(r) > 4) counts[5] += metahostrig_ask(r, metahostrig_first_up(r), METAHOST_LEAVE, words, a) == 0;
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
        metahostrig_run_to_rest(r, 600);
        metahostrig_run(r, 10000);
        metahostrig_assert_equal_states(r);
        for (uint32_t g = 0; g < 8; g++) assert_true(metahostrig_voters(r, g) == 3);
        moves += metahostrig_groups(r, metahostrig_first_up(r))->next_op;
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
        cmocka_unit_test(a_node_that_cannot_be_reached_gets_nothing_until_it_can),
        cmocka_unit_test(a_node_that_cannot_be_reached_can_leave),
        cmocka_unit_test(a_node_that_leaves_is_drained_and_then_gone),
        cmocka_unit_test(leaving_can_be_called_off),
        cmocka_unit_test(of_the_last_two_nodes_one_leaves),
        cmocka_unit_test(a_dead_node_is_replaced_after_the_time_out_and_gone_then),
        cmocka_unit_test(a_node_that_has_just_died_is_handed_no_leadership),
        cmocka_unit_test(a_node_that_has_just_fallen_silent_is_handed_no_leadership),
        cmocka_unit_test(nobody_is_asked_to_lead_who_does_not_answer),
        cmocka_unit_test(a_leader_that_is_silent_is_not_shown_as_one),
        cmocka_unit_test(a_node_that_is_dead_for_good_is_removed_by_word),
        cmocka_unit_test(a_short_silence_moves_nothing),
        cmocka_unit_test(a_process_that_stood_still_takes_nobody_for_dead),
        cmocka_unit_test(frames_that_make_no_sense_are_refused),
        cmocka_unit_test(whatever_happens_all_come_to_rest_with_equal_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
