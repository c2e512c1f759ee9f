#include "base/buf.h"

#include <stdio.h>

#include "base/mem.h"

void buf_grow(struct buf *b, size_t more)
{
    size_t cap = b->cap ? b->cap : 256;
    while (cap - b->len < more) cap *= 2;
    b->p = mem_resize(b->p, cap);
    b->cap = cap;
}

void buf_fini(struct buf *b)
{
    mem_free(b->p);
    *b = (struct buf){0};
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    CHECK(n >= 0);
    vsnprintf(buf_room(b, (size_t)n + 1), (size_t)n + 1, fmt, again);
    va_end(again);
    b->len += (size_t)n;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(b, fmt, ap);
    va_end(ap);
}

void buf_insert(struct buf *b, size_t at, const void *p, size_t n)
{
    CHECK(at <= b->len);
    buf_room(b, n);
    memmove(b->p + at + n, b->p + at, b->len - at);
    memcpy(b->p + at, p, n);
    b->len += n;
}
