/* Assertions that stay on in release builds: for our own promises, never for bytes from outside. */
#pragma once

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

_Noreturn void check_failed(const char *what, const char *file, int line);

#define CHECK(x) \
    do { \
        if (unlikely(!(x))) check_failed(#x, __FILE__, __LINE__); \
    } while (0)
