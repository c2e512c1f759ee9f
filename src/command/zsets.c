/* Sorted sets: members and scores one by one, counting, removing by range, random members. */
#include <math.h>

#include "base/mem.h"
#include "base/num.h"
#include "command/families.h"
#include "command/inscan.h"
#include "command/sample.h"
#include "command/zpicks.h"
#include "command/zreply.h"
#include "command/zspan.h"
#include "store/zset.h"

/* ---- ZADD and ZINCRBY */

enum { ADD_NX = 1, ADD_XX = 2, ADD_GT = 4, ADD_LT = 8, ADD_CH = 16, ADD_INCR = 32 };

static const struct {
    const char *word;
    unsigned flag;
} add_words[] = {{"nx", ADD_NX}, {"xx", ADD_XX}, {"gt", ADD_GT}, {"lt", ADD_LT}, {"ch", ADD_CH}, {"incr", ADD_INCR}};

struct adding {
    unsigned flags;
    const struct slice *pairs; /* score, member, ... as they stand in argv */
    uint32_t n;                /* of pairs */
    uint32_t added, updated;
    bool done;                 /* INCR: the condition held */
    double score;              /* INCR: the sum */
};

static unsigned add_flag(struct slice arg)
{
    for (size_t i = 0; i < sizeof add_words / sizeof add_words[0]; i++)
        if (slice_is(arg, add_words[i].word)) return add_words[i].flag;
    return 0;
}

static bool add_read_flags(struct exec *x, struct adding *a)
{
    uint32_t at = 2;
    for (unsigned flag; at < x->argc && (flag = add_flag(x->argv[at])); at++) a->flags |= flag;
    uint32_t left = x->argc - at;
    a->pairs = x->argv + at;
    a->n = left / 2;
    const char *error = NULL;
    if (left == 0 || left % 2) error = reply_syntax;
    else if ((a->flags & ADD_NX) && (a->flags & ADD_XX))
        error = "ERR XX and NX options at the same time are not compatible";
    else if (__builtin_popcount(a->flags & (ADD_GT | ADD_LT | ADD_NX)) > 1)
        error = "ERR GT, LT, and/or NX options at the same time are not compatible";
    else if ((a->flags & ADD_INCR) && a->n > 1)
        error = "ERR INCR option supports a single increment-element pair";
    if (error) reply_error(&x->out, error);
    return !error;
}

enum verdict { REFUSED, SAME, ADDED, UPDATED, NOT_A_NUMBER };

/* What becomes of a pair, given the member's present score (NULL: not there); *score becomes the sum if it is an increment. */
static enum verdict add_decide(unsigned flags, const double *now, double *score)
{
    if (!now) return flags & ADD_XX ? REFUSED : ADDED;
    if (flags & ADD_NX) return REFUSED;
    if (flags & ADD_INCR) *score += *now;
    if (isnan(*score)) return NOT_A_NUMBER;
    if ((flags & ADD_LT) && *score >= *now) return REFUSED;
    if ((flags & ADD_GT) && *score <= *now) return REFUSED;
    return *score == *now ? SAME : UPDATED;
}

static void add_count(struct adding *a, enum verdict v, double score)
{
    a->added += v == ADDED;
    a->updated += v == UPDATED;
    a->done = v != REFUSED;
    a->score = score;
}

static const char *add_event(const struct adding *a) { return a->flags & ADD_INCR ? "zincr" : "zadd"; }

static bool add_one(struct exec *x, struct adding *a, struct place *at, double score)
{
    struct slice member = a->pairs[1];
    double now;
    bool there = at->e && zset_score(at->e, member, &now);
    enum verdict v = add_decide(a->flags, there ? &now : NULL, &score);
    if (v == NOT_A_NUMBER) {
        reply_error(&x->out, "ERR resulting score is not a number (NaN)");
        return false;
    }
    add_count(a, v, score);
    if (v != ADDED && v != UPDATED) return true;
    struct op op = {.kind = OP_ZSET_ADD, .items = &member, .scores = &score, .n_items = 1};
    exec_apply(x, &op, at);
    exec_notify(x, NOTIFY_ZSET, add_event(a), at->key);
    return true;
}

/* A member may stand in the arguments more than once: its present score is then the one an earlier pair gave it. */
static void add_many(struct exec *x, struct adding *a, struct place *at, const double *scores)
{
    struct zpicks changed;
    zpicks_init(&changed, rng_u64(x->rng));
    for (uint32_t i = 0; i < a->n; i++) {
        struct slice member = a->pairs[2 * i + 1];
        double stored, score = scores[i];
        const double *now = zpicks_find_score(&changed, member);
        if (!now && at->e && zset_score(at->e, member, &stored)) now = &stored;
        enum verdict v = add_decide(a->flags, now, &score);
        add_count(a, v, score);
        bool is_new;
        if (v == ADDED || v == UPDATED) *zpicks_put_score(&changed, member, false, &is_new) = score;
    }
    zpicks_apply(x, at, &changed, add_event(a));
    zpicks_fini(&changed);
}

/* All scores are read before anything changes. */
static bool add_all(struct exec *x, struct adding *a, struct place *at)
{
    double one, *scores = a->n > 1 ? mem_alloc(a->n * sizeof *scores) : &one;
    bool ok = true;
    for (uint32_t i = 0; ok && i < a->n; i++) ok = exec_arg_f64(x, a->pairs[2 * i], &scores[i]);
    ok = ok && exec_find_type(x, x->argv[1], TYPE_ZSET, at);
    if (ok && a->n > 1) add_many(x, a, at, scores);
    else if (ok) ok = add_one(x, a, at, one);
    if (a->n > 1) mem_free(scores);
    return ok;
}

static void zadd(struct exec *x)
{
    struct adding a = {0};
    struct place at;
    if (!add_read_flags(x, &a) || !add_all(x, &a, &at)) return;
    if (!(a.flags & ADD_INCR)) reply_int(&x->out, a.added + (a.flags & ADD_CH ? a.updated : 0));
    else if (a.done) reply_double(&x->out, a.score);
    else reply_null(&x->out);
}

static void zincrby(struct exec *x)
{
    struct adding a = {.flags = ADD_INCR, .pairs = x->argv + 2, .n = 1};
    struct place at;
    if (add_all(x, &a, &at)) reply_double(&x->out, a.score);
}

/* ---- removing */

static bool has_any(const struct entry *e, const struct slice *members, uint32_t n)
{
    double score;
    for (uint32_t i = 0; i < n; i++)
        if (zset_score(e, members[i], &score)) return true;
    return false;
}

static void zrem(struct exec *x)
{
    struct place at;
    struct op op = {.kind = OP_ZSET_REM, .items = x->argv + 2, .n_items = x->argc - 2};
    if (!exec_find_type(x, x->argv[1], TYPE_ZSET, &at)) return;
    if (!at.e || !has_any(at.e, op.items, op.n_items)) {
        reply_int(&x->out, 0);
        return;
    }
    reply_int(&x->out, exec_apply(x, &op, &at));
    exec_notify(x, NOTIFY_ZSET, "zrem", at.key);
    if (!at.e) exec_notify(x, NOTIFY_GENERIC, "del", at.key);
}

static void remove_range(struct exec *x, enum zspan_by by, const char *event)
{
    struct zspan_range range;
    struct place at;
    struct zpicks gone;
    if (!zspan_parse(x, by, x->argv[2], x->argv[3], &range)) return;
    if (!exec_find_type(x, x->argv[1], TYPE_ZSET, &at)) return;
    zpicks_init(&gone, 0);
    if (at.e) zpicks_add_span(&gone, at.e, zspan_find(at.e, &range), false);
    zpicks_remove(x, &at, &gone, event);
    reply_int(&x->out, gone.found.n);
    zpicks_fini(&gone);
}

static void zremrangebyrank(struct exec *x) { remove_range(x, ZSPAN_RANK, "zremrangebyrank"); }
static void zremrangebyscore(struct exec *x) { remove_range(x, ZSPAN_SCORE, "zremrangebyscore"); }
static void zremrangebylex(struct exec *x) { remove_range(x, ZSPAN_LEX, "zremrangebylex"); }

/* ---- asking */

static void zcard(struct exec *x)
{
    struct place at;
    if (exec_find_type(x, x->argv[1], TYPE_ZSET, &at)) reply_int(&x->out, at.e ? (int64_t)zset_len(at.e) : 0);
}

static void reply_score_of(struct exec *x, const struct entry *e, struct slice member)
{
    double score;
    if (e && zset_score(e, member, &score)) reply_double(&x->out, score);
    else reply_null(&x->out);
}

static void zscore(struct exec *x)
{
    struct place at;
    if (exec_find_type(x, x->argv[1], TYPE_ZSET, &at)) reply_score_of(x, at.e, x->argv[2]);
}

static void zmscore(struct exec *x)
{
    struct place at;
    if (!exec_find_type(x, x->argv[1], TYPE_ZSET, &at)) return;
    reply_array(&x->out, x->argc - 2);
    for (uint32_t i = 2; i < x->argc; i++) reply_score_of(x, at.e, x->argv[i]);
}

static void rank(struct exec *x, bool back)
{
    struct place at;
    uint64_t r;
    double score;
    bool with_score = x->argc > 3;
    if (x->argc > 4) {
        exec_wrong_arity(x);
        return;
    }
    if (with_score && !slice_is(x->argv[3], "withscore")) {
        exec_syntax(x);
        return;
    }
    if (!exec_find_type(x, x->argv[1], TYPE_ZSET, &at)) return;
    if (!at.e || !zset_rank(at.e, x->argv[2], &r, &score)) {
        if (with_score) reply_null_array(&x->out);
        else reply_null(&x->out);
        return;
    }
    if (with_score) reply_array(&x->out, 2);
    reply_int(&x->out, (int64_t)(back ? zset_len(at.e) - 1 - r : r));
    if (with_score) reply_double(&x->out, score);
}

static void zrank(struct exec *x) { rank(x, false); }
static void zrevrank(struct exec *x) { rank(x, true); }

static void count(struct exec *x, enum zspan_by by)
{
    struct zspan_range range;
    struct place at;
    if (!zspan_parse(x, by, x->argv[2], x->argv[3], &range)) return;
    if (!exec_find_type(x, x->argv[1], TYPE_ZSET, &at)) return;
    reply_int(&x->out, at.e ? (int64_t)zspan_len(zspan_find(at.e, &range)) : 0);
}

static void zcount(struct exec *x) { count(x, ZSPAN_SCORE); }
static void zlexcount(struct exec *x) { count(x, ZSPAN_LEX); }

/* ---- random members */

static void reply_at_rank(struct exec *x, const struct entry *e, uint64_t at, bool with_scores)
{
    struct zset_iter it;
    struct slice member;
    double score;
    zset_iter_init(&it, e, at, false);
    if (zset_iter_next(&it, &member, &score)) zreply_item(&x->out, member, score, with_scores);
}

/* Distinct members: a walk that takes each with the right chance, or, when few are wanted of many, draws of ranks not drawn before. */
static void reply_distinct(struct exec *x, const struct entry *e, uint64_t want, bool with_scores)
{
    uint64_t n = zset_len(e);
    if (want > n) want = n;
    zreply_list(&x->out, want, with_scores);
    if (sample_by_drawing(want, n)) {
        struct sample_seen seen;
        sample_seen_init(&seen, want);
        while (want > 0) {
            uint64_t at = rng_below(x->rng, n);
            if (!sample_seen_add(&seen, (const void *)(uintptr_t)(at + 1))) continue; /* 0 means an empty slot there */
            reply_at_rank(x, e, at, with_scores);
            want--;
        }
        sample_seen_fini(&seen);
        return;
    }
    struct zset_iter it;
    struct slice member;
    double score;
    zset_iter_init(&it, e, 0, false);
    while (want > 0 && zset_iter_next(&it, &member, &score))
        if (sample_take(x->rng, &want, &n)) zreply_item(&x->out, member, score, with_scores);
}

static bool read_random_args(struct exec *x, int64_t *want, bool *with_scores)
{
    if (!exec_arg_i64(x, x->argv[2], want)) return false;
    if (*want == INT64_MIN) {
        reply_errorf(&x->out, "ERR value is out of range, value must between %lld and %lld", (long long)-INT64_MAX, (long long)INT64_MAX);
        return false;
    }
    if (x->argc > 4 || (x->argc == 4 && !slice_is(x->argv[3], "withscores"))) {
        exec_syntax(x);
        return false;
    }
    *with_scores = x->argc == 4;
    if (*want < -SAMPLE_REPEAT_MAX || (*with_scores && *want > INT64_MAX / 2)) {
        reply_error(&x->out, "ERR value is out of range");
        return false;
    }
    return true;
}

static void zrandmember(struct exec *x)
{
    struct place at;
    int64_t want = 1;
    bool counted = x->argc > 2, with_scores = false;
    if (counted && !read_random_args(x, &want, &with_scores)) return;
    if (!exec_find_type(x, x->argv[1], TYPE_ZSET, &at)) return;
    if (!at.e) {
        if (counted) reply_array(&x->out, 0);
        else reply_null(&x->out);
    } else if (!counted) {
        reply_at_rank(x, at.e, rng_below(x->rng, zset_len(at.e)), false);
    } else if (want >= 0) {
        reply_distinct(x, at.e, (uint64_t)want, with_scores);
    } else {
        zreply_list(&x->out, (size_t)-want, with_scores);
        for (; want < 0; want++) reply_at_rank(x, at.e, rng_below(x->rng, zset_len(at.e)), with_scores);
    }
}

static void scan_visit(void *ctx, struct slice member, double score)
{
    struct inscan *s = ctx;
    char text[NUM_F64_MAX_CHARS];
    if (!inscan_wants(s, member)) return;
    inscan_add(s, member);
    if (!s->names_only) inscan_add(s, slice_of(text, num_format_f64(text, score)));
}

static void zscan(struct exec *x)
{
    struct inscan s;
    if (!inscan_begin(x, &s, TYPE_ZSET)) return;
    zset_scan(s.e, &s.cursor, s.want, scan_visit, &s);
    inscan_end(x, &s);
}

/* ---- the rows */

enum {
    READ = CMD_READONLY,
    READ_FAST = CMD_READONLY | CMD_FAST,
    WRITE_MORE = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
    WRITE_LESS = CMD_WRITE,
};

#define ROW(fn_, arity_, flags_, since_, args_, summary_) \
    {.name = #fn_, .fn = fn_, .arity = (arity_), .class = CLASS_KEYED, .flags = (flags_), .first_key = 1, .last_key = 1, .key_step = 1, \
     .group = "sorted-set", .since = (since_), .args = (args_), .summary = (summary_)}

static const struct command rows[] = {
    ROW(zadd, -4, WRITE_MORE, "1.2.0", "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
        "Adds members with scores, or changes the scores of members."),
    ROW(zincrby, 4, WRITE_MORE, "1.2.0", "key increment member", "Adds to the score of a member, from 0 if it is new."),
    ROW(zrem, -3, WRITE_LESS | CMD_FAST, "1.2.0", "key member [member ...]", "Removes members; the set goes with its last one."),
    ROW(zremrangebyrank, 4, WRITE_LESS, "2.0.0", "key start stop", "Removes the members in a range of ranks."),
    ROW(zremrangebyscore, 4, WRITE_LESS, "1.2.0", "key min max", "Removes the members in a range of scores."),
    ROW(zremrangebylex, 4, WRITE_LESS, "2.8.9", "key min max", "Removes the members in a lexicographic range."),
    ROW(zcard, 2, READ_FAST, "1.2.0", "key", "The number of members."),
    ROW(zscore, 3, READ_FAST, "1.2.0", "key member", "The score of a member."),
    ROW(zmscore, -3, READ_FAST, "6.2.0", "key member [member ...]", "The scores of several members."),
    ROW(zrank, -3, READ_FAST, "2.0.0", "key member [WITHSCORE]", "The rank of a member, from 0 at the lowest score."),
    ROW(zrevrank, -3, READ_FAST, "2.0.0", "key member [WITHSCORE]", "The rank of a member, from 0 at the highest score."),
    ROW(zcount, 4, READ_FAST, "2.0.0", "key min max", "The number of members in a range of scores."),
    ROW(zlexcount, 4, READ_FAST, "2.8.9", "key min max", "The number of members in a lexicographic range."),
    ROW(zrandmember, -2, READ, "6.2.0", "key [count [WITHSCORES]]", "Random members: distinct, or with repetition if count is negative."),
    ROW(zscan, -3, READ, "2.8.0", "key cursor [MATCH pattern] [COUNT count] [NOSCORES]", "Walks members and scores in steps."),
};

const struct command_family zsets_family = COMMAND_FAMILY(rows);
