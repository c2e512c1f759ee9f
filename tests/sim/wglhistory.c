#include "wglhistory.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "base/num.h"

enum { SHORT_MAX = 24 };

/* A value is known by its length and a hash that can be carried on when bytes are appended, so that ten thousand appends do not make ten thousand long strings; short ones keep their bytes, for sums and for
 * messages. The hash is a polynomial modulo the prime 2^61 - 1. */

struct value {
    uint64_t len, hash;
    char text[SHORT_MAX]; /* if len <= SHORT_MAX; else zeroes */
};

static uint64_t hash_byte(uint64_t hash, char byte)
{
    const unsigned __int128 base = 0x123456789abcdefull, prime = (1ull << 61) - 1;
    return (uint64_t)((hash * base + (unsigned char)byte + 1) % prime);
}

static struct value value_append(struct value v, struct slice more)
{
    for (size_t i = 0; i < more.n; i++) v.hash = hash_byte(v.hash, more.p[i]);
    if (more.n && v.len + more.n <= SHORT_MAX)
        memcpy(v.text + v.len, more.p, more.n);
    else if (more.n)
        memset(v.text, 0, sizeof v.text);
    v.len += more.n;
    return v;
}

static struct value value_of(struct slice s) { return value_append((struct value){0}, s); }

static bool value_int(const struct value *v, int64_t *number) { return v->len <= SHORT_MAX && num_parse_i64(slice_of(v->text, v->len), number); }

/* ---- the history */

struct wgl *wgl_new(void)
{
    struct wgl *w = mem_zalloc(sizeof *w);
    struct value none = {.len = UINT64_MAX};
    intern_init(&w->values, sizeof(struct value));
    CHECK(intern_put(&w->values, &none) == WGLHISTORY_ABSENT);
    w->key_mask = 63;
    w->key_slots = mem_zalloc(64 * sizeof *w->key_slots);
    return w;
}

void wgl_free(struct wgl *w)
{
    for (size_t i = 0; i < w->n_ops; i++) {
        for (uint32_t j = 0; j < w->ops[i].n_parts; j++) mem_free((void *)w->ops[i].parts[j].piece.p);
        mem_free(w->ops[i].parts);
    }
    for (uint32_t i = 0; i < w->n_keys; i++) mem_free((void *)w->keys[i].name.p);
    mem_free(w->ops);
    mem_free(w->keys);
    mem_free(w->key_slots);
    intern_fini(&w->values);
    mem_free(w);
}

static uint32_t *key_slot(struct wgl *w, struct slice name)
{
    uint32_t at = (uint32_t)keyhash(name, 0) & w->key_mask;
    while (w->key_slots[at] && !slice_eq(w->keys[w->key_slots[at] - 1].name, name)) at = (at + 1) & w->key_mask;
    return &w->key_slots[at];
}

static uint32_t key_number(struct wgl *w, struct slice name)
{
    uint32_t *slot = key_slot(w, name);
    if (*slot) return *slot - 1;
    if (w->n_keys == w->cap_keys) {
        w->cap_keys = w->cap_keys ? w->cap_keys * 2 : 16;
        w->keys = mem_resize(w->keys, w->cap_keys * sizeof *w->keys);
    }
    w->keys[w->n_keys] = (struct key){.name = slice_of(mem_dup(name.p, name.n), name.n), .group = w->n_keys};
    *slot = ++w->n_keys;
    if (w->n_keys * 2 > w->key_mask) {
        mem_free(w->key_slots);
        w->key_mask = w->key_mask * 2 + 1;
        w->key_slots = mem_zalloc(((size_t)w->key_mask + 1) * sizeof *w->key_slots);
        for (uint32_t i = 0; i < w->n_keys; i++) *key_slot(w, w->keys[i].name) = i + 1;
    }
    return w->n_keys - 1;
}

uint32_t wglhistory_group(struct wgl *w, uint32_t key)
{
    while (w->keys[key].group != key) key = w->keys[key].group = w->keys[w->keys[key].group].group;
    return key;
}

static uint32_t value_number(struct wgl *w, struct slice s)
{
    struct value v = value_of(s);
    return intern_put(&w->values, &v);
}

size_t wgl_call(struct wgl *w, uint32_t client, int64_t time, const struct wgl_part *parts, uint32_t n)
{
    CHECK(n > 0 && time < WGLHISTORY_NEVER);
    if (w->n_ops == w->cap_ops) {
        w->cap_ops = w->cap_ops ? w->cap_ops * 2 : 64;
        w->ops = mem_resize(w->ops, w->cap_ops * sizeof *w->ops);
    }
    struct op *op = &w->ops[w->n_ops];
    *op = (struct op){.client = client, .n_parts = n, .call = time, .returned = WGLHISTORY_NEVER, .parts = mem_zalloc(n * sizeof *op->parts)};
    for (uint32_t i = 0; i < n; i++) {
        const struct wgl_part *p = &parts[i];
        op->parts[i] = (struct part){.kind = p->kind, .key = key_number(w, p->key), .by = p->by, .arg = value_number(w, p->arg),
                                     .expect = p->nil_expect ? WGLHISTORY_ABSENT : value_number(w, p->expect)};
        if (p->kind == WGL_APPEND) op->parts[i].piece = slice_of(mem_dup(p->arg.p, p->arg.n), p->arg.n);
        w->keys[wglhistory_group(w, op->parts[i].key)].group = wglhistory_group(w, op->parts[0].key);
    }
    return w->n_ops++;
}

static void set_returned(struct wgl *w, size_t op, int64_t time)
{
    CHECK(op < w->n_ops && w->ops[op].returned == WGLHISTORY_NEVER && w->ops[op].call <= time && time < WGLHISTORY_NEVER);
    w->ops[op].returned = time;
}

void wgl_return(struct wgl *w, size_t op, int64_t time, const struct wgl_answer *answers)
{
    set_returned(w, op, time);
    w->ops[op].answered = answers != NULL;
    for (uint32_t i = 0; answers && i < w->ops[op].n_parts; i++) {
        struct part *p = &w->ops[op].parts[i];
        p->nil = answers[i].nil;
        p->unseen = answers[i].unseen;
        p->number = answers[i].number;
        p->value = p->nil || p->unseen ? WGLHISTORY_ABSENT : value_number(w, answers[i].value);
    }
}

void wgl_return_count(struct wgl *w, size_t op, int64_t time, uint32_t found)
{
    set_returned(w, op, time);
    w->ops[op].counted = true;
    w->ops[op].found = found;
}

void wgl_refused(struct wgl *w, size_t op)
{
    CHECK(op < w->n_ops && w->ops[op].returned == WGLHISTORY_NEVER);
    w->ops[op].refused = true;
}

size_t wgl_ops(const struct wgl *w) { return w->n_ops; }

/* ---- what a part does to a value */

static const struct value *value_at(const struct wgl *w, uint32_t v) { return intern_get(&w->values, v); }

static bool incr(struct wgl *w, const struct part *p, bool answered, uint32_t v, uint32_t *after)
{
    int64_t old = 0, sum;
    char digits[NUM_I64_MAX_CHARS];
    bool refused = (v != WGLHISTORY_ABSENT && !value_int(value_at(w, v), &old)) || __builtin_add_overflow(old, p->by, &sum);
    *after = refused ? v : value_number(w, slice_of(digits, num_format_i64(digits, sum)));
    return !answered || (refused ? p->nil : !p->nil && p->number == sum);
}

/* The value after the part, and whether the answer (if one was seen) is right. */
bool wglhistory_apply(struct wgl *w, const struct part *p, bool answered, uint32_t v, uint32_t *after)
{
    struct value longer;
    *after = v;
    switch (p->kind) {
    case WGL_GET: return !answered || p->unseen || p->value == v;
    case WGL_SET: *after = p->arg; return true;
    case WGL_CAS:
        if (v == p->expect) *after = p->arg;
        return !answered || p->number == (v == p->expect);
    case WGL_DEL: *after = WGLHISTORY_ABSENT; return !answered || p->number == (v != WGLHISTORY_ABSENT);
    case WGL_INCR: return incr(w, p, answered, v, after);
    case WGL_APPEND:
        longer = value_append(v == WGLHISTORY_ABSENT ? (struct value){0} : *value_at(w, v), p->piece);
        *after = intern_put(&w->values, &longer);
        return !answered || p->number == (int64_t)longer.len;
    case WGL_EXPIRE:
        if (v == p->arg) *after = WGLHISTORY_ABSENT;
        return true;
    }
    return false;
}

/* By its answer it changed nothing, whatever the value was. */
static bool part_pure(const struct part *p, bool answered)
{
    if (p->kind == WGL_GET) return true;
    if (!answered) return false;
    return (p->kind == WGL_CAS && p->number == 0) || (p->kind == WGL_DEL && p->number == 0) || (p->kind == WGL_INCR && p->nil);
}

bool wglhistory_pure(const struct op *op)
{
    for (uint32_t i = 0; i < op->n_parts; i++)
        if (!part_pure(&op->parts[i], op->answered)) return false;
    return true;
}

/* ---- words */

void wglhistory_text_value(const struct wgl *w, uint32_t number, struct buf *out)
{
    const struct value *v = value_at(w, number);
    if (number == WGLHISTORY_ABSENT)
        buf_add_str(out, "nil");
    else if (v->len <= SHORT_MAX)
        buf_printf(out, "\"%.*s\"", (int)v->len, v->text);
    else
        buf_printf(out, "%" PRIu64 " bytes", v->len);
}

static void text_answer(const struct wgl *w, const struct part *p, struct buf *out)
{
    if (p->kind == WGL_SET || p->kind == WGL_EXPIRE) return;
    buf_add_str(out, " -> ");
    if (p->unseen)
        buf_add_byte(out, '?');
    else if (p->kind == WGL_GET)
        wglhistory_text_value(w, p->value, out);
    else if (p->nil)
        buf_add_str(out, "refused");
    else
        buf_printf(out, "%" PRId64, p->number);
}

static void text_part(const struct wgl *w, const struct part *p, bool answered, struct buf *out)
{
    static const char *const names[] = {"GET", "SET", "CAS", "DEL", "INCR", "APPEND", "EXPIRE"};
    buf_printf(out, "%s \"%.*s\"", names[p->kind], (int)w->keys[p->key].name.n, w->keys[p->key].name.p);
    if (p->kind == WGL_CAS) {
        buf_add_byte(out, ' ');
        wglhistory_text_value(w, p->expect, out);
    }
    if (p->kind == WGL_INCR) buf_printf(out, " %" PRId64, p->by);
    if (p->kind == WGL_SET || p->kind == WGL_CAS || p->kind == WGL_APPEND || p->kind == WGL_EXPIRE) {
        buf_add_byte(out, ' ');
        wglhistory_text_value(w, p->arg, out);
    }
    if (answered) text_answer(w, p, out);
}

void wgl_text(const struct wgl *w, size_t number, struct buf *out)
{
    const struct op *op = &w->ops[number];
    buf_printf(out, "client %u: ", op->client);
    for (uint32_t i = 0; i < op->n_parts; i++) {
        if (i) buf_add_str(out, "; ");
        text_part(w, &op->parts[i], op->answered, out);
    }
    if (op->counted) buf_printf(out, " -> %u of them", op->found);
    buf_printf(out, ", from %" PRId64, op->call);
    if (op->returned == WGLHISTORY_NEVER)
        buf_add_str(out, ", outcome unknown");
    else
        buf_printf(out, " to %" PRId64, op->returned);
}
