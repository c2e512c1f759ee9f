/* Sorted sets: ZRANGE in all its forms. The older commands are fixed choices of its options. */
#include "command/families.h"
#include "command/zpicks.h"
#include "command/zreply.h"
#include "command/zspan.h"
#include "store/zset.h"

struct query {
    bool fixed;    /* range kind and direction are the command's: BYSCORE, BYLEX and REV are not its options */
    bool chosen;   /* BYSCORE or BYLEX was given */
    bool store;    /* argv[1] is the destination, the source follows */
    bool back, with_scores;
    enum zspan_by by;
    int64_t offset, limit; /* limit < 0: none */
};

/* The option at argv[*i]; *i is left at its last argument. False and answered if it is none. */
static bool read_option(struct exec *x, struct query *q, uint32_t *i)
{
    struct slice word = x->argv[*i];
    if (!q->store && slice_is(word, "withscores")) {
        q->with_scores = true;
    } else if (slice_is(word, "limit") && *i + 2 < x->argc) {
        if (!exec_arg_i64(x, x->argv[*i + 1], &q->offset) || !exec_arg_i64(x, x->argv[*i + 2], &q->limit)) return false;
        *i += 2;
    } else if (!q->fixed && !q->back && slice_is(word, "rev")) {
        q->back = true;
    } else if (!q->fixed && !q->chosen && (slice_is(word, "byscore") || slice_is(word, "bylex"))) {
        q->by = slice_is(word, "byscore") ? ZSPAN_SCORE : ZSPAN_LEX;
        q->chosen = true;
    } else {
        exec_syntax(x);
        return false;
    }
    return true;
}

static bool read_options(struct exec *x, struct query *q, uint32_t from)
{
    for (uint32_t i = from; i < x->argc; i++)
        if (!read_option(x, q, &i)) return false;
    const char *error = NULL;
    if (q->limit != -1 && q->by == ZSPAN_RANK)
        error = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
    else if (q->with_scores && q->by == ZSPAN_LEX)
        error = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
    if (error) reply_error(&x->out, error);
    return !error;
}

/* What LIMIT leaves of a span, counted from the end where the walk begins. A negative offset leaves nothing, as in Redis. */
static struct zspan limited(struct zspan s, const struct query *q)
{
    uint64_t n = zspan_len(s), skip = q->offset < 0 || (uint64_t)q->offset > n ? n : (uint64_t)q->offset;
    uint64_t take = q->limit < 0 || (uint64_t)q->limit > n - skip ? n - skip : (uint64_t)q->limit;
    if (q->back) return (struct zspan){s.end - skip - take, s.end - skip};
    return (struct zspan){s.start + skip, s.start + skip + take};
}

static struct zspan select_span(const struct entry *e, const struct query *q, const struct zspan_range *range)
{
    struct zspan s = zspan_find(e, range);
    if (q->by == ZSPAN_RANK) return q->back ? zspan_mirror(s, zset_len(e)) : s;
    return limited(s, q);
}

static void reply_span(struct exec *x, const struct entry *e, struct zspan s, const struct query *q)
{
    struct zset_iter it;
    struct slice member;
    double score;
    uint64_t left = zspan_len(s);
    zreply_list(&x->out, left, q->with_scores);
    if (left == 0) return;
    zset_iter_init(&it, e, q->back ? s.end - 1 : s.start, q->back);
    while (left-- > 0 && zset_iter_next(&it, &member, &score)) zreply_item(&x->out, member, score, q->with_scores);
}

static void store_span(struct exec *x, const struct entry *e, struct zspan s)
{
    struct zpicks p;
    zpicks_init(&p, 0);
    if (e) zpicks_add_span(&p, e, s, false);
    zpicks_store(x, x->argv[1], &p, "zrangestore");
    zpicks_fini(&p);
}

static void range(struct exec *x, struct query q)
{
    uint32_t key = q.store ? 2 : 1;
    struct zspan_range r;
    struct place at;
    q.limit = -1;
    if (!read_options(x, &q, key + 3)) return;
    /* Backwards, scores and members are given from high to low; ranks are counted from the other end instead. */
    bool swapped = q.back && q.by != ZSPAN_RANK;
    if (!zspan_parse(x, q.by, x->argv[key + 1 + swapped], x->argv[key + 2 - swapped], &r)) return;
    if (!exec_find_type(x, x->argv[key], TYPE_ZSET, &at)) return;
    struct zspan s = at.e ? select_span(at.e, &q, &r) : (struct zspan){0, 0};
    if (q.store) store_span(x, at.e, s);
    else reply_span(x, at.e, s, &q);
}

static void zrange(struct exec *x) { range(x, (struct query){0}); }
static void zrangestore(struct exec *x) { range(x, (struct query){.store = true}); }
static void zrevrange(struct exec *x) { range(x, (struct query){.fixed = true, .back = true}); }
static void zrangebyscore(struct exec *x) { range(x, (struct query){.fixed = true, .by = ZSPAN_SCORE}); }
static void zrevrangebyscore(struct exec *x) { range(x, (struct query){.fixed = true, .by = ZSPAN_SCORE, .back = true}); }
static void zrangebylex(struct exec *x) { range(x, (struct query){.fixed = true, .by = ZSPAN_LEX}); }
static void zrevrangebylex(struct exec *x) { range(x, (struct query){.fixed = true, .by = ZSPAN_LEX, .back = true}); }

/* ---- the rows */

#define ROW(fn_, arity_, flags_, last_, since_, args_, summary_) \
    {.name = #fn_, .fn = fn_, .arity = (arity_), .class = CLASS_KEYED, .flags = (flags_), .first_key = 1, .last_key = (last_), .key_step = 1, \
     .group = "sorted-set", .since = (since_), .args = (args_), .summary = (summary_)}

static const struct command rows[] = {
    ROW(zrange, -4, CMD_READONLY, 1, "1.2.0", "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
        "The members in a range of ranks, scores or names."),
    ROW(zrangestore, -5, CMD_WRITE | CMD_DENYOOM, 2, "6.2.0", "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
        "Stores what ZRANGE answers as a sorted set."),
    ROW(zrevrange, -4, CMD_READONLY, 1, "1.2.0", "key start stop [WITHSCORES]", "The members in a range of ranks, from the highest score down."),
    ROW(zrangebyscore, -4, CMD_READONLY, 1, "1.0.5", "key min max [WITHSCORES] [LIMIT offset count]", "The members in a range of scores."),
    ROW(zrevrangebyscore, -4, CMD_READONLY, 1, "2.2.0", "key max min [WITHSCORES] [LIMIT offset count]",
        "The members in a range of scores, from the highest down."),
    ROW(zrangebylex, -4, CMD_READONLY, 1, "2.8.9", "key min max [LIMIT offset count]", "The members in a lexicographic range."),
    ROW(zrevrangebylex, -4, CMD_READONLY, 1, "2.8.9", "key max min [LIMIT offset count]",
        "The members in a lexicographic range, from the last to the first."),
};

const struct command_family zranges_family = COMMAND_FAMILY(rows);
