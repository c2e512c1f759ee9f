/* A growing byte buffer. Owned by its holder; buf_fini frees. A zeroed struct is an empty buffer.
 * Appending invalidates pointers into it, so keep offsets. */
#pragma once
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/slice.h"

struct buf {
    char *p;
    size_t len;
    size_t cap;
};

void buf_grow(struct buf *b, size_t more); /* room for `more` bytes behind len */
void buf_fini(struct buf *b);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap);
void buf_insert(struct buf *b, size_t at, const void *p, size_t n);

/* Room for n bytes at the end; the caller writes them and adds to len. */
static inline char *buf_room(struct buf *b, size_t n)
{
    if (unlikely(b->cap - b->len < n)) buf_grow(b, n);
    return b->p + b->len;
}

static inline void buf_add(struct buf *b, const void *p, size_t n)
{
    if (n == 0) return;
    memcpy(buf_room(b, n), p, n);
    b->len += n;
}

static inline void buf_add_slice(struct buf *b, struct slice s) { buf_add(b, s.p, s.n); }
static inline void buf_add_str(struct buf *b, const char *s) { buf_add(b, s, strlen(s)); }

static inline void buf_add_byte(struct buf *b, char c)
{
    *buf_room(b, 1) = c;
    b->len++;
}

static inline struct slice buf_slice(const struct buf *b) { return slice_of(b->p, b->len); }
