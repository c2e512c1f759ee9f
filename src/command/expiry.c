/* How long keys live: EXPIRE, TTL and their kin. */
#include "command/command.h"
#include "command/families.h"

enum unit { UNIT_SECONDS, UNIT_MS };

struct condition {
    bool nx, xx, gt, lt;
};

static bool parse_condition(struct exec *x, struct condition *c)
{
    for (uint32_t i = 3; i < x->argc; i++) {
        struct slice word = x->argv[i];
        if (slice_is(word, "nx")) {
            c->nx = true;
        } else if (slice_is(word, "xx")) {
            c->xx = true;
        } else if (slice_is(word, "gt")) {
            c->gt = true;
        } else if (slice_is(word, "lt")) {
            c->lt = true;
        } else {
            reply_errorf(&x->out, "ERR Unsupported option %.*s", (int)(word.n < 128 ? word.n : 128), word.p);
            return false;
        }
    }
    if (c->nx && (c->xx || c->gt || c->lt)) {
        reply_error(&x->out, "ERR NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if (c->gt && c->lt) {
        reply_error(&x->out, "ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

/* now_ms 0: it never expires, which is later than any time. */
static bool allows(const struct condition *c, int64_t now_ms, int64_t then_ms)
{
    if (c->nx && now_ms != 0) return false;
    if (c->xx && now_ms == 0) return false;
    if (c->gt && (now_ms == 0 || then_ms <= now_ms)) return false;
    if (c->lt && now_ms != 0 && then_ms >= now_ms) return false;
    return true;
}

/* The absolute time of the argument. Times in the past are fine, times that no clock will show are not. */
static bool parse_time(struct exec *x, enum unit unit, int64_t base_ms, int64_t *ms)
{
    if (!exec_arg_i64(x, x->argv[2], ms)) return false;
    bool bad = unit == UNIT_SECONDS && __builtin_mul_overflow(*ms, 1000, ms);
    bad = bad || __builtin_add_overflow(*ms, base_ms, ms);
    if (bad) reply_errorf(&x->out, "ERR invalid expire time in '%s' command", x->cmd->name);
    return !bad;
}

static void set_expiry(struct exec *x, enum unit unit, int64_t base_ms)
{
    struct condition c = {0};
    struct place at;
    int64_t ms;
    if (!parse_condition(x, &c) || !parse_time(x, unit, base_ms, &ms)) return;
    exec_peek(x, x->argv[1], &at);
    if (!at.e || !allows(&c, entry_expiry_ms(at.e), ms)) {
        reply_int(&x->out, 0);
        return;
    }
    if (ms <= x->now_ms) {
        exec_del(x, &at);
        exec_notify(x, NOTIFY_GENERIC, "del", at.key);
    } else {
        exec_expire(x, &at, ms);
        exec_notify(x, NOTIFY_GENERIC, "expire", at.key);
    }
    reply_int(&x->out, 1);
}

static void cmd_expire(struct exec *x) { set_expiry(x, UNIT_SECONDS, x->now_ms); }
static void cmd_pexpire(struct exec *x) { set_expiry(x, UNIT_MS, x->now_ms); }
static void cmd_expireat(struct exec *x) { set_expiry(x, UNIT_SECONDS, 0); }
static void cmd_pexpireat(struct exec *x) { set_expiry(x, UNIT_MS, 0); }

/* To the nearest second, without a sum that could overflow. */
static int64_t in_unit(enum unit unit, int64_t ms) { return unit == UNIT_MS ? ms : ms / 1000 + (ms % 1000 >= 500); }

static void tell_expiry(struct exec *x, enum unit unit, bool absolute)
{
    struct place at;
    exec_peek(x, x->argv[1], &at);
    if (!at.e) {
        reply_int(&x->out, -2);
        return;
    }
    int64_t ms = entry_expiry_ms(at.e);
    if (ms == 0)
        reply_int(&x->out, -1);
    else if (absolute)
        reply_int(&x->out, in_unit(unit, ms));
    else
        reply_int(&x->out, ms > x->now_ms ? in_unit(unit, ms - x->now_ms) : 0);
}

static void cmd_ttl(struct exec *x) { tell_expiry(x, UNIT_SECONDS, false); }
static void cmd_pttl(struct exec *x) { tell_expiry(x, UNIT_MS, false); }
static void cmd_expiretime(struct exec *x) { tell_expiry(x, UNIT_SECONDS, true); }
static void cmd_pexpiretime(struct exec *x) { tell_expiry(x, UNIT_MS, true); }

static void cmd_persist(struct exec *x)
{
    struct place at;
    exec_peek(x, x->argv[1], &at);
    bool expires = at.e && entry_expiry_ms(at.e) != 0;
    if (expires) {
        exec_expire(x, &at, 0);
        exec_notify(x, NOTIFY_GENERIC, "persist", at.key);
    }
    reply_int(&x->out, expires);
}

#define KEY_1 .class = CLASS_KEYED, .first_key = 1, .last_key = 1, .key_step = 1, .group = "generic"
#define WRITE_FAST (CMD_WRITE | CMD_FAST)
#define READ_FAST (CMD_READONLY | CMD_FAST)

static const struct command rows[] = {
    {.name = "expire", .fn = cmd_expire, .arity = -3, .flags = WRITE_FAST | CMD_KEY_ONLY, KEY_1, .since = "1.0.0",
     .summary = "Sets the expiration time of a key in seconds.", .args = "key seconds [NX | XX | GT | LT]"},
    {.name = "expireat", .fn = cmd_expireat, .arity = -3, .flags = WRITE_FAST | CMD_KEY_ONLY, KEY_1, .since = "1.2.0",
     .summary = "Sets the expiration time of a key to a Unix timestamp.", .args = "key unix-time-seconds [NX | XX | GT | LT]"},
    {.name = "expiretime", .fn = cmd_expiretime, .arity = 2, .flags = READ_FAST | CMD_KEY_ONLY, KEY_1, .since = "7.0.0",
     .summary = "Returns the expiration time of a key as a Unix timestamp.", .args = "key"},
    {.name = "persist", .fn = cmd_persist, .arity = 2, .flags = WRITE_FAST | CMD_KEY_ONLY, KEY_1, .since = "2.2.0",
     .summary = "Removes the expiration time of a key.", .args = "key"},
    {.name = "pexpire", .fn = cmd_pexpire, .arity = -3, .flags = WRITE_FAST | CMD_KEY_ONLY, KEY_1, .since = "2.6.0",
     .summary = "Sets the expiration time of a key in milliseconds.", .args = "key milliseconds [NX | XX | GT | LT]"},
    {.name = "pexpireat", .fn = cmd_pexpireat, .arity = -3, .flags = WRITE_FAST | CMD_KEY_ONLY, KEY_1, .since = "2.6.0",
     .summary = "Sets the expiration time of a key to a Unix milliseconds timestamp.",
     .args = "key unix-time-milliseconds [NX | XX | GT | LT]"},
    {.name = "pexpiretime", .fn = cmd_pexpiretime, .arity = 2, .flags = READ_FAST | CMD_KEY_ONLY, KEY_1, .since = "7.0.0",
     .summary = "Returns the expiration time of a key as a Unix milliseconds timestamp.", .args = "key"},
    {.name = "pttl", .fn = cmd_pttl, .arity = 2, .flags = READ_FAST | CMD_KEY_ONLY, KEY_1, .since = "2.6.0",
     .summary = "Returns the expiration time in milliseconds of a key.", .args = "key"},
    {.name = "ttl", .fn = cmd_ttl, .arity = 2, .flags = READ_FAST | CMD_KEY_ONLY, KEY_1, .since = "1.0.0",
     .summary = "Returns the expiration time in seconds of a key.", .args = "key"},
};

const struct command_family expiry_family = COMMAND_FAMILY(rows);
