#include "snapshot/jsonrow.h"

#include <stdint.h>

#include "cel/utf8.h"

struct cursor {
    const char *p, *end;
    const char *fault;
    unsigned depth;
};

static bool fail(struct cursor *c, const char *what)
{
    if (!c->fault) c->fault = what;
    return false;
}

static void skip_space(struct cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r')) c->p++;
}

static bool take(struct cursor *c, char x)
{
    skip_space(c);
    if (c->p == c->end || *c->p != x) return false;
    c->p++;
    return true;
}

/* ---- tokens */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool skip_escape(struct cursor *c)
{
    if (c->p == c->end) return fail(c, "a string that is never closed");
    char x = *c->p++;
    if (x != 'u') return (x && strchr("\"\\/bfnrt", x)) || fail(c, "an escape that JSON does not have");
    for (int i = 0; i < 4; i++, c->p++)
        if (c->p == c->end || hex_digit(*c->p) < 0) return fail(c, "\\u without four hexadecimal digits");
    return true;
}

/* The opening quote is behind us. */
static bool string(struct cursor *c, struct slice *raw, bool *has_escapes)
{
    const char *from = c->p;
    *has_escapes = false;
    while (c->p < c->end && *c->p != '"') {
        uint8_t x = (uint8_t)*c->p++;
        if (x < 0x20) return fail(c, "a control character inside a string");
        if (x != '\\') continue;
        *has_escapes = true;
        if (!skip_escape(c)) return false;
    }
    if (c->p == c->end) return fail(c, "a string that is never closed");
    *raw = slice_of(from, (size_t)(c->p++ - from));
    return true;
}

static size_t skip_digits(struct cursor *c)
{
    const char *from = c->p;
    while (c->p < c->end && *c->p >= '0' && *c->p <= '9') c->p++;
    return (size_t)(c->p - from);
}

static bool number(struct cursor *c)
{
    if (*c->p == '-') c->p++;
    const char *from = c->p;
    size_t n = skip_digits(c);
    if (n == 0 || (n > 1 && *from == '0')) return fail(c, "not a number as JSON has them");
    if (c->p < c->end && *c->p == '.') {
        c->p++;
        if (skip_digits(c) == 0) return fail(c, "not a number as JSON has them");
    }
    if (c->p < c->end && (*c->p == 'e' || *c->p == 'E')) {
        c->p++;
        if (c->p < c->end && (*c->p == '+' || *c->p == '-')) c->p++;
        if (skip_digits(c) == 0) return fail(c, "not a number as JSON has them");
    }
    return true;
}

static bool word(struct cursor *c, const char *w)
{
    size_t n = strlen(w);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, w, n) != 0) return fail(c, "not a JSON value");
    c->p += n;
    return true;
}

/* ---- values */

static bool value(struct cursor *c, struct jsonrow_field *f);

static bool array(struct cursor *c)
{
    struct jsonrow_field ignored;
    if (take(c, ']')) return true;
    do
        if (!value(c, &ignored)) return false;
    while (take(c, ','));
    return take(c, ']') || fail(c, "an array that is never closed");
}

/* The opening brace is behind us. Members go to `want`, if there is anything wanted. */
static bool object(struct cursor *c, struct jsonrow_field *want, size_t n);

static bool nested(struct cursor *c)
{
    if (++c->depth > JSONROW_DEPTH_MAX) return fail(c, "nested too deep");
    bool good = *c->p++ == '[' ? array(c) : object(c, NULL, 0);
    c->depth--;
    return good;
}

static bool value(struct cursor *c, struct jsonrow_field *f)
{
    skip_space(c);
    if (c->p == c->end) return fail(c, "a value is missing");
    const char *from = c->p;
    bool good;
    f->has_escapes = false;
    switch (*c->p) {
    case '"':
        c->p++;
        f->kind = JSONROW_STRING;
        return string(c, &f->raw, &f->has_escapes);
    case '{': f->kind = JSONROW_OBJECT, good = nested(c); break;
    case '[': f->kind = JSONROW_ARRAY, good = nested(c); break;
    case 't': f->kind = JSONROW_BOOL, good = word(c, "true"); break;
    case 'f': f->kind = JSONROW_BOOL, good = word(c, "false"); break;
    case 'n': f->kind = JSONROW_NULL, good = word(c, "null"); break;
    default: f->kind = JSONROW_NUMBER, good = number(c); break;
    }
    f->raw = slice_of(from, (size_t)(c->p - from));
    return good;
}

/* Names with escapes are rare: they are unescaped for the comparison. */
static void store(const struct jsonrow_field *found, struct jsonrow_field *want, size_t n)
{
    struct buf plain = {0};
    struct slice name = found->name;
    if (memchr(name.p, '\\', name.n)) {
        jsonrow_unescape(name, &plain);
        name = buf_slice(&plain);
    }
    for (size_t i = 0; i < n; i++) {
        if (!slice_eq(want[i].name, name)) continue;
        struct slice own = want[i].name;
        want[i] = *found;
        want[i].name = own;
    }
    buf_fini(&plain);
}

static bool object(struct cursor *c, struct jsonrow_field *want, size_t n)
{
    bool ignored;
    if (take(c, '}')) return true;
    do {
        struct jsonrow_field f;
        if (!take(c, '"')) return fail(c, "the name of a field is missing");
        if (!string(c, &f.name, &ignored)) return false;
        if (!take(c, ':')) return fail(c, "a colon is missing behind the name of a field");
        if (!value(c, &f)) return false;
        if (n) store(&f, want, n);
    } while (take(c, ','));
    return take(c, '}') || fail(c, "an object that is never closed");
}

const char *jsonrow_parse(struct slice line, struct jsonrow_field *fields, size_t n, size_t *at)
{
    struct cursor c = {.p = line.p, .end = line.p + line.n};
    for (size_t i = 0; i < n; i++) fields[i].kind = JSONROW_ABSENT;
    if (!take(&c, '{')) fail(&c, "not a JSON object: each line is one");
    else if (object(&c, fields, n)) {
        skip_space(&c);
        if (c.p < c.end) fail(&c, "something stands behind the object");
    }
    *at = (size_t)(c.p - line.p);
    return c.fault;
}

/* ---- strings */

static uint32_t hex4(const char *p)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) v = v << 4 | (uint32_t)hex_digit(p[i]);
    return v;
}

static void add_utf8(struct buf *out, uint32_t c)
{
    if (c < 0x80) {
        buf_add_byte(out, (char)c);
    } else if (c < 0x800) {
        buf_add(out, (char[]){(char)(0xc0 | c >> 6), (char)(0x80 | (c & 63))}, 2);
    } else if (c < 0x10000) {
        buf_add(out, (char[]){(char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63))}, 3);
    } else {
        buf_add(out, (char[]){(char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 63)), (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63))}, 4);
    }
}

/* p is behind "\u". Gives the place behind it, and behind a second half; NULL: a half stands alone. */
static const char *unescape_unicode(const char *p, const char *end, struct buf *out)
{
    uint32_t c = hex4(p);
    p += 4;
    if (c >= 0xdc00 && c < 0xe000) return NULL;
    if (c >= 0xd800 && c < 0xdc00) {
        uint32_t low = end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2) : 0;
        if (low < 0xdc00 || low >= 0xe000) return NULL;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        p += 6;
    }
    add_utf8(out, c);
    return p;
}

bool jsonrow_unescape(struct slice raw, struct buf *out)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    size_t before = out->len;
    const char *p = raw.p, *end = raw.p + raw.n;
    while (p && p < end) {
        const char *at = memchr(p, '\\', (size_t)(end - p));
        buf_add(out, p, (size_t)((at ? at : end) - p));
        if (!at) break;
        const char *named = strchr(from, at[1]);
        if (at[1] == 'u') {
            p = unescape_unicode(at + 2, end, out);
            continue;
        }
        buf_add_byte(out, named ? to[named - from] : at[1]);
        p = at + 2;
    }
    if (!p && raw.n) out->len = before;
    return p || raw.n == 0;
}

static void add_escaped(struct buf *out, uint32_t c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *named = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (named) {
        buf_add_byte(out, '\\');
        buf_add_byte(out, to[named - from]);
    } else if (c < 0x10000) {
        buf_printf(out, "\\u%04x", c);
    } else {
        c -= 0x10000;
        buf_printf(out, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
    }
}

bool jsonrow_add_string(struct buf *out, struct slice text)
{
    if (!utf8_valid(text)) return false;
    buf_add_byte(out, '"');
    for (size_t at = 0; at < text.n;) {
        size_t plain = at;
        while (plain < text.n && text.p[plain] >= ' ' && text.p[plain] < 0x7f && text.p[plain] != '"' && text.p[plain] != '\\') plain++;
        buf_add(out, text.p + at, plain - at);
        at = plain;
        if (at == text.n) break;
        uint32_t c;
        at += utf8_decode(slice_of(text.p + at, text.n - at), &c);
        add_escaped(out, c);
    }
    buf_add_byte(out, '"');
    return true;
}

static bool compact_string(struct slice raw, struct buf *out)
{
    struct buf plain = {0};
    bool good = jsonrow_unescape(raw, &plain) && jsonrow_add_string(out, buf_slice(&plain));
    buf_fini(&plain);
    return good;
}

/* Strings are taken apart and made anew; of the rest only whitespace goes. The bytes have passed the parser. */
bool jsonrow_compact(const struct jsonrow_field *f, struct buf *out)
{
    if (f->kind == JSONROW_STRING) return compact_string(f->raw, out);
    struct cursor c = {.p = f->raw.p, .end = f->raw.p + f->raw.n};
    while (c.p < c.end) {
        struct slice raw;
        bool ignored;
        char x = *c.p++;
        if (x == '"') {
            if (!string(&c, &raw, &ignored) || !compact_string(raw, out)) return false;
        } else if (x != ' ' && x != '\t' && x != '\n' && x != '\r') {
            buf_add_byte(out, x);
        }
    }
    return true;
}

/* ---- base64 */

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static bool decode_base64(struct slice s, struct buf *out)
{
    uint32_t bits = 0;
    size_t n = s.n;
    if (n % 4) return false;
    while (n && s.n - n < 2 && s.p[n - 1] == '=') n--;
    for (size_t i = 0; i < n; i++) {
        int d = base64_digit(s.p[i]);
        if (d < 0) return false;
        bits = bits << 6 | (uint32_t)d;
        if (i % 4) buf_add_byte(out, (char)(bits >> (6 - 2 * (i % 4))));
    }
    return true;
}

bool jsonrow_base64(const struct jsonrow_field *f, struct buf *out)
{
    struct cursor c = {.p = f->raw.p, .end = f->raw.p + f->raw.n};
    struct slice name, digits;
    size_t before = out->len;
    bool has_escapes;
    if (f->kind != JSONROW_OBJECT || !take(&c, '{') || !take(&c, '"') || !string(&c, &name, &has_escapes) || !slice_eq(name, SLICE("base64"))) return false;
    if (!take(&c, ':') || !take(&c, '"') || !string(&c, &digits, &has_escapes) || !take(&c, '}')) return false;
    if (decode_base64(digits, out)) return true;
    out->len = before;
    return false;
}
