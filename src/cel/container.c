/* Lists and maps: size, in, [ ], +. */
#include <math.h>

#include "cel/library.h"
#include "cel/maps.h"
#include "cel/value.h"

static bool size_list(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int((int64_t)a->list.count);
    return true;
}

static bool size_map(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_int((int64_t)a->map.count);
    return true;
}

static bool in_list(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    int found = 0;
    for (size_t i = 0; i < a[1].list.count && !found; i++) found = value_equal(&a[0], &a[1].list.items[i], &e->steps_left);
    *out = value_bool(found);
    return found >= 0 || eval_fail(e, "values are too large or nested too deep to be compared");
}

static bool in_map(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_bool(maps_find(&a[1], &a[0]));
    return a[1].map.index || eval_spend(e, a[1].map.count / 8);
}

/* An index of a list: an int, or another number with the value of one. */
static bool index_of(const struct cel_value *v, size_t *index)
{
    if (v->kind == CEL_INT) return *index = (size_t)v->integer, v->integer >= 0;
    if (v->kind == CEL_UINT) return *index = v->natural, true;
    if (v->kind != CEL_DOUBLE || !(v->real >= 0) || v->real >= 0x1p53 || v->real != floor(v->real)) return false;
    *index = (size_t)v->real;
    return true;
}

static bool index_list(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (!value_is_number(&a[1])) return eval_fail(e, "no such overload: a list's index of type %s", value_kind_name(a[1].kind));
    size_t i;
    if (!index_of(&a[1], &i) || i >= a[0].list.count) return eval_fail(e, "index out of bounds");
    *out = a[0].list.items[i];
    return true;
}

static bool index_map(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (!a[0].map.index && !eval_spend(e, a[0].map.count / 8)) return false;
    const struct cel_value *found = maps_find(&a[0], &a[1]);
    if (found) *out = *found;
    else if (a[1].kind == CEL_STRING)
        return eval_fail(e, "no such key: '%.*s'", (int)(a[1].text.n > 64 ? 64 : a[1].text.n), a[1].text.p);
    return found || eval_fail(e, "no such key");
}

static bool add_list(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    size_t first = a[0].list.count, second = a[1].list.count;
    if (first == 0 || second == 0) {
        *out = a[first == 0];
        return true;
    }
    struct cel_value *items = eval_alloc(e, (first + second) * sizeof *items);
    if (!items) return false;
    memcpy(items, a[0].list.items, first * sizeof *items);
    memcpy(items + first, a[1].list.items, second * sizeof *items);
    *out = (struct cel_value){.kind = CEL_LIST, .list = {items, first + second}};
    return true;
}

static const struct overload rows[] = {
    {"size", "list(A)", "int", size_list, 0},
    {"size", "list(A)", "int", size_list, OVERLOAD_MEMBER},
    {"size", "map(A, B)", "int", size_map, 0},
    {"size", "map(A, B)", "int", size_map, OVERLOAD_MEMBER},
    {"@in", "A, list(A)", "bool", in_list, 0},
    {"@in", "A, map(A, B)", "bool", in_map, 0},
    {"_[_]", "list(A), int", "A", index_list, OVERLOAD_LOOSE},
    {"_[_]", "map(A, B), A", "B", index_map, 0},
    {"_+_", "list(A), list(A)", "list(A)", add_list, 0},
};

const struct library_table container_table = {rows, sizeof rows / sizeof *rows};
