/* Transactions over two groups, step by step. */
#include "txnworld.h"

#include "cluster/intentcode.h"
#include "cluster/seatentry.h"
#include "dump/dumpfile.h"
#include "shard/scratch.h"
#include "store/image.h"

/* ---- a transaction as a coordinator makes it: RENAME from one group to the other, on a scratch store */

struct sorted_ops {
    struct buf ops[GROUPS_END];
};

static void sort_op(void *ctx, uint16_t db, struct slice key, struct slice op)
{
    struct sorted_ops *to = ctx;
    const struct engine *e = r.rig->engine;
    txncmd_add_op(&to->ops[spaces_shard(route_map(&e->route), key, keyhash(key, e->route.seed))], op);
}

static void a_value_goes_from_one_group_to_another_and_nobody_sees_half_of_it(void **state)
{
    char token[GROUPS_END][TXNCMD_TOKEN_BYTES + 1];
    const char *from = keys[A][0], *to = keys[B][0];
    struct scratch *scratch = scratch_new(r.rig->engine);
    struct sorted_ops sorted = {0};
    struct buf reply = {0};
    SAY(A, ":3\r\n", "rpush %s x y z", from);
    SAY(B, "+OK\r\n", "set %s old", to);
    assert_true(scratch_put(scratch, fetch(A, "t1", 'w', from, token[A])));
    assert_true(scratch_put(scratch, fetch(B, "t1", 'w', to, token[B])));
    const struct slice argv[] = {SLICE("rename"), slice_str(from), slice_str(to)};
    scratch_run(scratch, r.w, &(struct scratch_request){.cmd = command_find(r.rig->table, argv[0]), .argv = argv, .argc = 3, .resp = 2, .now_ms = r.w->now_ms}, &reply);
    assert_true(slice_eq(buf_slice(&reply), SLICE("+OK\r\n")));
    scratch_ops(scratch, sort_op, &sorted);
    assert_true(sorted.ops[A].len && sorted.ops[B].len);
    SAY(A, ":3\r\n", "llen %s", from); /* reserved: whoever looks sees what was */
    prepare(A, "t1", token[A], buf_slice(&sorted.ops[A]), "+OK\r\n");
    BOUNCES(A, "llen %s", from);
    SAY(B, "$3\r\nold\r\n", "get %s", to);
    decide(B, "t1", token[B], buf_slice(&sorted.ops[B]), "+OK\r\n");
    SAY(B, "*3\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n", "lrange %s 0 -1", to);
    BOUNCES(A, "exists %s", from);
    SAY(A, "+OK\r\n", "txn.commit t1");
    SAY(A, ":0\r\n", "exists %s", from);
    SAY(B, "+committed\r\n", "txn.ask t1");
    SAY(B, "+OK\r\n", "txn.forget t1");
    assert_false(intents_any(intents_of(A)) || intents_any(intents_of(B)));
    assert_int_equal(store_keys(store_of(A), STORE_SYSTEM_DB) + store_keys(store_of(B), STORE_SYSTEM_DB), 0);
    scratch_free(scratch);
    buf_fini(&reply);
    for (uint32_t g = A; g <= B; g++) buf_fini(&sorted.ops[g]);
}

/* ---- who waits for whom */

static void a_reservation_keeps_writers_out_and_lets_readers_pass(void **state)
{
    char token[TXNCMD_TOKEN_BYTES + 1];
    const char *key = keys[A][0];
    SAY(A, "+OK\r\n", "set %s v", key);
    fetch(A, "t1", 'r', key, token);
    SAY(A, "$1\r\nv\r\n", "get %s", key);
    BOUNCES(A, "set %s w", key);
    BOUNCES(A, "mset %s w %s w", keys[A][1], key);
    SAY(A, "+OK\r\n", "set %s w", keys[A][1]);
    SAY(A, "+OK\r\n", "txn.drop t1");
    SAY(A, "+OK\r\n", "set %s w", key);
}

static void transactions_that_only_read_a_key_share_it(void **state)
{
    char first[TXNCMD_TOKEN_BYTES + 1], second[TXNCMD_TOKEN_BYTES + 1];
    const char *key = keys[A][0];
    fetch(A, "t1", 'r', key, first);
    fetch(A, "t2", 'r', key, second);
    SAY(A, BUSY, "txn.fetch t3 1 0 w %s", key);
    SAY(A, BUSY, "txn.fetch t1 1 0 w %s", key); /* nor one of the two */
    SAY(A, "+OK\r\n", "txn.done t2 %s", second);
    fetch(A, "t1", 'w', key, second);
    assert_string_equal(first, second);
    SAY(A, BUSY, "txn.fetch t2 1 0 r %s", key);
    prepare(A, "t1", first, SLICE(""), "+OK\r\n");
    SAY(A, "+OK\r\n", "txn.drop t1");
}

static void one_who_reads_keeps_only_writers_out_when_it_is_prepared(void **state)
{
    char token[TXNCMD_TOKEN_BYTES + 1], other[TXNCMD_TOKEN_BYTES + 1];
    const char *key = keys[A][0];
    SAY(A, "+OK\r\n", "set %s v", key);
    fetch(A, "t1", 'r', key, token);
    prepare(A, "t1", token, SLICE(""), "+OK\r\n");
    SAY(A, "$1\r\nv\r\n", "get %s", key);
    fetch(A, "t2", 'r', key, other);
    BOUNCES(A, "del %s", key);
    SAY(A, "+OK\r\n", "txn.commit t1");
    SAY(A, "+OK\r\n", "txn.done t2 %s", other);
    SAY(A, ":1\r\n", "del %s", key);
}

static void a_fetch_has_all_of_its_keys_or_none(void **state)
{
    char token[TXNCMD_TOKEN_BYTES + 1], text[128];
    const char *key = keys[A][0], *other = keys[A][1];
    fetch(A, "t1", 'w', key, token);
    SAY(A, BUSY, "txn.fetch t2 2 0 r %s 0 r %s", other, key);
    SAY(A, "+OK\r\n", "set %s v", other);
    SAY(A, "+OK\r\n", "txn.done t1 %s", token);
    snprintf(text, sizeof text, "txn.fetch t2 2 0 r %s 0 r %s", other, key);
    assert_false(ask(A, NULL, text).bounced);
    assert_true(intents_has(intents_of(A), SLICE("t2"), 0, slice_str(key), INTENTS_READS));
    SAY(A, "+OK\r\n", "txn.drop t2");
}

static void whoever_changes_all_keys_waits_for_transactions_and_those_for_it(void **state)
{
    char token[TXNCMD_TOKEN_BYTES + 1];
    const char *key = keys[A][0];
    SAY(A, "+OK\r\n", "set %s v", key);
    fetch(A, "t1", 'r', key, token);
    SAY(A, "*2\r\n:1\r\n:1\r\n", "group.dbsize");
    BOUNCES(A, "group.flushall");
    SAY(A, BUSY, "txn.fetch t2 1 0 r %s", keys[A][1]); /* or its turn might never come */
    prepare(A, "t1", token, SLICE(""), "+OK\r\n");
    BOUNCES(A, "group.flushdb");
    SAY(A, "+OK\r\n", "txn.drop t1");
    SAY(A, "*1\r\n:1\r\n", "group.flushall");
    SAY(A, "*2\r\n:1\r\n:0\r\n", "group.dbsize");
}

static void what_is_too_old_makes_way_and_cannot_be_used_any_more(void **state)
{
    struct half h;
    half_fetch(&h, "t1");
    pass(INTENTS_RESERVED_MS);
    SAY(A, "$-1\r\n", "get %s", h.key[A]); /* nobody wanted it: it is held */
    SAY(B, "+OK\r\n", "set %s other", h.key[B]);
    prepare(A, "t1", h.token[A], buf_slice(&h.ops[A]), "+OK\r\n");
    decide(B, "t1", h.token[B], buf_slice(&h.ops[B]), GONE);
    SAY(A, "+OK\r\n", "txn.drop t1");
    SAY(A, "$-1\r\n", "get %s", h.key[A]);
    SAY(B, "$5\r\nother\r\n", "get %s", h.key[B]);
    half_fini(&h);
}

static void a_late_copy_of_a_fetch_renews_nothing(void **state)
{
    struct half h;
    char late[TXNCMD_TOKEN_BYTES + 1];
    half_prepare(&h, "t1");
    SAY(B, "+none\r\n", "txn.ask t1");
    SAY(B, "+OK\r\n", "set %s other", h.key[B]);
    fetch(B, "t1", 'w', h.key[B], late);
    assert_string_not_equal(h.token[B], late);
    decide(B, "t1", h.token[B], buf_slice(&h.ops[B]), GONE);
    SAY(A, GONE, "txn.fetch t1 1 0 w %s", h.key[A]);
    SAY(A, "+OK\r\n", "txn.drop t1");
    SAY(B, "+OK\r\n", "txn.drop t1");
    half_fini(&h);
}

static void without_a_map_nobody_knows_whose_keys_they_are(void **state)
{
    struct route *route = &r.rig->engine->route;
    const struct space_map *m = route_map(route);
    atomic_store(&route->map, NULL);
    struct hold h = ask(A, NULL, "txn.fetch t1 1 0 r k");
    atomic_store(&route->map, m);
    assert_true(h.bounced);
}

/* ---- leaders come and go */

static void a_leader_that_is_lost_after_the_fetch_takes_the_reservation_along(void **state)
{
    struct half h;
    half_fetch(&h, "t1");
    lead_anew(A);
    SAY(A, "+OK\r\n", "set %s other", h.key[A]);
    prepare(A, "t1", h.token[A], buf_slice(&h.ops[A]), GONE);
    SAY(B, "+OK\r\n", "txn.done t1 %s", h.token[B]);
    half_fini(&h);
}

static void an_intent_outlives_leaders_and_readers_wait_for_its_fate(void **state)
{
    struct half h;
    half_prepare(&h, "t1");
    lead_anew(A);
    BOUNCES(A, "get %s", h.key[A]);
    BOUNCES(A, "set %s other", h.key[A]);
    SAY(A, "$-1\r\n", "get %s", keys[A][1]);
    prepare(A, "t1", h.token[A], buf_slice(&h.ops[A]), "+OK\r\n"); /* it is */
    decide(B, "t1", h.token[B], buf_slice(&h.ops[B]), "+OK\r\n");
    lead_anew(B);
    decide(B, "t1", h.token[B], buf_slice(&h.ops[B]), "+OK\r\n"); /* it was */
    SAY(B, "+committed\r\n", "txn.ask t1");
    BOUNCES(A, "get %s", h.key[A]);
    SAY(A, "+OK\r\n", "txn.commit t1");
    SAY(A, "+OK\r\n", "txn.commit t1");
    SAY(A, "$3\r\nnew\r\n", "get %s", h.key[A]);
    SAY(B, "$3\r\nnew\r\n", "get %s", h.key[B]);
    half_fini(&h);
}

static void a_leader_of_the_deciding_group_that_is_lost_cannot_decide(void **state)
{
    struct half h;
    half_prepare(&h, "t1");
    lead_anew(B);
    decide(B, "t1", h.token[B], buf_slice(&h.ops[B]), GONE);
    SAY(B, "+none\r\n", "txn.ask t1");
    SAY(A, "+OK\r\n", "txn.drop t1");
    SAY(A, "$-1\r\n", "get %s", h.key[A]);
    half_fini(&h);
}

static void whoever_asks_ends_what_is_not_decided(void **state)
{
    struct half h;
    half_prepare(&h, "t1");
    SAY(B, "+none\r\n", "txn.ask t1");
    decide(B, "t1", h.token[B], buf_slice(&h.ops[B]), GONE);
    SAY(B, "+none\r\n", "txn.ask t1");
    SAY(A, "+OK\r\n", "txn.drop t1");
    assert_int_equal(store_keys(store_of(A), STORE_SYSTEM_DB), 0);
    half_fini(&h);
}

static void an_answer_about_a_fate_waits_until_it_is_committed(void **state)
{
    struct half h;
    char text[128];
    half_prepare(&h, "t1");
    snprintf(text, sizeof text, "txn.decide t1 %s 1 %d %%B", h.token[B], A);
    struct slice ops = buf_slice(&h.ops[B]);
    struct hold decided = ask(B, &ops, text), asked = ask(B, NULL, "txn.ask t1");
    assert_int_equal(seat_outcome(&decided), SEAT_WAIT);
    assert_int_equal(seat_outcome(&asked), SEAT_WAIT);
    has_answer(&asked, "+committed\r\n");
    assert_int_equal(seat_outcome(&decided), SEAT_DONE);
    SAY(A, "+OK\r\n", "txn.commit t1");
    half_fini(&h);
}

static void one_that_wrote_nothing_hears_whether_all_it_saw_was_held(void **state)
{
    char token[GROUPS_END][TXNCMD_TOKEN_BYTES + 1];
    for (uint32_t g = A; g <= B; g++) fetch(g, "t1", 'r', keys[g][0], token[g]);
    lead_anew(A);
    SAY(A, GONE, "txn.done t1 %s", token[A]);
    SAY(B, "+OK\r\n", "txn.done t1 %s", token[B]);
    SAY(B, GONE, "txn.done t1 %s", token[B]);
}

/* ---- time */

static void a_key_that_a_transaction_has_does_not_expire_under_it(void **state)
{
    char token[TXNCMD_TOKEN_BYTES + 1];
    const char *key = keys[A][0], *free_key = keys[A][1];
    struct buf ops = {0}, op = {0};
    SAY(A, ":1\r\n", "sadd %s member", key);
    SAY(A, ":1\r\n", "pexpire %s 100", key);
    SAY(A, "+OK\r\n", "set %s v px 100", free_key);
    struct slice entry = fetch(A, "t1", 'w', key, token);
    assert_true(entry.n > 0);
    r.w->now_ms += 500;
    SAY(A, ":1\r\n", "exists %s", key); /* the transaction has seen it, and may happen later than this */
    SAY(A, ":0\r\n", "exists %s", free_key);
    SAY(A, ":1\r\n", "rpush %s other-type", free_key); /* the one that nobody has is gone */
    opcode_write(&op, &(struct op){.kind = OP_SET_REM, .key = slice_str(key), .items = &SLICE("member"), .n_items = 1});
    txncmd_add_op(&ops, buf_slice(&op));
    assert_true(fetch(A, "t1", 'w', key, token).n > 0); /* what it was told once it is told again */
    prepare(A, "t1", token, buf_slice(&ops), "+OK\r\n");
    lead_anew(A);
    SAY(A, "+OK\r\n", "txn.commit t1");
    SAY(A, ":1\r\n", "rpush %s other-type", key);
    buf_fini(&ops);
    buf_fini(&op);
}

static void a_key_that_expired_before_is_gone_when_it_is_fetched(void **state)
{
    char token[TXNCMD_TOKEN_BYTES + 1];
    const char *key = keys[A][0];
    SAY(A, "+OK\r\n", "set %s v px 100", key);
    fetch(A, "other", 'r', keys[A][1], token); /* something is reserved */
    r.w->now_ms += 500;
    assert_int_equal(fetch(A, "t1", 'w', key, token).n, 0);
    assert_int_equal(store_keys(store_of(A), 0), 0);
    SAY(A, "+OK\r\n", "txn.drop t1");
    SAY(A, "+OK\r\n", "txn.drop other");
}

/* ---- what is written */

static void ops_of_others_keys_are_refused_and_nothing_is_done(void **state)
{
    struct half h;
    struct buf ops = {0};
    char token[TXNCMD_TOKEN_BYTES + 1];
    half_fetch(&h, "t1");
    fetch(B, "t1", 'r', keys[B][1], token);
    set_op(&ops, h.key[B], "v");
    set_op(&ops, keys[B][1], "v"); /* that it only reads */
    decide(B, "t1", h.token[B], buf_slice(&ops), "-ERR the arguments of txn.decide make no sense\r\n");
    ops.len = 0;
    set_op(&ops, h.key[B], "v");
    buf_add_str(&ops, "rubbish");
    decide(B, "t1", h.token[B], buf_slice(&ops), "-ERR the arguments of txn.decide make no sense\r\n");
    prepare(A, "t1", h.token[A], buf_slice(&h.ops[B]), "-ERR the arguments of txn.prepare make no sense\r\n");
    assert_int_equal(store_keys(store_of(B), 0) + store_keys(store_of(A), STORE_SYSTEM_DB) + store_keys(store_of(B), STORE_SYSTEM_DB), 0);
    SAY(A, "+OK\r\n", "txn.drop t1");
    SAY(B, "+OK\r\n", "txn.drop t1");
    buf_fini(&ops);
    half_fini(&h);
}

static void an_op_that_does_not_fit_is_passed_over(void **state)
{
    char token[TXNCMD_TOKEN_BYTES + 1];
    const char *key = keys[B][0];
    struct buf ops = {0}, op = {0};
    SAY(B, "+OK\r\n", "set %s text", key);
    fetch(B, "t1", 'w', key, token);
    opcode_write(&op, &(struct op){.kind = OP_SET_ADD, .key = slice_str(key), .items = &SLICE("member"), .n_items = 1});
    txncmd_add_op(&ops, buf_slice(&op));
    decide(B, "t1", token, buf_slice(&ops), "+OK\r\n");
    SAY(B, "$4\r\ntext\r\n", "get %s", key);
    buf_fini(&ops);
    buf_fini(&op);
}

static void of_a_key_that_is_only_replaced_a_stand_in_comes(void **state)
{
    static const char *const makes[] = {"set %s a-value", "rpush %s a b", "sadd %s a b", "zadd %s 1 a", "hset %s f v"};
    static const enum type types[] = {TYPE_STRING, TYPE_LIST, TYPE_SET, TYPE_ZSET, TYPE_HASH};
    char token[TXNCMD_TOKEN_BYTES + 1], text[64];
    const char *key = keys[A][0];
    for (int i = 0; i < 5; i++) {
        struct dumpfile_entry e;
        struct scratch *scratch = scratch_new(r.rig->engine);
        snprintf(text, sizeof text, makes[i], key);
        if (types[i] == TYPE_HASH) { /* the rig has no hashes of its own */
            store_apply(store_of(A), &(struct op){.kind = OP_HASH_SET, .key = slice_str(key), .items = (struct slice[]){SLICE("f"), SLICE("v")}, .n_items = 2}, NULL);
        } else {
            assert_false(ask(A, NULL, text).bounced);
        }
        SAY(A, ":1\r\n", "pexpire %s 50000", key);
        struct slice raw = fetch(A, "t1", 'k', key, token);
        assert_int_equal(dumpfile_take_entry(raw, &e), raw.n);
        assert_true(image_valid(e.image) && slice_eq(e.key, slice_str(key)) && e.expiry_ms == r.w->now_ms + 50000);
        assert_true(scratch_put(scratch, raw));
        scratch_free(scratch);
        SAY(A, "+OK\r\n", "txn.drop t1");
        SAY(A, ":1\r\n", "del %s", key);
    }
}

/* ---- what is left */

static void what_is_old_is_listed_and_a_settled_decision_stays_for_who_may_ask(void **state)
{
    struct half h;
    half_prepare(&h, "t1");
    decide(B, "t1", h.token[B], buf_slice(&h.ops[B]), "+OK\r\n");
    SAY(A, "*2\r\n*0\r\n*0\r\n", "txn.list 1000");
    pass(1500);
    SAY(A, "*2\r\n*1\r\n*3\r\n$2\r\nt1\r\n:3\r\n:1500\r\n*0\r\n", "txn.list 1000");
    SAY(B, "*2\r\n*0\r\n*1\r\n*3\r\n$2\r\nt1\r\n*1\r\n:2\r\n:1500\r\n", "txn.list 0");
    lead_anew(A);
    lead_anew(B);
    SAY(A, "*2\r\n*1\r\n*3\r\n$2\r\nt1\r\n:3\r\n:0\r\n*0\r\n", "txn.list 0");
    SAY(A, "+OK\r\n", "txn.commit t1");
    SAY(B, "+OK\r\n", "txn.settled t1");
    SAY(B, "*2\r\n*0\r\n*1\r\n*3\r\n$2\r\nt1\r\n*0\r\n:0\r\n", "txn.list 0");
    SAY(B, "+committed\r\n", "txn.ask t1");
    SAY(B, "+OK\r\n", "txn.forget t1");
    SAY(B, "+none\r\n", "txn.ask t1");
    half_fini(&h);
}

static void nonsense_is_refused(void **state)
{
    static const char *const lines[] = {
        "txn.fetch t1 MAYBE 0 r k", "txn.fetch t1 2 0 r k",        "txn.fetch t1 1 16 r k", "txn.fetch t1 1 0 x k",  "txn.fetch t1 0 0 r k", "txn.fetch t1 4294967295 0 r k",
        "txn.run x 0",                "txn.run 0 1 0 9 get k",              "txn.run 4294967295 0 k d",     "txn.run 0 1 99 2 get k",       "txn.prepare t1 x 16384 ops",  "txn.decide t1 x 2 1 ops",
        "txn.decide t1 x 1 99999 o",  "txn.decide t1 x 4294967295 1 2 ops", "txn.list x",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_false(ask(A, NULL, lines[i]).bounced);
        assert_memory_equal(r.out.p, "-ERR the arguments of txn.", 26);
    }
    SAY(A, "-ERR that is no name of a transaction\r\n", "txn.ask a/b");
    SAY(A, "-TXNMOVED a key is not in this group, as far as it knows\r\n", "txn.fetch t1 1 0 r %s", keys[B][0]);
    assert_false(intents_any(intents_of(A)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_value_goes_from_one_group_to_another_and_nobody_sees_half_of_it),
        TEST(a_reservation_keeps_writers_out_and_lets_readers_pass),
        TEST(transactions_that_only_read_a_key_share_it),
        TEST(one_who_reads_keeps_only_writers_out_when_it_is_prepared),
        TEST(a_fetch_has_all_of_its_keys_or_none),
        TEST(whoever_changes_all_keys_waits_for_transactions_and_those_for_it),
        TEST(what_is_too_old_makes_way_and_cannot_be_used_any_more),
        TEST(a_late_copy_of_a_fetch_renews_nothing),
        TEST(without_a_map_nobody_knows_whose_keys_they_are),
        TEST(a_leader_that_is_lost_after_the_fetch_takes_the_reservation_along),
        TEST(an_intent_outlives_leaders_and_readers_wait_for_its_fate),
        TEST(a_leader_of_the_deciding_group_that_is_lost_cannot_decide),
        TEST(whoever_asks_ends_what_is_not_decided),
        TEST(an_answer_about_a_fate_waits_until_it_is_committed),
        TEST(one_that_wrote_nothing_hears_whether_all_it_saw_was_held),
        TEST(a_key_that_a_transaction_has_does_not_expire_under_it),
        TEST(a_key_that_expired_before_is_gone_when_it_is_fetched),
        TEST(ops_of_others_keys_are_refused_and_nothing_is_done),
        TEST(an_op_that_does_not_fit_is_passed_over),
        TEST(of_a_key_that_is_only_replaced_a_stand_in_comes),
        TEST(what_is_old_is_listed_and_a_settled_decision_stays_for_who_may_ask),
        TEST(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
