/* The textbook table: cell (i, j) is the length of the longest common subsequence of the first i bytes of a and the first j bytes of b.
 * Walking back from the last cell gives the subsequence from its end, and the runs where both strings go along together. */
#include "command/lcs.h"

#include "base/mem.h"
#include "command/command.h"

enum { TABLE_BYTES_MAX = 512 << 20 };

struct lcs {
    struct slice a, b;
    bool len, idx, with_len;
    int64_t min_len;
    uint32_t *cells;
};

static uint32_t *cell(const struct lcs *l, size_t i, size_t j) { return &l->cells[i * (l->b.n + 1) + j]; }

static bool parse_options(struct exec *x, struct lcs *l)
{
    for (uint32_t i = 3; i < x->argc; i++) {
        struct slice word = x->argv[i];
        if (slice_is(word, "idx")) {
            l->idx = true;
        } else if (slice_is(word, "len")) {
            l->len = true;
        } else if (slice_is(word, "withmatchlen")) {
            l->with_len = true;
        } else if (slice_is(word, "minmatchlen") && i + 1 < x->argc) {
            if (!exec_arg_i64(x, x->argv[++i], &l->min_len)) return false;
        } else {
            exec_syntax(x);
            return false;
        }
    }
    if (l->idx && l->len) {
        reply_error(&x->out, "ERR If you want both the length and indexes, please just use IDX.");
        return false;
    }
    return true;
}

static bool find_strings(struct exec *x, struct lcs *l)
{
    struct place a, b;
    exec_find(x, x->argv[1], &a);
    exec_find(x, x->argv[2], &b);
    /* A key that expired while it was looked up changed the database under the other one: now both stay as they are. */
    exec_peek(x, x->argv[1], &a);
    exec_peek(x, x->argv[2], &b);
    if ((a.e && entry_type(a.e) != TYPE_STRING) || (b.e && entry_type(b.e) != TYPE_STRING)) {
        reply_error(&x->out, "ERR The specified keys must contain string values");
        return false;
    }
    l->a = a.e ? entry_value(a.e) : SLICE("");
    l->b = b.e ? entry_value(b.e) : SLICE("");
    return true;
}

static bool fill_table(struct exec *x, struct lcs *l)
{
    size_t bytes;
    if (__builtin_mul_overflow(l->a.n + 1, l->b.n + 1, &bytes) || bytes > TABLE_BYTES_MAX / sizeof *l->cells) {
        reply_error(&x->out, "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
        return false;
    }
    l->cells = mem_alloc(bytes * sizeof *l->cells);
    memset(l->cells, 0, (l->b.n + 1) * sizeof *l->cells);
    for (size_t i = 1; i <= l->a.n; i++) {
        *cell(l, i, 0) = 0;
        for (size_t j = 1; j <= l->b.n; j++) {
            uint32_t up = *cell(l, i - 1, j), left = *cell(l, i, j - 1);
            *cell(l, i, j) = l->a.p[i - 1] == l->b.p[j - 1] ? *cell(l, i - 1, j - 1) + 1 : up > left ? up : left;
        }
    }
    return true;
}

static bool reply_run(struct exec *x, const struct lcs *l, size_t a, size_t b, size_t len)
{
    if (len == 0 || (int64_t)len < l->min_len) return false;
    reply_array(&x->out, l->with_len ? 3 : 2);
    reply_array(&x->out, 2);
    reply_int(&x->out, (int64_t)a);
    reply_int(&x->out, (int64_t)(a + len - 1));
    reply_array(&x->out, 2);
    reply_int(&x->out, (int64_t)b);
    reply_int(&x->out, (int64_t)(b + len - 1));
    if (l->with_len) reply_int(&x->out, (int64_t)len);
    return true;
}

/* Walks the table back. Common bytes go to text (if not NULL), runs of them to the reply (if wanted). Gives the number of runs. */
static size_t walk_back(struct exec *x, const struct lcs *l, char *text)
{
    size_t i = l->a.n, j = l->b.n, at = *cell(l, i, j), run = 0, runs = 0;
    while (i > 0 && j > 0) {
        if (l->a.p[i - 1] == l->b.p[j - 1]) {
            i--, j--, run++;
            if (text) text[--at] = l->a.p[i];
            continue;
        }
        if (l->idx) runs += reply_run(x, l, i, j, run);
        run = 0;
        if (*cell(l, i - 1, j) > *cell(l, i, j - 1))
            i--;
        else
            j--;
    }
    if (l->idx) runs += reply_run(x, l, i, j, run);
    return runs;
}

static void reply_indexes(struct exec *x, const struct lcs *l)
{
    reply_map(&x->out, 2);
    reply_bulk_str(&x->out, "matches");
    size_t mark = reply_open(&x->out);
    reply_close_array(&x->out, mark, walk_back(x, l, NULL));
    reply_bulk_str(&x->out, "len");
    reply_int(&x->out, *cell(l, l->a.n, l->b.n));
}

void lcs_command(struct exec *x)
{
    struct lcs l = {0};
    if (!find_strings(x, &l) || !parse_options(x, &l) || !fill_table(x, &l)) return;
    size_t len = *cell(&l, l.a.n, l.b.n);
    if (l.idx) {
        reply_indexes(x, &l);
    } else if (l.len) {
        reply_int(&x->out, (int64_t)len);
    } else {
        char *text = mem_alloc(len + 1);
        walk_back(x, &l, text);
        reply_bulk(&x->out, slice_of(text, len));
        mem_free(text);
    }
    mem_free(l.cells);
}
