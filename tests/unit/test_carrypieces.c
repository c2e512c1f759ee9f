/* Large values, piece by piece: key space "s" is a bucket in one group, and goes to another; nothing goes along with its slice. */
#include "seatrig.h"

#include "base/le.h"
#include "cluster/carrypieces.h"
#include "cluster/holding.h"

enum { FROM = SEATRIG_FIRST, TO = SEATRIG_FIRST + 1, RANGE = 100, LARGES_MAX = 8, FROM_BYTES = 24 };

static struct seatrig r;
static struct buf plan, larges[LARGES_MAX], locks;
static uint32_t n_larges;

static const struct space_map *map(void) { return seatrig_map(&r); }

/* ---- asking */

static void says(const char *reply) { seatrig_says(&r, reply); }

#define RUN(group, ...) seatrig_ask(&r, group, 0, (const struct slice[]){__VA_ARGS__}, sizeof((const struct slice[]){__VA_ARGS__}) / sizeof(struct slice))
#define WORD(text) slice_str(text)

/* ---- life */

static int set_up(void **state)
{
    enum spaces_error error;
    const struct range_desc bucket = {.id = RANGE, .shard = FROM};
    const struct holding_piece old = {.group = FROM}, new = {.group = TO};
    const struct holding_plan p = {.op = 7, .space = SLICE("s"), .old_side = {.n = 1, .pieces = &old}, .new_side = {.n = 1, .pieces = &new}};
    seatrig_new(&r);
    holding_plan_encode(&plan, &p);
    seatrig_follow(&r, spaces_set_mode(map(), SLICE("s"), SPACE_BUCKET, &bucket, 1, true, &error, NULL));
    return 0;
}

static int tear_down(void **state)
{
    buf_fini(&plan);
    buf_fini(&locks);
    for (uint32_t i = 0; i < LARGES_MAX; i++) buf_fini(&larges[i]);
    n_larges = 0;
    seatrig_free(&r);
    return 0;
}

static void begin(void)
{
    char version[24];
    enum spaces_error error;
    snprintf(version, sizeof version, "%llu", (unsigned long long)map()->version);
    for (uint32_t g = FROM; g <= TO; g++) {
        RUN(g, WORD("carry.begin"), WORD("7"), WORD("5"), WORD(version), buf_slice(&plan));
        says("*3\r\n");
    }
    seatrig_follow(&r, spaces_move(map(), SLICE("s"), RANGE, TO, &error, NULL));
}

/* All that is given out is told of as large. */
static void freeze_all(void)
{
    size_t at = 0;
    RUN(FROM, WORD("carry.freeze"), WORD("7"), WORD("5"), WORD("+"), WORD("0"));
    says("*1\r\n*4\r\n:3\r\n*0\r\n");
    for (int i = 0; i < 4; i++) seatrig_value(&r, &at);
    n_larges = (uint32_t)seatrig_value(&r, &at).n;
    assert_true(n_larges <= LARGES_MAX);
    for (uint32_t i = 0; i < n_larges; i++) {
        larges[i].len = 0;
        buf_add_slice(&larges[i], seatrig_value(&r, &at).text);
    }
    locks.len = 0;
    buf_add_slice(&locks, seatrig_value(&r, &at).text);
}

static void take(uint32_t n, const char *reply)
{
    char count[12];
    struct slice argv[8 + LARGES_MAX] = {SLICE("carry.take"), SLICE("7"), SLICE("5"), SLICE("+"), SLICE("1"), SLICE("0")};
    argv[6] = slice_of(count, (size_t)snprintf(count, sizeof count, "%u", n));
    for (uint32_t i = 0; i < n; i++) argv[7 + i] = buf_slice(&larges[i]);
    argv[7 + n] = buf_slice(&locks);
    seatrig_ask(&r, TO, 0, argv, 8 + n);
    says(reply);
}

/* False: it has expired. */
static bool get_piece(uint32_t large, const struct buf *from, const char *bytes, struct buf *next, struct buf *piece)
{
    size_t at = 0;
    RUN(FROM, WORD("carry.piece"), WORD("7"), buf_slice(&larges[large]), buf_slice(from), WORD(bytes));
    next->len = piece->len = 0;
    if (seatrig_value(&r, &at).n < 0) return false;
    buf_add_slice(next, seatrig_value(&r, &at).text);
    buf_add_slice(piece, seatrig_value(&r, &at).text);
    return true;
}

static void put_piece(const struct buf *from, const struct buf *piece, const char *reply)
{
    RUN(TO, WORD("carry.put"), WORD("7"), WORD("5"), buf_slice(from), buf_slice(piece));
    says(reply);
}

static void finish_map(void)
{
    enum spaces_error error;
    seatrig_follow(&r, spaces_move_finish(map(), SLICE("s"), RANGE, &error, NULL));
}

/* At most so many pieces; gives how many there were. Each comes twice. */
static uint32_t carry(uint32_t large, const char *bytes, uint32_t most)
{
    struct buf from = {0}, next = {0}, piece = {0};
    uint32_t n = 0;
    do {
        assert_true(get_piece(large, &from, bytes, &next, &piece));
        put_piece(&from, &piece, "+OK");
        put_piece(&from, &piece, "+OK");
        from.len = 0;
        buf_add_slice(&from, buf_slice(&next));
    } while (++n < most && from.len);
    buf_fini(&from);
    buf_fini(&next);
    buf_fini(&piece);
    return n;
}

/* ---- values of every type, small and large ones */

enum { MEMBERS = 600 };
static const char *const names[] = {"s/hash", "s/ints", "s/list", "s/set", "s/string", "s/zset"};

static void fill(void)
{
    char a[32], b[32], score[16];
    for (int i = 0; i < MEMBERS; i++) {
        snprintf(a, sizeof a, "member%d", i);
        snprintf(b, sizeof b, "value%d", i * 7);
        snprintf(score, sizeof score, "%d", i % 13);
        RUN(0, WORD("hset"), WORD("s/hash"), WORD(a), WORD(b));
        RUN(0, WORD("rpush"), WORD("s/list"), WORD(b));
        RUN(0, WORD("sadd"), WORD("s/set"), WORD(a));
        RUN(0, WORD("zadd"), WORD("s/zset"), WORD(score), WORD(a));
        RUN(0, WORD("append"), WORD("s/string"), WORD(b));
        if (i < 100) RUN(0, WORD("sadd"), WORD("s/ints"), WORD(b + 5));
    }
}

static void digest(const char *name, uint64_t *out)
{
    struct slice key = slice_str(name);
    uint32_t group = spaces_shard(map(), key, keyhash(key, map()->route.seed));
    struct place at;
    store_peek(seatrig_store(&r, group), 0, keyhash(key, r.rig->engine->stores[0]->seed), key, &at);
    assert_non_null(at.e);
    *out = store_entry_digest(at.e);
}

static void values_of_every_type_go_in_pieces_and_are_whole(void **state)
{
    static const char *const sizes[] = {"1", "100", "1000000"};
    enum { KINDS = sizeof names / sizeof *names };
    uint64_t before[KINDS], after;
    fill();
    for (uint32_t i = 0; i < KINDS; i++) digest(names[i], &before[i]);
    begin();
    freeze_all();
    assert_int_equal(n_larges, KINDS);
    for (uint32_t i = 0; i < KINDS; i++) {
        take(KINDS, "-CARRYLACKS");
        uint32_t n = carry(i, sizes[i % 3], UINT32_MAX);
        assert_true(i % 3 == 2 ? n == 1 : n > 5);
    }
    take(KINDS, "+OK");
    take(KINDS, "+OK"); /* it is done already */
    finish_map();
    for (uint32_t i = 0; i < KINDS; i++) {
        digest(names[i], &after);
        if (after != before[i]) fail_msg("%s is another one", names[i]);
    }
}

static void whoever_begins_again_finds_the_same_value_in_the_end(void **state)
{
    uint64_t before[2], after;
    fill();
    digest("s/hash", &before[0]);
    digest("s/list", &before[1]);
    begin();
    for (uint32_t turn = 1; turn < 8; turn += 3) { /* drivers that are lost after some pieces */
        freeze_all();
        carry(0, "200", turn);
        carry(2, "200", turn);
    }
    freeze_all();
    for (uint32_t i = 0; i < n_larges; i++) carry(i, "777", UINT32_MAX);
    take(n_larges, "+OK");
    finish_map();
    digest("s/hash", &after);
    assert_int_equal(after, before[0]);
    digest("s/list", &after);
    assert_int_equal(after, before[1]);
}

/* ---- places */

static void a_place_in_another_replicas_order_begins_again(void **state)
{
    struct buf none = {0}, next = {0}, first = {0}, again = {0};
    fill();
    begin();
    freeze_all();
    assert_true(get_piece(0, &none, "100", &next, &first));
    assert_int_equal(next.len, FROM_BYTES);
    le_set_u64(next.p, le_u64(next.p) + 2);
    struct buf from = next;
    next = (struct buf){0};
    assert_true(get_piece(0, &from, "100", &next, &again));
    assert_true(slice_eq(buf_slice(&first), buf_slice(&again)));
    buf_fini(&none);
    buf_fini(&from);
    buf_fini(&next);
    buf_fini(&first);
    buf_fini(&again);
}

static void a_list_has_no_holes(void **state)
{
    struct buf none = {0}, from = {0}, next = {0}, piece = {0}, other = {0};
    fill();
    begin();
    freeze_all();
    assert_true(get_piece(2, &none, "100", &from, &piece));
    assert_true(get_piece(2, &from, "100", &next, &other));
    put_piece(&from, &other, "-CARRYLACKS"); /* nothing is here yet */
    put_piece(&none, &piece, "+OK");
    put_piece(&next, &other, "-CARRYLACKS");
    put_piece(&from, &other, "+OK");
    buf_fini(&none);
    buf_fini(&from);
    buf_fini(&next);
    buf_fini(&piece);
    buf_fini(&other);
}

static void places_that_make_no_sense_are_refused(void **state)
{
    struct buf bad = {0};
    fill();
    begin();
    freeze_all();
    for (uint32_t large = 0; large < n_larges; large++) {
        for (uint64_t place = UINT32_MAX; place; place *= 16) {
            bad.len = 0;
            le_add_u64(&bad, 0);
            le_add_u64(&bad, place);
            le_add_u64(&bad, place);
            RUN(FROM, WORD("carry.piece"), WORD("7"), buf_slice(&larges[large]), buf_slice(&bad), WORD("100"));
            if (!slice_eq(slice_of(r.out.p, 4), SLICE("*2\r\n"))) says("-ERR the arguments");
            if (place > UINT64_MAX / 16) break;
        }
        RUN(FROM, WORD("carry.piece"), WORD("7"), buf_slice(&larges[large]), WORD("x"), WORD("100"));
        says("-ERR the arguments");
    }
    buf_fini(&bad);
}

/* ---- what others see */

static void a_value_that_is_not_whole_is_served_to_nobody_and_not_counted(void **state)
{
    fill();
    begin();
    freeze_all();
    carry(0, "100", 3);
    RUN(0, WORD("hlen"), WORD("s/hash"));
    says("bounced");
    RUN(TO, WORD("group.dbsize"));
    says("bounced");
    for (uint32_t i = 0; i < n_larges; i++) carry(i, "100000", UINT32_MAX);
    take(n_larges, "+OK");
    finish_map();
    RUN(TO, WORD("group.dbsize"));
    says("*2\r\n");
    RUN(0, WORD("hlen"), WORD("s/hash"));
    says(":600\r\n");
}

static void the_time_of_a_value_comes_with_its_slice_and_one_that_is_over_leaves_nothing(void **state)
{
    struct buf none = {0}, next = {0}, piece = {0};
    fill();
    RUN(0, WORD("pexpire"), WORD("s/hash"), WORD("1000"));
    RUN(0, WORD("pexpire"), WORD("s/list"), WORD("1000000"));
    begin();
    freeze_all();
    carry(0, "100", 3);
    for (uint32_t i = 1; i < n_larges; i++) carry(i, "100000", UINT32_MAX);
    r.w->now_ms += 5000;
    r.now += 5000;
    seatrig_settle(&r);
    assert_false(get_piece(0, &none, "100", &next, &piece));
    struct buf first = larges[0]; /* it is not spoken of any more */
    memmove(larges, larges + 1, (n_larges - 1) * sizeof *larges);
    larges[n_larges - 1] = first;
    assert_int_equal(store_keys(seatrig_store(&r, TO), 0), n_larges);
    take(n_larges - 1, "+OK");
    assert_int_equal(store_keys(seatrig_store(&r, TO), 0), n_larges - 1);
    finish_map();
    RUN(0, WORD("exists"), WORD("s/hash"));
    says(":0");
    RUN(0, WORD("pttl"), WORD("s/list"));
    says(":99");
    RUN(0, WORD("pttl"), WORD("s/set"));
    says(":-1");
    buf_fini(&none);
    buf_fini(&next);
    buf_fini(&piece);
}

static void pieces_that_come_late_change_nothing(void **state)
{
    struct buf none = {0}, next = {0}, piece = {0};
    fill();
    begin();
    freeze_all();
    assert_true(get_piece(0, &none, "100", &next, &piece));
    for (uint32_t i = 0; i < n_larges; i++) carry(i, "100000", UINT32_MAX);
    take(n_larges, "+OK");
    finish_map();
    RUN(0, WORD("del"), WORD("s/hash"));
    says(":1");
    put_piece(&none, &piece, "+OK");
    RUN(0, WORD("exists"), WORD("s/hash"));
    says(":0");
    RUN(FROM, WORD("carry.drop"), WORD("7"), WORD("5"), WORD("+"));
    says("+OK");
    RUN(FROM, WORD("carry.piece"), WORD("7"), buf_slice(&larges[0]), WORD(""), WORD("100"));
    says("-CARRYOLD");
    buf_fini(&none);
    buf_fini(&next);
    buf_fini(&piece);
}

/* ---- bytes */

static void a_large_value_is_told_of_in_these_bytes(void **state)
{
    struct carrypieces_large l;
    const struct slice hash = {"\1\4\3\0\5\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0s/k", 23};
    assert_true(carrypieces_take_large(hash, &l));
    assert_int_equal(l.type, TYPE_HASH);
    assert_int_equal(l.db, 3);
    assert_int_equal(l.length, 5);
    assert_int_equal(l.expiry_ms, 256);
    assert_true(slice_eq(l.key, SLICE("s/k")));
    for (size_t n = 0; n < 20; n++) assert_false(carrypieces_take_large(slice_of(hash.p, n), &l));
    assert_false(carrypieces_take_large((struct slice){"\2\4\3\0\5\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0s/k", 23}, &l));
    assert_false(carrypieces_take_large((struct slice){"\1\5\3\0\5\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0s/k", 23}, &l));
    assert_false(carrypieces_take_large((struct slice){"\1\4\3\1\5\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0s/k", 23}, &l));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_of_every_type_go_in_pieces_and_are_whole),
        TEST(whoever_begins_again_finds_the_same_value_in_the_end),
        TEST(a_place_in_another_replicas_order_begins_again),
        TEST(a_list_has_no_holes),
        TEST(places_that_make_no_sense_are_refused),
        TEST(a_value_that_is_not_whole_is_served_to_nobody_and_not_counted),
        TEST(the_time_of_a_value_comes_with_its_slice_and_one_that_is_over_leaves_nothing),
        TEST(pieces_that_come_late_change_nothing),
        cmocka_unit_test(a_large_value_is_told_of_in_these_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
