/* Which reads lanes prove, by the term of who asks or by a probe, and which are left to Raft. */
#include "lanerig.h"

static uint64_t probes(const struct lanerig *s, uint32_t node)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) n += lanerig_front(s, node, k)->probe;
    return n;
}

/* How many reads were proven by the relay of a node, for how many it asked Raft, and how many probes it sent for all of them. */
static void expect_proofs(const struct lanerig *s, uint32_t node, uint64_t proven, uint64_t asked, uint64_t n_probes)
{
    assert_int_equal(lanerig_info(s, node).proven, proven);
    assert_int_equal(s->r->nodes[node].asked, asked);
    assert_int_equal(probes(s, node), n_probes);
}

static void the_term_of_who_asks_proves_a_read(void **state)
{
    struct lanerig s = lanerig_begin();
    lanerig_cut_links(&s);
    lanerig_read_key(&s, relayrig_key(s.r, 1, 0), false);
    expect_proofs(&s, 1, 1, 0, 0);
    lanerig_end(&s);
}

static void a_probe_proves_a_read_of_a_node_that_leads_itself(void **state)
{
    struct lanerig s = lanerig_begin();
    lanerig_cut_links(&s);
    lanerig_read_key(&s, relayrig_key(s.r, 0, 0), false);
    expect_proofs(&s, 0, 1, 0, 1);
    lanerig_end(&s);
}

/* Until the probe is answered, nothing is. */
static void a_read_waits_for_its_probe(void **state)
{
    struct lanerig s = lanerig_begin();
    relayrig_ask(s.c, "GET %s", relayrig_key(s.r, 0, 0));
    relayrig_go(s.c);
    for (int i = 0; i < 3; i++) relayrig_turn(&s.r->nodes[0], 0); /* the others are silent */
    assert_true(s.c->busy);
    expect_proofs(&s, 0, 0, 0, 1);
    LANERIG_UNTIL(&s, !s.c->busy);
    relayrig_expect(s.c, "$-1\r\n");
    lanerig_end(&s);
}

static void one_probe_proves_all_reads_of_a_pipeline(void **state)
{
    struct lanerig s = lanerig_begin();
    uint32_t groups = 0, n = 0;
    char want[64] = "";
    lanerig_cut_links(&s);
    for (uint32_t k = 0; k < RELAYRIG_KEYS; k++) {
        if (s.r->group_of[k] % RELAYRIG_NODES != 0) continue;
        groups |= 1u << s.r->group_of[k];
        relayrig_ask(s.c, "EXISTS %s", s.r->keys[k]);
        strcat(want, ":0\r\n");
        n++;
    }
    assert_true(n >= 4 && __builtin_popcount(groups) == 2);
    relayrig_go(s.c);
    LANERIG_UNTIL(&s, !s.c->busy);
    relayrig_expect(s.c, want);
    expect_proofs(&s, 0, n, 0, 1);
    lanerig_end(&s);
}

/* The node that asks does not vote, and so cannot prove what it asks for: one probe does, for all of it. */
static void one_probe_proves_all_reads_of_a_message(void **state)
{
    struct lanerig s = lanerig_begin();
    struct relayrig_client *guest = relayrig_client(s.r, 2);
    const char *keys[3];
    lanerig_cut_links(&s);
    for (uint32_t k = 0; k < 3; k++) {
        keys[k] = relayrig_key(s.r, 1, k);
        relayrig_post(s.r, 1, relayrig_group(s.r, keys[k]), s.r->terms[relayrig_group(s.r, keys[k]) - RELAYRIG_FIRST], 2);
        relayrig_ask(guest, "GET %s", keys[k]);
    }
    relayrig_go(guest);
    for (int i = 0; i < 8; i++) { /* node 0, who has to be asked, is silent */
        lanerig_turn(&s, 2);
        lanerig_turn(&s, 1);
    }
    assert_true(guest->busy);
    LANERIG_UNTIL(&s, !guest->busy);
    relayrig_expect(guest, "$-1\r\n$-1\r\n$-1\r\n");
    expect_proofs(&s, 1, 3, 0, 1);
    lanerig_end(&s);
}

static void a_later_term_elsewhere_leaves_a_read_to_raft(void **state)
{
    struct lanerig s = lanerig_begin();
    const char *key = relayrig_key(s.r, 0, 0);
    uint32_t group = relayrig_group(s.r, key);
    for (uint32_t i = 1; i < RELAYRIG_NODES; i++) relayrig_post(s.r, i, group, s.r->terms[group - RELAYRIG_FIRST] + 1, RELAYRIG_NODES);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    LANERIG_UNTIL(&s, s.r->nodes[0].asked == 1);
    assert_true(s.c->busy); /* Raft has not answered */
    lanerig_settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    expect_proofs(&s, 0, 0, 1, 1);
    lanerig_end(&s);
}

static void who_asks_in_a_later_term_proves_nothing(void **state)
{
    struct lanerig s = lanerig_begin();
    const char *key = relayrig_key(s.r, 1, 0);
    uint32_t group = relayrig_group(s.r, key);
    relayrig_post(s.r, 0, group, s.r->terms[group - RELAYRIG_FIRST] + 1, RELAYRIG_NODES);
    relayrig_post(s.r, 2, group, s.r->terms[group - RELAYRIG_FIRST] + 1, RELAYRIG_NODES);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    LANERIG_UNTIL(&s, s.r->nodes[1].asked == 1);
    assert_true(s.c->busy);
    lanerig_settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    expect_proofs(&s, 1, 0, 1, 1);
    lanerig_end(&s);
}

/* Its replica of the group is of the same term as another group's there: that says nothing of this one. */
static void a_term_of_another_group_proves_nothing(void **state)
{
    struct lanerig s = lanerig_begin();
    struct relay_front *rf = lanerig_front(&s, 1, 0);
    uint32_t group = relayrig_group(s.r, relayrig_key(s.r, 1, 0));
    uint64_t term = s.r->terms[group - RELAYRIG_FIRST];
    struct hold h = {.unproven = true, .group = group, .term = term};
    relay_proof_by(rf, &h, &(struct ticket){.node = 1, .group = group + 1, .term = term});
    assert_true(h.unproven);
    relay_proof_by(rf, &h, &(struct ticket){.node = 1, .group = group, .term = term + 1});
    assert_true(h.unproven);
    relay_proof_by(rf, &h, &(struct ticket){.node = 1, .group = group}); /* it did not say */
    assert_true(h.unproven);
    relay_proof_by(rf, &h, &(struct ticket){.node = 4, .group = group, .term = term}); /* no voter */
    assert_true(h.unproven);
    relay_proof_by(rf, &h, &(struct ticket){.node = 1, .group = group, .term = term});
    assert_false(h.unproven);
    lanerig_end(&s);
}

static void a_leader_that_has_met_a_later_term_shows_nothing(void **state)
{
    struct lanerig s = lanerig_begin();
    const char *key = relayrig_key(s.r, 0, 0);
    uint32_t group = relayrig_group(s.r, key);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    relayrig_post(s.r, 0, group, s.r->terms[group - RELAYRIG_FIRST] + 1, RELAYRIG_NODES);
    for (int i = 0; i < 20; i++) lanerig_turn(&s, i % RELAYRIG_NODES);
    assert_true(s.c->busy);
    assert_int_equal(lanerig_info(&s, 0).proven, 0);
    relayrig_depose(s.r, group, FATE_LOST, false);
    relayrig_elect(s.r, group, 2);
    lanerig_settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    lanerig_end(&s);
}

static void where_more_than_one_other_is_needed_raft_is_asked(void **state)
{
    struct lanerig s = lanerig_begin();
    const char *key = relayrig_key(s.r, 0, 0);
    uint32_t group = relayrig_group(s.r, key);
    relayrig_post(s.r, 0, group, s.r->terms[group - RELAYRIG_FIRST], 5);
    lanerig_read_key(&s, key, true);
    expect_proofs(&s, 0, 0, 1, 0);
    key = relayrig_key(s.r, 1, 0);
    group = relayrig_group(s.r, key);
    relayrig_post(s.r, 1, group, s.r->terms[group - RELAYRIG_FIRST], 4);
    lanerig_read_key(&s, key, true);
    expect_proofs(&s, 1, 0, 1, 0);
    lanerig_end(&s);
}

static void a_sole_voter_needs_nobody(void **state)
{
    struct lanerig s = lanerig_begin();
    const char *key = relayrig_key(s.r, 0, 0);
    relayrig_post(s.r, 0, relayrig_group(s.r, key), s.r->terms[relayrig_group(s.r, key) - RELAYRIG_FIRST], 1);
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    assert_false(s.c->busy);
    relayrig_expect(s.c, "$-1\r\n");
    expect_proofs(&s, 0, 1, 0, 0);
    lanerig_end(&s);
}

static void a_probe_that_nobody_answers_in_time_leaves_a_read_to_raft(void **state)
{
    struct lanerig s = lanerig_begin();
    int64_t began = clock_mono_us();
    s.r->nodes[0].server.relay->late_ms = RELAY_LATE_MS;
    relayrig_ask(s.c, "GET %s", relayrig_key(s.r, 0, 0));
    relayrig_go(s.c);
    while (!s.r->nodes[0].asked && clock_mono_us() < began + 20 * 1000 * 1000) relayrig_turn(&s.r->nodes[0], 0); /* the others are silent */
    expect_proofs(&s, 0, 0, 1, 1);
    assert_true(clock_mono_us() - began >= (RELAY_LATE_MS - 1) * 1000);
    lanerig_settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    assert_int_equal(lanerig_info(&s, 0).proven, 0); /* an answer that is late changes nothing */
    lanerig_end(&s);
}

static void a_probe_that_is_lost_with_its_lane_leaves_a_read_to_raft(void **state)
{
    struct lanerig s = lanerig_begin();
    relayrig_ask(s.c, "GET %s", relayrig_key(s.r, 0, 0));
    relayrig_go(s.c);
    relayrig_turn(&s.r->nodes[0], 0);
    expect_proofs(&s, 0, 0, 0, 1);
    lanerig_break_lane(&s, 0, 1); /* who comes next behind node 0 is asked */
    relayrig_turn(&s.r->nodes[0], 0);
    expect_proofs(&s, 0, 0, 1, 1);
    lanerig_settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    lanerig_end(&s);
}

/* Whom to ask was there when the read wanted to be proven, and is not when the probe is to go. */
static void a_probe_that_cannot_go_leaves_a_read_to_raft_at_once(void **state)
{
    struct lanerig s = lanerig_begin();
    const char *key = relayrig_key(s.r, 0, 0);
    uint32_t group = relayrig_group(s.r, key);
    struct termboard_group alone = {.term = s.r->terms[group - RELAYRIG_FIRST], .n_voters = 2, .voters = {1, 9}};
    relayrig_ask(s.c, "GET %s", key);
    relayrig_go(s.c);
    termboard_put(s.r->nodes[0].board, group, &alone);
    relayrig_turn(&s.r->nodes[0], 0);
    expect_proofs(&s, 0, 0, 1, 1);
    lanerig_settle(&s);
    relayrig_expect(s.c, "$-1\r\n");
    lanerig_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_term_of_who_asks_proves_a_read),
        cmocka_unit_test(a_probe_proves_a_read_of_a_node_that_leads_itself),
        cmocka_unit_test(a_read_waits_for_its_probe),
        cmocka_unit_test(one_probe_proves_all_reads_of_a_pipeline),
        cmocka_unit_test(one_probe_proves_all_reads_of_a_message),
        cmocka_unit_test(a_later_term_elsewhere_leaves_a_read_to_raft),
        cmocka_unit_test(who_asks_in_a_later_term_proves_nothing),
        cmocka_unit_test(a_term_of_another_group_proves_nothing),
        cmocka_unit_test(a_leader_that_has_met_a_later_term_shows_nothing),
        cmocka_unit_test(where_more_than_one_other_is_needed_raft_is_asked),
        cmocka_unit_test(a_sole_voter_needs_nobody),
        cmocka_unit_test(a_probe_that_nobody_answers_in_time_leaves_a_read_to_raft),
        cmocka_unit_test(a_probe_that_is_lost_with_its_lane_leaves_a_read_to_raft),
        cmocka_unit_test(a_probe_that_cannot_go_leaves_a_read_to_raft_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
