/* Sorted sets: union, intersection and difference. Plain sets take part as sorted sets in which every score is 1. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "command/families.h"
#include "command/zkeys.h"
#include "command/zpicks.h"
#include "store/set.h"
#include "store/zset.h"

/* ---- sources */

struct source {
    const struct entry *e; /* NULL: no such key */
    bool is_set;
    uint64_t n;
    double weight;
};

static bool source_score(const struct source *s, struct slice member, double *score)
{
    *score = 1;
    if (!s->e) return false;
    return s->is_set ? set_has(s->e, member) : zset_score(s->e, member, score);
}

struct source_iter {
    const struct source *s;
    union {
        struct set_iter set;
        struct zset_iter zset;
    };
};

static void source_iter_init(struct source_iter *it, const struct source *s)
{
    it->s = s;
    if (!s->e) return;
    if (s->is_set) set_iter_init(&it->set, s->e);
    else zset_iter_init(&it->zset, s->e, 0, false);
}

/* A member is good until the next call. */
static bool source_iter_next(struct source_iter *it, struct slice *member, double *score)
{
    *score = 1;
    if (!it->s->e) return false;
    return it->s->is_set ? set_iter_next(&it->set, member) : zset_iter_next(&it->zset, member, score);
}

static int compare_sources(const void *a, const void *b)
{
    const struct source *s = a, *t = b;
    return s->n < t->n ? -1 : s->n > t->n;
}

/* ---- the calculation */

enum algebra { UNION, INTER, DIFF };
enum aggregate { SUM, MIN, MAX };

struct calc {
    enum algebra what;
    bool store, card;
    bool with_scores;
    enum aggregate aggregate;
    uint64_t limit; /* ZINTERCARD: 0 for none */
    struct source *sources;
    uint32_t n;
    uint32_t next_arg; /* behind the keys */
};

/* Where arithmetic on infinities has no result, Redis says 0. */
static double number_or_zero(double v) { return isnan(v) ? 0 : v; }

static double weigh(const struct source *s, double score) { return number_or_zero(s->weight * score); }

static double combine(enum aggregate how, double a, double b)
{
    switch (how) {
    case SUM: return number_or_zero(a + b);
    case MIN: return b < a ? b : a;
    case MAX: return b > a ? b : a;
    }
    return a;
}

static void unite(const struct calc *c, struct zpicks *out)
{
    struct source_iter it;
    struct slice member;
    double score;
    for (uint32_t i = 0; i < c->n; i++) {
        source_iter_init(&it, &c->sources[i]);
        while (source_iter_next(&it, &member, &score)) {
            bool is_new;
            double *sum = zpicks_put_score(out, member, true, &is_new), more = weigh(&c->sources[i], score);
            *sum = is_new ? more : combine(c->aggregate, *sum, more);
        }
    }
}

/* The member's combined score, if all sources from the second on have it. */
static bool in_all(const struct calc *c, struct slice member, double *score)
{
    double other;
    *score = weigh(&c->sources[0], *score);
    for (uint32_t i = 1; i < c->n; i++) {
        if (!source_score(&c->sources[i], member, &other)) return false;
        /* Not weigh(): in an intersection a product without a result makes the whole sum 0, as in Redis. */
        *score = combine(c->aggregate, *score, c->sources[i].weight * other);
    }
    return true;
}

static bool in_no_other(const struct calc *c, struct slice member)
{
    double other;
    for (uint32_t i = 1; i < c->n; i++)
        if (source_score(&c->sources[i], member, &other)) return false;
    return true;
}

/* Intersection and difference ask the other sources about each member of the first. */
static void sift(const struct calc *c, struct zpicks *out)
{
    struct source_iter it;
    struct slice member;
    double score;
    source_iter_init(&it, &c->sources[0]);
    while (source_iter_next(&it, &member, &score)) {
        bool in = c->what == INTER ? in_all(c, member, &score) : in_no_other(c, member);
        if (in) zpicks_add(out, member, score, true);
        if (c->limit && out->found.n == c->limit) return;
    }
}

static void calculate(const struct calc *c, struct zpicks *out)
{
    /* Smallest first: an intersection asks fewest questions then, and sums come out as in Redis, which adds in this order too. */
    if (c->what != DIFF) qsort(c->sources, c->n, sizeof *c->sources, compare_sources);
    if (c->what == UNION) unite(c, out);
    else sift(c, out);
}

/* ---- arguments */

static bool read_keys(struct exec *x, struct calc *c)
{
    uint32_t at = c->store ? 2 : 1;
    int64_t n;
    if (!exec_arg_i64(x, x->argv[at], &n)) return false;
    if (n < 1) {
        reply_errorf(&x->out, "ERR at least 1 input key is needed for '%s' command", x->cmd->name);
        return false;
    }
    if (n > (int64_t)(x->argc - at - 1)) {
        exec_syntax(x);
        return false;
    }
    c->n = (uint32_t)n;
    c->next_arg = at + 1 + c->n;
    c->sources = mem_zalloc(c->n * sizeof *c->sources);
    return true;
}

/* Finding a key may delete another that has expired, but moves no living entry. */
static bool find_sources(struct exec *x, struct calc *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        struct source *s = &c->sources[i];
        struct place at;
        exec_find(x, x->argv[c->next_arg - c->n + i], &at);
        s->weight = 1;
        s->e = at.e;
        if (!at.e) continue;
        s->is_set = entry_type(at.e) == TYPE_SET;
        if (!s->is_set && entry_type(at.e) != TYPE_ZSET) {
            reply_error(&x->out, reply_wrongtype);
            return false;
        }
        s->n = s->is_set ? set_len(at.e) : zset_len(at.e);
    }
    return true;
}

static bool read_weights(struct exec *x, struct calc *c, uint32_t from)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (num_parse_f64(x->argv[from + i], &c->sources[i].weight)) continue;
        reply_error(&x->out, "ERR weight value is not a float");
        return false;
    }
    return true;
}

static bool read_aggregate(struct exec *x, struct calc *c, struct slice word)
{
    if (slice_is(word, "sum")) c->aggregate = SUM;
    else if (slice_is(word, "min")) c->aggregate = MIN;
    else if (slice_is(word, "max")) c->aggregate = MAX;
    else {
        exec_syntax(x);
        return false;
    }
    return true;
}

static bool read_limit(struct exec *x, struct calc *c, struct slice arg)
{
    int64_t n;
    if (!num_parse_i64(arg, &n) || n < 0) {
        reply_error(&x->out, "ERR LIMIT can't be negative");
        return false;
    }
    c->limit = (uint64_t)n;
    return true;
}

static bool read_options(struct exec *x, struct calc *c)
{
    for (uint32_t i = c->next_arg; i < x->argc; i++) {
        struct slice word = x->argv[i];
        uint32_t left = x->argc - i - 1;
        if (c->what != DIFF && !c->card && left >= c->n && slice_is(word, "weights")) {
            if (!read_weights(x, c, i + 1)) return false;
            i += c->n;
        } else if (c->what != DIFF && !c->card && left >= 1 && slice_is(word, "aggregate")) {
            if (!read_aggregate(x, c, x->argv[++i])) return false;
        } else if (!c->store && !c->card && slice_is(word, "withscores")) {
            c->with_scores = true;
        } else if (c->card && left >= 1 && slice_is(word, "limit")) {
            if (!read_limit(x, c, x->argv[++i])) return false;
        } else {
            exec_syntax(x);
            return false;
        }
    }
    return true;
}

static void run(struct exec *x, struct calc c, const char *event)
{
    if (!read_keys(x, &c)) return;
    if (find_sources(x, &c) && read_options(x, &c)) {
        struct zpicks out;
        zpicks_init(&out, rng_u64(x->rng));
        calculate(&c, &out);
        if (c.card) {
            reply_int(&x->out, out.found.n);
        } else if (c.store) {
            zpicks_store(x, x->argv[1], &out, event);
        } else {
            zpicks_sort(&out);
            zpicks_reply(x, &out, c.with_scores);
        }
        zpicks_fini(&out);
    }
    mem_free(c.sources);
}

static void zunion(struct exec *x) { run(x, (struct calc){.what = UNION}, NULL); }
static void zinter(struct exec *x) { run(x, (struct calc){.what = INTER}, NULL); }
static void zdiff(struct exec *x) { run(x, (struct calc){.what = DIFF}, NULL); }
static void zintercard(struct exec *x) { run(x, (struct calc){.what = INTER, .card = true}, NULL); }
static void zunionstore(struct exec *x) { run(x, (struct calc){.what = UNION, .store = true}, "zunionstore"); }
static void zinterstore(struct exec *x) { run(x, (struct calc){.what = INTER, .store = true}, "zinterstore"); }
static void zdiffstore(struct exec *x) { run(x, (struct calc){.what = DIFF, .store = true}, "zdiffstore"); }

/* ---- the rows */

enum { READ = CMD_READONLY | CMD_MOVABLE_KEYS, STORE = CMD_WRITE | CMD_DENYOOM | CMD_MOVABLE_KEYS };

#define ROW(fn_, arity_, flags_, keys_, since_, args_, summary_) \
    {.name = #fn_, .fn = fn_, .arity = (arity_), .class = CLASS_KEYED, .flags = (flags_), .keys = (keys_), .group = "sorted-set", \
     .first_key = ((flags_) & CMD_WRITE) != 0, .last_key = ((flags_) & CMD_WRITE) != 0, .key_step = ((flags_) & CMD_WRITE) != 0, \
     .since = (since_), .args = (args_), .summary = (summary_)}
#define MIXING "[WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]"

static const struct command rows[] = {
    ROW(zunion, -3, READ, zkeys_second, "6.2.0", "numkeys key [key ...] " MIXING " [WITHSCORES]", "The members that any of the sets has."),
    ROW(zinter, -3, READ, zkeys_second, "6.2.0", "numkeys key [key ...] " MIXING " [WITHSCORES]", "The members that all the sets have."),
    ROW(zdiff, -3, READ, zkeys_second, "6.2.0", "numkeys key [key ...] [WITHSCORES]", "The members of the first set that no other has."),
    ROW(zintercard, -3, READ, zkeys_second, "7.0.0", "numkeys key [key ...] [LIMIT limit]",
        "The number of members that all the sets have, counted up to a limit."),
    ROW(zunionstore, -4, STORE, zkeys_store, "2.0.0", "destination numkeys key [key ...] " MIXING, "Stores what ZUNION answers."),
    ROW(zinterstore, -4, STORE, zkeys_store, "2.0.0", "destination numkeys key [key ...] " MIXING, "Stores what ZINTER answers."),
    ROW(zdiffstore, -4, STORE, zkeys_store, "6.2.0", "destination numkeys key [key ...]", "Stores what ZDIFF answers."),
};

const struct command_family zstores_family = COMMAND_FAMILY(rows);
