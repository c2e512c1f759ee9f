/* Timestamps, durations and time zones of CEL, against the C library's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <time.h>

#include "base/rng.h"
#include "cel/timetext.h"
#include "cel/zone.h"
#include "cel/zonerule.h"

static const int64_t first_second = -62135596800, last_second = 253402300799;

static int64_t random_second(struct rng *r, int64_t from, int64_t to) { return from + (int64_t)rng_below(r, (uint64_t)(to - from + 1)); }

static void dates_are_those_of_the_c_library(void **state)
{
    struct rng r;
    rng_init(&r, 1);
    for (int i = 0; i < 200000; i++) {
        time_t t = random_second(&r, first_second, last_second);
        struct tm tm;
        gmtime_r(&t, &tm);
        struct timetext_date d = timetext_date_of(t);
        assert_true(d.year == tm.tm_year + 1900 && d.month == tm.tm_mon + 1 && d.day == tm.tm_mday && d.weekday == tm.tm_wday && d.yearday == tm.tm_yday &&
                    d.hour == tm.tm_hour && d.minute == tm.tm_min && d.second == tm.tm_sec);
        assert_true(timetext_days(d.year, d.month, d.day) * 86400 + d.hour * 3600 + d.minute * 60 + d.second == t);
    }
}

static void what_is_printed_reads_back(void **state)
{
    struct rng r;
    rng_init(&r, 2);
    for (int i = 0; i < 100000; i++) {
        struct cel_time t = {random_second(&r, first_second, last_second), rng_below(&r, 2) ? 0 : (int32_t)rng_below(&r, 1000000000)}, back;
        char text[TIMETEXT_CHARS];
        assert_true(timetext_parse_timestamp(slice_of(text, timetext_print_timestamp(text, t)), &back));
        assert_true(back.seconds == t.seconds && back.nanos == t.nanos);
        t.seconds = random_second(&r, -315576000000, 315575999999);
        assert_true(timetext_parse_duration(slice_of(text, timetext_print_duration(text, t)), &back));
        assert_true(back.seconds == t.seconds && back.nanos == t.nanos);
    }
}

static void forms_of_timestamps(void **state)
{
    static const struct {
        const char *text;
        int64_t seconds;
        int32_t nanos;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0, 0},
        {"2009-02-13T23:31:30Z", 1234567890, 0},
        {"2009-02-14t00:31:30.5+01:00", 1234567890, 500000000},
        {"2000-02-29T00:00:00.1234567891Z", 951782400, 123456789},
        {"0001-01-01T00:00:00z", -62135596800, 0},
        {"9999-12-31T23:59:59.999999999Z", 253402300799, 999999999},
    };
    struct cel_time t;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!timetext_parse_timestamp(slice_str(good[i].text), &t) || t.seconds != good[i].seconds || t.nanos != good[i].nanos) fail_msg("%s", good[i].text);
    }
    static const char *const bad[] = {"",
                                      "2009-02-13",
                                      "2009-02-13T23:31:30",
                                      "2009-02-13 23:31:30Z",
                                      "2009-02-29T00:00:00Z",
                                      "1900-02-29T00:00:00Z",
                                      "2009-13-01T00:00:00Z",
                                      "2009-00-01T00:00:00Z",
                                      "2009-01-01T24:00:00Z",
                                      "2009-01-01T00:60:00Z",
                                      "2009-01-01T00:00:60Z",
                                      "2009-01-01T00:00:00.Z",
                                      "2009-01-01T00:00:00+24:00",
                                      "2009-01-01T00:00:00Zx",
                                      "0000-12-31T00:00:00Z",
                                      "0001-01-01T00:00:00+00:01",
                                      "9999-12-31T23:59:59-00:01"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (timetext_parse_timestamp(slice_str(bad[i]), &t)) fail_msg("%s is read", bad[i]);
    }
}

static void forms_of_durations(void **state)
{
    static const struct {
        const char *text, *printed;
    } good[] = {{"1h30m", "5400s"}, {"-1.5s", "-1.5s"}, {"0", "0s"}, {"-0.5s", "-0.5s"}, {"100ms", "0.1s"}, {"1us1ns", "0.000001001s"}, {"1.5h", "5400s"}, {"+2m", "120s"}, {".5m", "30s"},
                {"1\xc2\xb5s", "0.000001s"}, {"315576000000s", "315576000000s"}, {"-315576000000s", "-315576000000s"}};
    struct cel_time t;
    char text[TIMETEXT_CHARS];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!timetext_parse_duration(slice_str(good[i].text), &t)) fail_msg("%s is not read", good[i].text);
        size_t n = timetext_print_duration(text, t);
        if (!slice_eq(slice_of(text, n), slice_str(good[i].printed))) fail_msg("%s is %.*s", good[i].text, (int)n, text);
    }
    static const char *const bad[] = {"", "1", "s", "1x", "1s2", "--1s", "1 s", ".s", "315576000001s", "99999999999999999999h", "1h-1m"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (timetext_parse_duration(slice_str(bad[i]), &t)) fail_msg("%s is read", bad[i]);
    }
}

/* Also beyond 2037, where only the rule at the end of the file counts. */
static void zones_are_those_of_the_c_library(void **state)
{
    static const char *const zones[] = {"Europe/Berlin", "America/New_York", "America/St_Johns", "Australia/Sydney", "Asia/Kathmandu", "Africa/Casablanca", "Europe/Dublin", "America/Sao_Paulo", "Pacific/Apia",
                                        "Asia/Tehran", "UTC", "US/Central"};
    struct rng r;
    rng_init(&r, 3);
    struct scratch s;
    scratch_init(&s);
    unsigned compared = 0;
    for (size_t z = 0; z < sizeof zones / sizeof *zones; z++) {
        int64_t offset;
        setenv("TZ", zones[z], 1);
        tzset();
        for (int i = 0; i < 2000; i++) {
            time_t t = random_second(&r, -3000000000, 6000000000);
            struct tm tm;
            localtime_r(&t, &tm);
            scratch_reset(&s);
            if (!zone_offset(&s, slice_str(zones[z]), t, &offset)) fail_msg("no zone %s", zones[z]);
            if (offset != tm.tm_gmtoff) fail_msg("%s at %lld: %lld, not %ld", zones[z], (long long)t, (long long)offset, tm.tm_gmtoff);
            compared++;
        }
    }
    assert_int_equal(compared, 24000);
    scratch_fini(&s);
}

static void a_zone_is_a_name_or_an_offset_and_no_path(void **state)
{
    struct scratch s;
    scratch_init(&s);
    int64_t offset;
    assert_true(zone_offset(&s, SLICE("-09:30"), 0, &offset) && offset == -34200);
    assert_true(zone_offset(&s, SLICE("02:00"), 0, &offset) && offset == 7200);
    static const char *const bad[] = {"", "Nowhere/City", "../../../etc/passwd", "/etc/localtime", "Europe", "25:00", "1:00", "+1:00", "Europe/Berlin\n", "zone.tab"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (zone_offset(&s, slice_str(bad[i]), 0, &offset)) fail_msg("'%s' is a zone", bad[i]);
    }
    scratch_fini(&s);
}

static void rules_of_all_forms_are_understood(void **state)
{
    static const struct {
        const char *rule;
        int64_t seconds, offset;
    } cases[] = {
        {"UTC0", 0, 0},
        {"<+0330>-3:30", 0, 12600},
        {"CET-1CEST,M3.5.0,M10.5.0/3", 4102444800 + 180 * 86400, 7200},  /* summer of 2100 */
        {"CET-1CEST,M3.5.0,M10.5.0/3", 4102444800, 3600},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", 4102444800, 39600},              /* summer over the turn of the year */
        {"EST5EDT4,J60,J300", 4102444800 + 100 * 86400, -14400},
        {"EST5EDT,59/-2:00,300", 4102444800 + 58 * 86400, -18000},
    };
    int64_t offset;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!zonerule_offset(slice_str(cases[i].rule), cases[i].seconds, &offset) || offset != cases[i].offset) fail_msg("%s: %lld", cases[i].rule, (long long)offset);
    }
    static const char *const bad[] = {"", "X", "CET", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0", "CET-1CEST,M3.6.0,M10.5.0", "<+03-3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(zonerule_offset(slice_str(bad[i]), 0, &offset));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_those_of_the_c_library), cmocka_unit_test(what_is_printed_reads_back),       cmocka_unit_test(forms_of_timestamps),
        cmocka_unit_test(forms_of_durations),               cmocka_unit_test(zones_are_those_of_the_c_library), cmocka_unit_test(a_zone_is_a_name_or_an_offset_and_no_path),
        cmocka_unit_test(rules_of_all_forms_are_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
