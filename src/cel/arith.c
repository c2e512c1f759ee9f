/* Arithmetic. What does not fit its type is an error, never a wrapped result; doubles follow IEEE 754. */
#include "cel/library.h"
#include "cel/timetext.h"
#include "cel/value.h"

static bool overflow(struct eval *e) { return eval_fail(e, "integer overflow"); }

/* ---- int */

static bool negate_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int(0);
    return __builtin_sub_overflow((int64_t)0, a->integer, &out->integer) ? overflow(e) : true;
}

static bool add_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int(0);
    return __builtin_add_overflow(a[0].integer, a[1].integer, &out->integer) ? overflow(e) : true;
}

static bool subtract_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int(0);
    return __builtin_sub_overflow(a[0].integer, a[1].integer, &out->integer) ? overflow(e) : true;
}

static bool multiply_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int(0);
    return __builtin_mul_overflow(a[0].integer, a[1].integer, &out->integer) ? overflow(e) : true;
}

static bool divide_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (a[1].integer == 0) return eval_fail(e, "division by zero");
    if (a[0].integer == INT64_MIN && a[1].integer == -1) return overflow(e);
    *out = value_int(a[0].integer / a[1].integer);
    return true;
}

static bool modulo_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (a[1].integer == 0) return eval_fail(e, "modulus by zero");
    if (a[0].integer == INT64_MIN && a[1].integer == -1) return overflow(e);
    *out = value_int(a[0].integer % a[1].integer);
    return true;
}

/* ---- uint */

static bool add_uint(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_uint(0);
    return __builtin_add_overflow(a[0].natural, a[1].natural, &out->natural) ? overflow(e) : true;
}

static bool subtract_uint(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_uint(0);
    return __builtin_sub_overflow(a[0].natural, a[1].natural, &out->natural) ? overflow(e) : true;
}

static bool multiply_uint(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_uint(0);
    return __builtin_mul_overflow(a[0].natural, a[1].natural, &out->natural) ? overflow(e) : true;
}

static bool divide_uint(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (a[1].natural == 0) return eval_fail(e, "division by zero");
    *out = value_uint(a[0].natural / a[1].natural);
    return true;
}

static bool modulo_uint(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (a[1].natural == 0) return eval_fail(e, "modulus by zero");
    *out = value_uint(a[0].natural % a[1].natural);
    return true;
}

/* ---- double */

static bool negate_double(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_double(-a->real);
    return true;
}

static bool add_double(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_double(a[0].real + a[1].real);
    return true;
}

static bool subtract_double(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_double(a[0].real - a[1].real);
    return true;
}

static bool multiply_double(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_double(a[0].real * a[1].real);
    return true;
}

/* By zero it is an infinity or NaN, as IEEE 754 has it; UBSan is told that this is meant. */
__attribute__((no_sanitize("float-divide-by-zero"))) static bool
divide_double(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_double(a[0].real / a[1].real);
    return true;
}

/* ---- time */

static bool give_timestamp(struct eval *e, struct cel_time t, struct cel_value *out)
{
    *out = (struct cel_value){.kind = CEL_TIMESTAMP, .time = t};
    return timetext_is_timestamp(t) || eval_fail(e, "timestamp out of range");
}

static bool give_duration(struct eval *e, struct cel_time t, struct cel_value *out)
{
    *out = (struct cel_value){.kind = CEL_DURATION, .time = t};
    return timetext_is_duration(t) || eval_fail(e, "duration out of range");
}

/* The distance of two timestamps has to fit into 64 bits of nanoseconds, as it does for every other CEL: about 292 years. */
static bool subtract_times(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    struct cel_time t = timetext_subtract(a[0].time, a[1].time);
    *out = (struct cel_value){.kind = CEL_DURATION, .time = t};
    int64_t nanos;
    bool fits = !__builtin_mul_overflow(t.seconds, (int64_t)1000000000, &nanos) &&
                !__builtin_add_overflow(nanos, (int64_t)t.nanos, &nanos);
    return fits || eval_fail(e, "duration out of range");
}

static bool add_time(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return give_timestamp(e, timetext_add(a[0].time, a[1].time), out);
}
static bool add_duration(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return give_duration(e, timetext_add(a[0].time, a[1].time), out);
}
static bool subtract_time(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return give_timestamp(e, timetext_subtract(a[0].time, a[1].time), out);
}
static bool subtract_duration(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    return give_duration(e, timetext_subtract(a[0].time, a[1].time), out);
}

/* ---- bool */

static bool not_bool(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_bool(!a->boolean);
    return true;
}

static const struct overload rows[] = {
    {"!_", "bool", "bool", not_bool, 0},
    {"-_", "int", "int", negate_int, 0},
    {"-_", "double", "double", negate_double, 0},
    {"_+_", "int, int", "int", add_int, 0},
    {"_+_", "uint, uint", "uint", add_uint, 0},
    {"_+_", "double, double", "double", add_double, 0},
    {"_+_", "timestamp, duration", "timestamp", add_time, 0},
    {"_+_", "duration, timestamp", "timestamp", add_time, 0},
    {"_+_", "duration, duration", "duration", add_duration, 0},
    {"_-_", "int, int", "int", subtract_int, 0},
    {"_-_", "uint, uint", "uint", subtract_uint, 0},
    {"_-_", "double, double", "double", subtract_double, 0},
    {"_-_", "timestamp, duration", "timestamp", subtract_time, 0},
    {"_-_", "timestamp, timestamp", "duration", subtract_times, 0},
    {"_-_", "duration, duration", "duration", subtract_duration, 0},
    {"_*_", "int, int", "int", multiply_int, 0},
    {"_*_", "uint, uint", "uint", multiply_uint, 0},
    {"_*_", "double, double", "double", multiply_double, 0},
    {"_/_", "int, int", "int", divide_int, 0},
    {"_/_", "uint, uint", "uint", divide_uint, 0},
    {"_/_", "double, double", "double", divide_double, 0},
    {"_%_", "int, int", "int", modulo_int, 0},
    {"_%_", "uint, uint", "uint", modulo_uint, 0},
};

const struct library_table arith_table = {rows, sizeof rows / sizeof *rows};
