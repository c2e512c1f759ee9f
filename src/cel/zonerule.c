#include "cel/zonerule.h"

#include "cel/timetext.h"

struct reader {
    const char *p, *end;
};

/* A day of the year and the time of day at which the clocks change. */
struct change {
    char form; /* 'M': week, month; 'J': day 1-365 without leap days; 'D': day 0-365 */
    int month, week, day;
    int64_t time;
};

static bool accept(struct reader *r, char c)
{
    if (r->p == r->end || *r->p != c) return false;
    r->p++;
    return true;
}

static bool read_number(struct reader *r, int most, int *n)
{
    const char *from = r->p;
    for (*n = 0; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {
        *n = *n * 10 + (*r->p - '0');
        if (*n > most) return false;
    }
    return r->p > from;
}

/* "CET" or "<+03>": only skipped. */
static bool read_abbreviation(struct reader *r)
{
    const char *from = r->p;
    if (accept(r, '<')) {
        while (r->p < r->end && *r->p != '>') r->p++;
        return accept(r, '>');
    }
    while (r->p < r->end && ((*r->p >= 'a' && *r->p <= 'z') || (*r->p >= 'A' && *r->p <= 'Z'))) r->p++;
    return r->p - from >= 3;
}

/* [+-]hh[:mm[:ss]] in seconds. */
static bool read_time(struct reader *r, int64_t *seconds)
{
    int sign = accept(r, '-') ? -1 : 1, parts[3] = {0, 0, 0};
    if (sign == 1) accept(r, '+');
    if (!read_number(r, 167, &parts[0])) return false;
    for (int i = 1; i < 3 && accept(r, ':'); i++) {
        if (!read_number(r, 59, &parts[i])) return false;
    }
    *seconds = sign * (parts[0] * 3600ll + parts[1] * 60 + parts[2]);
    return true;
}

static bool read_change(struct reader *r, struct change *c)
{
    *c = (struct change){.form = 'D', .time = 7200};
    if (!accept(r, ',')) return false;
    if (accept(r, 'M')) {
        c->form = 'M';
        if (!read_number(r, 12, &c->month) || c->month == 0 || !accept(r, '.') || !read_number(r, 5, &c->week) ||
            c->week == 0 || !accept(r, '.') || !read_number(r, 6, &c->day))
            return false;
    } else {
        if (accept(r, 'J')) c->form = 'J';
        if (!read_number(r, 365, &c->day)) return false;
    }
    return !accept(r, '/') || read_time(r, &c->time);
}

/* Seconds since 1970, by the clock before the change. */
static int64_t change_in(const struct change *c, int64_t year)
{
    int64_t day;
    if (c->form == 'M') {
        int64_t first = timetext_days(year, c->month, 1);
        int weekday = timetext_date_of(first * 86400).weekday;
        day = first + (c->day - weekday + 7) % 7 + (c->week - 1) * 7;
        int64_t next = c->month == 12 ? timetext_days(year + 1, 1, 1) : timetext_days(year, c->month + 1, 1);
        while (day >= next) day -= 7; /* the fifth is the last */
    } else {
        day = timetext_days(year, 1, 1) + c->day;
        if (c->form == 'J') day += (timetext_leap(year) && c->day > 59) - 1;
    }
    return day * 86400 + c->time;
}

bool zonerule_offset(struct slice rule, int64_t seconds, int64_t *offset)
{
    struct reader r = {rule.p, rule.p + rule.n};
    int64_t west;
    if (!read_abbreviation(&r) || !read_time(&r, &west)) return false;
    int64_t standard = -west, summer = standard + 3600;
    *offset = standard;
    if (r.p == r.end) return true;

    struct change start, stop;
    if (!read_abbreviation(&r)) return false;
    if (r.p < r.end && *r.p != ',') {
        if (!read_time(&r, &west)) return false;
        summer = -west;
    }
    if (!read_change(&r, &start) || !read_change(&r, &stop) || r.p != r.end) return false;
    int64_t year = timetext_date_of(seconds + standard).year;
    int64_t from = change_in(&start, year) - standard, to = change_in(&stop, year) - summer;
    bool in_summer = from < to ? seconds >= from && seconds < to : seconds >= from || seconds < to;
    *offset = in_summer ? summer : standard;
    return true;
}
