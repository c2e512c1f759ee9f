/* Making nodes of the tree. Each gives NULL, with the source's error set, if the tree got too deep. */
#pragma once
#include "cel/ast.h"
#include "cel/source.h"

/* A node with copies of the argument pointers. */
struct node *nodes_new(struct source *source, enum node_kind kind, uint32_t at, struct node *const *args, size_t count);
struct node *nodes_call(struct source *source, uint32_t at, const char *function, struct node *const *args, size_t count);
struct node *nodes_const(struct source *source, uint32_t at, struct cel_value value);
