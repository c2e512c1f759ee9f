/* Reads that are linearizable without a log entry: the leader notes its commit index and asks the others whether they know of a later term. One frame to each
 * peer carries the question for all groups and reads of a turn.
 *
 * Only as many are asked as make a majority: those who answered last; everybody, if nobody has answered yet in this reign, or if they are late. */
#pragma once
#include "cluster/raftnode.h"

struct raftgroup;
struct wire_frame;

struct raftread {
    uint64_t ticket;
    uint64_t index; /* the commit index when it was asked for */
    uint64_t probe; /* an answer to this probe or a later one counts */
};

struct raftread_state {
    struct raftread *open; /* ascending by probe */
    uint32_t n, cap;
    uint64_t *failed; /* tickets */
    uint32_t n_failed, cap_failed;
    bool ask;         /* with the next flush */
    bool some;        /* not everybody was asked */
    uint64_t asked;   /* when, at last */
    uint64_t since;   /* there were none open, or some were confirmed: those that are open are not older */
    uint32_t n_acks;
    struct {
        uint64_t node, probe; /* the latest that it answered */
    } acks[RAFTNODE_MEMBERS_MAX];
};

void raftread_fini(struct raftgroup *g);
void raftread_add(struct raftgroup *g, uint64_t ticket);
void raftread_reign_ended(struct raftgroup *g); /* all open reads fail */
uint64_t raftread_remind(struct raftgroup *g);  /* asks again if answers are late; gives when to look again */
void raftread_ask(struct raftgroup *g);         /* in flush: puts the group into the peers' probes */
void raftread_tell(struct raftgroup *g);        /* reads that are confirmed, and those that failed */

/* Frames of probes, for all groups. 0 or -EBADMSG. */
int raftread_receive(struct raftnode *n, uint64_t from, const struct wire_frame *f);
void raftread_send(struct raftnode *n); /* in flush: ends the probes that were begun */
