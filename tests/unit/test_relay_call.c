/* Calls: what this node itself asks of groups finds their leaders as clients' requests do, by the group alone. */
#include "relayrig.h"

#include "server/relay_call.h"

struct asked_for {
    bool over;
    uint32_t times;
    struct call *call;
    struct front *front; /* not NULL: sends another one when it is over */
};

static void note_done(void *ctx, struct call *c)
{
    struct asked_for *a = ctx;
    a->over = true;
    a->times++;
    a->call = c;
}

static struct call *new_call(struct relayrig *r, uint32_t node, struct asked_for *a)
{
    *a = (struct asked_for){0};
    return call_new(r->nodes[node].server.fronts[0], 0, 2, note_done, a);
}

static void add(const struct relayrig *r, struct call *c, uint32_t group, const char *name, const char *arg)
{
    struct slice argv[] = {SLICE("x"), slice_str(arg ? arg : "")};
    call_add(c, group, command_find_any(r->commands, slice_str(name)), argv, arg ? 2 : 1);
}

static void wait_over(struct relayrig *r, const struct asked_for *a)
{
    int64_t give_up = clock_mono_us() + 20 * 1000 * 1000;
    while (!a->over) {
        if (!relayrig_step(r)) usleep(200);
        if (clock_mono_us() > give_up) fail_msg("a call is never over");
    }
    assert_int_equal(a->times, 1);
}

static void expect(const struct asked_for *a, uint32_t i, enum call_fate fate, const char *begin)
{
    struct slice reply;
    assert_int_equal(call_fate(a->call, i, &reply), fate);
    if (reply.n < strlen(begin) || memcmp(reply.p, begin, strlen(begin)) != 0) fail_msg("got %.*s\n  expected %s...", (int)reply.n, reply.p, begin);
}

/* Every key is set; gives how many are in each group. */
static void fill(struct relayrig *r, uint32_t in_group[RELAYRIG_GROUPS])
{
    struct relayrig_client *c = relayrig_client(r, 0);
    memset(in_group, 0, RELAYRIG_GROUPS * sizeof *in_group);
    for (uint32_t k = 0; k < RELAYRIG_KEYS; k++) {
        relayrig_ask(c, "SET %s %u", r->keys[k], k);
        in_group[r->group_of[k]]++;
    }
    relayrig_go(c);
    relayrig_settle(r);
    c->conn.out.len = 0;
}

static void a_call_reaches_every_group_whoever_leads_it(void **state)
{
    struct relayrig *r = relayrig_new();
    struct asked_for a;
    uint32_t in_group[RELAYRIG_GROUPS];
    fill(r, in_group);
    for (uint32_t node = 0; node < RELAYRIG_NODES; node++) {
        struct call *c = new_call(r, node, &a);
        for (uint32_t g = 0; g < RELAYRIG_GROUPS; g++) add(r, c, g + RELAYRIG_FIRST, "group.dbsize", NULL);
        call_send(c, 5000);
        assert_false(a.over);
        wait_over(r, &a);
        assert_ptr_equal(a.call, c);
        assert_int_equal(call_size(c), RELAYRIG_GROUPS);
        for (uint32_t g = 0; g < RELAYRIG_GROUPS; g++) {
            char size[32];
            snprintf(size, sizeof size, "*2\r\n:1\r\n:%u\r\n", in_group[g]);
            expect(&a, g, CALL_ANSWERED, size);
        }
        call_free(c);
    }
    struct relay_info info;
    relay_look(r->nodes[1].server.relay, &info);
    assert_int_equal(info.forwarded, 4); /* two groups of each of the others */
    relayrig_free(r);
}

static void requests_of_one_group_run_in_their_order_and_writes_wait_for_their_entries(void **state)
{
    struct relayrig *r = relayrig_new();
    struct asked_for a;
    uint32_t in_group[RELAYRIG_GROUPS], group = relayrig_group(r, relayrig_key(r, 1, 0));
    fill(r, in_group);
    struct call *c = new_call(r, 1, &a); /* it leads the group itself */
    add(r, c, group, "group.flushall", NULL);
    add(r, c, group, "group.dbsize", NULL);
    add(r, c, group, "get", relayrig_key(r, 1, 0));
    call_send(c, 5000);
    for (int i = 0; i < 10; i++) relayrig_turn(&r->nodes[1], 0);
    assert_false(a.over);
    wait_over(r, &a);
    expect(&a, 0, CALL_ANSWERED, "*1\r\n:1\r\n");
    expect(&a, 1, CALL_ANSWERED, "*2\r\n:1\r\n:0\r\n");
    expect(&a, 2, CALL_ANSWERED, "$-1\r\n");
    call_free(c);
    relayrig_free(r);
}

static void what_nobody_leads_is_told_apart_from_what_was_answered(void **state)
{
    struct relayrig *r = relayrig_new();
    struct asked_for a;
    uint32_t dead = relayrig_group(r, relayrig_key(r, 1, 0)), mine = relayrig_group(r, relayrig_key(r, 0, 0));
    relayrig_depose(r, dead, FATE_LOST, false);
    struct call *c = new_call(r, 0, &a);
    add(r, c, dead, "group.flushall", NULL);
    add(r, c, mine, "group.flushall", "nonsense");
    add(r, c, dead, "group.dbsize", NULL);
    call_send(c, 30);
    wait_over(r, &a);
    expect(&a, 0, CALL_NOBODY, "-CLUSTERDOWN ");
    expect(&a, 1, CALL_ANSWERED, "-ERR syntax error\r\n");
    expect(&a, 2, CALL_NOBODY, "-CLUSTERDOWN ");
    call_free(c);
    relayrig_free(r);
}

static void a_write_whose_link_breaks_is_uncertain_and_a_read_is_asked_again(void **state)
{
    struct relayrig *r = relayrig_new();
    struct asked_for a;
    uint32_t first = relayrig_group(r, relayrig_key(r, 1, 0)), second = first;
    for (uint32_t i = 1; second == first; i++) second = relayrig_group(r, relayrig_key(r, 1, i));
    struct call *c = new_call(r, 0, &a); /* it gets to know the others */
    add(r, c, first, "group.dbsize", NULL);
    call_send(c, 5000);
    wait_over(r, &a);
    call_free(c);
    c = new_call(r, 0, &a);
    add(r, c, first, "group.flushall", NULL);
    add(r, c, second, "group.dbsize", NULL);
    call_send(c, 5000);
    relayrig_turn(&r->nodes[0], 0);
    assert_non_null(r->wires[0][1]);
    relayrig_cut(r, 0, 1);
    for (int i = 0; i < 10; i++) relayrig_turn(&r->nodes[0], 0);
    assert_false(a.over);
    relayrig_mend(r, 0, 1);
    wait_over(r, &a);
    expect(&a, 0, CALL_UNCERTAIN, "-UNCERTAIN ");
    expect(&a, 1, CALL_ANSWERED, "*2\r\n:1\r\n:0\r\n");
    call_free(c);
    relayrig_free(r);
}

static void a_request_that_bounced_follows_its_group_to_another_node(void **state)
{
    struct relayrig *r = relayrig_new();
    struct asked_for a;
    uint32_t group = relayrig_group(r, relayrig_key(r, 1, 0));
    relayrig_depose(r, group, FATE_LOST, false);
    relayrig_elect(r, group, 2);
    relayrig_learn(&r->nodes[0], group, 2); /* an old hint */
    struct call *c = new_call(r, 0, &a);
    add(r, c, group, "group.dbsize", NULL);
    call_send(c, 5000);
    wait_over(r, &a);
    expect(&a, 0, CALL_ANSWERED, "*2\r\n:1\r\n:0\r\n");
    assert_int_equal(relayrig_hint(&r->nodes[0], group), 3);
    call_free(c);
    relayrig_free(r);
}

/* The request waits for its seat's token while the map becomes another one. */
static void the_group_that_was_named_stays_when_the_map_changes(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_node *n = &r->nodes[0];
    struct engine *e = n->server.engine;
    struct asked_for a;
    uint32_t in_group[RELAYRIG_GROUPS], group = relayrig_group(r, relayrig_key(r, 0, 0));
    fill(r, in_group);
    n->held = (int)(group - RELAYRIG_FIRST + 1);
    assert_true(engine_try(&e->shards[n->held]));
    struct call *c = new_call(r, 0, &a);
    add(r, c, group, "group.dbsize", NULL);
    call_send(c, 5000);
    relayrig_turn(n, 0);
    struct hash_desc one = {.id = 1, .generation = 2, .shard = RELAYRIG_FIRST + RELAYRIG_GROUPS - 1, .last = UINT64_MAX}; /* every key is in another group now */
    assert_true(group != one.shard && engine_try(&e->shards[0]));
    engine_set_map(e, &n->server.fronts[0]->worker, spaces_new(&e->route, SPACE_BUCKET, &one, 1, 2));
    engine_release(&n->server.fronts[0]->worker, &e->shards[0]);
    relayrig_let_go(n);
    wait_over(r, &a);
    char size[32];
    snprintf(size, sizeof size, "*2\r\n:2\r\n:%u\r\n", in_group[group - RELAYRIG_FIRST]);
    expect(&a, 0, CALL_ANSWERED, size);
    call_free(c);
    relayrig_free(r);
}

static void send_another(void *ctx, struct call *c)
{
    struct asked_for *a = ctx;
    struct slice argv = SLICE("x");
    const struct command *cmd = command_find_any(a->front->worker.engine->commands, SLICE("group.dbsize"));
    call_free(c);
    struct call *next = call_new(a->front, 0, 2, note_done, a);
    call_add(next, RELAYRIG_FIRST, cmd, &argv, 1);
    call_send(next, 5000);
    assert_false(a->over);
}

static void a_call_may_send_the_next_one_when_it_is_over(void **state)
{
    struct relayrig *r = relayrig_new();
    struct asked_for a = {.front = r->nodes[0].server.fronts[0]};
    struct call *c = call_new(a.front, 0, 2, send_another, &a);
    add(r, c, RELAYRIG_FIRST, "group.dbsize", NULL);
    call_send(c, 5000);
    assert_int_equal(relay_wait_ms(a.front), 0);
    wait_over(r, &a);
    expect(&a, 0, CALL_ANSWERED, "*2\r\n:1\r\n:0\r\n");
    call_free(a.call);
    relayrig_free(r);
}

static void what_is_under_way_when_the_server_ends_is_freed(void **state)
{
    struct relayrig *r = relayrig_new();
    struct asked_for a, b;
    struct call *c = new_call(r, 0, &a);
    for (uint32_t g = 0; g < RELAYRIG_GROUPS; g++) add(r, c, g + RELAYRIG_FIRST, "group.dbsize", NULL);
    call_send(c, 5000);
    relayrig_turn(&r->nodes[0], 0);
    c = new_call(r, 0, &b);
    add(r, c, RELAYRIG_FIRST, "group.dbsize", NULL);
    call_send(c, 5000);
    relayrig_free(r);
    assert_false(a.over || b.over);
}

/* ---- groups' own commands */

static void commands_of_groups_and_nodes_are_unknown_to_clients(void **state)
{
    struct command_table *t = server_commands();
    size_t own = 0;
    for (size_t i = 0; i < command_rows(t); i++) {
        const struct command *c = command_at(t, i);
        bool open = i < command_count(t);
        own += !open;
        assert_int_equal(open, !(c->flags & (CMD_OF_GROUP | CMD_OF_NODES)));
        assert_ptr_equal(command_find_any(t, slice_str(c->name)), c);
        assert_ptr_equal(command_find(t, slice_str(c->name)), open ? c : NULL);
    }
    assert_true(own > 0);
    command_table_free(t);
}

/* What node 0 answers to a message of node 1. */
static enum wirecall_status answer_to(struct relayrig *r, uint32_t group, struct slice name)
{
    struct buf heads = {0}, frames = {0};
    struct wirecall_answer a;
    enum wirecall_status status;
    struct slice reply;
    relay_code_add_head(&heads, (struct relay_head){.argc = 1, .group = group});
    struct slice args[] = {buf_slice(&heads), name};
    wirecall_add_request(&frames, RELAYRIG_FIRST, &(struct wirecall_request){.id = 1, .resp = 2, .argc = 2}, args);
    relayrig_send(&r->nodes[1], 1, buf_slice(&frames));
    relayrig_deliver(r, 1, 0);
    for (int k = 0; k < 4; k++) {
        for (uint32_t f = 0; f < RELAYRIG_FRONTS; f++) relayrig_turn(&r->nodes[0], f);
        for (uint32_t g = 0; g < RELAYRIG_GROUPS; g++) relayrig_commit(&r->nodes[0], g + RELAYRIG_FIRST);
    }
    struct relayrig_letter *l = relayrig_take(r, 0, 1);
    assert_non_null(l);
    assert_int_equal(wirecall_get_answer(buf_slice(&l->bytes), &a), 0);
    assert_true(relay_code_answer(&a.reply, &status, &reply));
    if (status == WIRECALL_DONE && reply.p[0] == '-') status = WIRECALL_NO_GROUP; /* refused */
    relayrig_drop(l);
    buf_fini(&heads);
    buf_fini(&frames);
    return status;
}

static void another_node_may_name_any_group(void **state)
{
    struct relayrig *r = relayrig_new();
    assert_int_equal(answer_to(r, relayrig_group(r, relayrig_key(r, 0, 0)), SLICE("GROUP.DBSIZE")), WIRECALL_DONE);
    assert_int_equal(answer_to(r, relayrig_group(r, relayrig_key(r, 1, 0)), SLICE("group.dbsize")), WIRECALL_NOT_LEADER);
    assert_int_equal(answer_to(r, META_GROUPS_MAX, SLICE("group.dbsize")), WIRECALL_NO_GROUP);
    assert_int_equal(answer_to(r, UINT32_MAX, SLICE("group.dbsize")), WIRECALL_NO_GROUP);
    relayrig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_reaches_every_group_whoever_leads_it),
        cmocka_unit_test(requests_of_one_group_run_in_their_order_and_writes_wait_for_their_entries),
        cmocka_unit_test(what_nobody_leads_is_told_apart_from_what_was_answered),
        cmocka_unit_test(a_write_whose_link_breaks_is_uncertain_and_a_read_is_asked_again),
        cmocka_unit_test(a_request_that_bounced_follows_its_group_to_another_node),
        cmocka_unit_test(the_group_that_was_named_stays_when_the_map_changes),
        cmocka_unit_test(a_call_may_send_the_next_one_when_it_is_over),
        cmocka_unit_test(what_is_under_way_when_the_server_ends_is_freed),
        cmocka_unit_test(commands_of_groups_and_nodes_are_unknown_to_clients),
        cmocka_unit_test(another_node_may_name_any_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
