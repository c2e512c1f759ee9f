#include "snapshot/csvrow.h"

#include "base/mem.h"

static void add_field(struct csvrow *r, struct slice s)
{
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 16;
        r->fields = mem_resize(r->fields, r->cap * sizeof *r->fields);
    }
    r->fields[r->n++] = s;
}

void csvrow_fini(struct csvrow *r)
{
    mem_free(r->fields);
    buf_fini(&r->text);
    *r = (struct csvrow){0};
}

/* Most records: one line without any quote. */
static void split_plain(struct csvrow *r, const char *p, const char *end, char separator)
{
    for (const char *at; (at = memchr(p, separator, (size_t)(end - p))); p = at + 1) add_field(r, slice_of(p, (size_t)(at - p)));
    add_field(r, slice_of(p, (size_t)(end - p)));
}

/* ---- records with quotes */

struct reading {
    struct csvrow *r;
    const char *p, *end;
    char separator;
    bool at_end;
};

enum field_end { FIELD_NEXT, FIELD_LAST, FIELD_MORE, FIELD_BAD };

/* What stands behind a field. */
static enum field_end end_field(struct reading *g, const char *fault)
{
    if (g->p == g->end) return g->at_end ? FIELD_LAST : FIELD_MORE;
    if (*g->p == g->separator) {
        g->p++;
        return FIELD_NEXT;
    }
    if (*g->p == '\r' && g->p + 1 == g->end && !g->at_end) return FIELD_MORE;
    if (*g->p == '\r' && (g->p + 1 == g->end || g->p[1] == '\n')) g->p++;
    if (g->p == g->end) return FIELD_LAST;
    if (*g->p == '\n') {
        g->p++;
        return FIELD_LAST;
    }
    g->r->fault = fault;
    return FIELD_BAD;
}

static enum field_end plain_field(struct reading *g)
{
    const char *from = g->p;
    while (g->p < g->end && *g->p != g->separator && *g->p != '\n' && *g->p != '"') g->p++;
    if (g->p < g->end && *g->p == '"') {
        g->r->fault = "a quote inside a field that does not begin with one";
        return FIELD_BAD;
    }
    size_t n = (size_t)(g->p - from);
    bool at_line_end = g->p == g->end || *g->p == '\n';
    if (at_line_end && n && from[n - 1] == '\r') n--;
    add_field(g->r, slice_of(from, n));
    return end_field(g, "");
}

/* Where the field's closing quote is; NULL: not in these bytes. Counts quotes that stand for themselves. */
static const char *closing_quote(const struct reading *g, const char *p, size_t *inner)
{
    for (;;) {
        p = memchr(p, '"', (size_t)(g->end - p));
        if (!p || (p + 1 == g->end && !g->at_end)) return NULL;
        if (p + 1 == g->end || p[1] != '"') return p;
        ++*inner;
        p += 2;
    }
}

static void add_unquoted(struct csvrow *r, struct slice s)
{
    size_t at = r->text.len;
    for (const char *p = s.p, *end = s.p + s.n; p < end;) {
        const char *quote = memchr(p, '"', (size_t)(end - p));
        const char *stop = quote ? quote + 1 : end;
        buf_add(&r->text, p, (size_t)(stop - p));
        p = stop + (quote != NULL);
    }
    /* The buffer may move while further fields come: what is kept now is the place in it, see settle. */
    add_field(r, (struct slice){NULL, r->text.len - at});
}

static enum field_end quoted_field(struct reading *g)
{
    size_t inner = 0;
    const char *from = g->p + 1, *close = closing_quote(g, from, &inner);
    if (!close) {
        g->r->fault = "a quote that is never closed";
        return g->at_end ? FIELD_BAD : FIELD_MORE;
    }
    struct slice s = slice_of(from, (size_t)(close - from));
    for (const char *p = s.p; (p = memchr(p, '\n', (size_t)(close - p))); p++) g->r->lines++;
    if (inner) add_unquoted(g->r, s);
    else add_field(g->r, s);
    g->p = close + 1;
    return end_field(g, "something other than a separator behind a closing quote");
}

/* Fields that lie in the text buffer get their addresses when it is complete. */
static void settle(struct csvrow *r)
{
    const char *p = r->text.p;
    for (size_t i = 0; i < r->n; i++) {
        if (r->fields[i].p) continue;
        r->fields[i].p = p;
        p += r->fields[i].n;
    }
}

/* A faulty record ends with its line, if that is there. */
static enum csvrow_result give_up(struct reading *g, const char *begin)
{
    const char *at = memchr(g->p, '\n', (size_t)(g->end - g->p));
    if (!at && !g->at_end) return CSVROW_MORE;
    g->r->used = (size_t)((at ? at + 1 : g->end) - begin);
    return CSVROW_BAD;
}

static enum csvrow_result parse_quoted(struct csvrow *r, struct slice bytes, char separator, bool at_end)
{
    struct reading g = {.r = r, .p = bytes.p, .end = bytes.p + bytes.n, .separator = separator, .at_end = at_end};
    enum field_end e;
    do e = g.p < g.end && *g.p == '"' ? quoted_field(&g) : plain_field(&g);
    while (e == FIELD_NEXT);
    if (e == FIELD_MORE) return CSVROW_MORE;
    if (e == FIELD_BAD) return give_up(&g, bytes.p);
    settle(r);
    r->used = (size_t)(g.p - bytes.p);
    return CSVROW_RECORD;
}

enum csvrow_result csvrow_parse(struct csvrow *r, struct slice bytes, char separator, bool at_end)
{
    r->n = r->text.len = 0;
    r->lines = 1;
    r->fault = NULL;
    const char *end = memchr(bytes.p, '\n', bytes.n);
    if (!end && !at_end) return memchr(bytes.p, '"', bytes.n) ? parse_quoted(r, bytes, separator, at_end) : CSVROW_MORE;
    size_t n = end ? (size_t)(end - bytes.p) : bytes.n;
    if (memchr(bytes.p, '"', n)) return parse_quoted(r, bytes, separator, at_end);
    r->used = n + (end != NULL);
    if (n && bytes.p[n - 1] == '\r') n--;
    split_plain(r, bytes.p, bytes.p + n, separator);
    return CSVROW_RECORD;
}
