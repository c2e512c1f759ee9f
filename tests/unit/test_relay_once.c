/* Writes that were sent, and of which nobody said what became of them: they are sent again, and happen once. */
#include "relayrig.h"

enum { PATIENCE_MS = 120 * 1000 };

struct scene {
    struct relayrig *r;
    struct relayrig_client *c; /* of node 0 */
    const char *key;           /* node 1 leads it */
    uint32_t group;
};

static struct scene begin(void)
{
    struct relayrig *r = relayrig_new();
    struct scene s = {.r = r, .c = relayrig_client(r, 0), .key = relayrig_key(r, 1, 0)};
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) relay_set_timeout(r->nodes[i].server.relay, PATIENCE_MS);
    s.group = relayrig_group(r, s.key);
    for (uint32_t node = 0; node < RELAYRIG_NODES; node++) relayrig_ask(s.c, "EXISTS %s", relayrig_key(r, node, 0)); /* each has been spoken to */
    relayrig_go(s.c);
    relayrig_settle(r);
    relayrig_expect(s.c, ":0\r\n:0\r\n:0\r\n");
    return s;
}

static void turns(struct relayrig_node *n)
{
    for (int i = 0; i < 4; i++)
        for (uint32_t k = 0; k < RELAYRIG_FRONTS; k++) relayrig_turn(n, k);
}

/* What the client asked for runs on node 1, and if it is to happen its entry is committed; but no answer leaves. */
static void run_there(struct scene *s, bool commit)
{
    relayrig_go(s->c);
    relayrig_turn(&s->r->nodes[0], 0);
    assert_true(relayrig_deliver(s->r, 0, 1));
    turns(&s->r->nodes[1]);
    if (commit) assert_true(relayrig_commit(&s->r->nodes[1], s->group));
    assert_true(s->c->busy);
}

static void lose_link(struct scene *s)
{
    relayrig_cut(s->r, 0, 1);
    turns(&s->r->nodes[0]);
    assert_true(s->c->busy);
}

static void check_value(struct scene *s, const char *value)
{
    char reply[64];
    snprintf(reply, sizeof reply, "$%zu\r\n%s\r\n", strlen(value), value);
    relayrig_ask(s->c, "GET %s", s->key);
    relayrig_go(s->c);
    relayrig_settle(s->r);
    relayrig_expect(s->c, reply);
}

static void a_write_whose_answer_was_lost_is_told_its_first_answer(void **state)
{
    struct scene s = begin();
    relayrig_ask(s.c, "APPEND %s ab", s.key);
    run_there(&s, true);
    lose_link(&s);
    relayrig_mend(s.r, 0, 1);
    relayrig_settle(s.r);
    relayrig_expect(s.c, ":2\r\n");
    assert_int_equal(s.r->repeated, 1);
    check_value(&s, "ab");
    relayrig_free(s.r);
}

static void the_next_leader_knows_what_has_happened(void **state)
{
    struct scene s = begin();
    relayrig_ask(s.c, "APPEND %s ab", s.key);
    run_there(&s, false);
    lose_link(&s);
    relayrig_depose(s.r, s.group, FATE_UNCERTAIN, true); /* its entry is in the log of the others */
    relayrig_elect(s.r, s.group, 2);
    relayrig_settle(s.r);
    relayrig_expect(s.c, ":2\r\n");
    assert_int_equal(s.r->repeated, 1);
    relayrig_mend(s.r, 0, 1);
    check_value(&s, "ab");
    relayrig_free(s.r);
}

static void what_has_not_happened_happens_then(void **state)
{
    struct scene s = begin();
    relayrig_ask(s.c, "APPEND %s ab", s.key);
    run_there(&s, false);
    lose_link(&s);
    relayrig_depose(s.r, s.group, FATE_LOST, false);
    relayrig_elect(s.r, s.group, 2);
    relayrig_settle(s.r);
    relayrig_expect(s.c, ":2\r\n");
    assert_int_equal(s.r->repeated, 0);
    relayrig_mend(s.r, 0, 1);
    check_value(&s, "ab");
    relayrig_free(s.r);
}

static void the_asker_itself_may_lead_by_then(void **state)
{
    struct scene s = begin();
    relayrig_ask(s.c, "APPEND %s ab", s.key);
    run_there(&s, false);
    lose_link(&s);
    relayrig_depose(s.r, s.group, FATE_UNCERTAIN, true);
    relayrig_elect(s.r, s.group, 0);
    relayrig_settle(s.r);
    relayrig_expect(s.c, ":2\r\n");
    assert_int_equal(s.r->repeated, 1);
    check_value(&s, "ab");
    relayrig_free(s.r);
}

static void a_leader_that_says_nothing_while_another_leads_is_not_waited_for(void **state)
{
    struct scene s = begin();
    relayrig_ask(s.c, "APPEND %s ab", s.key);
    run_there(&s, false);
    s.r->cut[1][0] = true; /* it hangs */
    relayrig_depose(s.r, s.group, FATE_UNCERTAIN, true);
    relayrig_elect(s.r, s.group, 2);
    relayrig_settle(s.r);
    relayrig_expect(s.c, ":2\r\n");
    assert_int_equal(s.r->repeated, 1);
    s.r->cut[1][0] = false;
    check_value(&s, "ab");
    relayrig_free(s.r);
}

static void what_the_leader_cannot_tell_is_asked_of_the_next_one(void **state)
{
    struct scene s = begin();
    relayrig_ask(s.c, "APPEND %s ab", s.key);
    run_there(&s, false);
    relayrig_depose(s.r, s.group, FATE_UNCERTAIN, true);
    turns(&s.r->nodes[1]);
    assert_true(relayrig_deliver(s.r, 1, 0)); /* it says so */
    relayrig_elect(s.r, s.group, 2);
    relayrig_settle(s.r);
    relayrig_expect(s.c, ":2\r\n");
    assert_int_equal(s.r->repeated, 1);
    check_value(&s, "ab");
    relayrig_free(s.r);
}

static void in_a_pipeline_nothing_runs_behind_what_followed_it(void **state)
{
    struct scene s = begin();
    relayrig_ask(s.c, "APPEND %s a", s.key);
    relayrig_ask(s.c, "GET %s", s.key);
    relayrig_ask(s.c, "APPEND %s b", s.key);
    relayrig_ask(s.c, "GET %s", s.key);
    run_there(&s, true);
    lose_link(&s);
    relayrig_mend(s.r, 0, 1);
    relayrig_settle(s.r);
    relayrig_expect(s.c, ":1\r\n-TRYAGAIN the leader of this key's shard changed in the middle of a pipeline: nothing was done\r\n:2\r\n$2\r\nab\r\n");
    assert_int_equal(s.r->repeated, 2);
    relayrig_free(s.r);
}

static void what_found_nothing_to_do_and_was_overtaken_does_not_run_again(void **state)
{
    struct scene s = begin();
    relayrig_ask(s.c, "SET %s 1", s.key);
    relayrig_go(s.c);
    relayrig_settle(s.r);
    relayrig_expect(s.c, "+OK\r\n");
    relayrig_ask(s.c, "SETNX %s 2", s.key); /* to no effect */
    relayrig_ask(s.c, "DEL %s", s.key);
    run_there(&s, true);
    lose_link(&s);
    relayrig_mend(s.r, 0, 1);
    relayrig_settle(s.r);
    relayrig_expect(s.c, "-UNCERTAIN the leader of this key's shard was lost while the command was under way: it may have happened, or may yet\r\n:1\r\n");
    relayrig_ask(s.c, "EXISTS %s", s.key);
    relayrig_go(s.c);
    relayrig_settle(s.r);
    relayrig_expect(s.c, ":0\r\n");
    relayrig_free(s.r);
}

static void a_key_that_went_to_another_group_meanwhile_leaves_its_write_uncertain(void **state)
{
    struct scene s = begin();
    relayrig_ask(s.c, "APPEND %s ab", s.key);
    run_there(&s, true);
    lose_link(&s);
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) relayrig_move(&s.r->nodes[i], s.key, RELAYRIG_FIRST + 2);
    relayrig_settle(s.r);
    relayrig_expect_begins(s.c, "-UNCERTAIN ");
    assert_int_equal(s.r->repeated, 0);
    relayrig_free(s.r);
}

static void when_nobody_can_be_asked_in_time_it_is_uncertain(void **state)
{
    struct scene s = begin();
    relay_set_timeout(s.r->nodes[0].server.relay, 100);
    relayrig_ask(s.c, "APPEND %s ab", s.key);
    run_there(&s, true);
    lose_link(&s);
    relayrig_depose(s.r, s.group, FATE_LOST, false);
    relayrig_settle(s.r);
    relayrig_expect_begins(s.c, "-UNCERTAIN ");
    relayrig_free(s.r);
}

/* Many writes one after the other need few records. */
static void numbers_are_used_again(void **state)
{
    struct scene s = begin();
    for (int i = 0; i < 100; i++) {
        relayrig_ask(s.c, "APPEND %s a", s.key);
        relayrig_ask(s.c, "APPEND %s b", s.key);
        relayrig_go(s.c);
        relayrig_settle(s.r);
        s.c->conn.out.len = 0;
    }
    assert_int_equal(store_keys(relayrig_store(&s.r->nodes[1], s.group), STORE_SYSTEM_DB), 2);
    relayrig_free(s.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_whose_answer_was_lost_is_told_its_first_answer),
        cmocka_unit_test(the_next_leader_knows_what_has_happened),
        cmocka_unit_test(what_has_not_happened_happens_then),
        cmocka_unit_test(the_asker_itself_may_lead_by_then),
        cmocka_unit_test(a_leader_that_says_nothing_while_another_leads_is_not_waited_for),
        cmocka_unit_test(what_the_leader_cannot_tell_is_asked_of_the_next_one),
        cmocka_unit_test(in_a_pipeline_nothing_runs_behind_what_followed_it),
        cmocka_unit_test(what_found_nothing_to_do_and_was_overtaken_does_not_run_again),
        cmocka_unit_test(a_key_that_went_to_another_group_meanwhile_leaves_its_write_uncertain),
        cmocka_unit_test(when_nobody_can_be_asked_in_time_it_is_uncertain),
        cmocka_unit_test(numbers_are_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
