/* Extension: strings. Positions count characters. */
#include "cel/library.h"
#include "cel/utf8.h"
#include "cel/value.h"

/* Where the n-th character begins; the text's length for the one behind the last. False if there is none. */
static bool offset_of(struct slice text, int64_t n, size_t *offset)
{
    size_t at = 0;
    for (; n > 0 && at < text.n; n--) {
        at++;
        while (at < text.n && !utf8_starts(text.p[at])) at++;
    }
    *offset = at;
    return n == 0;
}

static bool bad_index(struct eval *e, int64_t index) { return eval_fail(e, "index out of range: %lld", (long long)index); }

/* ---- finding */

static bool char_at(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    size_t from, to;
    if (!eval_spend(e, a[0].text.n / 64)) return false;
    if (!offset_of(a[0].text, a[1].integer, &from)) return bad_index(e, a[1].integer);
    struct slice rest = slice_of(a[0].text.p + from, a[0].text.n - from);
    if (!offset_of(rest, 1, &to)) to = 0;
    *out = value_string(slice_of(rest.p, to));
    return true;
}

static bool find(struct eval *e, const struct cel_value *a, int64_t from, struct cel_value *out)
{
    struct slice in = a[0].text, what = a[1].text;
    size_t at;
    if (!eval_spend(e, (in.n + what.n) / 16)) return false;
    if (!offset_of(in, from, &at)) return bad_index(e, from);
    const char *found = what.n ? (in.n > at ? memmem(in.p + at, in.n - at, what.p, what.n) : NULL) : in.p + at;
    *out = value_int(found ? (int64_t)utf8_count(slice_of(in.p, (size_t)(found - in.p))) : -1);
    return true;
}

static bool index_of(struct eval *e, const struct cel_value *a, struct cel_value *out) { return find(e, a, 0, out); }
static bool index_of_from(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return find(e, a, a[2].integer, out);
}

/* The last place at or before an offset. */
static bool find_last(struct eval *e, const struct cel_value *a, size_t at, struct cel_value *out)
{
    struct slice in = a[0].text, what = a[1].text;
    *out = value_int(-1);
    if (what.n > in.n) return true;
    if (!eval_spend(e, in.n / 16 + in.n * (what.n / 64))) return false;
    if (at > in.n - what.n) at = in.n - what.n;
    for (size_t i = at + 1; i-- > 0;) {
        if ((what.n && memcmp(in.p + i, what.p, what.n) != 0) || (i < in.n && !utf8_starts(in.p[i]))) continue;
        *out = value_int((int64_t)utf8_count(slice_of(in.p, i)));
        return true;
    }
    return true;
}

static bool last_index_of(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return find_last(e, a, a[0].text.n, out);
}

static bool last_index_of_from(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    size_t at;
    if (!offset_of(a[0].text, a[2].integer, &at)) return bad_index(e, a[2].integer);
    return find_last(e, a, at, out);
}

/* ---- parts */

static bool substring_between(struct eval *e, struct slice text, int64_t from, int64_t to, struct cel_value *out)
{
    size_t start, stop;
    if (!eval_spend(e, text.n / 32)) return false;
    if (!offset_of(text, from, &start)) return bad_index(e, from);
    if (!offset_of(text, to, &stop)) return bad_index(e, to);
    if (from > to) return eval_fail(e, "invalid substring range: start %lld, end %lld", (long long)from, (long long)to);
    *out = value_string(slice_of(text.p + start, stop - start));
    return true;
}

static bool substring_from(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    size_t start;
    if (!eval_spend(e, a[0].text.n / 64)) return false;
    if (!offset_of(a[0].text, a[1].integer, &start)) return bad_index(e, a[1].integer);
    *out = value_string(slice_of(a[0].text.p + start, a[0].text.n - start));
    return true;
}

static bool substring(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return substring_between(e, a[0].text, a[1].integer, a[2].integer, out);
}

/* Unicode's White_Space. */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool trim(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    struct slice text = a->text;
    uint32_t c;
    size_t n;
    if (!eval_spend(e, text.n / 16)) return false;
    while ((n = utf8_decode(text, &c)) && is_space(c)) text = slice_of(text.p + n, text.n - n);
    for (size_t i = text.n; i-- > 0;) {
        if (!utf8_starts(text.p[i])) continue;
        if (!utf8_decode(slice_of(text.p + i, text.n - i), &c) || !is_space(c)) break;
        text.n = i;
    }
    *out = value_string(text);
    return true;
}

/* ---- new texts */

static bool change_case(struct eval *e, struct slice text, char first, struct cel_value *out)
{
    char *p = eval_alloc(e, text.n);
    if (!p) return false;
    for (size_t i = 0; i < text.n; i++)
        p[i] = text.p[i] >= first && text.p[i] < first + 26 ? (char)(text.p[i] ^ 0x20) : text.p[i];
    *out = value_string(slice_of(p, text.n));
    return true;
}

static bool lower_ascii(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return change_case(e, a->text, 'A', out);
}
static bool upper_ascii(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return change_case(e, a->text, 'a', out);
}

static bool reverse(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    char *p = eval_alloc(e, a->text.n);
    if (!p) return false;
    for (size_t from = 0, n; from < a->text.n; from += n) {
        for (n = 1; from + n < a->text.n && !utf8_starts(a->text.p[from + n]);) n++;
        memcpy(p + (a->text.n - from - n), a->text.p + from, n);
    }
    *out = value_string(slice_of(p, a->text.n));
    return true;
}

/* The next place to cut a text at a separator: before it, or behind the first character if that is empty. NULL: none. */
static const char *next_cut(struct slice rest, struct slice separator)
{
    size_t first;
    if (separator.n) return rest.n ? memmem(rest.p, rest.n, separator.p, separator.n) : NULL;
    return offset_of(rest, 1, &first) && first < rest.n ? rest.p + first : NULL;
}

/* Pieces of the text, at most `most` of them; how many, written to pieces unless that is NULL. */
static size_t cut(struct slice text, struct slice separator, int64_t most, struct cel_value *pieces)
{
    size_t count = 0;
    const char *at;
    while ((int64_t)count < most - 1 && (at = next_cut(text, separator))) {
        if (pieces) pieces[count] = value_string(slice_of(text.p, (size_t)(at - text.p)));
        count++;
        size_t skip = (size_t)(at - text.p) + separator.n;
        text = slice_of(text.p + skip, text.n - skip);
    }
    if (pieces) pieces[count] = value_string(text);
    return count + 1;
}

static bool split_most(struct eval *e, const struct cel_value *a, int64_t most, struct cel_value *out)
{
    *out = (struct cel_value){.kind = CEL_LIST};
    if (most == 0 || (a[0].text.n == 0 && a[1].text.n == 0)) return true;
    if (most < 0) most = INT64_MAX;
    if (!eval_spend(e, a[0].text.n / 8)) return false;
    size_t count = cut(a[0].text, a[1].text, most, NULL);
    struct cel_value *items = eval_alloc(e, count * sizeof *items);
    if (!items) return false;
    cut(a[0].text, a[1].text, most, items);
    out->list.items = items;
    out->list.count = count;
    return true;
}

static bool split(struct eval *e, const struct cel_value *a, struct cel_value *out) { return split_most(e, a, -1, out); }
static bool split_limited(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return split_most(e, a, a[2].integer, out);
}

static bool join_with(struct eval *e, const struct cel_value *list, struct slice separator, struct cel_value *out)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < list->list.count; i++) {
        if (list->list.items[i].kind != CEL_STRING)
            return eval_fail(e, "no such overload: join of a value of type %s",
                             value_kind_name(list->list.items[i].kind));
        n += list->list.items[i].text.n + (i ? separator.n : 0);
    }
    char *p = eval_alloc(e, n);
    if (!p) return false;
    for (size_t i = 0; i < list->list.count; i++) {
        struct slice parts[2] = {i ? separator : slice_of("", 0), list->list.items[i].text};
        for (int j = 0; j < 2; j++) {
            if (parts[j].n) memcpy(p + at, parts[j].p, parts[j].n);
            at += parts[j].n;
        }
    }
    *out = value_string(slice_of(p, n));
    return eval_spend(e, list->list.count);
}

static bool join(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return join_with(e, a, slice_of("", 0), out);
}
static bool join_separated(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return join_with(e, a, a[1].text, out);
}

/* Between the pieces of a cut text stands the replacement; with an empty "old", also at both ends. */
static bool replace_most(struct eval *e, const struct cel_value *a, int64_t most, struct cel_value *out)
{
    struct slice old = a[1].text;
    *out = a[0];
    if (most == 0) return true;
    if (most < 0 || most > INT32_MAX) most = INT32_MAX;
    struct cel_value pieces;
    if (!split_most(e, a, old.n ? most + 1 : most, &pieces)) return false;
    if (pieces.list.count == 0) pieces = (struct cel_value){.kind = CEL_LIST, .list = {a, 1}};
    if (!join_with(e, &pieces, a[2].text, out)) return false;
    if (old.n) return true;
    bool ends = (int64_t)utf8_count(a[0].text) + 1 <= most && a[0].text.n;
    const struct cel_value around[3] = {value_string(a[2].text), *out, value_string(ends ? a[2].text : slice_of("", 0))};
    struct cel_value list = {.kind = CEL_LIST, .list = {around, 3}};
    return join_with(e, &list, slice_of("", 0), out);
}

static bool replace(struct eval *e, const struct cel_value *a, struct cel_value *out) { return replace_most(e, a, -1, out); }
static bool replace_limited(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return replace_most(e, a, a[3].integer, out);
}

/* As a literal in double quotes. */
static bool quote(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    static const char from[] = "\a\b\f\n\r\t\v\\\"", to[] = "abfnrtv\\\"";
    char *p = eval_alloc(e, 2 * a->text.n + 2);
    if (!p) return false;
    size_t n = 0;
    p[n++] = '"';
    for (size_t i = 0; i < a->text.n; i++) {
        const char *special = a->text.p[i] ? strchr(from, a->text.p[i]) : NULL;
        if (special) p[n++] = '\\';
        p[n++] = special ? to[special - from] : a->text.p[i];
    }
    p[n++] = '"';
    *out = value_string(slice_of(p, n));
    return true;
}

#define MEMBER OVERLOAD_EXTENSION | OVERLOAD_MEMBER

static const struct overload rows[] = {
    {"charAt", "string, int", "string", char_at, MEMBER},
    {"indexOf", "string, string", "int", index_of, MEMBER},
    {"indexOf", "string, string, int", "int", index_of_from, MEMBER},
    {"lastIndexOf", "string, string", "int", last_index_of, MEMBER},
    {"lastIndexOf", "string, string, int", "int", last_index_of_from, MEMBER},
    {"substring", "string, int", "string", substring_from, MEMBER},
    {"substring", "string, int, int", "string", substring, MEMBER},
    {"trim", "string", "string", trim, MEMBER},
    {"lowerAscii", "string", "string", lower_ascii, MEMBER},
    {"upperAscii", "string", "string", upper_ascii, MEMBER},
    {"reverse", "string", "string", reverse, MEMBER},
    {"split", "string, string", "list(string)", split, MEMBER},
    {"split", "string, string, int", "list(string)", split_limited, MEMBER},
    {"join", "list(string)", "string", join, MEMBER},
    {"join", "list(string), string", "string", join_separated, MEMBER},
    {"replace", "string, string, string", "string", replace, MEMBER},
    {"replace", "string, string, string, int", "string", replace_limited, MEMBER},
    {"strings.quote", "string", "string", quote, OVERLOAD_EXTENSION},
};

const struct library_table ext_strings_table = {rows, sizeof rows / sizeof *rows};
