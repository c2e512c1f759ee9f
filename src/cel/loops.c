/* The macros over the elements of a list or the keys of a map. */
#include "cel/eval.h"
#include "cel/maps.h"
#include "cel/value.h"

struct loop {
    struct eval *eval;
    const struct node *node;
    struct cel_value range;
    size_t count;
};

/* Sets the variables of the i-th round. */
static void set_variables(struct loop *l, size_t i)
{
    struct cel_value *slot = &l->eval->locals[l->node->slot];
    bool list = l->range.kind == CEL_LIST;
    if (!l->node->pairs) {
        slot[0] = list ? l->range.list.items[i] : l->range.map.entries[i].key;
        return;
    }
    slot[0] = list ? value_int((int64_t)i) : l->range.map.entries[i].key;
    slot[1] = list ? l->range.list.items[i] : l->range.map.entries[i].value;
}

static bool eval_condition(struct loop *l, bool *holds)
{
    struct cel_value v;
    if (!eval_node(l->eval, l->node->args[1], &v)) return false;
    if (v.kind != CEL_BOOL) {
        l->eval->at = l->node->args[1]->at;
        return eval_fail(l->eval, "no such overload: a condition of type %s", value_kind_name(v.kind));
    }
    *holds = v.boolean;
    return true;
}

/* all and exists are && and || over the elements: one that decides absorbs those that fail. */
static bool run_logic(struct loop *l, struct cel_value *out)
{
    bool decisive = l->node->loop == LOOP_EXISTS, failed = false;
    for (size_t i = 0; i < l->count; i++) {
        bool holds = false;
        set_variables(l, i);
        bool ok = eval_condition(l, &holds);
        if (ok && holds == decisive) {
            *out = value_bool(decisive);
            return true;
        }
        failed = failed || !ok;
        if (failed && l->eval->steps_left == 0) return false;
    }
    *out = value_bool(!decisive);
    return !failed;
}

static bool run_exists_one(struct loop *l, struct cel_value *out)
{
    size_t found = 0;
    for (size_t i = 0; i < l->count; i++) {
        bool holds;
        set_variables(l, i);
        if (!eval_condition(l, &holds)) return false;
        found += holds;
    }
    *out = value_bool(found == 1);
    return true;
}

/* Whether the i-th round makes something: no condition, or one that holds. */
static bool enter_round(struct loop *l, size_t i, bool conditional, bool *enters)
{
    set_variables(l, i);
    *enters = true;
    return !conditional || eval_condition(l, enters);
}

static bool run_list(struct loop *l, struct cel_value *out)
{
    const struct node *n = l->node;
    struct cel_value *items = eval_alloc(l->eval, l->count * sizeof *items);
    if (!items) return false;
    bool filter = n->loop == LOOP_FILTER, enters;
    size_t made = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (!enter_round(l, i, filter || n->count == 3, &enters)) return false;
        if (!enters) continue;
        if (filter) items[made] = l->eval->locals[n->slot];
        else if (!eval_node(l->eval, n->args[n->count - 1], &items[made])) return false;
        made++;
    }
    *out = (struct cel_value){.kind = CEL_LIST, .list = {items, made}};
    return true;
}

/* The entries of the i-th round: those of a map, or the loop's own key with a new value. */
static bool add_round(struct loop *l, struct maps_builder *map, const struct cel_value *made)
{
    struct eval *e = l->eval;
    e->at = l->node->args[l->node->count - 1]->at;
    if (l->node->loop == LOOP_MAP_VALUES) {
        struct cel_entry *entry = maps_add(map, e, &e->locals[l->node->slot]);
        if (entry) entry->value = *made;
        return entry;
    }
    if (made->kind != CEL_MAP) return eval_fail(e, "no such overload: new entries of type %s", value_kind_name(made->kind));
    for (size_t i = 0; i < made->map.count; i++) {
        struct cel_entry *entry = maps_add(map, e, &made->map.entries[i].key);
        if (!entry) return false;
        entry->value = made->map.entries[i].value;
    }
    return true;
}

static bool run_map(struct loop *l, struct cel_value *out)
{
    const struct node *n = l->node;
    struct maps_builder map;
    if (!maps_init(&map, l->eval, l->count)) return false;
    for (size_t i = 0; i < l->count; i++) {
        bool enters;
        struct cel_value made;
        if (!enter_round(l, i, n->count == 3, &enters)) return false;
        if (enters && (!eval_node(l->eval, n->args[n->count - 1], &made) || !add_round(l, &map, &made))) return false;
    }
    *out = maps_value(&map);
    return true;
}

bool eval_loop(struct eval *e, const struct node *n, struct cel_value *out)
{
    struct loop l = {.eval = e, .node = n};
    if (!eval_node(e, n->args[0], &l.range)) return false;
    if (l.range.kind != CEL_LIST && l.range.kind != CEL_MAP) {
        e->at = n->at;
        return eval_fail(e, "no such overload: a macro over a value of type %s", value_kind_name(l.range.kind));
    }
    l.count = l.range.kind == CEL_LIST ? l.range.list.count : l.range.map.count;
    switch (n->loop) {
    case LOOP_ALL:
    case LOOP_EXISTS: return run_logic(&l, out);
    case LOOP_EXISTS_ONE: return run_exists_one(&l, out);
    case LOOP_MAP:
    case LOOP_FILTER: return run_list(&l, out);
    case LOOP_MAP_VALUES:
    case LOOP_MAP_ENTRIES: return run_map(&l, out);
    }
    return false;
}
