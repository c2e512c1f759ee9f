/* Commands that wait, over nodes: they find their leader, and the next one, and take nothing that nobody wants. */
#include "relayrig.h"

enum { PATIENCE_MS = 120 * 1000 };

struct scene {
    struct relayrig *r;
    struct relayrig_client *waiter, *pusher; /* of nodes 0 and 2 */
    const char *key;                         /* node 1 leads it */
    uint32_t group;
};

static void steps(struct relayrig *r)
{
    for (int i = 0; i < 30; i++) relayrig_step(r);
}

static void ask_one(struct relayrig *r, struct relayrig_client *c, const char *reply)
{
    relayrig_go(c);
    for (int i = 0; c->busy; i++) {
        relayrig_step(r);
        usleep(200);
        if (i > 100 * 1000) fail_msg("it is never answered");
    }
    relayrig_expect(c, reply);
}

static void wait_until_in_line(struct scene *s)
{
    int64_t give_up = clock_mono_us() + (int64_t)PATIENCE_MS * 1000;
    while (!atomic_load(&s->waiter->conn.waits)) {
        relayrig_step(s->r);
        if (clock_mono_us() > give_up) fail_msg("it never stands in line");
    }
}

static struct scene begin(void)
{
    struct relayrig *r = relayrig_new();
    struct scene s = {.r = r, .waiter = relayrig_client(r, 0), .pusher = relayrig_client(r, 2), .key = relayrig_key(r, 1, 0)};
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) relay_set_timeout(r->nodes[i].server.relay, PATIENCE_MS);
    s.group = relayrig_group(r, s.key);
    relayrig_ask(s.waiter, "BLPOP %s 0", s.key);
    s.waiter->busy = true;
    relay_wait_run(&s.waiter->conn);
    wait_until_in_line(&s);
    assert_true(s.waiter->busy);
    return s;
}

static void push(struct scene *s)
{
    relayrig_ask(s->pusher, "RPUSH %s v", s->key);
    ask_one(s->r, s->pusher, ":1\r\n");
}

static void expect_popped(struct scene *s)
{
    char reply[64];
    snprintf(reply, sizeof reply, "*2\r\n$%zu\r\n%s\r\n$1\r\nv\r\n", strlen(s->key), s->key);
    relayrig_settle(s->r);
    relayrig_expect(s->waiter, reply);
}

static void who_waits_for_another_node_s_key_gets_what_is_pushed(void **state)
{
    struct scene s = begin();
    push(&s);
    expect_popped(&s);
    relayrig_free(s.r);
}

static void when_the_leader_is_lost_it_waits_at_the_next_one(void **state)
{
    struct scene s = begin();
    relayrig_cut(s.r, 0, 1);
    relayrig_depose(s.r, s.group, FATE_LOST, false);
    relayrig_elect(s.r, s.group, 2);
    steps(s.r);
    assert_true(s.waiter->busy);
    push(&s);
    expect_popped(&s);
    relayrig_free(s.r);
}

static void when_its_key_goes_to_another_group_it_waits_there(void **state)
{
    struct scene s = begin();
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) relayrig_move(&s.r->nodes[i], s.key, RELAYRIG_FIRST + 2);
    steps(s.r);
    assert_true(s.waiter->busy);
    push(&s);
    expect_popped(&s);
    struct relay_info info;
    relay_look(s.r->nodes[2].server.relay, &info);
    assert_true(info.guests > 0); /* it stood there */
    relayrig_free(s.r);
}

static void who_has_left_takes_nothing(void **state)
{
    struct scene s = begin();
    relay_wait_forget(&s.waiter->conn);
    relayrig_idle(s.waiter);
    steps(s.r);
    push(&s);
    steps(s.r);
    relayrig_ask(s.pusher, "LLEN %s", s.key);
    ask_one(s.r, s.pusher, ":1\r\n");
    relayrig_free(s.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_for_another_node_s_key_gets_what_is_pushed),
        cmocka_unit_test(when_the_leader_is_lost_it_waits_at_the_next_one),
        cmocka_unit_test(when_its_key_goes_to_another_group_it_waits_there),
        cmocka_unit_test(who_has_left_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
