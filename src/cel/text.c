/* Strings and bytes. */
#include "cel/library.h"
#include "cel/regex.h"
#include "cel/utf8.h"
#include "cel/value.h"

static bool size_string(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int((int64_t)utf8_count(a->text));
    return eval_spend(e, a->text.n / 64);
}

static bool size_bytes(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int((int64_t)a->text.n);
    return true;
}

static bool concat(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = a[a[0].text.n == 0];
    if (a[0].text.n == 0 || a[1].text.n == 0) return true;
    size_t n = a[0].text.n + a[1].text.n;
    char *p = eval_alloc(e, n);
    if (!p) return false;
    memcpy(p, a[0].text.p, a[0].text.n);
    memcpy(p + a[0].text.n, a[1].text.p, a[1].text.n);
    out->text = slice_of(p, n);
    return true;
}

static bool contains(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    struct slice in = a[0].text, what = a[1].text;
    *out = value_bool(what.n == 0 || (in.n && memmem(in.p, in.n, what.p, what.n)));
    return eval_spend(e, (in.n + what.n) / 64);
}

static bool starts_with(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    struct slice in = a[0].text, what = a[1].text;
    *out = value_bool(in.n >= what.n && slice_eq(slice_of(in.p, what.n), what));
    return true;
}

static bool ends_with(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    struct slice in = a[0].text, what = a[1].text;
    *out = value_bool(in.n >= what.n && slice_eq(slice_of(in.p + (in.n - what.n), what.n), what));
    return true;
}

/* The pattern was compiled with the program if it is a constant; else it is now. */
static bool matches(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    const char *error = NULL;
    void *regex = e->call->regex;
    if (!regex) {
        if (!eval_spend(e, 100 + a[1].text.n)) return false;
        regex = regex_compile(e->scratch, a[1].text, &error);
    }
    if (!regex) return eval_fail(e, "not a regular expression: %s", error);
    if (!eval_spend(e, 10 + a[0].text.n / 8)) return false;
    int found = regex_match(regex, e->scratch, a[0].text);
    *out = value_bool(found > 0);
    return found >= 0 || eval_fail(e, "regular expression takes too long on this text");
}

static const struct overload rows[] = {
    {"size", "string", "int", size_string, 0},
    {"size", "string", "int", size_string, OVERLOAD_MEMBER},
    {"size", "bytes", "int", size_bytes, 0},
    {"size", "bytes", "int", size_bytes, OVERLOAD_MEMBER},
    {"_+_", "string, string", "string", concat, 0},
    {"_+_", "bytes, bytes", "bytes", concat, 0},
    {"contains", "string, string", "bool", contains, OVERLOAD_MEMBER},
    {"startsWith", "string, string", "bool", starts_with, OVERLOAD_MEMBER},
    {"endsWith", "string, string", "bool", ends_with, OVERLOAD_MEMBER},
    {"matches", "string, string", "bool", matches, 0},
    {"matches", "string, string", "bool", matches, OVERLOAD_MEMBER},
};

const struct library_table text_table = {rows, sizeof rows / sizeof *rows};
