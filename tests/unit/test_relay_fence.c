/* Requests that another node's map is too old for, or too new: they are refused, or wait, and arrive in the end. */
#include "relayrig.h"

enum { PATIENCE_MS = 120 * 1000 };

/* The interval that a key is in is cut in two, in the same group: its generation rises. */
static void split(struct relayrig_node *n, const char *key)
{
    const struct space_map *m = relayrig_map_of(n);
    uint64_t hash = keyhash(slice_str(key), 42);
    uint32_t i = 0;
    enum spaces_error error;
    while (m->hash[i].last < hash) i++;
    uint64_t at = m->hash[i].first + (m->hash[i].last - m->hash[i].first) / 2 + 1;
    struct space_map *next = spaces_hash_split(m, at, 100, m->hash[i].shard, &error, NULL);
    assert_non_null(next);
    relayrig_map(n, next);
}

static struct relay_info look(struct relayrig *r, uint32_t node)
{
    struct relay_info info;
    relay_look(r->nodes[node].server.relay, &info);
    return info;
}

static struct relayrig *patient_rig(void)
{
    struct relayrig *r = relayrig_new();
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) relay_set_timeout(r->nodes[i].server.relay, PATIENCE_MS);
    return r;
}

static void steps(struct relayrig *r)
{
    for (int i = 0; i < 20; i++) relayrig_step(r);
}

static void a_request_by_an_older_map_is_refused_and_goes_again_with_the_newer_one(void **state)
{
    struct relayrig *r = patient_rig();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 1, 0);
    split(&r->nodes[1], key);
    relayrig_ask(c, "APPEND %s a", key);
    relayrig_ask(c, "APPEND %s b", key);
    relayrig_ask(c, "GET %s", key);
    relayrig_go(c);
    steps(r);
    assert_true(c->busy);
    assert_true(look(r, 1).stale > 0);
    uint64_t refused = look(r, 1).stale;
    split(&r->nodes[0], key);
    steps(r); /* no time has to pass */
    relayrig_expect(c, ":1\r\n:2\r\n$2\r\nab\r\n");
    assert_true(look(r, 1).stale <= refused + 1);
    relayrig_free(r);
}

static void a_newer_map_that_says_the_same_of_a_key_is_no_reason_to_refuse_it(void **state)
{
    struct relayrig *r = patient_rig();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 1, 0), *other = key;
    for (uint32_t i = 1; relayrig_group(r, other) == relayrig_group(r, key); i++) other = relayrig_key(r, 1, i);
    split(&r->nodes[1], other);
    relayrig_ask(c, "SET %s v", key);
    relayrig_go(c);
    relayrig_settle(r);
    relayrig_expect(c, "+OK\r\n");
    assert_int_equal(look(r, 1).stale, 0);
    relayrig_free(r);
}

static void a_request_by_a_newer_map_waits_for_it(void **state)
{
    struct relayrig *r = patient_rig();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 1, 0);
    uint32_t to = RELAYRIG_FIRST + 2; /* node 2 leads it */
    assert_ptr_equal(relayrig_leader(r, to), &r->nodes[2]);
    relayrig_move(&r->nodes[0], key, to);
    relayrig_ask(c, "SET %s v", key);
    relayrig_go(c);
    steps(r);
    assert_true(c->busy);
    assert_int_equal(look(r, 2).guests, 0);
    relayrig_move(&r->nodes[2], key, to);
    steps(r);
    relayrig_expect(c, "+OK\r\n");
    assert_int_equal(look(r, 2).guests, 1);
    assert_int_equal(look(r, 0).bounced, 0);
    relayrig_free(r);
}

static void a_map_that_does_not_come_is_not_waited_for_without_end(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 1, 0);
    uint32_t to = RELAYRIG_FIRST + 2;
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) relay_set_timeout(r->nodes[i].server.relay, 100);
    relayrig_move(&r->nodes[0], key, to);
    relayrig_ask(c, "SET %s v", key);
    relayrig_go(c);
    relayrig_settle(r);
    relayrig_expect_begins(c, "-MUSTRETRY stale-map id=");
    assert_true(look(r, 2).stale > 0);
    relayrig_free(r);
}

static void a_key_that_went_to_another_group_is_found_there(void **state)
{
    struct relayrig *r = patient_rig();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 1, 0);
    uint32_t to = RELAYRIG_FIRST + 2;
    for (uint32_t i = 1; i < RELAYRIG_NODES; i++) relayrig_move(&r->nodes[i], key, to);
    relayrig_ask(c, "SET %s v", key);
    relayrig_go(c);
    steps(r);
    assert_true(c->busy);
    assert_int_equal(relayrig_hint(&r->nodes[0], relayrig_group(r, key)), 2); /* it did not learn a leader of another group */
    relayrig_move(&r->nodes[0], key, to);
    steps(r);
    relayrig_expect(c, "+OK\r\n");
    assert_true(look(r, 1).stale > 0);
    assert_true(look(r, 2).guests > 0);
    relayrig_free(r);
}

static void who_keeps_an_old_map_is_told_what_the_newer_one_says(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 1, 0);
    char expected[128];
    relay_set_timeout(r->nodes[0].server.relay, 30);
    split(&r->nodes[1], key);
    const struct space_map *m = relayrig_map_of(&r->nodes[1]);
    uint32_t i = 0;
    while (m->hash[i].last < keyhash(slice_str(key), 42)) i++;
    struct buf text = {0};
    spaces_text_hash(&text, &m->hash[i]);
    snprintf(expected, sizeof expected, "-MUSTRETRY stale-map %.*s\r\n", (int)text.len, text.p);
    relayrig_ask(c, "SET %s v", key);
    relayrig_go(c);
    relayrig_settle(r);
    relayrig_expect(c, expected);
    buf_fini(&text);
    relayrig_free(r);
}

static void keys_that_are_busy_all_the_time_are_no_sign_that_nobody_leads(void **state)
{
    struct relayrig *r = relayrig_new();
    for (uint32_t asker = 0; asker < 2; asker++) { /* that leads itself, and that does not */
        struct relayrig_client *c = relayrig_client(r, asker);
        relay_set_timeout(r->nodes[asker].server.relay, 30);
        r->nodes[0].busy = true;
        relayrig_ask(c, "SET %s v", relayrig_key(r, 0, 0));
        relayrig_go(c);
        relayrig_settle(r);
        relayrig_expect(c, "-TRYAGAIN a transaction has this key, or it is on its way to another shard: nothing was done\r\n");
        assert_true(look(r, asker).bounced > 0);
        r->nodes[0].busy = false;
        relayrig_ask(c, "SET %s v", relayrig_key(r, 0, 0));
        relayrig_go(c);
        relayrig_settle(r);
        relayrig_expect(c, "+OK\r\n");
    }
    relayrig_free(r);
}

static void keys_that_came_to_be_in_several_groups_are_told_of_at_once(void **state)
{
    struct relayrig *r = patient_rig();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *a = relayrig_key(r, 0, 0), *b = a;
    for (uint32_t i = 1; b == a || relayrig_group(r, b) != relayrig_group(r, a); i++) b = relayrig_key(r, 0, i);
    uint64_t hash = keyhash(slice_str(a), 42), other = keyhash(slice_str(b), 42);
    relayrig_ask(c, "MSET %s 1 %s 2", a, b);
    const struct space_map *m = relayrig_map_of(&r->nodes[0]);
    enum spaces_error error;
    struct space_map *next = spaces_hash_split(m, (hash > other ? hash : other), 100, RELAYRIG_FIRST + 1, &error, NULL);
    assert_non_null(next);
    relayrig_map(&r->nodes[0], next);
    relayrig_go(c);
    steps(r);
    relayrig_expect_begins(c, "-CROSSSHARD ");
    relayrig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_by_an_older_map_is_refused_and_goes_again_with_the_newer_one),
        cmocka_unit_test(a_newer_map_that_says_the_same_of_a_key_is_no_reason_to_refuse_it),
        cmocka_unit_test(a_request_by_a_newer_map_waits_for_it),
        cmocka_unit_test(a_map_that_does_not_come_is_not_waited_for_without_end),
        cmocka_unit_test(a_key_that_went_to_another_group_is_found_there),
        cmocka_unit_test(who_keeps_an_old_map_is_told_what_the_newer_one_says),
        cmocka_unit_test(keys_that_are_busy_all_the_time_are_no_sign_that_nobody_leads),
        cmocka_unit_test(keys_that_came_to_be_in_several_groups_are_told_of_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
