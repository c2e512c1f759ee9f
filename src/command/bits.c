/* Bitmaps: SETBIT GETBIT BITCOUNT BITPOS BITOP, and BITFIELD, which sees a string as numbers of any width. */
#include "base/mem.h"
#include "base/num.h"
#include "command/bitmap.h"
#include "command/families.h"

enum { STRING_BYTES_MAX = 512 << 20 }; /* proto-max-bulk-len */

/* "#n" counts in numbers of field_bits; with field_bits 0 only bits are understood. Answers the error itself. */
static bool read_offset(struct exec *x, struct slice arg, unsigned field_bits, uint64_t *bit)
{
    int64_t v;
    bool in_fields = field_bits > 0 && arg.n > 0 && arg.p[0] == '#';
    if (in_fields) arg = slice_of(arg.p + 1, arg.n - 1);
    bool ok = num_parse_i64(arg, &v) && v >= 0;
    if (ok && in_fields) ok = !__builtin_mul_overflow(v, (int64_t)field_bits, &v);
    if (!ok || v / 8 >= STRING_BYTES_MAX) {
        reply_error(&x->out, "ERR bit offset is not an integer or out of range");
        return false;
    }
    *bit = (uint64_t)v;
    return true;
}

static struct slice value_at(const struct place *at) { return at->e ? entry_value(at->e) : SLICE(""); }

static void write_bytes(struct exec *x, struct place *at, uint64_t offset, const char *bytes, size_t n)
{
    exec_apply(x, &(struct op){.kind = OP_WRITE_RANGE, .index = (int64_t)offset, .value = slice_of(bytes, n)}, at);
}

static void setbit(struct exec *x)
{
    uint64_t bit;
    struct place at;
    struct slice on = x->argv[3];
    if (!read_offset(x, x->argv[2], 0, &bit)) return;
    if (on.n != 1 || (on.p[0] != '0' && on.p[0] != '1')) {
        reply_error(&x->out, "ERR bit is not an integer or out of range");
        return;
    }
    if (!exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    struct slice value = value_at(&at);
    bool old = bitmap_get(value, bit), new = on.p[0] == '1';
    if (bit / 8 >= value.n || old != new) {
        char window[BITMAP_WINDOW];
        write_bytes(x, &at, bit / 8, window, bitmap_write(value, bit, 1, new, window));
        exec_notify(x, NOTIFY_STRING, "setbit", x->argv[1]);
    }
    reply_int(&x->out, old);
}

static void getbit(struct exec *x)
{
    uint64_t bit;
    struct place at;
    if (!read_offset(x, x->argv[2], 0, &bit) || !exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    reply_int(&x->out, bitmap_get(value_at(&at), bit));
}

/* ---- ranges of BITCOUNT and BITPOS: `start end [BYTE | BIT]` from argument `first` on, each optional */

struct range {
    int64_t start, end;
    bool end_given, in_bits;
};

static bool read_range(struct exec *x, uint32_t first, struct range *r)
{
    *r = (struct range){.start = 0, .end = -1};
    if (x->argc > first + 3) {
        exec_syntax(x);
        return false;
    }
    if (x->argc == first + 3) {
        r->in_bits = slice_is(x->argv[first + 2], "bit");
        if (!r->in_bits && !slice_is(x->argv[first + 2], "byte")) {
            exec_syntax(x);
            return false;
        }
    }
    if (x->argc > first && !exec_arg_i64(x, x->argv[first], &r->start)) return false;
    r->end_given = x->argc > first + 1;
    return !r->end_given || exec_arg_i64(x, x->argv[first + 1], &r->end);
}

/* The range as bits [*from, *to) of a string of n bytes; false if it is empty. */
static bool range_bits(const struct range *r, size_t n, uint64_t *from, uint64_t *to)
{
    int64_t unit = r->in_bits ? 1 : 8, total = (int64_t)n * 8 / unit, start = r->start, end = r->end;
    if (start < 0) start = start < -total ? 0 : total + start;
    if (end < 0) end = end < -total ? 0 : total + end;
    if (end >= total) end = total - 1;
    if (start > end) return false;
    *from = (uint64_t)(start * unit);
    *to = (uint64_t)((end + 1) * unit);
    return true;
}

static void bitcount(struct exec *x)
{
    struct range r;
    struct place at;
    uint64_t from, to;
    if (!read_range(x, 2, &r) || !exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    struct slice value = value_at(&at);
    /* Counted from the end the wrong way round is nothing, even where both ends would be cut to the first byte. (BITPOS does look at that one.) */
    bool reversed = r.start < 0 && r.end < 0 && r.start > r.end;
    bool any = !reversed && range_bits(&r, value.n, &from, &to);
    reply_int(&x->out, any ? (int64_t)bitmap_count(value, from, to) : 0);
}

static void bitpos(struct exec *x)
{
    struct range r;
    struct place at;
    int64_t bit;
    uint64_t from, to;
    if (!exec_arg_i64(x, x->argv[2], &bit)) return;
    if (bit != 0 && bit != 1) {
        reply_error(&x->out, "ERR The bit argument must be 1 or 0.");
        return;
    }
    if (!read_range(x, 3, &r) || !exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    if (!at.e) {
        reply_int(&x->out, bit ? -1 : 0);
        return;
    }
    struct slice value = value_at(&at);
    int64_t found = -1;
    if (range_bits(&r, value.n, &from, &to)) {
        found = bitmap_find(value, bit, from, to);
        /* Without an end the string goes on with zeros for ever. */
        if (found < 0 && !bit && !r.end_given) found = (int64_t)to;
    }
    reply_int(&x->out, found);
}

/* ---- BITOP */

/* acc op= value; the shorter one goes on with zeros. */
static void combine(enum bitmap_op op, struct buf *acc, struct slice value)
{
    if (value.n > acc->len) {
        size_t more = value.n - acc->len;
        memset(buf_room(acc, more), 0, more);
        acc->len = value.n;
    }
    bitmap_combine(op, acc->p, value.p, value.n);
    if (op == BITMAP_AND && acc->len > value.n) memset(acc->p + value.n, 0, acc->len - value.n);
}

static bool combine_sources(struct exec *x, enum bitmap_op op, struct buf *acc)
{
    for (uint32_t i = 3; i < x->argc; i++) {
        struct place at;
        if (!exec_find_type(x, x->argv[i], TYPE_STRING, &at)) return false;
        if (i == 3) buf_add_slice(acc, value_at(&at));
        else combine(op, acc, value_at(&at));
    }
    return true;
}

static void store_result(struct exec *x, struct slice dest, struct slice result)
{
    struct place at;
    exec_peek(x, dest, &at);
    if (result.n > 0) {
        exec_set(x, &at, result, 0);
        exec_notify(x, NOTIFY_STRING, "set", dest);
    } else if (at.e) {
        exec_del(x, &at);
        exec_notify(x, NOTIFY_GENERIC, "del", dest);
    }
}

static void bitop(struct exec *x)
{
    enum bitmap_op op = BITMAP_OR;
    bool not = slice_is(x->argv[1], "not");
    if (slice_is(x->argv[1], "and")) op = BITMAP_AND;
    else if (slice_is(x->argv[1], "xor")) op = BITMAP_XOR;
    else if (!not && !slice_is(x->argv[1], "or")) {
        exec_syntax(x);
        return;
    }
    if (not && x->argc != 4) {
        reply_error(&x->out, "ERR BITOP NOT must be called with a single source key.");
        return;
    }
    struct buf acc = {0};
    if (combine_sources(x, op, &acc)) {
        if (not) bitmap_invert(acc.p, acc.len);
        store_result(x, x->argv[2], buf_slice(&acc));
        reply_int(&x->out, (int64_t)acc.len);
    }
    buf_fini(&acc);
}

/* ---- BITFIELD */

enum overflow { OVERFLOW_WRAP, OVERFLOW_SAT, OVERFLOW_FAIL };

struct field_op {
    enum { FIELD_GET, FIELD_SET, FIELD_INCRBY } kind;
    enum overflow overflow;
    bool is_signed;
    unsigned bits;
    uint64_t at; /* first bit */
    int64_t value;
};

static bool read_field_type(struct exec *x, struct slice arg, struct field_op *op)
{
    int64_t bits;
    op->is_signed = arg.n > 0 && arg.p[0] == 'i';
    bool ok = arg.n > 1 && (op->is_signed || arg.p[0] == 'u') && num_parse_i64(slice_of(arg.p + 1, arg.n - 1), &bits);
    if (!ok || bits < 1 || bits > (op->is_signed ? 64 : 63)) {
        reply_error(&x->out, "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");
        return false;
    }
    op->bits = (unsigned)bits;
    return true;
}

static bool read_overflow(struct exec *x, struct slice arg, enum overflow *overflow)
{
    static const char *const names[] = {"wrap", "sat", "fail"};
    for (unsigned i = 0; i < 3; i++)
        if (slice_is(arg, names[i])) {
            *overflow = (enum overflow)i;
            return true;
        }
    reply_error(&x->out, "ERR Invalid OVERFLOW type specified");
    return false;
}

/* Reads the operation at argument *i and moves on; OVERFLOW is none, but changes those that follow. */
static bool read_field_op(struct exec *x, uint32_t *i, enum overflow overflow, struct field_op *op)
{
    uint32_t left = x->argc - *i - 1;
    struct slice name = x->argv[*i];
    op->overflow = overflow;
    op->value = 0;
    if (slice_is(name, "get") && left >= 2) op->kind = FIELD_GET;
    else if (slice_is(name, "set") && left >= 3) op->kind = FIELD_SET;
    else if (slice_is(name, "incrby") && left >= 3) op->kind = FIELD_INCRBY;
    else {
        exec_syntax(x);
        return false;
    }
    if (!read_field_type(x, x->argv[*i + 1], op) || !read_offset(x, x->argv[*i + 2], op->bits, &op->at)) return false;
    if (op->kind != FIELD_GET && !exec_arg_i64(x, x->argv[*i + 3], &op->value)) return false;
    *i += op->kind == FIELD_GET ? 3 : 4;
    return true;
}

/* ops has room for one per three arguments. Gives how many there are, or -1 after answering an error. *write_end: bytes that writing needs. */
static int read_field_ops(struct exec *x, struct field_op *ops, uint64_t *write_end)
{
    enum overflow overflow = OVERFLOW_WRAP;
    int n = 0;
    *write_end = 0;
    for (uint32_t i = 2; i < x->argc;) {
        if (slice_is(x->argv[i], "overflow") && i + 1 < x->argc) {
            if (!read_overflow(x, x->argv[i + 1], &overflow)) return -1;
            i += 2;
            continue;
        }
        struct field_op *op = &ops[n];
        if (!read_field_op(x, &i, overflow, op)) return -1;
        uint64_t end = (op->at + op->bits + 7) / 8;
        if (op->kind != FIELD_GET && end > *write_end) *write_end = end;
        n++;
    }
    return n;
}

static int64_t field_value(const struct field_op *op, struct slice value)
{
    uint64_t v = bitmap_read(value, op->at, op->bits);
    unsigned spare = 64 - op->bits;
    return op->is_signed ? (int64_t)(v << spare) >> spare : (int64_t)v;
}

/* What becomes of a result that may not fit, as it will be read back; false: the operation fails and changes nothing. */
static bool field_fit(const struct field_op *op, __int128 wanted, int64_t *result)
{
    __int128 max = ((__int128)1 << (op->bits - op->is_signed)) - 1, min = op->is_signed ? -max - 1 : 0;
    if (wanted < min || wanted > max) {
        if (op->overflow == OVERFLOW_FAIL) return false;
        if (op->overflow == OVERFLOW_SAT) wanted = wanted > max ? max : min;
    }
    uint64_t low = (uint64_t)wanted << (64 - op->bits);
    *result = op->is_signed ? (int64_t)low >> (64 - op->bits) : (int64_t)(low >> (64 - op->bits));
    return true;
}

static void run_field_op(struct exec *x, const struct field_op *op, struct place *at)
{
    struct slice value = value_at(at);
    int64_t old = field_value(op, value), result;
    if (op->kind == FIELD_GET) {
        reply_int(&x->out, old);
        return;
    }
    /* An unsigned field takes a negative number as the large one with the same bits: too large. */
    __int128 given = op->is_signed || op->kind == FIELD_INCRBY ? (__int128)op->value : (__int128)(uint64_t)op->value;
    if (!field_fit(op, op->kind == FIELD_SET ? given : old + given, &result)) {
        reply_null(&x->out);
        return;
    }
    if (result != old) {
        char window[BITMAP_WINDOW];
        unsigned n = bitmap_write(value, op->at, op->bits, (uint64_t)result, window);
        write_bytes(x, at, op->at / 8, window, n);
    }
    reply_int(&x->out, op->kind == FIELD_SET ? old : result);
}

static void run_field_ops(struct exec *x, const struct field_op *ops, int n, uint64_t write_end)
{
    struct place at;
    if (!exec_find_type(x, x->argv[1], TYPE_STRING, &at)) return;
    uint64_t ops_before = x->ops;
    reply_array(&x->out, (size_t)n);
    for (int i = 0; i < n; i++) run_field_op(x, &ops[i], &at);
    /* The string grows to what all writes need, even if they failed or wrote zeros: the length never depends on values. */
    if (write_end > value_at(&at).n) write_bytes(x, &at, write_end - 1, "", 1);
    if (x->ops != ops_before) exec_notify(x, NOTIFY_STRING, "setbit", x->argv[1]);
}

static void bitfield(struct exec *x)
{
    uint64_t write_end;
    struct field_op *ops = mem_alloc((x->argc / 3 + 1) * sizeof *ops);
    int n = read_field_ops(x, ops, &write_end);
    if (n >= 0) {
        if (write_end > 0 && x->cmd->flags & CMD_READONLY) reply_error(&x->out, "ERR BITFIELD_RO only supports the GET subcommand");
        else run_field_ops(x, ops, n, write_end);
    }
    mem_free(ops);
}

static const struct command rows[] = {
    {"setbit", setbit, 4, CLASS_KEYED, CMD_WRITE | CMD_DENYOOM, 1, 1, 1, .group = "bitmap", .since = "2.2.0",
     .summary = "Sets or clears the bit at offset of the string value. Creates the key if it doesn't exist.", .args = "key offset value"},
    {"getbit", getbit, 3, CLASS_KEYED, CMD_READONLY | CMD_FAST, 1, 1, 1, .group = "bitmap", .since = "2.2.0",
     .summary = "Returns a bit value by offset.", .args = "key offset"},
    {"bitcount", bitcount, -2, CLASS_KEYED, CMD_READONLY, 1, 1, 1, .group = "bitmap", .since = "2.6.0",
     .summary = "Counts the number of set bits (population counting) in a string.", .args = "key [start [end [BYTE | BIT]]]"},
    {"bitpos", bitpos, -3, CLASS_KEYED, CMD_READONLY, 1, 1, 1, .group = "bitmap", .since = "2.8.7",
     .summary = "Finds the first set (1) or clear (0) bit in a string.", .args = "key bit [start [end [BYTE | BIT]]]"},
    {"bitop", bitop, -4, CLASS_KEYED, CMD_WRITE | CMD_DENYOOM, 2, -1, 1, .group = "bitmap", .since = "2.6.0",
     .summary = "Performs bitwise operations on multiple strings, and stores the result.", .args = "<AND | OR | XOR | NOT> destkey key [key ...]"},
    {"bitfield", bitfield, -2, CLASS_KEYED, CMD_WRITE | CMD_DENYOOM, 1, 1, 1, .group = "bitmap", .since = "3.2.0",
     .summary = "Performs arbitrary bitfield integer operations on strings.",
     .args = "key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding offset increment> ...]"},
    {"bitfield_ro", bitfield, -2, CLASS_KEYED, CMD_READONLY | CMD_FAST, 1, 1, 1, .group = "bitmap", .since = "6.0.0",
     .summary = "Performs arbitrary read-only bitfield integer operations on strings.", .args = "key [GET encoding offset [GET encoding offset ...]]"},
};
const struct command_family bits_family = COMMAND_FAMILY(rows);
