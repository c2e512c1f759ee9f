/* Which overloads a call may mean, and what type it has. */
#include "cel/checker.h"
#include "cel/library.h"

enum { CANDIDATES_MAX = 24 };

struct resolution {
    struct checker *checker;
    const struct node *call;
    const struct type *args[CALL_ARGS_MAX];
    const struct type *result; /* NULL until an overload fits */
    struct candidate candidates[CANDIDATES_MAX];
    uint32_t count;
};

static uint16_t kinds_of(const struct type *parameter)
{
    return parameter->kind == CEL_ABSENT || parameter->kind == CEL_DYN ? UINT16_MAX : (uint16_t)(1u << parameter->kind);
}

/* Takes the overload as a candidate if the arguments fit it. All that fit are kept: with an argument of type dyn only
 * its value will tell. */
static bool consider(void *arg, const struct overload *row)
{
    struct resolution *r = arg;
    struct types *types = &r->checker->types;
    if (!!(row->flags & OVERLOAD_MEMBER) != r->call->member) return true;
    const struct type *letters[26] = {NULL}, *parameters[CALL_ARGS_MAX], *result;
    int count = types_parse(types, slice_str(row->args), parameters, CALL_ARGS_MAX, letters);
    CHECK(count >= 0 && types_parse(types, slice_str(row->result), &result, 1, letters) == 1);
    if ((uint32_t)count != r->call->count || !types_assignable(types, r->args, parameters, (size_t)count)) return true;

    CHECK(r->count < CANDIDATES_MAX);
    struct candidate *c = &r->candidates[r->count++];
    c->overload = row;
    for (int i = 0; i < count; i++) c->kinds[i] = i > 0 && (row->flags & OVERLOAD_LOOSE) ? UINT16_MAX : kinds_of(parameters[i]);
    result = types_resolve(types, result, false);
    if (!r->result) r->result = result;
    else if (!types_same(r->result, result)) r->result = types_simple(CEL_DYN);
    return true;
}

/* math.abs(x) is no member call, though it is written like one. */
static void settle_name(struct checker *c, struct node *n)
{
    struct slice function = checker_function_name(c, n);
    if (function.n == 0) return;
    if (n->member) {
        n->member = false;
        n->args++;
        n->count--;
    }
    n->name = function;
}

/* "(int, string)", of a member call "int.(string)". */
static void print_arguments(struct checker *c, const struct node *n, const struct resolution *r, struct buf *out)
{
    uint32_t first = n->member ? 1 : 0;
    if (n->member) buf_printf(out, "%s.", checker_type_text(c, r->args[0]));
    for (uint32_t i = first; i < n->count; i++)
        buf_printf(out, "%s%s", i == first ? "(" : ", ", checker_type_text(c, r->args[i]));
    buf_add_str(out, n->count == first ? "()" : ")");
}

static const struct type *no_overload(struct checker *c, struct node *n, const struct resolution *r)
{
    struct buf text = {0};
    print_arguments(c, n, r, &text);
    const struct type *t = checker_fail(c, n, "found no matching overload for '%.*s' applied to '%.*s'", (int)n->name.n,
                                        n->name.p, (int)text.len, text.p);
    buf_fini(&text);
    return t;
}

const struct type *checker_call(struct checker *c, struct node *n)
{
    settle_name(c, n);
    struct resolution r = {.checker = c, .call = n};
    for (uint32_t i = 0; i < n->count; i++) {
        const struct type *t = checker_node(c, n->args[i]);
        if (!t) return NULL;
        if (i < CALL_ARGS_MAX) r.args[i] = t;
    }
    size_t rows = library_each(n->name, c->env->flags & CEL_EXTENSIONS, consider, &r);
    if (rows == 0) return checker_fail(c, n, "undeclared function '%.*s'", (int)n->name.n, n->name.p);
    if (n->count > CALL_ARGS_MAX) return checker_fail(c, n, "too many arguments for '%.*s'", (int)n->name.n, n->name.p);
    if (!r.result) return no_overload(c, n, &r);
    struct candidate *kept = scratch_alloc(c->source->arena, r.count * sizeof *kept);
    memcpy(kept, r.candidates, r.count * sizeof *kept);
    n->candidates = kept;
    n->candidate_count = r.count;
    return r.result;
}
