/* The entry op-begin of group 1: whether an operation may begin, and what it takes when it does. Private to the files of cluster/metagroups.h. */
#pragma once
#include "cluster/metagroups.h"

/* True: it has begun, and its number is in r->id. */
bool metabegin_apply(struct metagroups *m, uint64_t driver, const struct metaops_plan *plan, struct meta_result *r);
