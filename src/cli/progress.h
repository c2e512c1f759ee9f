/* A line on standard error that shows how far a long piece of work is: part done, rate, time left. Only on a terminal; else nothing is ever written. One thread.
 *
 *     import  [=============>                ]  45.2%  312.4 MB of 691.0 MB  118.3 MB/s  3s left */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum progress_unit { PROGRESS_BYTES, PROGRESS_COUNT };

struct progress {
    const char *what;
    enum progress_unit unit;
    uint64_t total; /* 0: not known; then there is no bar */
    int64_t start_us, drawn_us;
    bool on;
};

void progress_begin(struct progress *p, const char *what, uint64_t total, enum progress_unit unit);
void progress_set(struct progress *p, uint64_t done); /* draws at most ten times a second */
void progress_end(struct progress *p);                /* takes the line away: for the end, and before anything else is written */

/* The line's text without control codes, for tests; gives its length. */
enum { PROGRESS_LINE_MAX = 160 };
int progress_line(char out[PROGRESS_LINE_MAX], const struct progress *p, uint64_t done, int64_t now_us);

/* "312.4 MB", "7 bytes" */
enum { PROGRESS_SIZE_MAX = 24 };
const char *progress_size(char out[PROGRESS_SIZE_MAX], uint64_t bytes);
