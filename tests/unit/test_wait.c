/* Waiting for keys, step by step: no threads, every token and every turn is the test's. */
#include "rig.h"

static void nothing_is_served_before_something_is_there(void **state)
{
    struct rig *r = rig_new(2, 2);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 1);
    rig_do(a, "BLPOP q 0");
    assert_non_null(a->waiter);
    rig_do(b, "SET other v");
    rig_settle(r);
    rig_expect(b, "+OK\r\n");
    assert_non_null(a->waiter);
    rig_do(b, "RPUSH q x");
    rig_expect(b, ":1\r\n");
    rig_settle(r);
    rig_expect(a, "*2\r\n$1\r\nq\r\n$1\r\nx\r\n");
    rig_do(b, "EXISTS q");
    rig_expect(b, ":0\r\n");
    rig_free(r);
}

static void waiters_are_served_in_the_order_they_came(void **state)
{
    struct rig *r = rig_new(2, 2);
    struct client *waiting[5], *p = rig_client(r, 1);
    for (int i = 0; i < 5; i++) {
        waiting[i] = rig_client(r, (uint32_t)i % 2);
        rig_do(waiting[i], "BLPOP q 0");
    }
    rig_do(p, "RPUSH q 0 1 2");
    rig_settle(r);
    rig_expect(p, ":3\r\n");
    for (int i = 0; i < 3; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "*2\r\n$1\r\nq\r\n$1\r\n%d\r\n", i);
        rig_expect(waiting[i], expected);
    }
    assert_non_null(waiting[3]->waiter);
    assert_non_null(waiting[4]->waiter);
    rig_do(p, "RPUSH q 3");
    rig_do(p, "RPUSH q 4");
    rig_settle(r);
    rig_expect(waiting[3], "*2\r\n$1\r\nq\r\n$1\r\n3\r\n");
    rig_expect(waiting[4], "*2\r\n$1\r\nq\r\n$1\r\n4\r\n");
    rig_free(r);
}

static void a_waiter_on_several_shards_is_served_once(void **state)
{
    struct rig *r = rig_new(2, 3);
    char k[3][32];
    for (uint32_t i = 0; i < 3; i++) rig_key(r, k[i], "q", i);
    struct client *a = rig_client(r, 0), *p = rig_client(r, 1);
    rig_do(a, "BLPOP %s %s %s 0", k[2], k[0], k[1]);
    rig_queue(p, "RPUSH %s one", k[0]);
    rig_queue(p, "RPUSH %s two", k[1]);
    rig_exec(p, false);
    rig_go(p);
    rig_settle(r);
    char expected[64];
    snprintf(expected, sizeof expected, "*2\r\n$%zu\r\n%s\r\n$3\r\none\r\n", strlen(k[0]), k[0]); /* the first of its keys that has any */
    rig_expect(a, expected);
    assert_int_equal(a->served, 1);
    p->out.len = 0;
    rig_do(p, "LLEN %s", k[1]);
    rig_expect(p, ":1\r\n");
    for (uint32_t i = 0; i < 3; i++) assert_true(interests_empty(r->engine->stores[i]->interests));
    rig_free(r);
}

/* The first in line spans shards, and its attempt meets a busy token: whoever came later does not overtake it. */
static void a_later_waiter_does_not_overtake_an_attempt_on_its_way(void **state)
{
    struct rig *r = rig_new(2, 2);
    char k0[32], k1[32];
    rig_key(r, k0, "q", 0);
    rig_key(r, k1, "q", 1);
    struct client *first = rig_client(r, 0), *second = rig_client(r, 0), *p = rig_client(r, 1);
    rig_do(first, "BLPOP %s %s 0", k0, k1);
    rig_do(second, "BLPOP %s 0", k0);
    rig_hold(r, 1);
    rig_do(p, "RPUSH %s a", k0);
    rig_turn(r, 1); /* the attempt holds shard 0 and waits in the mailbox of shard 1 */
    rig_do(p, "RPUSH %s b", k0);
    assert_true(p->away);
    rig_let_go(r, 0, 1);
    rig_settle(r);
    char expected[64];
    snprintf(expected, sizeof expected, "*2\r\n$%zu\r\n%s\r\n$1\r\na\r\n", strlen(k0), k0);
    rig_expect(first, expected);
    snprintf(expected, sizeof expected, "*2\r\n$%zu\r\n%s\r\n$1\r\nb\r\n", strlen(k0), k0);
    rig_expect(second, expected);
    rig_free(r);
}

/* As above, but the attempt has not even started when the second element comes. */
static void a_later_waiter_does_not_overtake_an_attempt_that_has_not_started(void **state)
{
    struct rig *r = rig_new(2, 2);
    char k0[32], k1[32];
    rig_key(r, k0, "q", 0);
    rig_key(r, k1, "q", 1);
    struct client *first = rig_client(r, 0), *second = rig_client(r, 0), *p = rig_client(r, 1);
    rig_do(first, "BLPOP %s %s 0", k1, k0);
    rig_do(second, "BLPOP %s 0", k0);
    rig_ask(p, "RPUSH %s a", k0);
    rig_ask(p, "RPUSH %s b", k0);
    rig_go(p); /* both run before the worker turns to the attempt */
    rig_settle(r);
    char expected[64];
    snprintf(expected, sizeof expected, "*2\r\n$%zu\r\n%s\r\n$1\r\na\r\n", strlen(k0), k0);
    rig_expect(first, expected);
    snprintf(expected, sizeof expected, "*2\r\n$%zu\r\n%s\r\n$1\r\nb\r\n", strlen(k0), k0);
    rig_expect(second, expected);
    rig_free(r);
}

static void a_wait_cannot_be_cancelled_while_an_attempt_is_under_way(void **state)
{
    struct rig *r = rig_new(2, 2);
    char k0[32], k1[32];
    rig_key(r, k0, "q", 0);
    rig_key(r, k1, "q", 1);
    struct client *a = rig_client(r, 0), *p = rig_client(r, 1);
    rig_do(a, "BLPOP %s %s 0", k0, k1);
    rig_hold(r, 1);
    rig_do(p, "RPUSH %s x", k0);
    rig_turn(r, 1);
    assert_false(rig_cancel(a));
    rig_let_go(r, 1, 1);
    assert_false(rig_cancel(a)); /* the answer is on its way */
    rig_settle(r);
    assert_null(a->waiter);
    assert_int_equal(a->served, 1);
    rig_free(r);
}

static void an_attempt_that_finds_nothing_keeps_its_place(void **state)
{
    struct rig *r = rig_new(2, 2);
    char k0[32], k1[32];
    rig_key(r, k0, "q", 0);
    rig_key(r, k1, "q", 1);
    struct client *first = rig_client(r, 0), *second = rig_client(r, 0), *p = rig_client(r, 1);
    rig_do(first, "BLPOP %s %s 0", k1, k0);
    rig_do(second, "BLPOP %s 0", k0);
    rig_ask(p, "RPUSH %s a", k0);
    rig_ask(p, "LPOP %s", k0); /* gone before the attempt starts */
    rig_go(p);
    rig_settle(r);
    rig_expect(p, ":1\r\n$1\r\na\r\n");
    assert_non_null(first->waiter);
    assert_int_equal(atomic_load(&first->waiter->state), WAIT_WAITING);
    rig_do(p, "RPUSH %s b", k0);
    rig_settle(r);
    assert_null(first->waiter);
    assert_non_null(second->waiter);
    assert_true(rig_cancel(second));
    rig_free(r);
}

static void cancelled_waits_leave_nothing_behind(void **state)
{
    struct rig *r = rig_new(2, 3);
    char k[3][32];
    for (uint32_t i = 0; i < 3; i++) rig_key(r, k[i], "q", i);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 1), *p = rig_client(r, 1);
    rig_do(a, "BLPOP %s %s %s 0", k[0], k[1], k[2]);
    rig_do(b, "BLPOP %s 0", k[1]);
    rig_hold(r, 1);
    assert_true(rig_cancel(a)); /* half cleaned: shard 1 is busy */
    rig_let_go(r, 1, 1);
    rig_do(p, "RPUSH %s x", k[1]);
    rig_settle(r);
    assert_int_equal(a->served, 0);
    assert_int_equal(b->served, 1);
    for (uint32_t i = 0; i < 3; i++) assert_true(interests_empty(r->engine->stores[i]->interests));
    rig_free(r);
}

static void a_cancelled_waiter_at_the_front_lets_the_next_one_through(void **state)
{
    struct rig *r = rig_new(1, 2);
    char k0[32], k1[32];
    rig_key(r, k0, "q", 0);
    rig_key(r, k1, "q", 1);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 0), *p = rig_client(r, 0);
    rig_do(a, "BLPOP %s %s 0", k1, k0);
    rig_do(b, "BLPOP %s 0", k1);
    rig_hold(r, 0);
    rig_hold(r, 1);
    assert_true(rig_cancel(a));
    rig_do(p, "RPUSH %s x", k1);
    rig_let_go(r, 0, 1); /* the push runs while the cancelled waiter still stands in line there */
    rig_let_go(r, 0, 0);
    rig_settle(r);
    assert_int_equal(b->served, 1);
    rig_free(r);
}

static void keys_of_the_wrong_type_are_skipped(void **state)
{
    struct rig *r = rig_new(1, 2);
    struct client *l = rig_client(r, 0), *z = rig_client(r, 0), *p = rig_client(r, 0);
    rig_do(l, "BLPOP q 0");
    rig_do(z, "BZPOPMIN q 0");
    rig_do(p, "SET q string");
    rig_settle(r);
    assert_non_null(l->waiter);
    assert_non_null(z->waiter);
    rig_do(p, "DEL q");
    rig_do(p, "ZADD q 1 m"); /* the second in line fits, the first does not */
    rig_settle(r);
    assert_non_null(l->waiter);
    rig_expect(z, "*3\r\n$1\r\nq\r\n$1\r\nm\r\n$1\r\n1\r\n");
    rig_do(p, "RPUSH q x");
    rig_settle(r);
    rig_expect(l, "*2\r\n$1\r\nq\r\n$1\r\nx\r\n");
    rig_free(r);
}

static void a_move_serves_whoever_waits_for_its_target(void **state)
{
    struct rig *r = rig_new(2, 3);
    char k[3][32];
    for (uint32_t i = 0; i < 3; i++) rig_key(r, k[i], "q", i);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 1), *c = rig_client(r, 0), *p = rig_client(r, 1);
    rig_do(c, "BLPOP %s 0", k[0]);
    rig_do(b, "BLMOVE %s %s LEFT RIGHT 0", k[2], k[0]);
    rig_do(a, "BLMOVE %s %s LEFT RIGHT 0", k[1], k[2]);
    rig_do(p, "RPUSH %s x", k[1]);
    rig_settle(r);
    rig_expect(a, "$1\r\nx\r\n");
    rig_expect(b, "$1\r\nx\r\n");
    assert_int_equal(c->served, 1);
    rig_do(p, "EXISTS %s %s %s", k[0], k[1], k[2]);
    rig_expect(p, ":1\r\n:0\r\n");
    rig_free(r);
}

static void pushes_of_a_transaction_are_served_when_it_is_over(void **state)
{
    struct rig *r = rig_new(2, 2);
    struct client *a = rig_client(r, 0), *p = rig_client(r, 1);
    rig_do(a, "BLPOP q 0");
    rig_queue(p, "RPUSH q x");
    rig_queue(p, "LPOP q");
    rig_exec(p, false);
    rig_go(p);
    rig_settle(r);
    rig_expect(p, "*2\r\n:1\r\n$1\r\nx\r\n");
    assert_non_null(a->waiter);
    rig_queue(p, "RPUSH q y");
    rig_queue(p, "LLEN q");
    rig_exec(p, false);
    rig_go(p);
    rig_settle(r);
    rig_expect(p, "*2\r\n:1\r\n:1\r\n");
    rig_expect(a, "*2\r\n$1\r\nq\r\n$1\r\ny\r\n");
    rig_free(r);
}

static void requests_behind_a_wait_run_after_it(void **state)
{
    struct rig *r = rig_new(2, 2);
    struct client *a = rig_client(r, 0), *p = rig_client(r, 1);
    rig_ask(a, "SET k 1");
    rig_ask(a, "BLPOP q 0");
    rig_ask(a, "INCR k");
    rig_go(a);
    rig_do(p, "GET k");
    rig_expect(p, "$1\r\n1\r\n");
    rig_do(p, "RPUSH q x");
    rig_settle(r);
    rig_expect(a, "+OK\r\n*2\r\n$1\r\nq\r\n$1\r\nx\r\n:2\r\n");
    rig_free(r);
}

/* The blocking task itself is away when its waiter is served: the answer is home first. */
static void an_answer_may_come_home_before_the_task_that_asked(void **state)
{
    struct rig *r = rig_new(2, 2);
    char k0[32], k1[32];
    rig_key(r, k0, "q", 0);
    rig_key(r, k1, "q", 1);
    struct client *a = rig_client(r, 0), *p = rig_client(r, 1);
    rig_hold(r, 1);
    rig_do(a, "BLPOP %s %s 0", k0, k1);
    rig_do(p, "RPUSH %s x", k0); /* behind it in the mailbox of shard 0 */
    rig_let_go(r, 1, 1);         /* worker 1 runs both: a's wait and the push that serves it */
    rig_turn(r, 1);
    rig_settle(r);
    assert_null(a->waiter);
    assert_int_equal(a->served, 1);
    rig_free(r);
}

/* ---- turns: a waiter that is asked before something is taken for it */

struct guest {
    struct client *client;
    unsigned turns, vain; /* times it was its turn, and attempts that found nothing */
};

static void on_turn(struct worker *w, struct waiter *wt)
{
    struct guest *g = wt->owner;
    RIG_CHECK(w == g->client->worker, "a turn came to another worker");
    g->turns++;
}

static void on_served(struct worker *w, struct waiter *wt)
{
    struct guest *g = wt->owner;
    if (atomic_load(&wt->state) == WAIT_ATTEMPT) g->vain++;
    else rig_served(w, wt);
}

static struct guest guest(struct rig *r, uint32_t worker) { return (struct guest){.client = rig_client(r, worker)}; }

static void begin_to_wait(struct guest *g, const char *key)
{
    g->client->task.turn = on_turn;
    g->client->task.owner = g;
    rig_do(g->client, "BLPOP %s 0", key);
    assert_non_null(g->client->waiter);
    g->client->waiter->served = on_served;
}

static void give_up_turn(struct guest *g)
{
    struct waiter *wt = g->client->waiter;
    g->client->waiter = NULL;
    wait_cancel_claimed(g->client->worker, wt);
    rig_go_on(g->client);
}

static void nothing_is_taken_for_a_guest_before_it_says_so(void **state)
{
    struct rig *r = rig_new(2, 2);
    struct guest g = guest(r, 0);
    struct client *p = rig_client(r, 1), *next = rig_client(r, 1);
    begin_to_wait(&g, "q");
    rig_do(next, "BLPOP q 0");
    rig_do(p, "RPUSH q a");
    rig_do(p, "RPUSH q b");
    rig_settle(r);
    rig_expect(p, ":1\r\n:2\r\n");
    assert_int_equal(g.turns, 1);
    assert_false(rig_cancel(g.client)); /* its turn is its own to give up */
    assert_int_equal(next->served, 0);  /* nobody overtakes it */
    wait_go(g.client->worker, g.client->waiter);
    rig_settle(r);
    rig_expect(g.client, "*2\r\n$1\r\nq\r\n$1\r\na\r\n");
    rig_expect(next, "*2\r\n$1\r\nq\r\n$1\r\nb\r\n");
    assert_int_equal(g.vain, 0);
    rig_free(r);
}

static void a_guest_that_gives_up_its_turn_leaves_it_to_the_next(void **state)
{
    struct rig *r = rig_new(2, 2);
    struct guest a = guest(r, 0), b = guest(r, 1);
    struct client *p = rig_client(r, 1);
    begin_to_wait(&a, "q");
    begin_to_wait(&b, "q");
    rig_do(p, "RPUSH q x");
    rig_settle(r);
    assert_int_equal(a.turns, 1);
    assert_int_equal(b.turns, 0);
    give_up_turn(&a);
    rig_settle(r);
    assert_int_equal(b.turns, 1);
    wait_go(b.client->worker, b.client->waiter);
    rig_settle(r);
    rig_expect(b.client, "*2\r\n$1\r\nq\r\n$1\r\nx\r\n");
    for (uint32_t i = 0; i < 2; i++) assert_true(interests_empty(r->engine->stores[i]->interests));
    rig_free(r);
}

static void a_guest_whose_element_was_taken_keeps_its_place(void **state)
{
    struct rig *r = rig_new(2, 2);
    struct guest g = guest(r, 0);
    struct client *p = rig_client(r, 1), *next = rig_client(r, 0);
    begin_to_wait(&g, "q");
    rig_do(next, "BLPOP q 0");
    rig_do(p, "RPUSH q a");
    rig_settle(r);
    rig_do(p, "LPOP q");
    wait_go(g.client->worker, g.client->waiter);
    rig_settle(r);
    assert_int_equal(g.vain, 1);
    rig_do(p, "RPUSH q b c"); /* before it is back in line */
    rig_settle(r);
    assert_int_equal(next->served, 0);
    wait_rejoin(g.client->worker, g.client->waiter);
    rig_settle(r);
    assert_int_equal(g.turns, 2);
    wait_go(g.client->worker, g.client->waiter);
    rig_settle(r);
    rig_expect(g.client, "*2\r\n$1\r\nq\r\n$1\r\nb\r\n");
    rig_expect(next, "*2\r\n$1\r\nq\r\n$1\r\nc\r\n");
    rig_free(r);
}

/* CLIENT UNBLOCK claims a waiter: what comes before it has left is the next one's. */
static void a_push_between_a_claim_and_its_end_serves_the_next(void **state)
{
    struct rig *r = rig_new(2, 2);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 0), *p = rig_client(r, 1);
    rig_do(a, "BLPOP q 0");
    rig_do(b, "BLPOP q 0");
    assert_true(wait_claim(a->waiter));
    rig_do(p, "RPUSH q x");
    rig_settle(r);
    struct waiter *wt = a->waiter;
    a->waiter = NULL;
    wait_cancel_claimed(a->worker, wt);
    rig_go_on(a);
    rig_settle(r);
    assert_int_equal(b->served, 1);
    rig_expect(b, "*2\r\n$1\r\nq\r\n$1\r\nx\r\n");
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_served_before_something_is_there),
        cmocka_unit_test(waiters_are_served_in_the_order_they_came),
        cmocka_unit_test(a_waiter_on_several_shards_is_served_once),
        cmocka_unit_test(a_later_waiter_does_not_overtake_an_attempt_on_its_way),
        cmocka_unit_test(a_later_waiter_does_not_overtake_an_attempt_that_has_not_started),
        cmocka_unit_test(a_wait_cannot_be_cancelled_while_an_attempt_is_under_way),
        cmocka_unit_test(an_attempt_that_finds_nothing_keeps_its_place),
        cmocka_unit_test(cancelled_waits_leave_nothing_behind),
        cmocka_unit_test(a_cancelled_waiter_at_the_front_lets_the_next_one_through),
        cmocka_unit_test(keys_of_the_wrong_type_are_skipped),
        cmocka_unit_test(a_move_serves_whoever_waits_for_its_target),
        cmocka_unit_test(pushes_of_a_transaction_are_served_when_it_is_over),
        cmocka_unit_test(requests_behind_a_wait_run_after_it),
        cmocka_unit_test(an_answer_may_come_home_before_the_task_that_asked),
        cmocka_unit_test(nothing_is_taken_for_a_guest_before_it_says_so),
        cmocka_unit_test(a_guest_that_gives_up_its_turn_leaves_it_to_the_next),
        cmocka_unit_test(a_guest_whose_element_was_taken_keeps_its_place),
        cmocka_unit_test(a_push_between_a_claim_and_its_end_serves_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
