/* Redis's slots, for clients that ask for them: every node of a cluster answers for every key, so all slots are those of the node that is asked, and the others stand in for it. Pure. */
#pragma once
#include <stdint.h>

#include "base/slice.h"
#include "resp/reply.h"

enum { CLUSTERSLOTS = 16384 };

uint16_t clusterslots_of(struct slice key); /* with the rule of {tags} */

/* Answers of CLUSTER SLOTS and CLUSTER SHARDS, from the text of CLUSTER NODES (cluster/metaview.h). Lines that make no sense are left out. */
void clusterslots_slots(struct reply *out, struct slice nodes);
void clusterslots_shards(struct reply *out, struct slice nodes);
