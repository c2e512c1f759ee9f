/* Reads configuration files in TOML 1.0, as far as such files need it: tables, bare, quoted and dotted keys, basic and literal
 * strings, integers, floats, booleans, and arrays of these (over several lines too). Inline tables, arrays of tables, dates and
 * multi-line strings are refused by name. Pure.
 *
 * Each value remembers its line and where it stands in the source, so that a program can change one value and leave the rest of
 * the file, comments included, as its owner wrote it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum toml_kind { TOML_STRING, TOML_INTEGER, TOML_FLOAT, TOML_BOOLEAN, TOML_ARRAY };

struct toml_value {
    enum toml_kind kind;
    struct slice text; /* TOML_STRING: unescaped, owned by the document */
    int64_t integer;
    double real;
    bool boolean;
    struct toml_value *items; /* TOML_ARRAY */
    size_t count;
};

struct toml_item {
    struct slice table; /* "" at top level; "a.b" for [a.b] or dotted keys */
    struct slice key;
    struct toml_value value;
    unsigned line;   /* of the key, from 1 */
    size_t from, to; /* the value's bytes in the source */
};

struct toml {
    struct toml_item *items;
    size_t count;
    size_t top_end;       /* offset of the line of the first [table]; the source's length if there is none */
    unsigned error_line;  /* 0: none */
    char error[160];
    struct toml_block *blocks; /* strings and arrays */
};

/* Reads the source (borrowed) into doc; gives 0, or -1 with error and error_line set. toml_fini in both cases. */
int toml_parse(struct toml *doc, struct slice source);
void toml_fini(struct toml *doc);

const struct toml_item *toml_find(const struct toml *doc, struct slice table, struct slice key);
