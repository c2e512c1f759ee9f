/* Keys of commands that count them: `numkeys key [key ...]`. */
#pragma once
#include "base/num.h"
#include "command/command.h"

/* The keys behind the count at argv[count_at], as struct command's `keys` gives them. */
static inline int zkeys_counted(const struct slice *argv, uint32_t argc, uint32_t count_at, uint32_t *at, int max)
{
    int64_t n;
    if (count_at >= argc || !num_parse_i64(argv[count_at], &n) || n < 1 || n > (int64_t)(argc - count_at - 1)) return -1;
    for (int i = 0; i < n && i < max; i++) at[i] = count_at + 1 + (uint32_t)i;
    return (int)n;
}

/* numkeys key ..., at argv[1] and argv[2]. */
static inline int zkeys_second(const struct slice *argv, uint32_t argc, uint32_t *at, int max)
{
    return zkeys_counted(argv, argc, 1, at, max);
}

static inline int zkeys_third(const struct slice *argv, uint32_t argc, uint32_t *at, int max)
{
    return zkeys_counted(argv, argc, 2, at, max);
}

/* destination numkeys key ... */
static inline int zkeys_store(const struct slice *argv, uint32_t argc, uint32_t *at, int max)
{
    if (max > 0) at[0] = 1;
    int n = zkeys_counted(argv, argc, 2, at + 1, max - 1);
    return n < 0 ? -1 : n + 1;
}
