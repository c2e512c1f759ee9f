/* Log lines: a message and key=value pairs, one write(2) per line, so lines of several threads never mix.
 *
 *     slog(log, SLOG_NOTICE, "listening", "addr=%s port=%d", addr, port);
 *
 * text:    2026-11-15T11:07:31.123Z notice listening addr=127.0.0.1 port=6379
 * logfmt:  ts=2026-11-15T11:07:31.123Z level=notice msg=listening addr=127.0.0.1 port=6379
 *
 * The pairs are a printf format of "key=%conversion" words, checked by the compiler; each has exactly one conversion: s d i u x c f g e
 * with h, l, ll, z, j or t where they apply, or %.*s. A value with spaces, quotes or control bytes is quoted and escaped, so bytes of a client can
 * not forge a line. A line longer than SLOG_LINE_MAX is cut and ends with "...". Any thread may log; the level may change at any time. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLOG_LINE_MAX = 2048 };

enum slog_level { SLOG_DEBUG, SLOG_VERBOSE, SLOG_NOTICE, SLOG_WARNING };
enum slog_format { SLOG_TEXT, SLOG_LOGFMT };

struct slog {
    int fd;
    enum slog_format format;
    _Atomic int level; /* lines below it are not written */
    bool owns_fd;
};

/* Opens the file at path for appending, or standard error if path is NULL or empty; gives 0 or -errno. */
int slog_open(struct slog *log, const char *path, enum slog_format format, enum slog_level level);
void slog_close(struct slog *log);

static inline bool slog_enabled(const struct slog *log, enum slog_level level)
{
    return (int)level >= atomic_load_explicit(&log->level, memory_order_relaxed);
}

static inline void slog_set_level(struct slog *log, enum slog_level level)
{
    atomic_store_explicit(&log->level, (int)level, memory_order_relaxed);
}

/* pairs may be "". */
void slog(const struct slog *log, enum slog_level level, const char *msg, const char *pairs, ...)
    __attribute__((format(printf, 4, 5)));

/* The line that slog would write at this time, for tests; gives its length, newline included. */
size_t slog_line(char out[SLOG_LINE_MAX], enum slog_format format, enum slog_level level, int64_t unix_ms, const char *msg,
                 const char *pairs, ...) __attribute__((format(printf, 6, 7)));

const char *slog_level_name(enum slog_level level);
