#include "cel/timetext.h"

#include <stdio.h>

enum { NANOS = 1000000000, DAY_SECONDS = 86400 };

static const int64_t timestamp_min = -62135596800, timestamp_max = 253402300799; /* 0001-01-01T00:00:00Z, 9999-12-31T23:59:59Z */
static const int64_t duration_max = 315576000000;                                 /* seconds of 10,000 years of 365.25 days */

/* ---- calendar */

bool timetext_leap(int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

/* Years begin in March here, so that a leap day is the last of its year; 400 of them, 146097 days, are an era. */
int64_t timetext_days(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

struct timetext_date timetext_date_of(int64_t seconds)
{
    int64_t days = seconds / DAY_SECONDS, rest = seconds % DAY_SECONDS;
    if (rest < 0) days--, rest += DAY_SECONDS;
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t day_of_era = z - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t m = (5 * day_of_year + 2) / 153;
    struct timetext_date d = {
        .month = (int)(m < 10 ? m + 3 : m - 9),
        .day = (int)(day_of_year - (153 * m + 2) / 5 + 1),
        .weekday = (int)((days % 7 + 11) % 7), /* 1970 began on a Thursday */
        .hour = (int)(rest / 3600),
        .minute = (int)(rest / 60 % 60),
        .second = (int)(rest % 60),
    };
    d.year = year_of_era + era * 400 + (d.month <= 2);
    d.yearday = (int)(days - timetext_days(d.year, 1, 1));
    return d;
}

static int days_in_month(int64_t year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && timetext_leap(year) ? 29 : days[month - 1];
}

/* ---- range and sums */

bool timetext_is_timestamp(struct cel_time t) { return t.seconds >= timestamp_min && t.seconds <= timestamp_max; }

bool timetext_is_duration(struct cel_time t)
{
    return t.seconds >= -duration_max && (t.seconds < duration_max || (t.seconds == duration_max && t.nanos == 0));
}

struct cel_time timetext_add(struct cel_time a, struct cel_time b)
{
    struct cel_time sum = {a.seconds + b.seconds, a.nanos + b.nanos};
    if (sum.nanos >= NANOS) sum.seconds++, sum.nanos -= NANOS;
    return sum;
}

struct cel_time timetext_subtract(struct cel_time a, struct cel_time b)
{
    struct cel_time difference = {a.seconds - b.seconds, a.nanos - b.nanos};
    if (difference.nanos < 0) difference.seconds--, difference.nanos += NANOS;
    return difference;
}

/* ---- reading */

struct reader {
    const char *p, *end;
};

static bool at_digit(const struct reader *r) { return r->p < r->end && *r->p >= '0' && *r->p <= '9'; }

/* Exactly so many digits. */
static bool read_digits(struct reader *r, int digits, int *n)
{
    *n = 0;
    for (int i = 0; i < digits; i++, r->p++) {
        if (!at_digit(r)) return false;
        *n = *n * 10 + (*r->p - '0');
    }
    return true;
}

static bool read_char(struct reader *r, char c)
{
    if (r->p == r->end || *r->p != c) return false;
    r->p++;
    return true;
}

/* One or more digits as a fraction of a second; those beyond the ninth are dropped. */
static bool read_nanos(struct reader *r, int32_t *nanos)
{
    *nanos = 0;
    if (!at_digit(r)) return false;
    for (int32_t unit = NANOS / 10; at_digit(r); r->p++, unit /= 10) *nanos += (*r->p - '0') * unit;
    return true;
}

static bool read_offset(struct reader *r, int *seconds)
{
    *seconds = 0;
    if (read_char(r, 'Z') || read_char(r, 'z')) return true;
    bool west = r->p < r->end && *r->p == '-';
    int hours, minutes;
    if (!read_char(r, west ? '-' : '+') || !read_digits(r, 2, &hours) || !read_char(r, ':') ||
        !read_digits(r, 2, &minutes))
        return false;
    if (hours > 23 || minutes > 59) return false;
    *seconds = (west ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

bool timetext_parse_timestamp(struct slice text, struct cel_time *t)
{
    struct reader r = {text.p, text.p + text.n};
    int year, month, day, hour, minute, second, offset;
    if (!read_digits(&r, 4, &year) || !read_char(&r, '-') || !read_digits(&r, 2, &month) || !read_char(&r, '-') ||
        !read_digits(&r, 2, &day))
        return false;
    if (!read_char(&r, 'T') && !read_char(&r, 't')) return false;
    if (!read_digits(&r, 2, &hour) || !read_char(&r, ':') || !read_digits(&r, 2, &minute) || !read_char(&r, ':') ||
        !read_digits(&r, 2, &second))
        return false;
    *t = (struct cel_time){0};
    if (read_char(&r, '.') && !read_nanos(&r, &t->nanos)) return false;
    if (!read_offset(&r, &offset) || r.p != r.end) return false;
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 || minute > 59 ||
        second > 59)
        return false;
    t->seconds = timetext_days(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second - offset;
    return timetext_is_timestamp(*t);
}

/* The unit behind a number, in nanoseconds; 0 if there is none. */
static int64_t read_unit(struct reader *r)
{
    static const struct {
        const char *name;
        int64_t nanos;
    } units[] = {{"ns", 1},       {"us", 1000}, {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000},
                 {"ms", 1000000}, {"s", NANOS}, {"m", 60ll * NANOS}, {"h", 3600ll * NANOS}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i].name);
        if ((size_t)(r->end - r->p) < n || memcmp(r->p, units[i].name, n) != 0) continue;
        r->p += n;
        return units[i].nanos;
    }
    return 0;
}

/* One number with its unit, added to the nanoseconds so far. */
static bool read_part(struct reader *r, __int128 *total)
{
    int64_t whole = 0, fraction = 0, scale = 1;
    bool digits = at_digit(r);
    for (; at_digit(r); r->p++) {
        whole = whole * 10 + (*r->p - '0');
        if (whole > 1000 * 1000 * duration_max) return false;
    }
    if (read_char(r, '.')) {
        digits = digits || at_digit(r);
        for (; at_digit(r); r->p++) {
            if (scale >= 1000000000000000) continue;
            fraction = fraction * 10 + (*r->p - '0');
            scale *= 10;
        }
    }
    int64_t unit = read_unit(r);
    if (!digits || unit == 0) return false;
    *total += (__int128)whole * unit + (__int128)fraction * unit / scale;
    return *total <= (__int128)duration_max * NANOS;
}

bool timetext_parse_duration(struct slice text, struct cel_time *t)
{
    struct reader r = {text.p, text.p + text.n};
    bool negative = read_char(&r, '-');
    if (!negative) read_char(&r, '+');
    *t = (struct cel_time){0};
    if (r.end - r.p == 1 && *r.p == '0') return true;
    __int128 total = 0;
    do {
        if (!read_part(&r, &total)) return false;
    } while (r.p < r.end);
    if (negative) total = -total;
    t->seconds = (int64_t)(total / NANOS);
    t->nanos = (int32_t)(total % NANOS);
    if (t->nanos < 0) t->seconds--, t->nanos += NANOS;
    return true;
}

/* ---- printing */

/* ".5", ".000000001" or nothing. */
static size_t print_nanos(char *out, int32_t nanos)
{
    if (nanos == 0) return 0;
    size_t n = (size_t)sprintf(out, ".%09d", (int)nanos);
    while (out[n - 1] == '0') n--;
    return n;
}

size_t timetext_print_timestamp(char out[TIMETEXT_CHARS], struct cel_time t)
{
    struct timetext_date d = timetext_date_of(t.seconds);
    size_t n = (size_t)snprintf(out, TIMETEXT_CHARS, "%04lld-%02d-%02dT%02d:%02d:%02d", (long long)d.year, d.month,
                                d.day, d.hour, d.minute, d.second);
    n += print_nanos(out + n, t.nanos);
    out[n++] = 'Z';
    return n;
}

size_t timetext_print_duration(char out[TIMETEXT_CHARS], struct cel_time t)
{
    bool negative = t.seconds < 0;
    if (negative && t.nanos) t.seconds++, t.nanos = NANOS - t.nanos;
    size_t n = (size_t)snprintf(out, TIMETEXT_CHARS, "%s%lld", negative ? "-" : "",
                                (long long)(negative ? -t.seconds : t.seconds));
    n += print_nanos(out + n, t.nanos);
    out[n++] = 's';
    return n;
}
