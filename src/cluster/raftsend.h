/* Messages of a group as frames to its peers. */
#pragma once
#include "cluster/raftlib.h"

struct raftgroup;

/* A message that the engine wants to be sent; it is changed on the way. Waits in g->held while term and vote are not durable (R1). */
void raftsend_message(struct raftgroup *g, struct raft_message *m);
void raftsend_held(struct raftgroup *g); /* they are durable: what waits goes out */
