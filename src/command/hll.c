/* HyperLogLog: PFADD PFCOUNT PFMERGE, and PFDEBUG and PFSELFTEST for tests. The values are in hyll.c. */
#include <math.h>

#include "command/families.h"
#include "command/hyll.h"

static void corrupted(struct exec *x) { reply_error(&x->out, "INVALIDOBJ Corrupted HLL object detected"); }

/* Finds a key that is absent or a HyperLogLog; answers the error itself. */
static bool find(struct exec *x, struct slice key, struct place *at)
{
    if (!exec_find_type(x, key, TYPE_STRING, at)) return false;
    if (!at->e || hyll_is(entry_value(at->e))) return true;
    reply_error(&x->out, "WRONGTYPE Key is not a valid HyperLogLog string value.");
    return false;
}

/* hll-sparse-max-bytes, which CONFIG SET may change at any time. */
static size_t sparse_max(const struct place *at) { return __atomic_load_n(&at->store->limits->hll_sparse_bytes, __ATOMIC_RELAXED); }

/* A copy to work on: the key's value, or a new one. */
static struct buf copy_of(const struct place *at)
{
    struct buf v = {0};
    if (at->e) buf_add_slice(&v, entry_value(at->e));
    else hyll_new(&v);
    return v;
}

/* Makes the key's value the changed copy. A dense value changes in few places: only those are written, so that adding an element to one does not put
 * 12 KB into the log. */
static void store(struct exec *x, struct place *at, struct slice new)
{
    enum { GAP_MAX = 16 }; /* equal bytes between two changes that are not worth a new op */
    if (!at->e || entry_value(at->e).n != new.n) {
        exec_set_value(x, at, new);
        return;
    }
    for (size_t from = 0; from < new.n; from++) {
        struct slice old = entry_value(at->e);
        if (old.p[from] == new.p[from]) continue;
        size_t to = from + 1;
        for (size_t i = to; i < new.n && i - to < GAP_MAX; i++)
            if (old.p[i] != new.p[i]) to = i + 1;
        exec_apply(x, &(struct op){.kind = OP_WRITE_RANGE, .index = (int64_t)from, .value = slice_of(new.p + from, to - from)}, at);
        from = to;
    }
}

/* True if no element raises a register of a dense value: most calls for a value that has seen much, and no copy is needed to know. */
static bool dense_has_all(struct slice v, const struct slice *elements, uint32_t n)
{
    if (!hyll_dense(v)) return false;
    for (uint32_t i = 0; i < n; i++) {
        struct hyll_hit hit = hyll_hit(elements[i]);
        if (hyll_dense_get(v, hit.index) < hit.count) return false;
    }
    return true;
}

static void pfadd(struct exec *x)
{
    struct place at;
    if (!find(x, x->argv[1], &at)) return;
    if (at.e && dense_has_all(entry_value(at.e), x->argv + 2, x->argc - 2)) {
        reply_int(&x->out, 0);
        return;
    }
    struct buf v = copy_of(&at);
    bool changed = !at.e;
    int raised = 0;
    for (uint32_t i = 2; i < x->argc && raised >= 0; i++) {
        raised = hyll_raise(&v, hyll_hit(x->argv[i]), sparse_max(&at));
        changed |= raised > 0;
    }
    if (raised < 0) {
        corrupted(x);
    } else {
        if (changed) {
            hyll_cache_clear(&v);
            store(x, &at, buf_slice(&v));
            exec_notify(x, NOTIFY_STRING, "pfadd", x->argv[1]);
        }
        reply_int(&x->out, changed);
    }
    buf_fini(&v);
}

/* The maximum of each register over the keys from argument `first` on; *any_dense: one of them is dense. Answers errors itself. */
static bool merge_keys(struct exec *x, uint32_t first, uint8_t max[HYLL_REGISTERS], bool *any_dense)
{
    uint8_t registers[HYLL_REGISTERS];
    memset(max, 0, HYLL_REGISTERS);
    *any_dense = false;
    for (uint32_t i = first; i < x->argc; i++) {
        struct place at;
        if (!find(x, x->argv[i], &at)) return false;
        if (!at.e) continue;
        *any_dense |= hyll_dense(entry_value(at.e));
        if (!hyll_registers(entry_value(at.e), registers)) {
            corrupted(x);
            return false;
        }
        for (unsigned r = 0; r < HYLL_REGISTERS; r++) max[r] = registers[r] > max[r] ? registers[r] : max[r];
    }
    return true;
}

/* One key: the estimate is kept in the value for the next time, as Redis does. */
static void count_one(struct exec *x)
{
    uint8_t registers[HYLL_REGISTERS];
    char cache[HYLL_CACHE_BYTES];
    struct place at;
    uint64_t count = 0;
    if (!find(x, x->argv[1], &at)) return;
    if (at.e && !hyll_cached(entry_value(at.e), &count)) {
        if (!hyll_registers(entry_value(at.e), registers)) {
            corrupted(x);
            return;
        }
        count = hyll_estimate(registers);
        hyll_cache_bytes(count, cache);
        exec_apply(x, &(struct op){.kind = OP_WRITE_RANGE, .index = HYLL_CACHE_AT, .value = slice_of(cache, sizeof cache)}, &at);
    }
    reply_int(&x->out, (int64_t)count);
}

static void pfcount(struct exec *x)
{
    uint8_t max[HYLL_REGISTERS];
    bool any_dense;
    if (x->argc == 2) count_one(x);
    else if (merge_keys(x, 1, max, &any_dense)) reply_int(&x->out, (int64_t)hyll_estimate(max));
}

static bool raise_all(struct buf *v, const uint8_t max[HYLL_REGISTERS], size_t sparse_bytes)
{
    for (unsigned i = 0; i < HYLL_REGISTERS; i++)
        if (max[i] && hyll_raise(v, (struct hyll_hit){i, max[i]}, sparse_bytes) < 0) return false;
    return true;
}

static void pfmerge(struct exec *x)
{
    uint8_t max[HYLL_REGISTERS];
    bool any_dense;
    struct place at;
    if (!merge_keys(x, 1, max, &any_dense) || !find(x, x->argv[1], &at)) return;
    struct buf v = copy_of(&at);
    if ((any_dense && !hyll_to_dense(&v)) || !raise_all(&v, max, sparse_max(&at))) {
        corrupted(x);
    } else {
        hyll_cache_clear(&v);
        store(x, &at, buf_slice(&v));
        exec_notify(x, NOTIFY_STRING, "pfadd", x->argv[1]);
        reply_ok(&x->out);
    }
    buf_fini(&v);
}

/* ---- PFDEBUG */

static bool make_dense(struct exec *x, struct place *at)
{
    struct buf v = copy_of(at);
    bool ok = hyll_to_dense(&v);
    if (ok) store(x, at, buf_slice(&v));
    else corrupted(x);
    buf_fini(&v);
    return ok;
}

static void debug_getreg(struct exec *x, struct place *at)
{
    if (!make_dense(x, at)) return;
    reply_array(&x->out, HYLL_REGISTERS);
    for (unsigned i = 0; i < HYLL_REGISTERS; i++) reply_int(&x->out, hyll_dense_get(entry_value(at->e), i));
}

static void debug_decode(struct exec *x, struct place *at)
{
    struct buf text = {0};
    if (hyll_dense(entry_value(at->e))) reply_error(&x->out, "ERR HLL encoding is not sparse");
    else if (!hyll_describe(entry_value(at->e), &text)) corrupted(x);
    else reply_bulk(&x->out, buf_slice(&text));
    buf_fini(&text);
}

static void debug_encoding(struct exec *x, struct place *at)
{
    reply_simple(&x->out, hyll_dense(entry_value(at->e)) ? "dense" : "sparse");
}

static void debug_todense(struct exec *x, struct place *at)
{
    bool sparse = !hyll_dense(entry_value(at->e));
    if (!sparse || make_dense(x, at)) reply_int(&x->out, sparse);
}

static void pfdebug(struct exec *x)
{
    static const struct {
        const char *name;
        void (*fn)(struct exec *x, struct place *at);
    } subcommands[] = {{"getreg", debug_getreg}, {"decode", debug_decode}, {"encoding", debug_encoding}, {"todense", debug_todense}};
    struct place at;
    if (!find(x, x->argv[2], &at)) return;
    if (!at.e) {
        reply_error(&x->out, "ERR The specified key does not exist");
        return;
    }
    struct slice name = x->argv[1];
    for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++) {
        if (!slice_is(name, subcommands[i].name)) continue;
        subcommands[i].fn(x, &at);
        return;
    }
    reply_errorf(&x->out, "ERR Unknown PFDEBUG subcommand '%.*s'", (int)(name.n < 128 ? name.n : 128), name.p);
}

/* ---- PFSELFTEST: a sparse and a dense value count the same elements; they must agree, and be right within six standard errors. */

static bool selftest_step(struct exec *x, struct buf *sparse, struct buf *dense, uint64_t element)
{
    struct hyll_hit hit = hyll_hit(slice_of(&element, sizeof element));
    if (hyll_raise(sparse, hit, HYLL_SPARSE_MAX) == hyll_raise(dense, hit, HYLL_SPARSE_MAX)) return true;
    reply_error(&x->out, "TESTFAILED Sparse and dense registers differ");
    return false;
}

static bool selftest_estimate(struct exec *x, struct slice sparse, struct slice dense, uint64_t elements)
{
    uint8_t a[HYLL_REGISTERS], b[HYLL_REGISTERS];
    if (!hyll_registers(sparse, a) || !hyll_registers(dense, b) || memcmp(a, b, sizeof a) != 0) {
        reply_error(&x->out, "TESTFAILED Sparse and dense registers differ");
        return false;
    }
    double error = fabs((double)hyll_estimate(a) - (double)elements);
    if (error <= ceil(6 * 1.04 / sqrt(HYLL_REGISTERS) * (double)elements)) return true;
    reply_errorf(&x->out, "TESTFAILED Too big error. card:%llu abserr:%.0f", (unsigned long long)elements, error);
    return false;
}

static void pfselftest(struct exec *x)
{
    enum { ELEMENTS = 100000 };
    struct buf sparse = {0}, dense = {0};
    uint64_t seed = rng_u64(x->rng), checkpoint = 10;
    bool ok = true;
    hyll_new(&sparse);
    hyll_new(&dense);
    hyll_to_dense(&dense);
    for (uint64_t i = 1; ok && i <= ELEMENTS; i++) {
        ok = selftest_step(x, &sparse, &dense, seed ^ i);
        if (ok && i == checkpoint) {
            ok = selftest_estimate(x, buf_slice(&sparse), buf_slice(&dense), i);
            checkpoint *= 10;
        }
    }
    if (ok) reply_ok(&x->out);
    buf_fini(&sparse);
    buf_fini(&dense);
}

static const struct command rows[] = {
    {"pfadd", pfadd, -2, CLASS_KEYED, CMD_WRITE | CMD_DENYOOM | CMD_FAST, 1, 1, 1, .group = "hyperloglog", .since = "2.8.9",
     .summary = "Adds elements to a HyperLogLog key. Creates the key if it doesn't exist.", .args = "key [element [element ...]]"},
    {"pfcount", pfcount, -2, CLASS_KEYED, CMD_READONLY, 1, -1, 1, .group = "hyperloglog", .since = "2.8.9",
     .summary = "Returns the approximated cardinality of the set(s) observed by the HyperLogLog key(s).", .args = "key [key ...]"},
    {"pfmerge", pfmerge, -2, CLASS_KEYED, CMD_WRITE | CMD_DENYOOM, 1, -1, 1, .group = "hyperloglog", .since = "2.8.9",
     .summary = "Merges one or more HyperLogLog values into a single key.", .args = "destkey [sourcekey [sourcekey ...]]"},
    {"pfdebug", pfdebug, 3, CLASS_KEYED, CMD_WRITE | CMD_DENYOOM | CMD_ADMIN, 2, 2, 1, .group = "hyperloglog", .since = "2.8.9",
     .summary = "Internal commands for debugging HyperLogLog values.", .args = "<GETREG | DECODE | ENCODING | TODENSE> key"},
    {"pfselftest", pfselftest, 1, CLASS_LOCAL, CMD_ADMIN, 0, 0, 0, .group = "hyperloglog", .since = "2.8.9",
     .summary = "An internal command for testing HyperLogLog values.", .args = ""},
};
const struct command_family hll_family = COMMAND_FAMILY(rows);
