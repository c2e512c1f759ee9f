#include "cel/fold.h"

#include "cel/eval.h"
#include "cel/regex.h"

enum { FOLD_BYTES_MAX = 4 << 20, FOLD_STEPS_MAX = 1000000 };

struct folder {
    struct source *source;
    bool unchecked;
    uint64_t steps_left; /* for all of the tree */
    size_t bytes_left;
};

static bool is_foldable(const struct node *n)
{
    if (n->kind != NODE_CALL && n->kind != NODE_LIST && n->kind != NODE_MAP) return false;
    for (uint32_t i = 0; i < n->count; i++) {
        if (n->args[i]->kind != NODE_CONST) return false;
    }
    return true;
}

/* The program's own memory, with a limit from here to close_arena. */
static struct scratch *open_arena(struct folder *f)
{
    struct scratch *arena = f->source->arena;
    arena->bytes_max = arena->used_bytes + f->bytes_left;
    return arena;
}

static void close_arena(struct folder *f)
{
    struct scratch *arena = f->source->arena;
    f->bytes_left = arena->bytes_max - arena->used_bytes;
    arena->bytes_max = SIZE_MAX;
}

/* Evaluates a node of constants within what is left of the limits. */
static void fold_node(struct folder *f, struct node *n)
{
    struct eval e = {.scratch = open_arena(f), .steps_left = f->steps_left};
    struct cel_value value;
    bool ok = eval_node(&e, n, &value);
    close_arena(f);
    f->steps_left = e.steps_left;
    if (!ok) return;
    n->kind = NODE_CONST;
    n->value = value;
}

/* A constant pattern is compiled with the program. */
static bool keep_pattern(struct folder *f, struct node *n)
{
    if (n->kind != NODE_CALL || n->count != 2 || !slice_eq(n->name, SLICE("matches")) || n->candidate_count == 0) return true;
    const struct node *pattern = n->args[1];
    if (pattern->kind != NODE_CONST || pattern->value.kind != CEL_STRING) return true;
    const char *error;
    n->regex = regex_compile(open_arena(f), pattern->value.text, &error);
    close_arena(f);
    return n->regex || f->unchecked || source_fail(f->source, pattern->at, "not a regular expression: %s", error);
}

static bool fold(struct folder *f, struct node *n)
{
    for (uint32_t i = 0; i < n->count; i++) {
        if (!fold(f, n->args[i])) return false;
    }
    if (!keep_pattern(f, n)) return false;
    if (is_foldable(n) && f->steps_left && f->bytes_left) fold_node(f, n);
    return true;
}

bool fold_constants(struct source *source, struct node *root, bool unchecked)
{
    struct folder f = {.source = source, .unchecked = unchecked, .steps_left = FOLD_STEPS_MAX, .bytes_left = FOLD_BYTES_MAX};
    return fold(&f, root);
}
