/* The static checker: gives every node a type, resolves names to variables and calls to functions, and says what is
 * wrong with its place. */
#pragma once
#include "cel/ast.h"
#include "cel/source.h"
#include "cel/types.h"

struct checker {
    struct source *source;
    const struct cel_env *env;
    const struct type **variable_types; /* of env->variables */
    struct types types;
    struct local *locals; /* variables of the macros around the current node, innermost last */
    uint32_t local_count, local_cap;
    uint32_t slots; /* how many locals live at once at most */
};

/* Borrows all; false with the source's error set if a variable's type is none. checker_fini in both cases. */
bool checker_init(struct checker *c, struct source *source, const struct cel_env *env);
void checker_fini(struct checker *c);

/* Checks and annotates the tree; gives its type, without variables, or NULL with the source's error set. */
const struct type *checker_check(struct checker *c, struct node *root);

/* For scope.c and calls.c, the parts of the checker. A local variable: one of a macro. */
struct local {
    struct slice name;
    const struct type *type;
};

const struct type *checker_node(struct checker *c, struct node *n);
bool checker_unchecked(const struct checker *c);

/* With CEL_UNCHECKED the node becomes an error to be met when it is evaluated, and has the type dyn; else the source
 * gets the error. */
const struct type *checker_fail(struct checker *c, struct node *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
const char *checker_type_text(struct checker *c, const struct type *t); /* for messages */

/* scope.c. Makes a NODE_NAME or NODE_SELECT a variable, a local or a type, if that is what its whole qualified name is;
 * NULL if not. */
const struct type *checker_name(struct checker *c, struct node *n);
/* A target and a member name that are together a qualified function, like math.abs: its name, else an empty slice. */
struct slice checker_function_name(struct checker *c, const struct node *call);

/* calls.c */
const struct type *checker_call(struct checker *c, struct node *n);
