/* The URLs of object stores, taken literally: no percent escapes, so that a key in a URL reads as the key. Pure. */
#pragma once
#include "base/slice.h"

enum objurl_scheme { OBJURL_FILE, OBJURL_S3 };

struct objurl {
    enum objurl_scheme scheme;
    struct slice bucket; /* S3 */
    struct slice path;   /* S3: the prefix, without slashes at its ends, "" if there is none. FILE: the absolute path, without one at its end */
};

/* Reads a URL (borrowed; the result points into it). Gives NULL, or why it is none. */
const char *objurl_parse(struct objurl *u, struct slice url);

/* Whether a path below a folder is made of names: no empty ones, no "." and "..", none longer than 255 bytes, no NUL. */
bool objurl_is_plain_path(struct slice path);
