/* One record of a CSV file, as RFC 4180 has them: fields between separators, in quotes where they hold separators, quotes or line ends. Pure; takes any bytes.
 *
 * Records end with LF or CRLF, the last one also with the file. A quote inside a field that does not begin with one, and anything but a separator or the record's end behind a closing quote,
 * are faults: to guess what was meant would be to lose data silently. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct csvrow {
    struct slice *fields; /* valid as long as the bytes, and until the next record */
    size_t n, cap;
    struct buf text;      /* of fields in quotes that had quotes inside */
    size_t used;          /* bytes of the record with its end */
    uint32_t lines;       /* that it took */
    const char *fault;    /* CSVROW_BAD */
};

enum csvrow_result {
    CSVROW_RECORD,
    CSVROW_MORE,  /* the bytes end before the record does */
    CSVROW_BAD,   /* `fault` says why; `used` and `lines` lead to the line behind */
};

/* bytes is not empty. at_end: nothing comes behind it, so the last record needs no line end. A zeroed csvrow is ready; csvrow_fini frees. */
enum csvrow_result csvrow_parse(struct csvrow *r, struct slice bytes, char separator, bool at_end);
void csvrow_fini(struct csvrow *r);
