/* Where the rows of a snapshot come from: one row after another, with its key, its value and the columns that a routing expression needs.
 *
 * One thread per input. Slices of a row are valid until the next call. A bad row is told and the input goes on behind it; whether that ends the build is the caller's choice. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* What of an input becomes a row. Names are fields of CSV headers and JSON objects; dumps and servers have only the fields "key" and "value". */
struct input_fields {
    const char *key;   /* NULL: "key" */
    const char *value; /* NULL: "value", unless there are json fields */
    const char *const *json; /* [n_json], ascending, none twice: the value is a JSON object of these */
    size_t n_json;
    const char *const *columns; /* [n_columns]; a column "key" that an input has no field for is the row's key */
    size_t n_columns;
};

enum input_key_form {
    INPUT_KEY_WORD,   /* bytes: what they mean depends on the encoding, see snapkey_parse */
    INPUT_KEY_NUMBER, /* an integer's digits; never text */
};

struct input_row {
    struct slice key;
    enum input_key_form key_form;
    struct slice value;
    const struct slice *columns; /* [n_columns] of the fields, in their order */
};

enum input_result {
    INPUT_ROW,
    INPUT_END,
    INPUT_BAD,    /* `why` tells of the row; the next call goes on behind it */
    INPUT_FAILED, /* `why` tells; there is no more */
};

struct input {
    enum input_result (*next)(struct input *in, struct input_row *row, struct buf *why);
    void (*free)(struct input *in);
    /* Appends where the last row stands, "rows.csv:7: "; NULL: nothing to tell. */
    void (*where)(const struct input *in, struct buf *out);
    _Atomic uint64_t done_bytes;  /* how far it is; any thread may look */
    _Atomic uint64_t total_bytes; /* 0: not known */
    uint64_t left_out;            /* keys that are no rows: of other types, or past their time */
};

static inline enum input_result input_next(struct input *in, struct input_row *row, struct buf *why) { return in->next(in, row, why); }
static inline void input_free(struct input *in)
{
    if (in) in->free(in);
}

static inline void input_where(const struct input *in, struct buf *out)
{
    if (in->where) in->where(in, out);
}

/* Appends bytes for a message: what is no UTF-8 and control characters as \xNN. */
void input_add_printable(struct buf *out, struct slice bytes);
/* At most some hundred of them. */
void input_print(struct buf *out, struct slice bytes);

/* ---- opening */

enum input_format { INPUT_AUTO /* by name, then by content */, INPUT_CSV, INPUT_JSON, INPUT_DUMP, INPUT_RDB };

struct input_options {
    struct input_fields fields;
    enum input_format format;
    char separator;         /* of CSV; 0: a comma, or a tab in files *.tsv */
    uint16_t db;            /* dumps and servers: only this database */
    bool skip_other_types;  /* dumps and servers: keys that are no strings are left out; else they are an error */
    int64_t now_ms;         /* dumps: keys whose time has run out by now are left out */
    const atomic_bool *cancel; /* when it becomes true, waiting for bytes ends soon, as a failure; NULL: never */
    /* Opens a data directory; NULL: they are refused. */
    struct input *(*open_dir)(const char *path, const struct input_options *o, struct buf *error);
};

/* By the name alone: a dump file or a directory. */
bool input_is_dump(const char *path);

/* A file, a data directory, or "-" for standard input. Keeps o and path. NULL and why: "PATH: ...". */
struct input *input_open(const char *path, const struct input_options *o, struct buf *error);
/* Several, one behind the other; each is opened when its turn comes. Keeps everything. */
struct input *input_chain(const char *const *paths, size_t n, const struct input_options *o);

/* ---- help for those who implement one */

/* The place of a field by name, or -1. */
int input_find(const struct slice *names, size_t n, const char *name);
