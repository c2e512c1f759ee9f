/* A borrowed run of bytes: pointer and length, no terminator, never owned. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct slice {
    const char *p;
    size_t n;
};

/* The length of a literal is counted by the compiler, never by hand. */
#define SLICE(literal) ((struct slice){"" literal, sizeof(literal) - 1})

static inline struct slice slice_of(const void *p, size_t n) { return (struct slice){p, n}; }
static inline struct slice slice_str(const char *s) { return (struct slice){s, strlen(s)}; }

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* ASCII case is ignored: for command names and option words. */
static inline bool slice_is(struct slice a, const char *word)
{
    size_t n = strlen(word);
    return a.n == n && strncasecmp(a.p, word, n) == 0;
}

/* Byte order, shorter first when one is the prefix of the other. */
static inline int slice_cmp(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int d = n ? memcmp(a.p, b.p, n) : 0;
    if (d) return d;
    return a.n < b.n ? -1 : a.n > b.n;
}
