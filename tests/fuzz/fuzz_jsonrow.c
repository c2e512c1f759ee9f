/* Any bytes as a line of JSON: fields lie inside the line, and what is made of them is JSON that means the same. */
#include <stdint.h>

#include "base/check.h"
#include "snapshot/jsonrow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at(const struct jsonrow_field *f, struct slice line)
{
    struct buf text = {0}, again = {0};
    if (f->kind == JSONROW_ABSENT) return;
    CHECK(f->raw.p >= line.p && f->raw.p + f->raw.n <= line.p + line.n);
    if (f->kind == JSONROW_STRING) jsonrow_unescape(f->raw, &text);
    text.len = 0;
    jsonrow_base64(f, &text);
    text.len = 0;
    buf_add_str(&text, "{\"a\":");
    if (jsonrow_compact(f, &text)) {
        size_t at;
        struct jsonrow_field twin = {.name = SLICE("a")};
        buf_add_byte(&text, '}');
        CHECK(!jsonrow_parse(buf_slice(&text), &twin, 1, &at) && twin.kind == f->kind);
        buf_add_str(&again, "{\"a\":");
        CHECK(jsonrow_compact(&twin, &again));
        buf_add_byte(&again, '}');
        CHECK(slice_eq(buf_slice(&text), buf_slice(&again)));
    }
    buf_fini(&text);
    buf_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice line = slice_of((const char *)data, size);
    struct jsonrow_field fields[] = {{.name = SLICE("key")}, {.name = SLICE("value")}, {.name = SLICE("a")}};
    size_t at;
    if (size > 4096) return 0;
    const char *fault = jsonrow_parse(line, fields, 3, &at);
    CHECK(at <= size);
    for (int i = 0; i < 3 && !fault; i++) look_at(&fields[i], line);
    return 0;
}
