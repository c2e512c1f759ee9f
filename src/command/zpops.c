/* Sorted sets: taking members from the ends, at once or waiting for them. */
#include "base/num.h"
#include "command/families.h"
#include "command/zkeys.h"
#include "command/zpicks.h"
#include "command/zreply.h"
#include "store/zset.h"

/* Takes up to `want` members from the low or the high end of the set at `at`; they stay in p. */
static void pop(struct exec *x, struct place *at, bool high, uint64_t want, struct zpicks *p)
{
    uint64_t n = zset_len(at->e);
    if (want > n) want = n;
    zpicks_add_span(p, at->e, high ? (struct zspan){n - want, n} : (struct zspan){0, want}, high);
    zpicks_remove(x, at, p, high ? "zpopmax" : "zpopmin");
}

/* ---- ZPOPMIN, ZPOPMAX */

static bool read_pop_count(struct exec *x, uint64_t *want)
{
    int64_t n;
    if (x->argc > 3) {
        exec_syntax(x);
        return false;
    }
    if (!num_parse_i64(x->argv[2], &n) || n < 0) {
        reply_error(&x->out, "ERR value is out of range, must be positive");
        return false;
    }
    *want = (uint64_t)n;
    return true;
}

static void pop_one_key(struct exec *x, bool high)
{
    struct place at;
    struct zpicks p;
    uint64_t want = 1;
    bool counted = x->argc > 2;
    if (counted && !read_pop_count(x, &want)) return;
    if (!exec_find_type(x, x->argv[1], TYPE_ZSET, &at)) return;
    zpicks_init(&p, 0);
    if (at.e) pop(x, &at, high, want, &p);
    if (counted || p.found.n == 0) zpicks_reply(x, &p, true);
    else zreply_pair(&x->out, p.found.items[0], p.scores[0]); /* without a count the pair is flat in RESP3 too */
    zpicks_fini(&p);
}

static void zpopmin(struct exec *x) { pop_one_key(x, false); }
static void zpopmax(struct exec *x) { pop_one_key(x, true); }

/* ---- the first of several keys */

/* The first key that holds a sorted set; at->e is NULL if none does. False if a key of another type came first (answered). A command that
 * waited goes on waiting when a key turns out to hold something else. */
static bool find_first(struct exec *x, uint32_t first, uint32_t n, struct place *at)
{
    at->e = NULL;
    for (uint32_t i = first; i < first + n; i++) {
        if (x->retry) {
            exec_peek(x, x->argv[i], at);
            if (at->e && entry_type(at->e) != TYPE_ZSET) at->e = NULL;
        } else if (!exec_find_type(x, x->argv[i], TYPE_ZSET, at)) {
            return false;
        }
        if (at->e) return true;
    }
    return true;
}

static void wait_or_nothing(struct exec *x, int64_t timeout_ms, uint32_t first, uint32_t n)
{
    if (exec_may_block(x)) exec_block(x, timeout_ms, first, n, 1);
    else reply_null_array(&x->out);
}

static void wait_and_pop(struct exec *x, bool high)
{
    int64_t timeout_ms;
    struct place at;
    uint32_t keys = x->argc - 2;
    if (!exec_timeout(x, x->argv[x->argc - 1], &timeout_ms) || !find_first(x, 1, keys, &at)) return;
    if (!at.e) {
        wait_or_nothing(x, timeout_ms, 1, keys);
        return;
    }
    struct zpicks p;
    zpicks_init(&p, 0);
    pop(x, &at, high, 1, &p);
    reply_array(&x->out, 3);
    reply_bulk(&x->out, at.key);
    reply_bulk(&x->out, p.found.items[0]);
    reply_double(&x->out, p.scores[0]);
    zpicks_fini(&p);
}

static void bzpopmin(struct exec *x) { wait_and_pop(x, false); }
static void bzpopmax(struct exec *x) { wait_and_pop(x, true); }

/* ---- ZMPOP, BZMPOP */

struct mpop {
    uint32_t first, keys;
    bool high;
    uint64_t want;
};

static bool read_positive(struct exec *x, struct slice arg, const char *error, uint64_t *v)
{
    int64_t n;
    if (!num_parse_i64(arg, &n) || n < 1) {
        reply_error(&x->out, error);
        return false;
    }
    *v = (uint64_t)n;
    return true;
}

/* numkeys key [key ...] MIN | MAX [COUNT count], from argv[at] on. */
static bool mpop_parse(struct exec *x, uint32_t at, struct mpop *m)
{
    uint64_t keys;
    if (!read_positive(x, x->argv[at], "ERR numkeys should be greater than 0", &keys)) return false;
    *m = (struct mpop){.first = at + 1, .want = 1};
    if (keys >= x->argc - m->first) {
        exec_syntax(x);
        return false;
    }
    m->keys = (uint32_t)keys;
    const struct slice *rest = x->argv + m->first + keys;
    uint32_t left = x->argc - m->first - m->keys;
    m->high = slice_is(rest[0], "max");
    bool ok = (m->high || slice_is(rest[0], "min")) && (left == 1 || (left == 3 && slice_is(rest[1], "count")));
    if (!ok) exec_syntax(x);
    return ok && (left == 1 || read_positive(x, rest[2], "ERR count should be greater than 0", &m->want));
}

static void mpop_reply(struct exec *x, const struct mpop *m, struct place *at)
{
    struct zpicks p;
    zpicks_init(&p, 0);
    pop(x, at, m->high, m->want, &p);
    reply_array(&x->out, 2);
    reply_bulk(&x->out, at->key);
    reply_array(&x->out, p.found.n);
    for (uint32_t i = 0; i < p.found.n; i++) zreply_pair(&x->out, p.found.items[i], p.scores[i]);
    zpicks_fini(&p);
}

static void zmpop(struct exec *x)
{
    struct mpop m;
    struct place at;
    if (!mpop_parse(x, 1, &m) || !find_first(x, m.first, m.keys, &at)) return;
    if (at.e) mpop_reply(x, &m, &at);
    else reply_null_array(&x->out);
}

static void bzmpop(struct exec *x)
{
    int64_t timeout_ms;
    struct mpop m;
    struct place at;
    if (!exec_timeout(x, x->argv[1], &timeout_ms) || !mpop_parse(x, 2, &m) || !find_first(x, m.first, m.keys, &at)) return;
    if (at.e) mpop_reply(x, &m, &at);
    else wait_or_nothing(x, timeout_ms, m.first, m.keys);
}

/* ---- the rows */

enum { POP = CMD_WRITE | CMD_FAST, WAIT = CMD_WRITE | CMD_BLOCKING | CMD_NOSCRIPT };

#define ROW(fn_, arity_, flags_, since_, args_, summary_, ...) \
    {.name = #fn_, .fn = fn_, .arity = (arity_), .class = CLASS_KEYED, .flags = (flags_), .group = "sorted-set", .since = (since_), \
     .args = (args_), .summary = (summary_), __VA_ARGS__}
#define KEYS(last_) .first_key = 1, .last_key = (last_), .key_step = 1

static const struct command rows[] = {
    ROW(zpopmin, -2, POP, "5.0.0", "key [count]", "Removes the members with the lowest scores and answers them.", KEYS(1)),
    ROW(zpopmax, -2, POP, "5.0.0", "key [count]", "Removes the members with the highest scores and answers them.", KEYS(1)),
    ROW(bzpopmin, -3, WAIT | CMD_FAST, "5.0.0", "key [key ...] timeout", "As ZPOPMIN on the first key that has members; waits for one.",
        KEYS(-2)),
    ROW(bzpopmax, -3, WAIT | CMD_FAST, "5.0.0", "key [key ...] timeout", "As ZPOPMAX on the first key that has members; waits for one.",
        KEYS(-2)),
    ROW(zmpop, -4, CMD_WRITE | CMD_MOVABLE_KEYS, "7.0.0", "numkeys key [key ...] <MIN | MAX> [COUNT count]",
        "Pops members from the first key that has any.", .keys = zkeys_second),
    ROW(bzmpop, -5, WAIT | CMD_MOVABLE_KEYS, "7.0.0", "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
        "As ZMPOP; waits until a key has members.", .keys = zkeys_third),
};

const struct command_family zpops_family = COMMAND_FAMILY(rows);
