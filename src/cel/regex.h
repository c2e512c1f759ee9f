/* Regular expressions of CEL's matches(): RE2's syntax, run by PCRE2 with limits. What RE2 does not have is refused
 * (backreferences, look-around, possessive and atomic groups, recursion, callouts), so that an expression means the
 * same here as in every other CEL. */
#pragma once
#include "cel/scratch.h"

/* A compiled pattern, whose memory is the scratch's; NULL with *error set. It may be used by several threads at once. */
void *regex_compile(struct scratch *s, struct slice pattern, const char **error);

/* 1: the pattern matches somewhere in the text; 0: it does not; -1: that took too long or too much memory. */
int regex_match(const void *regex, struct scratch *s, struct slice text);
