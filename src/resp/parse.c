/* Two ways through the same grammar. A request that stands complete in the input, with short lengths, is read in one pass straight into
 * argv, and the parser's state is not touched. Everything else (unfinished, long, wrong, inline) takes the patient way, which
 * keeps its place in struct parser and is the only one that finds errors.
 *
 *   request = "*" count CRLF { "$" length CRLF bytes CRLF }     count and length are canonical decimals
 *           | line LF                                           words as a shell splits them */
#include "resp/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/num.h"

enum {
    COUNT_LINE_MAX = 64,      /* a count or length with its line end is far shorter */
    ARGS_KEPT = 1024,         /* larger argument arrays are given back after the request */
    FULL_ARGS_MAX = 1 << 20,  /* limits below these are those of a client that did not authenticate yet */
    FULL_BULK_MAX = 1 << 20,
};

void parse_init(struct parser *p) { *p = (struct parser){0}; }

void parse_fini(struct parser *p)
{
    mem_free(p->args);
    *p = (struct parser){0};
}

static enum parse_result fail(struct parser *p, const char *why)
{
    snprintf(p->error, sizeof p->error, "Protocol error: %s", why);
    return PARSE_ERROR;
}

static void argv_reserve(struct slice **argv, uint32_t *cap, uint32_t n)
{
    if (likely(n <= *cap)) return;
    uint32_t want = *cap < 8 ? 8 : *cap;
    while (want < n) want *= 2;
    *argv = mem_resize(*argv, want * sizeof **argv);
    *cap = want;
}

/* ---- the short way */

/* One to three digits and CRLF at c. Gives the place behind them, or NULL if it is anything else. A complete request has at least five
 * bytes behind every "*" and "$" (`0 CRLF CRLF` is the shortest), so looking at five is safe once they are there. */
static inline char *short_number(char *c, const char *end, uint32_t *v)
{
    if (end - c < 5) return NULL;
    unsigned d0 = (unsigned char)c[0] - (unsigned)'0';
    if (d0 > 9) return NULL;
    if (c[1] == '\r') {
        *v = d0;
        return c[2] == '\n' ? c + 3 : NULL;
    }
    unsigned d1 = (unsigned char)c[1] - (unsigned)'0';
    if (d1 > 9 || d0 == 0) return NULL;
    if (c[2] == '\r') {
        *v = d0 * 10 + d1;
        return c[3] == '\n' ? c + 4 : NULL;
    }
    unsigned d2 = (unsigned char)c[2] - (unsigned)'0';
    if (d2 > 9 || c[3] != '\r' || c[4] != '\n') return NULL;
    *v = d0 * 100 + d1 * 10 + d2;
    return c + 5;
}

/* The length of the request, or 0: not one for this way. */
static size_t read_short(const struct parse_limits *limits, char *input, size_t n, struct slice **argv_out, uint32_t *cap,
                         uint32_t *argc)
{
    const char *end = input + n;
    uint32_t count, len;
    char *c = short_number(input + 1, end, &count);
    if (!c || count > limits->args_max) return 0;
    argv_reserve(argv_out, cap, count);
    struct slice *argv = *argv_out;
    for (uint32_t i = 0; i < count; i++) {
        if (c == end || *c != '$') return 0;
        c = short_number(c + 1, end, &len);
        if (!c || len > limits->bulk_bytes_max || (size_t)(end - c) < (size_t)len + 2) return 0;
        argv[i] = slice_of(c, len);
        c += len;
        if (c[0] != '\r' || c[1] != '\n') return 0;
        c += 2;
    }
    *argc = count;
    return (size_t)(c - input);
}

/* ---- the patient way */

/* The number in the line at `at`, whose first byte was looked at already. A line that is too long or is no number gives an error. */
static enum parse_result read_number(struct parser *p, const char *input, size_t n, size_t *at, int64_t *v, const char *too_big,
                                     const char *invalid)
{
    size_t have = n - *at;
    const char *start = input + *at, *cr = memchr(start, '\r', have < COUNT_LINE_MAX ? have : COUNT_LINE_MAX);
    if (!cr) return have < COUNT_LINE_MAX ? PARSE_MORE : fail(p, too_big);
    size_t len = (size_t)(cr - start);
    if (len + 1 == have) return PARSE_MORE;
    if (cr[1] != '\n' || !num_parse_i64(slice_of(start + 1, len - 1), v)) return fail(p, invalid);
    *at += len + 2;
    return PARSE_OK;
}

static enum parse_result read_count(struct parser *p, const struct parse_limits *limits, const char *input, size_t n)
{
    size_t at = 0;
    int64_t count;
    enum parse_result r =
        read_number(p, input, n, &at, &count, "too big mbulk count string", "invalid multibulk length");
    if (r != PARSE_OK) return r;
    if (count > (int64_t)limits->args_max)
        return fail(p, limits->args_max < FULL_ARGS_MAX && count <= FULL_ARGS_MAX ? "unauthenticated multibulk length"
                                                                                  : "invalid multibulk length");
    p->in_request = true;
    p->in_bulk = false;
    p->left = count > 0 ? (uint32_t)count : 0;
    p->argc = 0;
    p->pos = at;
    return PARSE_OK;
}

static enum parse_result read_bulk_head(struct parser *p, const struct parse_limits *limits, const char *input, size_t n)
{
    if (p->pos == n) return PARSE_MORE;
    if (input[p->pos] != '$') {
        snprintf(p->error, sizeof p->error, "Protocol error: expected '$', got '%c'", input[p->pos]);
        return PARSE_ERROR;
    }
    int64_t len;
    enum parse_result r = read_number(p, input, n, &p->pos, &len, "too big bulk count string", "invalid bulk length");
    if (r != PARSE_OK) return r;
    if (len > (int64_t)limits->bulk_bytes_max && limits->bulk_bytes_max < FULL_BULK_MAX)
        return fail(p, "unauthenticated bulk length");
    if (len < 0 || len > (int64_t)limits->bulk_bytes_max) return fail(p, "invalid bulk length");
    if (p->pos + (size_t)len + 2 > UINT32_MAX) return fail(p, "too big request"); /* offsets have 32 bits */
    p->bulk_len = (uint32_t)len;
    p->in_bulk = true;
    return PARSE_OK;
}

static void remember_arg(struct parser *p)
{
    if (p->argc == p->args_cap) {
        p->args_cap = p->args_cap ? p->args_cap * 2 : 16;
        p->args = mem_resize(p->args, p->args_cap * sizeof *p->args);
    }
    p->args[p->argc++] = (struct parse_arg){(uint32_t)p->pos, p->bulk_len};
}

static enum parse_result read_bulks(struct parser *p, const struct parse_limits *limits, const char *input, size_t n)
{
    while (p->left > 0) {
        if (!p->in_bulk) {
            enum parse_result r = read_bulk_head(p, limits, input, n);
            if (r != PARSE_OK) return r;
        }
        if (n - p->pos < (size_t)p->bulk_len + 2) return PARSE_MORE;
        if (memcmp(input + p->pos + p->bulk_len, "\r\n", 2) != 0) return fail(p, "expected CRLF after bulk");
        remember_arg(p);
        p->pos += (size_t)p->bulk_len + 2;
        p->in_bulk = false;
        p->left--;
    }
    return PARSE_OK;
}

static void finish_request(struct parser *p, const char *input, size_t *used, struct slice **argv, uint32_t *cap, uint32_t *argc)
{
    argv_reserve(argv, cap, p->argc);
    for (uint32_t i = 0; i < p->argc; i++) (*argv)[i] = slice_of(input + p->args[i].off, p->args[i].len);
    *argc = p->argc;
    *used = p->pos;
    p->in_request = false;
    p->pos = 0;
    if (p->args_cap > ARGS_KEPT) {
        mem_free(p->args);
        p->args = NULL;
        p->args_cap = 0;
    }
}

/* ---- inline lines */

static bool is_blank(char c) { return isspace((unsigned char)c) || c == 0; }

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* The escape behind the backslash at r, inside double quotes. Gives how many bytes it takes with the backslash. */
static size_t unescape(const char *r, const char *end, char *byte)
{
    static const char names[] = "nrtba", values[] = "\n\r\t\b\a";
    if (end - r >= 4 && r[1] == 'x' && hex_digit(r[2]) >= 0 && hex_digit(r[3]) >= 0) {
        *byte = (char)(hex_digit(r[2]) * 16 + hex_digit(r[3]));
        return 4;
    }
    const char *at = r[1] ? strchr(names, r[1]) : NULL;
    *byte = at ? values[at - names] : r[1];
    return 2;
}

/* Copies the quoted run that starts at r to *w. Gives the place behind the closing quote, which must end the word; NULL: unbalanced. */
static char *read_quoted(char *r, const char *end, char **w)
{
    char quote = *r++;
    while (r < end && *r != quote) {
        if (*r == '\\' && quote == '"' && end - r >= 2) {
            char byte;
            r += unescape(r, end, &byte);
            *(*w)++ = byte;
        } else if (*r == '\\' && quote == '\'' && end - r >= 2 && r[1] == '\'') {
            *(*w)++ = '\'';
            r += 2;
        } else {
            *(*w)++ = *r++;
        }
    }
    if (r >= end) return NULL;
    r++;
    return r == end || is_blank(*r) ? r : NULL;
}

/* Splits the line [r, end) in place: a word is never longer than its text. */
static bool split_line(char *r, const char *end, struct slice **argv, uint32_t *cap, uint32_t *argc)
{
    uint32_t n = 0;
    for (;;) {
        while (r < end && is_blank(*r)) r++;
        if (r == end) break;
        char *word = r, *w = r;
        while (r < end && !is_blank(*r)) {
            if (*r == '"' || *r == '\'') {
                r = read_quoted(r, end, &w);
                if (!r) return false;
                break;
            }
            *w++ = *r++;
        }
        argv_reserve(argv, cap, n + 1);
        (*argv)[n++] = slice_of(word, (size_t)(w - word));
    }
    *argc = n;
    return true;
}

/* While a line is unfinished, pos tells how much of it has no line end. */
static enum parse_result read_inline(struct parser *p, const struct parse_limits *limits, char *input, size_t n, size_t *used,
                                     struct slice **argv, uint32_t *cap, uint32_t *argc)
{
    char *lf = memchr(input + p->pos, '\n', n - p->pos);
    size_t line = lf ? (size_t)(lf - input) : n;
    if (line > limits->inline_bytes_max) return fail(p, "too big inline request");
    if (!lf) {
        p->pos = n;
        return PARSE_MORE;
    }
    p->pos = 0;
    *used = line + 1;
    if (line > 0 && input[line - 1] == '\r') line--;
    return split_line(input, input + line, argv, cap, argc) ? PARSE_OK : fail(p, "unbalanced quotes in request");
}

enum parse_result parse_request(struct parser *p, const struct parse_limits *limits, char *input, size_t n, size_t *used,
                                struct slice **argv, uint32_t *argv_cap, uint32_t *argc)
{
    if (!p->in_request) {
        if (n == 0) return PARSE_MORE;
        if (unlikely(input[0] != '*')) return read_inline(p, limits, input, n, used, argv, argv_cap, argc);
        *used = read_short(limits, input, n, argv, argv_cap, argc);
        if (likely(*used > 0)) return PARSE_OK;
        enum parse_result r = read_count(p, limits, input, n);
        if (r != PARSE_OK) return r;
    }
    CHECK(p->pos <= n);
    enum parse_result r = read_bulks(p, limits, input, n);
    if (r == PARSE_OK) finish_request(p, input, used, argv, argv_cap, argc);
    return r;
}

size_t parse_wants(const struct parser *p, size_t have)
{
    if (!p->in_request || !p->in_bulk) return 0;
    size_t end = p->pos + p->bulk_len + 2;
    return end > have ? end - have : 0;
}
