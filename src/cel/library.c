#include "cel/library.h"

size_t library_each(struct slice function, bool extensions, bool (*f)(void *arg, const struct overload *row), void *arg)
{
    const struct library_table *const tables[] = {
        &arith_table, &compare_table,   &container_table, &convert_table,    &text_table,
        &times_table, &shardhash_table, &ext_math_table,  &ext_encode_table, &ext_strings_table};
    size_t found = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        for (size_t i = 0; i < tables[t]->count; i++) {
            const struct overload *row = &tables[t]->rows[i];
            if (!slice_eq(function, slice_str(row->function)) || ((row->flags & OVERLOAD_EXTENSION) && !extensions)) continue;
            found++;
            if (!f(arg, row)) return found;
        }
    }
    return found;
}
