/* For tests of what runs on an event loop: each on both of them, and none leaves a file open.
 *
 *     LOOPTEST_ON_BOTH(test)          a test, twice, in the list of tests
 *     looptest_backend(state)         the event loop that a test is to use
 *     looptest_open_files()           of this process, now: compare with what was before */
#pragma once
#include <dirent.h>

#include "base/check.h"
#include "io/loop.h"

static enum loop_backend looptest_epoll = LOOP_EPOLL, looptest_uring = LOOP_URING;

#define LOOPTEST_ON_BOTH(test) {#test " (epoll)", test, NULL, NULL, &looptest_epoll}, {#test " (io_uring)", test, NULL, NULL, &looptest_uring}

static inline enum loop_backend looptest_backend(void **state) { return *(enum loop_backend *)*state; }

static inline uint32_t looptest_open_files(void)
{
    uint32_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    CHECK(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}
