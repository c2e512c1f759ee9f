/* Timestamps and durations: as text, as dates, and their arithmetic. Pure. */
#pragma once
#include "cel/cel.h"

enum { TIMETEXT_CHARS = 64 };

/* RFC 3339: 2009-02-13T23:31:30.5Z, or with an offset like +01:00. Years 1 to 9999; false otherwise. */
bool timetext_parse_timestamp(struct slice text, struct cel_time *t);

/* 1h30m, -1.5s, 100ms, 1us, 1ns; false if it is no such text or longer than 10,000 years. */
bool timetext_parse_duration(struct slice text, struct cel_time *t);

/* Each gives the length of the text. */
size_t timetext_print_timestamp(char out[TIMETEXT_CHARS], struct cel_time t);
size_t timetext_print_duration(char out[TIMETEXT_CHARS], struct cel_time t); /* in seconds: 5400s, -1.5s */

bool timetext_is_timestamp(struct cel_time t); /* within years 1 to 9999 */
bool timetext_is_duration(struct cel_time t);  /* within 10,000 years */

/* Not for sums beyond 64 bits of seconds: both are in range. */
struct cel_time timetext_add(struct cel_time a, struct cel_time b);
struct cel_time timetext_subtract(struct cel_time a, struct cel_time b);

/* A date of the Gregorian calendar without end in both directions. */
struct timetext_date {
    int64_t year;
    int month, day;     /* from 1 */
    int weekday;        /* 0: Sunday */
    int yearday;        /* from 0 */
    int hour, minute, second;
};

struct timetext_date timetext_date_of(int64_t seconds); /* since 1970 */
int64_t timetext_days(int64_t year, int month, int day); /* days since 1970 of a date; day may lie outside of the month */
bool timetext_leap(int64_t year);
