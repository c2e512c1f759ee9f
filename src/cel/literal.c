/* String and bytes literals: 'x', "x", '''x''', """x""", with the prefixes r (no escapes) and b (bytes), in either case
 * and order. */
#include "cel/lexer.h"
#include "cel/utf8.h"

struct reader {
    struct lexer *lexer;
    const char *p, *end;
    char *out; /* as long as the literal: no escape is shorter than what it stands for */
    size_t n;
    bool bytes, raw;
};

static bool fail(struct reader *r, const char *what)
{
    return source_fail(r->lexer->source, (uint32_t)(r->p - r->lexer->source->text.p), "%s", what);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* A code: of a byte in bytes, of a character in strings. */
static bool add_code(struct reader *r, uint32_t code)
{
    if (r->bytes) {
        r->out[r->n++] = (char)code;
        return true;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return fail(r, "escape is not a Unicode character");
    r->n += utf8_encode(r->out + r->n, code);
    return true;
}

/* \x41 \u00e9 \U0001f600; p stands behind the letter. */
static bool read_hex(struct reader *r, int digits)
{
    uint32_t code = 0;
    for (int i = 0; i < digits; i++, r->p++) {
        int d = r->p < r->end ? hex_digit(*r->p) : -1;
        if (d < 0) return fail(r, "too few hexadecimal digits in an escape");
        code = code << 4 | (uint32_t)d;
    }
    return add_code(r, code);
}

/* \101: three octal digits, at most \377. */
static bool read_octal(struct reader *r)
{
    uint32_t code = 0;
    for (int i = 0; i < 3; i++, r->p++) {
        if (r->p >= r->end || *r->p < '0' || *r->p > '7') return fail(r, "an octal escape has three digits");
        code = code << 3 | (uint32_t)(*r->p - '0');
    }
    return code <= 0xff ? add_code(r, code) : fail(r, "octal escape above \\377");
}

/* An escape; p stands behind the backslash. */
static bool read_escape(struct reader *r)
{
    static const char from[] = "abfnrtv\\?\"'`", to[] = "\a\b\f\n\r\t\v\\?\"'`";
    if (r->p >= r->end) return fail(r, "literal does not end");
    char c = *r->p;
    if (c >= '0' && c <= '3') return read_octal(r);
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        r->out[r->n++] = to[simple - from];
        r->p++;
        return true;
    }
    int digits = c == 'x' || c == 'X' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) return fail(r, "no such escape");
    if (digits > 2 && r->bytes) return fail(r, "\\u and \\U are not for bytes");
    r->p++;
    return read_hex(r, digits);
}

/* The text up to the closing quotes, which stay. */
static bool read_body(struct reader *r, char quote, size_t quotes)
{
    const char close[3] = {quote, quote, quote};
    for (;;) {
        if (r->p >= r->end) return fail(r, "literal does not end");
        if ((size_t)(r->end - r->p) >= quotes && memcmp(r->p, close, quotes) == 0) return true;
        if (*r->p == '\\' && !r->raw) {
            r->p++;
            if (!read_escape(r)) return false;
        } else if (quotes == 1 && (*r->p == '\n' || *r->p == '\r')) {
            return fail(r, "a line break needs '''three quotes'''");
        } else {
            r->out[r->n++] = *r->p++;
        }
    }
}

/* Bytes up to the closing quotes, or to the end of the text if there are none. */
static size_t body_length(const struct reader *r, char quote, size_t quotes)
{
    const char close[3] = {quote, quote, quote};
    const char *p = r->p;
    while (p < r->end && !((size_t)(r->end - p) >= quotes && memcmp(p, close, quotes) == 0)) {
        p += *p == '\\' && !r->raw && r->end - p > 1 ? 2 : 1;
    }
    return (size_t)(p - r->p);
}

bool lexer_text(struct lexer *l, struct token *t)
{
    struct slice text = l->source->text;
    struct reader r = {.lexer = l, .p = text.p + l->at, .end = text.p + text.n};
    for (; *r.p != '"' && *r.p != '\''; r.p++) {
        if (*r.p == 'r' || *r.p == 'R') {
            if (r.raw) return fail(&r, "prefix r twice");
            r.raw = true;
        } else {
            if (r.bytes) return fail(&r, "prefix b twice");
            r.bytes = true;
        }
    }
    char quote = *r.p;
    size_t quotes = r.end - r.p >= 3 && r.p[1] == quote && r.p[2] == quote ? 3 : 1;
    r.p += quotes;
    r.out = scratch_alloc(l->source->arena, body_length(&r, quote, quotes));
    if (!read_body(&r, quote, quotes)) return false;
    t->kind = TOKEN_LITERAL;
    t->value = (struct cel_value){.kind = r.bytes ? CEL_BYTES : CEL_STRING, .text = slice_of(r.out, r.n)};
    l->at = (uint32_t)(r.p - text.p + (ptrdiff_t)quotes);
    return true;
}
