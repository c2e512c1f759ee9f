/* What the files of `sherd snapshot build` share. */
#pragma once
#include "snapshot/input.h"

int snapshot_build_run(int argc, char **argv); /* what follows "build"; gives the exit code */

/* Rows from a data directory: what a server would have after a start on it, without its lock. All of it is in memory meanwhile. As input_options.open_dir. */
struct input *snapshot_dir_open(const char *path, const struct input_options *o, struct buf *error);
