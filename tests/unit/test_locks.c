/* Locks on parts of a key space: against a twin that knows them all, while ranges split, merge and move under them and the space changes its mode. RANGE.EXEC, which sees that. */
#include "rig.h"

#include "base/rng.h"
#include "shard/locks.h"

enum { SHARDS = 4, KEYS = 60, HELD_MAX = 64, OWNERS = 4, GRANTS_MAX = 4000 };

struct held {
    unsigned start, end, owner;
    bool exclusive;
    uint64_t token;
    int64_t expiry_ms;
};

struct twin {
    struct rig *rig;
    struct client *c;
    struct rng rng;
    struct held held[HELD_MAX];
    unsigned n;
    uint64_t last[KEYS];            /* the highest token ever granted on a key */
    uint64_t granted[GRANTS_MAX];   /* all tokens */
    unsigned n_granted, refused, renewed, expired, moved, splits, merges;
};

static void twin_init(struct twin *t)
{
    memset(t, 0, sizeof *t);
    t->rig = rig_new(1, SHARDS);
    t->c = rig_client(t->rig, 0);
    rng_init(&t->rng, 11);
}

static unsigned below(struct twin *t, unsigned n) { return (unsigned)rng_below(&t->rng, n); }
static int64_t now(const struct twin *t) { return t->rig->workers[0]->now_ms; }

static void ask(struct twin *t, const char *expected)
{
    rig_go(t->c);
    rig_settle(t->rig);
    rig_expect(t->c, expected);
}

static bool ask_ok(struct twin *t)
{
    rig_go(t->c);
    rig_settle(t->rig);
    bool ok = t->c->out.p[0] == '+';
    t->c->out.len = 0;
    return ok;
}

/* ---- the twin */

static void drop(struct twin *t, unsigned i) { t->held[i] = t->held[--t->n]; }

static void let_expire(struct twin *t)
{
    for (unsigned i = t->n; i-- > 0;)
        if (t->held[i].expiry_ms <= now(t)) {
            drop(t, i);
            t->expired++;
        }
}

static struct held *twin_find(struct twin *t, unsigned start, unsigned end, unsigned owner)
{
    for (unsigned i = 0; i < t->n; i++)
        if (t->held[i].start == start && t->held[i].end == end && t->held[i].owner == owner) return &t->held[i];
    return NULL;
}

static bool twin_excluded(const struct twin *t, unsigned start, unsigned end, unsigned owner, bool exclusive)
{
    for (unsigned i = 0; i < t->n; i++) {
        const struct held *h = &t->held[i];
        if (h->start < end && start < h->end && h->owner != owner && (exclusive || h->exclusive)) return true;
    }
    return false;
}

static void note_token(struct twin *t, unsigned start, unsigned end, uint64_t token)
{
    for (unsigned k = start; k < end; k++) {
        assert_true(token > t->last[k]);
        t->last[k] = token;
    }
    for (unsigned i = 0; i < t->n_granted; i++) assert_true(t->granted[i] != token);
    assert_true(t->n_granted < GRANTS_MAX);
    t->granted[t->n_granted++] = token;
}

/* ---- what clients do */

static void lock(struct twin *t)
{
    unsigned start = below(t, KEYS - 1), end = start + 1 + below(t, below(t, 4) ? 5 : KEYS - start - 1), owner = below(t, OWNERS);
    if (end > KEYS - 1) end = KEYS - 1;
    if (start >= end) return;
    bool exclusive = below(t, 2);
    int64_t ttl = 1 + below(t, 5000);
    struct held *h = twin_find(t, start, end, owner);
    if (!h && t->n == HELD_MAX) return;
    rig_ask(t->c, "RANGE.LOCK users users/%04u users/%04u o%u %lld%s", start, end, owner, (long long)ttl, exclusive ? "" : " SHARED");
    rig_go(t->c);
    rig_settle(t->rig);
    buf_add_byte(&t->c->out, '\0');
    unsigned long long token;
    bool granted = sscanf(t->c->out.p, "*2\r\n:%llu\r\n", &token) == 1;
    t->c->out.len = 0;
    assert_int_equal(granted, !twin_excluded(t, start, end, owner, exclusive));
    t->refused += !granted;
    if (!granted) return;
    t->renewed += h != NULL;
    if (!h) h = &t->held[t->n++];
    *h = (struct held){start, end, owner, exclusive, token, now(t) + ttl};
    note_token(t, start, end, token);
}

static void extend(struct twin *t)
{
    char expected[32];
    if (!t->n) return;
    struct held *h = &t->held[below(t, t->n)];
    int64_t ttl = 1 + below(t, 5000);
    rig_ask(t->c, "RANGE.EXTEND users users/%04u users/%04u o%u %lld", h->start, h->end, h->owner, (long long)ttl);
    snprintf(expected, sizeof expected, ":%llu\r\n", (unsigned long long)h->token);
    ask(t, expected);
    h->expiry_ms = now(t) + ttl;
}

static void unlock(struct twin *t)
{
    unsigned i = t->n ? below(t, t->n) : 0, owner = below(t, OWNERS);
    if (!t->n) return;
    struct held h = t->held[i];
    const struct held *real = twin_find(t, h.start, h.end, owner);
    rig_ask(t->c, "RANGE.UNLOCK users users/%04u users/%04u o%u", h.start, h.end, owner);
    ask(t, real ? ":1\r\n" : ":0\r\n");
    if (real) drop(t, (unsigned)(real - t->held));
}

static void wait_a_while(struct twin *t)
{
    t->rig->workers[0]->now_ms += below(t, 800);
    let_expire(t);
}

static void write_some(struct twin *t)
{
    rig_ask(t->c, "SET users/%04u x", below(t, KEYS));
    ask(t, "+OK\r\n");
}

static void change_topology(struct twin *t)
{
    static const char *const modes[] = {"RANGE", "RANGE", "RANGE", "RANGE", "BUCKET", "HASH"};
    unsigned k = below(t, KEYS / 10) * 10;
    switch (below(t, 12)) {
    case 0: rig_ask(t->c, "SPACE.SET users %s", modes[below(t, 6)]); break;
    case 1:
    case 2:
    case 3: rig_ask(t->c, "RANGE.SPLIT users users/%04u", k); break;
    case 4:
    case 5:
    case 6: rig_ask(t->c, "RANGE.MERGE users users/%04u", k); break;
    default: rig_ask(t->c, "RANGE.MOVE users users/%04u %u", k, below(t, SHARDS));
    }
    struct slice name = t->c->task.args[0];
    unsigned *counter = slice_is(name, "range.move") ? &t->moved : slice_is(name, "range.split") ? &t->splits : slice_is(name, "range.merge") ? &t->merges : NULL;
    bool ok = ask_ok(t);
    if (counter) *counter += ok;
}

/* ---- what must be true: a record of every lock in every shard that it lies in, and no other */

static unsigned number_of(struct slice key)
{
    char digits[8] = {0};
    assert_int_equal(key.n, 10);
    memcpy(digits, key.p + 6, 4);
    return (unsigned)atoi(digits);
}

static void check_records(struct twin *t)
{
    struct engine *e = t->rig->engine;
    unsigned wanted = 0, found = 0;
    for (unsigned i = 0; i < t->n; i++) {
        char start[16], end[16];
        bool in[SHARDS];
        snprintf(start, sizeof start, "users/%04u", t->held[i].start);
        snprintf(end, sizeof end, "users/%04u", t->held[i].end);
        locks_shards(route_map(&e->route), &e->route, SLICE("users"), slice_str(start), slice_str(end), in);
        for (unsigned s = 0; s < SHARDS; s++) {
            assert_int_equal(locks_has(e->stores[s], SLICE("users"), t->held[i].token), in[s]);
            wanted += in[s];
        }
    }
    for (unsigned s = 0; s < SHARDS; s++) {
        struct locks_walk w;
        struct spacelock l;
        int64_t expiry_ms;
        e->stores[s]->now_ms = now(t);
        locks_begin(&w, e->stores[s], SLICE("users"), 0);
        for (; locks_next(&w, &l, &expiry_ms); found++) {
            const struct held *h = twin_find(t, number_of(l.start), number_of(l.end), (unsigned)(l.owner.p[1] - '0'));
            assert_true(h && h->token == l.token && h->exclusive == l.exclusive && h->expiry_ms == expiry_ms);
        }
    }
    assert_int_equal(found, wanted);
}

static void locks_agree_with_a_twin_while_the_map_changes_under_them(void **state)
{
    struct twin t;
    twin_init(&t);
    for (unsigned i = 0; i < 9000; i++) {
        switch (below(&t, 12)) {
        case 0: change_topology(&t); break;
        case 1: wait_a_while(&t); break;
        case 2: extend(&t); break;
        case 3:
        case 4: unlock(&t); break;
        case 5: write_some(&t); break;
        case 6:
            topology_step(t.rig->topology, t.rig->workers[0]);
            rig_settle(t.rig);
            break;
        default: lock(&t);
        }
        if (i % 3 == 0) check_records(&t);
    }
    assert_true(t.n_granted > 500 && t.refused > 500 && t.renewed > 20 && t.expired > 100);
    assert_true(t.moved > 50 && t.splits > 20 && t.merges > 5);
    rig_free(t.rig);
}

static void two_who_want_different_parts_touch_different_shards(void **state)
{
    struct twin t;
    twin_init(&t);
    rig_ask(t.c, "SPACE.SET users RANGE");
    ask(&t, "+OK\r\n");
    rig_ask(t.c, "RANGE.SPLIT users users/0030");
    ask(&t, "+OK\r\n");
    const struct range_desc *lower = spaces_range_of(route_map(&t.rig->engine->route), SLICE("users"), SLICE("users/0000"));
    uint32_t here = lower->shard, there = (here + 1) % SHARDS;
    rig_ask(t.c, "RANGE.MOVE users users/0040 %u", there);
    ask(&t, "+OK\r\n");
    while (topology_step(t.rig->topology, t.rig->workers[0])) rig_settle(t.rig);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (i != there) rig_hold(t.rig, i);
    rig_ask(t.c, "RANGE.LOCK users users/0030 users/0050 me 1000");
    rig_go(t.c);
    assert_false(t.c->away); /* it needed none of the shards that are held */
    t.c->out.len = 0;
    rig_ask(t.c, "RANGE.LOCK users users/0020 users/0030 me 1000");
    rig_go(t.c);
    assert_true(t.c->away);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (i != there) rig_let_go(t.rig, 0, i);
    rig_settle(t.rig);
    assert_false(t.c->away);
    rig_free(t.rig);
}

static void what_cannot_be_locked_is_told(void **state)
{
    struct twin t;
    twin_init(&t);
    rig_ask(t.c, "RANGE.LOCK users a + me 1000");
    ask(&t, "-ERR \"a\" is no key of space \"users\": whole keys are wanted, as in \"users/a\"\r\n");
    rig_ask(t.c, "RANGE.LOCK users users/b users/a me 1000");
    ask(&t, "-ERR the end of what is locked must lie behind its start\r\n");
    rig_ask(t.c, "RANGE.LOCK users - + me 0");
    ask(&t, "-ERR invalid expire time in 'range.lock' command\r\n");
    rig_ask(t.c, "RANGE.LOCK users - + me soon");
    ask(&t, "-ERR value is not an integer or out of range\r\n");
    rig_ask(t.c, "RANGE.LOCK users - + me 10 BOTH");
    ask(&t, "-ERR syntax error\r\n");
    rig_ask(t.c, "RANGE.LOCK users - +  10");
    ask(&t, "-ERR the owner of a lock is named by 1 to 1024 bytes\r\n");
    rig_ask(t.c, "RANGE.LOCKS users");
    ask(&t, "*0\r\n");
    rig_ask(t.c, "RANGE.EXTEND users - + me 10");
    ask(&t, "$-1\r\n");
    rig_ask(t.c, "RANGE.LOCK users - users0 me 10 SHARED");
    ask(&t, "*2\r\n:65536\r\n$-1\r\n");
    rig_ask(t.c, "RANGE.LOCK users users/x + you 10");
    ask(&t, "*2\r\n$-1\r\n*12\r\n$5\r\nowner\r\n$2\r\nme\r\n$5\r\ntoken\r\n:65536\r\n$4\r\nmode\r\n$6\r\nshared\r\n$5\r\nstart\r\n$1\r\n-\r\n$3\r\nend\r\n$6\r\nusers0\r\n$6\r\nttl-ms\r\n:10\r\n");
    rig_free(t.rig);
}

/* ---- RANGE.EXEC */

static void a_fenced_command_runs_only_in_the_range_that_its_sender_knows(void **state)
{
    struct twin t;
    twin_init(&t);
    rig_ask(t.c, "SPACE.SET users RANGE");
    ask(&t, "+OK\r\n");
    rig_ask(t.c, "RANGE.EXEC 1 1 SET users/0001 a");
    ask(&t, "+OK\r\n");
    rig_ask(t.c, "RANGE.EXEC 1 1 MGET users/0001 users/0002");
    ask(&t, "*2\r\n$1\r\na\r\n$-1\r\n");
    rig_ask(t.c, "RANGE.SPLIT users users/0002");
    ask(&t, "+OK\r\n");
    uint32_t shard = spaces_range_of(route_map(&t.rig->engine->route), SLICE("users"), SLICE("users/0000"))->shard;
    char expected[200];
    rig_ask(t.c, "RANGE.EXEC 1 1 SET users/0001 b");
    snprintf(expected, sizeof expected, "-MUSTRETRY stale-generation space=\"users\" id=1 generation=2 shard=%u start=- end=\"users/0002\"\r\n", shard);
    ask(&t, expected);
    rig_ask(t.c, "RANGE.EXEC 1 2 MGET users/0001 users/0002");
    snprintf(expected, sizeof expected, "-MUSTRETRY key-elsewhere space=\"users\" id=2 generation=2 shard=%u start=\"users/0002\" end=+\r\n", shard);
    ask(&t, expected);
    rig_ask(t.c, "RANGE.EXEC 9 1 GET plain");
    ask(&t, "-MUSTRETRY no-such-range space=\"plain\" mode=hash\r\n");
    rig_ask(t.c, "RANGE.EXEC 1 2 GET users/0001");
    ask(&t, "$1\r\na\r\n");
    rig_ask(t.c, "RANGE.EXEC 1 2 BLPOP users/0000 0");
    ask(&t, "*-1\r\n"); /* it does not wait */
    rig_ask(t.c, "RANGE.EXEC 1 2 NOSUCH users/0000");
    ask(&t, "-ERR unknown command 'NOSUCH'\r\n");
    rig_ask(t.c, "RANGE.EXEC 1 2 RANGE.LOCKS users");
    ask(&t, "-ERR RANGE.EXEC runs commands that name their keys, with the right number of arguments\r\n");
    rig_ask(t.c, "RANGE.EXEC 1 2 GET users/0000 users/0001");
    ask(&t, "-ERR RANGE.EXEC runs commands that name their keys, with the right number of arguments\r\n");
    rig_ask(t.c, "RANGE.EXEC 1 x GET users/0000");
    ask(&t, "-ERR range-id and generation are positive integers, as RANGE.MAP shows them\r\n");
    rig_free(t.rig);
}

static void the_fence_is_looked_at_when_the_command_runs_not_when_it_came(void **state)
{
    struct twin t;
    twin_init(&t);
    rig_ask(t.c, "SPACE.SET users RANGE");
    ask(&t, "+OK\r\n");
    struct client *other = rig_client(t.rig, 0);
    uint32_t shard = spaces_range_of(route_map(&t.rig->engine->route), SLICE("users"), SLICE("users/0000"))->shard;
    rig_hold(t.rig, shard);
    rig_ask(other, "RANGE.EXEC 1 1 SET users/0001 late");
    rig_go(other);
    assert_true(other->away);
    struct topology *top = t.rig->topology;
    enum spaces_error error;
    for (uint32_t i = 0; i < SHARDS; i++)
        if (i != shard) rig_hold(t.rig, i);
    topology_put(top, t.rig->workers[0], spaces_move(topology_map(top), SLICE("users"), 1, (shard + 1) % SHARDS, &error, NULL));
    for (uint32_t i = 0; i < SHARDS; i++) rig_let_go(t.rig, 0, i);
    rig_settle(t.rig);
    buf_add_byte(&other->out, '\0');
    assert_non_null(strstr(other->out.p, "-MUSTRETRY stale-generation space=\"users\" id=1 generation=2 "));
    other->out.len = 0;
    rig_ask(t.c, "EXISTS users/0001");
    ask(&t, ":0\r\n");
    rig_free(t.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_agree_with_a_twin_while_the_map_changes_under_them),
        cmocka_unit_test(two_who_want_different_parts_touch_different_shards),
        cmocka_unit_test(what_cannot_be_locked_is_told),
        cmocka_unit_test(a_fenced_command_runs_only_in_the_range_that_its_sender_knows),
        cmocka_unit_test(the_fence_is_looked_at_when_the_command_runs_not_when_it_came),
    };
    return cmocka_run_group_tests_name("locks", tests, NULL, NULL);
}
