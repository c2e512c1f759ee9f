/* The grammar of CEL: tokens to a tree, macros expanded (macros.h). */
#pragma once
#include "cel/ast.h"
#include "cel/source.h"

/* The tree of the whole source, in its arena, or NULL with the source's error set. */
struct node *parser_parse(struct source *source, bool extensions);
