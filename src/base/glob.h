/* Glob patterns as Redis has them: * ? [a-z] [^x] and \ escapes, over bytes. Linear in practice: runs of * are folded and
 * a failed tail stops the search, so a hostile pattern cannot hang a shard. */
#pragma once
#include <stdbool.h>

#include "base/slice.h"

bool glob_match(struct slice pattern, struct slice text, bool ignore_case);
