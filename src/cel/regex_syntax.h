/* From RE2's syntax to PCRE2's. Pure. */
#pragma once
#include "base/buf.h"

/* Adds the pattern as PCRE2 reads it; gives NULL, or what in it RE2 does not have. */
const char *regex_syntax_translate(struct slice pattern, struct buf *out);
