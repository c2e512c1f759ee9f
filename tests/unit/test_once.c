/* Records of writes that were applied: every replica has them with the write itself, by the log or by a snapshot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/keyhash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cluster/once.h"
#include "cluster/seatapply.h"
#include "cluster/seatentry.h"
#include "dump/dumpfile.h"
#include "shard/task.h"
#include "store/store.h"
#include "store/table.h"

enum { SEED = 7 };

static const struct store_limits limits = {.hash_entries = 128, .hash_value = 64, .list_size = -2}; /* records are strings */
static struct store *new_store(void) { return store_new(SEED, &limits, SEED); }

static struct ticket ticket(uint32_t slot, uint64_t seq) { return (struct ticket){.node = 3, .front = 1, .slot = slot, .session = 99, .seq = seq}; }

static void check_happened(struct store *s, struct ticket t, const char *reply)
{
    struct slice got;
    assert_int_equal(once_look(s, &t, &got), ONCE_HAPPENED);
    assert_true(slice_eq(got, slice_str(reply)));
}

static void check_state(struct store *s, struct ticket t, enum once_state state)
{
    struct slice got;
    assert_int_equal(once_look(s, &t, &got), state);
}

static void note(struct store *s, struct ticket t, const char *reply) { once_note(s, &t, slice_str(reply)); }

static void a_write_is_known_until_the_next_one_has_its_slot(void **state)
{
    struct store *s = new_store();
    check_state(s, ticket(1, 10), ONCE_NEW);
    note(s, ticket(1, 10), ":1\r\n");
    check_happened(s, ticket(1, 10), ":1\r\n");
    check_state(s, ticket(1, 11), ONCE_NEW);
    check_state(s, ticket(2, 10), ONCE_NEW);
    note(s, ticket(1, 12), "+OK\r\n");
    check_happened(s, ticket(1, 12), "+OK\r\n");
    check_state(s, ticket(1, 10), ONCE_LATE);
    assert_int_equal(store_keys(s, STORE_SYSTEM_DB), 1);
    store_free(s);
}

/* They lie in logs and snapshots that later versions read. */
static void records_have_the_names_that_they_always_had(void **state)
{
    static const struct ticket tickets[] = {
        {.node = 1, .front = 0, .slot = 1},
        {.node = 15, .front = 16, .slot = 255},
        {.node = UINT64_MAX, .front = UINT32_MAX, .slot = UINT32_MAX},
        {.node = 0xfedcba987654321, .front = 0x10, .slot = 0x9abcdef},
    };
    for (size_t i = 0; i < sizeof tickets / sizeof tickets[0]; i++) {
        struct store *s = new_store();
        struct place at;
        char name[64];
        int n = snprintf(name, sizeof name, "once/%llx-%x-%x", (unsigned long long)tickets[i].node, tickets[i].front, tickets[i].slot);
        struct slice key = slice_of(name, (size_t)n);
        note(s, tickets[i], "+OK\r\n");
        store_peek(s, STORE_SYSTEM_DB, keyhash(key, s->seed), key, &at);
        assert_non_null(at.e);
        store_free(s);
    }
}

static void what_another_life_or_node_or_front_wrote_is_another_write(void **state)
{
    struct store *s = new_store();
    note(s, ticket(1, 10), ":1\r\n");
    struct ticket life = ticket(1, 10), node = life, front = life;
    life.session++;
    node.node++;
    front.front++;
    check_state(s, life, ONCE_NEW);
    check_state(s, node, ONCE_NEW);
    check_state(s, front, ONCE_NEW);
    life.seq = 1; /* the numbers of a process begin anew */
    note(s, life, "+OK\r\n");
    check_happened(s, life, "+OK\r\n");
    store_free(s);
}

static void of_a_long_reply_only_that_it_was_there_is_known(void **state)
{
    struct store *s = new_store();
    struct ticket t = ticket(1, 10);
    char text[ONCE_REPLY_MAX + 1];
    struct slice got;
    memset(text, 'x', sizeof text);
    once_note(s, &t, slice_of(text, sizeof text));
    check_state(s, t, ONCE_FORGOTTEN);
    t.seq++;
    once_note(s, &t, slice_of(text, ONCE_REPLY_MAX));
    assert_int_equal(once_look(s, &t, &got), ONCE_HAPPENED);
    assert_int_equal(got.n, ONCE_REPLY_MAX);
    t.seq++;
    once_note(s, &t, slice_of(NULL, 0));
    check_happened(s, t, "");
    store_free(s);
}

static void gather(void *ctx, const struct op *op) { seatentry_add_op(ctx, op); }

/* The entry that these ops make, applied to another replica. */
static void replicate(struct store *to, struct slice ops)
{
    struct seatapply a;
    struct buf entry = {0}, gathered = {0};
    size_t at = 0;
    uint64_t index = 0, term = 0;
    seatapply_init(&a, to);
    assert_true(seatentry_next(ops, 1, &at, &entry));
    seatapply_add(&gathered, &(struct raftnode_entry){.index = 1, .term = 1, .type = RAFTNODE_COMMAND, .data = buf_slice(&entry)});
    seatapply_entries(&a, buf_slice(&gathered), &index, &term);
    assert_int_equal(index, 1);
    seatapply_fini(&a);
    buf_fini(&entry);
    buf_fini(&gathered);
}

static void snapshot(const struct store *from, struct store *to)
{
    struct seatapply a;
    struct buf raw = {0};
    struct table_iter it;
    table_iter_init(&it, &from->dbs[STORE_SYSTEM_DB]->keys);
    for (struct entry *e; (e = table_iter_next(&it));) dumpfile_add_entry(&raw, STORE_SYSTEM_DB, e);
    seatapply_init(&a, to);
    seatapply_empty(&a);
    seatapply_fill(&a, buf_slice(&raw));
    seatapply_filled(&a);
    seatapply_fini(&a);
    buf_fini(&raw);
}

static void who_leads_later_knows_it_by_the_log_and_by_a_snapshot(void **state)
{
    struct store *leader = new_store(), *follower = new_store(), *late = new_store();
    struct buf ops = {0};
    leader->on_op = gather;
    leader->on_op_ctx = &ops;
    store_apply(leader, &(struct op){.kind = OP_SET, .key = slice_str("k"), .value = slice_str("1")}, NULL);
    note(leader, ticket(1, 10), ":1\r\n");
    note(leader, ticket(2, 11), "*0\r\n");
    replicate(follower, buf_slice(&ops));
    snapshot(follower, late);
    struct store *all[] = {leader, follower, late};
    for (int i = 0; i < 3; i++) {
        check_happened(all[i], ticket(1, 10), ":1\r\n");
        check_happened(all[i], ticket(2, 11), "*0\r\n");
        check_state(all[i], ticket(1, 12), ONCE_NEW);
    }
    leader->on_op = NULL;
    for (int i = 0; i < 3; i++) store_free(all[i]);
    buf_fini(&ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_is_known_until_the_next_one_has_its_slot),
        cmocka_unit_test(records_have_the_names_that_they_always_had),
        cmocka_unit_test(what_another_life_or_node_or_front_wrote_is_another_write),
        cmocka_unit_test(of_a_long_reply_only_that_it_was_there_is_known),
        cmocka_unit_test(who_leads_later_knows_it_by_the_log_and_by_a_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
