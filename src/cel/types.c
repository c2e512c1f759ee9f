#include "cel/types.h"

enum { SIZE_MOST = 1000, DEPTH_MOST = 64, WORK_MOST = 4000000, RECURSION_MOST = 1000 };

static const struct type simple[] = {
    [CEL_NULL] = {.kind = CEL_NULL},         [CEL_BOOL] = {.kind = CEL_BOOL},
    [CEL_INT] = {.kind = CEL_INT},           [CEL_UINT] = {.kind = CEL_UINT},
    [CEL_DOUBLE] = {.kind = CEL_DOUBLE},     [CEL_STRING] = {.kind = CEL_STRING},
    [CEL_BYTES] = {.kind = CEL_BYTES},       [CEL_TIMESTAMP] = {.kind = CEL_TIMESTAMP},
    [CEL_DURATION] = {.kind = CEL_DURATION}, [CEL_TYPE] = {.kind = CEL_TYPE},
    [CEL_DYN] = {.kind = CEL_DYN},
};

static const struct {
    const char *name;
    enum cel_kind kind;
} names[] = {
    {"null", CEL_NULL},           {"null_type", CEL_NULL},    {"bool", CEL_BOOL},     {"int", CEL_INT},
    {"uint", CEL_UINT},           {"double", CEL_DOUBLE},     {"string", CEL_STRING}, {"bytes", CEL_BYTES},
    {"timestamp", CEL_TIMESTAMP}, {"duration", CEL_DURATION}, {"type", CEL_TYPE},     {"dyn", CEL_DYN},
    {"list", CEL_LIST},           {"map", CEL_MAP},
};

void types_init(struct types *ts)
{
    *ts = (struct types){0};
    scratch_init(&ts->scratch);
    ts->scratch.bytes_max = SIZE_MAX;
}

void types_fini(struct types *ts) { scratch_fini(&ts->scratch); }

const struct type *types_simple(enum cel_kind kind) { return &simple[kind]; }

static size_t arity(const struct type *t)
{
    return t->kind == CEL_LIST ? 1 : t->kind == CEL_MAP ? 2 : t->kind == CEL_TYPE && t->args[0] ? 1 : 0;
}

static const struct type *make(struct types *ts, struct type t)
{
    unsigned size = 1, depth = 1;
    for (size_t i = 0; i < arity(&t); i++) {
        size += t.args[i]->size ? t.args[i]->size : 1u;
        if (depth <= t.args[i]->depth) depth = t.args[i]->depth + 1u;
    }
    if (size > SIZE_MOST || depth > DEPTH_MOST) return types_simple(CEL_DYN);
    t.size = (uint16_t)size;
    t.depth = (uint16_t)depth;
    struct type *p = scratch_alloc(&ts->scratch, sizeof *p);
    *p = t;
    return p;
}

const struct type *types_list(struct types *ts, const struct type *element)
{
    return make(ts, (struct type){.kind = CEL_LIST, .args = {element}});
}

const struct type *types_map(struct types *ts, const struct type *key, const struct type *value)
{
    return make(ts, (struct type){.kind = CEL_MAP, .args = {key, value}});
}

const struct type *types_of(struct types *ts, const struct type *what)
{
    return make(ts, (struct type){.kind = CEL_TYPE, .args = {what}});
}

const struct type *types_variable(struct types *ts) { return make(ts, (struct type){.kind = CEL_ABSENT, .id = ++ts->variables}); }

/* ---- reading */

struct reader {
    struct types *types;
    const char *p, *end;
    const struct type **letters;
    int depth;
};

static void skip_blanks(struct reader *r)
{
    while (r->p < r->end && *r->p == ' ') r->p++;
}

static bool accept(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->p == r->end || *r->p != c) return false;
    r->p++;
    return true;
}

static struct slice read_word(struct reader *r)
{
    skip_blanks(r);
    const char *from = r->p;
    while (r->p < r->end && ((*r->p >= 'a' && *r->p <= 'z') || (*r->p >= 'A' && *r->p <= 'Z') || *r->p == '_')) r->p++;
    return slice_of(from, (size_t)(r->p - from));
}

static int read_types(struct reader *r, const struct type **out, int max);

static const struct type *read_type(struct reader *r)
{
    struct slice word = read_word(r);
    if (word.n == 1 && *word.p >= 'A' && *word.p <= 'Z') {
        if (!r->letters) return NULL;
        const struct type **letter = &r->letters[*word.p - 'A'];
        if (!*letter) *letter = types_variable(r->types);
        return *letter;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!slice_eq(word, slice_str(names[i].name))) continue;
        enum cel_kind kind = names[i].kind;
        const struct type *args[2] = {types_simple(CEL_DYN), types_simple(CEL_DYN)};
        int count = 0;
        if ((kind == CEL_LIST || kind == CEL_MAP || kind == CEL_TYPE) && accept(r, '(')) {
            count = ++r->depth < 32 ? read_types(r, args, 2) : -1;
            r->depth--;
            if (count != (kind == CEL_MAP ? 2 : 1) || !accept(r, ')')) return NULL;
        }
        if (kind == CEL_LIST) return types_list(r->types, args[0]);
        if (kind == CEL_MAP) return types_map(r->types, args[0], args[1]);
        return count ? types_of(r->types, args[0]) : types_simple(kind);
    }
    return NULL;
}

static int read_types(struct reader *r, const struct type **out, int max)
{
    int count = 0;
    do {
        if (count == max || !(out[count] = read_type(r))) return -1;
        count++;
    } while (accept(r, ','));
    return count;
}

int types_parse(struct types *ts, struct slice text, const struct type **out, int max, const struct type *letters[26])
{
    struct reader r = {.types = ts, .p = text.p, .end = text.p + text.n, .letters = letters};
    skip_blanks(&r);
    if (r.p == r.end) return 0;
    int count = read_types(&r, out, max);
    skip_blanks(&r);
    return r.p == r.end ? count : -1;
}

/* ---- agreement */

/* The variable a type is, for binding: the struct was made by this module and is its to change. */
static void bind(struct types *ts, const struct type *variable, const struct type *to)
{
    if (ts->trail_count == ts->trail_cap) {
        size_t cap = ts->trail_cap ? ts->trail_cap * 2 : 64;
        struct type **trail = scratch_alloc(&ts->scratch, cap * sizeof *trail);
        const struct type **was = scratch_alloc(&ts->scratch, cap * sizeof *was);
        for (size_t i = 0; i < ts->trail_count; i++) trail[i] = ts->trail[i], was[i] = ts->trail_was[i];
        ts->trail = trail, ts->trail_was = was, ts->trail_cap = cap;
    }
    struct type *v = (struct type *)(uintptr_t)variable;
    ts->trail[ts->trail_count] = v;
    ts->trail_was[ts->trail_count++] = v->bound;
    v->bound = to;
}

static void undo(struct types *ts, size_t count)
{
    while (ts->trail_count > count) {
        ts->trail_count--;
        ts->trail[ts->trail_count]->bound = ts->trail_was[ts->trail_count];
    }
}

/* Every step that may lead deeper counts; false when it is too much. */
static bool enter(struct types *ts)
{
    if (++ts->work > WORK_MOST || ts->depth >= RECURSION_MOST) ts->exhausted = true;
    ts->depth += !ts->exhausted;
    return !ts->exhausted;
}

static bool leave(struct types *ts, bool result)
{
    ts->depth--;
    return result;
}

bool types_same(const struct type *a, const struct type *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->kind == CEL_ABSENT || arity(a) != arity(b)) return false;
    for (size_t i = 0; i < arity(a); i++) {
        if (!types_same(a->args[i], b->args[i])) return false;
    }
    return true;
}

static bool occurs(struct types *ts, const struct type *variable, const struct type *in)
{
    if (in == variable || !enter(ts)) return true;
    bool found = in->kind == CEL_ABSENT && in->bound && occurs(ts, variable, in->bound);
    for (size_t i = 0; i < arity(in) && !found; i++) found = occurs(ts, variable, in->args[i]);
    return leave(ts, found);
}

/* a can hold whatever b can. */
static bool more_general(const struct type *a, const struct type *b)
{
    if (a->kind == CEL_DYN || a->kind == CEL_ABSENT) return true;
    if (b->kind == CEL_DYN || b->kind == CEL_ABSENT || a->kind != b->kind) return false;
    if (a->kind == CEL_TYPE) return true;
    for (size_t i = 0; i < arity(a); i++) {
        if (!more_general(a->args[i], b->args[i])) return false;
    }
    return true;
}

static bool agree(struct types *ts, const struct type *a, const struct type *b);

/* t may stand for the variable: it agrees with what that is bound to, the more general of both being the binding from then on, or
 * becomes the binding. *was_bound tells which. */
static bool stands_for(struct types *ts, const struct type *t, const struct type *variable, bool *was_bound)
{
    *was_bound = true;
    if (t == variable) return true;
    if (variable->bound) {
        if (types_same(t, variable->bound)) return true;
        if (!agree(ts, t, variable->bound)) return false;
        const struct type *general = more_general(t, variable->bound) ? t : variable->bound;
        if (!occurs(ts, variable, general)) bind(ts, variable, general);
        return true;
    }
    *was_bound = false;
    if (occurs(ts, variable, t)) return false;
    bind(ts, variable, t);
    return true;
}

static bool null_agrees(const struct type *t)
{
    return t->kind == CEL_NULL || t->kind == CEL_TIMESTAMP || t->kind == CEL_DURATION;
}

static bool agree_within(struct types *ts, const struct type *a, const struct type *b)
{
    bool was_bound;
    if (b->kind == CEL_ABSENT) {
        if (stands_for(ts, a, b, &was_bound)) return true;
        if (was_bound) return false;
    }
    if (a->kind == CEL_ABSENT) return stands_for(ts, b, a, &was_bound);
    if (a->kind == CEL_DYN || b->kind == CEL_DYN) return true;
    if (a->kind == CEL_NULL) return null_agrees(b);
    if (b->kind == CEL_NULL) return null_agrees(a);
    if (a->kind != b->kind) return false;
    if (a->kind == CEL_TYPE) return true;
    for (size_t i = 0; i < arity(a); i++) {
        if (!agree(ts, a->args[i], b->args[i])) return false;
    }
    return true;
}

static bool agree(struct types *ts, const struct type *a, const struct type *b)
{
    return enter(ts) && leave(ts, agree_within(ts, a, b));
}

bool types_assignable(struct types *ts, const struct type *const *from, const struct type *const *to, size_t count)
{
    size_t before = ts->trail_count;
    for (size_t i = 0; i < count; i++) {
        if (!agree(ts, from[i], to[i])) {
            undo(ts, before);
            return false;
        }
    }
    return true;
}

const struct type *types_join(struct types *ts, const struct type *a, const struct type *b)
{
    if (!types_assignable(ts, &a, &b, 1)) return types_simple(CEL_DYN);
    return more_general(a, b) ? a : b;
}

const struct type *types_resolve(struct types *ts, const struct type *t, bool unbound_to_dyn)
{
    if (t->kind == CEL_ABSENT && !t->bound) return unbound_to_dyn ? types_simple(CEL_DYN) : t;
    if (arity(t) == 0 && !t->bound) return t;
    if (!enter(ts)) return types_simple(CEL_DYN);
    if (t->bound) {
        t = types_resolve(ts, t->bound, unbound_to_dyn);
        ts->depth--;
        return t;
    }
    const struct type *args[2] = {NULL, NULL};
    bool changed = false;
    for (size_t i = 0; i < arity(t); i++) {
        args[i] = types_resolve(ts, t->args[i], unbound_to_dyn);
        changed = changed || args[i] != t->args[i];
    }
    ts->depth--;
    return changed ? make(ts, (struct type){.kind = t->kind, .args = {args[0], args[1]}}) : t;
}

/* ---- printing */

void types_print(const struct type *t, struct buf *out)
{
    if (t->kind == CEL_ABSENT) {
        if (t->bound) types_print(t->bound, out);
        else buf_printf(out, "_var%u", t->id);
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].kind != t->kind) continue;
        buf_add_str(out, names[i].name);
        break;
    }
    for (size_t i = 0; i < arity(t); i++) {
        buf_add_str(out, i ? ", " : "(");
        types_print(t->args[i], out);
    }
    if (arity(t)) buf_add_byte(out, ')');
}
