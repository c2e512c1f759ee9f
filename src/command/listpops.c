#include "command/listpops.h"

#include "base/num.h"
#include "store/list.h"

static bool parse_end(struct slice word, bool *head)
{
    *head = slice_is(word, "left");
    return *head || slice_is(word, "right");
}

/* ---- taking elements */

static void pop(struct exec *x, struct place *at, bool head, uint64_t count)
{
    struct op op = {.kind = head ? OP_POP_HEAD : OP_POP_TAIL, .count = (int64_t)count};
    exec_apply(x, &op, at);
    exec_notify(x, NOTIFY_LIST, head ? "lpop" : "rpop", at->key);
    if (!at->e) exec_notify(x, NOTIFY_GENERIC, "del", at->key);
}

static uint64_t at_most_all(const struct entry *e, uint64_t count)
{
    uint64_t len = list_len(e);
    return count < len ? count : len;
}

/* Answers the first `count` elements from one end, in the order in which they will be popped. */
static void reply_elements(struct exec *x, const struct entry *e, bool head, uint64_t count)
{
    struct list_iter it;
    struct slice v;
    list_iter_init(&it, e, head ? 0 : list_len(e) - 1, !head);
    while (count-- && list_iter_next(&it, &v)) reply_bulk(&x->out, v);
}

/* ---- LPOP RPOP */

static bool arg_count(struct exec *x, struct slice arg, int64_t *count)
{
    if (num_parse_i64(arg, count) && *count >= 0) return true;
    reply_error(&x->out, "ERR value is out of range, must be positive");
    return false;
}

static void pop_command(struct exec *x, bool head)
{
    bool many = x->argc == 3;
    int64_t count = 1;
    struct place at;
    if (x->argc > 3) {
        exec_wrong_arity(x);
        return;
    }
    if (many && !arg_count(x, x->argv[2], &count)) return;
    if (!exec_find_type(x, x->argv[1], TYPE_LIST, &at)) return;
    if (!at.e) {
        if (many) reply_null_array(&x->out);
        else reply_null(&x->out);
        return;
    }
    uint64_t n = at_most_all(at.e, (uint64_t)count);
    if (many) reply_array(&x->out, n);
    reply_elements(x, at.e, head, n);
    if (n) pop(x, &at, head, n);
}

void listpops_lpop(struct exec *x) { pop_command(x, true); }
void listpops_rpop(struct exec *x) { pop_command(x, false); }

/* ---- several keys: the first that has a list is served */

enum served { SERVED, ALL_EMPTY };

/* WRONGTYPE answered counts as served. A waiter that is tried again passes over keys of other types instead: only a list ends its wait. */
static enum served serve_first(struct exec *x, uint32_t first, uint32_t n, bool head, uint64_t count, bool nested)
{
    for (uint32_t i = first; i < first + n; i++) {
        struct place at;
        exec_find(x, x->argv[i], &at);
        if (!at.e || (x->retry && entry_type(at.e) != TYPE_LIST)) continue;
        if (entry_type(at.e) != TYPE_LIST) {
            reply_error(&x->out, reply_wrongtype);
            return SERVED;
        }
        uint64_t take = at_most_all(at.e, count);
        reply_array(&x->out, 2);
        reply_bulk(&x->out, x->argv[i]);
        if (nested) reply_array(&x->out, take);
        reply_elements(x, at.e, head, take);
        pop(x, &at, head, take);
        return SERVED;
    }
    return ALL_EMPTY;
}

static void wait_or_nil(struct exec *x, int64_t timeout_ms, uint32_t first, uint32_t n)
{
    if (exec_may_block(x)) exec_block(x, timeout_ms, first, n, 1);
    else reply_null_array(&x->out);
}

static void blocking_pop(struct exec *x, bool head)
{
    int64_t timeout_ms;
    uint32_t keys = x->argc - 2;
    if (!exec_timeout(x, x->argv[x->argc - 1], &timeout_ms)) return;
    if (serve_first(x, 1, keys, head, 1, false) == ALL_EMPTY) wait_or_nil(x, timeout_ms, 1, keys);
}

void listpops_blpop(struct exec *x) { blocking_pop(x, true); }
void listpops_brpop(struct exec *x) { blocking_pop(x, false); }

/* ---- LMPOP BLMPOP: numkeys key [key ...] LEFT | RIGHT [COUNT count], from argument `at` on */

struct mpop {
    uint32_t first, n; /* the keys */
    bool head;
    int64_t count;
};

/* How many keys there are; 0 if the word LEFT or RIGHT cannot follow them. */
static uint32_t mpop_numkeys(const struct slice *argv, uint32_t argc, uint32_t at, int64_t *numkeys)
{
    if (!num_parse_i64(argv[at], numkeys) || *numkeys <= 0) *numkeys = 0;
    return *numkeys < (int64_t)argc - at - 1 ? (uint32_t)*numkeys : 0;
}

static int mpop_keys(const struct slice *argv, uint32_t argc, uint32_t at, uint32_t *keys, int max)
{
    int64_t numkeys;
    uint32_t n = mpop_numkeys(argv, argc, at, &numkeys);
    if (n == 0) return -1;
    for (uint32_t i = 0; i < n && i < (uint32_t)max; i++) keys[i] = at + 1 + i;
    return (int)n;
}

int listpops_lmpop_keys(const struct slice *argv, uint32_t argc, uint32_t *at, int max) { return mpop_keys(argv, argc, 1, at, max); }
int listpops_blmpop_keys(const struct slice *argv, uint32_t argc, uint32_t *at, int max) { return mpop_keys(argv, argc, 2, at, max); }

/* Answers the error itself and gives false if the arguments are bad. */
static bool mpop_parse(struct exec *x, uint32_t at, struct mpop *m)
{
    int64_t numkeys;
    *m = (struct mpop){.first = at + 1, .n = mpop_numkeys(x->argv, x->argc, at, &numkeys), .count = 1};
    if (numkeys == 0) {
        reply_error(&x->out, "ERR numkeys should be greater than 0");
        return false;
    }
    uint32_t where = at + 1 + m->n;
    if (m->n == 0 || !parse_end(x->argv[where], &m->head)) {
        exec_syntax(x);
        return false;
    }
    if (x->argc == where + 1) return true;
    if (x->argc != where + 3 || !slice_is(x->argv[where + 1], "count")) {
        exec_syntax(x);
        return false;
    }
    if (num_parse_i64(x->argv[where + 2], &m->count) && m->count > 0) return true;
    reply_error(&x->out, "ERR count should be greater than 0");
    return false;
}

void listpops_lmpop(struct exec *x)
{
    struct mpop m;
    if (!mpop_parse(x, 1, &m)) return;
    if (serve_first(x, m.first, m.n, m.head, (uint64_t)m.count, true) == ALL_EMPTY) reply_null_array(&x->out);
}

void listpops_blmpop(struct exec *x)
{
    struct mpop m;
    int64_t timeout_ms;
    if (!mpop_parse(x, 2, &m) || !exec_timeout(x, x->argv[1], &timeout_ms)) return;
    if (serve_first(x, m.first, m.n, m.head, (uint64_t)m.count, true) == ALL_EMPTY) wait_or_nil(x, timeout_ms, m.first, m.n);
}

/* ---- moves from argv[1] to argv[2] */

/* The element is pushed before it is popped: a list of one element that is moved onto itself never becomes empty, and keeps its expiry. Each change may
 * move what was found before, so the source is looked up again after the destination was. */
static void move_found(struct exec *x, bool from_head, bool to_head)
{
    struct place from, to;
    struct list_iter it;
    struct slice v;
    if (!exec_find_type(x, x->argv[2], TYPE_LIST, &to)) return;
    exec_peek(x, x->argv[1], &from);
    list_iter_init(&it, from.e, from_head ? 0 : list_len(from.e) - 1, !from_head);
    list_iter_next(&it, &v);
    reply_bulk(&x->out, v);

    struct buf copy = {0}; /* a push must not be handed bytes of the list that it changes */
    if (slice_eq(x->argv[1], x->argv[2])) {
        buf_add_slice(&copy, v);
        v = buf_slice(&copy);
    }
    struct op op = {.kind = to_head ? OP_PUSH_HEAD : OP_PUSH_TAIL, .items = &v, .n_items = 1};
    exec_apply(x, &op, &to);
    buf_fini(&copy);
    exec_notify(x, NOTIFY_LIST, to_head ? "lpush" : "rpush", x->argv[2]);
    exec_peek(x, x->argv[1], &from);
    pop(x, &from, from_head, 1);
}

static void move(struct exec *x, bool from_head, bool to_head)
{
    struct place from;
    if (!exec_find_type(x, x->argv[1], TYPE_LIST, &from)) return;
    if (from.e) move_found(x, from_head, to_head);
    else reply_null(&x->out);
}

/* Waits for the source only. */
static void blocking_move(struct exec *x, bool from_head, bool to_head, struct slice timeout)
{
    int64_t timeout_ms;
    struct place from;
    if (!exec_timeout(x, timeout, &timeout_ms)) return;
    exec_find(x, x->argv[1], &from);
    bool other_type = from.e && entry_type(from.e) != TYPE_LIST;
    if (other_type && !x->retry) reply_error(&x->out, reply_wrongtype);
    else if (from.e && !other_type) move_found(x, from_head, to_head);
    else if (exec_may_block(x)) exec_block(x, timeout_ms, 1, 1, 1);
    else reply_null(&x->out);
}

void listpops_lmove(struct exec *x)
{
    bool from, to;
    if (parse_end(x->argv[3], &from) && parse_end(x->argv[4], &to)) move(x, from, to);
    else exec_syntax(x);
}

void listpops_blmove(struct exec *x)
{
    bool from, to;
    if (parse_end(x->argv[3], &from) && parse_end(x->argv[4], &to)) blocking_move(x, from, to, x->argv[5]);
    else exec_syntax(x);
}

void listpops_rpoplpush(struct exec *x) { move(x, false, true); }
void listpops_brpoplpush(struct exec *x) { blocking_move(x, false, true, x->argv[3]); }
