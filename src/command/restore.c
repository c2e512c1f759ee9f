/* DUMP and RESTORE: values as framed images (store/image.h). */
#include "command/families.h"
#include "store/evict.h"
#include "store/image.h"

static void dump(struct exec *x)
{
    struct place at;
    exec_find(x, x->argv[1], &at);
    if (!at.e) {
        reply_null(&x->out);
        return;
    }
    if (!exec_readable(x, &at)) return;
    struct buf image = {0};
    image_write(&image, at.e);
    image_seal(&image);
    reply_bulk(&x->out, buf_slice(&image));
    buf_fini(&image);
}

struct restore_options {
    bool replace, absolute;
    int64_t idle_s, freq; /* -1: not given */
};

/* Answers the error itself, as the other argument readers do. */
static bool read_number(struct exec *x, struct slice arg, int64_t max, const char *error, int64_t *v)
{
    if (!exec_arg_i64(x, arg, v)) return false;
    if (*v >= 0 && *v <= max) return true;
    reply_error(&x->out, error);
    return false;
}

static bool read_options(struct exec *x, struct restore_options *o)
{
    *o = (struct restore_options){.idle_s = -1, .freq = -1};
    for (uint32_t i = 4; i < x->argc; i++) {
        bool more = i + 1 < x->argc;
        if (slice_is(x->argv[i], "replace")) {
            o->replace = true;
        } else if (slice_is(x->argv[i], "absttl")) {
            o->absolute = true;
        } else if (slice_is(x->argv[i], "idletime") && more && o->freq == -1) {
            if (!read_number(x, x->argv[++i], INT64_MAX, "ERR Invalid IDLETIME value, must be >= 0", &o->idle_s)) return false;
        } else if (slice_is(x->argv[i], "freq") && more && o->idle_s == -1) {
            if (!read_number(x, x->argv[++i], 255, "ERR Invalid FREQ value, must be >= 0 and <= 255", &o->freq)) return false;
        } else {
            exec_syntax(x);
            return false;
        }
    }
    return true;
}

/* *expiry_ms: 0 for none. */
static bool read_expiry(struct exec *x, const struct restore_options *o, int64_t *expiry_ms)
{
    if (!read_number(x, x->argv[2], INT64_MAX, "ERR Invalid TTL value, must be >= 0", expiry_ms)) return false;
    if (*expiry_ms == 0 || o->absolute) return true;
    if (!__builtin_add_overflow(*expiry_ms, x->now_ms, expiry_ms)) return true;
    reply_error(&x->out, "ERR invalid expire time in 'restore' command");
    return false;
}

/* IDLETIME counts only where the policy looks at idle times, FREQ only where it counts accesses. */
static void set_access(struct exec *x, const struct restore_options *o, struct place *at)
{
    bool lfu = at->store->limits->lfu;
    if (lfu && o->freq >= 0) entry_set_access(at->e, evict_access_of_freq(x->now_ms, (uint8_t)o->freq));
    if (!lfu && o->idle_s >= 0) entry_set_access(at->e, evict_access_of_idle(x->now_ms, o->idle_s));
}

static void restore(struct exec *x)
{
    struct restore_options o;
    struct place at;
    struct slice image;
    int64_t expiry_ms;
    if (!read_options(x, &o)) return;
    exec_peek(x, x->argv[1], &at);
    if (at.e && !o.replace) {
        reply_error(&x->out, "BUSYKEY Target key name already exists.");
        return;
    }
    if (!read_expiry(x, &o, &expiry_ms)) return;
    if (!image_unseal(x->argv[3], &image)) {
        reply_error(&x->out, "ERR DUMP payload version or checksum are wrong");
        return;
    }
    if (!image_valid(image)) {
        reply_error(&x->out, "ERR Bad data format");
        return;
    }
    if (expiry_ms && expiry_ms <= x->now_ms) {
        /* A value that is over already is never there, but what it replaces goes. */
        if (at.e) {
            exec_del(x, &at);
            exec_notify(x, NOTIFY_GENERIC, "del", x->argv[1]);
        }
        reply_ok(&x->out);
        return;
    }
    exec_apply(x, &(struct op){.kind = OP_RESTORE, .value = image, .expiry_ms = expiry_ms}, &at);
    set_access(x, &o, &at);
    exec_notify(x, NOTIFY_GENERIC, "restore", x->argv[1]);
    reply_ok(&x->out);
}

static const struct command rows[] = {
    {"dump", dump, 2, CLASS_KEYED, CMD_READONLY, 1, 1, 1, .group = "generic", .since = "2.6.0",
     .summary = "Returns a serialized representation of the value stored at a key.", .args = "key"},
    {"restore", restore, -4, CLASS_KEYED, CMD_WRITE | CMD_DENYOOM | CMD_KEY_ONLY, 1, 1, 1, .group = "generic", .since = "2.6.0",
     .summary = "Creates a key from the serialized representation of a value.",
     .args = "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]"},
};
const struct command_family restore_family = COMMAND_FAMILY(rows);
