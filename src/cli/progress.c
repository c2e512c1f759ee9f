#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { BAR_CHARS = 30, DRAW_EVERY_US = 100000 };

const char *progress_size(char out[PROGRESS_SIZE_MAX], uint64_t bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    double n = (double)bytes;
    int unit = -1;
    for (; n >= 1000 && unit < 5; unit++) n /= 1000;
    if (unit < 0) snprintf(out, PROGRESS_SIZE_MAX, "%" PRIu64 " bytes", bytes);
    else snprintf(out, PROGRESS_SIZE_MAX, "%.1f %s", n, units[unit]);
    return out;
}

static const char *amount(const struct progress *p, char out[PROGRESS_SIZE_MAX], uint64_t n)
{
    if (p->unit == PROGRESS_BYTES) return progress_size(out, n);
    snprintf(out, PROGRESS_SIZE_MAX, "%" PRIu64, n);
    return out;
}

static const char *duration(char out[PROGRESS_SIZE_MAX], double seconds)
{
    uint64_t s = (uint64_t)(seconds + 0.5);
    if (s < 60) snprintf(out, PROGRESS_SIZE_MAX, "%us", (unsigned)s);
    else if (s < 3600) snprintf(out, PROGRESS_SIZE_MAX, "%um%02us", (unsigned)(s / 60), (unsigned)(s % 60));
    else snprintf(out, PROGRESS_SIZE_MAX, "%" PRIu64 "h%02um", s / 3600, (unsigned)(s / 60 % 60));
    return out;
}

int progress_line(char out[PROGRESS_LINE_MAX], const struct progress *p, uint64_t done, int64_t now_us)
{
    char at[PROGRESS_SIZE_MAX], all[PROGRESS_SIZE_MAX], rate[PROGRESS_SIZE_MAX], left[PROGRESS_SIZE_MAX], bar[BAR_CHARS + 1];
    double seconds = (double)(now_us - p->start_us) / 1e6, per_second = seconds > 0 ? (double)done / seconds : 0;
    amount(p, at, done);
    amount(p, rate, (uint64_t)per_second);
    if (p->total == 0) return snprintf(out, PROGRESS_LINE_MAX, "%s  %s  %s/s", p->what, at, rate);
    if (done > p->total) done = p->total;
    double part = (double)done / (double)p->total;
    int filled = (int)(part * BAR_CHARS);
    memset(bar, '=', (size_t)filled);
    memset(bar + filled, ' ', (size_t)(BAR_CHARS - filled));
    if (filled > 0 && filled < BAR_CHARS) bar[filled - 1] = '>';
    bar[BAR_CHARS] = '\0';
    if (per_second > 0) duration(left, (double)(p->total - done) / per_second);
    else snprintf(left, sizeof left, "?");
    return snprintf(out, PROGRESS_LINE_MAX, "%s  [%s]  %.1f%%  %s of %s  %s/s  %s left", p->what, bar, part * 100, at, amount(p, all, p->total), rate, left);
}

void progress_begin(struct progress *p, const char *what, uint64_t total, enum progress_unit unit)
{
    *p = (struct progress){.what = what, .unit = unit, .total = total, .start_us = clock_mono_us(), .on = isatty(STDERR_FILENO)};
}

void progress_set(struct progress *p, uint64_t done)
{
    char line[PROGRESS_LINE_MAX];
    if (!p->on) return;
    int64_t now_us = clock_mono_us();
    if (now_us - (p->drawn_us ? p->drawn_us : p->start_us) < DRAW_EVERY_US) return; /* a rate over no time would be any number */
    p->drawn_us = now_us;
    progress_line(line, p, done, now_us);
    fprintf(stderr, "\r%s\x1b[K", line);
    fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (!p->on || p->drawn_us == 0) return;
    fputs("\r\x1b[K", stderr);
    fflush(stderr);
    p->drawn_us = 0;
}
