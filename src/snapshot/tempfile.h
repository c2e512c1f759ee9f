/* Files without a name: what is in them goes when they are closed, however the process ends. */
#pragma once

/* A new empty file in the folder, open for reading and writing; or -errno. dir NULL: TMPDIR, then /tmp. */
int tempfile_open(const char *dir);
const char *tempfile_dir(const char *dir); /* the folder that tempfile_open takes */
