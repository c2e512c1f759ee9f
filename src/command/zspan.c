#include "command/zspan.h"

#include "base/num.h"
#include "store/zset.h"

static bool parse_score(struct slice arg, struct zspan_end *end)
{
    end->exclusive = arg.n > 0 && arg.p[0] == '(';
    if (end->exclusive) arg = slice_of(arg.p + 1, arg.n - 1);
    return num_parse_f64(arg, &end->score);
}

static bool parse_lex(struct slice arg, struct zspan_end *end)
{
    end->lowest = slice_eq(arg, SLICE("-"));
    end->highest = slice_eq(arg, SLICE("+"));
    if (end->lowest || end->highest) return true;
    if (arg.n == 0 || (arg.p[0] != '(' && arg.p[0] != '[')) return false;
    end->exclusive = arg.p[0] == '(';
    end->member = slice_of(arg.p + 1, arg.n - 1);
    return true;
}

bool zspan_parse(struct exec *x, enum zspan_by by, struct slice min, struct slice max, struct zspan_range *r)
{
    *r = (struct zspan_range){.by = by};
    switch (by) {
    case ZSPAN_RANK:
        return exec_arg_i64(x, min, &r->min.rank) && exec_arg_i64(x, max, &r->max.rank);
    case ZSPAN_SCORE:
        if (parse_score(min, &r->min) && parse_score(max, &r->max)) return true;
        reply_error(&x->out, "ERR min or max is not a float");
        return false;
    case ZSPAN_LEX:
        if (parse_lex(min, &r->min) && parse_lex(max, &r->max)) return true;
        reply_error(&x->out, "ERR min or max not valid string range item");
        return false;
    }
    return false;
}

/* A rank argument as a rank of n members: negative ones count from the end, and stay below 0 if they are before the first. */
static int64_t rank_from_start(int64_t rank, int64_t n)
{
    if (rank >= 0) return rank < n ? rank : n;
    return rank < -n ? -1 : rank + n;
}

static struct zspan find_ranks(int64_t n, const struct zspan_range *r)
{
    int64_t first = rank_from_start(r->min.rank, n), last = rank_from_start(r->max.rank, n);
    if (first < 0) first = 0;
    if (last >= n) last = n - 1;
    return (struct zspan){(uint64_t)first, (uint64_t)(last + 1)};
}

static uint64_t find_lex(const struct entry *e, const struct zspan_end *end, bool behind)
{
    if (end->lowest) return 0;
    if (end->highest) return zset_len(e);
    return zset_rank_of_lex(e, end->member, behind);
}

struct zspan zspan_find(const struct entry *e, const struct zspan_range *r)
{
    struct zspan s = {0};
    switch (r->by) {
    case ZSPAN_RANK:
        s = find_ranks((int64_t)zset_len(e), r);
        break;
    case ZSPAN_SCORE:
        s.start = zset_rank_of_score(e, r->min.score, r->min.exclusive);
        s.end = zset_rank_of_score(e, r->max.score, !r->max.exclusive);
        break;
    case ZSPAN_LEX:
        s.start = find_lex(e, &r->min, r->min.exclusive);
        s.end = find_lex(e, &r->max, !r->max.exclusive);
        break;
    }
    if (s.start > s.end) s.start = s.end;
    return s;
}
