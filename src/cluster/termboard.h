/* What a node's raft thread lets its workers know of its groups: in which term each replica is, and who votes. So a worker can say for its node that it knows of no later term, and judge what those of other nodes say
 * (docs/decisions/027).
 *
 * R puts it here before any frame leaves that rests on it: who reads an older term here may be sure that this node has not yet voted in a later one, as far as anybody can know. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cluster/raftnode.h"

struct termboard;

struct termboard_group {
    uint64_t term; /* 0: no replica is here */
    uint32_t n_voters; /* as the replica's log says last, committed or not */
    uint64_t voters[RAFTNODE_MEMBERS_MAX];
};

struct termboard *termboard_new(uint32_t groups); /* with numbers below that */
void termboard_free(struct termboard *b);

/* R. */
void termboard_put(struct termboard *b, uint32_t group, const struct termboard_group *what);

/* Any thread. 0: no replica is here. */
uint64_t termboard_term(const struct termboard *b, uint32_t group);
void termboard_get(const struct termboard *b, uint32_t group, struct termboard_group *out);
