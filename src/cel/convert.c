/* Conversions between types: int(x), string(x)... A value that the other type cannot hold is an error. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "cel/library.h"
#include "cel/timetext.h"
#include "cel/utf8.h"
#include "cel/value.h"

static bool same(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = *a;
    return true;
}

static bool range(struct eval *e, const char *type) { return eval_fail(e, "value out of the range of %s", type); }

static bool unreadable(struct eval *e, const struct cel_value *a, const char *type)
{
    return eval_fail(e, "cannot convert '%.*s' to %s", (int)(a->text.n > 64 ? 64 : a->text.n), a->text.p, type);
}

/* Digits with a sign before them as a number; false if it is none or beyond 64 bits. */
static bool read_integer(struct slice text, bool *negative, uint64_t *n)
{
    *negative = text.n && text.p[0] == '-';
    if (*negative || (text.n && text.p[0] == '+')) text = slice_of(text.p + 1, text.n - 1);
    *n = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9') return false;
        if (__builtin_mul_overflow(*n, 10u, n) || __builtin_add_overflow(*n, (uint64_t)(text.p[i] - '0'), n)) return false;
    }
    return text.n > 0;
}

/* ---- to int */

static bool int_of_uint(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (a->natural > INT64_MAX) return range(e, "int");
    *out = value_int((int64_t)a->natural);
    return true;
}

static bool int_of_double(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (!(a->real > -0x1p63 && a->real < 0x1p63)) return range(e, "int");
    *out = value_int((int64_t)a->real);
    return true;
}

static bool int_of_string(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    bool negative;
    uint64_t n;
    if (!read_integer(a->text, &negative, &n) || n > (uint64_t)INT64_MAX + negative) return unreadable(e, a, "int");
    *out = value_int(negative ? (int64_t)(0 - n) : (int64_t)n);
    return true;
}

static bool int_of_timestamp(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int(a->time.seconds);
    return true;
}

/* ---- to uint */

static bool uint_of_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (a->integer < 0) return range(e, "uint");
    *out = value_uint((uint64_t)a->integer);
    return true;
}

static bool uint_of_double(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (!(a->real > -1 && a->real < 0x1p64)) return range(e, "uint");
    *out = value_uint((uint64_t)a->real);
    return true;
}

static bool uint_of_string(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    bool negative;
    uint64_t n;
    if (!read_integer(a->text, &negative, &n) || negative) return unreadable(e, a, "uint");
    *out = value_uint(n);
    return true;
}

/* ---- to double */

static bool double_of_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_double((double)a->integer);
    return true;
}

static bool double_of_uint(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_double((double)a->natural);
    return true;
}

/* What strtod reads, without spaces and hexadecimal. */
static bool double_of_string(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    char text[400];
    if (a->text.n == 0 || a->text.n >= sizeof text || memchr(a->text.p, 'x', a->text.n) ||
        memchr(a->text.p, 'X', a->text.n))
        return unreadable(e, a, "double");
    memcpy(text, a->text.p, a->text.n);
    text[a->text.n] = '\0';
    char *end;
    *out = value_double(strtod(text, &end));
    bool blank = text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r');
    return (end == text + a->text.n && !blank) || unreadable(e, a, "double");
}

/* ---- to string and bytes */

static bool give_text(struct eval *e, const char *text, size_t n, struct cel_value *out)
{
    char *copy = eval_alloc(e, n);
    if (!copy) return false;
    memcpy(copy, text, n);
    *out = value_string(slice_of(copy, n));
    return true;
}

static bool string_of_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    char text[NUM_I64_MAX_CHARS];
    return give_text(e, text, num_format_i64(text, a->integer), out);
}

static bool string_of_uint(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    char text[NUM_I64_MAX_CHARS];
    return give_text(e, text, num_format_u64(text, a->natural), out);
}

static bool string_of_double(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    char text[VALUE_DOUBLE_CHARS];
    return give_text(e, text, value_print_double(text, a->real), out);
}

static bool string_of_bool(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_string(a->boolean ? SLICE("true") : SLICE("false"));
    return true;
}

static bool string_of_bytes(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (!eval_spend(e, a->text.n / 64)) return false;
    *out = value_string(a->text);
    return utf8_valid(a->text) || eval_fail(e, "invalid UTF-8 in bytes, cannot convert to string");
}

static bool string_of_timestamp(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    char text[TIMETEXT_CHARS];
    return give_text(e, text, timetext_print_timestamp(text, a->time), out);
}

static bool string_of_duration(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    char text[TIMETEXT_CHARS];
    return give_text(e, text, timetext_print_duration(text, a->time), out);
}

static bool bytes_of_string(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_bytes(a->text);
    return true;
}

/* ---- to bool, time and type */

static bool bool_of_string(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    static const char *const words[] = {"1", "t", "true", "TRUE", "True", "0", "f", "false", "FALSE", "False"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!slice_eq(a->text, slice_str(words[i]))) continue;
        *out = value_bool(i < 5);
        return true;
    }
    return unreadable(e, a, "bool");
}

static bool timestamp_of_string(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = (struct cel_value){.kind = CEL_TIMESTAMP};
    return timetext_parse_timestamp(a->text, &out->time) || unreadable(e, a, "timestamp");
}

static bool timestamp_of_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = (struct cel_value){.kind = CEL_TIMESTAMP, .time = {a->integer, 0}};
    return timetext_is_timestamp(out->time) || range(e, "timestamp");
}

static bool duration_of_string(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = (struct cel_value){.kind = CEL_DURATION};
    return timetext_parse_duration(a->text, &out->time) || unreadable(e, a, "duration");
}

static bool type_of(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = (struct cel_value){.kind = CEL_TYPE, .text = slice_str(value_kind_name(a->kind))};
    return true;
}

static const struct overload rows[] = {
    {"int", "int", "int", same, 0},
    {"int", "uint", "int", int_of_uint, 0},
    {"int", "double", "int", int_of_double, 0},
    {"int", "string", "int", int_of_string, 0},
    {"int", "timestamp", "int", int_of_timestamp, 0},
    {"uint", "uint", "uint", same, 0},
    {"uint", "int", "uint", uint_of_int, 0},
    {"uint", "double", "uint", uint_of_double, 0},
    {"uint", "string", "uint", uint_of_string, 0},
    {"double", "double", "double", same, 0},
    {"double", "int", "double", double_of_int, 0},
    {"double", "uint", "double", double_of_uint, 0},
    {"double", "string", "double", double_of_string, 0},
    {"string", "string", "string", same, 0},
    {"string", "int", "string", string_of_int, 0},
    {"string", "uint", "string", string_of_uint, 0},
    {"string", "double", "string", string_of_double, 0},
    {"string", "bool", "string", string_of_bool, 0},
    {"string", "bytes", "string", string_of_bytes, 0},
    {"string", "timestamp", "string", string_of_timestamp, 0},
    {"string", "duration", "string", string_of_duration, 0},
    {"bytes", "bytes", "bytes", same, 0},
    {"bytes", "string", "bytes", bytes_of_string, 0},
    {"bool", "bool", "bool", same, 0},
    {"bool", "string", "bool", bool_of_string, 0},
    {"timestamp", "timestamp", "timestamp", same, 0},
    {"timestamp", "string", "timestamp", timestamp_of_string, 0},
    {"timestamp", "int", "timestamp", timestamp_of_int, 0},
    {"duration", "duration", "duration", same, 0},
    {"duration", "string", "duration", duration_of_string, 0},
    {"dyn", "A", "dyn", same, 0},
    {"type", "A", "type(A)", type_of, 0},
};

const struct library_table convert_table = {rows, sizeof rows / sizeof *rows};
