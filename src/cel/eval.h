/* The evaluator, as the functions of the library see it. */
#pragma once
#include "cel/ast.h"

struct eval {
    const struct cel_value *variables;
    struct cel_value *locals; /* of macros */
    struct scratch *scratch;
    uint64_t steps_left;
    uint32_t at; /* of the call that runs: where its error will be */
    uint32_t error_at;
    const struct node *call;
    char message[160]; /* of the error */
};

/* Evaluates a node; false with the error set. */
bool eval_node(struct eval *e, const struct node *n, struct cel_value *out);

/* Sets the error, at e->at; gives false, for `return eval_fail(e, ...)`. A macro, so that a compiler that looks for
 * values never set sees the false. */
void eval_set_error(struct eval *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define eval_fail(e, ...) (eval_set_error(e, __VA_ARGS__), false)

/* Counts work; false with the error set when it is too much. */
bool eval_spend(struct eval *e, uint64_t steps);

/* Memory of this evaluation, or NULL with the error set. */
void *eval_alloc(struct eval *e, size_t bytes);

/* The macros over lists and maps; in loops.c. */
bool eval_loop(struct eval *e, const struct node *n, struct cel_value *out);
