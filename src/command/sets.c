/* Set commands on one set (and SMOVE on two). Set algebra is in setops.c. */
#include "base/num.h"
#include "command/families.h"
#include "command/gather.h"
#include "command/inscan.h"
#include "command/sample.h"
#include "command/setops.h"
#include "store/set.h"

/* ---- adding and removing */

static int64_t apply_items(struct exec *x, enum op_kind kind, struct place *at, const struct slice *items, uint32_t n)
{
    struct op op = {.kind = kind, .items = items, .n_items = n};
    return exec_apply(x, &op, at);
}

/* A write that would change nothing makes no op: nobody who watches the key is disturbed, nothing is logged. */
static bool any_member(const struct exec *x, const struct entry *e, bool there)
{
    for (uint32_t i = 2; i < x->argc; i++)
        if (set_has(e, x->argv[i]) == there) return true;
    return false;
}

static void sadd(struct exec *x)
{
    struct place at;
    int64_t added = 0;
    if (!exec_find_type(x, x->argv[1], TYPE_SET, &at)) return;
    if (!at.e || any_member(x, at.e, false)) {
        added = apply_items(x, OP_SET_ADD, &at, x->argv + 2, x->argc - 2);
        exec_notify(x, NOTIFY_SET, "sadd", x->argv[1]);
    }
    reply_int(&x->out, added);
}

/* Members leave a set; its end is told too. */
static int64_t remove_members(struct exec *x, struct place *at, const struct slice *items, uint32_t n, const char *event)
{
    struct slice key = x->argv[1];
    int64_t removed = apply_items(x, OP_SET_REM, at, items, n);
    exec_notify(x, NOTIFY_SET, event, key);
    if (!at->e) exec_notify(x, NOTIFY_GENERIC, "del", key);
    return removed;
}

static void srem(struct exec *x)
{
    struct place at;
    int64_t removed = 0;
    if (!exec_find_type(x, x->argv[1], TYPE_SET, &at)) return;
    if (at.e && any_member(x, at.e, true)) removed = remove_members(x, &at, x->argv + 2, x->argc - 2, "srem");
    reply_int(&x->out, removed);
}

static void move_member(struct exec *x, struct place *from, struct slice member)
{
    struct place to;
    remove_members(x, from, &member, 1, "srem");
    exec_peek(x, x->argv[2], &to);
    if (to.e && set_has(to.e, member)) return;
    apply_items(x, OP_SET_ADD, &to, &member, 1);
    exec_notify(x, NOTIFY_SET, "sadd", x->argv[2]);
}

static void smove(struct exec *x)
{
    struct place from, to;
    struct slice member = x->argv[3];
    exec_find(x, x->argv[2], &to);
    bool to_is_set = !to.e || entry_type(to.e) == TYPE_SET;
    exec_find(x, x->argv[1], &from);
    if (!from.e) {
        reply_int(&x->out, 0); /* even if the destination is no set */
        return;
    }
    if (!to_is_set || entry_type(from.e) != TYPE_SET) {
        reply_error(&x->out, reply_wrongtype);
        return;
    }
    bool there = set_has(from.e, member);
    if (there && !slice_eq(x->argv[1], x->argv[2])) move_member(x, &from, member);
    reply_int(&x->out, there);
}

/* ---- reading */

static void scard(struct exec *x)
{
    struct place at;
    if (exec_find_type(x, x->argv[1], TYPE_SET, &at)) reply_int(&x->out, at.e ? (int64_t)set_len(at.e) : 0);
}

static void sismember(struct exec *x)
{
    struct place at;
    if (exec_find_type(x, x->argv[1], TYPE_SET, &at)) reply_int(&x->out, at.e && set_has(at.e, x->argv[2]));
}

static void smismember(struct exec *x)
{
    struct place at;
    if (!exec_find_type(x, x->argv[1], TYPE_SET, &at)) return;
    reply_array(&x->out, x->argc - 2);
    for (uint32_t i = 2; i < x->argc; i++) reply_int(&x->out, at.e && set_has(at.e, x->argv[i]));
}

static void reply_members(struct exec *x, const struct entry *e)
{
    struct set_iter it;
    struct slice member;
    set_iter_init(&it, e);
    while (set_iter_next(&it, &member)) reply_bulk(&x->out, member);
}

static void smembers(struct exec *x)
{
    struct place at;
    if (!exec_find_type(x, x->argv[1], TYPE_SET, &at)) return;
    reply_set(&x->out, at.e ? set_len(at.e) : 0);
    if (at.e) reply_members(x, at.e);
}

static void visit_member(void *ctx, struct slice member)
{
    struct inscan *s = ctx;
    if (inscan_wants(s, member)) inscan_add(s, member);
}

static void sscan(struct exec *x)
{
    struct inscan s;
    if (!inscan_begin(x, &s, TYPE_SET)) return;
    set_scan(s.e, &s.cursor, s.want, visit_member, &s);
    inscan_end(x, &s);
}

/* ---- random members */

/* `want` distinct members, all subsets equally likely, copied: the caller may change the set. */
static void gather_distinct(struct exec *x, const struct entry *e, uint64_t want, struct gather *picks)
{
    uint64_t n = set_len(e), left = n;
    struct slice member;
    char text[24];
    if (entry_encoding(e) == ENC_TABLE && sample_by_drawing(want, n)) {
        while (picks->n < want && set_random(e, rng_u64(x->rng), text, &member)) gather_new(picks, member, true);
        return;
    }
    struct set_iter it;
    set_iter_init(&it, e);
    while (want && set_iter_next(&it, &member))
        if (sample_take(x->rng, &want, &left)) gather_add(picks, member, true);
}

static void reply_picks(struct exec *x, const struct gather *picks)
{
    for (uint32_t i = 0; i < picks->n; i++) reply_bulk(&x->out, picks->items[i]);
}

static void pop_one(struct exec *x, struct place *at)
{
    struct slice member;
    char text[24];
    set_random(at->e, rng_u64(x->rng), text, &member);
    /* The answer is written before the member's bytes go, and its copy there is what the op names. */
    reply_bulk(&x->out, member);
    const char *copy = x->out.out->p + x->out.out->len - 2 - member.n;
    struct slice gone = slice_of(copy, member.n);
    remove_members(x, at, &gone, 1, "spop");
}

static void pop_all(struct exec *x, struct place *at)
{
    reply_set(&x->out, set_len(at->e));
    reply_members(x, at->e);
    exec_del(x, at);
    exec_notify(x, NOTIFY_SET, "spop", x->argv[1]);
    exec_notify(x, NOTIFY_GENERIC, "del", x->argv[1]);
}

static void pop_some(struct exec *x, struct place *at, uint64_t want)
{
    struct gather picks;
    gather_init(&picks, rng_u64(x->rng));
    gather_distinct(x, at->e, want, &picks);
    reply_set(&x->out, picks.n);
    reply_picks(x, &picks);
    remove_members(x, at, picks.items, picks.n, "spop");
    gather_fini(&picks);
}

static bool read_pop_count(struct exec *x, uint64_t *count)
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
    *count = (uint64_t)n;
    return true;
}

static void spop(struct exec *x)
{
    struct place at;
    uint64_t count = 1;
    bool counted = x->argc > 2;
    if (counted && !read_pop_count(x, &count)) return;
    if (!exec_find_type(x, x->argv[1], TYPE_SET, &at)) return;
    if (!at.e || count == 0) {
        if (counted)
            reply_set(&x->out, 0);
        else
            reply_null(&x->out);
    } else if (!counted) {
        pop_one(x, &at);
    } else if (count >= set_len(at.e)) {
        pop_all(x, &at);
    } else {
        pop_some(x, &at, count);
    }
}

static void reply_repeating(struct exec *x, const struct entry *e, uint64_t n)
{
    struct slice member;
    char text[24];
    reply_array(&x->out, n);
    while (n-- > 0 && set_random(e, rng_u64(x->rng), text, &member)) reply_bulk(&x->out, member);
}

static void reply_distinct(struct exec *x, const struct entry *e, uint64_t want)
{
    uint64_t n = set_len(e);
    reply_array(&x->out, want < n ? want : n);
    if (want >= n) {
        reply_members(x, e);
        return;
    }
    struct gather picks;
    gather_init(&picks, rng_u64(x->rng));
    gather_distinct(x, e, want, &picks);
    reply_picks(x, &picks);
    gather_fini(&picks);
}

static bool read_random_count(struct exec *x, int64_t *count)
{
    if (x->argc > 3) {
        exec_syntax(x);
        return false;
    }
    if (!exec_arg_i64(x, x->argv[2], count)) return false;
    if (*count >= -SAMPLE_REPEAT_MAX) return true;
    if (*count == INT64_MIN)
        reply_errorf(&x->out, "ERR value is out of range, value must between %lld and %lld", (long long)-INT64_MAX, (long long)INT64_MAX);
    else
        reply_error(&x->out, "ERR value is out of range");
    return false;
}

static void srandmember_count(struct exec *x)
{
    struct place at;
    int64_t count;
    if (!read_random_count(x, &count) || !exec_find_type(x, x->argv[1], TYPE_SET, &at)) return;
    if (!at.e || count == 0)
        reply_array(&x->out, 0);
    else if (count < 0)
        reply_repeating(x, at.e, (uint64_t)-count);
    else
        reply_distinct(x, at.e, (uint64_t)count);
}

static void srandmember(struct exec *x)
{
    struct place at;
    struct slice member;
    char text[24];
    if (x->argc > 2) {
        srandmember_count(x);
        return;
    }
    if (!exec_find_type(x, x->argv[1], TYPE_SET, &at)) return;
    if (at.e && set_random(at.e, rng_u64(x->rng), text, &member))
        reply_bulk(&x->out, member);
    else
        reply_null(&x->out);
}

/* ---- the rows */

enum {
    READ = CMD_READONLY,
    READ_FAST = CMD_READONLY | CMD_FAST,
    WRITE_MORE = CMD_WRITE | CMD_DENYOOM,
    WRITE_LESS = CMD_WRITE | CMD_FAST,
};

#define SET_ROW(name_, fn_, arity_, flags_, last_, since_, args_, summary_) \
    {.name = #name_, .fn = fn_, .arity = (arity_), .class = CLASS_KEYED, .flags = (flags_), .first_key = 1, .last_key = (last_), .key_step = 1, \
     .group = "set", .since = (since_), .args = (args_), .summary = (summary_)}

static const struct command rows[] = {
    SET_ROW(sadd, sadd, -3, WRITE_MORE | CMD_FAST, 1, "1.0.0", "key member [member ...]", "Adds members to a set; answers how many are new."),
    SET_ROW(srem, srem, -3, WRITE_LESS, 1, "1.0.0", "key member [member ...]", "Removes members; the set goes with its last one."),
    SET_ROW(smove, smove, 4, WRITE_LESS, 2, "1.0.0", "source destination member", "Moves a member from one set to another, atomically."),
    SET_ROW(scard, scard, 2, READ_FAST, 1, "1.0.0", "key", "The number of members."),
    SET_ROW(sismember, sismember, 3, READ_FAST, 1, "1.0.0", "key member", "Whether a member is there."),
    SET_ROW(smismember, smismember, -3, READ_FAST, 1, "6.2.0", "key member [member ...]", "Whether each of several members is there."),
    SET_ROW(smembers, smembers, 2, READ, 1, "1.0.0", "key", "All members."),
    SET_ROW(spop, spop, -2, WRITE_LESS, 1, "1.0.0", "key [count]", "Removes random members and answers them."),
    SET_ROW(srandmember, srandmember, -2, READ, 1, "1.0.0", "key [count]", "Random members: distinct, or with repetition if count is negative."),
    SET_ROW(sscan, sscan, -3, READ, 1, "2.8.0", "key cursor [MATCH pattern] [COUNT count]", "Walks the members in steps."),
    SET_ROW(sinter, setops_inter, -2, READ, -1, "1.0.0", "key [key ...]", "The members that all the sets have."),
    SET_ROW(sunion, setops_union, -2, READ, -1, "1.0.0", "key [key ...]", "The members that any of the sets has."),
    SET_ROW(sdiff, setops_diff, -2, READ, -1, "1.0.0", "key [key ...]", "The members of the first set that no other has."),
    SET_ROW(sinterstore, setops_interstore, -3, WRITE_MORE, -1, "1.0.0", "destination key [key ...]", "Stores what SINTER answers as a set."),
    SET_ROW(sunionstore, setops_unionstore, -3, WRITE_MORE, -1, "1.0.0", "destination key [key ...]", "Stores what SUNION answers as a set."),
    SET_ROW(sdiffstore, setops_diffstore, -3, WRITE_MORE, -1, "1.0.0", "destination key [key ...]", "Stores what SDIFF answers as a set."),
    {.name = "sintercard", .fn = setops_intercard, .arity = -3, .class = CLASS_KEYED, .flags = CMD_READONLY | CMD_MOVABLE_KEYS,
     .keys = setops_intercard_keys, .group = "set", .since = "7.0.0", .args = "numkeys key [key ...] [LIMIT limit]",
     .summary = "The number of members that all the sets have, counted up to a limit."},
};

const struct command_family sets_family = COMMAND_FAMILY(rows);
