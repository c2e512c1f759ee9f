/* Commands that the raft thread answers (node_ask). The connection is away meanwhile, as for an errand (server/errands.h). */
#pragma once
#include "cluster/metahost.h"
#include "command/exec.h"

typedef void clusterquestion_shape(struct reply *out, struct slice text); /* the answer's form */
void clusterquestion_word(struct reply *out, struct slice text);           /* a word or two; OK if there is nothing to say */

/* Asks with the command's arguments from `first` to before `end`; its answer comes later. The server is a node. */
void clusterquestion_ask(struct exec *x, enum metahost_question asks, uint32_t first, uint32_t end, clusterquestion_shape *shape);
