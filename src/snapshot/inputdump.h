/* Rows from dumps (snapshot/input.h): the string keys of one database, of Sherd's own dump files and of Redis's dump.rdb. The only fields are "key" and "value". */
#pragma once
#include "snapshot/input.h"

/* What of a key becomes a row, the same for every source of them. */
enum inputdump_fate {
    INPUTDUMP_ROW,
    INPUTDUMP_LEFT_OUT, /* another database, or its time has run out, or another type and these are skipped */
    INPUTDUMP_REFUSED,  /* another type: `why` names key and type */
    INPUTDUMP_INVALID,  /* the image makes no sense */
};

/* Whether the wanted fields are such that a dump has; why else. `name` begins the sentence. */
bool inputdump_check_fields(const struct input_fields *f, const char *name, struct buf *error);

struct inputdump_value { /* a value taken out of its image; zeroed is ready */
    struct slice bytes;
    struct buf copy;
};
enum inputdump_fate inputdump_judge(const struct input_options *o, struct slice key, uint64_t db, int64_t expiry_ms, struct slice image, struct inputdump_value *v, struct buf *why);
void inputdump_value_fini(struct inputdump_value *v);

/* A dump file; format is INPUT_DUMP or INPUT_RDB. Keeps path and o. NULL and why. */
struct input *inputdump_open(const char *path, enum input_format format, const struct input_options *o, struct buf *error);
