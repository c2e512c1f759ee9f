/* Extension: base64, as RFC 4648 has it; padding may be missing when it is read. */
#include "cel/library.h"
#include "cel/value.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static bool encode(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    size_t n = a->text.n, written = 0;
    char *text = eval_alloc(e, (n + 2) / 3 * 4);
    if (!text) return false;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t group = 0;
        for (size_t j = 0; j < 3; j++) group = group << 8 | (i + j < n ? (unsigned char)a->text.p[i + j] : 0);
        for (size_t j = 0; j < 4; j++) text[written++] = i + j <= n ? digits[group >> (18 - 6 * j) & 63] : '=';
    }
    *out = value_string(slice_of(text, written));
    return true;
}

static bool decode(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    struct slice text = a->text;
    for (int padding = 0; padding < 2 && text.n && text.n % 4 == (padding ? 3 : 0) && text.p[text.n - 1] == '=';
         padding++)
        text.n--;
    char *bytes = eval_alloc(e, text.n / 4 * 3 + 3);
    if (!bytes) return false;
    size_t written = 0;
    uint32_t group = 0;
    for (size_t i = 0; i < text.n; i++) {
        const char *digit = text.p[i] ? strchr(digits, text.p[i]) : NULL;
        if (!digit) return eval_fail(e, "not base64");
        group = group << 6 | (uint32_t)(digit - digits);
        /* Every digit but the first of four completes a byte. */
        if (i % 4) bytes[written++] = (char)(group >> (6 - 2 * (i % 4)));
    }
    *out = value_bytes(slice_of(bytes, written));
    return text.n % 4 != 1 || eval_fail(e, "not base64");
}

static const struct overload rows[] = {
    {"base64.encode", "bytes", "string", encode, OVERLOAD_EXTENSION},
    {"base64.decode", "string", "bytes", decode, OVERLOAD_EXTENSION},
};

const struct library_table ext_encode_table = {rows, sizeof rows / sizeof *rows};
