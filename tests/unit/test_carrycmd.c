/* The group's own commands of carrying keys, one by one: key space "s" is a bucket in one group, and goes to another. */
#include "seatrig.h"

#include "cluster/holding.h"
#include "dump/dumpfile.h"
#include "shard/locks.h"
#include "shard/seating.h"
#include "store/interest.h"

enum { FROM = SEATRIG_FIRST, TO = SEATRIG_FIRST + 1, OTHER = SEATRIG_FIRST + 2, OP = 7, RANGE = 100 };

static struct seatrig r;
static struct buf plan;

/* ---- asking */

static const struct space_map *map(void) { return seatrig_map(&r); }

/* Words at blanks; %P in their place is the plan, %B the bytes. */
static void ask(uint32_t group, uint16_t db, struct slice bytes, const char *text)
{
    char copy[512], *save;
    struct slice argv[RIG_WORDS_MAX];
    uint32_t argc = 0;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[argc++] = strcmp(word, "%P") == 0 ? buf_slice(&plan) : strcmp(word, "%B") == 0 ? bytes : slice_str(word);
    seatrig_ask(&r, group, db, argv, argc);
}

static void says(const char *reply) { seatrig_says(&r, reply); }

#define SAY(group, reply, ...) \
    do { \
        char say_text[512]; \
        snprintf(say_text, sizeof say_text, __VA_ARGS__); \
        ask(group, 0, SLICE(""), say_text); \
        says(reply); \
    } while (0)

#define BUSY "-CARRYBUSY"
#define OLD "-CARRYOLD"

static void follow(struct space_map *next) { seatrig_follow(&r, next); }

/* ---- life */

static int set_up(void **state)
{
    enum spaces_error error;
    const struct range_desc bucket = {.id = RANGE, .shard = FROM};
    const struct holding_piece old = {.group = FROM}, new = {.group = TO};
    const struct holding_plan p = {.op = OP, .space = SLICE("s"), .old_side = {.n = 1, .pieces = &old}, .new_side = {.n = 1, .pieces = &new}};
    seatrig_new(&r);
    holding_plan_encode(&plan, &p);
    follow(spaces_set_mode(map(), SLICE("s"), SPACE_BUCKET, &bucket, 1, true, &error, NULL));
    for (int i = 0; i < 9; i++) SAY(0, "+OK", "set s/%d value%d", i, i);
    return 0;
}

static int tear_down(void **state)
{
    buf_fini(&plan);
    seatrig_free(&r);
    return 0;
}

static void begin(void)
{
    enum spaces_error error;
    SAY(FROM, "*3\r\n$1\r\n-\r\n$1\r\n-\r\n$1\r\n-\r\n", "carry.begin %d 5 %llu %%P", OP, (unsigned long long)map()->version);
    SAY(TO, "*3\r\n", "carry.begin %d 5 %llu %%P", OP, (unsigned long long)map()->version);
    follow(spaces_move(map(), SLICE("s"), RANGE, TO, &error, NULL));
}

/* A freeze that gives so many entries to the one target; they and the locks are a part of a take: its bytes come into parts. */
struct part {
    struct buf entries[16], locks;
    uint32_t n;
};

static void freeze(const char *bound, struct part *p)
{
    size_t at = 0;
    SAY(FROM, "*1\r\n*4\r\n:3\r\n", "carry.freeze %d 5 %s 1000000", OP, bound);
    *p = (struct part){0};
    for (int i = 0; i < 3; i++) seatrig_value(&r, &at);
    p->n = (uint32_t)seatrig_value(&r, &at).n;
    for (uint32_t i = 0; i < p->n; i++) buf_add_slice(&p->entries[i], seatrig_value(&r, &at).text);
    assert_int_equal(seatrig_value(&r, &at).n, 0); /* none is large */
    buf_add_slice(&p->locks, seatrig_value(&r, &at).text);
}

static void part_fini(struct part *p)
{
    for (uint32_t i = 0; i < p->n; i++) buf_fini(&p->entries[i]);
    buf_fini(&p->locks);
}

static void take(uint32_t group, const char *bound, const struct part *p, const char *reply)
{
    struct slice argv[32] = {SLICE("carry.take"), SLICE("7"), SLICE("5"), slice_str(bound), SLICE("1")};
    char n[8];
    uint32_t argc = 5;
    snprintf(n, sizeof n, "%u", p->n);
    argv[argc++] = slice_str(n);
    for (uint32_t i = 0; i < p->n; i++) argv[argc++] = buf_slice(&p->entries[i]);
    argv[argc++] = SLICE("0");
    argv[argc++] = buf_slice(&p->locks);
    assert_true(seatrig_ask(&r, group, 0, argv, argc));
    says(reply);
}

static void carry(const char *bound)
{
    struct part p;
    freeze(bound, &p);
    take(TO, bound, &p, "+OK");
    part_fini(&p);
}

static uint64_t keys(uint32_t group) { return store_keys(seatrig_store(&r, group), 0); }

/* ---- */

static void a_slice_is_in_two_places_until_it_is_dropped_and_served_in_none_until_it_is_taken(void **state)
{
    struct part p, again;
    begin();
    freeze("(s/3", &p);
    assert_int_equal(p.n, 3);
    SAY(0, "bounced", "get s/1");
    SAY(0, "$6\r\nvalue5", "get s/5");
    freeze("(s/3", &again);
    assert_int_equal(again.n, 3);
    for (int i = 0; i < 3; i++) assert_true(slice_eq(buf_slice(&p.entries[i]), buf_slice(&again.entries[i])));
    take(TO, "(s/3", &p, "+OK");
    assert_int_equal(keys(FROM), 9);
    assert_int_equal(keys(TO), 3);
    SAY(FROM, "+OK", "carry.drop %d 5 (s/3", OP);
    assert_int_equal(keys(FROM), 6);
    part_fini(&p);
    part_fini(&again);
    carry("+");
    assert_int_equal(keys(FROM), 6);
    SAY(FROM, "+OK", "carry.end %d 5 90", OP);
    assert_int_equal(keys(FROM), 0);
    SAY(TO, "+OK", "carry.end %d 5 90", OP);
    assert_int_equal(keys(TO), 9);
    SAY(FROM, BUSY, "carry.end %d 5 91", OP); /* by a map that is older than what has ended */
}

static void a_measured_slice_has_a_key_of_all_databases_or_of_none_and_a_huge_value_goes_alone(void **state)
{
    struct buf huge = {0};
    for (int i = 0; i < 100000; i++) buf_add_byte(&huge, 'x');
    for (uint16_t db = 1; db < 4; db++) {
        ask(0, db, SLICE(""), "set s/1 elsewhere");
        says("+OK");
    }
    ask(0, 0, buf_slice(&huge), "set s/5 %B");
    begin();
    SAY(FROM, "$4\r\n(s/2\r\n", "carry.measure %d 2 100000", OP); /* five entries: s/0, and four of s/1 */
    SAY(FROM, "$4\r\n(s/1\r\n", "carry.measure %d 1 100000", OP);
    SAY(FROM, "$4\r\n(s/5\r\n", "carry.measure %d 100 5000", OP);
    carry("(s/5");
    SAY(FROM, "$4\r\n(s/6\r\n", "carry.measure %d 100 5000", OP);
    carry("(s/6");
    SAY(FROM, "$1\r\n+\r\n", "carry.measure %d 100 5000", OP);
    SAY(TO, "$1\r\n+\r\n", "carry.measure %d 100 5000", OP);
    carry("+");
    for (uint16_t db = 1; db < 4; db++) assert_int_equal(store_keys(seatrig_store(&r, TO), db), 1);
    buf_fini(&huge);
}

static void tells_keys(const char *n)
{
    char expected[32];
    ask(0, 0, SLICE(""), "space.info s");
    snprintf(expected, sizeof expected, "$4\r\nkeys\r\n:%s\r\n", n);
    if (!memmem(r.out.p, r.out.len, expected, strlen(expected))) fail_msg("got %.*s\n  expected %s keys", (int)r.out.len, r.out.p, n);
}

/* What has been carried is in the source, too, until it is dropped. */
static void keys_in_two_places_are_told_of_once(void **state)
{
    enum spaces_error error;
    tells_keys("9");
    begin();
    carry("(s/3");
    follow(spaces_move_advance(map(), SLICE("s"), RANGE, SLICE("s/3"), &error, NULL));
    tells_keys("9");
    carry("+");
    follow(spaces_move_finish(map(), SLICE("s"), RANGE, &error, NULL));
    assert_int_equal(keys(FROM), 6);
    assert_int_equal(keys(TO), 9);
    tells_keys("9");
}

static void orders_that_come_late_change_nothing(void **state)
{
    struct part first, second;
    begin();
    freeze("(s/3", &first);
    take(TO, "(s/3", &first, "+OK");
    freeze("(s/6", &second);
    SAY(FROM, OLD, "carry.freeze %d 5 (s/3 1000000", OP);
    SAY(FROM, "+OK", "carry.drop %d 5 (s/3", OP); /* what is given out now has not arrived */
    assert_int_equal(keys(FROM), 6);
    take(TO, "(s/6", &second, "+OK");
    follow(spaces_move_advance(map(), SLICE("s"), RANGE, SLICE("s/6"), &(enum spaces_error){0}, NULL));
    SAY(0, "+OK", "set s/1 newer");
    take(TO, "(s/3", &first, "+OK");
    SAY(0, "$5\r\nnewer\r\n", "get s/1");
    SAY(FROM, "*3\r\n$1\r\n-\r\n$4\r\n(s/3\r\n$4\r\n(s/6\r\n", "carry.begin %d 6 %llu %%P", OP, (unsigned long long)map()->version);
    SAY(FROM, OLD, "carry.freeze %d 5 + 1000000", OP);
    SAY(FROM, OLD, "carry.drop %d 5 (s/6", OP);
    SAY(FROM, OLD, "carry.end %d 5 9", OP);
    SAY(FROM, OLD, "carry.begin %d 5 %llu %%P", OP, (unsigned long long)map()->version);
    SAY(FROM, "-ERR the operation has not carried", "carry.end %d 6 9", OP);
    part_fini(&first);
    part_fini(&second);
}

static void an_operation_that_has_ended_does_not_come_back(void **state)
{
    unsigned long long version = map()->version;
    begin();
    carry("+");
    follow(spaces_move_finish(map(), SLICE("s"), RANGE, &(enum spaces_error){0}, NULL));
    SAY(FROM, "+OK", "carry.end %d 5 %llu", OP, (unsigned long long)map()->version);
    SAY(FROM, "+OK", "carry.end %d 5 %llu", OP, (unsigned long long)map()->version);
    SAY(FROM, "-CARRYLATE", "carry.begin %d 5 %llu %%P", OP, version);
    SAY(FROM, "-CARRYNONE", "carry.freeze %d 5 + 1000000", OP);
    SAY(OTHER, "+OK", "carry.end %d 5 %llu", OP, (unsigned long long)map()->version); /* that it never heard of */
    SAY(OTHER, "-CARRYLATE", "carry.begin %d 5 %llu %%P", OP, version);
    struct buf next = {0};
    const struct holding_piece old = {.group = TO}, new = {.group = FROM};
    const struct holding_plan back = {.op = OP + 1, .space = SLICE("s"), .start = SLICE("s/4"), .old_side = {.n = 1, .pieces = &old}, .new_side = {.n = 1, .pieces = &new}};
    holding_plan_encode(&next, &back);
    char text[64];
    snprintf(text, sizeof text, "carry.begin 8 5 %llu %%B", (unsigned long long)map()->version);
    ask(TO, 0, buf_slice(&next), text);
    says(BUSY); /* it has not heard the end of the one before */
    SAY(TO, "+OK", "carry.end %d 5 %llu", OP, (unsigned long long)map()->version);
    ask(TO, 0, buf_slice(&next), text);
    says("*3\r\n");
    buf_fini(&next);
}

static void reservations_make_way_and_intents_are_waited_for(void **state)
{
    char token[2][TXNCMD_TOKEN_BYTES + 1] = {{0}};
    begin();
    for (int i = 0; i < 2; i++) {
        size_t at = 0;
        SAY(FROM, "*2\r\n", "txn.fetch t%d 1 0 r s/%d", i, i * 2);
        seatrig_value(&r, &at);
        memcpy(token[i], seatrig_value(&r, &at).text.p, TXNCMD_TOKEN_BYTES);
    }
    SAY(FROM, "+OK", "txn.prepare t1 %s %d %%B", token[1], TO);
    SAY(FROM, BUSY, "carry.freeze %d 5 (s/3 1000000", OP);
    SAY(FROM, "-TXNGONE", "txn.done t0 %s", token[0]);
    SAY(FROM, "-TXNBUSY", "txn.fetch t2 1 0 r s/8"); /* so that the freeze has its turn */
    SAY(FROM, "*1\r\n", "carry.freeze %d 5 (s/2 1000000", OP); /* the intent is behind it */
    SAY(FROM, "+OK", "txn.commit t1");
    SAY(TO, "+OK", "carry.take %d 5 (s/2 0", OP);
    SAY(FROM, "*1\r\n", "carry.freeze %d 5 (s/4 1000000", OP);
    SAY(FROM, "-TXNMOVED", "txn.fetch t3 1 0 r s/3");
    seatrig_pass(&r, 1000);
    SAY(FROM, "*2\r\n", "txn.fetch t3 1 0 r s/8");
    SAY(FROM, "+OK", "txn.drop t3");
}

/* Of a key space that lies in the target. */
static void reserve_locks(const char *id, char token[TXNCMD_TOKEN_BYTES + 1])
{
    size_t at = 0;
    SAY(TO, "*2\r\n", "span.locks %s there there/a there/b %%B w", id);
    seatrig_value(&r, &at);
    memcpy(token, seatrig_value(&r, &at).text.p, TXNCMD_TOKEN_BYTES);
}

static void one_who_is_about_to_change_locks_does_not_lower_the_counter(void **state)
{
    struct part p;
    struct store *from = seatrig_store(&r, FROM), *to = seatrig_store(&r, TO);
    char token[TXNCMD_TOKEN_BYTES + 1] = {0};
    const struct range_desc there = {.id = RANGE + 1, .shard = TO};
    follow(spaces_set_mode(map(), SLICE("there"), SPACE_BUCKET, &there, 1, true, &(enum spaces_error){0}, NULL));
    SAY(0, "*2\r\n", "range.lock s s/1 s/2 me 100000");
    SAY(0, "*2\r\n", "range.lock s s/5 s/6 me 100000");
    begin();
    freeze("(s/3", &p);
    reserve_locks("t1", token);
    SAY(TO, "+OK", "txn.prepare t1 %s %d %%B", token, FROM);
    take(TO, "(s/3", &p, BUSY);
    assert_int_equal(locks_counter(to), 0);
    SAY(TO, "+OK", "txn.commit t1");
    seatrig_pass(&r, 1000);
    reserve_locks("t2", token);
    take(TO, "(s/3", &p, "+OK");
    SAY(TO, "-TXNGONE", "txn.prepare t2 %s %d %%B", token, FROM);
    assert_true(locks_counter(to) == locks_counter(from) && locks_counter(to) == 2);
    part_fini(&p);
}

/* Ranges of "r": up to r/m, and from there on. */
static void set_ranges(uint32_t lower, uint32_t upper)
{
    enum spaces_error error;
    const struct range_desc ranges[] = {{.id = RANGE + 1, .shard = lower, .end = SLICE("r/m")}, {.id = RANGE + 2, .shard = upper, .start = SLICE("r/m")}};
    follow(spaces_set_mode(map(), SLICE("r"), SPACE_RANGE, ranges, 2, true, &error, NULL));
}

/* One of them is about to go, as far as these groups know; the map does not move. */
static void begin_range(uint64_t op, bool upper, uint32_t from, uint32_t to)
{
    const struct slice start = upper ? SLICE("r/m") : SLICE(""), end = upper ? SLICE("") : SLICE("r/m");
    const struct holding_piece old = {.end = end, .group = from}, new = {.end = end, .group = to};
    const struct holding_plan p = {.op = op, .space = SLICE("r"), .start = start, .end = end, .old_side = {.n = 1, .pieces = &old}, .new_side = {.n = 1, .pieces = &new}};
    plan.len = 0;
    holding_plan_encode(&plan, &p);
    SAY(from, "*3\r\n", "carry.begin %llu 5 %llu %%P", (unsigned long long)op, (unsigned long long)map()->version);
    SAY(to, "*3\r\n", "carry.begin %llu 5 %llu %%P", (unsigned long long)op, (unsigned long long)map()->version);
}

static const struct spacelock over_both = {.token = 9, .exclusive = true, .start = SLICE("r/a"), .end = SLICE("r/z"), .owner = SLICE("me")};

static void lock_in(uint32_t group)
{
    const struct seating *s = r.rig->engine->seating;
    struct shard *shard = seatrig_shard(&r, group);
    rig_hold(r.rig, shard->id);
    task_enter(r.w, shard);
    locks_put_one(shard->store, SLICE("r"), &over_both, r.w->now_ms + 100000);
    s->settle(s->ctx, shard);
    rig_let_go(r.rig, 0, shard->id);
}

static bool is_locked_in(uint32_t group) { return locks_has(seatrig_store(&r, group), SLICE("r"), over_both.token); }

static void locks_are_where_other_operations_have_carried_their_parts(void **state)
{
    set_ranges(FROM, OTHER);
    lock_in(FROM);
    lock_in(OTHER);
    begin_range(11, true, OTHER, FROM); /* it comes, */
    begin_range(12, false, FROM, TO);   /* and that goes */
    SAY(OTHER, "*1\r\n", "carry.freeze 11 5 + 1000000");
    SAY(FROM, "+OK", "carry.take 11 5 + 0");
    assert_false(is_locked_in(OTHER));
    SAY(FROM, "*1\r\n", "carry.freeze 12 5 + 1000000");
    assert_true(is_locked_in(FROM));
}

static void locks_are_not_where_other_operations_have_given_their_parts_away(void **state)
{
    set_ranges(FROM, FROM);
    lock_in(FROM);
    begin_range(11, true, FROM, OTHER);
    begin_range(12, false, FROM, TO);
    SAY(FROM, "*1\r\n", "carry.freeze 11 5 + 1000000");
    assert_true(is_locked_in(FROM));
    SAY(FROM, "*1\r\n", "carry.freeze 12 5 + 1000000");
    assert_false(is_locked_in(FROM));
}

static void a_command_over_all_keys_has_its_turn(void **state)
{
    begin();
    SAY(FROM, "*2\r\n:3\r\n:9\r\n", "group.dbsize");
    carry("(s/4");
    follow(spaces_move_advance(map(), SLICE("s"), RANGE, SLICE("s/4"), &(enum spaces_error){0}, NULL));
    SAY(FROM, "bounced", "group.dbsize");
    SAY(FROM, BUSY, "carry.freeze %d 5 (s/6 1000000", OP);
    SAY(FROM, "*1\r\n", "carry.freeze %d 5 (s/4 1000000", OP);
    SAY(FROM, "+OK", "carry.drop %d 5 (s/4", OP);
    SAY(FROM, "*2\r\n:4\r\n:5\r\n", "group.dbsize");
    r.w->now_ms += 1000;
    SAY(FROM, "*1\r\n", "carry.freeze %d 5 (s/6 1000000", OP);
}

static void who_watches_a_key_that_is_given_out_has_lost_sight_of_it(void **state)
{
    atomic_bool dirty[2] = {false, false};
    struct interest i[2] = {{.dirty = &dirty[0]}, {.dirty = &dirty[1]}};
    struct store *s = seatrig_store(&r, FROM);
    interest_add(s->interests, &i[0], 0, SLICE("s/absent"), keyhash(SLICE("s/absent"), s->seed));
    interest_add(s->interests, &i[1], 0, SLICE("s/1"), keyhash(SLICE("s/1"), s->seed));
    begin();
    carry("(s/5");
    assert_true(!dirty[0] && dirty[1]);
    carry("+");
    assert_true(dirty[0]);
    for (int n = 0; n < 2; n++) interest_remove(s->interests, &i[n]);
}

static void a_key_past_its_time_stays_behind(void **state)
{
    struct part p;
    SAY(0, "+OK", "set s/1 short px 10");
    SAY(0, "+OK", "set s/2 long px 100000");
    int64_t expiry_ms = r.w->now_ms + 100000;
    r.w->now_ms += 11;
    begin();
    freeze("(s/3", &p);
    assert_int_equal(p.n, 2);
    struct dumpfile_entry e;
    assert_int_equal(dumpfile_take_entry(buf_slice(&p.entries[1]), &e), p.entries[1].len);
    assert_int_equal(e.expiry_ms, expiry_ms);
    part_fini(&p);
}

/* Replaces one byte, or cuts the entry short. */
static void bytes_that_are_no_slice_are_refused_and_change_nothing(void **state)
{
    struct part p;
    uint32_t refused = 0;
    begin();
    freeze("(s/2", &p);
    uint64_t before = store_digest(seatrig_store(&r, TO));
    for (struct buf *b = &p.entries[0];; b = &p.locks) {
        for (size_t i = 0; i < b->len; i++) {
            size_t n = b->len;
            char was = b->p[i];
            b->len = i;
            take(TO, "(s/2", &p, "-ERR the arguments");
            b->len = n;
            if (b == &p.locks) continue;
            b->p[i] = (char)(was ^ 0x7f);
            const char *reply = i + 6 < n ? "-ERR the arguments" : NULL; /* the last bytes are the value's */
            if (reply) take(TO, "(s/2", &p, reply);
            refused += reply != NULL;
            b->p[i] = was;
        }
        if (b == &p.locks) break;
    }
    assert_true(refused > 4);
    assert_int_equal(store_digest(seatrig_store(&r, TO)), before);
    take(FROM, "(s/2", &p, "-ERR this group gets none");
    take(TO, "(s/1", &p, "-ERR the arguments"); /* one of them is behind the bound */
    take(TO, "(s/2", &p, "+OK");
    part_fini(&p);
    const char *lines[] = {"carry.begin x 5 9 %P", "carry.begin 8 5 9 %P", "carry.begin 8 5 9 nonsense", "carry.measure 7 x 1", "carry.measure 7 1 x", "carry.freeze 7 x + 1", "carry.freeze 7 5 ++ 1", "carry.freeze 7 5 ( 1", "carry.freeze 7 5 + x",
                           "carry.freeze 7 5 s/1 1", "carry.piece 7 x x 1", "carry.put 7 5 x x", "carry.take 7 5 (s/9 2 0", "carry.take 7 5 (s/9 1 4294967295 x", "carry.drop 7 5 x", "carry.end 7 5 x"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) SAY(FROM, "-ERR", "%s", lines[i]);
    SAY(TO, "-ERR this group has none", "carry.freeze 7 5 + 1000000");
    SAY(TO, "-ERR", "carry.take 7 5 (s/9 1 4294967295 x");
}

static void what_is_not_in_order_waits(void **state)
{
    enum spaces_error error;
    const struct holding_piece new = {.group = TO};
    const struct holding_plan p = {.op = OP + 1, .space = SLICE("h"), .old_side = {.hashed = true}, .new_side = {.n = 1, .pieces = &new}};
    const struct range_desc bucket = {.id = RANGE + 1, .shard = TO};
    plan.len = 0;
    holding_plan_encode(&plan, &p);
    follow(spaces_set_mode(map(), SLICE("h"), SPACE_HASH, NULL, 0, true, &error, NULL));
    SAY(FROM, "*3\r\n", "carry.begin 8 5 %llu %%P", (unsigned long long)map()->version);
    SAY(FROM, BUSY, "carry.measure 8 10 1000");
    SAY(FROM, BUSY, "carry.freeze 8 5 + 1000000");
    follow(spaces_set_mode(map(), SLICE("h"), SPACE_BUCKET, &bucket, 1, false, &error, NULL));
    SAY(FROM, "$1\r\n+\r\n", "carry.measure 8 10 1000");
    SAY(FROM, "*1\r\n", "carry.freeze 8 5 + 1000000");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_slice_is_in_two_places_until_it_is_dropped_and_served_in_none_until_it_is_taken),
        TEST(a_measured_slice_has_a_key_of_all_databases_or_of_none_and_a_huge_value_goes_alone),
        TEST(keys_in_two_places_are_told_of_once),
        TEST(orders_that_come_late_change_nothing),
        TEST(an_operation_that_has_ended_does_not_come_back),
        TEST(reservations_make_way_and_intents_are_waited_for),
        TEST(one_who_is_about_to_change_locks_does_not_lower_the_counter),
        TEST(locks_are_where_other_operations_have_carried_their_parts),
        TEST(locks_are_not_where_other_operations_have_given_their_parts_away),
        TEST(a_command_over_all_keys_has_its_turn),
        TEST(who_watches_a_key_that_is_given_out_has_lost_sight_of_it),
        TEST(a_key_past_its_time_stays_behind),
        TEST(bytes_that_are_no_slice_are_refused_and_change_nothing),
        TEST(what_is_not_in_order_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
