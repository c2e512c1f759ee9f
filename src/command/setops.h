/* Set algebra: the functions behind SINTER, SUNION, SDIFF, their STORE forms and SINTERCARD. Rows are in sets.c. */
#pragma once
#include "command/command.h"

void setops_inter(struct exec *x);
void setops_union(struct exec *x);
void setops_diff(struct exec *x);
void setops_interstore(struct exec *x);
void setops_unionstore(struct exec *x);
void setops_diffstore(struct exec *x);
void setops_intercard(struct exec *x);
int setops_intercard_keys(const struct slice *argv, uint32_t argc, uint32_t *at, int max);
