/* Snapshots read: a group's seat, or the state of groups 0 and 1, becomes what a file has. Blocks: for the snapper. Private to cluster/snaphost.h's files. */
#pragma once
#include "cluster/groupsnap.h"
#include "cluster/snapcore.h"
#include "cluster/snapwait.h"

/* The group's snapshot at exactly this index, read to its end and found good, rewound. 0, or -errno and a sentence; then *out is NULL. */
int snapfill_open(const struct snapcore *c, uint32_t group, uint64_t index, struct groupsnap_reader **out, struct buf *why);
/* What was there goes, what r has comes (NULL: nothing, the state of an empty log). 0: it is so now. -EINTR: the tether was cut, or the group has left its seat, and what is there now is nothing whole, as
 * after any other error. */
int snapfill_run(const struct snapcore *c, uint32_t group, struct groupsnap_reader *r, const struct snapwait_tether *tether, struct buf *why);
