#include "cel/source.h"

#include <stdarg.h>
#include <stdio.h>

#include "cel/utf8.h"

void source_place(struct slice text, uint32_t at, unsigned *line, unsigned *column)
{
    *line = 1, *column = 1;
    for (size_t i = 0; i < at && i < text.n; i++) {
        if (text.p[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (utf8_starts(text.p[i])) {
            ++*column;
        }
    }
}

bool source_fail(struct source *s, uint32_t at, const char *fmt, ...)
{
    if (s->failed) return false;
    s->failed = true;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->error->message, sizeof s->error->message, fmt, ap);
    va_end(ap);
    source_place(s->text, at, &s->error->line, &s->error->column);
    return false;
}

void cel_error_print(const struct cel_error *error, struct slice source, struct buf *out)
{
    buf_printf(out, "%u:%u: %s\n", error->line, error->column, error->message);
    const char *p = source.p, *end = source.p + source.n;
    for (unsigned line = 1; line < error->line && p < end; p++) line += *p == '\n';
    const char *stop = p;
    while (stop < end && *stop != '\n') stop++;
    buf_add_str(out, " | ");
    buf_add(out, p, (size_t)(stop - p));
    buf_add_str(out, "\n | ");
    for (unsigned i = 1; i < error->column; i++) buf_add_byte(out, '.');
    buf_add_str(out, "^\n");
}
