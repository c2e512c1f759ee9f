/* What a seat lets in while keys of its group are carried to another one (docs/decisions/023). One group has a seat here; this node leads it, or follows. Its records are written as by a command, or come with its log. */
#include "rig.h"

#include "base/le.h"
#include "cluster/holding.h"
#include "cluster/seat.h"
#include "cluster/seatentry.h"
#include "dump/dumpfile.h"
#include "shard/seating.h"
#include "store/interest.h"

enum { HERE = 2, THERE = 3, OPERATION = 9, LOG_MAX = 64, VERSION = 7 };

static struct {
    struct rig *rig;
    struct worker *w;
    struct seats *seats;
    struct shard *shard;
    struct buf out;
    uint64_t last, handed, term, round;
    struct buf log[LOG_MAX];
    uint64_t terms[LOG_MAX];
    unsigned served, bounced; /* of waiters that came home */
} sc;

/* ---- the log: what is proposed is committed */

static void append(struct slice data)
{
    assert_true(sc.last + 1 < LOG_MAX);
    buf_add_slice(&sc.log[++sc.last], data);
    sc.terms[sc.last] = sc.term;
}

static void wake(void *ctx) {}
static void told(void *ctx) {}
static void refill(void *ctx, uint32_t group) { fail_msg("nothing was lost"); }
static void ask_round(void *ctx, uint32_t group, uint64_t round) { sc.round = round; }

static int propose(void *ctx, uint32_t group, uint64_t term, struct slice data, uint64_t *index)
{
    append(data);
    *index = sc.last;
    return 0;
}

static void settle(void)
{
    for (int i = 0; i < 3; i++) {
        seats_turn(sc.seats, 1000);
        seats_tell(sc.seats);
        while (sc.handed < sc.last) {
            const struct buf *data = &sc.log[++sc.handed];
            seats_committed(sc.seats, HERE, &(struct raftnode_entry){.index = sc.handed, .term = sc.terms[sc.handed], .type = data->len ? RAFTNODE_COMMAND : RAFTNODE_BARRIER, .data = buf_slice(data)}, 1);
        }
        if (sc.round) seats_confirmed(sc.seats, HERE, sc.round, 0);
        rig_settle(sc.rig);
    }
}

static void lead(void)
{
    sc.term++;
    append(SLICE(""));
    settle();
    seats_role(sc.seats, HERE, RAFTNODE_LEADER, sc.term, 1);
    settle();
}

static void follow(void)
{
    seats_role(sc.seats, HERE, RAFTNODE_FOLLOWER, ++sc.term, 2);
    settle();
}

/* ---- maps: the key space u has an order, and is here */

static void set_map(uint64_t version)
{
    const struct hash_desc all = {.id = 1, .generation = 1, .shard = HERE, .first = 0, .last = UINT64_MAX};
    const struct range_desc line = {.id = 2, .generation = 1, .shard = HERE};
    enum spaces_error error;
    struct space_map *plain = spaces_new(&sc.rig->engine->route, SPACE_BUCKET, &all, 1, version - 1);
    struct space_map *m = spaces_set_mode(plain, SLICE("u"), SPACE_RANGE, &line, 1, true, &error, NULL);
    assert_non_null(m);
    assert_int_equal(m->version, version);
    engine_set_map(sc.rig->engine, NULL, m);
    spaces_unref(plain);
}

/* The keys below are there. */
static void set_moved_map(uint64_t version, struct slice below)
{
    const struct hash_desc all = {.id = 1, .generation = 1, .shard = HERE, .first = 0, .last = UINT64_MAX};
    const struct range_desc line[] = {{.id = 2, .generation = 1, .shard = THERE, .end = below}, {.id = 3, .generation = 1, .shard = HERE, .start = below}};
    enum spaces_error error;
    struct space_map *plain = spaces_new(&sc.rig->engine->route, SPACE_BUCKET, &all, 1, version - 1);
    struct space_map *m = spaces_set_mode(plain, SLICE("u"), SPACE_RANGE, line, 2, true, &error, NULL);
    assert_non_null(m);
    engine_set_map(sc.rig->engine, NULL, m);
    spaces_unref(plain);
}

static int set_up(void **state)
{
    memset(&sc, 0, sizeof sc);
    sc.rig = rig_new(1, 3);
    sc.w = sc.rig->workers[0];
    sc.seats = seats_new(&(struct seats_options){.engine = sc.rig->engine, .raft = {NULL, wake, propose, ask_round}, .now = 1000, .refill = refill, .told = told});
    set_map(VERSION);
    assert_int_equal(seats_add(sc.seats, HERE), 0);
    rig_settle(sc.rig);
    lead();
    struct seat_info info;
    assert_true(seats_look(sc.seats, HERE, &info) && info.serves);
    sc.shard = &sc.rig->engine->shards[info.shard];
    return 0;
}

static int tear_down(void **state)
{
    settle();
    seats_free(sc.seats);
    for (uint64_t i = 1; i <= sc.last; i++) buf_fini(&sc.log[i]);
    buf_fini(&sc.out);
    rig_free(sc.rig);
    return 0;
}

/* ---- records */

static struct holding_bound before(const char *key) { return (struct holding_bound){.key = slice_str(key)}; }

/* Everything of u goes there; keys below high were given out, those below gone have arrived. */
static void record_of(const char *gone, const char *high, struct buf *key, struct buf *value)
{
    struct holding_piece here = {.group = HERE}, there = {.group = THERE};
    struct holding_op o = {.plan = {.op = OPERATION, .space = SLICE("u"), .old_side = {.n = 1, .pieces = &here}, .new_side = {.n = 1, .pieces = &there}}, .term = 1, .gone = before(gone), .high = before(high)};
    holding_op_key(key, OPERATION);
    holding_op_encode(value, &o);
}

/* As a command of this leader does. */
static void write_record(const struct op *op)
{
    const struct seating *seating = sc.rig->engine->seating;
    store_apply(sc.shard->store, op, NULL);
    seating->settle(seating->ctx, sc.shard);
    settle();
}

static void give_out(const char *gone, const char *high)
{
    struct buf key = {0}, value = {0};
    record_of(gone, high, &key, &value);
    write_record(&(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = buf_slice(&key), .value = buf_slice(&value)});
    buf_fini(&key);
    buf_fini(&value);
}

static void end_operation(uint64_t version)
{
    struct buf key = {0}, value = {0};
    holding_op_key(&key, OPERATION);
    le_add_u64(&value, version);
    write_record(&(struct op){.kind = OP_DEL, .db = STORE_SYSTEM_DB, .key = buf_slice(&key)});
    write_record(&(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = holding_map_key(), .value = buf_slice(&value)});
    buf_fini(&key);
    buf_fini(&value);
}

/* As a snapshot has it. */
static void copy_record(struct buf *image)
{
    struct buf key = {0};
    struct place at;
    holding_op_key(&key, OPERATION);
    store_peek(sc.shard->store, STORE_SYSTEM_DB, keyhash(buf_slice(&key), sc.shard->store->seed), buf_slice(&key), &at);
    assert_non_null(at.e);
    dumpfile_add_entry(image, STORE_SYSTEM_DB, at.e);
    buf_fini(&key);
}

/* As another leader's log brings it. */
static void hear_of_record(const char *gone, const char *high)
{
    struct buf key = {0}, value = {0}, ops = {0}, entry = {0};
    size_t at = 0;
    record_of(gone, high, &key, &value);
    seatentry_add_op(&ops, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = buf_slice(&key), .value = buf_slice(&value)});
    assert_true(seatentry_next(buf_slice(&ops), 1, &at, &entry));
    append(buf_slice(&entry));
    settle();
    buf_fini(&key);
    buf_fini(&value);
    buf_fini(&ops);
    buf_fini(&entry);
}

/* ---- asking: true: it ran */

static bool run(bool stale, const char *text)
{
    char copy[256];
    struct slice argv[RIG_WORDS_MAX];
    uint32_t argc = 0;
    struct task t = {.resp = 2, .out = &sc.out, .stale = stale};
    snprintf(copy, sizeof copy, "%s", text);
    for (char *save, *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) argv[argc++] = slice_str(word);
    sc.out.len = 0;
    task_add_to(&t, sc.rig->engine, HERE, command_find_any(sc.rig->table, argv[0]), argv, argc);
    t.end = 1;
    assert_true(task_start(sc.w, &t));
    assert_int_equal(t.n_holds, 1);
    bool ran = !t.holds[0].bounced;
    task_fini(&t);
    settle();
    return ran;
}

static bool runs(const char *text) { return run(false, text); }
static bool runs_stale(const char *text) { return run(true, text); }

static void answers(const char *text, const char *reply)
{
    assert_true(runs(text));
    if (!slice_eq(buf_slice(&sc.out), slice_str(reply))) fail_msg("%s: %.*s", text, (int)sc.out.len, sc.out.p);
}

/* ---- */

static void keys_that_were_given_out_bounce_and_others_run(void **state)
{
    assert_true(runs("set u/a 1") && runs("set u/m 1") && runs("mset u/a 1 u/z 1"));
    give_out("", "u/m");
    assert_false(runs("set u/a 2"));
    assert_false(runs("get u/a"));
    assert_false(runs("mget u/z u/a"));
    answers("get u/m", "$1\r\n1\r\n");
    assert_true(runs("set u/z 2") && runs("mget u/z u/m"));
    assert_true(runs("set other/a 2") && runs("set u 2") == false); /* the name itself is the first key of its space */
    give_out("u/m", "u/zz");
    assert_false(runs("get u/m"));
    assert_true(runs("get other/a"));
}

static void an_operation_that_ended_leaves_what_the_map_says(void **state)
{
    give_out("u/zz", "u/zz");
    assert_false(runs("get u/a"));
    end_operation(VERSION + 1);
    assert_false(runs("get u/a")); /* the map here does not know yet that they are elsewhere */
    assert_false(runs("get other/a"));
    assert_false(runs("group.dbsize"));
    set_moved_map(VERSION + 1, SLICE("u/m"));
    assert_true(runs("get other/a") && runs("get u/m") && runs("group.dbsize"));
}

static void ranges_are_served_if_nothing_of_them_was_given_out(void **state)
{
    assert_true(runs("range.count u u/a u/z"));
    give_out("", "u/m");
    assert_false(runs("range.count u u/a u/z"));
    assert_false(runs("range.count u u/a u/b"));
    assert_true(runs("range.count u u/m u/z"));
}

static void commands_over_all_keys_wait_while_some_are_in_two_places(void **state)
{
    const struct seating *seating = sc.rig->engine->seating;
    assert_true(runs("group.dbsize"));
    give_out("", "u/m");
    uint64_t now_ms = (uint64_t)sc.shard->store->now_ms;
    assert_false(holding_is_paused(seating->holding(seating->ctx, sc.shard), now_ms));
    assert_false(runs("group.dbsize"));
    assert_true(holding_is_paused(seating->holding(seating->ctx, sc.shard), now_ms)); /* so that its turn comes */
    give_out("u/m", "u/m");
    assert_false(runs("group.dbsize")); /* the map here does not know that they have gone */
    set_moved_map(VERSION + 1, SLICE("u/m"));
    assert_true(runs("group.dbsize"));
}

static void a_transaction_within_the_group_waits_for_its_keys_or_learns_that_they_are_elsewhere(void **state)
{
    assert_true(runs("txn.run 0 1 0 3 set u/a 1"));
    give_out("", "u/m");
    assert_false(runs("txn.run 0 1 0 3 set u/a 2"));
    assert_false(runs("txn.run 1 0 u/a x 1 0 2 get u/z"));
    assert_false(runs("txn.digest u/a"));
    assert_true(runs("txn.run 0 1 0 3 set u/z 2") && runs("txn.digest u/z"));
    assert_true(runs("txn.ask t1") && runs("txn.list 0")); /* of no keys */
    set_moved_map(VERSION + 1, SLICE("u/m"));
    assert_true(runs("txn.run 0 1 0 3 set u/a 2"));
    assert_memory_equal(sc.out.p, "-TXNMOVED ", 10);
}

static void a_replica_that_follows_judges_stale_reads_as_its_log_says(void **state)
{
    assert_true(runs("set u/a 1"));
    follow();
    assert_false(runs("get u/a"));
    assert_true(runs_stale("get u/a"));
    hear_of_record("", "u/m");
    assert_false(runs_stale("get u/a"));
    assert_true(runs_stale("get u/z"));
    lead();
    assert_false(runs("get u/a")); /* and as a leader it does so from the start */
    assert_true(runs("get u/z"));
}

static void a_seat_that_is_filled_anew_has_the_records_of_its_snapshot(void **state)
{
    struct buf image = {0};
    give_out("", "u/b");
    copy_record(&image);
    give_out("u/b", "u/m");
    assert_false(runs("get u/c"));
    follow();
    struct seat *seat = seats_find(sc.seats, HERE);
    seat_fill_begin(seat);
    seat_filled(seat, sc.last, sc.terms[sc.last], NULL, NULL);
    settle();
    assert_true(runs_stale("get u/a")); /* of one that has none */
    seat_fill_begin(seat);
    seat_fill(seat, buf_slice(&image));
    seat_filled(seat, sc.last, sc.terms[sc.last], NULL, NULL);
    settle();
    assert_false(runs_stale("get u/a"));
    assert_true(runs_stale("get u/c"));
    lead();
    assert_false(runs("get u/a"));
    assert_true(runs("get u/c"));
    buf_fini(&image);
}

/* ---- those who wait */

static void served(struct worker *w, struct waiter *wt)
{
    sc.served++;
    sc.bounced += wt->task.holds[wt->task.n_holds - 1].bounced;
    wait_free(wt);
}

static void turn(struct worker *w, struct waiter *wt) { fail_msg("it needs no turn to be turned away"); }

/* Of a client of another node, if it has turns. */
static void wait_for(const char *key, const char *other, bool has_turns)
{
    const struct slice argv[] = {SLICE("blpop"), slice_str(key), slice_str(other), SLICE("0")};
    struct task t = {.resp = 2, .out = &sc.out, .served = served, .turn = has_turns ? turn : NULL};
    task_add(&t, sc.rig->engine, command_find(sc.rig->table, argv[0]), argv, 4);
    t.end = 1;
    assert_true(task_start(sc.w, &t));
    assert_non_null(t.blocked);
    task_fini(&t);
}

static bool is_concerned(void *ctx, struct slice key, uint64_t hash) { return slice_cmp(key, SLICE("u/m")) < 0; }

static void who_waits_for_a_key_that_is_given_out_is_turned_away(void **state)
{
    wait_for("u/a", "u/b", false);
    wait_for("u/z", "u/a", true);
    wait_for("u/a", "u/a", true);
    wait_for("u/y", "u/z", false);
    give_out("", "u/m");
    interest_touch_if(sc.shard->store->interests, 0, is_concerned, NULL);
    assert_true(runs("get u/z")); /* whoever comes by serves what is ready */
    assert_int_equal(sc.served, 3);
    assert_int_equal(sc.bounced, 3);
    assert_true(runs("rpush u/y v")); /* the one whose keys are here has waited on */
    assert_int_equal(sc.served, 4);
    assert_int_equal(sc.bounced, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_that_were_given_out_bounce_and_others_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_operation_that_ended_leaves_what_the_map_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranges_are_served_if_nothing_of_them_was_given_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(commands_over_all_keys_wait_while_some_are_in_two_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_transaction_within_the_group_waits_for_its_keys_or_learns_that_they_are_elsewhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_replica_that_follows_judges_stale_reads_as_its_log_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_seat_that_is_filled_anew_has_the_records_of_its_snapshot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_for_a_key_that_is_given_out_is_turned_away, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
