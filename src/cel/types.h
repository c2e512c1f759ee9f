/* The static types of CEL and how they agree. Types lie in a scratch that lives as long as the checker; the simple ones
 * are constants.
 *
 * A type variable stands for a type that is not known yet: the element type of [], or the A of size(list(A)). Checking
 * a call against a signature binds variables; what a trial bound is undone if the trial fails (types_assignable). The
 * rules are those of cel-go's checker, so that programs get the same types here: dyn agrees with everything, null with
 * timestamps and durations. A type too large to be meant is dyn. */
#pragma once
#include "base/buf.h"
#include "cel/cel.h"

struct type {
    enum cel_kind kind; /* CEL_DYN: dyn; CEL_ABSENT: a type variable */
    uint16_t size, depth; /* of what it is made of, itself included; bound variables count as one */
    uint32_t id;          /* of a variable */
    const struct type *args[2]; /* list: element; map: key, value; type: of what, or NULL */
    const struct type *bound;   /* of a variable, or NULL */
};

struct types {
    struct scratch scratch;
    uint32_t variables;
    uint64_t work; /* steps done, and how deep the current one is: both bounded, as types can be made that double with
                      every call */
    unsigned depth;
    bool exhausted;
    struct type **trail; /* variables whose binding changed, with what it was, for undoing */
    const struct type **trail_was;
    size_t trail_count, trail_cap;
};

void types_init(struct types *ts);
void types_fini(struct types *ts);

const struct type *types_simple(enum cel_kind kind); /* null, bool, int, ..., dyn; also `type` without argument */
const struct type *types_list(struct types *ts, const struct type *element);
const struct type *types_map(struct types *ts, const struct type *key, const struct type *value);
const struct type *types_of(struct types *ts, const struct type *what); /* type(what) */
const struct type *types_variable(struct types *ts);

/* Reads types with commas between them, "list(A), int", into at most max; gives how many, or -1 if the text is not such. Capital
 * letters are fresh variables, the same letter the same one throughout `letters`, which starts as NULLs. */
int types_parse(struct types *ts, struct slice text, const struct type **out, int max, const struct type *letters[26]);

/* The arguments fit the parameters; binds variables if so, else leaves them as they were. */
bool types_assignable(struct types *ts, const struct type *const *from, const struct type *const *to, size_t count);

/* The type of a list of both: the more general if they agree, else dyn. */
const struct type *types_join(struct types *ts, const struct type *a, const struct type *b);

/* With variables replaced by what they are bound to; unbound ones stay, or become dyn. */
const struct type *types_resolve(struct types *ts, const struct type *t, bool unbound_to_dyn);
bool types_same(const struct type *a, const struct type *b);

void types_print(const struct type *t, struct buf *out);
