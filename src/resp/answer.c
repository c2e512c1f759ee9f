#include "resp/answer.h"

#include <string.h>

#include "base/num.h"

enum { DEPTH_MAX = 32 }; /* of values in values */

static bool take_line(struct slice *in, struct slice *line)
{
    const char *end = in->n ? memchr(in->p, '\r', in->n) : NULL;
    size_t n = end ? (size_t)(end - in->p) : 0;
    if (!end || in->n - n < 2 || end[1] != '\n') return false;
    *line = slice_of(in->p, n);
    *in = slice_of(end + 2, in->n - n - 2);
    return true;
}

static bool take_bytes(struct slice *in, int64_t n, struct slice *bytes)
{
    if (n < 0 || (uint64_t)n > in->n || in->n - (size_t)n < 2 || memcmp(in->p + n, "\r\n", 2) != 0) return false;
    *bytes = slice_of(in->p, (size_t)n);
    *in = slice_of(in->p + n + 2, in->n - (size_t)n - 2);
    return true;
}

bool answer_next(struct slice *in, struct answer *a)
{
    struct slice line;
    if (!take_line(in, &line) || line.n == 0) return false;
    *a = (struct answer){.type = line.p[0], .text = slice_of(line.p + 1, line.n - 1)};
    switch (a->type) {
    case '+': case '-': case ',': case '(': case '#': case '_': return true;
    case ':': return num_parse_i64(a->text, &a->n);
    case '$': case '=': case '!': case '*': case '~': case '>': case '%': case '|': break;
    default: return false;
    }
    if (!num_parse_i64(a->text, &a->n) || a->n < -1) return false;
    if (a->n < 0) a->type = '_';
    else if (strchr("$=!", a->type)) return take_bytes(in, a->n, &a->text);
    return true;
}

static uint64_t values_in(const struct answer *a)
{
    if (a->type == '%') return 2 * (uint64_t)a->n;
    if (a->type == '|') return 2 * (uint64_t)a->n + 1; /* attributes, and what they are about */
    return a->type == '*' || a->type == '~' || a->type == '>' ? (uint64_t)a->n : 0;
}

bool answer_whole(struct slice *in, struct slice *value)
{
    uint64_t left[DEPTH_MAX];
    const char *from = in->p;
    unsigned depth = 0;
    left[0] = 1;
    for (;;) {
        struct answer a;
        if (!answer_next(in, &a)) return false;
        left[depth]--;
        uint64_t n = values_in(&a);
        if (n && ++depth == DEPTH_MAX) return false;
        if (n) left[depth] = n;
        while (left[depth] == 0) {
            if (depth-- == 0) {
                *value = slice_of(from, (size_t)(in->p - from));
                return true;
            }
        }
    }
}

bool answer_array(struct slice *in, uint32_t *n)
{
    struct answer a;
    if (!answer_next(in, &a) || a.type != '*' || a.n > UINT32_MAX) return false;
    *n = (uint32_t)a.n;
    return true;
}

bool answer_is_error(struct slice in, const char *code)
{
    size_t n = strlen(code);
    return in.n > n + 1 && in.p[0] == '-' && memcmp(in.p + 1, code, n) == 0 && (in.p[n + 1] == ' ' || in.p[n + 1] == '\r');
}
