/* The tree of an expression: made by the parser, annotated by the checker, walked by the evaluator. It lies in the
 * program's scratch and does not change once the program is compiled. */
#pragma once
#include "cel/cel.h"

struct overload;

enum node_kind {
    NODE_CONST,  /* value */
    NODE_NAME,   /* name; the checker turns it into one of the next three */
    NODE_VAR,    /* slot: a declared variable */
    NODE_LOCAL,  /* slot: a variable of a macro */
    NODE_FAIL,   /* name: the message of the error that evaluating it gives (CEL_UNCHECKED only) */
    NODE_SELECT, /* args[0].name */
    NODE_HAS,    /* has(args[0].name) */
    NODE_CALL,   /* name(args...); operators too, as "_+_"; the target of a member call is args[0] */
    NODE_AND,    /* args: two or more */
    NODE_OR,
    NODE_COND,   /* args[0] ? args[1] : args[2] */
    NODE_LIST,   /* args: the elements */
    NODE_MAP,    /* args: key, value, key, value... */
    NODE_LOOP,   /* a macro over the elements of args[0] */
    NODE_BIND,   /* cel.bind(name, args[0], args[1]) */
};

enum loop_kind {
    LOOP_ALL,        /* args[1]: the condition */
    LOOP_EXISTS,
    LOOP_EXISTS_ONE,
    LOOP_MAP,        /* args[1]: the element; with args[2], args[1] is a condition and args[2] the element. transformList too. */
    LOOP_FILTER,
    LOOP_MAP_VALUES,  /* transformMap: as LOOP_MAP, for the values of a map */
    LOOP_MAP_ENTRIES, /* transformMapEntry: as LOOP_MAP, the element being a map of new entries */
};

/* A function that a call may turn out to be, with the kinds of arguments that it takes: one bit (1 << kind) each. */
enum { CALL_ARGS_MAX = 4 };
struct candidate {
    const struct overload *overload;
    uint16_t kinds[CALL_ARGS_MAX];
};

struct node {
    enum node_kind kind;
    enum loop_kind loop;
    uint32_t at;    /* where it stands: offset in the source */
    uint32_t count; /* of args */
    uint16_t depth; /* of the tree below, itself included */
    bool member;    /* NODE_CALL: args[0] is the target */
    bool absolute;  /* NODE_NAME, NODE_CALL: written with a leading dot */
    bool quoted;    /* NODE_SELECT: the field was written `so`, so it is no part of a qualified name */
    bool pairs;     /* NODE_LOOP: two variables, name and name2, in slot and slot + 1 */
    uint32_t slot;
    uint32_t candidate_count; /* NODE_CALL */
    const struct candidate *candidates;
    struct slice name, name2;
    struct node **args;
    struct cel_value value;
    void *regex; /* of a constant pattern (regex.h); owned by the program */
};
