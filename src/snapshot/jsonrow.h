/* One line of a JSON lines file: an object, of which some fields are wanted. Pure; takes any bytes.
 *
 * The whole line is checked against the grammar; wanted fields are handed out as they stand in it, so numbers of any size stay exact. Of a name that comes twice the last counts. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"

enum jsonrow_kind { JSONROW_ABSENT, JSONROW_NULL, JSONROW_BOOL, JSONROW_NUMBER, JSONROW_STRING, JSONROW_OBJECT, JSONROW_ARRAY };

struct jsonrow_field {
    struct slice name; /* the caller's */
    enum jsonrow_kind kind;
    struct slice raw;  /* as in the line; of a string what is between the quotes */
    bool has_escapes;  /* of a string */
};

enum { JSONROW_DEPTH_MAX = 128 };

/* Fills in fields[n]. NULL, or what is wrong with the line: a static sentence; *at then says where. */
const char *jsonrow_parse(struct slice line, struct jsonrow_field *fields, size_t n, size_t *at);

/* Appends the text of a string field. False, and nothing appended: half of a surrogate pair stands alone. */
bool jsonrow_unescape(struct slice raw, struct buf *out);
/* Appends a field that is there as JSON without whitespace, strings in ASCII. False, and what was appended is of no use: it is not UTF-8, or half of a surrogate pair stands alone. */
bool jsonrow_compact(const struct jsonrow_field *f, struct buf *out);
/* A string as JSON in ASCII, with quotes. False: as above. */
bool jsonrow_add_string(struct buf *out, struct slice text);
/* {"base64":"..."}: bytes that are no text, as `sherd dump export` writes them. False, and nothing appended: it is not that. */
bool jsonrow_base64(const struct jsonrow_field *f, struct buf *out);
