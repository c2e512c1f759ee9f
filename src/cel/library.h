/* The functions of CEL. Each file of functions has a table; a row is one overload: a name, the types it takes and
 * gives, and what runs. The checker picks the rows that a call may mean; the evaluator runs the first of them whose
 * argument kinds are there. */
#pragma once
#include "cel/eval.h"

enum overload_flag {
    OVERLOAD_MEMBER = 1,    /* called as a.f(b): the first argument is a */
    OVERLOAD_EXTENSION = 2, /* only with CEL_EXTENSIONS */
    OVERLOAD_LOOSE = 4,     /* only the kind of the first argument is checked before it runs; the others it checks itself */
};

struct overload {
    const char *function;
    const char *args;   /* types as types_parse reads them; capital letters are type parameters */
    const char *result;
    bool (*run)(struct eval *e, const struct cel_value *args, struct cel_value *out); /* gives a value, or false by eval_fail */
    unsigned flags;
};

struct library_table {
    const struct overload *rows;
    size_t count;
};

extern const struct library_table arith_table, compare_table, container_table, convert_table, text_table, times_table,
    shardhash_table, ext_math_table, ext_encode_table, ext_strings_table;

/* Calls f for each row with this name, as long as f gives true. Gives how many rows there are. */
size_t library_each(struct slice function, bool extensions, bool (*f)(void *arg, const struct overload *row), void *arg);
