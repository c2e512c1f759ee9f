#include "base/num.h"
#include "command/families.h"
#include "command/listpops.h"
#include "store/list.h"

/* ---- LPUSH RPUSH LPUSHX RPUSHX */

static void push(struct exec *x, bool head, bool only_existing)
{
    struct place at;
    if (!exec_find_type(x, x->argv[1], TYPE_LIST, &at)) return;
    if (only_existing && !at.e) {
        reply_int(&x->out, 0);
        return;
    }
    struct op op = {.kind = head ? OP_PUSH_HEAD : OP_PUSH_TAIL, .items = x->argv + 2, .n_items = x->argc - 2};
    exec_apply(x, &op, &at);
    reply_int(&x->out, (int64_t)list_len(at.e));
    exec_notify(x, NOTIFY_LIST, head ? "lpush" : "rpush", x->argv[1]);
}

static void lpush(struct exec *x) { push(x, true, false); }
static void rpush(struct exec *x) { push(x, false, false); }
static void lpushx(struct exec *x) { push(x, true, true); }
static void rpushx(struct exec *x) { push(x, false, true); }

/* ---- reading by position */

static void llen(struct exec *x)
{
    struct place at;
    if (exec_find_type(x, x->argv[1], TYPE_LIST, &at)) reply_int(&x->out, at.e ? (int64_t)list_len(at.e) : 0);
}

/* A range with both ends included, negative ones counted from the end of a list of len elements, cut to what is there.
 * Gives how many elements it has; *start is the first. */
static int64_t range_within(int64_t len, int64_t *start, int64_t end)
{
    if (*start < 0) *start += len;
    if (*start < 0) *start = 0;
    if (end < 0) end += len;
    if (end >= len) end = len - 1;
    return *start > end ? 0 : end - *start + 1;
}

static void lrange(struct exec *x)
{
    struct place at;
    int64_t start, end;
    if (!exec_arg_i64(x, x->argv[2], &start) || !exec_arg_i64(x, x->argv[3], &end)) return;
    if (!exec_find_type(x, x->argv[1], TYPE_LIST, &at)) return;
    int64_t n = at.e ? range_within((int64_t)list_len(at.e), &start, end) : 0;
    reply_array(&x->out, (size_t)n);
    if (n == 0) return;
    struct list_iter it;
    struct slice v;
    list_iter_init(&it, at.e, (uint64_t)start, false);
    while (n-- && list_iter_next(&it, &v)) reply_bulk(&x->out, v);
}

/* Negative from the end; false if there is no such element. */
static bool index_within(const struct entry *e, int64_t *index)
{
    int64_t len = (int64_t)list_len(e);
    if (*index < 0) *index += len;
    return *index >= 0 && *index < len;
}

static void lindex(struct exec *x)
{
    struct place at;
    int64_t index;
    struct list_iter it;
    struct slice v;
    if (!exec_find_type(x, x->argv[1], TYPE_LIST, &at)) return;
    if (!at.e) {
        reply_null(&x->out);
        return;
    }
    if (!exec_arg_i64(x, x->argv[2], &index)) return;
    if (!index_within(at.e, &index)) {
        reply_null(&x->out);
        return;
    }
    list_iter_init(&it, at.e, (uint64_t)index, false);
    list_iter_next(&it, &v);
    reply_bulk(&x->out, v);
}

/* ---- LPOS */

struct pos {
    int64_t rank;   /* the rank-th match is the first wanted; negative: from the tail */
    int64_t count;  /* of wanted matches, 0: all; -1: not given, one is wanted and answered alone */
    int64_t maxlen; /* elements looked at, 0: all */
};

static bool arg_not_negative(struct exec *x, struct slice arg, int64_t *v, const char *error)
{
    if (num_parse_i64(arg, v) && *v >= 0) return true;
    reply_error(&x->out, error);
    return false;
}

static bool arg_rank(struct exec *x, struct slice arg, int64_t *rank)
{
    if (!exec_arg_i64(x, arg, rank)) return false;
    if (*rank == INT64_MIN)
        reply_error(&x->out, "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
    else if (*rank == 0)
        reply_error(&x->out, "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start"
                             " from the end of the list");
    return *rank != 0 && *rank != INT64_MIN;
}

static bool pos_option(struct exec *x, struct slice word, struct slice arg, struct pos *p)
{
    if (slice_is(word, "rank")) return arg_rank(x, arg, &p->rank);
    if (slice_is(word, "count")) return arg_not_negative(x, arg, &p->count, "ERR COUNT can't be negative");
    if (slice_is(word, "maxlen")) return arg_not_negative(x, arg, &p->maxlen, "ERR MAXLEN can't be negative");
    exec_syntax(x);
    return false;
}

static bool pos_parse(struct exec *x, struct pos *p)
{
    *p = (struct pos){.rank = 1, .count = -1};
    for (uint32_t i = 3; i + 1 < x->argc; i += 2)
        if (!pos_option(x, x->argv[i], x->argv[i + 1], p)) return false;
    if (x->argc % 2 == 1) return true; /* every option had its argument */
    exec_syntax(x);
    return false;
}

/* Answers the matches as integers; gives how many. */
static size_t pos_reply_matches(struct exec *x, const struct entry *e, const struct pos *p)
{
    bool back = p->rank < 0;
    int64_t skip = (back ? -p->rank : p->rank) - 1, wanted = p->count < 0 ? 1 : p->count;
    uint64_t len = list_len(e), look = p->maxlen && (uint64_t)p->maxlen < len ? (uint64_t)p->maxlen : len;
    size_t found = 0;
    struct list_iter it;
    struct slice v;
    list_iter_init(&it, e, back ? len - 1 : 0, back);
    for (uint64_t i = 0; i < look && list_iter_next(&it, &v); i++) {
        if (!slice_eq(v, x->argv[2]) || skip-- > 0) continue;
        reply_int(&x->out, (int64_t)(back ? len - 1 - i : i));
        found++;
        if (wanted && found == (size_t)wanted) break;
    }
    return found;
}

static void lpos(struct exec *x)
{
    struct place at;
    struct pos p;
    if (!pos_parse(x, &p) || !exec_find_type(x, x->argv[1], TYPE_LIST, &at)) return;
    if (p.count < 0) {
        if (!at.e || pos_reply_matches(x, at.e, &p) == 0) reply_null(&x->out);
        return;
    }
    size_t mark = reply_open(&x->out);
    reply_close_array(&x->out, mark, at.e ? pos_reply_matches(x, at.e, &p) : 0);
}

/* ---- LSET LINSERT LREM LTRIM */

static void lset(struct exec *x)
{
    struct place at;
    int64_t index;
    if (!exec_find_type(x, x->argv[1], TYPE_LIST, &at)) return;
    if (!at.e) {
        reply_error(&x->out, reply_nokey);
        return;
    }
    if (!exec_arg_i64(x, x->argv[2], &index)) return;
    if (!index_within(at.e, &index)) {
        reply_error(&x->out, reply_range);
        return;
    }
    struct op op = {.kind = OP_LIST_SET, .index = index, .value = x->argv[3]};
    exec_apply(x, &op, &at);
    reply_ok(&x->out);
    exec_notify(x, NOTIFY_LIST, "lset", x->argv[1]);
}

/* The index of the first element equal to v, or -1. */
static int64_t index_of(const struct entry *e, struct slice v)
{
    struct list_iter it;
    struct slice each;
    list_iter_init(&it, e, 0, false);
    for (int64_t i = 0; list_iter_next(&it, &each); i++)
        if (slice_eq(each, v)) return i;
    return -1;
}

static void linsert(struct exec *x)
{
    struct place at;
    bool after = slice_is(x->argv[2], "after");
    if (!after && !slice_is(x->argv[2], "before")) {
        exec_syntax(x);
        return;
    }
    if (!exec_find_type(x, x->argv[1], TYPE_LIST, &at)) return;
    int64_t pivot = at.e ? index_of(at.e, x->argv[3]) : 0;
    if (!at.e || pivot < 0) {
        reply_int(&x->out, pivot);
        return;
    }
    struct op op = {.kind = OP_LIST_INSERT, .index = pivot + after, .value = x->argv[4]};
    exec_apply(x, &op, &at);
    reply_int(&x->out, (int64_t)list_len(at.e));
    exec_notify(x, NOTIFY_LIST, "linsert", x->argv[1]);
}

struct run {
    uint64_t index, count;
};

/* The elements equal to v as runs of neighbours, in the order of the walk: at most `most` of them (0: all), from the head or from the tail.
 * Gives how many elements there are in all runs. */
static uint64_t find_runs(const struct entry *e, struct slice v, bool back, uint64_t most, struct buf *runs)
{
    uint64_t len = list_len(e), found = 0;
    struct run r = {0};
    struct list_iter it;
    struct slice each;
    list_iter_init(&it, e, back ? len - 1 : 0, back);
    for (uint64_t i = 0; (most == 0 || found < most) && list_iter_next(&it, &each); i++) {
        if (!slice_eq(each, v)) continue;
        uint64_t index = back ? len - 1 - i : i;
        bool next_to = r.count && (back ? index + 1 == r.index : index == r.index + r.count);
        if (!next_to) {
            if (r.count) buf_add(runs, &r, sizeof r);
            r = (struct run){.index = index};
        }
        r.count++;
        if (back) r.index = index;
        found++;
    }
    if (r.count) buf_add(runs, &r, sizeof r);
    return found;
}

/* From the tail on, so that the indexes of the runs still to come stay right. */
static void remove_runs(struct exec *x, struct place *at, const struct buf *runs, bool found_from_tail)
{
    size_t n = runs->len / sizeof(struct run);
    for (size_t i = 0; i < n; i++) {
        struct run r;
        memcpy(&r, runs->p + (found_from_tail ? i : n - 1 - i) * sizeof r, sizeof r);
        struct op op = {.kind = OP_LIST_REMOVE, .index = (int64_t)r.index, .count = (int64_t)r.count};
        exec_apply(x, &op, at);
    }
}

static void lrem(struct exec *x)
{
    struct place at;
    int64_t count;
    if (!exec_arg_i64(x, x->argv[2], &count) || !exec_find_type(x, x->argv[1], TYPE_LIST, &at)) return;
    if (!at.e) {
        reply_int(&x->out, 0);
        return;
    }
    struct buf runs = {0};
    bool back = count < 0;
    uint64_t found = find_runs(at.e, x->argv[3], back, back ? -(uint64_t)count : (uint64_t)count, &runs);
    remove_runs(x, &at, &runs, back);
    buf_fini(&runs);
    reply_int(&x->out, (int64_t)found);
    if (found) exec_notify(x, NOTIFY_LIST, "lrem", x->argv[1]);
    if (found && !at.e) exec_notify(x, NOTIFY_GENERIC, "del", x->argv[1]);
}

static void cut(struct exec *x, struct place *at, enum op_kind kind, int64_t count)
{
    struct op op = {.kind = kind, .count = count};
    if (count) exec_apply(x, &op, at);
}

static void ltrim(struct exec *x)
{
    struct place at;
    int64_t start, end;
    if (!exec_arg_i64(x, x->argv[2], &start) || !exec_arg_i64(x, x->argv[3], &end)) return;
    if (!exec_find_type(x, x->argv[1], TYPE_LIST, &at)) return;
    reply_ok(&x->out);
    if (!at.e) return;
    int64_t len = (int64_t)list_len(at.e), keep = range_within(len, &start, end);
    if (keep == 0) start = len;
    cut(x, &at, OP_POP_TAIL, len - start - keep);
    cut(x, &at, OP_POP_HEAD, start);
    exec_notify(x, NOTIFY_LIST, "ltrim", x->argv[1]);
    if (!at.e) exec_notify(x, NOTIFY_GENERIC, "del", x->argv[1]);
}

/* ---- the rows */

enum {
    READ = CMD_READONLY,
    READ_FAST = CMD_READONLY | CMD_FAST,
    WRITE_MORE = CMD_WRITE | CMD_DENYOOM,
    WRITE_LESS = CMD_WRITE,
    WAIT_MORE = CMD_WRITE | CMD_DENYOOM | CMD_BLOCKING,
    WAIT_LESS = CMD_WRITE | CMD_BLOCKING,
};

#define LIST_KEYS_ROW(name_, fn_, arity_, flags_, last_, since_, args_, summary_) \
    {.name = (name_), .fn = (fn_), .arity = (arity_), .class = CLASS_KEYED, .flags = (flags_), .first_key = 1, .last_key = (last_), \
     .key_step = 1, .group = "list", .since = (since_), .args = (args_), .summary = (summary_)}
#define LIST_ROW(name_, fn_, arity_, flags_, since_, args_, summary_) LIST_KEYS_ROW(name_, fn_, arity_, flags_, 1, since_, args_, summary_)
#define LIST_NUMKEYS_ROW(name_, fn_, keys_, arity_, flags_, since_, args_, summary_) \
    {.name = (name_), .fn = (fn_), .arity = (arity_), .class = CLASS_KEYED, .flags = (flags_) | CMD_MOVABLE_KEYS, .keys = (keys_), \
     .group = "list", .since = (since_), .args = (args_), .summary = (summary_)}

static const struct command rows[] = {
    LIST_ROW("lpush", lpush, -3, WRITE_MORE | CMD_FAST, "1.0.0", "key element [element ...]",
             "Puts elements before the head, one after the other; answers the length."),
    LIST_ROW("rpush", rpush, -3, WRITE_MORE | CMD_FAST, "1.0.0", "key element [element ...]",
             "Puts elements behind the tail; answers the length."),
    LIST_ROW("lpushx", lpushx, -3, WRITE_MORE | CMD_FAST, "2.2.0", "key element [element ...]", "LPUSH, if the list is there."),
    LIST_ROW("rpushx", rpushx, -3, WRITE_MORE | CMD_FAST, "2.2.0", "key element [element ...]", "RPUSH, if the list is there."),
    LIST_ROW("lpop", listpops_lpop, -2, WRITE_LESS | CMD_FAST, "1.0.0", "key [count]", "Takes elements off the head."),
    LIST_ROW("rpop", listpops_rpop, -2, WRITE_LESS | CMD_FAST, "1.0.0", "key [count]", "Takes elements off the tail."),
    LIST_ROW("llen", llen, 2, READ_FAST, "1.0.0", "key", "The number of elements."),
    LIST_ROW("lrange", lrange, 4, READ, "1.0.0", "key start stop", "The elements of a range of indexes."),
    LIST_ROW("lindex", lindex, 3, READ, "1.0.0", "key index", "The element at an index."),
    LIST_ROW("lset", lset, 4, WRITE_MORE, "1.0.0", "key index element", "Replaces the element at an index."),
    LIST_ROW("linsert", linsert, 5, WRITE_MORE, "2.2.0", "key BEFORE | AFTER pivot element",
             "Puts an element beside the first one that equals the pivot; answers the length."),
    LIST_ROW("lrem", lrem, 4, WRITE_LESS, "1.0.0", "key count element",
             "Removes equal elements: all, the first count or, if negative, the last ones; answers how many."),
    LIST_ROW("ltrim", ltrim, 4, WRITE_LESS, "1.0.0", "key start stop", "Keeps only a range of indexes."),
    LIST_ROW("lpos", lpos, -3, READ, "6.0.6", "key element [RANK rank] [COUNT num-matches] [MAXLEN len]", "The indexes of equal elements."),
    LIST_KEYS_ROW("lmove", listpops_lmove, 5, WRITE_MORE, 2, "6.2.0", "source destination LEFT | RIGHT LEFT | RIGHT",
                  "Moves an element from one end of a list to one end of another; answers it."),
    LIST_KEYS_ROW("rpoplpush", listpops_rpoplpush, 3, WRITE_MORE, 2, "1.2.0", "source destination",
                  "Moves the tail of a list to the head of another; answers it."),
    LIST_NUMKEYS_ROW("lmpop", listpops_lmpop, listpops_lmpop_keys, -4, WRITE_LESS, "7.0.0",
                     "numkeys key [key ...] LEFT | RIGHT [COUNT count]", "Takes elements off the first list that is there."),
    LIST_KEYS_ROW("blpop", listpops_blpop, -3, WAIT_LESS, -2, "2.0.0", "key [key ...] timeout",
                  "Takes the head of the first list that is there, or waits for one."),
    LIST_KEYS_ROW("brpop", listpops_brpop, -3, WAIT_LESS, -2, "2.0.0", "key [key ...] timeout",
                  "Takes the tail of the first list that is there, or waits for one."),
    LIST_KEYS_ROW("blmove", listpops_blmove, 6, WAIT_MORE, 2, "6.2.0", "source destination LEFT | RIGHT LEFT | RIGHT timeout",
                  "LMOVE that waits for the source."),
    LIST_KEYS_ROW("brpoplpush", listpops_brpoplpush, 4, WAIT_MORE, 2, "2.2.0", "source destination timeout",
                  "RPOPLPUSH that waits for the source."),
    LIST_NUMKEYS_ROW("blmpop", listpops_blmpop, listpops_blmpop_keys, -5, WAIT_LESS, "7.0.0",
                     "timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]", "LMPOP that waits for a list."),
};

const struct command_family lists_family = COMMAND_FAMILY(rows);
