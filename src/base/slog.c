#include "base/slog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

/* A line under construction. The last bytes are kept free for the mark of a cut line and the newline. */
struct line {
    char *p;
    size_t n;
    bool cut;
};

enum { LINE_ROOM = SLOG_LINE_MAX - 4 };

static void line_add(struct line *l, const char *text, size_t n)
{
    if (l->cut) return;
    if (n > LINE_ROOM - l->n) {
        n = LINE_ROOM - l->n;
        l->cut = true;
    }
    memcpy(l->p + l->n, text, n);
    l->n += n;
}

static void line_str(struct line *l, const char *text) { line_add(l, text, strlen(text)); }

static bool is_plain(unsigned char c) { return c > ' ' && c != '"' && c != '=' && c != '\\' && c != 0x7f; }

static void line_escaped(struct line *l, unsigned char c)
{
    char hex[8];
    switch (c) {
    case '"': line_str(l, "\\\""); break;
    case '\\': line_str(l, "\\\\"); break;
    case '\n': line_str(l, "\\n"); break;
    case '\r': line_str(l, "\\r"); break;
    case '\t': line_str(l, "\\t"); break;
    default:
        if (c >= ' ' && c != 0x7f) {
            line_add(l, (const char *)&c, 1);
        } else {
            snprintf(hex, sizeof hex, "\\x%02x", c);
            line_str(l, hex);
        }
    }
}

/* A value as it is if it is one plain word, in quotes otherwise. */
static void line_value(struct line *l, const char *text)
{
    bool plain = *text != '\0';
    for (const char *c = text; *c && plain; c++) plain = is_plain((unsigned char)*c);
    if (plain) {
        line_str(l, text);
        return;
    }
    line_str(l, "\"");
    for (const char *c = text; *c; c++) line_escaped(l, (unsigned char)*c);
    line_str(l, "\"");
}

/* The va_list in a struct, so that it can be advanced by the functions it is handed to. */
struct args {
    va_list ap;
};

/* Formats the one conversion `spec` (a copy of "%...d") with the next argument. */
static void format_conversion(char *out, size_t cap, const char *spec, struct args *a)
{
    size_t n = strlen(spec);
    char conversion = spec[n - 1];
    bool is_signed = conversion == 'd' || conversion == 'i';
    CHECK(strchr("sdiuxcfge", conversion) != NULL);
    if (conversion == 's') {
        int precision = strchr(spec, '*') ? va_arg(a->ap, int) : -1;
        const char *text = va_arg(a->ap, const char *);
        snprintf(out, cap, "%.*s", precision, text ? text : "(null)");
    } else if (strchr("fge", conversion)) {
        snprintf(out, cap, spec, va_arg(a->ap, double));
    } else if (strchr(spec, 'l') || strchr(spec, 'z') || strchr(spec, 'j') || strchr(spec, 't')) {
        /* long, long long, size_t, intmax_t and ptrdiff_t are one width on every 64-bit Linux. */
        _Static_assert(sizeof(long) == 8 && sizeof(size_t) == 8, "a 64-bit system");
        if (is_signed)
            snprintf(out, cap, spec, va_arg(a->ap, long));
        else
            snprintf(out, cap, spec, va_arg(a->ap, unsigned long));
    } else {
        if (is_signed || conversion == 'c')
            snprintf(out, cap, spec, va_arg(a->ap, int));
        else
            snprintf(out, cap, spec, va_arg(a->ap, unsigned));
    }
}

/* One "key=%conversion" word of the pairs. Text around the conversion is kept: "took=%dms" works. */
static void line_pair(struct line *l, const char *word, size_t n, struct args *a)
{
    const char *equals = memchr(word, '=', n);
    CHECK(equals != NULL);
    line_str(l, " ");
    line_add(l, word, (size_t)(equals - word) + 1);

    char value[1024], spec[16];
    const char *end = word + n, *percent = memchr(equals, '%', (size_t)(end - equals));
    CHECK(percent != NULL);
    size_t spec_n = strcspn(percent, "sdiuxcfge") + 1;
    CHECK(spec_n < sizeof spec && percent + spec_n <= end);
    memcpy(spec, percent, spec_n);
    spec[spec_n] = '\0';

    size_t before = (size_t)(percent - equals) - 1;
    CHECK(before < 64);
    memcpy(value, equals + 1, before);
    format_conversion(value + before, sizeof value - before - 64, spec, a);
    size_t at = strlen(value), after = (size_t)(end - percent) - spec_n;
    CHECK(after < 64);
    memcpy(value + at, percent + spec_n, after);
    value[at + after] = '\0';
    line_value(l, value);
}

static void line_time(struct line *l, int64_t unix_ms)
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm tm;
    char text[64];
    gmtime_r(&seconds, &tm);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + n, sizeof text - n, ".%03dZ", (int)(unix_ms % 1000));
    line_str(l, text);
}

static void line_head(struct line *l, enum slog_format format, enum slog_level level, int64_t unix_ms, const char *msg)
{
    bool logfmt = format == SLOG_LOGFMT;
    line_str(l, logfmt ? "ts=" : "");
    line_time(l, unix_ms);
    line_str(l, logfmt ? " level=" : " ");
    line_str(l, slog_level_name(level));
    line_str(l, logfmt ? " msg=" : " ");
    if (logfmt)
        line_value(l, msg);
    else
        line_str(l, msg);
}

static size_t make_line(char *out, enum slog_format format, enum slog_level level, int64_t unix_ms, const char *msg,
                        const char *pairs, struct args *a)
{
    struct line l = {.p = out};
    line_head(&l, format, level, unix_ms, msg);
    for (const char *word = pairs; *word;) {
        size_t n = strcspn(word, " ");
        if (n) line_pair(&l, word, n, a);
        word += n + (word[n] == ' ');
    }
    if (l.cut) {
        memcpy(l.p + l.n, "...", 3);
        l.n += 3;
    }
    l.p[l.n++] = '\n';
    return l.n;
}

size_t slog_line(char out[SLOG_LINE_MAX], enum slog_format format, enum slog_level level, int64_t unix_ms, const char *msg,
                 const char *pairs, ...)
{
    struct args a;
    va_start(a.ap, pairs);
    size_t n = make_line(out, format, level, unix_ms, msg, pairs, &a);
    va_end(a.ap);
    return n;
}

void slog(const struct slog *log, enum slog_level level, const char *msg, const char *pairs, ...)
{
    if (!slog_enabled(log, level)) return;
    char out[SLOG_LINE_MAX];
    struct args a;
    va_start(a.ap, pairs);
    size_t n = make_line(out, log->format, level, clock_unix_ms(), msg, pairs, &a);
    va_end(a.ap);
    /* A log that cannot be written must not stop the server, and there is nowhere to say so. */
    ssize_t written;
    do written = write(log->fd, out, n);
    while (written < 0 && errno == EINTR);
}

int slog_open(struct slog *log, const char *path, enum slog_format format, enum slog_level level)
{
    *log = (struct slog){.fd = STDERR_FILENO, .format = format};
    atomic_init(&log->level, (int)level);
    if (!path || !*path) return 0;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return -errno;
    log->fd = fd;
    log->owns_fd = true;
    return 0;
}

void slog_close(struct slog *log)
{
    if (log->owns_fd) close(log->fd);
    log->owns_fd = false;
    log->fd = STDERR_FILENO;
}

const char *slog_level_name(enum slog_level level)
{
    static const char *const names[] = {"debug", "verbose", "notice", "warning"};
    return names[level];
}
