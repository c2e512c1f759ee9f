/* file://: objects as files below a folder. How writes are made whole, durable and exact stands at the top of filestore.c. */
#pragma once
#include "base/slice.h"

struct object_store;

/* Unnamed temporary files leave nothing behind when a process is killed; a file system that has none is given named ones by itself. NAMED is for tests of that. */
enum filestore_temps { FILESTORE_UNNAMED_TEMPS, FILESTORE_NAMED_TEMPS };

/* The folder is made by the first put. object_close frees. */
struct object_store *filestore_new(struct slice folder, const char *url, enum filestore_temps temps);
