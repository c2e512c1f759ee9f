/* Small files read and written whole: configuration, identity. */
#pragma once
#include "base/buf.h"
#include "base/slice.h"

/* Appends the file's bytes to out, at most max of them; gives 0, -EFBIG if there are more, or -errno. */
int wholefile_read(const char *path, size_t max, struct buf *out);

/* Replaces the file: written beside it, synced, renamed over it, folder synced. A crash leaves the old file or the new one.
 * mode is that of a new file; an old one keeps its own. Gives 0 or -errno; the old file is
 * untouched then, unless only the last sync of the folder failed. */
int wholefile_replace(const char *path, struct slice bytes, unsigned mode);
