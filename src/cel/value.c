#include "cel/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cel/maps.h"
#include "cel/timetext.h"

const char *value_kind_name(enum cel_kind kind)
{
    static const char *const names[] = {
        [CEL_ABSENT] = "absent",
        [CEL_NULL] = "null_type",
        [CEL_BOOL] = "bool",
        [CEL_INT] = "int",
        [CEL_UINT] = "uint",
        [CEL_DOUBLE] = "double",
        [CEL_STRING] = "string",
        [CEL_BYTES] = "bytes",
        [CEL_LIST] = "list",
        [CEL_MAP] = "map",
        [CEL_TIMESTAMP] = "google.protobuf.Timestamp",
        [CEL_DURATION] = "google.protobuf.Duration",
        [CEL_TYPE] = "type",
        [CEL_DYN] = "dyn",
    };
    return names[kind];
}

/* ---- order */

static enum value_order order_of(int sign) { return sign < 0 ? VALUE_LESS : sign > 0 ? VALUE_GREATER : VALUE_EQUAL; }
static enum value_order reversed(enum value_order o)
{
    return o == VALUE_LESS ? VALUE_GREATER : o == VALUE_GREATER ? VALUE_LESS : o;
}

static enum value_order compare_doubles(double a, double b)
{
    return a < b ? VALUE_LESS : a > b ? VALUE_GREATER : a == b ? VALUE_EQUAL : VALUE_UNORDERED;
}

/* An int or uint is compared to a double as one, so 9223372036854775807 is not less than 9223372036854775808.0: all
 * implementations of CEL do so. */
static double as_double(const struct cel_value *v)
{
    return v->kind == CEL_INT ? (double)v->integer : v->kind == CEL_UINT ? (double)v->natural : v->real;
}

static enum value_order compare_int_uint(int64_t i, uint64_t u)
{
    if (i < 0) return VALUE_LESS;
    return order_of(((uint64_t)i > u) - ((uint64_t)i < u));
}

static enum value_order compare_numbers(const struct cel_value *a, const struct cel_value *b)
{
    if (a->kind == CEL_DOUBLE || b->kind == CEL_DOUBLE) return compare_doubles(as_double(a), as_double(b));
    if (a->kind == CEL_INT && b->kind == CEL_INT) return order_of((a->integer > b->integer) - (a->integer < b->integer));
    if (a->kind == CEL_UINT && b->kind == CEL_UINT) return order_of((a->natural > b->natural) - (a->natural < b->natural));
    return a->kind == CEL_INT ? compare_int_uint(a->integer, b->natural) : reversed(compare_int_uint(b->integer, a->natural));
}

enum value_order value_compare(const struct cel_value *a, const struct cel_value *b)
{
    if (value_is_number(a)) return compare_numbers(a, b);
    switch (a->kind) {
    case CEL_BOOL: return order_of(a->boolean - b->boolean);
    case CEL_TIMESTAMP:
    case CEL_DURATION:
        if (a->time.seconds != b->time.seconds) return a->time.seconds < b->time.seconds ? VALUE_LESS : VALUE_GREATER;
        return order_of((a->time.nanos > b->time.nanos) - (a->time.nanos < b->time.nanos));
    default: return order_of(slice_cmp(a->text, b->text));
    }
}

/* ---- equality */

static int equal_at(const struct cel_value *a, const struct cel_value *b, uint64_t *steps, int depth);

static int equal_lists(const struct cel_value *a, const struct cel_value *b, uint64_t *steps, int depth)
{
    if (a->list.count != b->list.count) return 0;
    for (size_t i = 0; i < a->list.count; i++) {
        int equal = equal_at(&a->list.items[i], &b->list.items[i], steps, depth);
        if (equal != 1) return equal;
    }
    return 1;
}

static int equal_maps(const struct cel_value *a, const struct cel_value *b, uint64_t *steps, int depth)
{
    if (a->map.count != b->map.count) return 0;
    for (size_t i = 0; i < a->map.count; i++) {
        uint64_t cost = b->map.index ? 1 : b->map.count / 8;
        if (cost > *steps) return -1;
        *steps -= cost;
        const struct cel_value *other = maps_find(b, &a->map.entries[i].key);
        int equal = other ? equal_at(&a->map.entries[i].value, other, steps, depth) : 0;
        if (equal != 1) return equal;
    }
    return 1;
}

static int equal_at(const struct cel_value *a, const struct cel_value *b, uint64_t *steps, int depth)
{
    if (depth > CEL_DEPTH_MAX || *steps == 0) return -1;
    --*steps;
    if (value_is_number(a) && value_is_number(b)) return compare_numbers(a, b) == VALUE_EQUAL;
    if (a->kind != b->kind) return 0;
    switch (a->kind) {
    case CEL_NULL: return 1;
    case CEL_STRING:
    case CEL_BYTES: *steps -= a->text.n / 64 < *steps ? a->text.n / 64 : *steps; return slice_eq(a->text, b->text);
    case CEL_TYPE: return slice_eq(a->text, b->text);
    case CEL_LIST: return equal_lists(a, b, steps, depth + 1);
    case CEL_MAP: return equal_maps(a, b, steps, depth + 1);
    default: return value_compare(a, b) == VALUE_EQUAL;
    }
}

int value_equal(const struct cel_value *a, const struct cel_value *b, uint64_t *steps) { return equal_at(a, b, steps, 0); }

bool cel_value_equal(const struct cel_value *a, const struct cel_value *b)
{
    uint64_t steps = UINT64_MAX;
    return equal_at(a, b, &steps, 0) == 1;
}

/* ---- printing */

size_t value_print_double(char out[VALUE_DOUBLE_CHARS], double d)
{
    if (isnan(d)) return (size_t)snprintf(out, VALUE_DOUBLE_CHARS, "NaN");
    if (isinf(d)) return (size_t)snprintf(out, VALUE_DOUBLE_CHARS, d < 0 ? "-Inf" : "+Inf");
    int digits = 1;
    do snprintf(out, VALUE_DOUBLE_CHARS, "%.*e", digits - 1, d);
    while (strtod(out, NULL) != d && ++digits <= 17);
    int exponent = atoi(strchr(out, 'e') + 1);
    if (exponent < -4 || exponent >= 6) return strlen(out);
    int decimals = digits - 1 - exponent;
    return (size_t)snprintf(out, VALUE_DOUBLE_CHARS, "%.*f", decimals > 0 ? decimals : 0, d);
}

static void print_text(struct slice text, bool bytes, struct buf *out)
{
    buf_add_str(out, bytes ? "b\"" : "\"");
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c == '"' || c == '\\') buf_printf(out, "\\%c", c);
        else if (c == '\n') buf_add_str(out, "\\n");
        else if (c < ' ' || c == 0x7f || (bytes && c > 0x7f)) buf_printf(out, "\\x%02x", c);
        else buf_add_byte(out, (char)c);
    }
    buf_add_byte(out, '"');
}

static void print_double(double d, struct buf *out)
{
    char text[VALUE_DOUBLE_CHARS];
    size_t n = value_print_double(text, d);
    buf_add(out, text, n);
    if (isfinite(d) && !memchr(text, '.', n) && !memchr(text, 'e', n)) buf_add_str(out, ".0");
}

static void print_time(const struct cel_value *v, struct buf *out)
{
    char text[TIMETEXT_CHARS];
    size_t n = v->kind == CEL_TIMESTAMP ? timetext_print_timestamp(text, v->time) : timetext_print_duration(text, v->time);
    buf_printf(out, "%s(\"%.*s\")", v->kind == CEL_TIMESTAMP ? "timestamp" : "duration", (int)n, text);
}

static void print_at(const struct cel_value *v, struct buf *out, int depth);

static void print_items(const struct cel_value *v, struct buf *out, int depth)
{
    buf_add_byte(out, v->kind == CEL_LIST ? '[' : '{');
    size_t count = v->kind == CEL_LIST ? v->list.count : v->map.count;
    for (size_t i = 0; i < count; i++) {
        if (i) buf_add_str(out, ", ");
        if (v->kind == CEL_LIST) {
            print_at(&v->list.items[i], out, depth);
        } else {
            print_at(&v->map.entries[i].key, out, depth);
            buf_add_str(out, ": ");
            print_at(&v->map.entries[i].value, out, depth);
        }
    }
    buf_add_byte(out, v->kind == CEL_LIST ? ']' : '}');
}

static void print_at(const struct cel_value *v, struct buf *out, int depth)
{
    switch (v->kind) {
    case CEL_NULL: buf_add_str(out, "null"); break;
    case CEL_BOOL: buf_add_str(out, v->boolean ? "true" : "false"); break;
    case CEL_INT: buf_printf(out, "%lld", (long long)v->integer); break;
    case CEL_UINT: buf_printf(out, "%lluu", (unsigned long long)v->natural); break;
    case CEL_DOUBLE: print_double(v->real, out); break;
    case CEL_STRING:
    case CEL_BYTES: print_text(v->text, v->kind == CEL_BYTES, out); break;
    case CEL_LIST:
    case CEL_MAP:
        if (depth < CEL_DEPTH_MAX) print_items(v, out, depth + 1);
        else buf_add_str(out, "...");
        break;
    case CEL_TIMESTAMP:
    case CEL_DURATION: print_time(v, out); break;
    case CEL_TYPE: buf_add_slice(out, v->text); break;
    default: buf_add_str(out, "absent"); break;
    }
}

void cel_value_print(const struct cel_value *value, struct buf *out) { print_at(value, out, 0); }
