/* Key space events of transactions over groups: as bytes, in records of intents, and told by the group's leader (seatrig.h). */
#include "seatrig.h"

#include "cluster/intentcode.h"
#include "cluster/intentevent.h"
#include "cluster/seatentry.h"
#include "cluster/txncmd.h"
#include "log/opcode.h"

enum { A = SEATRIG_FIRST };

#define KEY "k"

static struct seatrig r;
static struct buf told; /* "event key@db;" */

static void note(void *ctx, struct exec *x, unsigned event_class, const char *event, struct slice key, uint16_t db)
{
    assert_int_equal(event_class, NOTIFY_STRING);
    buf_printf(&told, "%s %.*s@%u;", event, (int)key.n, key.p, db);
}

static struct space_map *all_in_one(const struct route *route)
{
    return spaces_new(route, SPACE_BUCKET, &(struct hash_desc){.id = 1, .generation = 1, .shard = A, .last = UINT64_MAX}, 1, 1);
}

static int set_up(void **state)
{
    seatrig_new_by(&r, all_in_one);
    r.rig->engine->host = (struct exec_host){.notify = note};
    return 0;
}

static int tear_down(void **state)
{
    seatrig_free(&r);
    buf_fini(&told);
    return 0;
}

/* ---- bytes */

static void make_events(struct buf *out)
{
    intentevent_add(out, &(struct intentevent){NOTIFY_GENERIC, SLICE("del"), SLICE("a/1"), 0});
    intentevent_add(out, &(struct intentevent){NOTIFY_NEW, SLICE("new"), SLICE(""), STORE_DBS - 1});
}

static void events_read_back_as_they_were_written(void **state)
{
    struct buf b = {0};
    struct intentevent e;
    make_events(&b);
    struct slice in = buf_slice(&b);
    assert_true(intentevent_next(&in, &e) && e.event_class == NOTIFY_GENERIC && slice_is(e.name, "del") && slice_is(e.key, "a/1") && e.db == 0);
    size_t first = b.len - in.n;
    assert_true(intentevent_next(&in, &e) && e.event_class == NOTIFY_NEW && slice_is(e.name, "new") && e.key.n == 0 && e.db == STORE_DBS - 1);
    assert_false(intentevent_next(&in, &e));
    for (size_t n = 0; n <= b.len; n++) assert_int_equal(intentevent_are(slice_of(b.p, n)), n == 0 || n == first || n == b.len);
    buf_fini(&b);
}

static void what_is_no_event_is_refused(void **state)
{
    static const struct {
        int at;
        char byte;
    } wrong[] = {{0, STORE_DBS}, {1, 0}, {1, 1}, {1, 12}, {1, 15}, {1, -1}, {2, 0}, {2, INTENTEVENT_NAME_MAX + 1}, {3, 1}, {4, 9}, {7, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct buf b = {0};
        make_events(&b);
        assert_true(intentevent_are(buf_slice(&b)));
        b.p[wrong[i].at] = wrong[i].byte;
        assert_false(intentevent_are(buf_slice(&b)));
        buf_fini(&b);
    }
}

static void add_op(struct buf *ops) { seatentry_add_op(ops, &(struct op){.kind = OP_SET, .key = SLICE(KEY), .value = SLICE("v")}); }

static void an_intent_with_events_reads_back_as_it_was_written(void **state)
{
    struct buf b = {0}, ops = {0}, events = {0};
    struct intentcode i;
    add_op(&ops);
    make_events(&events);
    intentcode_begin(&b, 5, 1);
    intentcode_add_key(&b, &(struct intents_key){0, INTENTS_WRITES, SLICE(KEY)});
    intentcode_add_events(&b, buf_slice(&events));
    intentcode_end(&b, buf_slice(&ops));
    assert_true(intentcode_read(buf_slice(&b), &i));
    assert_true(slice_eq(i.events, buf_slice(&events)) && slice_eq(i.ops, buf_slice(&ops)) && i.decider == 5);
    for (size_t n = 0; n < b.len; n++) assert_int_equal(intentcode_read(slice_of(b.p, n), &i), n == b.len - ops.len);
    b.p[0] = 3;
    assert_false(intentcode_read(buf_slice(&b), &i));
    b.p[0] = 1; /* then they are no ops */
    assert_false(intentcode_read(buf_slice(&b), &i));
    buf_fini(&b);
    buf_fini(&ops);
    buf_fini(&events);
}

/* ---- who tells */

static void say(const char *reply, const struct slice *argv, uint32_t argc)
{
    assert_true(seatrig_ask(&r, A, 0, argv, argc));
    seatrig_replied(&r, reply);
}

#define SAY(reply, ...) \
    do { \
        const struct slice words[] = {__VA_ARGS__}; \
        say(reply, words, sizeof words / sizeof words[0]); \
    } while (0)

static void was_told(const char *events)
{
    buf_add_byte(&told, '\0');
    assert_string_equal(told.p, events);
    told.len = 0;
}

struct attempt {
    struct slice token;
    char bytes[TXNCMD_TOKEN_BYTES];
    struct buf ops, events;
};

static void attempt_begin(struct attempt *a, const char *id)
{
    const struct slice words[] = {SLICE("txn.fetch"), slice_str(id), SLICE("1"), SLICE("0"), SLICE("w"), SLICE(KEY)};
    assert_true(seatrig_ask(&r, A, 0, words, 6));
    *a = (struct attempt){0};
    memcpy(a->bytes, r.out.p + 9, sizeof a->bytes); /* behind "*2 $16" */
    a->token = slice_of(a->bytes, sizeof a->bytes);
    add_op(&a->ops);
    intentevent_add(&a->events, &(struct intentevent){NOTIFY_STRING, SLICE("set"), SLICE(KEY), 0});
    intentevent_add(&a->events, &(struct intentevent){NOTIFY_STRING, SLICE("append"), SLICE(KEY), 7});
}

static void attempt_end(struct attempt *a)
{
    buf_fini(&a->ops);
    buf_fini(&a->events);
}

static void who_applies_an_intent_tells_of_its_events_once(void **state)
{
    struct attempt a;
    attempt_begin(&a, "t1");
    SAY("+OK\r\n", SLICE("txn.prepare"), SLICE("t1"), a.token, SLICE("9"), buf_slice(&a.ops), buf_slice(&a.events));
    was_told("");
    seatrig_lead_anew(&r, A); /* another leader, which has but the record */
    SAY("+OK\r\n", SLICE("txn.commit"), SLICE("t1"));
    was_told("set k@0;append k@7;");
    SAY("+OK\r\n", SLICE("txn.commit"), SLICE("t1"));
    was_told("");
    attempt_end(&a);
}

static void what_is_dropped_is_not_told(void **state)
{
    struct attempt a;
    attempt_begin(&a, "t1");
    SAY("+OK\r\n", SLICE("txn.prepare"), SLICE("t1"), a.token, SLICE("9"), buf_slice(&a.ops), buf_slice(&a.events));
    SAY("+OK\r\n", SLICE("txn.drop"), SLICE("t1"));
    SAY("+OK\r\n", SLICE("txn.commit"), SLICE("t1"));
    was_told("");
    attempt_end(&a);
}

static void who_decides_tells_of_its_own_events_once(void **state)
{
    struct attempt a;
    attempt_begin(&a, "t1");
    SAY("+OK\r\n", SLICE("txn.decide"), SLICE("t1"), a.token, SLICE("1"), SLICE("9"), buf_slice(&a.ops), buf_slice(&a.events));
    was_told("set k@0;append k@7;");
    SAY("+OK\r\n", SLICE("txn.decide"), SLICE("t1"), a.token, SLICE("1"), SLICE("9"), buf_slice(&a.ops), buf_slice(&a.events));
    was_told("");
    attempt_end(&a);
}

static void what_others_send_is_looked_at_before_anything_is_done(void **state)
{
    struct attempt a;
    attempt_begin(&a, "t1");
    SAY("-ERR the arguments of txn.prepare make no sense\r\n", SLICE("txn.prepare"), SLICE("t1"), a.token, SLICE("9"), buf_slice(&a.ops), SLICE("set k"));
    SAY("-ERR the arguments of txn.decide make no sense\r\n", SLICE("txn.decide"), SLICE("t1"), a.token, SLICE("1"), SLICE("9"), buf_slice(&a.ops), buf_slice(&a.events), SLICE(""));
    SAY("$-1\r\n", SLICE("get"), SLICE(KEY));
    was_told("");
    attempt_end(&a);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_read_back_as_they_were_written),
        cmocka_unit_test(what_is_no_event_is_refused),
        cmocka_unit_test(an_intent_with_events_reads_back_as_it_was_written),
        TEST(who_applies_an_intent_tells_of_its_events_once),
        TEST(what_is_dropped_is_not_told),
        TEST(who_decides_tells_of_its_own_events_once),
        TEST(what_others_send_is_looked_at_before_anything_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
