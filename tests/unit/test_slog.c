/* Log lines: their two formats, quoting of hostile values, cutting, levels, and lines of several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/slog.h"

static const int64_t WHEN_MS = 1763204851123; /* 2025-11-15T11:07:31.123Z */

static void a_text_line_has_time_level_message_and_pairs(void **state)
{
    char out[SLOG_LINE_MAX];
    size_t n = slog_line(out, SLOG_TEXT, SLOG_NOTICE, WHEN_MS, "server ready", "addr=%s port=%d", "127.0.0.1", 6379);
    out[n] = '\0';
    assert_string_equal(out, "2025-11-15T11:07:31.123Z notice server ready addr=127.0.0.1 port=6379\n");
}

static void a_logfmt_line_is_pairs_only(void **state)
{
    char out[SLOG_LINE_MAX];
    size_t n = slog_line(out, SLOG_LOGFMT, SLOG_WARNING, WHEN_MS, "server ready", "keys=%zu share=%.2f", (size_t)12, 0.5);
    out[n] = '\0';
    assert_string_equal(out, "ts=2025-11-15T11:07:31.123Z level=warning msg=\"server ready\" keys=12 share=0.50\n");
}

static void every_conversion_takes_its_own_argument(void **state)
{
    char out[SLOG_LINE_MAX];
    size_t n = slog_line(out, SLOG_TEXT, SLOG_DEBUG, WHEN_MS, "m", "a=%d b=%s c=%ld d=%u e=%llx f=%c g=%g h=%.*s i=%dms j=%lu", -1, "two",
                         -3000000000L, 4u, 0xfeedfacecafeull, 'x', 1.5, 3, "threefour", 7, 18446744073709551615ul);
    out[n] = '\0';
    assert_string_equal(strstr(out, " m ") + 3,
                        "a=-1 b=two c=-3000000000 d=4 e=feedfacecafe f=x g=1.5 h=thr i=7ms j=18446744073709551615\n");
}

static void a_value_cannot_forge_a_line_or_a_pair(void **state)
{
    char out[SLOG_LINE_MAX];
    size_t n = slog_line(out, SLOG_LOGFMT, SLOG_NOTICE, WHEN_MS, "m", "name=%s empty=%s", "a b\nlevel=\"x\"\\\x01", "");
    out[n] = '\0';
    assert_string_equal(strstr(out, "name="), "name=\"a b\\nlevel=\\\"x\\\"\\\\\\x01\" empty=\"\"\n");
}

static void a_long_line_is_cut_and_says_so(void **state)
{
    char out[SLOG_LINE_MAX], big[900];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    size_t n = slog_line(out, SLOG_TEXT, SLOG_NOTICE, WHEN_MS, "m", "a=%s b=%s c=%s d=%s", big, big, big, big);
    assert_int_equal(n, SLOG_LINE_MAX);
    assert_memory_equal(out + n - 4, "...\n", 4);
}

static void only_enabled_levels_are_written(void **state)
{
    char path[] = "/tmp/sherd-slog-XXXXXX";
    close(mkstemp(path));
    struct slog log;
    assert_int_equal(slog_open(&log, path, SLOG_TEXT, SLOG_NOTICE), 0);
    slog(&log, SLOG_VERBOSE, "hidden", "n=%d", 0);
    slog(&log, SLOG_NOTICE, "shown", "n=%d", 1);
    slog_set_level(&log, SLOG_DEBUG);
    slog(&log, SLOG_DEBUG, "shown too", "n=%d", 2);
    slog_close(&log);
    char text[512];
    FILE *f = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    unlink(path);
    assert_null(strstr(text, "hidden"));
    assert_non_null(strstr(text, " notice shown n=1\n"));
    assert_non_null(strstr(text, " debug shown too n=2\n"));
}

enum { THREADS = 4, LINES = 500 };

static void *log_many(void *arg)
{
    for (int i = 0; i < LINES; i++) slog(arg, SLOG_NOTICE, "line", "i=%d end=%s", i, "yes");
    return NULL;
}

static void lines_of_threads_never_mix(void **state)
{
    char path[] = "/tmp/sherd-slog-XXXXXX", line[256];
    close(mkstemp(path));
    struct slog log;
    assert_int_equal(slog_open(&log, path, SLOG_TEXT, SLOG_NOTICE), 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, log_many, &log), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    slog_close(&log);
    int whole = 0;
    FILE *f = fopen(path, "r");
    while (fgets(line, sizeof line, f)) {
        int i;
        char end[8];
        assert_int_equal(sscanf(line, "%*s notice line i=%d end=%7s", &i, end), 2);
        assert_string_equal(end, "yes");
        whole++;
    }
    fclose(f);
    unlink(path);
    assert_int_equal(whole, THREADS * LINES);
}

static void a_file_that_cannot_be_opened_is_an_error(void **state)
{
    struct slog log;
    assert_true(slog_open(&log, "/nonexistent/dir/log", SLOG_TEXT, SLOG_NOTICE) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_line_has_time_level_message_and_pairs),
        cmocka_unit_test(a_logfmt_line_is_pairs_only),
        cmocka_unit_test(every_conversion_takes_its_own_argument),
        cmocka_unit_test(a_value_cannot_forge_a_line_or_a_pair),
        cmocka_unit_test(a_long_line_is_cut_and_says_so),
        cmocka_unit_test(only_enabled_levels_are_written),
        cmocka_unit_test(lines_of_threads_never_mix),
        cmocka_unit_test(a_file_that_cannot_be_opened_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
