/* The entry op-step of group 1: an operation goes on, because a data group's log has what makes it so. Private to the files of cluster/metagroups.h. */
#pragma once
#include "cluster/metagroups.h"

bool metastep_apply(struct metagroups *m, const struct metacode_entry *e, struct meta_result *r);
