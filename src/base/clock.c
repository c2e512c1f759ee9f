#include "base/clock.h"

#include <time.h>

#include "base/check.h"

enum { CALIBRATION_NS = 5000000 };

/* Set once by clock_calibrate before any second thread starts, read-only from then on. */
static double ticks_per_us = 1000.0;

static int64_t read_ns(clockid_t id)
{
    struct timespec t;
    CHECK(clock_gettime(id, &t) == 0);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_unix_ms(void) { return read_ns(CLOCK_REALTIME) / 1000000; }
int64_t clock_unix_us(void) { return read_ns(CLOCK_REALTIME) / 1000; }
int64_t clock_mono_us(void) { return read_ns(CLOCK_MONOTONIC) / 1000; }
int64_t clock_mono_ns(void) { return read_ns(CLOCK_MONOTONIC); }
int64_t clock_thread_us(void) { return read_ns(CLOCK_THREAD_CPUTIME_ID) / 1000; }

void clock_calibrate(void)
{
    int64_t start_ns = clock_mono_ns(), now_ns;
    uint64_t start = clock_ticks();
    do now_ns = clock_mono_ns();
    while (now_ns - start_ns < CALIBRATION_NS);
    ticks_per_us = (double)(clock_ticks() - start) * 1000.0 / (double)(now_ns - start_ns);
}

double clock_ticks_per_us(void) { return ticks_per_us; }
