#include "cli/keyjson.h"

#include <inttypes.h>
#include <math.h>

#include "base/num.h"
#include "store/op.h"
#include "store/parts.h"

/* ---- strings */

/* The bytes of the UTF-8 sequence at p, or 0: overlong forms, surrogates and what lies beyond U+10FFFF are none. */
static size_t sequence(const uint8_t *p, size_t left)
{
    if (p[0] < 0x80) return 1;
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || left < n) return 0;
    for (size_t i = 1; i < n; i++)
        if (p[i] >> 6 != 2) return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
    return n;
}

static bool is_utf8(struct slice s)
{
    for (size_t at = 0; at < s.n;) {
        size_t n = sequence((const uint8_t *)s.p + at, s.n - at);
        if (n == 0) return false;
        at += n;
    }
    return true;
}

static void add_base64(struct buf *out, struct slice s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = (const uint8_t *)s.p;
    buf_add_str(out, "{\"base64\":\"");
    for (size_t i = 0; i < s.n; i += 3) {
        size_t n = s.n - i < 3 ? s.n - i : 3;
        uint32_t bits = (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (n > 2 ? p[i + 2] : 0);
        for (size_t k = 0; k < 4; k++) buf_add_byte(out, k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=');
    }
    buf_add_str(out, "\"}");
}

static void add_escaped(struct buf *out, uint8_t c)
{
    static const char hex[] = "0123456789abcdef";
    switch (c) {
    case '"': buf_add_str(out, "\\\""); return;
    case '\\': buf_add_str(out, "\\\\"); return;
    case '\n': buf_add_str(out, "\\n"); return;
    case '\r': buf_add_str(out, "\\r"); return;
    case '\t': buf_add_str(out, "\\t"); return;
    default: buf_add(out, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
    }
}

void keyjson_string(struct buf *out, struct slice bytes)
{
    if (!is_utf8(bytes)) {
        add_base64(out, bytes);
        return;
    }
    buf_add_byte(out, '"');
    size_t plain = 0;
    for (size_t i = 0; i < bytes.n; i++) {
        uint8_t c = (uint8_t)bytes.p[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
        buf_add(out, bytes.p + plain, i - plain);
        add_escaped(out, c);
        plain = i + 1;
    }
    buf_add(out, bytes.p + plain, bytes.n - plain);
    buf_add_byte(out, '"');
}

/* ---- values */

static void add_score(struct buf *out, double score)
{
    if (isinf(score)) {
        buf_add_str(out, score > 0 ? "\"inf\"" : "\"-inf\"");
        return;
    }
    char text[NUM_F64_MAX_CHARS];
    buf_add(out, text, num_format_f64(text, score));
}

static void add_strings(struct buf *out, const struct slice *items, size_t n)
{
    buf_add_byte(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i) buf_add_byte(out, ',');
        keyjson_string(out, items[i]);
    }
    buf_add_byte(out, ']');
}

static void add_pairs(struct buf *out, const struct slice *items, size_t n)
{
    buf_add_byte(out, '[');
    for (size_t i = 0; i + 1 < n; i += 2) {
        if (i) buf_add_byte(out, ',');
        add_strings(out, items + i, 2);
    }
    buf_add_byte(out, ']');
}

static void add_scored(struct buf *out, const struct slice *items, const double *scores, size_t n)
{
    buf_add_byte(out, '[');
    for (size_t i = 0; i < n; i++) {
        buf_add_str(out, i ? ",[" : "[");
        keyjson_string(out, items[i]);
        buf_add_byte(out, ',');
        add_score(out, scores[i]);
        buf_add_byte(out, ']');
    }
    buf_add_byte(out, ']');
}

static void add_value(struct buf *out, const struct parts *p)
{
    switch (p->type) {
    case TYPE_STRING: keyjson_string(out, p->items[0]); return;
    case TYPE_HASH: add_pairs(out, p->items, p->n); return;
    case TYPE_ZSET: add_scored(out, p->items, p->scores, p->n); return;
    default: add_strings(out, p->items, p->n);
    }
}

bool keyjson_key(struct buf *out, uint64_t db, struct slice key, int64_t expiry_ms, struct slice image)
{
    static const char *const types[TYPE_COUNT] = {"string", "list", "set", "zset", "hash", "stream"};
    struct parts p;
    bool valid = parts_read(&p, image);
    if (valid) {
        buf_printf(out, "{\"db\":%" PRIu64 ",\"key\":", db);
        keyjson_string(out, key);
        buf_printf(out, ",\"type\":\"%s\",\"expires_ms\":", types[p.type]);
        if (expiry_ms) buf_printf(out, "%" PRId64, expiry_ms);
        else buf_add_str(out, "null");
        buf_add_str(out, ",\"value\":");
        add_value(out, &p);
        buf_add_str(out, "}\n");
    }
    parts_fini(&p);
    return valid;
}

/* ---- ops */

enum { KEY = 1, EXPIRY = 2, INDEX = 4, COUNT = 8, VALUE = 16, ITEMS = 32, PAIRS = 64, SCORED = 128, IMAGE = 256 };

static const struct {
    const char *name;
    unsigned fields;
} shapes[OP_KINDS] = {
    [OP_SET] = {"set", KEY | EXPIRY | VALUE},
    [OP_SET_VALUE] = {"set_value", KEY | VALUE},
    [OP_APPEND] = {"append", KEY | VALUE},
    [OP_WRITE_RANGE] = {"write_range", KEY | INDEX | VALUE},
    [OP_DEL] = {"del", KEY},
    [OP_EXPIRE] = {"expire", KEY | EXPIRY},
    [OP_PUSH_HEAD] = {"push_head", KEY | ITEMS},
    [OP_PUSH_TAIL] = {"push_tail", KEY | ITEMS},
    [OP_POP_HEAD] = {"pop_head", KEY | COUNT},
    [OP_POP_TAIL] = {"pop_tail", KEY | COUNT},
    [OP_LIST_SET] = {"list_set", KEY | INDEX | VALUE},
    [OP_LIST_INSERT] = {"list_insert", KEY | INDEX | VALUE},
    [OP_LIST_REMOVE] = {"list_remove", KEY | INDEX | COUNT},
    [OP_HASH_SET] = {"hash_set", KEY | PAIRS},
    [OP_HASH_DEL] = {"hash_del", KEY | ITEMS},
    [OP_SET_ADD] = {"set_add", KEY | ITEMS},
    [OP_SET_REM] = {"set_rem", KEY | ITEMS},
    [OP_ZSET_ADD] = {"zset_add", KEY | SCORED},
    [OP_ZSET_REM] = {"zset_rem", KEY | ITEMS},
    [OP_RESTORE] = {"restore", KEY | EXPIRY | IMAGE},
    [OP_FLUSH] = {"flush", 0},
    [OP_SWAP] = {"swap", INDEX},
};

static void add_image(struct buf *out, struct slice image)
{
    struct parts p;
    if (parts_read(&p, image)) add_value(out, &p);
    else buf_add_str(out, "null");
    parts_fini(&p);
}

void keyjson_op(struct buf *out, uint64_t epoch, const struct op *op)
{
    unsigned fields = shapes[op->kind].fields;
    buf_printf(out, "{\"epoch\":%" PRIu64 ",\"op\":\"%s\",\"db\":%u", epoch, shapes[op->kind].name, op->db);
    if (fields & KEY) {
        buf_add_str(out, ",\"key\":");
        keyjson_string(out, op->key);
    }
    if (fields & EXPIRY && op->expiry_ms) buf_printf(out, ",\"expires_ms\":%" PRId64, op->expiry_ms);
    else if (fields & EXPIRY) buf_add_str(out, ",\"expires_ms\":null");
    if (fields & INDEX) buf_printf(out, ",\"index\":%" PRId64, op->index);
    if (fields & COUNT) buf_printf(out, ",\"count\":%" PRId64, op->count);
    if (fields & (VALUE | IMAGE)) buf_add_str(out, ",\"value\":");
    if (fields & VALUE) keyjson_string(out, op->value);
    if (fields & IMAGE) add_image(out, op->value);
    if (fields & (ITEMS | PAIRS | SCORED)) buf_add_str(out, ",\"items\":");
    if (fields & ITEMS) add_strings(out, op->items, op->n_items);
    if (fields & PAIRS) add_pairs(out, op->items, op->n_items);
    if (fields & SCORED) add_scored(out, op->items, op->scores, op->n_items);
    buf_add_str(out, "}\n");
}
