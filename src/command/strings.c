/* Strings: GET, SET and their kin. */
#include <math.h>

#include "base/num.h"
#include "command/command.h"
#include "command/families.h"
#include "command/lcs.h"

enum { STRING_BYTES_MAX = 512 << 20, F80_TEXT_BYTES = 5120 };

static const char too_long[] = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/* ---- expiry options */

/* What becomes of the expiry: nothing was said, or exactly one of these words. */
enum when { WHEN_UNSAID, WHEN_EX, WHEN_PX, WHEN_EXAT, WHEN_PXAT, WHEN_KEEPTTL, WHEN_PERSIST };

static void bad_expire(struct exec *x) { reply_errorf(&x->out, "ERR invalid expire time in '%s' command", x->cmd->name); }

/* The absolute time that an EX, PX, EXAT or PXAT argument means. Answers the error and gives false if there is no such time. */
static bool expiry_time(struct exec *x, enum when when, struct slice arg, int64_t *expiry_ms)
{
    int64_t t;
    if (!exec_arg_i64(x, arg, &t)) return false;
    bool bad = t <= 0;
    if (when == WHEN_EX || when == WHEN_EXAT) bad |= __builtin_mul_overflow(t, 1000, &t);
    if (when == WHEN_EX || when == WHEN_PX) bad |= __builtin_add_overflow(t, x->now_ms, &t);
    if (bad) bad_expire(x);
    *expiry_ms = t;
    return !bad;
}

/* The options of SET and GETEX. */
struct options {
    bool nx, xx, get;
    enum when when;
    struct slice time;
};

static enum when when_of(struct slice word, bool for_set)
{
    if (slice_is(word, "ex")) return WHEN_EX;
    if (slice_is(word, "px")) return WHEN_PX;
    if (slice_is(word, "exat")) return WHEN_EXAT;
    if (slice_is(word, "pxat")) return WHEN_PXAT;
    if (for_set && slice_is(word, "keepttl")) return WHEN_KEEPTTL;
    if (!for_set && slice_is(word, "persist")) return WHEN_PERSIST;
    return WHEN_UNSAID;
}

static bool has_time(const struct options *o) { return o->when >= WHEN_EX && o->when <= WHEN_PXAT; }

/* A word may come twice, but not together with one that says otherwise. */
static bool parse_option(struct exec *x, uint32_t *i, bool for_set, struct options *o)
{
    struct slice word = x->argv[*i];
    if (for_set && slice_is(word, "nx") && !o->xx) return o->nx = true;
    if (for_set && slice_is(word, "xx") && !o->nx) return o->xx = true;
    if (for_set && slice_is(word, "get")) return o->get = true;
    enum when when = when_of(word, for_set);
    if (when == WHEN_UNSAID || (o->when != WHEN_UNSAID && o->when != when)) return false;
    o->when = when;
    if (!has_time(o)) return true;
    if (*i + 1 >= x->argc) return false;
    o->time = x->argv[++*i];
    return true;
}

static bool parse_options(struct exec *x, uint32_t from, bool for_set, struct options *o)
{
    for (uint32_t i = from; i < x->argc; i++) {
        if (parse_option(x, &i, for_set, o)) continue;
        exec_syntax(x);
        return false;
    }
    return true;
}

/* ---- reading */

static void reply_value(struct exec *x, const struct place *at)
{
    if (at->e)
        reply_bulk(&x->out, entry_value(at->e));
    else
        reply_null(&x->out);
}

static void cmd_get(struct exec *x)
{
    struct place at;
    if (exec_find_type(x, x->argv[1], TYPE_STRING, &at)) reply_value(x, &at);
}

static void cmd_mget(struct exec *x)
{
    reply_array(&x->out, x->argc - 1);
    for (uint32_t i = 1; i < x->argc; i++) {
        struct place at;
        exec_find(x, x->argv[i], &at);
        if (at.e && entry_type(at.e) != TYPE_STRING) at.e = NULL; /* MGET never fails */
        reply_value(x, &at);
    }
}

static void cmd_strlen(struct exec *x)
{
    struct place at;
    if (exec_find_type(x, x->argv[1], TYPE_STRING, &at)) reply_int(&x->out, at.e ? entry_value_len(at.e) : 0);
}

static void cmd_getrange(struct exec *x)
{
    int64_t start, end;
    struct place at;
    if (!exec_arg_i64(x, x->argv[2], &start) || !exec_arg_i64(x, x->argv[3], &end)) return;
    if (!exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    struct slice v = at.e ? entry_value(at.e) : SLICE("");
    int64_t n = (int64_t)v.n;
    bool backwards = start < 0 && end < 0 && start > end;
    if (start < 0) start = start + n < 0 ? 0 : start + n;
    if (end < 0) end = end + n < 0 ? 0 : end + n;
    if (end >= n) end = n - 1;
    if (backwards || start > end)
        reply_bulk(&x->out, SLICE(""));
    else
        reply_bulk(&x->out, slice_of(v.p + start, (size_t)(end - start + 1)));
}

/* ---- SET and its older forms */

static void set_and_tell(struct exec *x, struct place *at, struct slice value, int64_t expiry_ms)
{
    exec_set(x, at, value, expiry_ms);
    exec_notify(x, NOTIFY_STRING, "set", at->key);
}

static void set_with_options(struct exec *x)
{
    struct options o = {0};
    struct place at;
    int64_t expiry_ms = 0;
    if (!parse_options(x, 3, true, &o)) return;
    if (has_time(&o) && !expiry_time(x, o.when, o.time, &expiry_ms)) return;
    if (o.get) {
        if (!exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
        reply_value(x, &at);
    } else {
        exec_peek(x, x->argv[1], &at);
    }
    if ((o.nx && at.e) || (o.xx && !at.e)) {
        if (!o.get) reply_null(&x->out);
        return;
    }
    if (o.when == WHEN_KEEPTTL && at.e) expiry_ms = entry_expiry_ms(at.e);
    set_and_tell(x, &at, x->argv[2], expiry_ms);
    if (has_time(&o)) exec_notify(x, NOTIFY_GENERIC, "expire", at.key);
    if (!o.get) reply_ok(&x->out);
}

static void cmd_set(struct exec *x)
{
    if (unlikely(x->argc > 3)) {
        set_with_options(x);
        return;
    }
    struct place at;
    exec_peek(x, x->argv[1], &at);
    set_and_tell(x, &at, x->argv[2], 0);
    reply_ok(&x->out);
}

static bool set_needs_values(const struct slice *argv, uint32_t argc)
{
    for (uint32_t i = 3; i < argc; i++)
        if (slice_is(argv[i], "get")) return true;
    return false;
}

static void cmd_setnx(struct exec *x)
{
    struct place at;
    exec_peek(x, x->argv[1], &at);
    bool absent = !at.e;
    if (absent) set_and_tell(x, &at, x->argv[2], 0);
    reply_int(&x->out, absent);
}

static void set_expiring(struct exec *x, enum when when)
{
    int64_t expiry_ms;
    struct place at;
    if (!expiry_time(x, when, x->argv[2], &expiry_ms)) return;
    exec_peek(x, x->argv[1], &at);
    set_and_tell(x, &at, x->argv[3], expiry_ms);
    exec_notify(x, NOTIFY_GENERIC, "expire", at.key);
    reply_ok(&x->out);
}

static void cmd_setex(struct exec *x) { set_expiring(x, WHEN_EX); }
static void cmd_psetex(struct exec *x) { set_expiring(x, WHEN_PX); }

static void cmd_getset(struct exec *x)
{
    struct place at;
    if (!exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    reply_value(x, &at);
    set_and_tell(x, &at, x->argv[2], 0);
}

static void delete_and_tell(struct exec *x, struct place *at)
{
    exec_del(x, at);
    exec_notify(x, NOTIFY_GENERIC, "del", at->key);
}

static void cmd_getdel(struct exec *x)
{
    struct place at;
    if (!exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    reply_value(x, &at);
    if (at.e) delete_and_tell(x, &at);
}

static void cmd_getex(struct exec *x)
{
    struct options o = {0};
    struct place at;
    int64_t expiry_ms;
    if (!parse_options(x, 2, false, &o)) return;
    if (!exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    if (at.e && has_time(&o) && !expiry_time(x, o.when, o.time, &expiry_ms)) return;
    reply_value(x, &at);
    if (!at.e) return;
    if (has_time(&o) && expiry_ms <= x->now_ms) {
        delete_and_tell(x, &at);
    } else if (has_time(&o)) {
        exec_expire(x, &at, expiry_ms);
        exec_notify(x, NOTIFY_GENERIC, "expire", at.key);
    } else if (o.when == WHEN_PERSIST && entry_expiry_ms(at.e)) {
        exec_expire(x, &at, 0);
        exec_notify(x, NOTIFY_GENERIC, "persist", at.key);
    }
}

static void set_pairs(struct exec *x)
{
    for (uint32_t i = 1; i < x->argc; i += 2) {
        struct place at;
        exec_peek(x, x->argv[i], &at);
        set_and_tell(x, &at, x->argv[i + 1], 0);
    }
}

static void cmd_mset(struct exec *x)
{
    if (x->argc % 2 == 0) {
        exec_wrong_arity(x);
        return;
    }
    set_pairs(x);
    reply_ok(&x->out);
}

static void cmd_msetnx(struct exec *x)
{
    if (x->argc % 2 == 0) {
        exec_wrong_arity(x);
        return;
    }
    for (uint32_t i = 1; i < x->argc; i += 2) {
        struct place at;
        exec_peek(x, x->argv[i], &at);
        if (!at.e) continue;
        reply_int(&x->out, 0);
        return;
    }
    set_pairs(x);
    reply_int(&x->out, 1);
}

/* ---- numbers */

static void add_integer(struct exec *x, int64_t by)
{
    struct place at;
    int64_t v = 0;
    char text[NUM_I64_MAX_CHARS];
    if (!exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    if (at.e && !exec_arg_i64(x, entry_value(at.e), &v)) return;
    if (__builtin_add_overflow(v, by, &v)) {
        reply_error(&x->out, "ERR increment or decrement would overflow");
        return;
    }
    exec_set_value(x, &at, slice_of(text, num_format_i64(text, v)));
    exec_notify(x, NOTIFY_STRING, "incrby", at.key);
    reply_int(&x->out, v);
}

static void cmd_incr(struct exec *x) { add_integer(x, 1); }
static void cmd_decr(struct exec *x) { add_integer(x, -1); }

static void cmd_incrby(struct exec *x)
{
    int64_t by;
    if (exec_arg_i64(x, x->argv[2], &by)) add_integer(x, by);
}

static void cmd_decrby(struct exec *x)
{
    int64_t by;
    if (!exec_arg_i64(x, x->argv[2], &by)) return;
    if (by == INT64_MIN)
        reply_error(&x->out, "ERR decrement would overflow"); /* it has no negative */
    else
        add_integer(x, -by);
}

static void cmd_incrbyfloat(struct exec *x)
{
    struct place at;
    long double v = 0, by;
    char text[F80_TEXT_BYTES];
    if (!exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    if ((at.e && !num_parse_f80(entry_value(at.e), &v)) || !num_parse_f80(x->argv[2], &by)) {
        reply_error(&x->out, reply_notfloat);
        return;
    }
    v += by;
    if (isnan(v) || isinf(v)) {
        reply_error(&x->out, "ERR increment would produce NaN or Infinity");
        return;
    }
    struct slice value = slice_of(text, num_format_f80(text, sizeof text, v));
    exec_set_value(x, &at, value);
    exec_notify(x, NOTIFY_STRING, "incrbyfloat", at.key);
    reply_bulk(&x->out, value);
}

/* ---- parts of strings */

static void cmd_append(struct exec *x)
{
    struct place at;
    if (!exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    uint64_t len = (at.e ? entry_value_len(at.e) : 0) + (uint64_t)x->argv[2].n;
    if (len > STRING_BYTES_MAX) {
        reply_error(&x->out, too_long);
        return;
    }
    exec_apply(x, &(struct op){.kind = OP_APPEND, .value = x->argv[2]}, &at);
    exec_notify(x, NOTIFY_STRING, "append", at.key);
    reply_int(&x->out, (int64_t)len);
}

static void cmd_setrange(struct exec *x)
{
    struct place at;
    int64_t offset;
    struct slice value = x->argv[3];
    if (!exec_arg_i64(x, x->argv[2], &offset)) return;
    if (offset < 0) {
        reply_error(&x->out, "ERR offset is out of range");
        return;
    }
    if (!exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    int64_t len = at.e ? entry_value_len(at.e) : 0;
    if (value.n == 0) { /* nothing to write, not even zeros */
        reply_int(&x->out, len);
        return;
    }
    if (value.n > STRING_BYTES_MAX || offset > STRING_BYTES_MAX - (int64_t)value.n) {
        reply_error(&x->out, too_long);
        return;
    }
    exec_apply(x, &(struct op){.kind = OP_WRITE_RANGE, .value = value, .index = offset}, &at);
    exec_notify(x, NOTIFY_STRING, "setrange", at.key);
    int64_t end = offset + (int64_t)value.n;
    reply_int(&x->out, end > len ? end : len);
}

/* ---- rows */

#define KEY_1 .class = CLASS_KEYED, .first_key = 1, .last_key = 1, .key_step = 1, .group = "string"
#define KEYS_2 .class = CLASS_KEYED, .first_key = 1, .last_key = 2, .key_step = 1, .group = "string"
#define KEYS_ALL .class = CLASS_KEYED, .first_key = 1, .last_key = -1, .key_step = 1, .group = "string"
#define KEY_VALUES .class = CLASS_KEYED, .first_key = 1, .last_key = -1, .key_step = 2, .group = "string"
#define READ_FAST (CMD_READONLY | CMD_FAST)
#define WRITE_MORE (CMD_WRITE | CMD_DENYOOM)
#define WRITE_MORE_FAST (CMD_WRITE | CMD_DENYOOM | CMD_FAST)

static const struct command rows[] = {
    {.name = "append", .fn = cmd_append, .arity = 3, .flags = WRITE_MORE_FAST, KEY_1, .since = "2.0.0",
     .summary = "Appends a string to the value of a key. Creates the key if it doesn't exist.", .args = "key value"},
    {.name = "decr", .fn = cmd_decr, .arity = 2, .flags = WRITE_MORE_FAST, KEY_1, .since = "1.0.0",
     .summary = "Decrements the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.", .args = "key"},
    {.name = "decrby", .fn = cmd_decrby, .arity = 3, .flags = WRITE_MORE_FAST, KEY_1, .since = "1.0.0",
     .summary = "Decrements a number from the integer value of a key. Uses 0 as initial value if the key doesn't exist.",
     .args = "key decrement"},
    {.name = "get", .fn = cmd_get, .arity = 2, .flags = READ_FAST, KEY_1, .since = "1.0.0",
     .summary = "Returns the string value of a key.", .args = "key"},
    {.name = "getdel", .fn = cmd_getdel, .arity = 2, .flags = CMD_WRITE | CMD_FAST, KEY_1, .since = "6.2.0",
     .summary = "Returns the string value of a key after deleting the key.", .args = "key"},
    {.name = "getex", .fn = cmd_getex, .arity = -2, .flags = CMD_WRITE | CMD_FAST, KEY_1, .since = "6.2.0",
     .summary = "Returns the string value of a key after setting its expiration time.",
     .args = "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]"},
    {.name = "getrange", .fn = cmd_getrange, .arity = 4, .flags = CMD_READONLY, KEY_1, .since = "2.4.0",
     .summary = "Returns a substring of the string stored at a key.", .args = "key start end"},
    {.name = "getset", .fn = cmd_getset, .arity = 3, .flags = WRITE_MORE_FAST, KEY_1, .since = "1.0.0",
     .summary = "Returns the previous string value of a key after setting it to a new value.", .args = "key value"},
    {.name = "incr", .fn = cmd_incr, .arity = 2, .flags = WRITE_MORE_FAST, KEY_1, .since = "1.0.0",
     .summary = "Increments the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.", .args = "key"},
    {.name = "incrby", .fn = cmd_incrby, .arity = 3, .flags = WRITE_MORE_FAST, KEY_1, .since = "1.0.0",
     .summary = "Increments the integer value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
     .args = "key increment"},
    {.name = "incrbyfloat", .fn = cmd_incrbyfloat, .arity = 3, .flags = WRITE_MORE_FAST, KEY_1, .since = "2.6.0",
     .summary = "Increments the floating point value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
     .args = "key increment"},
    {.name = "lcs", .fn = lcs_command, .arity = -3, .flags = CMD_READONLY, KEYS_2, .since = "7.0.0",
     .summary = "Finds the longest common substring.", .args = "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]"},
    {.name = "mget", .fn = cmd_mget, .arity = -2, .flags = READ_FAST, KEYS_ALL, .since = "1.0.0",
     .summary = "Atomically returns the string values of one or more keys.", .args = "key [key ...]"},
    {.name = "mset", .fn = cmd_mset, .arity = -3, .flags = WRITE_MORE | CMD_KEY_ONLY, KEY_VALUES, .since = "1.0.1",
     .summary = "Atomically creates or modifies the string values of one or more keys.", .args = "key value [key value ...]"},
    {.name = "msetnx", .fn = cmd_msetnx, .arity = -3, .flags = WRITE_MORE | CMD_KEY_ONLY, KEY_VALUES, .since = "1.0.1",
     .summary = "Atomically modifies the string values of one or more keys only when all keys don't exist.",
     .args = "key value [key value ...]"},
    {.name = "psetex", .fn = cmd_psetex, .arity = 4, .flags = WRITE_MORE | CMD_KEY_ONLY, KEY_1, .since = "2.6.0",
     .summary = "Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't exist.",
     .args = "key milliseconds value"},
    {.name = "set", .fn = cmd_set, .arity = -3, .flags = WRITE_MORE | CMD_KEY_ONLY, KEY_1, .needs_values = set_needs_values, .since = "1.0.0",
     .summary = "Sets the string value of a key, ignoring its type. The key is created if it doesn't exist.",
     .args = "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]"},
    {.name = "setex", .fn = cmd_setex, .arity = 4, .flags = WRITE_MORE | CMD_KEY_ONLY, KEY_1, .since = "2.0.0",
     .summary = "Sets the string value and expiration time of a key. Creates the key if it doesn't exist.",
     .args = "key seconds value"},
    {.name = "setnx", .fn = cmd_setnx, .arity = 3, .flags = WRITE_MORE_FAST | CMD_KEY_ONLY, KEY_1, .since = "1.0.0",
     .summary = "Set the string value of a key only when the key doesn't exist.", .args = "key value"},
    {.name = "setrange", .fn = cmd_setrange, .arity = 4, .flags = WRITE_MORE, KEY_1, .since = "2.2.0",
     .summary = "Overwrites a part of a string value with another by an offset. Creates the key if it doesn't exist.",
     .args = "key offset value"},
    {.name = "strlen", .fn = cmd_strlen, .arity = 2, .flags = READ_FAST, KEY_1, .since = "2.2.0",
     .summary = "Returns the length of a string value.", .args = "key"},
    {.name = "substr", .fn = cmd_getrange, .arity = 4, .flags = CMD_READONLY, KEY_1, .since = "1.0.0",
     .summary = "Returns a substring from a string value.", .args = "key start end"},
};

const struct command_family strings_family = COMMAND_FAMILY(rows);
