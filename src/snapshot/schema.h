/* The schema of a database: what tables and indices there are and where their trees begin. Pages come from outside. */
#pragma once
#include "base/slice.h"
#include "snapshot/pages.h"

struct schema_item {
    struct slice type, name, sql; /* sql is empty where there is none, or where it lies in overflow pages */
    uint32_t root;                /* 0: a view or a trigger has no tree */
};

/* Calls `each` for every row of the schema; a result other than 0 ends the walk and is given. Items live for the call. 0, or an error. */
int schema_each(const struct page_source *source, int (*each)(void *arg, const struct schema_item *item), void *arg);
