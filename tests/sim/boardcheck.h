/* What a node sends, against its board of terms (cluster/termboard.h). Workers vouch for what stands there: nothing of a term leaves before the board says it. */
#pragma once
#include "base/slice.h"
#include "world.h"

struct raftnode;
struct termboard;

/* Frames are about to leave: fails the world if the board does not know of their term. Gives how many of them it was asked about. */
uint64_t boardcheck_frames(struct world *w, uint32_t node, const struct raftnode *raft, const struct termboard *board, struct slice frames);
