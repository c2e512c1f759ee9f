/* Judges a history of requests that real clients made: is it linearizable, key by key (tests/sim/wgl.h)?
 *
 *     linear [-q] [FILE]      without FILE it comes from standard input; -q: the verdict alone
 *
 * One request is one line of seven words:
 *
 *     client key op arg called returned outcome
 *
 *     client            a number
 *     op                GET  SET  GETSET  SETNX  DEL  GETDEL  INCR  APPEND
 *     arg               what is written, added (INCR) or appended; - for the others
 *     called, returned  numbers of one clock, whatever its unit; a request that never returned has any number there
 *     outcome           =VALUE   what GET, GETSET or GETDEL gave; nothing behind = is the empty value
 *                       nil      they found none; of INCR: refused, for the value is no number
 *                       :N       what SETNX, DEL, INCR or APPEND gave
 *                       ok       it happened, and told no more (SET)
 *                       no       it certainly did not happen: a refusal
 *                       ?        nobody knows: it may have happened at any moment after the call, or never
 *
 * Words hold no white space. The exit status is 0: linearizable, 1: not, 2: the search was given up, 3: the history makes no sense. The verdict is the first line of the output; if it is "not", the
 * key, the request that fits into no order, and the least that contradicts itself follow: requests which no order fits even if nothing at all were known of the outcome of the others. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "wgl.h"

enum { WORDS = 7, PARTS_MAX = 2, SHRINK_SECONDS = 3, SHRINK_CONFIGS = 20000 };

enum outcome { ANSWERED, REFUSED, UNKNOWN };

/* A request, as words of the file. */
struct entry {
    uint32_t client, line;
    struct slice key, op, arg;
    struct wgl_part parts[PARTS_MAX];
    struct wgl_answer answers[PARTS_MAX];
    uint32_t n_parts;
    int64_t called, returned;
    enum outcome outcome;
};

struct history {
    struct entry *entries;
    size_t n, cap;
};

/* ---- reading */

/* Which kinds of part an op is made of; the first has the answer. */
static const struct shape {
    const char *name;
    uint32_t n_parts;
    enum wgl_kind parts[PARTS_MAX];
    bool number; /* the answer is one; else a value or nil */
} shapes[] = {
    {"GET", 1, {WGL_GET}, false},
    {"SET", 1, {WGL_SET}, false},
    {"GETSET", 2, {WGL_GET, WGL_SET}, false},
    {"SETNX", 1, {WGL_CAS}, true},
    {"DEL", 1, {WGL_DEL}, true},
    {"GETDEL", 2, {WGL_GET, WGL_DEL}, false},
    {"INCR", 1, {WGL_INCR}, true},
    {"APPEND", 1, {WGL_APPEND}, true},
};

static const struct shape *shape_of(struct slice op)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (slice_is(op, shapes[i].name)) return &shapes[i];
    return NULL;
}

static bool next_word(struct slice *line, struct slice *word)
{
    while (line->n && *line->p == ' ') *line = slice_of(line->p + 1, line->n - 1);
    const char *end = memchr(line->p, ' ', line->n);
    word->p = line->p;
    word->n = end ? (size_t)(end - line->p) : line->n;
    *line = slice_of(line->p + word->n, line->n - word->n);
    return word->n > 0;
}

/* What DEL of a GETDEL would have answered follows from what it found. */
static void answer_delete(struct entry *e)
{
    if (e->n_parts == 2 && e->parts[1].kind == WGL_DEL) e->answers[1].number = !e->answers[0].nil;
}

static bool read_outcome(struct entry *e, const struct shape *shape, struct slice word)
{
    struct wgl_answer *a = &e->answers[0];
    bool set = e->parts[0].kind == WGL_SET, has_value = !set && !shape->number;
    e->outcome = slice_is(word, "?") ? UNKNOWN : slice_is(word, "no") ? REFUSED : ANSWERED;
    if (e->outcome != ANSWERED) return true;
    if (slice_is(word, "ok")) return set;
    if (slice_is(word, "nil")) {
        a->nil = true;
        answer_delete(e);
        return has_value || e->parts[0].kind == WGL_INCR;
    }
    struct slice rest = slice_of(word.p + 1, word.n - 1);
    if (word.p[0] == ':') return shape->number && num_parse_i64(rest, &a->number);
    if (word.p[0] != '=') return false;
    a->value = rest;
    answer_delete(e);
    return has_value;
}

static bool read_entry(struct entry *e, struct slice line)
{
    struct slice words[WORDS], more;
    uint64_t client;
    for (int i = 0; i < WORDS; i++)
        if (!next_word(&line, &words[i])) return false;
    if (next_word(&line, &more) || !num_parse_u64(words[0], &client) || client > UINT32_MAX) return false;
    const struct shape *shape = shape_of(words[2]);
    if (!shape || !num_parse_i64(words[4], &e->called) || !num_parse_i64(words[5], &e->returned)) return false;
    e->client = (uint32_t)client;
    e->key = words[1];
    e->op = words[2];
    e->arg = words[3];
    e->n_parts = shape->n_parts;
    for (uint32_t i = 0; i < e->n_parts; i++) {
        e->parts[i] = (struct wgl_part){.kind = shape->parts[i], .key = e->key, .arg = e->arg, .nil_expect = true};
        if (shape->parts[i] == WGL_INCR && !num_parse_i64(e->arg, &e->parts[i].by)) return false;
    }
    return read_outcome(e, shape, words[6]) && (e->outcome != ANSWERED || (e->called <= e->returned && e->returned < INT64_MAX));
}

static bool read_history(struct history *h, struct slice text)
{
    for (uint32_t line = 1; text.n; line++) {
        const char *end = memchr(text.p, '\n', text.n);
        size_t n = end ? (size_t)(end - text.p) : text.n;
        struct entry e = {.line = line};
        if (n && !read_entry(&e, slice_of(text.p, n))) {
            printf("line %u makes no sense: %.*s\n", line, (int)n, text.p);
            return false;
        }
        if (h->n == h->cap) {
            h->cap = h->cap ? h->cap * 2 : 1024;
            h->entries = mem_resize(h->entries, h->cap * sizeof *h->entries);
        }
        if (n) h->entries[h->n++] = e;
        n += end != NULL;
        text = slice_of(text.p + n, text.n - n);
    }
    return true;
}

static void read_all(FILE *f, struct buf *text)
{
    size_t n;
    do {
        n = fread(buf_room(text, 1 << 16), 1, 1 << 16, f);
        text->len += n;
    } while (n);
}

/* ---- judging */

/* Those that `loose` names (NULL: none) are taken as if their outcome were not known. */
static enum wgl_verdict judge(const struct history *h, const bool *loose, uint64_t configs, size_t *culprit, struct buf *why)
{
    struct wgl *w = wgl_new();
    struct wgl_limits limits = {.configs = configs};
    for (size_t i = 0; i < h->n; i++) {
        const struct entry *e = &h->entries[i];
        size_t op = wgl_call(w, e->client, e->called, e->parts, e->n_parts);
        if (loose && loose[i]) continue;
        if (e->outcome == REFUSED) wgl_refused(w, op);
        if (e->outcome == ANSWERED) wgl_return(w, op, e->returned, e->answers);
    }
    enum wgl_verdict verdict = wgl_check(w, &limits, culprit, why);
    wgl_free(w);
    return verdict;
}

/* The requests of the culprit's key that were called before it returned. What returned later is of no interest to it. */
static struct history around(const struct history *h, const struct entry *culprit, bool **loose)
{
    struct history part = {.entries = mem_alloc((h->n + 1) * sizeof *part.entries)};
    *loose = mem_zalloc(h->n + 1);
    for (size_t i = 0; i < h->n; i++) {
        const struct entry *e = &h->entries[i];
        if (!slice_eq(e->key, culprit->key) || e->called > culprit->returned || e->outcome == REFUSED) continue;
        (*loose)[part.n] = e->outcome == UNKNOWN || e->returned > culprit->returned;
        part.entries[part.n++] = *e;
    }
    return part;
}

/* Forgets outcomes as long as the rest contradicts itself: halves first, then ever smaller runs. To know less can only make more orders possible, so what is left is a proof. */
static void shrink(const struct history *h, bool *loose)
{
    clock_t end = clock() + (clock_t)SHRINK_SECONDS * CLOCKS_PER_SEC;
    bool *tried = mem_alloc(h->n + 1);
    for (size_t run = (h->n + 1) / 2; run > 0; run = run == 1 ? 0 : (run + 1) / 2)
        for (size_t from = 0; from < h->n && clock() < end; from += run) {
            size_t n = h->n - from < run ? h->n - from : run;
            memcpy(tried, loose, h->n);
            memset(tried + from, true, n);
            if (memcmp(tried, loose, h->n) == 0) continue;
            if (judge(h, tried, SHRINK_CONFIGS, NULL, NULL) == WGL_NOT) memcpy(loose, tried, h->n);
        }
    mem_free(tried);
}

/* Whether it may have written what one of the facts found: without it the reader would wonder where that came from. */
static bool is_source(const struct history *h, const bool *loose, const struct entry *e)
{
    if (e->parts[e->n_parts - 1].kind != WGL_SET && e->parts[0].kind != WGL_CAS) return false;
    for (size_t i = 0; i < h->n; i++)
        if (!loose[i] && h->entries[i].parts[0].kind == WGL_GET && !h->entries[i].answers[0].nil && slice_eq(h->entries[i].answers[0].value, e->arg)) return true;
    return false;
}

static void print_entry(const struct entry *e, bool fact)
{
    const struct wgl_answer *a = &e->answers[0];
    bool number = shape_of(e->op)->number;
    printf("  line %u: client %u: %.*s %.*s", e->line, e->client, (int)e->op.n, e->op.p, (int)e->key.n, e->key.p);
    if (!slice_is(e->arg, "-")) printf(" %.*s", (int)e->arg.n, e->arg.p);
    if (fact && a->nil)
        printf(" -> nil");
    else if (fact && number)
        printf(" -> %" PRId64, a->number);
    else if (fact && e->parts[0].kind == WGL_GET)
        printf(" -> \"%.*s\"", (int)a->value.n, a->value.p);
    printf(", from %" PRId64, e->called);
    if (e->outcome == ANSWERED) printf(" to %" PRId64, e->returned);
    printf("%s\n", fact ? "" : e->outcome == UNKNOWN ? ", outcome unknown" : ", whatever it answered");
}

static void explain(const struct history *all, const struct entry *culprit)
{
    bool *loose;
    struct history h = around(all, culprit, &loose);
    shrink(&h, loose);
    printf("the least that contradicts itself, of %zu requests:\n", h.n);
    for (size_t i = 0; i < h.n; i++)
        if (!loose[i] || is_source(&h, loose, &h.entries[i])) print_entry(&h.entries[i], !loose[i]);
    mem_free(loose);
    mem_free(h.entries);
}

static int report(const struct history *h, bool quiet)
{
    size_t culprit = 0, answered = 0, unknown = 0;
    struct buf why = {0};
    enum wgl_verdict verdict = judge(h, NULL, 0, &culprit, &why);
    for (size_t i = 0; i < h->n; i++) {
        answered += h->entries[i].outcome == ANSWERED;
        unknown += h->entries[i].outcome == UNKNOWN;
    }
    printf("%s: %zu requests, %zu answered, %zu refused, %zu of unknown outcome\n", verdict == WGL_LINEARIZABLE ? "linearizable" : verdict == WGL_NOT ? "not linearizable" : "gave up", h->n, answered,
           h->n - answered - unknown, unknown);
    if (verdict == WGL_NOT && !quiet) {
        const struct entry *e = &h->entries[culprit];
        printf("key %.*s, line %u: %.*s\n", (int)e->key.n, e->key.p, e->line, (int)why.len, why.p);
        explain(h, e);
    } else if (verdict == WGL_GAVE_UP) {
        printf("%.*s\n", (int)why.len, why.p);
    }
    buf_fini(&why);
    return verdict == WGL_LINEARIZABLE ? 0 : verdict == WGL_NOT ? 1 : 2;
}

int main(int argc, char **argv)
{
    struct buf text = {0};
    struct history h = {0};
    bool quiet = argc > 1 && strcmp(argv[1], "-q") == 0;
    const char *path = argc > 1 + quiet ? argv[1 + quiet] : NULL;
    FILE *f = path ? fopen(path, "r") : stdin;
    if (!f) {
        perror(path);
        return 3;
    }
    read_all(f, &text);
    if (f != stdin) fclose(f);
    int rc = read_history(&h, buf_slice(&text)) ? report(&h, quiet) : 3;
    mem_free(h.entries);
    buf_fini(&text);
    return rc;
}
