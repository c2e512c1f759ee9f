/* Which variable, type or function a name is. In the container "a.b" the name x.y is the first there is of a.b.x.y,
 * a.x.y and x.y; with a leading dot only x.y. The longest qualified name wins: a.b.c is the variable "a.b.c" before it
 * is the field c of "a.b". Variables of macros hide all that. */
#include "cel/checker.h"
#include "cel/library.h"
#include "cel/value.h"

enum { NAME_MAX_BYTES = 1024 };

/* The qualified name that a node is, "a.b.c", in out; its root name in *root. 0 if it is none, or too long. */
static size_t qualified(const struct node *n, char out[NAME_MAX_BYTES], const struct node **root)
{
    size_t at = NAME_MAX_BYTES;
    for (;; n = n->args[0]) {
        if ((n->kind != NODE_SELECT && n->kind != NODE_NAME) || n->quoted || n->name.n >= at) return 0;
        at -= n->name.n;
        memcpy(out + at, n->name.p, n->name.n);
        if (n->kind == NODE_NAME) break;
        out[--at] = '.';
    }
    *root = n;
    memmove(out, out + at, NAME_MAX_BYTES - at);
    return NAME_MAX_BYTES - at;
}

static int local_slot(const struct checker *c, struct slice name)
{
    for (uint32_t i = c->local_count; i > 0; i--) {
        if (slice_eq(c->locals[i - 1].name, name)) return (int)(i - 1);
    }
    return -1;
}

/* ---- containers */

/* The k-th way to read a name in the container, longest first, in out; 0 when there are no more. */
static size_t candidate_name(const struct checker *c, struct slice name, bool absolute, unsigned k, char out[NAME_MAX_BYTES])
{
    struct slice prefix = absolute ? slice_of("", 0) : c->env->container;
    for (; k > 0; k--) {
        if (prefix.n == 0) return 0;
        while (prefix.n > 0 && prefix.p[prefix.n - 1] != '.') prefix.n--;
        if (prefix.n > 0) prefix.n--;
    }
    size_t dot = prefix.n > 0;
    if (prefix.n + dot + name.n > NAME_MAX_BYTES) return 0;
    if (dot) {
        memcpy(out, prefix.p, prefix.n);
        out[prefix.n] = '.';
    }
    memcpy(out + prefix.n + dot, name.p, name.n);
    return prefix.n + dot + name.n;
}

static const struct type *as_variable(struct checker *c, struct node *n, struct slice name)
{
    for (size_t i = 0; i < c->env->count; i++) {
        if (!slice_eq(c->env->variables[i].name, name)) continue;
        n->kind = NODE_VAR;
        n->slot = (uint32_t)i;
        return c->variable_types[i];
    }
    return NULL;
}

static const struct type *as_type(struct checker *c, struct node *n, struct slice name)
{
    for (enum cel_kind kind = CEL_NULL; kind < CEL_DYN; kind++) {
        if (!slice_eq(name, slice_str(value_kind_name(kind)))) continue;
        n->kind = NODE_CONST;
        n->value = (struct cel_value){.kind = CEL_TYPE, .text = slice_str(value_kind_name(kind))};
        const struct type *dyn = types_simple(CEL_DYN), *what = types_simple(kind);
        if (kind == CEL_LIST) what = types_list(&c->types, dyn);
        if (kind == CEL_MAP) what = types_map(&c->types, dyn, dyn);
        return types_of(&c->types, what);
    }
    return NULL;
}

const struct type *checker_name(struct checker *c, struct node *n)
{
    if (n->kind == NODE_HAS) return NULL;
    char name[NAME_MAX_BYTES], candidate[NAME_MAX_BYTES];
    const struct node *root = NULL;
    size_t bytes = qualified(n, name, &root), m;
    if (bytes == 0) return NULL;
    int slot = root->absolute ? -1 : local_slot(c, root->name);
    if (slot >= 0) {
        if (root != n) return NULL;
        n->kind = NODE_LOCAL;
        n->slot = (uint32_t)slot;
        return c->locals[slot].type;
    }
    for (unsigned k = 0; (m = candidate_name(c, slice_of(name, bytes), root->absolute, k, candidate)) > 0; k++) {
        const struct type *t = as_variable(c, n, slice_of(candidate, m));
        if (!t) t = as_type(c, n, slice_of(candidate, m));
        if (t) return t;
    }
    return NULL;
}

/* ---- functions */

static bool found(void *arg, const struct overload *row)
{
    *(struct slice *)arg = slice_str(row->function);
    return false;
}

struct slice checker_function_name(struct checker *c, const struct node *call)
{
    char name[NAME_MAX_BYTES], candidate[NAME_MAX_BYTES];
    struct slice function = {"", 0};
    const struct node *root = call;
    size_t bytes = 0, m;
    if (call->member) {
        bytes = qualified(call->args[0], name, &root);
        if (bytes == 0 || bytes + 1 + call->name.n > sizeof name || (!root->absolute && local_slot(c, root->name) >= 0))
            return function;
        name[bytes++] = '.';
    } else if (call->name.n > sizeof name) {
        return function;
    }
    memcpy(name + bytes, call->name.p, call->name.n);
    bytes += call->name.n;
    for (unsigned k = 0;
         function.n == 0 && (m = candidate_name(c, slice_of(name, bytes), root->absolute, k, candidate)) > 0; k++) {
        library_each(slice_of(candidate, m), c->env->flags & CEL_EXTENSIONS, found, &function);
    }
    return function;
}
