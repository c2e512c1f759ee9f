#include "cel/lexer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cel/utf8.h"

static int byte_at(const struct lexer *l, uint32_t at)
{
    return at < l->source->text.n ? (unsigned char)l->source->text.p[at] : -1;
}

static bool is_digit(int c) { return c >= '0' && c <= '9'; }
static bool is_hex(int c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static bool starts_name(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool in_name(int c) { return starts_name(c) || is_digit(c); }

static void skip_space(struct lexer *l)
{
    for (;;) {
        int c = byte_at(l, l->at);
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f') {
            l->at++;
        } else if (c == '/' && byte_at(l, l->at + 1) == '/') {
            while ((c = byte_at(l, l->at)) >= 0 && c != '\n') l->at++;
        } else {
            return;
        }
    }
}

/* ---- numbers */

/* Where digits, a fraction and an exponent end; *real tells if it has one of the latter two. "1.size()" is the number 1. */
static uint32_t number_end(const struct lexer *l, bool *real)
{
    uint32_t at = l->at;
    while (is_digit(byte_at(l, at))) at++;
    *real = byte_at(l, at) == '.' && is_digit(byte_at(l, at + 1));
    if (*real) {
        at++;
        while (is_digit(byte_at(l, at))) at++;
    }
    int e = byte_at(l, at);
    if (e == 'e' || e == 'E') {
        uint32_t digits = at + 1;
        if (byte_at(l, digits) == '+' || byte_at(l, digits) == '-') digits++;
        if (is_digit(byte_at(l, digits))) {
            *real = true;
            at = digits;
            while (is_digit(byte_at(l, at))) at++;
        }
    }
    return at;
}

static bool read_real(struct lexer *l, struct token *t, uint32_t end)
{
    struct slice digits = scratch_copy(l->source->arena, slice_of(l->source->text.p + l->at, end - l->at));
    t->value = (struct cel_value){.kind = CEL_DOUBLE, .real = strtod(digits.p, NULL)};
    l->at = end;
    return true;
}

static bool read_integer(struct lexer *l, struct token *t, int base, uint32_t digits, uint32_t end)
{
    struct slice text = scratch_copy(l->source->arena, slice_of(l->source->text.p + digits, end - digits));
    errno = 0;
    unsigned long long n = strtoull(text.p, NULL, base);
    bool fits = errno == 0;
    int suffix = byte_at(l, end);
    if (suffix == 'u' || suffix == 'U') {
        if (!fits) return source_fail(l->source, t->at, "integer does not fit into 64 bits");
        t->value = (struct cel_value){.kind = CEL_UINT, .natural = n};
        end++;
    } else {
        t->huge = n == 1ull << 63;
        if (!fits || n > 1ull << 63) return source_fail(l->source, t->at, "integer does not fit into 64 bits");
        t->value = (struct cel_value){.kind = CEL_INT, .integer = (int64_t)n};
    }
    l->at = end;
    return true;
}

static bool read_number(struct lexer *l, struct token *t)
{
    t->kind = TOKEN_LITERAL;
    int second = byte_at(l, l->at + 1);
    bool ok;
    if (byte_at(l, l->at) == '0' && (second == 'x' || second == 'X') && is_hex(byte_at(l, l->at + 2))) {
        uint32_t end = l->at + 2;
        while (is_hex(byte_at(l, end))) end++;
        ok = read_integer(l, t, 16, l->at + 2, end);
    } else {
        bool real;
        uint32_t end = number_end(l, &real);
        ok = real ? read_real(l, t, end) : read_integer(l, t, 10, l->at, end);
    }
    if (ok && in_name(byte_at(l, l->at))) return source_fail(l->source, l->at, "a number may not run into a name");
    return ok;
}

/* ---- names */

static bool is_text(const struct lexer *l)
{
    uint32_t at = l->at;
    for (int prefixes = 0; prefixes < 2; prefixes++) {
        int c = byte_at(l, at);
        if (c == 'r' || c == 'R' || c == 'b' || c == 'B') at++;
    }
    return byte_at(l, at) == '"' || byte_at(l, at) == '\'';
}

static enum token_kind keyword(struct slice name)
{
    if (slice_eq(name, SLICE("true"))) return TOKEN_TRUE;
    if (slice_eq(name, SLICE("false"))) return TOKEN_FALSE;
    if (slice_eq(name, SLICE("null"))) return TOKEN_NULL;
    if (slice_eq(name, SLICE("in"))) return TOKEN_IN;
    return TOKEN_NAME;
}

bool lexer_reserved(struct slice name)
{
    static const char *const words[] = {"as",        "break",  "const",  "continue", "else", "for",
                                        "function",  "if",     "import", "let",      "loop", "package",
                                        "namespace", "return", "var",    "void",     "while"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (slice_eq(name, slice_str(words[i]))) return true;
    }
    return false;
}

static bool read_name(struct lexer *l, struct token *t)
{
    uint32_t end = l->at;
    while (in_name(byte_at(l, end))) end++;
    t->text = slice_of(l->source->text.p + l->at, end - l->at);
    t->kind = keyword(t->text);
    l->at = end;
    return true;
}

/* `content-type`: a field whose name is no name. */
static bool read_quoted(struct lexer *l, struct token *t)
{
    uint32_t end = ++l->at;
    for (int c; (c = byte_at(l, end)) != '`'; end++) {
        if (!in_name(c) && c != '.' && c != '-' && c != '/' && c != ' ')
            return source_fail(l->source, end, "not a character of a `quoted name`");
    }
    if (end == l->at) return source_fail(l->source, t->at, "empty `quoted name`");
    t->kind = TOKEN_QUOTED;
    t->text = slice_of(l->source->text.p + l->at, end - l->at);
    l->at = end + 1;
    return true;
}

/* ---- the rest */

static bool read_punctuation(struct lexer *l, struct token *t)
{
    static const struct {
        char text[3];
        enum token_kind kind;
    } table[] = {
        /* The longer ones first. */
        {"==", TOKEN_EQ},      {"!=", TOKEN_NE},      {"<=", TOKEN_LE},     {">=", TOKEN_GE},    {"&&", TOKEN_AND},
        {"||", TOKEN_OR},      {"<", TOKEN_LT},       {">", TOKEN_GT},      {".", TOKEN_DOT},    {",", TOKEN_COMMA},
        {":", TOKEN_COLON},    {"?", TOKEN_QUESTION}, {"!", TOKEN_NOT},     {"+", TOKEN_PLUS},   {"-", TOKEN_MINUS},
        {"*", TOKEN_STAR},     {"/", TOKEN_SLASH},    {"%", TOKEN_PERCENT}, {"(", TOKEN_LPAREN}, {")", TOKEN_RPAREN},
        {"[", TOKEN_LBRACKET}, {"]", TOKEN_RBRACKET}, {"{", TOKEN_LBRACE},  {"}", TOKEN_RBRACE},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t n = strlen(table[i].text);
        if (byte_at(l, l->at) != table[i].text[0] || (n == 2 && byte_at(l, l->at + 1) != table[i].text[1])) continue;
        t->kind = table[i].kind;
        l->at += (uint32_t)n;
        return true;
    }
    uint32_t c = 0;
    utf8_decode(slice_of(l->source->text.p + l->at, l->source->text.n - l->at), &c);
    return source_fail(l->source, l->at,
                       c > ' ' && c < 127 ? "unexpected character '%c'" : "unexpected character U+%04X", (int)c);
}

bool lexer_next(struct lexer *l, struct token *t)
{
    skip_space(l);
    *t = (struct token){.at = l->at};
    int c = byte_at(l, l->at);
    bool ok = true;
    if (c < 0) t->kind = TOKEN_END;
    else if (is_digit(c) || (c == '.' && is_digit(byte_at(l, l->at + 1)))) ok = read_number(l, t);
    else if (is_text(l)) ok = lexer_text(l, t);
    else if (starts_name(c)) ok = read_name(l, t);
    else if (c == '`') ok = read_quoted(l, t);
    else ok = read_punctuation(l, t);
    t->end = l->at;
    return ok;
}
