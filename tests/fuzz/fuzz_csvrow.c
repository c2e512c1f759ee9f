/* Any bytes as a CSV file: read as a whole and in pieces, the records are the same, and what is taken is never more than there is. */
#include <stdint.h>

#include "base/check.h"
#include "base/mem.h"
#include "snapshot/csvrow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A record from bytes that grow step by step: as a file gives them. */
static enum csvrow_result parse_growing(struct csvrow *r, struct slice bytes)
{
    for (size_t n = 1; n < bytes.n; n++) {
        enum csvrow_result got = csvrow_parse(r, slice_of(bytes.p, n), ',', false);
        if (got != CSVROW_MORE) return got;
    }
    return csvrow_parse(r, bytes, ',', true);
}

static void same(const struct csvrow *a, const struct csvrow *b)
{
    CHECK(a->used == b->used && a->lines == b->lines && a->n == b->n);
    for (size_t i = 0; i < a->n; i++) CHECK(slice_eq(a->fields[i], b->fields[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct csvrow whole = {0}, growing = {0};
    if (size > 400) return 0;
    for (size_t at = 0; at < size;) {
        struct slice rest = slice_of((const char *)data + at, size - at);
        enum csvrow_result r = csvrow_parse(&whole, rest, ',', true);
        CHECK(r != CSVROW_MORE && whole.used > 0 && whole.used <= rest.n && whole.lines >= 1);
        CHECK(r != CSVROW_BAD || whole.fault);
        CHECK(parse_growing(&growing, rest) == r);
        if (r == CSVROW_RECORD) same(&whole, &growing);
        else CHECK(whole.used == growing.used);
        at += whole.used;
    }
    csvrow_fini(&whole);
    csvrow_fini(&growing);
    return 0;
}
