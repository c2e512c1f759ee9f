/* The parts of timestamps and durations. */
#include "cel/library.h"
#include "cel/timetext.h"
#include "cel/value.h"
#include "cel/zone.h"

/* The date of a timestamp in UTC, or in the zone that the second argument names. */
static bool date_in(struct eval *e, const struct cel_value *a, bool zoned, struct timetext_date *d)
{
    int64_t offset = 0;
    if (zoned && (!eval_spend(e, 1000) || !zone_offset(e->scratch, a[1].text, a[0].time.seconds, &offset))) {
        return eval_fail(e, "unknown time zone '%.*s'", (int)(a[1].text.n > 64 ? 64 : a[1].text.n), a[1].text.p);
    }
    *d = timetext_date_of(a[0].time.seconds + offset);
    return true;
}

#define PART(name, expression)                                                                                         \
    static bool part_##name(struct eval *e, const struct cel_value *a, bool zoned, struct cel_value *out)              \
    {                                                                                                                  \
        struct timetext_date d;                                                                                        \
        if (!date_in(e, a, zoned, &d)) return false;                                                                   \
        *out = value_int(expression);                                                                                  \
        return true;                                                                                                   \
    }                                                                                                                  \
    static bool utc_##name(struct eval *e, const struct cel_value *a, struct cel_value *out)                           \
    {                                                                                                                  \
        return part_##name(e, a, false, out);                                                                          \
    }                                                                                                                  \
    static bool zoned_##name(struct eval *e, const struct cel_value *a, struct cel_value *out)                         \
    {                                                                                                                  \
        return part_##name(e, a, true, out);                                                                           \
    }

PART(year, d.year)
PART(month, d.month - 1)
PART(day_of_year, d.yearday)
PART(day_of_month, d.day - 1)
PART(date, d.day)
PART(day_of_week, d.weekday)
PART(hours, d.hour)
PART(minutes, d.minute)
PART(seconds, d.second)
PART(milliseconds, a[0].time.nanos / 1000000)

/* Whole units of a duration, towards zero. */
static int64_t whole(struct cel_time t, int64_t seconds)
{
    if (t.seconds < 0 && t.nanos) t.seconds++;
    return t.seconds / seconds;
}

static bool duration_hours(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int(whole(a->time, 3600));
    return true;
}

static bool duration_minutes(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int(whole(a->time, 60));
    return true;
}

static bool duration_seconds(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int(whole(a->time, 1));
    return true;
}

/* Of the part below a second. */
static bool duration_milliseconds(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    int64_t nanos = a->time.seconds < 0 && a->time.nanos ? a->time.nanos - 1000000000 : a->time.nanos;
    *out = value_int(nanos / 1000000);
    return true;
}

#define GETTER(function, name)                                                                                         \
    {function, "timestamp", "int", utc_##name, OVERLOAD_MEMBER},                                                       \
    {                                                                                                                  \
        function, "timestamp, string", "int", zoned_##name, OVERLOAD_MEMBER                                            \
    }

static const struct overload rows[] = {
    GETTER("getFullYear", year),
    GETTER("getMonth", month),
    GETTER("getDayOfYear", day_of_year),
    GETTER("getDayOfMonth", day_of_month),
    GETTER("getDate", date),
    GETTER("getDayOfWeek", day_of_week),
    GETTER("getHours", hours),
    GETTER("getMinutes", minutes),
    GETTER("getSeconds", seconds),
    GETTER("getMilliseconds", milliseconds),
    {"getHours", "duration", "int", duration_hours, OVERLOAD_MEMBER},
    {"getMinutes", "duration", "int", duration_minutes, OVERLOAD_MEMBER},
    {"getSeconds", "duration", "int", duration_seconds, OVERLOAD_MEMBER},
    {"getMilliseconds", "duration", "int", duration_milliseconds, OVERLOAD_MEMBER},
};

const struct library_table times_table = {rows, sizeof rows / sizeof *rows};
