#include "cel/nodes.h"

struct node *nodes_new(struct source *source, enum node_kind kind, uint32_t at, struct node *const *args, size_t count)
{
    struct node *n = scratch_alloc(source->arena, sizeof *n);
    *n = (struct node){.kind = kind, .at = at, .count = (uint32_t)count, .depth = 1};
    if (count) n->args = scratch_alloc(source->arena, count * sizeof *args);
    for (size_t i = 0; i < count; i++) {
        n->args[i] = args[i];
        if (n->depth <= args[i]->depth) n->depth = (uint16_t)(args[i]->depth + 1);
    }
    if (n->depth > CEL_DEPTH_MAX) {
        source_fail(source, at, "expression is nested more than %d levels deep", CEL_DEPTH_MAX);
        return NULL;
    }
    return n;
}

struct node *nodes_call(struct source *source, uint32_t at, const char *function, struct node *const *args, size_t count)
{
    struct node *n = nodes_new(source, NODE_CALL, at, args, count);
    if (n) n->name = slice_str(function);
    return n;
}

struct node *nodes_const(struct source *source, uint32_t at, struct cel_value value)
{
    struct node *n = nodes_new(source, NODE_CONST, at, NULL, 0);
    n->value = value;
    return n;
}
