#include "cel/cel.h"

#include <stdio.h>

#include "base/mem.h"
#include "cel/checker.h"
#include "cel/eval.h"
#include "cel/fold.h"
#include "cel/parser.h"
#include "cel/value.h"

struct cel_program {
    struct scratch arena; /* all that the tree is made of */
    struct slice source;
    const struct node *root;
    uint32_t slots;             /* of the macros' variables */
    const char *type;
    enum cel_kind kind;
    size_t variable_count;
    const enum cel_kind *kinds; /* that the variables have to be of; CEL_DYN for any */
};

/* ---- compiling */

static void keep_variables(struct cel_program *p, const struct checker *c)
{
    enum cel_kind *kinds = scratch_alloc(&p->arena, (c->env->count + 1) * sizeof *kinds);
    for (size_t i = 0; i < c->env->count; i++) kinds[i] = c->variable_types[i]->kind;
    p->kinds = kinds;
    p->variable_count = c->env->count;
}

static bool compile(struct cel_program *p, struct source *source, const struct cel_env *env)
{
    struct node *root = parser_parse(source, env->flags & CEL_EXTENSIONS);
    if (!root) return false;
    struct checker checker;
    const struct type *type = NULL;
    if (checker_init(&checker, source, env)) type = checker_check(&checker, root);
    if (type) {
        p->type = scratch_copy(&p->arena, slice_str(checker_type_text(&checker, type))).p;
        p->kind = type->kind;
        p->slots = checker.slots;
        p->root = root;
        keep_variables(p, &checker);
    }
    checker_fini(&checker);
    return type && fold_constants(source, root, env->flags & CEL_UNCHECKED);
}

struct cel_program *cel_compile(const struct cel_env *env, struct slice text, struct cel_error *error)
{
    struct cel_program *p = mem_zalloc(sizeof *p);
    scratch_init(&p->arena);
    p->arena.bytes_max = SIZE_MAX;
    p->source = scratch_copy(&p->arena, slice_of(text.p, text.n <= CEL_SOURCE_MAX ? text.n : 0));
    struct source source = {.text = text.n <= CEL_SOURCE_MAX ? p->source : text, .arena = &p->arena, .error = error};
    if (compile(p, &source, env)) return p;
    cel_program_free(p);
    return NULL;
}

void cel_program_free(struct cel_program *p)
{
    if (!p) return;
    scratch_fini(&p->arena);
    mem_free(p);
}

enum cel_kind cel_program_kind(const struct cel_program *p) { return p->kind; }
const char *cel_program_type(const struct cel_program *p) { return p->type; }

/* ---- evaluating */

/* The whole type of a list's or map's elements is not looked at: functions check the kinds of what they get. */
static bool check_variables(const struct cel_program *p, const struct cel_value *variables, struct cel_error *error)
{
    for (size_t i = 0; i < p->variable_count; i++) {
        enum cel_kind kind = variables[i].kind;
        if (kind == p->kinds[i] || kind == CEL_ABSENT || (p->kinds[i] == CEL_DYN && kind < CEL_DYN)) continue;
        *error = (struct cel_error){.line = 1, .column = 1};
        snprintf(error->message, sizeof error->message, "variable %zu is of type %s, declared is %s", i,
                 kind <= CEL_DYN ? value_kind_name(kind) : "none", value_kind_name(p->kinds[i]));
        return false;
    }
    return true;
}

int cel_eval(const struct cel_program *p, const struct cel_value *variables, struct scratch *scratch,
             struct cel_value *result, struct cel_error *error)
{
    scratch_reset(scratch);
    if (!check_variables(p, variables, error)) return -1;
    struct eval e = {.variables = variables, .scratch = scratch, .steps_left = scratch->steps_max};
    e.locals = p->slots ? eval_alloc(&e, p->slots * sizeof *e.locals) : NULL;
    if ((!p->slots || e.locals) && eval_node(&e, p->root, result)) return 0;
    source_place(p->source, e.error_at, &error->line, &error->column);
    memcpy(error->message, e.message, sizeof e.message);
    return -1;
}
