/* Equality of any two values, order of two of one kind or of any two numbers. */
#include "cel/library.h"
#include "cel/value.h"

static bool compare_equal(struct eval *e, const struct cel_value *a, bool wanted, struct cel_value *out)
{
    int equal = value_equal(&a[0], &a[1], &e->steps_left);
    *out = value_bool(equal == wanted);
    return equal >= 0 || eval_fail(e, "values are too large or nested too deep to be compared");
}

static bool equal(struct eval *e, const struct cel_value *a, struct cel_value *out) { return compare_equal(e, a, true, out); }
static bool not_equal(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return compare_equal(e, a, false, out);
}

static bool less(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_bool(value_compare(&a[0], &a[1]) == VALUE_LESS);
    return true;
}

static bool less_equal(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_bool(value_compare(&a[0], &a[1]) <= VALUE_EQUAL);
    return true;
}

static bool greater(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_bool(value_compare(&a[0], &a[1]) == VALUE_GREATER);
    return true;
}

static bool greater_equal(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    enum value_order o = value_compare(&a[0], &a[1]);
    *out = value_bool(o == VALUE_GREATER || o == VALUE_EQUAL);
    return true;
}

#define ORDER_ROW(function, types, run) {function, types, "bool", run, 0}
#define ORDER(function, run) \
    ORDER_ROW(function, "bool, bool", run), ORDER_ROW(function, "int, int", run), \
    ORDER_ROW(function, "uint, uint", run), ORDER_ROW(function, "double, double", run), \
    ORDER_ROW(function, "string, string", run), ORDER_ROW(function, "bytes, bytes", run), \
    ORDER_ROW(function, "timestamp, timestamp", run), ORDER_ROW(function, "duration, duration", run), \
    ORDER_ROW(function, "int, uint", run), ORDER_ROW(function, "int, double", run), \
    ORDER_ROW(function, "uint, int", run), ORDER_ROW(function, "uint, double", run), \
    ORDER_ROW(function, "double, int", run), ORDER_ROW(function, "double, uint", run)

static const struct overload rows[] = {
    {"_==_", "A, A", "bool", equal, 0},
    {"_!=_", "A, A", "bool", not_equal, 0},
    ORDER("_<_", less),
    ORDER("_<=_", less_equal),
    ORDER("_>_", greater),
    ORDER("_>=_", greater_equal),
};

const struct library_table compare_table = {rows, sizeof rows / sizeof *rows};
