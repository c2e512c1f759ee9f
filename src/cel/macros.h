/* Macros: calls that the parser replaces because their arguments are not values: has, all, exists, exists_one, map,
 * filter; with the extensions also those over two variables, cel.bind, and the variadic math.greatest and math.least.
 */
#pragma once
#include "cel/nodes.h"

struct macro_call {
    struct slice name;
    uint32_t at;
    struct node *target; /* NULL: no member call */
    struct node **args;
    size_t count;
};

/* False if the call is no macro. Else *out is its expansion, or NULL with the source's error set. */
bool macros_expand(struct source *source, const struct macro_call *call, bool extensions, struct node **out);
