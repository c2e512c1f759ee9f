/* Clocks. Pure code never calls these: time is handed in. */
#pragma once
#include <stdint.h>

int64_t clock_unix_ms(void);
int64_t clock_unix_us(void);
int64_t clock_mono_us(void);
int64_t clock_mono_ns(void);
int64_t clock_thread_us(void); /* that the calling thread has run */

/* A cheap tick counter for measuring commands (a few ns to read), and its rate, measured once at start. */
void clock_calibrate(void);
double clock_ticks_per_us(void);
static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return (uint64_t)clock_mono_ns();
#endif
}
