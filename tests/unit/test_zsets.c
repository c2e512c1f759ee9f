/* Sorted-set commands: replies, errors and events as Redis clients know them. */
#include "harness.h"

#include "store/zset.h"

#define NIL "$-1\r\n"
#define NIL_ARRAY "*-1\r\n"
#define WRONGTYPE "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
#define SYNTAX "-ERR syntax error\r\n"

struct exchange {
    const char *words, *reply;
};

static struct harness *zsets_new(void)
{
    return harness_new(4, &zsets_family, &zpops_family, &zranges_family, &zstores_family, &sets_family, &expiry_family, NULL);
}

static void expect_all(struct harness *h, const struct exchange *list)
{
    for (; list->words; list++) harness_expect(h, list->words, list->reply);
}

/* Runs the exchanges with small sets in packs, and again with all of them in trees. */
static void expect_in_both_encodings(const struct exchange *list, uint8_t resp)
{
    for (int trees = 0; trees < 2; trees++) {
        struct harness *h = zsets_new();
        if (trees) h->limits.zset_entries = 0;
        h->resp = resp;
        expect_all(h, list);
        harness_free(h);
    }
}

static void zadd_counts_new_members_and_with_ch_changed_ones_too(void **state)
{
    expect_in_both_encodings((const struct exchange[]){
        {"ZADD z 1 a 2 b", ":2\r\n"},
        {"ZADD z 1 a 3 b 4 c", ":1\r\n"},
        {"ZADD z CH 1 a 5 b 6 d", ":2\r\n"},
        {"ZADD z CH 1 e 2 e 3 e", ":3\r\n"},
        {"ZADD z 1 f 2 f", ":1\r\n"},
        {"ZSCORE z e", "$1\r\n3\r\n"},
        {"ZSCORE z f", "$1\r\n2\r\n"},
        {"ZCARD z", ":6\r\n"},
        {NULL, NULL}}, 2);
}

static void zadd_conditions_see_earlier_pairs_of_the_same_command(void **state)
{
    expect_in_both_encodings((const struct exchange[]){
        {"ZADD z NX 1 a 2 a", ":1\r\n"},
        {"ZSCORE z a", "$1\r\n1\r\n"},
        {"ZADD z XX 5 b 6 b", ":0\r\n"},
        {"ZSCORE z b", NIL},
        {"ZADD z GT CH 3 a 2 a 4 a", ":2\r\n"},
        {"ZSCORE z a", "$1\r\n4\r\n"},
        {"ZADD z LT CH 9 a 1 a 3 a 7 n", ":2\r\n"},
        {"ZMSCORE z a n", "*2\r\n$1\r\n1\r\n$1\r\n7\r\n"},
        {"ZADD none XX 1 a", ":0\r\n"},
        {"ZCARD none", ":0\r\n"},
        {NULL, NULL}}, 2);
}

static void incr_answers_the_sum_or_nil_when_its_condition_fails(void **state)
{
    const struct exchange two[] = {
        {"ZADD z INCR 1.5 a", "$3\r\n1.5\r\n"}, {"ZADD z NX INCR 1 a", NIL},       {"ZADD z XX INCR 1 b", NIL},
        {"ZADD z GT INCR -1 a", NIL},           {"ZINCRBY z 2 a", "$3\r\n3.5\r\n"}, {"ZINCRBY z inf a", "$3\r\ninf\r\n"},
        {"ZINCRBY z -inf a", "-ERR resulting score is not a number (NaN)\r\n"},
        {"ZADD z INCR -inf a", "-ERR resulting score is not a number (NaN)\r\n"},
        {"ZSCORE z a", "$3\r\ninf\r\n"},        {NULL, NULL}};
    const struct exchange three[] = {
        {"ZADD z INCR 1.5 a", ",1.5\r\n"}, {"ZADD z NX INCR 1 a", "_\r\n"}, {"ZINCRBY z -2 a", ",-0.5\r\n"}, {"ZSCORE z x", "_\r\n"}, {NULL, NULL}};
    expect_in_both_encodings(two, 2);
    expect_in_both_encodings(three, 3);
}

static void a_bad_zadd_changes_nothing(void **state)
{
    struct harness *h = zsets_new();
    expect_all(h, (const struct exchange[]){
        {"ZADD z 1 a x b", "-ERR value is not a valid float\r\n"},
        {"ZADD z 1 a nan b", "-ERR value is not a valid float\r\n"},
        {"ZADD z 1 a 2", SYNTAX},
        {"ZADD z NX XX CH", SYNTAX},
        {"ZADD z NX XX 1 a", "-ERR XX and NX options at the same time are not compatible\r\n"},
        {"ZADD z GT LT 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible\r\n"},
        {"ZADD z NX GT 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible\r\n"},
        {"ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair\r\n"},
        {"ZADD z 1", "-ERR wrong number of arguments for 'zadd' command\r\n"},
        {"ZCARD z", ":0\r\n"},
        {"SADD s x", ":1\r\n"},
        {"ZADD s 1 a", WRONGTYPE},
        {NULL, NULL}});
    harness_free(h);
}

static void an_unchanged_score_is_no_write(void **state)
{
    struct harness *h = zsets_new();
    harness_expect(h, "ZADD z 1 a 2 b", ":2\r\n");
    const char *reads[] = {"ZADD z 1 a 2 b", "ZADD z XX 9 c", "ZADD z GT 1 a", "ZREM z x y", "ZREMRANGEBYSCORE z 5 9", "ZPOPMIN z 0", "ZINCRBY z 0 a"};
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        harness_events(h);
        harness_run(h, reads[i]);
        assert_int_equal(h->last.ops, 0);
        assert_string_equal(harness_events(h), "");
    }
    harness_free(h);
}

static void one_command_is_one_op(void **state)
{
    struct harness *h = zsets_new();
    harness_run(h, "ZADD z 1 a 2 b 3 c 4 d 5 e 6 f");
    assert_int_equal(h->last.ops, 1);
    harness_expect(h, "ZREM z a b x a", ":2\r\n");
    assert_int_equal(h->last.ops, 1);
    harness_expect(h, "ZREMRANGEBYRANK z 0 1", ":2\r\n");
    assert_int_equal(h->last.ops, 1);
    harness_expect(h, "ZREMRANGEBYRANK z 0 -1", ":2\r\n");
    assert_int_equal(h->last.ops, 1);
    harness_free(h);
}

static void events_tell_what_happened_and_when_the_key_goes(void **state)
{
    static const struct {
        const char *words, *events;
    } list[] = {
        {"ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g", "new z;zadd z;"},
        {"ZINCRBY z 1 a", "zincr z;"},
        {"ZADD z INCR 1 a", "zincr z;"},
        {"ZREM z a", "zrem z;"},
        {"ZPOPMIN z", "zpopmin z;"},
        {"ZPOPMAX z", "zpopmax z;"},
        {"ZMPOP 1 z MIN", "zpopmin z;"},
        {"BZPOPMAX z 0", "zpopmax z;"},
        {"ZUNIONSTORE d 1 z", "new d;zunionstore d;"},
        {"ZINTERSTORE e 1 z", "new e;zinterstore e;"},
        {"ZDIFFSTORE f 1 z", "new f;zdiffstore f;"},
        {"ZRANGESTORE g z 0 -1", "new g;zrangestore g;"},
        {"ZRANGESTORE g none 0 -1", "del g;"},
        {"ZDIFFSTORE f 2 z z", "del f;"},
        {"ZDIFFSTORE f 2 z z", ""},
        {"ZREMRANGEBYRANK d 0 0", "zremrangebyrank d;"},
        {"ZREMRANGEBYSCORE d -inf inf", "zremrangebyscore d;del d;"},
        {"ZREMRANGEBYLEX e - +", "zremrangebylex e;del e;"},
        {"ZREM z d e", "zrem z;del z;"},
    };
    struct harness *h = zsets_new();
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        harness_run(h, list[i].words);
        assert_string_equal(harness_events(h), list[i].events);
    }
    harness_free(h);
}

static void ranks_count_from_either_end_with_and_without_score(void **state)
{
    const struct exchange two[] = {
        {"ZADD z 1 a 2 b 2 c", ":3\r\n"},
        {"ZRANK z c", ":2\r\n"},
        {"ZREVRANK z c", ":0\r\n"},
        {"ZRANK z b WITHSCORE", "*2\r\n:1\r\n$1\r\n2\r\n"},
        {"ZRANK z x", NIL},
        {"ZRANK z x WITHSCORE", NIL_ARRAY},
        {"ZRANK none x WITHSCORE", NIL_ARRAY},
        {"ZRANK z b foo", SYNTAX},
        {"ZRANK z b WITHSCORE more", "-ERR wrong number of arguments for 'zrank' command\r\n"},
        {NULL, NULL}};
    const struct exchange three[] = {
        {"ZADD z 1 a", ":1\r\n"}, {"ZREVRANK z a WITHSCORE", "*2\r\n:0\r\n,1\r\n"}, {"ZRANK z x WITHSCORE", "_\r\n"}, {NULL, NULL}};
    expect_in_both_encodings(two, 2);
    expect_in_both_encodings(three, 3);
}

static void ranges_of_scores_have_open_closed_and_infinite_ends(void **state)
{
    expect_in_both_encodings((const struct exchange[]){
        {"ZADD z -inf low 1 a 2 b 3 c inf high", ":5\r\n"},
        {"ZCOUNT z -inf +inf", ":5\r\n"},
        {"ZCOUNT z (-inf (inf", ":3\r\n"},
        {"ZCOUNT z (1 3", ":2\r\n"},
        {"ZCOUNT z 3 1", ":0\r\n"},
        {"ZCOUNT z (2 (2", ":0\r\n"},
        {"ZRANGEBYSCORE z (1 3", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"},
        {"ZREVRANGEBYSCORE z (3 1 WITHSCORES", "*4\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\na\r\n$1\r\n1\r\n"},
        {"ZRANGEBYSCORE z 1 3 LIMIT 1 1", "*1\r\n$1\r\nb\r\n"},
        {"ZREVRANGEBYSCORE z 3 1 LIMIT 1 -1", "*2\r\n$1\r\nb\r\n$1\r\na\r\n"},
        {"ZRANGEBYSCORE z 1 3 LIMIT -1 2", "*0\r\n"},
        {"ZRANGEBYSCORE z 1 3 LIMIT 9 2", "*0\r\n"},
        {"ZRANGE z 3 1 BYSCORE REV LIMIT 0 2", "*2\r\n$1\r\nc\r\n$1\r\nb\r\n"},
        {"ZREMRANGEBYSCORE z (1 2", ":1\r\n"},
        {"ZRANGE z 0 -1", "*4\r\n$3\r\nlow\r\n$1\r\na\r\n$1\r\nc\r\n$4\r\nhigh\r\n"},
        {NULL, NULL}}, 2);
}

static void ranges_of_names_have_open_closed_and_endless_ends(void **state)
{
    expect_in_both_encodings((const struct exchange[]){
        {"ZADD z 0 a 0 b 0 c 0 d", ":4\r\n"},
        {"ZLEXCOUNT z - +", ":4\r\n"},
        {"ZLEXCOUNT z (a [c", ":2\r\n"},
        {"ZLEXCOUNT z + -", ":0\r\n"},
        {"ZLEXCOUNT z + +", ":0\r\n"},
        {"ZRANGEBYLEX z [b +", "*3\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n"},
        {"ZREVRANGEBYLEX z (c -", "*2\r\n$1\r\nb\r\n$1\r\na\r\n"},
        {"ZRANGE z + [c BYLEX REV", "*2\r\n$1\r\nd\r\n$1\r\nc\r\n"},
        {"ZRANGEBYLEX z - + LIMIT 1 2", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"},
        {"ZREMRANGEBYLEX z [b (d", ":2\r\n"},
        {"ZRANGE z 0 -1", "*2\r\n$1\r\na\r\n$1\r\nd\r\n"},
        {NULL, NULL}}, 2);
}

static void ranges_of_ranks_count_from_both_ends(void **state)
{
    expect_in_both_encodings((const struct exchange[]){
        {"ZADD z 1 a 2 b 3 c", ":3\r\n"},
        {"ZRANGE z -2 -1", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"},
        {"ZRANGE z -100 0", "*1\r\n$1\r\na\r\n"},
        {"ZRANGE z 1 0", "*0\r\n"},
        {"ZRANGE z 0 -4", "*0\r\n"},
        {"ZRANGE z 3 9", "*0\r\n"},
        {"ZRANGE z 0 9223372036854775807", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"},
        {"ZRANGE z -9223372036854775808 9223372036854775807 REV", "*3\r\n$1\r\nc\r\n$1\r\nb\r\n$1\r\na\r\n"},
        {"ZREVRANGE z 0 0", "*1\r\n$1\r\nc\r\n"},
        {"ZRANGE z 0 1 REV", "*2\r\n$1\r\nc\r\n$1\r\nb\r\n"},
        {"ZREMRANGEBYRANK z -1 -1", ":1\r\n"},
        {"ZCARD z", ":2\r\n"},
        {NULL, NULL}}, 2);
}

static void range_errors_have_the_texts_of_redis(void **state)
{
    struct harness *h = zsets_new();
    expect_all(h, (const struct exchange[]){
        {"ZADD z 1 a", ":1\r\n"},
        {"ZRANGE z a b", "-ERR value is not an integer or out of range\r\n"},
        {"ZRANGE z a b BYSCORE", "-ERR min or max is not a float\r\n"},
        {"ZRANGE z a b BYLEX", "-ERR min or max not valid string range item\r\n"},
        {"ZRANGE z 0 -1 LIMIT 0 1", "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX\r\n"},
        {"ZRANGE z - + BYLEX WITHSCORES", "-ERR syntax error, WITHSCORES not supported in combination with BYLEX\r\n"},
        {"ZRANGE z 0 1 BYSCORE BYLEX", SYNTAX},
        {"ZRANGE z 0 1 REV REV", SYNTAX},
        {"ZRANGE z 0 1 BYSCORE LIMIT 1", SYNTAX},
        {"ZRANGEBYSCORE z 0 1 BYLEX", SYNTAX},
        {"ZRANGEBYSCORE z 0 1 LIMIT a b", "-ERR value is not an integer or out of range\r\n"},
        {"ZREVRANGE z 0 1 REV", SYNTAX},
        {"ZRANGESTORE d z 0 1 WITHSCORES", SYNTAX},
        {"ZCOUNT z ( 1", "-ERR min or max is not a float\r\n"},
        {"ZCOUNT z nan 1", "-ERR min or max is not a float\r\n"},
        {"ZLEXCOUNT z a [b", "-ERR min or max not valid string range item\r\n"},
        {"ZREMRANGEBYRANK z x 1", "-ERR value is not an integer or out of range\r\n"},
        {"SADD s x", ":1\r\n"},
        {"ZRANGE s 0 1", WRONGTYPE},
        {"ZCOUNT s 0 1", WRONGTYPE},
        {"ZRANGESTORE d s 0 1", WRONGTYPE},
        {NULL, NULL}});
    harness_free(h);
}

static void zrangestore_replaces_whatever_was_there(void **state)
{
    struct harness *h = zsets_new();
    expect_all(h, (const struct exchange[]){
        {"ZADD z 1 a 2 b 3 c", ":3\r\n"},
        {"SADD d x y", ":2\r\n"},
        {"ZRANGESTORE d z 1 -1", ":2\r\n"},
        {"ZRANGE d 0 -1 WITHSCORES", "*4\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n$1\r\n3\r\n"},
        {"EXPIRE z 100", ":1\r\n"},
        {"ZRANGESTORE z z 0 1 REV", ":2\r\n"},
        {"TTL z", ":-1\r\n"},
        {"ZRANGE z 0 -1", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"},
        {"ZRANGESTORE z z (2 3 BYSCORE LIMIT 0 1", ":1\r\n"},
        {"ZRANGESTORE z none 0 1", ":0\r\n"},
        {"ZCARD z", ":0\r\n"},
        {NULL, NULL}});
    harness_free(h);
}

static void pops_answer_pairs_flat_or_nested_as_the_protocol_has_it(void **state)
{
    const struct exchange two[] = {
        {"ZADD z 1 a 2 b 3 c 4 d 5 e", ":5\r\n"},
        {"ZPOPMIN z", "*2\r\n$1\r\na\r\n$1\r\n1\r\n"},
        {"ZPOPMAX z 2", "*4\r\n$1\r\ne\r\n$1\r\n5\r\n$1\r\nd\r\n$1\r\n4\r\n"},
        {"ZPOPMIN z 0", "*0\r\n"},
        {"ZMPOP 2 none z MAX COUNT 9", "*2\r\n$1\r\nz\r\n*2\r\n*2\r\n$1\r\nc\r\n$1\r\n3\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n"},
        {"ZPOPMIN z", "*0\r\n"},
        {"ZPOPMIN z 3", "*0\r\n"},
        {"ZMPOP 1 z MIN", NIL_ARRAY},
        {NULL, NULL}};
    const struct exchange three[] = {
        {"ZADD z 1 a 2 b 3 c 4 d 5 e", ":5\r\n"},
        {"ZPOPMIN z", "*2\r\n$1\r\na\r\n,1\r\n"},
        {"ZPOPMAX z 1", "*1\r\n*2\r\n$1\r\ne\r\n,5\r\n"},
        {"ZMPOP 1 z MIN", "*2\r\n$1\r\nz\r\n*1\r\n*2\r\n$1\r\nb\r\n,2\r\n"},
        {"BZPOPMIN z 0", "*3\r\n$1\r\nz\r\n$1\r\nc\r\n,3\r\n"},
        {"ZMPOP 1 none MIN", "_\r\n"},
        {NULL, NULL}};
    expect_in_both_encodings(two, 2);
    expect_in_both_encodings(three, 3);
}

static void pop_errors_have_the_texts_of_redis(void **state)
{
    struct harness *h = zsets_new();
    expect_all(h, (const struct exchange[]){
        {"SADD s x", ":1\r\n"},
        {"ZPOPMIN s", WRONGTYPE},
        {"ZPOPMIN z -1", "-ERR value is out of range, must be positive\r\n"},
        {"ZPOPMIN z x", "-ERR value is out of range, must be positive\r\n"},
        {"ZPOPMIN z 1 2", SYNTAX},
        {"ZMPOP 0 z MIN", "-ERR numkeys should be greater than 0\r\n"},
        {"ZMPOP x z MIN", "-ERR numkeys should be greater than 0\r\n"},
        {"ZMPOP 9223372036854775807 z MIN", SYNTAX},
        {"ZMPOP 2 z MIN", SYNTAX},
        {"ZMPOP 1 z FOO", SYNTAX},
        {"ZMPOP 1 z MIN COUNT 0", "-ERR count should be greater than 0\r\n"},
        {"ZMPOP 1 z MIN COUNT", SYNTAX},
        {"ZMPOP 1 z MIN COUNT 1 COUNT 2", SYNTAX},
        {"ZMPOP 2 none s MIN", WRONGTYPE},
        {"BZMPOP x 1 z MIN", "-ERR timeout is not a float or out of range\r\n"},
        {"BZMPOP -1 1 z MIN", "-ERR timeout is negative\r\n"},
        {"BZPOPMIN none s 0", WRONGTYPE},
        {"BZPOPMIN z x", "-ERR timeout is not a float or out of range\r\n"},
        {NULL, NULL}});
    harness_free(h);
}

static void a_blocking_pop_waits_for_all_its_keys_and_is_served_later(void **state)
{
    struct harness *h = zsets_new();
    harness_run(h, "BZPOPMIN p q 1.5");
    assert_true(h->blocked);
    assert_int_equal(h->last.block.timeout_ms, 1500);
    assert_int_equal(h->last.block.first, 1);
    assert_int_equal(h->last.block.count, 2);
    struct slice wait[] = {SLICE("BZMPOP"), SLICE("0"), SLICE("2"), SLICE("p"), SLICE("q"), SLICE("MAX"), SLICE("COUNT"), SLICE("2")};
    harness_argv(h, wait, 8);
    assert_true(h->blocked);
    assert_int_equal(h->last.block.first, 3);
    assert_int_equal(h->last.block.count, 2);
    harness_expect(h, "ZADD q 1 a 2 b 3 c", ":3\r\n");
    harness_argv(h, wait, 8);
    assert_true(slice_eq(buf_slice(&h->out), SLICE("*2\r\n$1\r\nq\r\n*2\r\n*2\r\n$1\r\nc\r\n$1\r\n3\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n")));
    harness_expect(h, "BZPOPMIN p q 0", "*3\r\n$1\r\nq\r\n$1\r\na\r\n$1\r\n1\r\n");
    h->in_multi = true;
    harness_expect(h, "BZPOPMIN p q 0", NIL_ARRAY);
    harness_expect(h, "BZMPOP 0 1 p MIN", NIL_ARRAY);
    harness_free(h);
}

static void a_waiter_goes_on_waiting_when_its_key_becomes_another_type(void **state)
{
    struct harness *h = zsets_new();
    struct slice wait[] = {SLICE("BZPOPMIN"), SLICE("k"), SLICE("0")};
    harness_expect(h, "SADD k x", ":1\r\n");
    harness_argv(h, wait, 3);
    assert_true(slice_eq(buf_slice(&h->out), slice_str(WRONGTYPE)));
    harness_retry(h);
    assert_true(h->blocked);
    harness_free(h);
}

static void set_algebra_weighs_aggregates_and_accepts_plain_sets(void **state)
{
    expect_in_both_encodings((const struct exchange[]){
        {"ZADD a 1 x 2 y", ":2\r\n"},
        {"ZADD b 10 y 20 z", ":2\r\n"},
        {"SADD s y 7", ":2\r\n"},
        {"ZUNION 2 a b WITHSCORES", "*6\r\n$1\r\nx\r\n$1\r\n1\r\n$1\r\ny\r\n$2\r\n12\r\n$1\r\nz\r\n$2\r\n20\r\n"},
        {"ZUNION 2 a b WEIGHTS 100 1", "*3\r\n$1\r\nz\r\n$1\r\nx\r\n$1\r\ny\r\n"},
        {"ZUNION 3 a b s AGGREGATE MIN WITHSCORES",
         "*8\r\n$1\r\n7\r\n$1\r\n1\r\n$1\r\nx\r\n$1\r\n1\r\n$1\r\ny\r\n$1\r\n1\r\n$1\r\nz\r\n$2\r\n20\r\n"},
        {"ZINTER 3 a b s WITHSCORES", "*2\r\n$1\r\ny\r\n$2\r\n13\r\n"},
        {"ZINTER 2 a b AGGREGATE MAX WEIGHTS 6 1 WITHSCORES", "*2\r\n$1\r\ny\r\n$2\r\n12\r\n"},
        {"ZINTER 2 a none", "*0\r\n"},
        {"ZDIFF 2 a s WITHSCORES", "*2\r\n$1\r\nx\r\n$1\r\n1\r\n"},
        {"ZDIFF 2 none a", "*0\r\n"},
        {"ZINTERCARD 2 a b", ":1\r\n"},
        {"ZINTERCARD 1 a LIMIT 1", ":1\r\n"},
        {"ZINTERCARD 1 a LIMIT 0", ":2\r\n"},
        {"ZUNIONSTORE a 2 a b", ":3\r\n"},
        {"ZRANGE a 0 -1 WITHSCORES", "*6\r\n$1\r\nx\r\n$1\r\n1\r\n$1\r\ny\r\n$2\r\n12\r\n$1\r\nz\r\n$2\r\n20\r\n"},
        {"ZINTERSTORE s 2 a s WEIGHTS 1 -1", ":1\r\n"},
        {"ZSCORE s y", "$2\r\n11\r\n"},
        {"ZDIFFSTORE b 2 a b", ":1\r\n"},
        {"ZRANGE b 0 -1", "*1\r\n$1\r\nx\r\n"},
        {NULL, NULL}}, 2);
}

static void infinities_without_a_sum_count_as_zero(void **state)
{
    expect_in_both_encodings((const struct exchange[]){
        {"ZADD a inf x 5 y", ":2\r\n"},
        {"ZADD b -inf x", ":1\r\n"},
        {"ZUNION 2 a b WITHSCORES", "*4\r\n$1\r\nx\r\n$1\r\n0\r\n$1\r\ny\r\n$1\r\n5\r\n"},
        {"ZUNION 1 a WEIGHTS 0 WITHSCORES", "*4\r\n$1\r\nx\r\n$1\r\n0\r\n$1\r\ny\r\n$1\r\n0\r\n"},
        {NULL, NULL}}, 2);
}

static void algebra_errors_have_the_texts_of_redis(void **state)
{
    struct harness *h = zsets_new();
    expect_all(h, (const struct exchange[]){
        {"ZUNION 0 a", "-ERR at least 1 input key is needed for 'zunion' command\r\n"},
        {"ZINTERSTORE d -1 a", "-ERR at least 1 input key is needed for 'zinterstore' command\r\n"},
        {"ZUNION a b", "-ERR value is not an integer or out of range\r\n"},
        {"ZUNION 2 a", SYNTAX},
        {"ZUNION 1 a WEIGHTS", SYNTAX},
        {"ZUNION 1 a WEIGHTS x", "-ERR weight value is not a float\r\n"},
        {"ZUNION 1 a WEIGHTS 1 2", SYNTAX},
        {"ZUNION 1 a AGGREGATE foo", SYNTAX},
        {"ZUNIONSTORE d 1 a WITHSCORES", SYNTAX},
        {"ZDIFF 1 a WEIGHTS 1", SYNTAX},
        {"ZINTERCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative\r\n"},
        {"ZINTERCARD 1 a LIMIT x", "-ERR LIMIT can't be negative\r\n"},
        {"ZINTERCARD 1 a WITHSCORES", SYNTAX},
        {NULL, NULL}});
    harness_free(h);
}

/* Members named m0 ... m{n-1}, with their numbers as scores. */
static void fill(struct harness *h, const char *key, unsigned n)
{
    struct buf b = {0};
    buf_printf(&b, "ZADD %s", key);
    for (unsigned i = 0; i < n; i++) buf_printf(&b, " %u m%u", i, i);
    buf_add_byte(&b, 0);
    harness_run(h, b.p);
    buf_fini(&b);
}

static void random_members_are_distinct_or_repeat_by_the_sign_of_count(void **state)
{
    struct harness *h = zsets_new();
    expect_all(h, (const struct exchange[]){
        {"ZADD z 1 a", ":1\r\n"},
        {"ZRANDMEMBER z", "$1\r\na\r\n"},
        {"ZRANDMEMBER none", NIL},
        {"ZRANDMEMBER none 2", "*0\r\n"},
        {"ZRANDMEMBER z 0", "*0\r\n"},
        {"ZRANDMEMBER z 5 WITHSCORES", "*2\r\n$1\r\na\r\n$1\r\n1\r\n"},
        {"ZRANDMEMBER z -3", "*3\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n"},
        {"ZRANDMEMBER z x", "-ERR value is not an integer or out of range\r\n"},
        {"ZRANDMEMBER z 1 foo", SYNTAX},
        {"ZRANDMEMBER z -9223372036854775808",
         "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n"},
        {"ZRANDMEMBER z 9223372036854775807 WITHSCORES", "-ERR value is out of range\r\n"},
        {NULL, NULL}});
    h->resp = 3;
    harness_expect(h, "ZRANDMEMBER z -2 WITHSCORES", "*2\r\n*2\r\n$1\r\na\r\n,1\r\n*2\r\n$1\r\na\r\n,1\r\n");
    harness_free(h);
}

static void distinct_random_members_never_repeat(void **state)
{
    struct harness *h = zsets_new();
    fill(h, "z", 300);
    for (unsigned want = 1; want <= 300; want += 23) {
        char words[40];
        snprintf(words, sizeof words, "ZRANDMEMBER z %u", want);
        struct slice r = harness_run(h, words);
        bool seen[300] = {false};
        unsigned n = 0;
        for (const char *p = r.p; p + 2 < r.p + r.n; p++) {
            if (p[0] != '\n' || p[1] != 'm') continue;
            unsigned number = (unsigned)strtoul(p + 2, NULL, 10);
            assert_false(seen[number]);
            seen[number] = true;
            n++;
        }
        assert_int_equal(n, want);
    }
    harness_free(h);
}

static void zscan_gives_every_member_with_its_score(void **state)
{
    struct harness *h = zsets_new();
    harness_expect(h, "ZSCAN none 0", "*2\r\n$1\r\n0\r\n*0\r\n");
    harness_expect(h, "ZADD z 1.5 a 2 b", ":2\r\n");
    harness_expect(h, "ZSCAN z 0", "*2\r\n$1\r\n0\r\n*4\r\n$1\r\na\r\n$3\r\n1.5\r\n$1\r\nb\r\n$1\r\n2\r\n");
    harness_expect(h, "ZSCAN z 0 MATCH b*", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n");
    harness_expect(h, "ZSCAN z 0 NOSCORES", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    harness_expect(h, "ZSCAN z 0 NOVALUES", "-ERR syntax error\r\n");
    h->resp = 3;
    harness_expect(h, "ZSCAN z 0 MATCH b", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n");
    harness_expect(h, "ZSCAN z x", "-ERR invalid cursor\r\n");
    fill(h, "big", 400);
    unsigned found = 0, calls = 0;
    char words[64] = "ZSCAN big 0 COUNT 20";
    do {
        struct slice r = harness_run(h, words);
        for (size_t i = 0; i + 1 < r.n; i++) found += r.p[i] == '\n' && r.p[i + 1] == 'm';
        const char *cursor = memchr(memchr(r.p, '$', r.n), '\n', r.n);
        snprintf(words, sizeof words, "ZSCAN big %llu COUNT 20", strtoull(cursor + 1, NULL, 10));
    } while (strcmp(words, "ZSCAN big 0 COUNT 20") != 0 && ++calls < 1000);
    assert_int_equal(found, 400);
    assert_true(calls > 5);
    harness_free(h);
}

static void a_large_set_works_as_a_small_one(void **state)
{
    struct harness *h = zsets_new();
    fill(h, "z", 1000);
    expect_all(h, (const struct exchange[]){
        {"ZCARD z", ":1000\r\n"},
        {"ZRANK z m537", ":537\r\n"},
        {"ZCOUNT z (100 200", ":100\r\n"},
        {"ZRANGE z 500 501", "*2\r\n$4\r\nm500\r\n$4\r\nm501\r\n"},
        {"ZREMRANGEBYSCORE z 100 899", ":800\r\n"},
        {"ZREVRANGE z 99 100", "*2\r\n$4\r\nm900\r\n$3\r\nm99\r\n"},
        {"ZINCRBY z 10000 m0", "$5\r\n10000\r\n"},
        {"ZPOPMAX z", "*2\r\n$2\r\nm0\r\n$5\r\n10000\r\n"},
        {"ZREMRANGEBYRANK z 0 -1", ":199\r\n"},
        {"ZCARD z", ":0\r\n"},
        {NULL, NULL}});
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zadd_counts_new_members_and_with_ch_changed_ones_too),
        cmocka_unit_test(zadd_conditions_see_earlier_pairs_of_the_same_command),
        cmocka_unit_test(incr_answers_the_sum_or_nil_when_its_condition_fails),
        cmocka_unit_test(a_bad_zadd_changes_nothing),
        cmocka_unit_test(an_unchanged_score_is_no_write),
        cmocka_unit_test(one_command_is_one_op),
        cmocka_unit_test(events_tell_what_happened_and_when_the_key_goes),
        cmocka_unit_test(ranks_count_from_either_end_with_and_without_score),
        cmocka_unit_test(ranges_of_scores_have_open_closed_and_infinite_ends),
        cmocka_unit_test(ranges_of_names_have_open_closed_and_endless_ends),
        cmocka_unit_test(ranges_of_ranks_count_from_both_ends),
        cmocka_unit_test(range_errors_have_the_texts_of_redis),
        cmocka_unit_test(zrangestore_replaces_whatever_was_there),
        cmocka_unit_test(pops_answer_pairs_flat_or_nested_as_the_protocol_has_it),
        cmocka_unit_test(pop_errors_have_the_texts_of_redis),
        cmocka_unit_test(a_blocking_pop_waits_for_all_its_keys_and_is_served_later),
        cmocka_unit_test(a_waiter_goes_on_waiting_when_its_key_becomes_another_type),
        cmocka_unit_test(set_algebra_weighs_aggregates_and_accepts_plain_sets),
        cmocka_unit_test(infinities_without_a_sum_count_as_zero),
        cmocka_unit_test(algebra_errors_have_the_texts_of_redis),
        cmocka_unit_test(random_members_are_distinct_or_repeat_by_the_sign_of_count),
        cmocka_unit_test(distinct_random_members_never_repeat),
        cmocka_unit_test(zscan_gives_every_member_with_its_score),
        cmocka_unit_test(a_large_set_works_as_a_small_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
