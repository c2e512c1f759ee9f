/* The text of an expression while it is compiled, and the first error found in it. */
#pragma once
#include "cel/cel.h"

struct source {
    struct slice text;
    struct scratch *arena; /* without a limit: the tree and what it refers to; becomes the program's */
    struct cel_error *error;
    bool failed;
};

/* Notes an error at an offset of the text, unless there is one already; gives false, for `return source_fail(...)`. */
bool source_fail(struct source *s, uint32_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Line and column, from 1, of an offset of the text. */
void source_place(struct slice text, uint32_t at, unsigned *line, unsigned *column);
