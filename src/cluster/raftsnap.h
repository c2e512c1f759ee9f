/* Snapshots of a group: marks in the log, and those that a leader wants this replica to take. Their bytes travel elsewhere; here they are a descriptor. */
#pragma once
#include "cluster/raftlib.h"
#include "cluster/raftnode.h"

struct raftgroup;

enum raftsnap_step {
    RAFTSNAP_NONE,
    RAFTSNAP_WANTED,     /* install_wanted is to be told */
    RAFTSNAP_FETCHING,   /* told */
    RAFTSNAP_MARKING,    /* the caller has it; the log's mark is not durable yet */
    RAFTSNAP_GIVING_UP,  /* it could not be had; the engine begins anew when its log is durable */
};

struct raftsnap_state {
    enum raftsnap_step step;
    uint64_t from, index, term;
    struct raftnode_members members;
    struct buf descriptor;
    uint64_t batch;       /* of the log, with the last mark; 0: it is durable and told */
    uint64_t batch_index; /* that mark's */
};

static inline bool raftsnap_installing(const struct raftsnap_state *s) { return s->step != RAFTSNAP_NONE; }

void raftsnap_fill(struct raftgroup *g, struct raft_install_snapshot *m, struct buf *descriptor); /* before it is sent; gives m->conf */
/* Takes conf and data out of a message that came, and steps the engine without them. */
void raftsnap_receive(struct raftgroup *g, struct raft_message *m);
int raftsnap_taken(struct raftgroup *g, uint64_t index, uint32_t trailing); /* raftnode_snapshotted */
int raftsnap_fetched(struct raftgroup *g, uint64_t index, int rc);          /* raftnode_installed */
void raftsnap_persisted(struct raftgroup *g);
void raftsnap_tell(struct raftgroup *g);
