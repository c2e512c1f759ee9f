/* Any bytes as a CEL expression: an error with a place in the text, or a program that gives a value or an error, the same twice. The first byte says how it
 * is compiled. Time zone files come through here too: bytes that begin with TZif are one. */
#include <stdint.h>

#include "base/check.h"
#include "cel/cel.h"
#include "cel/zone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct cel_value items[] = {{.kind = CEL_INT, .integer = 1}, {.kind = CEL_STRING, .text = SLICE("two")}, {.kind = CEL_DOUBLE, .real = 3.5}};
static const struct cel_entry entries[] = {{{.kind = CEL_STRING, .text = SLICE("a")}, {.kind = CEL_INT, .integer = 1}}, {{.kind = CEL_BOOL, .boolean = true}, {.kind = CEL_NULL}}};

static const struct cel_variable variables[] = {
    {SLICE("i"), SLICE("int")},   {SLICE("u"), SLICE("uint")},      {SLICE("d"), SLICE("double")},     {SLICE("b"), SLICE("bool")},      {SLICE("s"), SLICE("string")},
    {SLICE("y"), SLICE("bytes")}, {SLICE("l"), SLICE("list(dyn)")}, {SLICE("m"), SLICE("map(dyn, dyn)")}, {SLICE("t"), SLICE("timestamp")}, {SLICE("r"), SLICE("duration")},
    {SLICE("x"), SLICE("dyn")},   {SLICE("p.q"), SLICE("list(string)")},
};

static const struct cel_value values[] = {
    {.kind = CEL_INT, .integer = -7},
    {.kind = CEL_UINT, .natural = 1ull << 63},
    {.kind = CEL_DOUBLE, .real = 1e18},
    {.kind = CEL_BOOL, .boolean = true},
    {.kind = CEL_STRING, .text = SLICE("caf\xc3\xa9 \xff")}, /* not UTF-8: a caller's mistake must do no harm */
    {.kind = CEL_BYTES, .text = {"\0\1\xfe", 3}},
    {.kind = CEL_LIST, .list = {items, 3}},
    {.kind = CEL_MAP, .map = {entries, 2, NULL}},
    {.kind = CEL_TIMESTAMP, .time = {253402300799, 999999999}},
    {.kind = CEL_DURATION, .time = {-1, 500000000}},
    {.kind = CEL_LIST, .list = {items, 3}},
    {.kind = CEL_LIST, .list = {items, 3}}, /* not of its declared element type: functions have to notice */
};

static void evaluate(const struct cel_program *program)
{
    struct scratch first, second;
    scratch_init(&first);
    scratch_init(&second);
    first.steps_max = second.steps_max = 20000;
    first.bytes_max = second.bytes_max = 1 << 20;
    struct cel_value a, b;
    struct cel_error error;
    int code = cel_eval(program, values, &first, &a, &error);
    CHECK(code == cel_eval(program, values, &second, &b, &error));
    if (code == 0) {
        CHECK(a.kind != CEL_ABSENT && a.kind < CEL_DYN);
        struct buf text = {0};
        cel_value_print(&a, &text);
        size_t n = text.len;
        cel_value_print(&b, &text);
        CHECK(text.len == 2 * n && memcmp(text.p, text.p + n, n) == 0);
        buf_fini(&text);
    } else {
        CHECK(error.line >= 1 && error.column >= 1 && error.message[0]);
    }
    scratch_fini(&first);
    scratch_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 4096) return 0;
    if (size > 4 && memcmp(data, "TZif", 4) == 0) {
        int64_t offset;
        for (int64_t seconds = -70000000000; seconds <= 300000000000; seconds += 7777777777) zone_file_offset(slice_of(data, size), seconds, &offset);
        return 0;
    }
    struct cel_env env = {.variables = variables, .count = sizeof variables / sizeof *variables, .container = data[0] & 4 ? SLICE("p") : SLICE(""), .flags = data[0] & 3};
    struct slice source = slice_of(data + 1, size - 1);
    struct cel_error error;
    struct cel_program *program = cel_compile(&env, source, &error);
    if (program) {
        evaluate(program);
    } else {
        CHECK(error.line >= 1 && error.column >= 1 && error.message[0]);
        struct buf text = {0};
        cel_error_print(&error, source, &text);
        buf_fini(&text);
    }
    cel_program_free(program);
    return 0;
}
