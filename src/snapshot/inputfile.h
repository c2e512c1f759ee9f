/* A file that is read from front to back in large pieces, for parsers that need a whole line or record at a time. One thread. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct inputfile {
    const char *path; /* for messages: "-" is called standard input */
    int fd;
    const atomic_bool *cancel; /* looked at while it waits for a pipe or terminal; NULL: never */
    struct buf in;
    size_t at;        /* what is before it was used */
    bool at_end;      /* all of the file is in `in` */
    uint64_t read_bytes, size_bytes; /* size 0: not known */
    uint64_t line;    /* of the next byte, from 1; the parser counts */
};

enum { INPUTFILE_ROW_MAX = 1 << 30 }; /* a line or record longer than this is refused */

/* path "-" is standard input. Keeps both. 0 or -errno; inputfile_close in any case. */
int inputfile_open(struct inputfile *f, const char *path, const atomic_bool *cancel);
void inputfile_close(struct inputfile *f);
const char *inputfile_name(const struct inputfile *f);

/* What was read and not used yet. */
static inline struct slice inputfile_rest(const struct inputfile *f) { return slice_of(f->in.p + f->at, f->in.len - f->at); }
/* Reads more behind it, which may move it. 0, or -errno: -EFBIG if the rest is longer than a row may be, -ECANCELED. Sets at_end when there is no more. */
int inputfile_more(struct inputfile *f);
/* The next line without its end, LF or CRLF; reads as needed, counts and uses it. 1, 0 at the end of the file, or -errno. */
int inputfile_line(struct inputfile *f, struct slice *line);
