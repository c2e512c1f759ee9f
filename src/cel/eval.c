#include "cel/eval.h"

#include <stdarg.h>
#include <stdio.h>

#include "cel/library.h"
#include "cel/maps.h"
#include "cel/value.h"

void eval_set_error(struct eval *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    e->error_at = e->at;
}

bool eval_spend(struct eval *e, uint64_t steps)
{
    if (e->steps_left < steps) {
        e->steps_left = 0;
        return eval_fail(e, "evaluation takes more than %llu steps", (unsigned long long)e->scratch->steps_max);
    }
    e->steps_left -= steps;
    return true;
}

void *eval_alloc(struct eval *e, size_t bytes)
{
    if (!eval_spend(e, bytes / 64)) return NULL;
    void *p = scratch_alloc(e->scratch, bytes);
    if (!p) eval_set_error(e, "evaluation takes more than %zu bytes", e->scratch->bytes_max);
    return p;
}

/* ---- names and fields */

static bool eval_variable(struct eval *e, const struct node *n, struct cel_value *out)
{
    *out = e->variables[n->slot];
    return out->kind != CEL_ABSENT || eval_fail(e, "variable has no value");
}

static bool eval_select(struct eval *e, const struct node *n, struct cel_value *out)
{
    struct cel_value operand;
    if (!eval_node(e, n->args[0], &operand)) return false;
    e->at = n->at;
    if (operand.kind != CEL_MAP) return eval_fail(e, "type '%s' does not support field selection", value_kind_name(operand.kind));
    if (!operand.map.index && !eval_spend(e, operand.map.count / 8)) return false;
    struct cel_value key = value_string(n->name);
    const struct cel_value *field = maps_find(&operand, &key);
    if (n->kind == NODE_HAS) *out = value_bool(field);
    else if (field) *out = *field;
    else return eval_fail(e, "no such key: '%.*s'", (int)n->name.n, n->name.p);
    return true;
}

/* ---- calls */

static bool fits(const struct candidate *c, const struct cel_value *args, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!(c->kinds[i] >> args[i].kind & 1)) return false;
    }
    return true;
}

static bool eval_call(struct eval *e, const struct node *n, struct cel_value *out)
{
    struct cel_value args[CALL_ARGS_MAX];
    for (uint32_t i = 0; i < n->count; i++) {
        if (!eval_node(e, n->args[i], &args[i])) return false;
    }
    e->at = n->at;
    e->call = n;
    for (uint32_t i = 0; i < n->candidate_count; i++) {
        if (fits(&n->candidates[i], args, n->count)) return n->candidates[i].overload->run(e, args, out);
    }
    return eval_fail(e, "no such overload: %.*s for a value of type %s%s%s", (int)n->name.n, n->name.p,
                     n->count ? value_kind_name(args[0].kind) : "none", n->count > 1 ? " and " : "",
                     n->count > 1 ? value_kind_name(args[1].kind) : "");
}

/* ---- logic */

/* && and || are commutative in errors: one argument that decides absorbs those that fail, whatever their order. */
static bool eval_logic(struct eval *e, const struct node *n, struct cel_value *out)
{
    bool decisive = n->kind == NODE_OR, failed = false;
    for (uint32_t i = 0; i < n->count; i++) {
        bool ok = eval_node(e, n->args[i], out);
        if (ok && out->kind != CEL_BOOL) {
            e->at = n->args[i]->at;
            ok = eval_fail(e, "no such overload: %s for a value of type %s", decisive ? "||" : "&&", value_kind_name(out->kind));
        }
        if (ok && out->boolean == decisive) return true;
        failed = failed || !ok;
    }
    *out = value_bool(!decisive);
    return !failed;
}

static bool eval_cond(struct eval *e, const struct node *n, struct cel_value *out)
{
    if (!eval_node(e, n->args[0], out)) return false;
    if (out->kind != CEL_BOOL) {
        e->at = n->at;
        return eval_fail(e, "no such overload: ?: for a condition of type %s", value_kind_name(out->kind));
    }
    return eval_node(e, n->args[out->boolean ? 1 : 2], out);
}

/* ---- literals */

static bool eval_list(struct eval *e, const struct node *n, struct cel_value *out)
{
    struct cel_value *items = eval_alloc(e, n->count * sizeof *items);
    if (!items) return false;
    for (uint32_t i = 0; i < n->count; i++) {
        if (!eval_node(e, n->args[i], &items[i])) return false;
    }
    *out = (struct cel_value){.kind = CEL_LIST, .list = {items, n->count}};
    return true;
}

static bool eval_map(struct eval *e, const struct node *n, struct cel_value *out)
{
    struct maps_builder map;
    if (!maps_init(&map, e, n->count / 2)) return false;
    for (uint32_t i = 0; i < n->count; i += 2) {
        struct cel_value key, value;
        if (!eval_node(e, n->args[i], &key) || !eval_node(e, n->args[i + 1], &value)) return false;
        e->at = n->args[i]->at;
        struct cel_entry *entry = maps_add(&map, e, &key);
        if (!entry) return false;
        entry->value = value;
    }
    *out = maps_value(&map);
    return true;
}

static bool eval_bind(struct eval *e, const struct node *n, struct cel_value *out)
{
    struct cel_value bound;
    if (!eval_node(e, n->args[0], &bound)) return false;
    e->locals[n->slot] = bound;
    return eval_node(e, n->args[1], out);
}

bool eval_node(struct eval *e, const struct node *n, struct cel_value *out)
{
    e->at = n->at;
    if (unlikely(!eval_spend(e, 1))) return false;
    switch (n->kind) {
    case NODE_CONST: *out = n->value; return true;
    case NODE_VAR: return eval_variable(e, n, out);
    case NODE_LOCAL: *out = e->locals[n->slot]; return true;
    case NODE_FAIL: return eval_fail(e, "%.*s", (int)n->name.n, n->name.p);
    case NODE_SELECT:
    case NODE_HAS: return eval_select(e, n, out);
    case NODE_CALL: return eval_call(e, n, out);
    case NODE_AND:
    case NODE_OR: return eval_logic(e, n, out);
    case NODE_COND: return eval_cond(e, n, out);
    case NODE_LIST: return eval_list(e, n, out);
    case NODE_MAP: return eval_map(e, n, out);
    case NODE_LOOP: return eval_loop(e, n, out);
    case NODE_BIND: return eval_bind(e, n, out);
    case NODE_NAME: break;
    }
    CHECK(!"a name that the checker did not resolve");
    return false;
}
