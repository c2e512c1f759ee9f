#include "base/toml.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

enum { DEPTH_MAX = 16, PATH_MAX_BYTES = 512 };

struct toml_block {
    struct toml_block *next;
    char bytes[];
};

struct reader {
    struct toml *doc;
    const char *start, *p, *end;
    unsigned line;
    struct slice table;      /* of the current [table] header */
    struct slice *tables;    /* headers seen, to refuse a second one */
    size_t table_count, table_cap;
    size_t item_cap;
};

static int fail(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct reader *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->doc->error, sizeof r->doc->error, fmt, ap);
    va_end(ap);
    r->doc->error_line = r->line;
    return -1;
}

/* Memory that lives as long as the document. */
static char *keep(struct toml *doc, const void *p, size_t n)
{
    struct toml_block *b = mem_alloc(sizeof *b + n + 1);
    b->next = doc->blocks;
    doc->blocks = b;
    if (n) memcpy(b->bytes, p, n);
    b->bytes[n] = '\0';
    return b->bytes;
}

static int peek(const struct reader *r) { return r->p < r->end ? (unsigned char)*r->p : -1; }

static bool at_word(const struct reader *r, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(r->end - r->p) >= n && memcmp(r->p, word, n) == 0;
}

static void skip_blanks(struct reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t')) r->p++;
}

/* Moves past a newline (LF or CRLF); false if there is none here. */
static bool skip_newline(struct reader *r)
{
    if (at_word(r, "\r\n")) r->p++;
    if (peek(r) != '\n') return false;
    r->p++;
    r->line++;
    return true;
}

static int skip_comment(struct reader *r)
{
    if (peek(r) != '#') return 0;
    for (; r->p < r->end && *r->p != '\n'; r->p++) {
        unsigned char c = (unsigned char)*r->p;
        bool before_newline = c == '\r' && r->p + 1 < r->end && r->p[1] == '\n';
        if ((c < ' ' && c != '\t' && !before_newline) || c == 0x7f) return fail(r, "control character in a comment");
    }
    return 0;
}

/* Blanks, comments and newlines between the elements of an array. */
static int skip_space(struct reader *r)
{
    do {
        skip_blanks(r);
        if (skip_comment(r)) return -1;
    } while (skip_newline(r));
    return 0;
}

/* What may stand behind a header or a value: blanks, a comment, the end of the line. */
static int end_line(struct reader *r)
{
    skip_blanks(r);
    if (skip_comment(r)) return -1;
    if (r->p < r->end && !skip_newline(r)) return fail(r, "unexpected text behind the value");
    return 0;
}

/* ---- strings */

static void add_utf8(struct buf *out, uint32_t c)
{
    if (c < 0x80) {
        buf_add_byte(out, (char)c);
    } else if (c < 0x800) {
        buf_add_byte(out, (char)(0xc0 | c >> 6));
        buf_add_byte(out, (char)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        buf_add_byte(out, (char)(0xe0 | c >> 12));
        buf_add_byte(out, (char)(0x80 | (c >> 6 & 0x3f)));
        buf_add_byte(out, (char)(0x80 | (c & 0x3f)));
    } else {
        buf_add_byte(out, (char)(0xf0 | c >> 18));
        buf_add_byte(out, (char)(0x80 | (c >> 12 & 0x3f)));
        buf_add_byte(out, (char)(0x80 | (c >> 6 & 0x3f)));
        buf_add_byte(out, (char)(0x80 | (c & 0x3f)));
    }
}

static int hex_digit(int c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* The digits of \uXXXX or \UXXXXXXXX. */
static int read_unicode(struct reader *r, int digits, struct buf *out)
{
    uint32_t c = 0;
    for (int i = 0; i < digits; i++) {
        int d = hex_digit(peek(r));
        if (d < 0) return fail(r, "\\%c needs %d hexadecimal digits", digits == 4 ? 'u' : 'U', digits);
        c = c << 4 | (uint32_t)d;
        r->p++;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return fail(r, "escape is not a Unicode character");
    add_utf8(out, c);
    return 0;
}

static int read_escape(struct reader *r, struct buf *out)
{
    static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
    int c = peek(r);
    if (c < 0) return fail(r, "unterminated string");
    r->p++;
    if (c == 'u') return read_unicode(r, 4, out);
    if (c == 'U') return read_unicode(r, 8, out);
    const char *at = c ? strchr(from, c) : NULL;
    if (!at) return fail(r, "unknown escape in a string");
    buf_add_byte(out, to[at - from]);
    return 0;
}

/* "basic" or 'literal'; the reader stands on the opening quote. */
static int read_string_into(struct reader *r, struct buf *out)
{
    char quote = *r->p;
    if (at_word(r, "\"\"\"") || at_word(r, "'''")) return fail(r, "multi-line strings are not supported");
    for (r->p++; r->p < r->end && *r->p != quote;) {
        unsigned char c = (unsigned char)*r->p++;
        if (c == '\n' || c == '\r') break;
        if ((c < ' ' && c != '\t') || c == 0x7f) return fail(r, "control character in a string");
        if (c == '\\' && quote == '"') {
            if (read_escape(r, out)) return -1;
        } else {
            buf_add_byte(out, (char)c);
        }
    }
    if (r->p == r->end || *r->p != quote) return fail(r, "unterminated string");
    r->p++;
    return 0;
}

static int read_string(struct reader *r, struct slice *text)
{
    struct buf out = {0};
    int rc = read_string_into(r, &out);
    if (rc == 0) *text = slice_of(keep(r->doc, out.p, out.len), out.len);
    buf_fini(&out);
    return rc;
}

/* ---- numbers and booleans */

static bool is_word_byte(int c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '+' || c == '.' ||
           c == ':';
}

/* A number without its underscores, each of which must stand between two digits. */
static bool strip_underscores(struct slice word, char *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < word.n; i++) {
        if (word.p[i] == '_') {
            bool between = i > 0 && i + 1 < word.n && hex_digit((unsigned char)word.p[i - 1]) >= 0 &&
                           hex_digit((unsigned char)word.p[i + 1]) >= 0;
            if (!between) return false;
            continue;
        }
        if (n + 1 >= cap) return false;
        out[n++] = word.p[i];
    }
    out[n] = '\0';
    return n > 0;
}

static bool digits_only(const char *s, int base)
{
    size_t n = 0;
    for (; s[n]; n++) {
        int d = hex_digit((unsigned char)s[n]);
        if (d < 0 || d >= base) return false;
    }
    return n > 0;
}

/* 0x, 0o and 0b take no sign; decimal takes one and no leading zero. 1 = read, 0 = not an integer, -1 = too large. */
static int parse_integer(const char *s, int64_t *value)
{
    static const struct {
        char mark;
        int base;
    } bases[] = {{'x', 16}, {'o', 8}, {'b', 2}};
    int base = 10;
    const char *digits = s + (*s == '+' || *s == '-');
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        if (s[0] == '0' && s[1] == bases[i].mark) {
            base = bases[i].base;
            digits = s + 2;
        }
    }
    if (!digits_only(digits, base)) return 0;
    if (base == 10 && digits[0] == '0' && digits[1]) return 0;
    bool negative = *s == '-';
    uint64_t magnitude = 0, max = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    for (; *digits; digits++) {
        uint64_t d = (uint64_t)hex_digit((unsigned char)*digits);
        if (magnitude > (max - d) / (uint64_t)base) return -1;
        magnitude = magnitude * (uint64_t)base + d;
    }
    *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return 1;
}

/* digits [. digits] [e [sign] digits], with at least one of the two parts; inf and nan. */
static bool parse_float(const char *s, double *value)
{
    const char *p = s + (*s == '+' || *s == '-');
    if (strcmp(p, "inf") == 0 || strcmp(p, "nan") == 0) {
        *value = *p == 'n' ? (double)NAN : *s == '-' ? -(double)INFINITY : (double)INFINITY;
        return true;
    }
    size_t whole = strspn(p, "0123456789");
    if (whole == 0 || (whole > 1 && *p == '0')) return false;
    p += whole;
    if (*p == '.') {
        size_t part = strspn(++p, "0123456789");
        if (part == 0) return false;
        p += part;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '+' || *p == '-';
        size_t exponent = strspn(p, "0123456789");
        if (exponent == 0) return false;
        p += exponent;
    }
    if (*p) return false;
    *value = strtod(s, NULL);
    return true;
}

static bool looks_like_date(struct slice w)
{
    return (w.n >= 10 && w.p[4] == '-' && w.p[7] == '-') || (w.n >= 5 && w.p[2] == ':');
}

static int read_scalar(struct reader *r, struct toml_value *v)
{
    const char *from = r->p;
    while (r->p < r->end && is_word_byte((unsigned char)*r->p)) r->p++;
    struct slice word = slice_of(from, (size_t)(r->p - from));
    int shown = word.n > 40 ? 40 : (int)word.n;
    char plain[64];
    if (word.n == 0) return fail(r, "a value is missing");
    if (slice_eq(word, SLICE("true")) || slice_eq(word, SLICE("false"))) {
        *v = (struct toml_value){.kind = TOML_BOOLEAN, .boolean = word.p[0] == 't'};
        return 0;
    }
    if (looks_like_date(word)) return fail(r, "dates and times are not supported");
    if (!strip_underscores(word, plain, sizeof plain)) return fail(r, "'%.*s' is not a value (strings need quotes)", shown, word.p);
    *v = (struct toml_value){.kind = TOML_INTEGER};
    int rc = parse_integer(plain, &v->integer);
    if (rc < 0) return fail(r, "integer %.*s is too large", shown, word.p);
    if (rc > 0) return 0;
    v->kind = TOML_FLOAT;
    if (parse_float(plain, &v->real)) return 0;
    return fail(r, "'%.*s' is not a value (strings need quotes)", shown, word.p);
}

/* ---- arrays */

static int read_value(struct reader *r, struct toml_value *v, int depth);

static int read_elements(struct reader *r, struct buf *items, int depth)
{
    for (;;) {
        struct toml_value item;
        if (skip_space(r)) return -1;
        if (r->p == r->end) return fail(r, "unterminated array");
        if (peek(r) == ']') break;
        if (read_value(r, &item, depth + 1)) return -1;
        buf_add(items, &item, sizeof item);
        if (skip_space(r)) return -1;
        if (peek(r) == ']') break;
        if (peek(r) != ',') return fail(r, r->p == r->end ? "unterminated array" : "expected ',' or ']' in an array");
        r->p++;
    }
    r->p++;
    return 0;
}

static int read_array(struct reader *r, struct toml_value *v, int depth)
{
    if (depth >= DEPTH_MAX) return fail(r, "arrays nested too deep");
    struct buf items = {0};
    r->p++;
    int rc = read_elements(r, &items, depth);
    if (rc == 0) {
        *v = (struct toml_value){.kind = TOML_ARRAY, .count = items.len / sizeof(struct toml_value)};
        v->items = (struct toml_value *)(void *)keep(r->doc, items.p, items.len);
    }
    buf_fini(&items);
    return rc;
}

static int read_value(struct reader *r, struct toml_value *v, int depth)
{
    switch (peek(r)) {
    case '"':
    case '\'':
        *v = (struct toml_value){.kind = TOML_STRING};
        return read_string(r, &v->text);
    case '[': return read_array(r, v, depth);
    case '{': return fail(r, "inline tables are not supported");
    default: return read_scalar(r, v);
    }
}

/* ---- keys and tables */

static bool is_key_byte(int c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

static int read_key_part(struct reader *r, struct slice *part)
{
    int c = peek(r);
    if (c == '"' || c == '\'') return read_string(r, part);
    const char *from = r->p;
    while (is_key_byte(peek(r))) r->p++;
    *part = slice_of(from, (size_t)(r->p - from));
    return part->n ? 0 : fail(r, "a key is missing");
}

/* A dotted key: its last part goes to *key, the parts before it, joined by dots, behind *path. */
static int read_key(struct reader *r, struct buf *path, struct slice *key)
{
    for (;;) {
        skip_blanks(r);
        if (read_key_part(r, key)) return -1;
        skip_blanks(r);
        if (peek(r) != '.') return 0;
        r->p++;
        if (path->len) buf_add_byte(path, '.');
        buf_add_slice(path, *key);
        if (path->len > PATH_MAX_BYTES) return fail(r, "key too long");
    }
}

static int enter_table(struct reader *r, struct slice name)
{
    for (size_t i = 0; i < r->table_count; i++) {
        if (slice_eq(r->tables[i], name)) return fail(r, "table [%.*s] stands twice", name.n > 60 ? 60 : (int)name.n, name.p);
    }
    if (r->table_count == r->table_cap) {
        r->table_cap = r->table_cap ? r->table_cap * 2 : 8;
        r->tables = mem_resize(r->tables, r->table_cap * sizeof *r->tables);
    }
    r->table = slice_of(keep(r->doc, name.p, name.n), name.n);
    r->tables[r->table_count++] = r->table;
    return 0;
}

static int read_header_into(struct reader *r, struct buf *path)
{
    struct slice last;
    r->p++;
    if (peek(r) == '[') return fail(r, "arrays of tables are not supported");
    if (read_key(r, path, &last)) return -1;
    if (path->len) buf_add_byte(path, '.');
    buf_add_slice(path, last);
    if (peek(r) != ']') return fail(r, "expected ']' behind the table's name");
    r->p++;
    return enter_table(r, buf_slice(path));
}

static int read_header(struct reader *r)
{
    struct buf path = {0};
    if (r->table_count == 0) {
        const char *line = r->p;
        while (line > r->start && line[-1] != '\n') line--;
        r->doc->top_end = (size_t)(line - r->start);
    }
    int rc = read_header_into(r, &path);
    buf_fini(&path);
    return rc ? rc : end_line(r);
}

static int add_item(struct reader *r, const struct toml_item *item)
{
    struct toml *doc = r->doc;
    if (toml_find(doc, item->table, item->key)) {
        r->line = item->line;
        return fail(r, "key '%.*s' stands twice", item->key.n > 60 ? 60 : (int)item->key.n, item->key.p);
    }
    if (doc->count == r->item_cap) {
        r->item_cap = r->item_cap ? r->item_cap * 2 : 16;
        doc->items = mem_resize(doc->items, r->item_cap * sizeof *doc->items);
    }
    doc->items[doc->count++] = *item;
    return 0;
}

static int read_pair_into(struct reader *r, struct buf *path, struct toml_item *item)
{
    item->line = r->line;
    buf_add_slice(path, r->table);
    if (read_key(r, path, &item->key)) return -1;
    if (peek(r) != '=') return fail(r, "expected '=' behind the key");
    r->p++;
    skip_blanks(r);
    item->table = slice_of(keep(r->doc, path->p, path->len), path->len);
    item->key = slice_of(keep(r->doc, item->key.p, item->key.n), item->key.n);
    item->from = (size_t)(r->p - r->start);
    if (read_value(r, &item->value, 0)) return -1;
    item->to = (size_t)(r->p - r->start);
    if (end_line(r)) return -1;
    return add_item(r, item);
}

static int read_pair(struct reader *r)
{
    struct buf path = {0};
    struct toml_item item = {0};
    int rc = read_pair_into(r, &path, &item);
    buf_fini(&path);
    return rc;
}

int toml_parse(struct toml *doc, struct slice source)
{
    *doc = (struct toml){.top_end = source.n};
    const char *start = source.n ? source.p : "";
    struct reader r = {.doc = doc, .start = start, .p = start, .end = start + source.n, .line = 1};
    int rc = 0;
    while (rc == 0 && (rc = skip_space(&r)) == 0 && r.p < r.end) rc = *r.p == '[' ? read_header(&r) : read_pair(&r);
    mem_free(r.tables);
    return rc;
}

void toml_fini(struct toml *doc)
{
    for (struct toml_block *b = doc->blocks; b;) {
        struct toml_block *next = b->next;
        mem_free(b);
        b = next;
    }
    mem_free(doc->items);
    doc->items = NULL;
    doc->blocks = NULL;
    doc->count = 0;
}

const struct toml_item *toml_find(const struct toml *doc, struct slice table, struct slice key)
{
    for (size_t i = 0; i < doc->count; i++) {
        const struct toml_item *item = &doc->items[i];
        if (slice_eq(item->key, key) && slice_eq(item->table, table)) return item;
    }
    return NULL;
}
