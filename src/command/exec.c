#include "command/exec.h"

#include <ctype.h>
#include <math.h>

#include "base/num.h"
#include "command/command.h"
#include "store/chill.h"
#include "store/hotkeys.h"

/* ---- the keyspace */

static inline bool is_argument(const struct exec *x, struct slice key, int at)
{
    return key.p == x->argv[at].p && key.n == x->argv[at].n;
}

uint64_t exec_hash(struct exec *x, struct slice key)
{
    if (x->have_hash && is_argument(x, key, x->cmd->first_key)) return x->key_hash;
    uint32_t i = x->next_key_hash;
    if (i < x->n_key_hashes && is_argument(x, key, x->cmd->first_key + (int)i * x->cmd->key_step)) {
        x->next_key_hash = i + 1;
        return x->key_hashes[i];
    }
    return keyhash(key, x->route->seed);
}

struct store *exec_store(struct exec *x, struct slice key, uint64_t hash)
{
    struct store *s = x->stores[route_key(x->route, key, hash)];
    CHECK(s); /* a command touches only the shards of the keys that its row names */
    return s;
}

static void meet_cold(struct exec *x, struct place *at)
{
    if (command_needs_values(x->cmd, x->argv, x->argc)) chill_fetch(at);
}

void exec_find(struct exec *x, struct slice key, struct place *at)
{
    uint64_t hash = exec_hash(x, key);
    struct store *s = exec_store(x, key, hash);
    hotkeys_hit(s->hotkeys, s->now_ms, x->db, hash, key);
    if (unlikely(x->no_touch)) store_look(s, x->db, hash, key, at);
    else store_find(s, x->db, hash, key, at);
    if (unlikely(at->e && chill_is_cold(at->e))) meet_cold(x, at);
}

void exec_peek(struct exec *x, struct slice key, struct place *at)
{
    uint64_t hash = exec_hash(x, key);
    struct store *s = exec_store(x, key, hash);
    hotkeys_hit(s->hotkeys, s->now_ms, x->db, hash, key);
    store_peek(s, x->db, hash, key, at);
    if (unlikely(at->e && chill_is_cold(at->e))) meet_cold(x, at);
}

void exec_unreadable(struct exec *x)
{
    reply_error(&x->out, "COLD the value of a key cannot be read back from disk. It is still in the dump and the log: a restart restores it; DEL and SET work.");
}

bool exec_readable(struct exec *x, struct place *at)
{
    if (likely(!at->e || !chill_is_cold(at->e)) || chill_fetch(at) == 0) return true;
    exec_unreadable(x);
    return false;
}

bool exec_find_type(struct exec *x, struct slice key, enum type t, struct place *at)
{
    exec_find(x, key, at);
    if (likely(!at->e || entry_type(at->e) == t)) return exec_readable(x, at);
    reply_error(&x->out, reply_wrongtype);
    return false;
}

int64_t exec_apply(struct exec *x, struct op *op, struct place *at)
{
    bool was_there = at->e;
    op->db = at->db_id;
    op->key = at->key;
    int64_t result = store_apply(at->store, op, at);
    x->ops++;
    if (!was_there && at->e) exec_notify_in(x, NOTIFY_NEW, "new", at->key, at->db_id);
    return result;
}

void exec_set(struct exec *x, struct place *at, struct slice value, int64_t expiry_ms)
{
    exec_apply(x, &(struct op){.kind = OP_SET, .value = value, .expiry_ms = expiry_ms}, at);
}

void exec_set_value(struct exec *x, struct place *at, struct slice value)
{
    exec_apply(x, &(struct op){.kind = OP_SET_VALUE, .value = value}, at);
}

void exec_del(struct exec *x, struct place *at) { exec_apply(x, &(struct op){.kind = OP_DEL}, at); }

void exec_expire(struct exec *x, struct place *at, int64_t expiry_ms)
{
    exec_apply(x, &(struct op){.kind = OP_EXPIRE, .expiry_ms = expiry_ms}, at);
}

void exec_notify_in(struct exec *x, unsigned event_class, const char *event, struct slice key, uint16_t db)
{
    if (x->host && x->host->notify) x->host->notify(x->host->ctx, x, event_class, event, key, db);
}

void exec_notify(struct exec *x, unsigned event_class, const char *event, struct slice key)
{
    exec_notify_in(x, event_class, event, key, x->db);
}

/* ---- blocking */

bool exec_may_block(const struct exec *x) { return !x->in_multi; }

void exec_block(struct exec *x, int64_t timeout_ms, uint32_t first, uint32_t count, uint32_t step)
{
    CHECK(exec_may_block(x));
    CHECK(count == 0 || (step > 0 && first + (uint64_t)(count - 1) * step < x->argc));
    x->block.wanted = true;
    x->block.timeout_ms = timeout_ms;
    x->block.first = first;
    x->block.count = count;
    x->block.step = step;
}

bool exec_timeout(struct exec *x, struct slice arg, int64_t *timeout_ms)
{
    long double seconds;
    if (!num_parse_f80(arg, &seconds)) {
        reply_error(&x->out, "ERR timeout is not a float or out of range");
        return false;
    }
    long double ms = ceill(seconds * 1000);
    if (ms > (long double)(INT64_MAX - x->now_ms)) {
        reply_error(&x->out, "ERR timeout is out of range");
        return false;
    }
    if (seconds < 0) {
        reply_error(&x->out, "ERR timeout is negative");
        return false;
    }
    *timeout_ms = (int64_t)ms;
    return true;
}

/* ---- arguments */

bool exec_arg_i64(struct exec *x, struct slice arg, int64_t *v)
{
    if (likely(num_parse_i64(arg, v))) return true;
    reply_error(&x->out, reply_notint);
    return false;
}

bool exec_arg_f64(struct exec *x, struct slice arg, double *v)
{
    if (likely(num_parse_f64(arg, v))) return true;
    reply_error(&x->out, reply_notfloat);
    return false;
}

void exec_wrong_arity(struct exec *x)
{
    reply_errorf(&x->out, "ERR wrong number of arguments for '%s' command", x->cmd->name);
}

void exec_syntax(struct exec *x) { reply_error(&x->out, reply_syntax); }

/* The container's name as messages show it. */
static void upper_name(const struct exec *x, char out[32])
{
    size_t i = 0;
    for (; x->cmd->name[i] && i < 31; i++) out[i] = (char)toupper((unsigned char)x->cmd->name[i]);
    out[i] = 0;
}

void exec_unknown_subcommand(struct exec *x)
{
    char name[32];
    upper_name(x, name);
    struct slice sub = x->argv[1];
    reply_errorf(&x->out, "ERR unknown subcommand '%.*s'. Try %s HELP.", (int)(sub.n < 128 ? sub.n : 128), sub.p, name);
}

void exec_subcommand(struct exec *x, const struct exec_subcommand *rows, const char *const *help)
{
    bool wants_help = slice_is(x->argv[1], "help"), is_counted = rows == x->cmd->subs;
    while (rows->name && !slice_is(x->argv[1], rows->name)) rows++;
    if (!rows->name && !wants_help) {
        exec_unknown_subcommand(x);
        return;
    }
    int arity = wants_help ? 2 : rows->arity, argc = (int)x->argc;
    if (arity > 0 ? argc != arity : argc < -arity) {
        reply_errorf(&x->out, "ERR wrong number of arguments for '%s|%s' command", x->cmd->name, wants_help ? "help" : rows->name);
    } else if (wants_help) {
        exec_help(x, help);
    } else {
        if (is_counted) x->sub = rows;
        rows->fn(x);
    }
}

void exec_help(struct exec *x, const char *const *lines)
{
    size_t n = 0;
    while (lines[n]) n++;
    char name[32];
    upper_name(x, name);
    reply_array(&x->out, n + 3);
    buf_printf(x->out.out, "+%s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n", name);
    for (size_t i = 0; i < n; i++) reply_simple(&x->out, lines[i]);
    reply_simple(&x->out, "HELP");
    reply_simple(&x->out, "    Print this help.");
}
