#include <string.h>

#include "cli/cluster.h"

#define BOLD "\x1b[1m"
#define RED "\x1b[31m"
#define YELLOW "\x1b[33m"
#define PLAIN "\x1b[0m"

static bool has_word(struct slice line, const char *word) { return memmem(line.p, line.n, word, strlen(word)) != NULL; }

/* The second column of groups is their leader, "?" if none is known. */
static bool has_no_leader(struct slice line) { return has_word(line, "  ?  "); }

static const char *colour_of(struct slice line, bool is_head)
{
    if (is_head) return BOLD;
    if (has_word(line, "silent") || has_word(line, "unreachable") || has_no_leader(line)) return RED;
    return has_word(line, "draining") ? YELLOW : NULL;
}

void clusterpaint(struct slice text, bool colours, struct buf *out)
{
    bool is_head = true;
    while (text.n) {
        const char *newline = memchr(text.p, '\n', text.n);
        struct slice line = slice_of(text.p, newline ? (size_t)(newline - text.p) : text.n);
        const char *colour = colours && line.n ? colour_of(line, is_head) : NULL;
        if (colour) buf_add_str(out, colour);
        buf_add_slice(out, line);
        if (colour) buf_add_str(out, PLAIN);
        buf_add_byte(out, '\n');
        is_head = line.n == 0;
        size_t whole = line.n + (newline != NULL);
        text = slice_of(text.p + whole, text.n - whole);
    }
}
