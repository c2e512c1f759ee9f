#include "cel/checker.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"

bool checker_unchecked(const struct checker *c) { return c->env->flags & CEL_UNCHECKED; }

bool checker_init(struct checker *c, struct source *source, const struct cel_env *env)
{
    *c = (struct checker){.source = source, .env = env};
    types_init(&c->types);
    c->variable_types = scratch_alloc(&c->types.scratch, (env->count + 1) * sizeof *c->variable_types);
    for (size_t i = 0; i < env->count; i++) {
        const struct cel_variable *v = &env->variables[i];
        if (types_parse(&c->types, v->type, &c->variable_types[i], 1, NULL) == 1) continue;
        return source_fail(source, 0, "variable '%.*s' has the unknown type '%.*s'", (int)v->name.n, v->name.p,
                           (int)v->type.n, v->type.p);
    }
    return true;
}

void checker_fini(struct checker *c)
{
    types_fini(&c->types);
    mem_free(c->locals);
}

const char *checker_type_text(struct checker *c, const struct type *t)
{
    struct buf text = {0};
    types_print(types_resolve(&c->types, t, false), &text);
    struct slice copy = scratch_copy(&c->types.scratch, buf_slice(&text));
    buf_fini(&text);
    return copy.p;
}

const struct type *checker_fail(struct checker *c, struct node *n, const char *fmt, ...)
{
    char message[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    if (!checker_unchecked(c)) {
        source_fail(c->source, n->at, "%s", message);
        return NULL;
    }
    n->kind = NODE_FAIL;
    n->name = scratch_copy(c->source->arena, slice_str(message));
    return types_simple(CEL_DYN);
}

/* ---- locals */

static uint32_t push_local(struct checker *c, struct slice name, const struct type *type)
{
    if (c->local_count == c->local_cap) {
        c->local_cap = c->local_cap ? c->local_cap * 2 : 8;
        c->locals = mem_resize(c->locals, c->local_cap * sizeof *c->locals);
    }
    c->locals[c->local_count] = (struct local){name, type};
    uint32_t slot = c->local_count++;
    if (c->local_count > c->slots) c->slots = c->local_count;
    return slot;
}

/* ---- nodes */

/* Checks a node whose value has to be of a type; false with the error set. */
static bool check_as(struct checker *c, struct node *n, const struct type *wanted)
{
    const struct type *t = checker_node(c, n);
    if (!t) return false;
    if (checker_unchecked(c) || types_assignable(&c->types, &t, &wanted, 1)) return true;
    return checker_fail(c, n, "expected type '%s' but found '%s'", checker_type_text(c, wanted), checker_type_text(c, t)) != NULL;
}

static const struct type *check_select(struct checker *c, struct node *n)
{
    const struct type *t = checker_name(c, n);
    if (t) return t;
    t = checker_node(c, n->args[0]);
    if (!t) return NULL;
    t = types_resolve(&c->types, t, false);
    const struct type *dyn = types_simple(CEL_DYN), *field = dyn;
    if (t->kind == CEL_MAP) field = t->args[1];
    else if (t->kind == CEL_ABSENT) types_assignable(&c->types, &dyn, &t, 1);
    else if (t->kind != CEL_DYN) return checker_fail(c, n, "type '%s' does not support field selection", checker_type_text(c, t));
    return n->kind == NODE_HAS ? types_simple(CEL_BOOL) : field;
}

static const struct type *check_logic(struct checker *c, struct node *n)
{
    for (uint32_t i = 0; i < n->count; i++) {
        if (!check_as(c, n->args[i], types_simple(CEL_BOOL))) return NULL;
    }
    return types_simple(CEL_BOOL);
}

static const struct type *check_cond(struct checker *c, struct node *n)
{
    const struct type *args[3];
    for (int i = 0; i < 3; i++) {
        if (!(args[i] = checker_node(c, n->args[i]))) return NULL;
    }
    const struct type *branch = types_variable(&c->types);
    const struct type *wanted[3] = {types_simple(CEL_BOOL), branch, branch};
    if (types_assignable(&c->types, args, wanted, 3)) return types_resolve(&c->types, branch, false);
    return checker_fail(c, n, "found no matching overload for '_?_:_' applied to '(%s, %s, %s)'",
                        checker_type_text(c, args[0]), checker_type_text(c, args[1]), checker_type_text(c, args[2]));
}

/* The joined type of args[first], args[first + step]...; a fresh variable if there are none. */
static const struct type *check_elements(struct checker *c, struct node *n, uint32_t first, uint32_t step)
{
    const struct type *all = NULL;
    for (uint32_t i = first; i < n->count; i += step) {
        const struct type *t = checker_node(c, n->args[i]);
        if (!t) return NULL;
        all = all ? types_join(&c->types, all, t) : t;
    }
    return all ? all : types_variable(&c->types);
}

static const struct type *check_map(struct checker *c, struct node *n)
{
    const struct type *key = check_elements(c, n, 0, 2);
    const struct type *value = key ? check_elements(c, n, 1, 2) : NULL;
    return value ? types_map(&c->types, key, value) : NULL;
}

/* ---- macros */

/* The types of the variables of a loop: of a list the elements, or index and element; of a map the keys, or key and value. */
static bool loop_variables(struct checker *c, struct node *n, const struct type **first, const struct type **second)
{
    const struct type *range = checker_node(c, n->args[0]), *dyn = types_simple(CEL_DYN);
    if (!range) return false;
    range = types_resolve(&c->types, range, false);
    *first = *second = dyn;
    if (range->kind == CEL_LIST) {
        *first = n->pairs ? types_simple(CEL_INT) : range->args[0];
        *second = range->args[0];
    } else if (range->kind == CEL_MAP) {
        *first = range->args[0];
        *second = range->args[1];
    } else if (range->kind == CEL_ABSENT) {
        types_assignable(&c->types, &dyn, &range, 1);
    } else if (range->kind != CEL_DYN) {
        return checker_fail(c, n->args[0], "type '%s' cannot be the range of a macro: that is a list or a map",
                            checker_type_text(c, range)) != NULL;
    }
    return true;
}

/* The type of a loop from that of what it makes of an element. */
static const struct type *loop_result(struct checker *c, struct node *n, const struct type *first, const struct type *made)
{
    switch (n->loop) {
    case LOOP_FILTER: return types_list(&c->types, first);
    case LOOP_MAP: return types_list(&c->types, made);
    case LOOP_MAP_VALUES: return types_map(&c->types, first, made);
    case LOOP_MAP_ENTRIES: {
        const struct type *map = types_map(&c->types, types_variable(&c->types), types_variable(&c->types));
        if (types_assignable(&c->types, &made, &map, 1)) return map;
        return checker_fail(c, n->args[n->count - 1], "expected a map of new entries but found '%s'", checker_type_text(c, made));
    }
    default: return types_simple(CEL_BOOL);
    }
}

static const struct type *check_loop(struct checker *c, struct node *n)
{
    const struct type *first, *second;
    if (!loop_variables(c, n, &first, &second)) return NULL;
    uint32_t outside = c->local_count;
    n->slot = push_local(c, n->name, first);
    if (n->pairs) push_local(c, n->name2, second);
    bool makes = n->loop == LOOP_MAP || n->loop == LOOP_MAP_VALUES || n->loop == LOOP_MAP_ENTRIES;
    bool conditional = !makes || n->count == 3;
    bool ok = !conditional || check_as(c, n->args[1], types_simple(CEL_BOOL));
    const struct type *made = ok && makes ? checker_node(c, n->args[n->count - 1]) : types_simple(CEL_BOOL);
    c->local_count = outside;
    return ok && made ? loop_result(c, n, first, made) : NULL;
}

static const struct type *check_bind(struct checker *c, struct node *n)
{
    const struct type *t = checker_node(c, n->args[0]);
    if (!t) return NULL;
    n->slot = push_local(c, n->name, t);
    t = checker_node(c, n->args[1]);
    c->local_count--;
    return t;
}

/* ---- all of it */

static const struct type *check_kind(struct checker *c, struct node *n)
{
    const struct type *t;
    switch (n->kind) {
    case NODE_CONST: return types_simple(n->value.kind);
    case NODE_NAME:
        t = checker_name(c, n);
        return t ? t : checker_fail(c, n, "undeclared reference to '%.*s'", (int)n->name.n, n->name.p);
    case NODE_SELECT:
    case NODE_HAS: return check_select(c, n);
    case NODE_CALL: return checker_call(c, n);
    case NODE_AND:
    case NODE_OR: return check_logic(c, n);
    case NODE_COND: return check_cond(c, n);
    case NODE_LIST: t = check_elements(c, n, 0, 1); return t ? types_list(&c->types, t) : NULL;
    case NODE_MAP: return check_map(c, n);
    case NODE_LOOP: return check_loop(c, n);
    case NODE_BIND: return check_bind(c, n);
    default: CHECK(!"a node that only the checker makes"); return NULL;
    }
}

const struct type *checker_node(struct checker *c, struct node *n)
{
    const struct type *t = check_kind(c, n);
    if (c->types.exhausted) {
        source_fail(c->source, n->at, "the types of this expression are too complex");
        return NULL;
    }
    return t && checker_unchecked(c) ? types_simple(CEL_DYN) : t;
}

const struct type *checker_check(struct checker *c, struct node *root)
{
    const struct type *t = checker_node(c, root);
    return t && !c->source->failed ? types_resolve(&c->types, t, true) : NULL;
}
