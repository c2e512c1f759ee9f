/* The founding of a cluster: its first nodes meet before any of them votes.
 *
 * A node whose directory is new has promised nothing yet; one that lost its directory has, and does not know it: if it voted again, the cluster could lose what it acknowledged. The two look alike from the inside. So a new node of a new
 * cluster creates no replica until every other one has said that it is new as well, or that it was founded together with this one as it is now: told by its instance, the random number of its directory.
 *
 * Pure: the raft thread owns it. Messages are REQUEST frames of the group NODEFOUND_GROUP. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cluster/nodefile.h"
#include "cluster/wire.h"

enum { NODEFOUND_GROUP = 0xfffffffe, NODEFOUND_EVERY_MS = 100 };

struct nodefound {
    struct nodefile *who; /* its founders' instances are set here, as they are heard */
    uint64_t next_ms;
};

enum nodefound_step { NODEFOUND_WAIT, NODEFOUND_READY /* all others were heard: create, and note it in the file */, NODEFOUND_REFUSED /* another node was founded with a former life of this one */ };

void nodefound_init(struct nodefound *f, struct nodefile *who, uint64_t now);
/* What is to be said to others at this time, if anything: appends frames, the same for all. */
bool nodefound_tick(struct nodefound *f, uint64_t now, struct buf *frames);
/* A frame of the group. An answer, if one is due, is appended to frames. -EBADMSG: it makes no sense. */
int nodefound_frame(struct nodefound *f, uint64_t from, const struct wire_frame *frame, struct buf *frames, enum nodefound_step *step);
