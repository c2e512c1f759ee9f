/* Key spaces that change how they are routed while clients use them: every key is found at every step, and lies where the map says. */
#include "rig.h"

#include "base/rng.h"
#include "route/keyspace.h"
#include "shard/carry.h"
#include "store/keyindex.h"

enum { SHARDS = 4, SPACES = 3, KEYS = 400 };

/* ---- a client that remembers what it wrote */

struct twin {
    struct rig *rig;
    struct client *c;
    int value[SPACES][KEYS]; /* 0: there is none */
    struct rng rng;
};

static const char *const names[SPACES] = {"users", "orders/2026", "cfg"};

static void twin_init(struct twin *t, uint32_t workers)
{
    memset(t, 0, sizeof *t);
    t->rig = rig_new(workers, SHARDS);
    t->c = rig_client(t->rig, 0);
    rng_init(&t->rng, 7);
}

static void ask(struct twin *t, const char *expected)
{
    rig_go(t->c);
    rig_settle(t->rig);
    rig_expect(t->c, expected);
}

/* The answer, whatever it is. */
static bool ask_ok(struct twin *t)
{
    rig_go(t->c);
    rig_settle(t->rig);
    bool ok = t->c->out.p[0] == '+';
    t->c->out.len = 0;
    return ok;
}

static void write_key(struct twin *t, unsigned s, unsigned k)
{
    int v = (int)rng_below(&t->rng, 1000) + 1;
    rig_ask(t->c, "SET %s/%04u %d", names[s], k, v);
    ask(t, "+OK\r\n");
    t->value[s][k] = v;
}

static void delete_key(struct twin *t, unsigned s, unsigned k)
{
    rig_ask(t->c, "DEL %s/%04u", names[s], k);
    ask(t, t->value[s][k] ? ":1\r\n" : ":0\r\n");
    t->value[s][k] = 0;
}

static void read_key(struct twin *t, unsigned s, unsigned k)
{
    char expected[32], digits[16];
    int n = snprintf(digits, sizeof digits, "%d", t->value[s][k]);
    rig_ask(t->c, "GET %s/%04u", names[s], k);
    snprintf(expected, sizeof expected, "$%d\r\n%s\r\n", n, digits);
    ask(t, t->value[s][k] ? expected : "$-1\r\n");
}

static void do_something(struct twin *t)
{
    unsigned s = (unsigned)rng_below(&t->rng, SPACES), k = (unsigned)rng_below(&t->rng, KEYS);
    switch (rng_below(&t->rng, 4)) {
    case 0: delete_key(t, s, k); break;
    case 1: read_key(t, s, k); break;
    default: write_key(t, s, k);
    }
}

/* Several keys of several spaces at once. */
static void write_many(struct twin *t)
{
    unsigned k = (unsigned)rng_below(&t->rng, KEYS);
    rig_ask(t->c, "MSET %s/%04u %u %s/%04u %u %s/%04u %u", names[0], k, k + 1, names[1], k, k + 2, names[2], k, k + 3);
    ask(t, "+OK\r\n");
    for (unsigned s = 0; s < SPACES; s++) t->value[s][k] = (int)(k + 1 + s);
}

/* ---- what must be true */

static void check_places(struct twin *t)
{
    struct engine *e = t->rig->engine;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct table_iter it;
        store_check(e->stores[i]);
        if (!e->stores[i]->dbs[0]) continue;
        table_iter_init(&it, &e->stores[i]->dbs[0]->keys);
        for (struct entry *x; (x = table_iter_next(&it));) {
            struct slice key = entry_key(x);
            assert_int_equal(route_key(&e->route, key, keyhash(key, e->route.seed)), i);
        }
    }
}

static void check_values(struct twin *t)
{
    for (unsigned s = 0; s < SPACES; s++)
        for (unsigned k = 0; k < KEYS; k++) read_key(t, s, k);
}

/* RANGE.GET of the whole space, in pages. */
static void check_order(struct twin *t, unsigned s, unsigned page, bool reverse)
{
    struct buf expected = {0};
    char cursor[64] = "0";
    int from = reverse ? KEYS - 1 : 0, step = reverse ? -1 : 1;
    do {
        rig_ask(t->c, "RANGE.GET %s LIMIT %u CURSOR %s%s", names[s], page, cursor, reverse ? " REVERSE" : "");
        struct buf items = {0};
        unsigned n = 0;
        int k = from, last = -1;
        for (; k >= 0 && k < KEYS && n < page; k += step) {
            if (!t->value[s][k]) continue;
            char v[16];
            int len = snprintf(v, sizeof v, "%d", t->value[s][k]);
            buf_printf(&items, "$%zu\r\n%s/%04d\r\n$%d\r\n%s\r\n", strlen(names[s]) + 5, names[s], k, len, v);
            last = k;
            n++;
        }
        while (k >= 0 && k < KEYS && !t->value[s][k]) k += step;
        bool more = k >= 0 && k < KEYS;
        if (more) snprintf(cursor, sizeof cursor, "%c%s/%04d", reverse ? '<' : '>', names[s], reverse ? last : k);
        else strcpy(cursor, "0");
        expected.len = 0;
        buf_printf(&expected, "*2\r\n$%zu\r\n%s\r\n*%u\r\n%.*s", strlen(cursor), cursor, n * 2, (int)items.len, items.p ? items.p : "");
        buf_add_byte(&expected, '\0');
        ask(t, expected.p);
        buf_fini(&items);
        from = k;
    } while (strcmp(cursor, "0") != 0);
    buf_fini(&expected);
}

static void set_mode(struct twin *t, unsigned s, const char *mode)
{
    rig_ask(t->c, "SPACE.SET %s %s", names[s], mode);
    ask(t, "+OK\r\n");
}

static bool step(struct twin *t)
{
    bool more = topology_step(t->rig->topology, t->rig->workers[0]);
    rig_settle(t->rig);
    return more;
}

static void finish(struct twin *t)
{
    while (step(t)) {}
}

static void fill(struct twin *t)
{
    for (unsigned s = 0; s < SPACES; s++)
        for (unsigned k = 0; k < KEYS; k += 1 + (unsigned)rng_below(&t->rng, 2)) write_key(t, s, k);
    for (unsigned k = 0; k < 10000; k++) { /* so many that no store is put in order at once */
        rig_ask(t->c, "SET other:%u %u", k, k);
        ask(t, "+OK\r\n");
    }
}

static bool is_indexed(const struct twin *t, unsigned s)
{
    bool indexed = true;
    for (uint32_t i = 0; i < SHARDS; i++) indexed &= topology_is_ordered(t->rig->topology, i, slice_str(names[s]));
    return indexed;
}

/* ---- tests */

static void a_space_changes_its_mode_under_its_clients_and_no_key_is_ever_missed(void **state)
{
    static const char *const modes[] = {"RANGE", "BUCKET", "HASH", "BUCKET", "RANGE", "HASH", "RANGE", "HASH"};
    struct twin t;
    twin_init(&t, 1);
    fill(&t);
    unsigned slices = 0, unindexed = 0;
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
        unsigned s = i % SPACES;
        bool ordered = strcmp(modes[i], "HASH") != 0;
        set_mode(&t, s, modes[i]);
        do {
            for (int k = 0; k < 5; k++) do_something(&t);
            write_many(&t);
            slices++;
            if (ordered) check_order(&t, s, 60, slices % 2);
            unindexed += ordered && !is_indexed(&t, s);
        } while (step(&t));
        check_places(&t);
        check_values(&t);
        if (!ordered) continue;
        check_order(&t, s, 1000, false);
        check_order(&t, s, 7, false);
        check_order(&t, s, 13, true);
    }
    assert_true(slices > 30 && unindexed > 10);
    rig_free(t.rig);
}

static void ranges_split_move_and_merge_and_the_order_stays(void **state)
{
    struct twin t;
    unsigned moved = 0;
    twin_init(&t, 2);
    fill(&t);
    set_mode(&t, 0, "RANGE");
    finish(&t);
    for (unsigned i = 1; i < 8; i++) {
        rig_ask(t.c, "RANGE.SPLIT users users/%04u", i * 50);
        ask(&t, "+OK\r\n");
    }
    for (unsigned i = 0; i < 8; i++) {
        rig_ask(t.c, "RANGE.MOVE users users/%04u %u", i * 50 + 3, i % SHARDS);
        moved += ask_ok(&t); /* where it is already it need not go */
        do {
            do_something(&t);
            write_many(&t);
            check_order(&t, 0, 60, i % 2);
        } while (step(&t));
    }
    assert_true(moved >= 6);
    check_places(&t);
    check_values(&t);
    rig_ask(t.c, "RANGE.MERGE users users/0100");
    assert_false(ask_ok(&t)); /* its neighbour is in another shard */
    rig_ask(t.c, "RANGE.MOVE users users/0100 1");
    ask(&t, "+OK\r\n");
    finish(&t);
    rig_ask(t.c, "RANGE.MERGE users users/0100");
    ask(&t, "+OK\r\n");
    check_places(&t);
    check_order(&t, 0, 33, false);
    rig_free(t.rig);
}

/* The token of every shard is the test's: clients come and are kept waiting, the data moves, and then they go on. */
static void hold_all(struct rig *r) { for (uint32_t i = 0; i < SHARDS; i++) rig_hold(r, i); }
static void let_go_of_all(struct rig *r) { for (uint32_t i = 0; i < SHARDS; i++) rig_let_go(r, 0, i); }

static void move_everything(struct twin *t, unsigned s, enum space_mode mode)
{
    struct topology *top = t->rig->topology;
    enum spaces_error error;
    struct carry_job job;
    struct carry_result result;
    struct range_desc whole = {.id = topology_new_id(top), .generation = 1, .shard = 3};
    topology_put(top, t->rig->workers[0], spaces_set_mode(topology_map(top), slice_str(names[s]), mode, &whole, mode != SPACE_HASH, false, &error, NULL));
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct store_ordering at = {0};
        while (store_order_step(t->rig->engine->stores[i], &at, 100)) {}
    }
    while (carry_find(topology_map(top), &job))
        topology_put(top, t->rig->workers[0], carry_slice(t->rig->engine, topology_map(top), &job, &result));
}

static void requests_under_way_find_their_keys_where_they_have_gone(void **state)
{
    struct twin t;
    twin_init(&t, 1);
    struct client *other = rig_client(t.rig, 0), *third = rig_client(t.rig, 0);
    fill(&t);
    write_key(&t, 0, 5);
    write_key(&t, 0, 6);
    hold_all(t.rig);
    rig_ask(t.c, "SET users/0005 one");
    rig_ask(t.c, "GET users/0005");
    rig_ask(other, "MSET users/0001 a users/0002 b users/0003 c users/0004 d");
    rig_ask(other, "MGET users/0001 users/0002 users/0003 users/0004");
    rig_queue(third, "SET users/0007 x");
    rig_queue(third, "SET users/0008 y");
    rig_exec(third, true);
    rig_go(t.c);
    rig_go(other);
    rig_go(third);
    assert_true(t.c->away && other->away && third->away);
    move_everything(&t, 0, SPACE_RANGE);
    let_go_of_all(t.rig);
    rig_settle(t.rig);
    rig_expect(t.c, "+OK\r\n$3\r\none\r\n");
    rig_expect(other, "+OK\r\n*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n");
    rig_expect(third, "*2\r\n+OK\r\n+OK\r\n");
    check_places(&t);
    rig_free(t.rig);
}

static void those_who_wait_for_a_key_follow_it(void **state)
{
    struct twin t;
    twin_init(&t, 1);
    struct client *first = rig_client(t.rig, 0), *second = rig_client(t.rig, 0), *both = rig_client(t.rig, 0);
    rig_ask(first, "BLPOP users/queue 0");
    rig_go(first);
    rig_ask(second, "BLPOP users/queue 0");
    rig_go(second);
    rig_ask(both, "BLPOP cfg/queue users/other 0");
    rig_go(both);
    assert_true(first->waiter && second->waiter && both->waiter);
    rig_ask(t.c, "SET users/0001 v");
    ask(&t, "+OK\r\n");
    set_mode(&t, 0, "RANGE");
    finish(&t);
    for (unsigned to = 0; to < SHARDS; to++) {
        rig_ask(t.c, "RANGE.MOVE users users/a %u", to);
        ask_ok(&t);
        finish(&t);
    }
    rig_ask(t.c, "RPUSH users/queue a b");
    ask(&t, ":2\r\n");
    rig_expect(first, "*2\r\n$11\r\nusers/queue\r\n$1\r\na\r\n");
    rig_expect(second, "*2\r\n$11\r\nusers/queue\r\n$1\r\nb\r\n");
    set_mode(&t, 0, "HASH");
    finish(&t);
    rig_ask(t.c, "RPUSH users/other z");
    ask(&t, ":1\r\n");
    rig_expect(both, "*2\r\n$11\r\nusers/other\r\n$1\r\nz\r\n");
    rig_free(t.rig);
}

static void a_wait_is_given_up_where_its_key_has_gone(void **state)
{
    struct twin t;
    twin_init(&t, 1);
    struct client *c = rig_client(t.rig, 0);
    rig_ask(t.c, "SET users/0001 v");
    ask(&t, "+OK\r\n");
    rig_ask(c, "BLPOP users/queue cfg/queue 0");
    rig_go(c);
    set_mode(&t, 0, "BUCKET");
    finish(&t);
    assert_true(rig_cancel(c));
    rig_settle(t.rig);
    for (uint32_t i = 0; i < SHARDS; i++) assert_true(interests_empty(t.rig->engine->stores[i]->interests));
    rig_free(t.rig);
}

static void a_watched_key_that_moves_has_changed_even_if_it_is_not_there(void **state)
{
    struct twin t;
    twin_init(&t, 1);
    rig_ask(t.c, "SET users/0001 v");
    rig_ask(t.c, "WATCH users/0300");
    ask(&t, "+OK\r\n+OK\r\n");
    struct client *admin = rig_client(t.rig, 0);
    uint32_t before = rig_shard(t.rig, "users/0300");
    rig_ask(admin, "SPACE.SET users BUCKET");
    rig_go(admin);
    rig_expect(admin, "+OK\r\n");
    while (topology_step(t.rig->topology, t.rig->workers[0])) rig_settle(t.rig);
    struct slice key = slice_str("users/0300");
    if (route_key(&t.rig->engine->route, key, keyhash(key, t.rig->engine->route.seed)) == before) {
        rig_ask(admin, "RANGE.MOVE users users/0300 %u", (before + 1) % SHARDS);
        rig_go(admin);
        rig_expect(admin, "+OK\r\n");
        while (topology_step(t.rig->topology, t.rig->workers[0])) rig_settle(t.rig);
    }
    rig_queue(t.c, "SET users/0300 mine");
    rig_exec(t.c, false);
    ask(&t, "*-1\r\n");
    rig_free(t.rig);
}

static void what_was_made_of_records_is_the_same_map(void **state)
{
    struct twin t;
    twin_init(&t, 1);
    fill(&t);
    set_mode(&t, 0, "RANGE");
    finish(&t);
    rig_ask(t.c, "RANGE.SPLIT users users/0100");
    rig_ask(t.c, "RANGE.SPLIT users users/0200");
    ask(&t, "+OK\r\n+OK\r\n");
    rig_ask(t.c, "RANGE.MOVE users users/0150 0");
    ask_ok(&t);
    set_mode(&t, 1, "BUCKET");
    step(&t);
    struct engine *e = t.rig->engine;
    const struct space_map *m = route_map(&e->route);
    struct buf before = {0}, after = {0}, error = {0};
    for (uint32_t i = 0; i < m->n_spaces; i++) {
        struct space_info info;
        spaces_describe(m->spaces[i], &info);
        for (uint32_t k = 0; k < info.n_ranges; k++) spaces_text_range(&before, info.name, spaces_range(m->spaces[i], false, k));
    }
    struct topology *again = topology_new(e); /* as at a start: nothing is known but what is in the stores */
    const struct space_map *old = route_map(&e->route);
    atomic_store(&e->route.map, NULL);
    assert_int_equal(topology_load(again, &error), 0);
    m = route_map(&e->route);
    for (uint32_t i = 0; i < m->n_spaces; i++) {
        struct space_info info;
        spaces_describe(m->spaces[i], &info);
        for (uint32_t k = 0; k < info.n_ranges; k++) spaces_text_range(&after, info.name, spaces_range(m->spaces[i], false, k));
    }
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.p, after.p, before.len);
    spaces_unref((struct space_map *)old);
    topology_free(t.rig->topology);
    t.rig->topology = again;
    e->topology = again;
    finish(&t);
    check_places(&t);
    check_values(&t);
    check_order(&t, 1, 50, false);
    buf_fini(&before);
    buf_fini(&after);
    buf_fini(&error);
    rig_free(t.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_space_changes_its_mode_under_its_clients_and_no_key_is_ever_missed),
        cmocka_unit_test(ranges_split_move_and_merge_and_the_order_stays),
        cmocka_unit_test(requests_under_way_find_their_keys_where_they_have_gone),
        cmocka_unit_test(those_who_wait_for_a_key_follow_it),
        cmocka_unit_test(a_wait_is_given_up_where_its_key_has_gone),
        cmocka_unit_test(a_watched_key_that_moves_has_changed_even_if_it_is_not_there),
        cmocka_unit_test(what_was_made_of_records_is_the_same_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
