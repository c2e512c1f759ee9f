/* How the commands of `sherd snapshot` show what they found: text, tables, JSON, lines of JSON. */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cel/utf8.h"
#include "cli/snapshot_read.h"
#include "cli/subcommand.h"

/* ---- encodings of bytes */

static void add_base64(struct buf *out, const uint8_t *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], left > 1 ? digits[v >> 6 & 63] : '=', left > 2 ? digits[v & 63] : '='};
        buf_add(out, four, 4);
    }
}

static void add_hex(struct buf *out, const uint8_t *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        buf_add_byte(out, digits[p[i] >> 4]);
        buf_add_byte(out, digits[p[i] & 15]);
    }
}

static json_t *encoded(void (*add)(struct buf *, const uint8_t *, size_t), const void *data, size_t size)
{
    struct buf b = {0};
    add(&b, data, size);
    json_t *j = json_stringn(b.p ? b.p : "", b.len);
    buf_fini(&b);
    return j;
}

json_t *snapread_bytes(const void *data, size_t size)
{
    struct slice s = slice_of(size ? data : "", size);
    return utf8_valid(s) ? json_stringn(s.p, s.n) : json_pack("{s:o}", "base64", encoded(add_base64, data, size));
}

json_t *snapread_value(const struct snapread *r, const void *data, size_t size)
{
    switch (r->args->encoding) {
    case SNAPREAD_HEX: return encoded(add_hex, data, size);
    case SNAPREAD_UTF8:
    case SNAPREAD_RAW: return snapread_bytes(data, size);
    default: return encoded(add_base64, data, size);
    }
}

/* UTF-8 that a terminal can show; what is none stands as \xHH. */
static void add_printable(struct buf *out, struct slice s)
{
    bool valid = utf8_valid(s);
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = (uint8_t)s.p[i];
        if ((c >= 0x20 && c < 0x7f && c != '\\') || (valid && c >= 0x80))
            buf_add_byte(out, (char)c);
        else
            buf_printf(out, "\\x%02x", c);
    }
}

void snapread_value_text(const struct snapread *r, struct buf *out, const void *data, size_t size)
{
    switch (r->args->encoding) {
    case SNAPREAD_BASE64: add_base64(out, data, size); break;
    case SNAPREAD_HEX: add_hex(out, data, size); break;
    case SNAPREAD_UTF8: add_printable(out, slice_of(data, size)); break;
    default: buf_add(out, data, size); break;
    }
}

json_t *snapread_key(const struct sherd_key *key)
{
    if (key->kind != SHERD_KEY_INT) return snapread_bytes(key->data, key->size);
    if (key->number <= INT64_MAX) return json_integer((json_int_t)key->number);
    char text[24]; /* JSON numbers go further than the library's */
    snprintf(text, sizeof text, "%" PRIu64, key->number);
    return json_string(text);
}

void snapread_key_text(struct buf *out, const struct sherd_key *key)
{
    if (key->kind == SHERD_KEY_INT)
        buf_printf(out, "%" PRIu64, key->number);
    else
        add_printable(out, slice_of(key->data, key->size));
}

/* ---- tables */

static void cell_text(struct buf *out, const json_t *v)
{
    if (json_is_string(v)) {
        add_printable(out, slice_of(json_string_value(v), json_string_length(v)));
        return;
    }
    if (json_is_null(v) || !v) {
        buf_add_byte(out, '-');
        return;
    }
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    buf_add_str(out, text ? text : "?");
    free(text);
}

void snapread_value_cell(const struct snapread *r, struct buf *out, const void *data, size_t size)
{
    json_t *v = snapread_value(r, data, size);
    cell_text(out, v);
    json_decref(v);
}

static size_t width_of(const json_t *v)
{
    struct buf b = {0};
    cell_text(&b, v);
    size_t n = 0; /* characters, not bytes */
    for (size_t i = 0; i < b.len; i++) n += ((uint8_t)b.p[i] & 0xc0) != 0x80;
    buf_fini(&b);
    return n;
}

static void print_cell(FILE *out, const json_t *v, size_t width, bool last)
{
    struct buf b = {0};
    cell_text(&b, v);
    fwrite(b.p, 1, b.len, out);
    fprintf(out, "%*s", last ? 0 : (int)(width - width_of(v)) + 2, "");
    buf_fini(&b);
}

enum { COLUMNS_MAX = 16 };

/* Rows are objects with the same fields; the first one's are the columns. */
static void print_rows(FILE *out, json_t *rows)
{
    const char *names[COLUMNS_MAX];
    size_t widths[COLUMNS_MAX], n = 0, i;
    const char *name;
    json_t *field, *row;
    json_object_foreach(json_array_get(rows, 0), name, field) {
        if (n < COLUMNS_MAX) names[n++] = name;
    }
    for (size_t c = 0; c < n; c++) {
        widths[c] = strlen(names[c]);
        json_array_foreach(rows, i, row) {
            size_t w = width_of(json_object_get(row, names[c]));
            if (w > widths[c]) widths[c] = w;
        }
    }
    for (size_t c = 0; c < n; c++) fprintf(out, "%-*s%s", c + 1 < n ? (int)widths[c] : 0, names[c], c + 1 < n ? "  " : "\n");
    json_array_foreach(rows, i, row) {
        for (size_t c = 0; c < n; c++) print_cell(out, json_object_get(row, names[c]), widths[c], c + 1 == n);
        fputc('\n', out);
    }
}

static void print_fields(FILE *out, json_t *doc)
{
    const char *name;
    json_t *v;
    size_t width = 0;
    json_object_foreach(doc, name, v) {
        if (strlen(name) > width) width = strlen(name);
    }
    json_object_foreach(doc, name, v) {
        if (strcmp(name, "op") == 0) continue;
        fprintf(out, "%-*s  ", (int)width, name);
        print_cell(out, v, 0, true);
        fputc('\n', out);
    }
}

static json_t *only_array(json_t *doc)
{
    const char *name;
    json_t *v, *found = NULL;
    json_object_foreach(doc, name, v) {
        if (json_is_array(v)) found = v;
    }
    return found;
}

static void print_table(FILE *out, json_t *doc)
{
    json_t *rows = only_array(doc);
    if (rows && json_is_object(json_array_get(rows, 0)))
        print_rows(out, rows);
    else
        print_fields(out, doc);
}

static void print_text(FILE *out, const json_t *doc)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)doc, name, v) {
        if (strcmp(name, "op") == 0) continue;
        fprintf(out, "%s: ", name);
        print_cell(out, v, 0, true);
        fputc('\n', out);
    }
}

/* ---- */

int snapread_show(struct snapread *r, json_t *doc, void (*text)(FILE *out, const json_t *doc))
{
    size_t flags = JSON_ENSURE_ASCII | JSON_REAL_PRECISION(12);
    switch (r->args->output) {
    case SNAPREAD_JSON: json_dumpf(doc, r->out, flags | JSON_INDENT(2)), fputc('\n', r->out); break;
    case SNAPREAD_JSONL: json_dumpf(doc, r->out, flags), fputc('\n', r->out); break;
    case SNAPREAD_TABLE: print_table(r->out, doc); break;
    default: (text ? text : print_text)(r->out, doc); break;
    }
    json_decref(doc);
    return fflush(r->out) == 0 ? EXIT_WELL : EXIT_TROUBLE;
}

int snapread_fail(const struct snapread *r, const char *op, const char *key, const char *text)
{
    if (r->args->output != SNAPREAD_JSON && r->args->output != SNAPREAD_JSONL) {
        fprintf(stderr, "sherd: %s%s%s: %s\n", op, key ? " " : "", key ? key : "", text);
        return EXIT_TROUBLE;
    }
    json_t *doc = json_pack("{s:s, s:o}", "op", op, "error", snapread_bytes(text, strlen(text)));
    if (key) json_object_set_new(doc, "key", snapread_bytes(key, strlen(key)));
    json_dumpf(doc, stderr, JSON_ENSURE_ASCII);
    fputc('\n', stderr);
    json_decref(doc);
    return EXIT_TROUBLE;
}
