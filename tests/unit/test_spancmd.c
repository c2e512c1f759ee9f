/* Spans of a key space over two groups, step by step, on real seats (seatrig.h). */
#include "seatrig.h"

#include "cluster/txncmd.h"
#include "log/opcode.h"
#include "resp/answer.h"
#include "route/spacelock.h"

enum { A = SEATRIG_FIRST, B, GROUPS_END };

static struct seatrig r;
static char tokens[GROUPS_END][TXNCMD_TOKEN_BYTES + 1];

/* ---- life: the space r is cut at r/m; what is below is in A, the rest in B. The space h went by hashes; it is about to have an order, and all of it is where it was. */

static struct space_map *next_map(struct space_map *m, const char *space, enum space_mode mode, const struct range_desc *ranges, uint32_t n, bool at_once)
{
    enum spaces_error error;
    struct space_map *next = spaces_set_mode(m, slice_str(space), mode, ranges, n, at_once, &error, NULL);
    assert_non_null(next);
    spaces_unref(m);
    return next;
}

static struct space_map *make_map(const struct route *route)
{
    const struct range_desc ranges[] = {{.id = 3, .generation = 1, .shard = A, .end = SLICE("r/m")}, {.id = 4, .generation = 1, .shard = B, .start = SLICE("r/m")}};
    const struct range_desc gathered = {.id = 5, .generation = 1, .shard = A};
    struct space_map *m = next_map(seatrig_halves(route), "r", SPACE_RANGE, ranges, 2, true);
    return next_map(next_map(m, "h", SPACE_HASH, NULL, 0, true), "h", SPACE_RANGE, &gathered, 1, false);
}

static int set_up(void **state)
{
    seatrig_new_by(&r, make_map);
    while (topology_step(r.rig->topology, r.w)) seatrig_work(&r);
    return 0;
}

static int tear_down(void **state)
{
    seatrig_free(&r);
    return 0;
}

/* ---- asking */

enum { WORDS_MAX = 12 };

/* False: it bounced. */
static bool ask(uint32_t group, const struct slice *argv, uint32_t argc)
{
    bool ran = !seatrig_run(&r, group, 0, argv, argc).bounced;
    seatrig_settle(&r);
    return ran;
}

/* Words between bars, for some are empty. */
static bool ask_text(uint32_t group, const char *text)
{
    struct slice argv[WORDS_MAX];
    uint32_t argc = 0;
    for (const char *p = text, *end; p; p = *end ? end + 1 : NULL) {
        end = strchrnul(p, '|');
        assert_true(argc < WORDS_MAX);
        argv[argc++] = slice_of(p, (size_t)(end - p));
    }
    return ask(group, argv, argc);
}

static void says(uint32_t group, const char *text, const char *expected)
{
    assert_true(ask_text(group, text));
    buf_add_byte(&r.out, '\0');
    assert_string_equal(r.out.p, expected);
}

static void bounces(const char *text) { assert_false(ask_text(A, text)); }

/* It reserves, and tells this. */
static void tells(uint32_t group, const char *text, const char *expected)
{
    assert_true(ask_text(group, text));
    struct slice in = buf_slice(&r.out);
    struct answer a;
    uint32_t n;
    assert_true(answer_array(&in, &n) && n == 2 && answer_next(&in, &a) && a.type == '$' && a.text.n == TXNCMD_TOKEN_BYTES);
    memcpy(tokens[group], a.text.p, a.text.n);
    assert_true(slice_eq(in, slice_str(expected)));
}

/* With the group's token between. */
static void says_with_token(uint32_t group, const char *before, const char *behind, const char *expected)
{
    char text[256];
    snprintf(text, sizeof text, "%s|%s%s", before, tokens[group], behind);
    says(group, text, expected);
}

static void fill(void)
{
    says(A, "set|r/a|1", "+OK\r\n");
    says(A, "set|r/b|2", "+OK\r\n");
    says(B, "set|r/x|3", "+OK\r\n");
}

/* ---- a bucket that nobody has set */

/* Its name: the hash says that it is in A. */
static const char *bucket_of_a(void)
{
    static char name[16];
    for (int i = 0; ; i++) {
        snprintf(name, sizeof name, "u%02d", i);
        if (keyhash(slice_str(name), r.rig->engine->route.seed) <= UINT64_MAX / 2) return name;
    }
}

/* In texts `@` stands for the bucket's name. */
static const char *named(const char *text, char out[256])
{
    size_t n = 0;
    for (; *text; text++) n += (size_t)snprintf(out + n, 256 - n, "%.*s", *text == '@' ? 3 : 1, *text == '@' ? bucket_of_a() : text);
    return out;
}

static void says_of_bucket(const char *text, const char *expected)
{
    char question[256], answer[256];
    says(A, named(text, question), named(expected, answer));
}

static bool ask_of_bucket(const char *text)
{
    char question[256];
    return ask_text(A, named(text, question));
}

static void fill_bucket(void)
{
    for (const char *c = "dbacfe"; *c; c++) {
        char text[16] = "set|@/x|v";
        text[6] = *c;
        says_of_bucket(text, "+OK\r\n");
    }
    says_of_bucket("set|@/a/1|v", "+OK\r\n"); /* is of another space */
    says_of_bucket("set|@0|v", "+OK\r\n");    /* and so is this */
}

static void a_bucket_that_nobody_has_set_is_read_in_order(void **state)
{
    says_of_bucket("bucket.get|@", "*2\r\n$1\r\n0\r\n*0\r\n");
    fill_bucket();
    assert_null(store_index(seatrig_store(&r, A), 0, slice_str(bucket_of_a())));
    says_of_bucket("bucket.get|@|keysonly", "*2\r\n$1\r\n0\r\n*6\r\n$5\r\n@/a\r\n$5\r\n@/b\r\n$5\r\n@/c\r\n$5\r\n@/d\r\n$5\r\n@/e\r\n$5\r\n@/f\r\n");
    says_of_bucket("bucket.get|@|limit|2", "*2\r\n$6\r\n>@/c\r\n*4\r\n$5\r\n@/a\r\n$1\r\nv\r\n$5\r\n@/b\r\n$1\r\nv\r\n");
    says_of_bucket("bucket.get|@|limit|9|keysonly|cursor|>@/e", "*2\r\n$1\r\n0\r\n*2\r\n$5\r\n@/e\r\n$5\r\n@/f\r\n");
    says_of_bucket("range.get|@|@/b|@/e|reverse|keysonly|limit|2", "*2\r\n$6\r\n<@/c\r\n*2\r\n$5\r\n@/d\r\n$5\r\n@/c\r\n");
    says_of_bucket("range.count|@|@/b", ":5\r\n");
    says_of_bucket("range.del|@|@/b|@/e", ":3\r\n");
    says_of_bucket("range.count|@", ":3\r\n");
    says_of_bucket("get|@/a/1", "$1\r\nv\r\n");
    assert_null(store_index(seatrig_store(&r, A), 0, slice_str(bucket_of_a())));
}

static void what_has_expired_in_it_is_not_shown_and_goes(void **state)
{
    fill_bucket();
    for (const char *c = "afc"; *c; c++) {
        char text[32] = "pexpire|@/x|100";
        text[10] = *c;
        says_of_bucket(text, ":1\r\n");
    }
    uint64_t keys = store_keys(seatrig_store(&r, A), 0);
    r.w->now_ms += 1000;
    says_of_bucket("range.count|@", ":3\r\n");
    assert_int_equal(store_keys(seatrig_store(&r, A), 0), keys);
    says_of_bucket("bucket.get|@|keysonly|reverse", "*2\r\n$1\r\n0\r\n*3\r\n$5\r\n@/e\r\n$5\r\n@/d\r\n$5\r\n@/b\r\n");
    assert_int_equal(store_keys(seatrig_store(&r, A), 0), keys - 3);
}

static void transactions_and_ranges_of_it_wait_for_each_other(void **state)
{
    fill_bucket();
    assert_true(ask_of_bucket("txn.fetch|t1|1|0|w|@/c"));
    says_of_bucket("range.count|@", ":6\r\n"); /* what is reserved is not written yet */
    assert_false(ask_of_bucket("range.del|@"));
    says_of_bucket("range.del|@|@/d", ":3\r\n");
    says_of_bucket("span.keys|t2|@|||", "-TXNBUSY a key of the span is taken by another transaction\r\n");
}

static void nothing_appears_in_a_part_of_it_that_is_reserved(void **state)
{
    char question[256], answer[256];
    fill_bucket();
    tells(A, named("span.get|t1|@|@/e|||10|k", question), named("*2\r\n$5\r\n@/e\r\n$5\r\n@/f\r\n", answer));
    tells(A, named("span.count|t1|@||@/c|", question), ":2\r\n");
    assert_false(ask_of_bucket("set|@/e1|9"));
    assert_false(ask_of_bucket("range.del|@|-|@/b"));
    assert_true(ask_of_bucket("set|@/c1|9"));
    says_with_token(A, "txn.done|t1", "", "+OK\r\n");
    assert_true(ask_of_bucket("set|@/e1|9"));
}

/* ---- spans */

static void keys_that_have_expired_are_not_counted_though_they_are_still_there(void **state)
{
    fill();
    says(A, "set|r/c|3|px|100", "+OK\r\n");
    says(A, "set|r/d|3|px|100000", "+OK\r\n");
    says(A, "range.count|r|-|r/m", ":4\r\n");
    r.w->now_ms += 1000;
    says(A, "range.count|r|-|r/m", ":3\r\n");
    tells(A, "span.count|t1|r||r/m|", ":3\r\n");
    assert_int_equal(store_keys(seatrig_store(&r, A), 0), 4);
}

static void a_page_is_told_and_its_span_reserved(void **state)
{
    fill();
    tells(A, "span.get|t1|r||r/m||10|", "*4\r\n$3\r\nr/a\r\n$1\r\n1\r\n$3\r\nr/b\r\n$1\r\n2\r\n");
    tells(B, "span.get|t1|r|r/m|||10|k", "*1\r\n$3\r\nr/x\r\n");
    bounces("set|r/b|9");
    bounces("set|r/c|9");
    bounces("set|r/y|9");
    bounces("range.del|r|-|r/b");
    says(A, "get|r/a", "$1\r\n1\r\n");
    says(A, "range.count|r|-|r/m", ":2\r\n");
    says(A, "set|other|9", "+OK\r\n");
    says_with_token(A, "txn.done|t1", "", "+OK\r\n");
    says_with_token(A, "txn.done|t1", "", "-TXNGONE its reservations are gone\r\n");
    says(A, "set|r/c|9", "+OK\r\n");
    bounces("set|r/y|9"); /* B's goes on */
}

static void a_page_goes_from_the_end_on_and_up_to_its_limit(void **state)
{
    fill();
    tells(A, "span.get|t1|r||r/m||1|rk", "*1\r\n$3\r\nr/b\r\n");
    tells(A, "span.get|t1|r|r/b|r/m||1|k", "*1\r\n$3\r\nr/b\r\n");
}

static void what_is_enough_by_itself_reserves_nothing(void **state)
{
    fill();
    says(A, "span.get|t1|r||r/m||2|ko", "*2\r\n$-1\r\n*2\r\n$3\r\nr/a\r\n$3\r\nr/b\r\n");
    says(A, "set|r/b|9", "+OK\r\n");
    tells(A, "span.get|t1|r||r/m||3|ko", "*2\r\n$3\r\nr/a\r\n$3\r\nr/b\r\n");
    bounces("set|r/b|9");
}

static void a_span_that_is_not_all_here_has_moved(void **state)
{
    says(A, "span.get|t1|r|r/a|r/z||10|", "-TXNMOVED the span is not in this group, or not all of it\r\n");
    says(A, "span.count|t1|r|r/n||", "-TXNMOVED the span is not in this group, or not all of it\r\n");
    says(B, "span.keys|t1|r|r/l||", "-TXNMOVED the span is not in this group, or not all of it\r\n");
    says(B, "span.locks|t1|r|r/l|||w", "-TXNMOVED the span is not in this group, or not all of it\r\n");
}

static int64_t counted(uint32_t group, const char *hashes)
{
    char text[128];
    struct answer a;
    snprintf(text, sizeof text, "span.count|t1|h|||%s", hashes);
    assert_true(ask_text(group, text));
    struct slice in = buf_slice(&r.out);
    assert_true(answer_next(&in, &a));
    if (a.type == '-') return -1;
    assert_true(answer_next(&in, &a) && answer_next(&in, &a) && a.type == ':');
    return a.n;
}

static void a_span_by_hashes_is_told_by_groups_that_know_the_same_ones(void **state)
{
    char text[64], hashes[SPANCMD_HASHES_BYTES + 1];
    spancmd_hashes(route_map(&r.rig->engine->route), hashes);
    for (int i = 0; i < 40; i++) {
        snprintf(text, sizeof text, "set|h/%d|v", i);
        says(A, text, "+OK\r\n");
    }
    assert_int_equal(counted(A, "0123456789abcdef"), -1);
    assert_int_equal(counted(A, ""), -1); /* all of it would be another group's part, too */
    int64_t a = counted(A, hashes), b = counted(B, hashes);
    assert_true(a > 0 && b > 0 && a + b == 40);
    snprintf(text, sizeof text, "span.count|t2|r||r/m|%s", hashes);
    says(A, text, "-TXNMOVED the span is not in this group, or not all of it\r\n");
}

static void hashes_that_are_carried_are_others_with_every_slice(void **state)
{
    char was[SPANCMD_HASHES_BYTES + 1], is[SPANCMD_HASHES_BYTES + 1];
    struct hash_desc halves[] = {{.id = 1, .generation = 1, .shard = A, .first = 0, .last = UINT64_MAX / 2}, {.id = 2, .generation = 1, .shard = B, .first = UINT64_MAX / 2 + 1, .last = UINT64_MAX}};
    struct space_map m = {.n_hash = 2, .hash = halves};
    spancmd_hashes(&m, was);
    halves[0].generation++;
    assert_true(slice_eq(spancmd_hashes(&m, is), slice_str(was))); /* keys are where they were */
    halves[0].moving = true;
    halves[0].to_shard = B;
    for (const char *boundary = "kkkk"; *boundary; boundary++) {
        halves[0].boundary = slice_str(boundary);
        assert_false(slice_eq(spancmd_hashes(&m, is), slice_str(was)));
        memcpy(was, is, sizeof was);
    }
    halves[0].moving = false;
    halves[0].shard = B;
    assert_false(slice_eq(spancmd_hashes(&m, is), slice_str(was)));
}

static void a_span_with_a_key_that_is_being_written_is_taken(void **state)
{
    fill();
    assert_true(ask_text(A, "txn.fetch|t1|1|0|w|r/a"));
    says(A, "span.get|t2|r||r/m||10|", "-TXNBUSY a key of the span is taken by another transaction\r\n");
    says(A, "span.count|t2|r||r/b|", "-TXNBUSY a key of the span is taken by another transaction\r\n");
    tells(A, "span.count|t2|r|r/b|r/m|", ":1\r\n");
    seatrig_pass(&r, INTENTS_RESERVED_MS);
    tells(A, "span.count|t2|r||r/m|", ":2\r\n"); /* and what is too old makes way */
}

static void readers_share_a_span_and_a_deletion_does_not(void **state)
{
    fill();
    tells(A, "span.get|t1|r||r/m||10|k", "*2\r\n$3\r\nr/a\r\n$3\r\nr/b\r\n");
    tells(A, "span.count|t2|r||r/m|", ":2\r\n");
    says(A, "span.keys|t3|r||r/m|", "-TXNBUSY a key of the span is taken by another transaction\r\n");
}

/* ---- writing */

static void ops_of(struct buf *out, const struct op *op)
{
    struct buf one = {0};
    opcode_write(&one, op);
    txncmd_add_op(out, buf_slice(&one));
    buf_fini(&one);
}

static void with_ops(uint32_t group, const char *command, const char *number, const struct buf *ops, const char *expected)
{
    const struct slice argv[] = {slice_str(command), SLICE("t1"), slice_of(tokens[group], TXNCMD_TOKEN_BYTES), slice_str(number), buf_slice(ops)};
    const struct slice decide[] = {argv[0], argv[1], argv[2], SLICE("1"), slice_str(number), argv[4]};
    bool decides = strcmp(command, "txn.decide") == 0;
    assert_true(ask(group, decides ? decide : argv, decides ? 6 : 5));
    buf_add_byte(&r.out, '\0');
    assert_string_equal(r.out.p, expected);
}

static void keys_of_spans_are_deleted_in_two_phases(void **state)
{
    struct buf in_a = {0}, in_b = {0};
    fill();
    tells(A, "span.keys|t1|r||r/m|", "*2\r\n$3\r\nr/a\r\n$3\r\nr/b\r\n");
    tells(B, "span.keys|t1|r|r/m||", "*1\r\n$3\r\nr/x\r\n");
    ops_of(&in_a, &(struct op){.kind = OP_DEL, .key = SLICE("r/a")});
    ops_of(&in_a, &(struct op){.kind = OP_DEL, .key = SLICE("r/b")});
    ops_of(&in_b, &(struct op){.kind = OP_DEL, .key = SLICE("r/x")});
    with_ops(A, "txn.prepare", "3", &in_a, "+OK\r\n");
    bounces("get|r/a");
    bounces("set|r/c|9"); /* nothing appears in the span before it is decided */
    seatrig_lead_anew(&r, A);
    bounces("set|r/c|9"); /* whoever leads */
    bounces("range.get|r|-|r/m");
    with_ops(B, "txn.decide", "2", &in_b, "+OK\r\n");
    says(A, "txn.commit|t1", "+OK\r\n");
    says(A, "range.count|r|-|r/m", ":0\r\n");
    says(B, "range.count|r|r/m", ":0\r\n");
    says(A, "set|r/c|9", "+OK\r\n");
    buf_fini(&in_a);
    buf_fini(&in_b);
}

static void who_has_the_counter_writes_locks_and_nobody_else_changes_any(void **state)
{
    struct buf ops = {0}, key = {0}, value = {0};
    struct spacelock l = {.token = spacelock_token(1, A), .exclusive = true, .owner = SLICE("me")};
    tells(A, "span.locks|t1|r||r/m||w", "*3\r\n:0\r\n:1000000\r\n*0\r\n");
    bounces("range.lock|r|r/a|r/b|you|5000");
    says(A, "set|r/a|1", "+OK\r\n"); /* keys are no concern of theirs */
    says(A, "span.locks|t2|r||r/m||r", "-TXNBUSY a key of the span is taken by another transaction\r\n");
    spacelock_key(&key, SLICE("r"), l.token);
    spacelock_value(&value, &l);
    ops_of(&ops, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = buf_slice(&key), .value = buf_slice(&value), .expiry_ms = 1005000});
    with_ops(A, "txn.decide", "3", &ops, "+OK\r\n");
    assert_true(ask_text(A, "range.lock|r|r/a|r/b|you|5000"));
    assert_non_null(memmem(r.out.p, r.out.len, "me", 2));
    tells(A, "span.locks|t2|r||r/m||r", "*3\r\n:0\r\n:1000000\r\n*1\r\n*6\r\n:65538\r\n:1\r\n$0\r\n\r\n$0\r\n\r\n$2\r\nme\r\n:1005000\r\n");
    says(A, "range.locks|h/x", "*0\r\n");
    buf_fini(&ops);
    buf_fini(&key);
    buf_fini(&value);
}

static void words_that_make_no_sense_are_refused(void **state)
{
    says(A, "span.get|a/b|r||r/m||10|", "-ERR that is no name of a transaction\r\n");
    says(A, "span.get|t1|r||r/m||0|", "-ERR the arguments of span.get make no sense\r\n");
    says(A, "span.get|t1|r||r/m||x|", "-ERR the arguments of span.get make no sense\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_bucket_that_nobody_has_set_is_read_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_has_expired_in_it_is_not_shown_and_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(transactions_and_ranges_of_it_wait_for_each_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_appears_in_a_part_of_it_that_is_reserved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_that_have_expired_are_not_counted_though_they_are_still_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_page_is_told_and_its_span_reserved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_page_goes_from_the_end_on_and_up_to_its_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_enough_by_itself_reserves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_span_that_is_not_all_here_has_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_span_by_hashes_is_told_by_groups_that_know_the_same_ones, set_up, tear_down),
        cmocka_unit_test(hashes_that_are_carried_are_others_with_every_slice),
        cmocka_unit_test_setup_teardown(a_span_with_a_key_that_is_being_written_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(readers_share_a_span_and_a_deletion_does_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_of_spans_are_deleted_in_two_phases, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_the_counter_writes_locks_and_nobody_else_changes_any, set_up, tear_down),
        cmocka_unit_test_setup_teardown(words_that_make_no_sense_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
