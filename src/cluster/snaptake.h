/* Takes the snapshot of a group: of what its seat has, or of the state of groups 0 and 1. Blocks: for the snapper. Private to cluster/snaphost.h's files. */
#pragma once
#include "cluster/snapcore.h"
#include "cluster/snapshelf.h"
#include "cluster/snapwait.h"

/* 0: it is durable, and out tells of it; it stands on no shelf yet. -ECANCELED, -EINTR: not now; -EALREADY: there is one of the same index; else what a file call said.
 * As long as only the log is waited for, hurry ends it (-ECANCELED): something else is more urgent. */
int snaptake_run(struct snapcore *c, uint32_t group, const struct snapwait_tether *tether, const atomic_bool *hurry, struct snapshelf_item *out);
