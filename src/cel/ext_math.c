/* Extension: mathematics. math.greatest and math.least are macros over a list (macros.c). */
#include <math.h>

#include "cel/library.h"
#include "cel/value.h"

/* The first of the largest, or smallest, elements. */
static bool extreme(struct eval *e, const struct cel_value *a, enum value_order wanted, struct cel_value *out)
{
    if (a->list.count == 0) return eval_fail(e, "math.greatest and math.least need an element");
    if (!eval_spend(e, a->list.count)) return false;
    const struct cel_value *best = NULL;
    for (size_t i = 0; i < a->list.count; i++) {
        const struct cel_value *v = &a->list.items[i];
        if (!value_is_number(v))
            return eval_fail(e, "no such overload: math.greatest or math.least of a value of type %s",
                             value_kind_name(v->kind));
        if (!best || value_compare(v, best) == wanted) best = v;
    }
    *out = *best;
    return true;
}

static bool greatest(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return extreme(e, a, VALUE_GREATER, out);
}
static bool least(struct eval *e, const struct cel_value *a, struct cel_value *out) { return extreme(e, a, VALUE_LESS, out); }

static bool itself(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = *a;
    return true;
}

/* ---- doubles */

#define ROUNDING(name, expression) \
    static bool name(struct eval *e, const struct cel_value *a, struct cel_value *out) \
    { \
        *out = value_double(expression); \
        return true; \
    }
#define QUESTION(name, expression) \
    static bool name(struct eval *e, const struct cel_value *a, struct cel_value *out) \
    { \
        *out = value_bool(expression); \
        return true; \
    }

ROUNDING(ceiling, ceil(a->real))
ROUNDING(flooring, floor(a->real))
ROUNDING(rounding, round(a->real))
ROUNDING(truncating, trunc(a->real))
ROUNDING(abs_double, fabs(a->real))
ROUNDING(sign_double, isnan(a->real) ? a->real : (a->real > 0) - (a->real < 0))
ROUNDING(root_double, sqrt(a->real))
ROUNDING(root_int, sqrt((double)a->integer))
ROUNDING(root_uint, sqrt((double)a->natural))
QUESTION(is_nan, isnan(a->real))
QUESTION(is_inf, isinf(a->real))
QUESTION(is_finite, isfinite(a->real))

/* ---- integers */

static bool abs_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (a->integer == INT64_MIN) return eval_fail(e, "integer overflow");
    *out = value_int(a->integer < 0 ? -a->integer : a->integer);
    return true;
}

static bool sign_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int((a->integer > 0) - (a->integer < 0));
    return true;
}

static bool sign_uint(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_uint(a->natural > 0);
    return true;
}

/* ---- bits: the same for int and uint, which share their bytes */

static bool give_bits(enum cel_kind kind, uint64_t bits, struct cel_value *out)
{
    *out = (struct cel_value){.kind = kind, .natural = bits};
    return true;
}

static bool bit_and(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return give_bits(a->kind, a[0].natural & a[1].natural, out);
}
static bool bit_or(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return give_bits(a->kind, a[0].natural | a[1].natural, out);
}
static bool bit_xor(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return give_bits(a->kind, a[0].natural ^ a[1].natural, out);
}
static bool bit_not(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return give_bits(a->kind, ~a->natural, out);
}

/* Bits that leave are lost, zeros come in: also from the left of a negative int. */
static bool shift_left(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (a[1].integer < 0) return eval_fail(e, "negative offset of a shift");
    return give_bits(a->kind, a[1].integer < 64 ? a[0].natural << a[1].integer : 0, out);
}

static bool shift_right(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (a[1].integer < 0) return eval_fail(e, "negative offset of a shift");
    return give_bits(a->kind, a[1].integer < 64 ? a[0].natural >> a[1].integer : 0, out);
}

#define EXT OVERLOAD_EXTENSION

static const struct overload rows[] = {
    {"math.@max", "list(int)", "int", greatest, EXT},
    {"math.@max", "list(uint)", "uint", greatest, EXT},
    {"math.@max", "list(double)", "double", greatest, EXT},
    {"math.@max", "int", "int", itself, EXT},
    {"math.@max", "uint", "uint", itself, EXT},
    {"math.@max", "double", "double", itself, EXT},
    {"math.@min", "list(int)", "int", least, EXT},
    {"math.@min", "list(uint)", "uint", least, EXT},
    {"math.@min", "list(double)", "double", least, EXT},
    {"math.@min", "int", "int", itself, EXT},
    {"math.@min", "uint", "uint", itself, EXT},
    {"math.@min", "double", "double", itself, EXT},
    {"math.ceil", "double", "double", ceiling, EXT},
    {"math.floor", "double", "double", flooring, EXT},
    {"math.round", "double", "double", rounding, EXT},
    {"math.trunc", "double", "double", truncating, EXT},
    {"math.sqrt", "double", "double", root_double, EXT},
    {"math.sqrt", "int", "double", root_int, EXT},
    {"math.sqrt", "uint", "double", root_uint, EXT},
    {"math.abs", "int", "int", abs_int, EXT},
    {"math.abs", "uint", "uint", itself, EXT},
    {"math.abs", "double", "double", abs_double, EXT},
    {"math.sign", "int", "int", sign_int, EXT},
    {"math.sign", "uint", "uint", sign_uint, EXT},
    {"math.sign", "double", "double", sign_double, EXT},
    {"math.isNaN", "double", "bool", is_nan, EXT},
    {"math.isInf", "double", "bool", is_inf, EXT},
    {"math.isFinite", "double", "bool", is_finite, EXT},
    {"math.bitAnd", "int, int", "int", bit_and, EXT},
    {"math.bitAnd", "uint, uint", "uint", bit_and, EXT},
    {"math.bitOr", "int, int", "int", bit_or, EXT},
    {"math.bitOr", "uint, uint", "uint", bit_or, EXT},
    {"math.bitXor", "int, int", "int", bit_xor, EXT},
    {"math.bitXor", "uint, uint", "uint", bit_xor, EXT},
    {"math.bitNot", "int", "int", bit_not, EXT},
    {"math.bitNot", "uint", "uint", bit_not, EXT},
    {"math.bitShiftLeft", "int, int", "int", shift_left, EXT},
    {"math.bitShiftLeft", "uint, int", "uint", shift_left, EXT},
    {"math.bitShiftRight", "int, int", "int", shift_right, EXT},
    {"math.bitShiftRight", "uint, int", "uint", shift_right, EXT},
};

const struct library_table ext_math_table = {rows, sizeof rows / sizeof *rows};
