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
static bool not_equal(struct eval *e, const struct cel_value *a, struct cel_value *out) { return compare_equal(e, a, false, out); }

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

#define ORDER(function, run) \
    {function, "bool, bool", "bool", run, 0}, {function, "int, int", "bool", run, 0}, {function, "uint, uint", "bool", run, 0}, \
        {function, "double, double", "bool", run, 0}, {function, "string, string", "bool", run, 0}, {function, "bytes, bytes", "bool", run, 0}, \
        {function, "timestamp, timestamp", "bool", run, 0}, {function, "duration, duration", "bool", run, 0}, {function, "int, uint", "bool", run, 0}, \
        {function, "int, double", "bool", run, 0}, {function, "uint, int", "bool", run, 0}, {function, "uint, double", "bool", run, 0}, \
        {function, "double, int", "bool", run, 0}, {function, "double, uint", "bool", run, 0}

static const struct overload rows[] = {
    {"_==_", "A, A", "bool", equal, 0},
    {"_!=_", "A, A", "bool", not_equal, 0},
    ORDER("_<_", less),
    ORDER("_<=_", less_equal),
    ORDER("_>_", greater),
    ORDER("_>=_", greater_equal),
};

const struct library_table compare_table = {rows, sizeof rows / sizeof *rows};
