/* Locks of transactions against a naive twin: a list of them, looked through from end to end; and the records that they are made from again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/keyhash.h"
#include "base/le.h"
#include "base/rng.h"
#include "cluster/seatentry.h"
#include "intentkit.h"

enum { IDS = 12, KEYS = 6, DBS = 2, LOCKS_MAX = IDS * KEYS * DBS, STEPS = 4000, SEED = 99 };

/* ---- the twin */

struct twin_lock {
    int id, key;
    uint16_t db;
    enum intents_use use;
};

struct twin {
    enum intents_state state[IDS];
    uint64_t since[IDS];
    uint64_t token[IDS];
    uint32_t decider[IDS], groups[IDS];
    struct twin_lock locks[LOCKS_MAX];
    int n;
};

static void twin_remove(struct twin *t, int id)
{
    int left = 0;
    for (int i = 0; i < t->n; i++)
        if (t->locks[i].id != id) t->locks[left++] = t->locks[i];
    t->n = left;
    t->state[id] = INTENTS_NONE;
    t->token[id] = 0;
}

static bool twin_is_old(const struct twin *t, int id, uint64_t ms, uint64_t now) { return now - t->since[id] >= ms; }

/* id -1: one that is no transaction. What is in the way and too old goes, up to the first that stays. */
static bool twin_is_free(struct twin *t, int id, uint16_t db, int key, enum intents_use use, uint64_t now)
{
    bool blocked = false, old[IDS] = {false};
    for (int i = 0; i < t->n; i++) {
        const struct twin_lock *k = &t->locks[i];
        if (k->id == id || k->db != db || k->key != key) continue;
        bool reads = use == INTENTS_READS, reserved = t->state[k->id] == INTENTS_RESERVED;
        if (reads && k->use == INTENTS_READS) continue;
        if (reads && reserved && id < 0) continue;
        if (reserved && twin_is_old(t, k->id, INTENTS_RESERVED_MS, now)) old[k->id] = true;
        else blocked = true;
    }
    for (int i = 0; !blocked && i < IDS; i++)
        if (old[i]) twin_remove(t, i);
    return !blocked;
}

static struct twin_lock *twin_find(struct twin *t, int id, uint16_t db, int key)
{
    for (int i = 0; i < t->n; i++)
        if (t->locks[i].id == id && t->locks[i].db == db && t->locks[i].key == key) return &t->locks[i];
    return NULL;
}

static void twin_reserve(struct twin *t, int id, uint64_t token, uint16_t db, int key, enum intents_use use, uint64_t now)
{
    if (t->state[id] == INTENTS_NONE) {
        t->state[id] = INTENTS_RESERVED;
        t->since[id] = now;
        t->token[id] = token;
    }
    struct twin_lock *k = twin_find(t, id, db, key);
    if (!k) t->locks[t->n++] = (struct twin_lock){id, key, db, use};
    else if (use == INTENTS_WRITES) k->use = use;
}

/* ---- both side by side */

/* What came up in all walks. */
static struct {
    uint64_t reserved, refused, taken_from_old, prepared, decided, begun, kept_out;
} saw;

struct pair {
    struct intents *n;
    struct twin twin;
    struct rng rng;
    uint64_t now;
    struct store *store; /* records as txncmd would write them */
};

static struct slice name_of(char out[16], const char *kind, int i) { return slice_of(out, (size_t)snprintf(out, 16, "%s%d", kind, i)); }

static void compare(struct pair *p)
{
    char id_text[16], key_text[16];
    intents_check(p->n);
    assert_int_equal(intents_any(p->n), p->twin.n > 0);
    for (int id = 0; id < IDS; id++) {
        struct slice name = name_of(id_text, "t", id);
        assert_int_equal(intents_state(p->n, name), p->twin.state[id]);
        assert_int_equal(intents_token(p->n, name), p->twin.state[id] == INTENTS_RESERVED ? p->twin.token[id] : 0);
        for (int key = 0; key < KEYS; key++) {
            for (uint16_t db = 0; db < DBS; db++) {
                const struct twin_lock *k = twin_find(&p->twin, id, db, key);
                struct slice s = name_of(key_text, "k", key);
                assert_int_equal(intents_has(p->n, name, db, s, INTENTS_READS), k != NULL);
                assert_int_equal(intents_has(p->n, name, db, s, INTENTS_WRITES), k && k->use == INTENTS_WRITES);
            }
        }
    }
}

static void step_reserve(struct pair *p, int id, uint16_t db, int key, enum intents_use use)
{
    char id_text[16], key_text[16];
    struct slice name = name_of(id_text, "t", id), k = name_of(key_text, "k", key);
    if (p->twin.state[id] != INTENTS_NONE && p->twin.state[id] != INTENTS_RESERVED) return;
    int before = p->twin.n;
    bool can = twin_is_free(&p->twin, id, db, key, use, p->now);
    if (p->twin.n < before) saw.taken_from_old++;
    assert_int_equal(intents_can(p->n, name, db, k, use), can);
    if (!can) {
        saw.refused++;
        return;
    }
    uint64_t token = rng_u64(&p->rng) | 1;
    twin_reserve(&p->twin, id, token, db, key, use, p->now);
    intents_reserve(p->n, name, token, db, k, use);
    saw.reserved++;
}

static void step_prepare(struct pair *p, int id)
{
    char id_text[16];
    if (p->twin.state[id] != INTENTS_RESERVED) return;
    intentkit_prepare(p->store, p->n, name_of(id_text, "t", id), (uint32_t)id + 2);
    p->twin.state[id] = INTENTS_INTENT;
    p->twin.since[id] = p->now;
    p->twin.decider[id] = (uint32_t)id + 2;
    saw.prepared++;
}

static void step_decide(struct pair *p, int id)
{
    char id_text[16];
    struct slice name = name_of(id_text, "t", id);
    struct buf record = {0};
    uint32_t groups[3] = {2, 3, 4}, n = (uint32_t)rng_below(&p->rng, 4);
    bool again = p->twin.state[id] == INTENTS_DECISION;
    if (!again && p->twin.state[id] != INTENTS_RESERVED) return;
    intentcode_add_decision(&record, groups, n);
    intentkit_put(p->store, INTENTCODE_DECISIONS, name, buf_slice(&record));
    intents_decided(p->n, name, groups, n);
    if (!again) {
        twin_remove(&p->twin, id);
        p->twin.state[id] = INTENTS_DECISION;
        p->twin.since[id] = p->now;
        saw.decided++;
    }
    p->twin.groups[id] = n;
    buf_fini(&record);
}

static void step_remove(struct pair *p, int id)
{
    char id_text[16];
    struct slice name = name_of(id_text, "t", id);
    if (p->twin.state[id] == INTENTS_INTENT) intentkit_put(p->store, INTENTCODE_INTENTS, name, SLICE(""));
    if (p->twin.state[id] == INTENTS_DECISION) intentkit_put(p->store, INTENTCODE_DECISIONS, name, SLICE(""));
    intents_remove(p->n, name);
    twin_remove(&p->twin, id);
}

static void step_begin(struct pair *p)
{
    for (int id = 0; id < IDS; id++) {
        if (p->twin.state[id] == INTENTS_RESERVED) twin_remove(&p->twin, id);
        p->twin.since[id] = p->now;
    }
    intents_begin(p->n, p->store);
    saw.begun++;
}

static void step_sweep(struct pair *p)
{
    intents_sweep(p->n);
    for (int id = 0; id < IDS; id++)
        if (p->twin.state[id] == INTENTS_RESERVED && twin_is_old(&p->twin, id, INTENTS_SWEPT_MS, p->now)) twin_remove(&p->twin, id);
}

static void step_use(struct pair *p, uint16_t db, int key, enum intents_use use)
{
    char key_text[16];
    int before = p->twin.n;
    bool allowed = twin_is_free(&p->twin, -1, db, key, use, p->now);
    if (p->twin.n < before) saw.taken_from_old++;
    assert_int_equal(intents_allows(p->n, db, name_of(key_text, "k", key), use), allowed);
    if (!allowed) saw.kept_out++;
}

/* Every one of them, once, the oldest first. */
static void look_at_lists(struct pair *p)
{
    char id_text[16];
    for (enum intents_state s = INTENTS_INTENT; s <= INTENTS_DECISION; s++) {
        struct intents_info i;
        int found = 0, expected = 0;
        for (const void *at = NULL; intents_next(p->n, s, &at, &i); found++) {
            int id = 0;
            while (id < IDS && !slice_eq(name_of(id_text, "t", id), i.id)) id++;
            assert_true(id < IDS && p->twin.state[id] == s);
            assert_int_equal(i.age_ms, p->now - p->twin.since[id]);
            if (s == INTENTS_INTENT) assert_int_equal(i.decider, p->twin.decider[id]);
            else assert_int_equal(i.n_groups, p->twin.groups[id]);
        }
        for (int id = 0; id < IDS; id++) expected += p->twin.state[id] == s;
        assert_int_equal(found, expected);
    }
}

static void step(struct pair *p)
{
    int id = (int)rng_below(&p->rng, IDS), key = (int)rng_below(&p->rng, KEYS);
    uint16_t db = (uint16_t)rng_below(&p->rng, DBS);
    enum intents_use use = rng_below(&p->rng, 2) ? INTENTS_WRITES : INTENTS_READS;
    uint64_t dice = rng_below(&p->rng, 100);
    if (dice < 45) step_reserve(p, id, db, key, use);
    else if (dice < 60) step_use(p, db, key, use);
    else if (dice < 70) step_prepare(p, id);
    else if (dice < 76) step_decide(p, id);
    else if (dice < 88) step_remove(p, id);
    else if (dice < 90) step_begin(p);
    else if (dice < 91) step_sweep(p);
    else p->now += rng_below(&p->rng, 500);
    intents_set_time(p->n, p->now);
    compare(p);
    look_at_lists(p);
}

static void locks_are_what_a_list_of_them_says(void **state)
{
    struct store_limits limits = {0};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct pair p = {.n = intents_new(SEED), .now = 1000000, .store = store_new(SEED, &limits, seed)};
        rng_init(&p.rng, seed);
        intents_set_time(p.n, p.now);
        for (int i = 0; i < STEPS; i++) step(&p);
        intents_free(p.n);
        store_free(p.store);
    }
    assert_true(saw.reserved > 1000 && saw.refused > 1000 && saw.taken_from_old > 100 && saw.prepared > 100 && saw.decided > 100 && saw.begun > 100 && saw.kept_out > 1000);
}

/* ---- one by one */

static void one_who_wants_all_keys_keeps_new_transactions_out_for_a_moment(void **state)
{
    struct intents *n = intents_new(SEED);
    intents_set_time(n, 1000);
    assert_true(intents_allows_all(n, INTENTS_WRITES));
    intents_reserve(n, SLICE("a"), 7, 0, SLICE("k"), INTENTS_READS);
    intents_set_time(n, 1500);
    assert_true(intents_allows_all(n, INTENTS_READS)); /* a reservation is nothing to who just looks */
    assert_true(intents_can(n, SLICE("b"), 0, SLICE("other"), INTENTS_READS));
    assert_false(intents_allows_all(n, INTENTS_WRITES));
    assert_false(intents_can(n, SLICE("b"), 0, SLICE("other"), INTENTS_READS));
    assert_true(intents_can(n, SLICE("a"), 0, SLICE("other"), INTENTS_READS)); /* who is here already goes on */
    intents_set_time(n, 1600);
    assert_true(intents_can(n, SLICE("b"), 0, SLICE("other"), INTENTS_READS));
    intents_set_time(n, 2000);
    assert_true(intents_allows_all(n, INTENTS_WRITES)); /* a reservation that is too old is in nobody's way */
    assert_false(intents_any(n));
    intents_reserve(n, SLICE("a"), 7, 0, SLICE("k"), INTENTS_READS);
    intents_prepared(n, SLICE("a"), 2);
    intents_set_time(n, 90000);
    assert_false(intents_allows_all(n, INTENTS_READS)); /* an intent is: it may have happened */
    assert_false(intents_can(n, SLICE("b"), 0, SLICE("other"), INTENTS_READS));
    intents_set_time(n, 90020);
    assert_true(intents_can(n, SLICE("b"), 0, SLICE("other"), INTENTS_READS));
    assert_false(intents_allows_all(n, INTENTS_WRITES));
    intents_remove(n, SLICE("a"));
    assert_true(intents_allows_all(n, INTENTS_READS));
    intents_free(n);
}

static void a_reservation_that_one_key_is_taken_from_is_gone_as_a_whole(void **state)
{
    struct intents *n = intents_new(SEED);
    intents_set_time(n, 1000);
    intents_reserve(n, SLICE("a"), 7, 0, SLICE("k1"), INTENTS_READS);
    intents_reserve(n, SLICE("a"), 8, 0, SLICE("k2"), INTENTS_WRITES);
    assert_int_equal(intents_token(n, SLICE("a")), 7);
    intents_set_time(n, 1999);
    assert_false(intents_allows(n, 0, SLICE("k1"), INTENTS_WRITES));
    intents_set_time(n, 2000);
    assert_true(intents_allows(n, 0, SLICE("k1"), INTENTS_WRITES));
    assert_int_equal(intents_token(n, SLICE("a")), 0);
    assert_false(intents_has(n, SLICE("a"), 0, SLICE("k2"), INTENTS_WRITES));
    intents_free(n);
}

/* ---- records */

static void add_some_op(struct buf *ops, uint16_t db, const char *key)
{
    seatentry_add_op(ops, &(struct op){.kind = OP_SET, .db = db, .key = slice_str(key), .value = SLICE("v")});
}

static void make_intent(struct buf *out)
{
    struct buf ops = {0};
    add_some_op(&ops, 1, "k1");
    intentcode_begin(out, 5, 2);
    intentcode_add_key(out, &(struct intents_key){1, INTENTS_WRITES, SLICE("k1")});
    intentcode_add_key(out, &(struct intents_key){0, INTENTS_READS, SLICE("")});
    intentcode_end(out, buf_slice(&ops));
    buf_fini(&ops);
}

static void an_intent_reads_back_as_it_was_written(void **state)
{
    struct buf b = {0};
    struct intentcode r;
    struct intents_key k;
    make_intent(&b);
    assert_true(intentcode_read(buf_slice(&b), &r));
    assert_int_equal(r.decider, 5);
    assert_true(intentcode_next_key(&r.keys, &k) && k.db == 1 && k.use == INTENTS_WRITES && slice_is(k.key, "k1"));
    assert_true(intentcode_next_key(&r.keys, &k) && k.db == 0 && k.use == INTENTS_READS && k.key.n == 0);
    assert_false(intentcode_next_key(&r.keys, &k));
    for (size_t n = 0; n < b.len; n++) { /* cut short: none, or (before the op) one with fewer */
        char *exact = malloc(n + 1);
        memcpy(exact, b.p, n);
        bool without_op = r.ops.p == b.p + n;
        assert_int_equal(intentcode_read(slice_of(exact, n), &(struct intentcode){0}), without_op);
        free(exact);
    }
    buf_fini(&b);
}

static void a_decision_reads_back_as_it_was_written(void **state)
{
    struct buf b = {0};
    uint32_t groups[] = {2, 17, 16383}, n;
    intentcode_add_decision(&b, groups, 3);
    assert_true(intentcode_read_decision(buf_slice(&b), &n) && n == 3);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(intentcode_group(buf_slice(&b), i), groups[i]);
    for (size_t cut = 0; cut < b.len; cut++) assert_false(intentcode_read_decision(slice_of(b.p, cut), &n));
    le_set_u32(b.p + 8, 16384);
    assert_false(intentcode_read_decision(buf_slice(&b), &n));
    buf_fini(&b);
}

static void ops_of_whole_databases_and_of_the_systems_are_none_of_a_transaction(void **state)
{
    struct buf b = {0};
    add_some_op(&b, 0, "k");
    assert_true(intentcode_are_ops(buf_slice(&b)));
    seatentry_add_op(&b, &(struct op){.kind = OP_FLUSH, .db = 3});
    assert_false(intentcode_are_ops(buf_slice(&b)));
    b.len = 0;
    add_some_op(&b, STORE_SYSTEM_DB, "k");
    assert_false(intentcode_are_ops(buf_slice(&b)));
    buf_fini(&b);
}

static void names_are_short_and_have_no_slash(void **state)
{
    char longest[INTENTS_ID_MAX + 1];
    memset(longest, 'x', sizeof longest);
    assert_true(intentcode_is_id(slice_of(longest, INTENTS_ID_MAX)));
    assert_false(intentcode_is_id(slice_of(longest, INTENTS_ID_MAX + 1)));
    assert_false(intentcode_is_id(SLICE("")));
    assert_false(intentcode_is_id(SLICE("1/2")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_are_what_a_list_of_them_says),
        cmocka_unit_test(one_who_wants_all_keys_keeps_new_transactions_out_for_a_moment),
        cmocka_unit_test(a_reservation_that_one_key_is_taken_from_is_gone_as_a_whole),
        cmocka_unit_test(an_intent_reads_back_as_it_was_written),
        cmocka_unit_test(a_decision_reads_back_as_it_was_written),
        cmocka_unit_test(ops_of_whole_databases_and_of_the_systems_are_none_of_a_transaction),
        cmocka_unit_test(names_are_short_and_have_no_slash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
