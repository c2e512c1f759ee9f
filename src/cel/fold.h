/* What an expression computes from constants alone is computed once, when it is compiled: literal lists and maps,
 * timestamp("..."), patterns. */
#pragma once
#include "cel/ast.h"
#include "cel/source.h"

/* Folds a checked tree. An error stays where it is, to be met or absorbed when the expression is evaluated, but for a
 * pattern that is no regular expression: false with the source's error set, unless `unchecked`. */
bool fold_constants(struct source *source, struct node *root, bool unchecked);
