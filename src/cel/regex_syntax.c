/* The two agree but for this:
 *
 *   RE2                         PCRE2                       here
 *   -                           \1 \k \g (?=) (?<=) (?>)    refused, with all that begins with "(?" or "(*" and is not below
 *   a**  is an error, a*+ too   a*+ is possessive           refused
 *   \s  is [\t\n\f\r ]          has \v too                  [\t\n\f\r ]
 *   \v  is a vertical tab       any vertical space          \x0b
 *   \z  is the end              the same                    as it is; \Z, \G, \K, \R, \X, \h... refused
 *   \C  any byte                the same                    refused: it would cut characters
 *   {n,m} up to 1000            up to 65535                 refused beyond 1000
 *   (?i) (?m) (?s) (?U) (?i:x)  the same                    as they are
 *   (?P<name>x) (?<name>x)      the same                    as they are */
#include "cel/regex_syntax.h"

enum { REPEAT_MAX = 1000 };

struct reader {
    const char *p, *end;
    struct buf *out;
    bool in_class;
};

static int peek(const struct reader *r, size_t ahead)
{
    return (size_t)(r->end - r->p) > ahead ? (unsigned char)r->p[ahead] : -1;
}

static void copy(struct reader *r, size_t n)
{
    buf_add(r->out, r->p, n);
    r->p += n;
}

static bool is_digit(int c) { return c >= '0' && c <= '9'; }

/* \Q...\E: text without meaning. */
static void quote(struct reader *r)
{
    const char *stop = memmem(r->p, (size_t)(r->end - r->p), "\\E", 2);
    size_t n = stop ? (size_t)(stop - r->p) + 2 : (size_t)(r->end - r->p);
    copy(r, n);
    if (!stop) buf_add_str(r->out, "\\E");
}

static const char *escape(struct reader *r)
{
    int c = peek(r, 1);
    if (c < 0) return "trailing \\";
    if (c == 'Q') return quote(r), NULL;
    if (c == 's' || c == 'v' || (c == 'S' && !r->in_class)) {
        if (c == 'v') buf_add_str(r->out, "\\x0b");
        else if (r->in_class) buf_add_str(r->out, "\\t\\n\\f\\r ");
        else buf_add_str(r->out, c == 's' ? "[\\t\\n\\f\\r ]" : "[^\\t\\n\\f\\r ]");
        r->p += 2;
        return NULL;
    }
    if (is_digit(c)) {
        /* Octal only with a leading zero or three digits; one or two are a backreference. */
        bool octal = c == '0' || (c <= '7' && is_digit(peek(r, 2)) && is_digit(peek(r, 3)));
        if (!octal) return "backreferences are not supported";
        return copy(r, 2), NULL;
    }
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter && !strchr("dDwWsSbBAzpPxaftnrQE", c)) return "escape is not supported";
    if (c == 'E') return r->p += 2, NULL;
    if ((c == 'p' || c == 'P' || c == 'x') && peek(r, 2) == '{') {
        const char *stop = memchr(r->p, '}', (size_t)(r->end - r->p));
        return copy(r, stop ? (size_t)(stop - r->p) + 1 : 2), NULL;
    }
    return copy(r, 2), NULL;
}

/* "(?": flags, a name, or nothing that RE2 has. */
static const char *group(struct reader *r)
{
    size_t i = 2;
    int c = peek(r, i);
    if (c == 'P' || c == '<') {
        bool named = c == 'P' ? peek(r, 3) == '<' : peek(r, 3) != '=' && peek(r, 3) != '!';
        if (!named) return "look-around and recursion are not supported";
        return copy(r, c == 'P' ? 4 : 3), NULL;
    }
    while ((c = peek(r, i)) >= 0 && strchr("imsU-", c)) i++;
    if (c != ')' && c != ':') return "look-around, atomic groups and recursion are not supported";
    return copy(r, i + 1), NULL;
}

/* {n}, {n,} or {n,m}; anything else is a brace. *length is of all of it, 0 for a brace. */
static const char *repeat(const struct reader *r, size_t *length)
{
    size_t i = 1;
    *length = 0;
    for (int bound = 0; bound < 2; bound++) {
        int n = 0;
        size_t from = i;
        for (; is_digit(peek(r, i)); i++) n = n > REPEAT_MAX ? n : n * 10 + (peek(r, i) - '0');
        if (bound == 0 && i == from) return NULL;
        if (n > REPEAT_MAX) return "repetition above 1000";
        if (peek(r, i) == '}') {
            *length = i + 1;
            return NULL;
        }
        if (bound || peek(r, i) != ',') return NULL;
        i++;
    }
    return NULL;
}

/* After a quantifier: a second one is an error in RE2, and possessive in PCRE2; one "?" makes it lazy. */
static const char *after_quantifier(struct reader *r)
{
    if (peek(r, 0) == '?') copy(r, 1);
    size_t length = 0;
    int c = peek(r, 0);
    if (c == '{') repeat(r, &length);
    return c == '*' || c == '+' || c == '?' || length ? "repetition of a repetition" : NULL;
}

static const char *quantifier(struct reader *r)
{
    size_t length = 1;
    if (*r->p == '{') {
        const char *error = repeat(r, &length);
        if (error) return error;
    }
    if (length == 0) {
        buf_add_str(r->out, "\\{");
        r->p++;
        return NULL;
    }
    copy(r, length);
    return after_quantifier(r);
}

/* "[": up to the matching "]"; a "]" that comes first is a member. */
static void open_class(struct reader *r)
{
    copy(r, 1);
    if (peek(r, 0) == '^') copy(r, 1);
    if (peek(r, 0) == ']') copy(r, 1);
    r->in_class = true;
}

/* [:alpha:] inside a class, whose "]" does not close it. */
static bool posix_class(struct reader *r)
{
    const char *stop = memmem(r->p, (size_t)(r->end - r->p), ":]", 2);
    if (peek(r, 1) != ':' || !stop || stop < r->p + 2) return false;
    copy(r, (size_t)(stop - r->p) + 2);
    return true;
}

const char *regex_syntax_translate(struct slice pattern, struct buf *out)
{
    struct reader r = {pattern.p, pattern.p + pattern.n, out, false};
    const char *error = NULL;
    while (!error && r.p < r.end) {
        char c = *r.p;
        if (c == '\\') {
            error = escape(&r);
        } else if (r.in_class) {
            r.in_class = c != ']';
            if (c != '[' || !posix_class(&r)) copy(&r, 1);
        } else if (c == '[') {
            open_class(&r);
        } else if (c == '(' && peek(&r, 1) == '*') {
            error = "verbs are not supported";
        } else if (c == '(' && peek(&r, 1) == '?') {
            error = group(&r);
        } else if (c == '*' || c == '+' || c == '?' || c == '{') {
            error = quantifier(&r);
        } else {
            copy(&r, 1);
        }
    }
    return error;
}
