/* Hash commands: HSET, HGET, HINCRBY, HRANDFIELD, HSCAN and their kin. */
#include <math.h>

#include "base/num.h"
#include "command/families.h"
#include "command/inscan.h"
#include "command/sample.h"
#include "store/hash.h"

/* ---- writing */

static int64_t apply_items(struct exec *x, enum op_kind kind, struct place *at, const struct slice *items, uint32_t n)
{
    struct op op = {.kind = kind, .items = items, .n_items = n};
    return exec_apply(x, &op, at);
}

/* HSET and HMSET: the same change; false if the error has been answered. */
static bool set_fields(struct exec *x, int64_t *added)
{
    struct place at;
    if (x->argc % 2) {
        exec_wrong_arity(x);
        return false;
    }
    if (!exec_find_type(x, x->argv[1], TYPE_HASH, &at)) return false;
    *added = apply_items(x, OP_HASH_SET, &at, x->argv + 2, x->argc - 2);
    exec_notify(x, NOTIFY_HASH, "hset", x->argv[1]);
    return true;
}

static void hset(struct exec *x)
{
    int64_t added;
    if (set_fields(x, &added)) reply_int(&x->out, added);
}

static void hmset(struct exec *x)
{
    int64_t added;
    if (set_fields(x, &added)) reply_ok(&x->out);
}

static void hsetnx(struct exec *x)
{
    struct place at;
    struct slice old;
    if (!exec_find_type(x, x->argv[1], TYPE_HASH, &at)) return;
    if (at.e && hash_get(at.e, x->argv[2], &old)) {
        reply_int(&x->out, 0);
        return;
    }
    apply_items(x, OP_HASH_SET, &at, x->argv + 2, 2);
    exec_notify(x, NOTIFY_HASH, "hset", x->argv[1]);
    reply_int(&x->out, 1);
}

/* A write that would change nothing makes no op: nobody who watches the key is disturbed, nothing is logged. */
static bool any_field_there(const struct exec *x, const struct entry *e)
{
    struct slice value;
    for (uint32_t i = 2; i < x->argc; i++)
        if (hash_get(e, x->argv[i], &value)) return true;
    return false;
}

static void hdel(struct exec *x)
{
    struct place at;
    if (!exec_find_type(x, x->argv[1], TYPE_HASH, &at)) return;
    if (!at.e || !any_field_there(x, at.e)) {
        reply_int(&x->out, 0);
        return;
    }
    int64_t removed = apply_items(x, OP_HASH_DEL, &at, x->argv + 2, x->argc - 2);
    exec_notify(x, NOTIFY_HASH, "hdel", x->argv[1]);
    if (!at.e) exec_notify(x, NOTIFY_GENERIC, "del", x->argv[1]);
    reply_int(&x->out, removed);
}

static void write_number(struct exec *x, struct place *at, struct slice text, const char *event)
{
    apply_items(x, OP_HASH_SET, at, (struct slice[]){x->argv[2], text}, 2);
    exec_notify(x, NOTIFY_HASH, event, x->argv[1]);
}

static void hincrby(struct exec *x)
{
    struct place at;
    struct slice old;
    int64_t by, value = 0;
    if (!exec_arg_i64(x, x->argv[3], &by) || !exec_find_type(x, x->argv[1], TYPE_HASH, &at)) return;
    if (at.e && hash_get(at.e, x->argv[2], &old) && !num_parse_i64(old, &value)) {
        reply_error(&x->out, "ERR hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(value, by, &value)) {
        reply_error(&x->out, "ERR increment or decrement would overflow");
        return;
    }
    char text[NUM_I64_MAX_CHARS];
    write_number(x, &at, slice_of(text, num_format_i64(text, value)), "hincrby");
    reply_int(&x->out, value);
}

static void hincrbyfloat(struct exec *x)
{
    struct place at;
    struct slice old;
    long double by, value = 0;
    if (!num_parse_f80(x->argv[3], &by)) {
        reply_error(&x->out, reply_notfloat);
        return;
    }
    if (isnan(by) || isinf(by)) {
        reply_error(&x->out, "ERR value is NaN or Infinity");
        return;
    }
    if (!exec_find_type(x, x->argv[1], TYPE_HASH, &at)) return;
    if (at.e && hash_get(at.e, x->argv[2], &old) && !num_parse_f80(old, &value)) {
        reply_error(&x->out, "ERR hash value is not a float");
        return;
    }
    value += by;
    if (isnan(value) || isinf(value)) {
        reply_error(&x->out, "ERR increment would produce NaN or Infinity");
        return;
    }
    char text[5120];
    struct slice result = slice_of(text, num_format_f80(text, sizeof text, value));
    write_number(x, &at, result, "hincrbyfloat");
    reply_bulk(&x->out, result);
}

/* ---- reading fields */

static void reply_field(struct exec *x, const struct entry *e, struct slice field)
{
    struct slice value;
    if (e && hash_get(e, field, &value))
        reply_bulk(&x->out, value);
    else
        reply_null(&x->out);
}

static void hget(struct exec *x)
{
    struct place at;
    if (exec_find_type(x, x->argv[1], TYPE_HASH, &at)) reply_field(x, at.e, x->argv[2]);
}

static void hmget(struct exec *x)
{
    struct place at;
    if (!exec_find_type(x, x->argv[1], TYPE_HASH, &at)) return;
    reply_array(&x->out, x->argc - 2);
    for (uint32_t i = 2; i < x->argc; i++) reply_field(x, at.e, x->argv[i]);
}

static void hexists(struct exec *x)
{
    struct place at;
    struct slice value;
    if (exec_find_type(x, x->argv[1], TYPE_HASH, &at)) reply_int(&x->out, at.e && hash_get(at.e, x->argv[2], &value));
}

static void hstrlen(struct exec *x)
{
    struct place at;
    struct slice value;
    if (!exec_find_type(x, x->argv[1], TYPE_HASH, &at)) return;
    reply_int(&x->out, at.e && hash_get(at.e, x->argv[2], &value) ? (int64_t)value.n : 0);
}

static void hlen(struct exec *x)
{
    struct place at;
    if (exec_find_type(x, x->argv[1], TYPE_HASH, &at)) reply_int(&x->out, at.e ? (int64_t)hash_len(at.e) : 0);
}

/* ---- reading all */

enum part { FIELDS = 1, VALUES = 2 };

static void reply_pair(struct exec *x, struct slice field, struct slice value, unsigned parts)
{
    if (parts & FIELDS) reply_bulk(&x->out, field);
    if (parts & VALUES) reply_bulk(&x->out, value);
}

static void reply_all(struct exec *x, unsigned parts)
{
    struct place at;
    if (!exec_find_type(x, x->argv[1], TYPE_HASH, &at)) return;
    size_t n = at.e ? hash_len(at.e) : 0;
    if (parts == (FIELDS | VALUES))
        reply_map(&x->out, n);
    else
        reply_array(&x->out, n);
    if (n == 0) return;

    struct hash_iter it;
    struct slice field, value;
    hash_iter_init(&it, at.e);
    while (hash_iter_next(&it, &field, &value)) reply_pair(x, field, value, parts);
}

static void hgetall(struct exec *x) { reply_all(x, FIELDS | VALUES); }
static void hkeys(struct exec *x) { reply_all(x, FIELDS); }
static void hvals(struct exec *x) { reply_all(x, VALUES); }

/* ---- random fields */

/* One pick of HRANDFIELD with a count: in RESP3 a field and its value are an array of their own. */
static void reply_pick(struct exec *x, struct slice field, struct slice value, unsigned parts)
{
    if (x->out.resp == 3 && parts & VALUES) reply_array(&x->out, 2);
    reply_pair(x, field, value, parts);
}

static void open_picks(struct exec *x, uint64_t n, unsigned parts)
{
    reply_array(&x->out, x->out.resp == 2 && parts & VALUES ? n * 2 : n);
}

static void pick_repeating(struct exec *x, const struct entry *e, uint64_t n, unsigned parts)
{
    struct slice field, value;
    open_picks(x, n, parts);
    while (n-- > 0 && hash_random(e, rng_u64(x->rng), &field, &value)) reply_pick(x, field, value, parts);
}

static void pick_by_walking(struct exec *x, const struct entry *e, uint64_t want, unsigned parts)
{
    struct hash_iter it;
    struct slice field, value;
    uint64_t left = hash_len(e);
    hash_iter_init(&it, e);
    while (want && hash_iter_next(&it, &field, &value))
        if (sample_take(x->rng, &want, &left)) reply_pick(x, field, value, parts);
}

/* Nothing changes meanwhile, so a field is the same field exactly if it stands at the same address. */
static void pick_by_drawing(struct exec *x, const struct entry *e, uint64_t want, unsigned parts)
{
    struct sample_seen seen;
    struct slice field, value;
    sample_seen_init(&seen, want);
    while (want && hash_random(e, rng_u64(x->rng), &field, &value)) {
        if (!sample_seen_add(&seen, field.p)) continue;
        reply_pick(x, field, value, parts);
        want--;
    }
    sample_seen_fini(&seen);
}

static void pick_distinct(struct exec *x, const struct entry *e, uint64_t want, unsigned parts)
{
    uint64_t n = hash_len(e);
    if (want > n) want = n;
    open_picks(x, want, parts);
    if (entry_encoding(e) == ENC_TABLE && sample_by_drawing(want, n))
        pick_by_drawing(x, e, want, parts);
    else
        pick_by_walking(x, e, want, parts);
}

/* `HRANDFIELD key count [WITHVALUES]`: the two arguments, checked in the order of Redis. */
static bool read_pick_args(struct exec *x, int64_t *count, unsigned *parts)
{
    if (!exec_arg_i64(x, x->argv[2], count)) return false;
    if (*count == INT64_MIN) {
        reply_errorf(&x->out, "ERR value is out of range, value must between %lld and %lld", (long long)-INT64_MAX, (long long)INT64_MAX);
        return false;
    }
    *parts = FIELDS;
    if (x->argc > 4 || (x->argc == 4 && !slice_is(x->argv[3], "withvalues"))) {
        exec_syntax(x);
        return false;
    }
    if (x->argc == 4) *parts |= VALUES;
    if (*count < -SAMPLE_REPEAT_MAX || (x->argc == 4 && *count > INT64_MAX / 2)) {
        reply_error(&x->out, "ERR value is out of range");
        return false;
    }
    return true;
}

static void hrandfield_count(struct exec *x)
{
    struct place at;
    int64_t count;
    unsigned parts;
    if (!read_pick_args(x, &count, &parts) || !exec_find_type(x, x->argv[1], TYPE_HASH, &at)) return;
    if (!at.e || count == 0)
        reply_array(&x->out, 0);
    else if (count < 0)
        pick_repeating(x, at.e, (uint64_t)-count, parts);
    else
        pick_distinct(x, at.e, (uint64_t)count, parts);
}

static void hrandfield(struct exec *x)
{
    struct place at;
    struct slice field, value;
    if (x->argc > 2) {
        hrandfield_count(x);
        return;
    }
    if (!exec_find_type(x, x->argv[1], TYPE_HASH, &at)) return;
    if (at.e && hash_random(at.e, rng_u64(x->rng), &field, &value))
        reply_bulk(&x->out, field);
    else
        reply_null(&x->out);
}

/* ---- HSCAN */

static void visit_field(void *ctx, struct slice field, struct slice value)
{
    struct inscan *s = ctx;
    if (!inscan_wants(s, field)) return;
    inscan_add(s, field);
    if (!s->names_only) inscan_add(s, value);
}

static void hscan(struct exec *x)
{
    struct inscan s;
    if (!inscan_begin(x, &s, TYPE_HASH)) return;
    hash_scan(s.e, &s.cursor, s.want, visit_field, &s);
    inscan_end(x, &s);
}

/* ---- the rows */

enum {
    READ = CMD_READONLY,
    READ_FAST = CMD_READONLY | CMD_FAST,
    WRITE_MORE = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
    WRITE_LESS = CMD_WRITE | CMD_FAST,
};

#define HASH_ROW(name_, arity_, flags_, since_, args_, summary_) \
    {.name = #name_, .fn = name_, .arity = (arity_), .class = CLASS_KEYED, .flags = (flags_), .first_key = 1, .last_key = 1, .key_step = 1, \
     .group = "hash", .since = (since_), .args = (args_), .summary = (summary_)}

static const struct command rows[] = {
    HASH_ROW(hset, -4, WRITE_MORE, "2.0.0", "key field value [field value ...]", "Sets fields of a hash; answers how many are new."),
    HASH_ROW(hmset, -4, WRITE_MORE, "2.0.0", "key field value [field value ...]", "Sets fields of a hash; answers OK."),
    HASH_ROW(hsetnx, 4, WRITE_MORE, "2.0.0", "key field value", "Sets a field of a hash if it is not there yet."),
    HASH_ROW(hget, 3, READ_FAST, "2.0.0", "key field", "The value of a field."),
    HASH_ROW(hmget, -3, READ_FAST, "2.0.0", "key field [field ...]", "The values of several fields."),
    HASH_ROW(hdel, -3, WRITE_LESS, "2.0.0", "key field [field ...]", "Deletes fields; the hash goes with its last one."),
    HASH_ROW(hgetall, 2, READ, "2.0.0", "key", "All fields and values."),
    HASH_ROW(hkeys, 2, READ, "2.0.0", "key", "All fields."),
    HASH_ROW(hvals, 2, READ, "2.0.0", "key", "All values."),
    HASH_ROW(hlen, 2, READ_FAST, "2.0.0", "key", "The number of fields."),
    HASH_ROW(hexists, 3, READ_FAST, "2.0.0", "key field", "Whether a field is there."),
    HASH_ROW(hstrlen, 3, READ_FAST, "3.2.0", "key field", "The length of a field's value."),
    HASH_ROW(hincrby, 4, WRITE_MORE, "2.0.0", "key field increment", "Adds an integer to a field's value; a missing field counts as 0."),
    HASH_ROW(hincrbyfloat, 4, WRITE_MORE, "2.6.0", "key field increment", "Adds a number to a field's value; a missing field counts as 0."),
    HASH_ROW(hrandfield, -2, READ, "6.2.0", "key [count [WITHVALUES]]", "Random fields: distinct, or with repetition if count is negative."),
    HASH_ROW(hscan, -3, READ, "2.8.0", "key cursor [MATCH pattern] [COUNT count] [NOVALUES]", "Walks the fields and values in steps."),
};

const struct command_family hashes_family = COMMAND_FAMILY(rows);
