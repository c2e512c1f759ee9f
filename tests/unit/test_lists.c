/* The list commands: replies and errors byte for byte as Redis gives them, events, waiting, and a random walk against an array. */
#include "harness.h"

#include "store/list.h"

#define WRONGTYPE "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
#define SYNTAX "-ERR syntax error\r\n"
#define NOTINT "-ERR value is not an integer or out of range\r\n"

static struct harness *bed(void)
{
    struct harness *h = harness_new(4, &lists_family, &sets_family, NULL);
    harness_expect(h, "SADD set m", ":1\r\n");
    harness_events(h);
    return h;
}

/* The whole list, its elements joined by blanks. */
static void expect_list(struct harness *h, const char *key, const char *joined)
{
    char words[64], *end;
    snprintf(words, sizeof words, "LRANGE %s 0 -1", key);
    struct slice got = harness_run(h, words);
    struct buf text = {0};
    size_t n = strtoul(got.p + 1, &end, 10);
    for (size_t i = 0; i < n; i++) {
        size_t len = strtoul(end + 3, &end, 10);
        if (i) buf_add_byte(&text, ' ');
        buf_add(&text, end + 2, len);
        end += 2 + len;
    }
    buf_add_byte(&text, 0);
    assert_string_equal(text.p, joined);
    buf_fini(&text);
}

static void pushes_create_and_answer_the_length(void **state)
{
    struct harness *h = bed();
    harness_expect(h, "RPUSH l a b", ":2\r\n");
    harness_expect(h, "LPUSH l c d", ":4\r\n");
    expect_list(h, "l", "d c a b");
    harness_expect(h, "LPUSHX l e", ":5\r\n");
    harness_expect(h, "RPUSHX l f g", ":7\r\n");
    expect_list(h, "l", "e d c a b f g");
    harness_expect(h, "LPUSHX none e", ":0\r\n");
    harness_expect(h, "RPUSHX none e", ":0\r\n");
    harness_expect(h, "LLEN none", ":0\r\n");
    harness_expect(h, "LPUSH set x", WRONGTYPE);
    harness_expect(h, "RPUSHX set x", WRONGTYPE);
    harness_expect(h, "LLEN set", WRONGTYPE);
    harness_expect(h, "LPUSH l", "-ERR wrong number of arguments for 'lpush' command\r\n");
    harness_free(h);
}

static void pops_answer_one_element_or_an_array_of_them(void **state)
{
    struct harness *h = bed();
    harness_run(h, "RPUSH l a b c d e f");
    harness_expect(h, "LPOP l", "$1\r\na\r\n");
    harness_expect(h, "RPOP l", "$1\r\nf\r\n");
    harness_expect(h, "LPOP l 2", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n");
    harness_expect(h, "LPOP l 0", "*0\r\n");
    harness_expect(h, "RPOP l 9223372036854775807", "*2\r\n$1\r\ne\r\n$1\r\nd\r\n");
    harness_expect(h, "LPOP l", "$-1\r\n");
    harness_expect(h, "LPOP l 1", "*-1\r\n");
    harness_expect(h, "LPOP l 0", "*-1\r\n");
    harness_expect(h, "LPOP l -1", "-ERR value is out of range, must be positive\r\n");
    harness_expect(h, "RPOP l x", "-ERR value is out of range, must be positive\r\n");
    harness_expect(h, "LPOP set", WRONGTYPE);
    harness_expect(h, "LPOP l 1 2", "-ERR wrong number of arguments for 'lpop' command\r\n");
    h->resp = 3;
    harness_expect(h, "LPOP l", "_\r\n");
    harness_expect(h, "LPOP l 1", "_\r\n");
    harness_free(h);
}

static void ranges_and_indexes_count_from_either_end(void **state)
{
    struct harness *h = bed();
    harness_run(h, "RPUSH l a b c d");
    harness_expect(h, "LRANGE l 1 2", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n");
    harness_expect(h, "LRANGE l -2 100", "*2\r\n$1\r\nc\r\n$1\r\nd\r\n");
    harness_expect(h, "LRANGE l -100 0", "*1\r\n$1\r\na\r\n");
    harness_expect(h, "LRANGE l 2 1", "*0\r\n");
    harness_expect(h, "LRANGE l 4 9", "*0\r\n");
    harness_expect(h, "LRANGE l 0 -5", "*0\r\n");
    harness_expect(h, "LRANGE l -9223372036854775808 9223372036854775807", "*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n");
    harness_expect(h, "LRANGE none 0 -1", "*0\r\n");
    harness_expect(h, "LRANGE none x 1", NOTINT);
    harness_expect(h, "LRANGE set 0 1", WRONGTYPE);
    harness_expect(h, "LINDEX l 0", "$1\r\na\r\n");
    harness_expect(h, "LINDEX l -1", "$1\r\nd\r\n");
    harness_expect(h, "LINDEX l 4", "$-1\r\n");
    harness_expect(h, "LINDEX l -5", "$-1\r\n");
    harness_expect(h, "LINDEX l x", NOTINT);
    harness_expect(h, "LINDEX none x", "$-1\r\n");
    harness_expect(h, "LINDEX set 0", WRONGTYPE);
    harness_free(h);
}

static void lset_replaces_an_element_that_is_there(void **state)
{
    struct harness *h = bed();
    harness_run(h, "RPUSH l a b c");
    harness_expect(h, "LSET l 0 first", "+OK\r\n");
    harness_expect(h, "LSET l -1 last", "+OK\r\n");
    expect_list(h, "l", "first b last");
    harness_expect(h, "LSET l 3 x", "-ERR index out of range\r\n");
    harness_expect(h, "LSET l -4 x", "-ERR index out of range\r\n");
    harness_expect(h, "LSET l x x", NOTINT);
    harness_expect(h, "LSET none x x", "-ERR no such key\r\n");
    harness_expect(h, "LSET set 0 x", WRONGTYPE);
    harness_free(h);
}

static void linsert_goes_beside_the_first_pivot(void **state)
{
    struct harness *h = bed();
    harness_run(h, "RPUSH l a b a");
    harness_expect(h, "LINSERT l BEFORE a x", ":4\r\n");
    harness_expect(h, "LINSERT l after a y", ":5\r\n");
    expect_list(h, "l", "x a y b a");
    harness_expect(h, "LINSERT l BEFORE none x", ":-1\r\n");
    harness_expect(h, "LINSERT none BEFORE a x", ":0\r\n");
    harness_expect(h, "LINSERT none BESIDE a x", SYNTAX);
    harness_expect(h, "LINSERT set BEFORE a x", WRONGTYPE);
    harness_free(h);
}

static void lrem_removes_from_the_side_that_the_count_tells(void **state)
{
    struct harness *h = bed();
    harness_run(h, "RPUSH l a a b a c a a");
    harness_expect(h, "LREM l 1 a", ":1\r\n");
    expect_list(h, "l", "a b a c a a");
    harness_expect(h, "LREM l -3 a", ":3\r\n");
    expect_list(h, "l", "a b c");
    harness_expect(h, "LREM l 0 z", ":0\r\n");
    harness_run(h, "RPUSH l a a");
    harness_expect(h, "LREM l 0 a", ":3\r\n");
    assert_int_equal(h->last.ops, 2); /* two runs */
    harness_expect(h, "LREM l -9223372036854775808 b", ":1\r\n");
    harness_expect(h, "LREM l 9223372036854775807 c", ":1\r\n");
    harness_expect(h, "LLEN l", ":0\r\n");
    harness_expect(h, "LREM none x a", NOTINT);
    harness_expect(h, "LREM none 0 a", ":0\r\n");
    harness_expect(h, "LREM set 0 a", WRONGTYPE);
    harness_free(h);
}

static void ltrim_keeps_a_range(void **state)
{
    struct harness *h = bed();
    harness_run(h, "RPUSH l a b c d e");
    harness_expect(h, "LTRIM l 1 -2", "+OK\r\n");
    assert_int_equal(h->last.ops, 2);
    expect_list(h, "l", "b c d");
    harness_expect(h, "LTRIM l 0 -1", "+OK\r\n");
    assert_int_equal(h->last.ops, 0);
    harness_expect(h, "LTRIM l -100 1", "+OK\r\n");
    expect_list(h, "l", "b c");
    harness_expect(h, "LTRIM l 5 9", "+OK\r\n");
    assert_int_equal(h->last.ops, 1);
    harness_expect(h, "LLEN l", ":0\r\n");
    harness_expect(h, "LTRIM none 0 1", "+OK\r\n");
    harness_expect(h, "LTRIM none 0 x", NOTINT);
    harness_expect(h, "LTRIM set 0 1", WRONGTYPE);
    harness_free(h);
}

static void lpos_finds_matches_by_rank_count_and_length(void **state)
{
    struct harness *h = bed();
    harness_run(h, "RPUSH l a b c 1 2 3 c c");
    harness_expect(h, "LPOS l c", ":2\r\n");
    harness_expect(h, "LPOS l c RANK 2", ":6\r\n");
    harness_expect(h, "LPOS l c RANK -1", ":7\r\n");
    harness_expect(h, "LPOS l c RANK 4", "$-1\r\n");
    harness_expect(h, "LPOS l c COUNT 2", "*2\r\n:2\r\n:6\r\n");
    harness_expect(h, "LPOS l c COUNT 0 RANK -2", "*2\r\n:6\r\n:2\r\n");
    harness_expect(h, "LPOS l c COUNT 0 MAXLEN 7", "*2\r\n:2\r\n:6\r\n");
    harness_expect(h, "LPOS l c RANK -1 MAXLEN 1", ":7\r\n");
    harness_expect(h, "LPOS l b RANK -1 MAXLEN 6", "$-1\r\n");
    harness_expect(h, "LPOS l z", "$-1\r\n");
    harness_expect(h, "LPOS l z COUNT 1", "*0\r\n");
    harness_expect(h, "LPOS none c", "$-1\r\n");
    harness_expect(h, "LPOS none c COUNT 0", "*0\r\n");
    harness_expect(h, "LPOS l c RANK 0",
                   "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from"
                   " the end of the list\r\n");
    harness_expect(h, "LPOS l c RANK x", NOTINT);
    harness_expect(h, "LPOS l c RANK -9223372036854775808",
                   "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n");
    harness_expect(h, "LPOS l c COUNT -1", "-ERR COUNT can't be negative\r\n");
    harness_expect(h, "LPOS l c MAXLEN x", "-ERR MAXLEN can't be negative\r\n");
    harness_expect(h, "LPOS l c RANK", SYNTAX);
    harness_expect(h, "LPOS l c LENGTH 1", SYNTAX);
    harness_expect(h, "LPOS set c", WRONGTYPE);
    harness_free(h);
}

static void moves_work_between_any_two_shards(void **state)
{
    struct harness *h = bed();
    for (int i = 0; i < 16; i++) {
        char words[64];
        snprintf(words, sizeof words, "RPUSH from%d a b c", i);
        harness_run(h, words);
        snprintf(words, sizeof words, "LMOVE from%d to%d RIGHT LEFT", i, i);
        harness_expect(h, words, "$1\r\nc\r\n");
        snprintf(words, sizeof words, "LMOVE from%d to%d left right", i, i);
        harness_expect(h, words, "$1\r\na\r\n");
        snprintf(words, sizeof words, "RPOPLPUSH from%d to%d", i, i);
        harness_expect(h, words, "$1\r\nb\r\n");
        snprintf(words, sizeof words, "to%d", i);
        expect_list(h, words, "b c a");
    }
    harness_expect(h, "LLEN from3", ":0\r\n");
    harness_expect(h, "LMOVE none set LEFT LEFT", "$-1\r\n");
    harness_expect(h, "LMOVE to0 set LEFT LEFT", WRONGTYPE);
    harness_expect(h, "LMOVE set to0 LEFT LEFT", WRONGTYPE);
    harness_expect(h, "LMOVE to0 to1 UP LEFT", SYNTAX);
    harness_expect(h, "RPOPLPUSH none to1", "$-1\r\n");
    expect_list(h, "to0", "b c a");
    harness_free(h);
}

static void a_list_moved_onto_itself_rotates_and_keeps_its_expiry(void **state)
{
    struct harness *h = bed();
    harness_run(h, "RPUSH l a b c");
    harness_expect(h, "RPOPLPUSH l l", "$1\r\nc\r\n");
    expect_list(h, "l", "c a b");
    harness_expect(h, "LMOVE l l LEFT RIGHT", "$1\r\nc\r\n");
    expect_list(h, "l", "a b c");
    harness_expect(h, "LMOVE l l LEFT LEFT", "$1\r\na\r\n");
    expect_list(h, "l", "a b c");

    harness_run(h, "RPUSH one x");
    uint64_t hash = keyhash(SLICE("one"), h->route.seed);
    struct store *s = h->stores[route_shard(&h->route, hash)];
    store_apply(s, &(struct op){.kind = OP_EXPIRE, .key = SLICE("one"), .expiry_ms = h->now_ms + 1000}, NULL);
    harness_expect(h, "RPOPLPUSH one one", "$1\r\nx\r\n");
    expect_list(h, "one", "x");
    h->now_ms += 1001;
    harness_expect(h, "LLEN one", ":0\r\n");
    harness_free(h);
}

static void lmpop_serves_the_first_list(void **state)
{
    struct harness *h = bed();
    harness_run(h, "RPUSH l a b c d");
    harness_expect(h, "LMPOP 3 none l set LEFT", "*2\r\n$1\r\nl\r\n*1\r\n$1\r\na\r\n");
    harness_expect(h, "LMPOP 2 none l right COUNT 2", "*2\r\n$1\r\nl\r\n*2\r\n$1\r\nd\r\n$1\r\nc\r\n");
    harness_expect(h, "LMPOP 1 l LEFT COUNT 10", "*2\r\n$1\r\nl\r\n*1\r\n$1\r\nb\r\n");
    harness_expect(h, "LMPOP 1 l LEFT", "*-1\r\n");
    harness_expect(h, "LMPOP 2 l set LEFT", WRONGTYPE);
    harness_expect(h, "LMPOP 0 l LEFT", "-ERR numkeys should be greater than 0\r\n");
    harness_expect(h, "LMPOP x l LEFT", "-ERR numkeys should be greater than 0\r\n");
    harness_expect(h, "LMPOP 9223372036854775808 l LEFT", "-ERR numkeys should be greater than 0\r\n");
    harness_expect(h, "LMPOP 9223372036854775807 l LEFT", SYNTAX);
    harness_expect(h, "LMPOP 2 l LEFT", SYNTAX);
    harness_expect(h, "LMPOP 1 l UP", SYNTAX);
    harness_expect(h, "LMPOP 1 l LEFT COUNT", SYNTAX);
    harness_expect(h, "LMPOP 1 l LEFT FOO 1", SYNTAX);
    harness_expect(h, "LMPOP 1 l LEFT COUNT 1 COUNT 1", SYNTAX);
    harness_expect(h, "LMPOP 1 l LEFT COUNT 0", "-ERR count should be greater than 0\r\n");
    harness_expect(h, "LMPOP 1 l LEFT COUNT x", "-ERR count should be greater than 0\r\n");
    h->resp = 3;
    harness_expect(h, "LMPOP 1 l LEFT", "_\r\n");
    harness_free(h);
}

/* Runs a command that must wait, for these keys (argument indexes) and so long. */
static void expect_wait(struct harness *h, const char *words, uint32_t first, uint32_t count, int64_t timeout_ms)
{
    harness_run(h, words);
    assert_true(h->blocked);
    assert_int_equal(h->out.len, 0);
    assert_int_equal(h->last.block.first, first);
    assert_int_equal(h->last.block.count, count);
    assert_int_equal(h->last.block.step, 1);
    assert_int_equal(h->last.block.timeout_ms, timeout_ms);
    assert_int_equal(h->last.ops, 0);
}

static void blocking_commands_wait_for_their_keys(void **state)
{
    struct harness *h = bed();
    expect_wait(h, "BLPOP a b c 0", 1, 3, 0);
    expect_wait(h, "BRPOP a 1.5", 1, 1, 1500);
    expect_wait(h, "BLMOVE a b LEFT RIGHT 2", 1, 1, 2000);
    expect_wait(h, "BLMOVE a set LEFT RIGHT 2", 1, 1, 2000);
    expect_wait(h, "BRPOPLPUSH a b 0", 1, 1, 0);
    expect_wait(h, "BLMPOP 0.5 2 a b RIGHT COUNT 3", 3, 2, 500);
    harness_free(h);
}

static void blocking_commands_take_what_is_there_at_once(void **state)
{
    struct harness *h = bed();
    harness_run(h, "RPUSH l a b c d e f g");
    harness_expect(h, "BLPOP none l 0", "*2\r\n$1\r\nl\r\n$1\r\na\r\n");
    harness_expect(h, "BRPOP none l 0", "*2\r\n$1\r\nl\r\n$1\r\ng\r\n");
    harness_expect(h, "BLMOVE l m LEFT RIGHT 0", "$1\r\nb\r\n");
    harness_expect(h, "BRPOPLPUSH l m 0", "$1\r\nf\r\n");
    harness_expect(h, "BLMPOP 0 2 none l RIGHT COUNT 2", "*2\r\n$1\r\nl\r\n*2\r\n$1\r\ne\r\n$1\r\nd\r\n");
    expect_list(h, "l", "c");
    expect_list(h, "m", "f b");
    harness_free(h);
}

static void a_waiter_that_is_tried_again_is_served_or_waits_on(void **state)
{
    struct harness *h = bed();
    struct slice argv[] = {SLICE("BLPOP"), SLICE("q"), SLICE("l"), SLICE("0")};
    harness_run(h, "RPUSH l a");
    assert_true(slice_eq(harness_exec(h, argv, 4, true), SLICE("*2\r\n$1\r\nl\r\n$1\r\na\r\n")));
    harness_exec(h, argv, 4, true);
    assert_true(h->blocked);

    /* A key that became something else does not end the wait. */
    harness_run(h, "SADD q m");
    harness_exec(h, argv, 4, true);
    assert_true(h->blocked);
    struct slice move[] = {SLICE("BRPOPLPUSH"), SLICE("q"), SLICE("l"), SLICE("0")};
    harness_exec(h, move, 4, true);
    assert_true(h->blocked);
    harness_free(h);
}

static void blocking_commands_answer_nil_inside_a_transaction(void **state)
{
    struct harness *h = bed();
    h->in_multi = true;
    harness_expect(h, "BLPOP a 0", "*-1\r\n");
    harness_expect(h, "BRPOP a 0", "*-1\r\n");
    harness_expect(h, "BLMPOP 0 1 a LEFT", "*-1\r\n");
    harness_expect(h, "BLMOVE a b LEFT LEFT 0", "$-1\r\n");
    harness_expect(h, "BRPOPLPUSH a b 0", "$-1\r\n");
    harness_free(h);
}

static void bad_arguments_of_blocking_commands_are_refused(void **state)
{
    struct harness *h = bed();
    harness_expect(h, "BLPOP set 0", WRONGTYPE);
    harness_expect(h, "BLPOP none set 0", WRONGTYPE);
    harness_expect(h, "BLMOVE set l LEFT LEFT 0", WRONGTYPE);
    harness_expect(h, "BLMPOP 0 2 none set LEFT", WRONGTYPE);
    harness_expect(h, "BLPOP l x", "-ERR timeout is not a float or out of range\r\n");
    harness_expect(h, "BLPOP l -1", "-ERR timeout is negative\r\n");
    harness_expect(h, "BLMOVE l m UP LEFT x", SYNTAX);
    harness_expect(h, "BRPOPLPUSH l m x", "-ERR timeout is not a float or out of range\r\n");
    harness_expect(h, "BLMPOP x 0 l LEFT", "-ERR numkeys should be greater than 0\r\n");
    harness_expect(h, "BLMPOP x 1 l LEFT", "-ERR timeout is not a float or out of range\r\n");
    harness_expect(h, "BLMPOP 0 1 l LEFT COUNT 0", "-ERR count should be greater than 0\r\n");
    harness_free(h);
}

static void every_change_is_told(void **state)
{
    static const struct {
        const char *words, *events;
    } steps[] = {
        {"RPUSH l a b c", "new l;rpush l;"},
        {"LPUSH l z", "lpush l;"},
        {"LSET l 0 y", "lset l;"},
        {"LINSERT l AFTER y x", "linsert l;"},
        {"LINSERT l AFTER none x", ""},
        {"LREM l 0 x", "lrem l;"},
        {"LREM l 0 x", ""},
        {"LPOP l", "lpop l;"},
        {"LPOP l 0", ""},
        {"LTRIM l 0 1", "ltrim l;"},
        {"RPOPLPUSH l m", "new m;lpush m;rpop l;"},
        {"LMOVE l m LEFT RIGHT", "rpush m;lpop l;del l;"},
        {"LMPOP 1 m RIGHT COUNT 5", "rpop m;del m;"},
        {"RPUSH l a", "new l;rpush l;"},
        {"BLPOP l 0", "lpop l;del l;"},
        {"RPUSH l a a", "new l;rpush l;"},
        {"LREM l 0 a", "lrem l;del l;"},
        {"RPUSH l a a", "new l;rpush l;"},
        {"LTRIM l 3 4", "ltrim l;del l;"},
        {"LTRIM l 3 4", ""},
        {"RPUSHX l a", ""},
    };
    struct harness *h = bed();
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        harness_run(h, steps[i].words);
        assert_string_equal(harness_events(h), steps[i].events);
    }
    harness_free(h);
}

static void key_positions_of_counted_keys_are_found(void **state)
{
    struct harness *h = bed();
    struct slice argv[] = {SLICE("BLMPOP"), SLICE("0"), SLICE("3"), SLICE("a"), SLICE("b"), SLICE("c"), SLICE("LEFT")};
    uint32_t at[8];
    const struct command *blmpop = command_find(h->table, SLICE("blmpop")), *lmpop = command_find(h->table, SLICE("lmpop"));
    assert_int_equal(command_keys(blmpop, argv, 7, at, 8), 3);
    assert_true(at[0] == 3 && at[1] == 4 && at[2] == 5);
    assert_int_equal(command_keys(blmpop, argv, 6, at, 8), -1);
    assert_int_equal(command_keys(lmpop, argv + 1, 6, at, 8), 3);
    assert_true(at[0] == 2 && at[2] == 4);
    argv[2] = SLICE("-1");
    assert_int_equal(command_keys(blmpop, argv, 7, at, 8), -1);
    harness_free(h);
}

/* ---- the random walk: a few letters as elements, so that LREM, LPOS and LINSERT find some */

struct twin {
    char v[4096];
    int64_t n;
};

static void twin_cut(struct twin *t, int64_t at, int64_t count)
{
    memmove(t->v + at, t->v + at + count, (size_t)(t->n - at - count));
    t->n -= count;
}

static void twin_put(struct twin *t, int64_t at, char c)
{
    memmove(t->v + at + 1, t->v + at, (size_t)(t->n - at));
    t->v[at] = c;
    t->n++;
}

/* Long elements make chains of nodes soon; the letter is repeated. */
static void element(char *out, size_t cap, char c)
{
    size_t n = c == 'a' ? 1 : c == 'b' ? 30 : c == 'c' ? 300 : 2;
    assert_true(n < cap);
    memset(out, c, n);
    out[n] = 0;
}

static int64_t twin_rem(struct twin *t, int64_t count, char c)
{
    int64_t removed = 0, most = count ? llabs(count) : t->n;
    for (int64_t i = count < 0 ? t->n - 1 : 0; i >= 0 && i < t->n && removed < most;) {
        bool equal = t->v[i] == c;
        if (equal) twin_cut(t, i, 1), removed++;
        i += count < 0 ? -1 : !equal;
    }
    return removed;
}

static void expect_twin(struct harness *h, const struct twin *t)
{
    struct place at;
    h->last.stores = h->stores;
    exec_peek(&h->last, SLICE("walk"), &at);
    assert_int_equal(at.e ? (int64_t)list_len(at.e) : 0, t->n);
    if (!at.e) return;
    struct list_iter it;
    struct slice v;
    char want[400];
    list_iter_init(&it, at.e, 0, false);
    for (int64_t i = 0; i < t->n; i++) {
        assert_true(list_iter_next(&it, &v));
        element(want, sizeof want, t->v[i]);
        assert_true(slice_eq(v, slice_str(want)));
    }
    assert_false(list_iter_next(&it, &v));
}

static void walk_step(struct harness *h, struct twin *t, bool growing)
{
    char words[1000], e[400], reply[64] = "";
    char c = (char)('a' + rng_below(&h->rng, 4));
    int64_t i = (int64_t)rng_below(&h->rng, (uint64_t)t->n + 1);
    element(e, sizeof e, c);
    switch (rng_below(&h->rng, growing ? 12 : 20)) {
    case 0: case 1: case 2:
        snprintf(words, sizeof words, "RPUSH walk %s %s", e, e);
        twin_put(t, t->n, c), twin_put(t, t->n, c);
        snprintf(reply, sizeof reply, ":%ld\r\n", (long)t->n);
        break;
    case 3: case 4:
        snprintf(words, sizeof words, "LPUSH walk %s", e);
        twin_put(t, 0, c);
        snprintf(reply, sizeof reply, ":%ld\r\n", (long)t->n);
        break;
    case 5: case 6: {
        const char *found = memchr(t->v, c, (size_t)t->n);
        snprintf(words, sizeof words, "LINSERT walk AFTER %s zz", e);
        long result = t->n == 0 ? 0 : found ? (long)t->n + 1 : -1;
        snprintf(reply, sizeof reply, ":%ld\r\n", result);
        if (found) twin_put(t, found - t->v + 1, 'z');
        break;
    }
    case 7: case 8:
        if (i == t->n) return;
        snprintf(words, sizeof words, "LSET walk %ld %s", (long)(i % 2 ? i : i - t->n), e);
        t->v[i] = c;
        snprintf(reply, sizeof reply, "+OK\r\n");
        break;
    case 9:
        snprintf(words, sizeof words, "RPOP walk 3");
        twin_cut(t, t->n > 3 ? t->n - 3 : 0, t->n > 3 ? 3 : t->n);
        break;
    case 10:
        if (t->n == 0) return;
        snprintf(words, sizeof words, "LMOVE walk walk LEFT RIGHT");
        twin_put(t, t->n, t->v[0]), twin_cut(t, 0, 1);
        break;
    case 11: case 12: case 13:
        snprintf(words, sizeof words, "LREM walk %ld %s", (long)i % 7 - 3, e);
        snprintf(reply, sizeof reply, ":%ld\r\n", (long)twin_rem(t, i % 7 - 3, c));
        break;
    case 14:
        snprintf(words, sizeof words, "LTRIM walk %ld -2", (long)i / 4);
        i = i / 4 < t->n - 1 ? i / 4 : t->n;
        if (i < t->n) t->n--;
        twin_cut(t, 0, i);
        snprintf(reply, sizeof reply, "+OK\r\n");
        break;
    default:
        snprintf(words, sizeof words, "LPOP walk 2");
        twin_cut(t, 0, t->n > 2 ? 2 : t->n);
    }
    if (*reply) harness_expect(h, words, reply);
    else harness_run(h, words);
}

static void random_commands_agree_with_an_array(void **state)
{
    static const int32_t sizes[] = {-2, -1, 5};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct harness *h = bed();
        struct twin *t = mem_zalloc(sizeof *t);
        int64_t longest = 0;
        h->limits.list_size = sizes[s];
        for (unsigned i = 0; i < 3000; i++) {
            walk_step(h, t, i / 400 % 2 == 0 && t->n < 2000);
            expect_twin(h, t);
            if (t->n > longest) longest = t->n;
        }
        assert_true(longest > 150);
        mem_free(t);
        harness_free(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_create_and_answer_the_length),
        cmocka_unit_test(pops_answer_one_element_or_an_array_of_them),
        cmocka_unit_test(ranges_and_indexes_count_from_either_end),
        cmocka_unit_test(lset_replaces_an_element_that_is_there),
        cmocka_unit_test(linsert_goes_beside_the_first_pivot),
        cmocka_unit_test(lrem_removes_from_the_side_that_the_count_tells),
        cmocka_unit_test(ltrim_keeps_a_range),
        cmocka_unit_test(lpos_finds_matches_by_rank_count_and_length),
        cmocka_unit_test(moves_work_between_any_two_shards),
        cmocka_unit_test(a_list_moved_onto_itself_rotates_and_keeps_its_expiry),
        cmocka_unit_test(lmpop_serves_the_first_list),
        cmocka_unit_test(blocking_commands_wait_for_their_keys),
        cmocka_unit_test(blocking_commands_take_what_is_there_at_once),
        cmocka_unit_test(a_waiter_that_is_tried_again_is_served_or_waits_on),
        cmocka_unit_test(blocking_commands_answer_nil_inside_a_transaction),
        cmocka_unit_test(bad_arguments_of_blocking_commands_are_refused),
        cmocka_unit_test(every_change_is_told),
        cmocka_unit_test(key_positions_of_counted_keys_are_found),
        cmocka_unit_test(random_commands_agree_with_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
