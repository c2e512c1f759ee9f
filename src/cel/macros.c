#include "cel/macros.h"

#include "cel/lexer.h"

/* The name that an argument is; empty, with the error set, if it is none. */
static struct slice variable_of(struct source *source, const struct node *arg)
{
    if (arg->kind == NODE_NAME && !arg->absolute) return arg->name;
    source_fail(source, arg->at, "this argument names a variable: it has to be a simple name");
    return slice_of("", 0);
}

static struct node *expand_has(struct source *source, const struct macro_call *call)
{
    struct node *field = call->args[0];
    if (field->kind != NODE_SELECT) {
        source_fail(source, field->at, "has() asks for a field: has(a.b)");
        return NULL;
    }
    struct node *n = nodes_new(source, NODE_HAS, field->at, field->args, 1);
    n->name = field->name;
    return n;
}

static struct node *expand_loop(struct source *source, const struct macro_call *call, enum loop_kind loop, size_t variables)
{
    struct slice names[2] = {{"", 0}, {"", 0}};
    for (size_t i = 0; i < variables; i++) {
        names[i] = variable_of(source, call->args[i]);
        if (source->failed) return NULL;
    }
    if (variables == 2 && slice_eq(names[0], names[1])) {
        source_fail(source, call->args[1]->at, "both variables have the same name");
        return NULL;
    }
    struct node *args[3] = {call->target};
    size_t count = 1;
    for (size_t i = variables; i < call->count; i++) args[count++] = call->args[i];
    struct node *n = nodes_new(source, NODE_LOOP, call->at, args, count);
    if (!n) return NULL;
    n->loop = loop;
    n->name = names[0];
    n->name2 = names[1];
    n->pairs = variables == 2;
    return n;
}

static struct node *expand_bind(struct source *source, const struct macro_call *call)
{
    struct slice name = variable_of(source, call->args[0]);
    if (source->failed) return NULL;
    struct node *n = nodes_new(source, NODE_BIND, call->at, call->args + 1, 2);
    if (n) n->name = name;
    return n;
}

/* math.greatest(a, b, c) is math.@max([a, b, c]): functions have a fixed number of arguments. */
static struct node *expand_extreme(struct source *source, const struct macro_call *call, const char *function)
{
    if (call->count == 0) {
        source_fail(source, call->at, "math.%.*s needs an argument", (int)call->name.n, call->name.p);
        return NULL;
    }
    struct node *list = call->args[0];
    if (call->count > 1 || list->kind != NODE_LIST) {
        list = call->count > 1 ? nodes_new(source, NODE_LIST, call->at, call->args, call->count) : list;
    } else if (list->count == 0) {
        source_fail(source, call->at, "math.%.*s of an empty list", (int)call->name.n, call->name.p);
        return NULL;
    }
    return list ? nodes_call(source, call->at, function, &list, 1) : NULL;
}

static const struct loop_macro {
    const char *name;
    enum loop_kind loop;
    unsigned variables, min_args, max_args; /* arguments include the variables */
    bool extension;
} loops[] = {
    {"all", LOOP_ALL, 1, 2, 2, false},
    {"exists", LOOP_EXISTS, 1, 2, 2, false},
    {"exists_one", LOOP_EXISTS_ONE, 1, 2, 2, false},
    {"existsOne", LOOP_EXISTS_ONE, 1, 2, 2, true},
    {"map", LOOP_MAP, 1, 2, 3, false},
    {"filter", LOOP_FILTER, 1, 2, 2, false},
    {"all", LOOP_ALL, 2, 3, 3, true},
    {"exists", LOOP_EXISTS, 2, 3, 3, true},
    {"existsOne", LOOP_EXISTS_ONE, 2, 3, 3, true},
    {"exists_one", LOOP_EXISTS_ONE, 2, 3, 3, true},
    {"transformList", LOOP_MAP, 2, 3, 4, true},
    {"transformMap", LOOP_MAP_VALUES, 2, 3, 4, true},
    {"transformMapEntry", LOOP_MAP_ENTRIES, 2, 3, 4, true},
};

static const struct loop_macro *loop_of(const struct macro_call *call, bool extensions)
{
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        const struct loop_macro *m = &loops[i];
        if (slice_eq(call->name, slice_str(m->name)) && call->count >= m->min_args && call->count <= m->max_args &&
            (extensions || !m->extension))
            return m;
    }
    return NULL;
}

static bool target_is(const struct macro_call *call, const char *name)
{
    return call->target->kind == NODE_NAME && !call->target->absolute && slice_eq(call->target->name, slice_str(name));
}

bool macros_expand(struct source *source, const struct macro_call *call, bool extensions, struct node **out)
{
    if (!call->target) {
        if (!slice_eq(call->name, SLICE("has")) || call->count != 1) return false;
        *out = expand_has(source, call);
        return true;
    }
    if (extensions && target_is(call, "cel") && slice_eq(call->name, SLICE("bind")) && call->count == 3) {
        *out = expand_bind(source, call);
        return true;
    }
    if (extensions && target_is(call, "math") &&
        (slice_eq(call->name, SLICE("greatest")) || slice_eq(call->name, SLICE("least")))) {
        *out = expand_extreme(source, call, slice_eq(call->name, SLICE("least")) ? "math.@min" : "math.@max");
        return true;
    }
    const struct loop_macro *m = loop_of(call, extensions);
    if (!m) return false;
    *out = expand_loop(source, call, m->loop, m->variables);
    return true;
}
