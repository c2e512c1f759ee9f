/* The members of a group: as bytes of an entry, as they were at each index, and one change after the other. */
#pragma once
#include "cluster/raftlib.h"
#include "cluster/raftnode.h"

struct raftgroup;

/* Every set of members that stands in the log, by index; the first one is that of the snapshot or of entry 1. */
struct raftmember_log {
    struct raftnode_members *v;
    uint32_t n, cap;
    uint64_t committed; /* the engine was told that the set at this index is committed */
    uint64_t told;      /* the caller was */
};

enum raftmember_step { RAFTMEMBER_IDLE, RAFTMEMBER_SPARING /* becomes a spare first */, RAFTMEMBER_CATCHING_UP, RAFTMEMBER_ASSIGNING, RAFTMEMBER_ENDED /* to be told */ };

struct raftmember_change {
    enum raftmember_step step;
    uint64_t node;
    enum raftnode_role goal;
    uint64_t index; /* of the entry that this step waits for */
    int rc;
    bool advancing;
};

/* The engine's encoding: version 1, number of members, and for each its number, address and role; zeros up to a multiple of 8. The address is the number as
 * decimal digits: where a node is found stands in the cluster's map. */
void raftmember_encode(struct buf *out, const struct raftnode_members *m);
/* Bytes from outside: 0 or -EBADMSG. out->index is left alone. */
int raftmember_decode(struct slice bytes, struct raftnode_members *out);
void raftmember_configuration(const struct raftnode_members *m, struct raft_configuration *out); /* gives; raft_configuration_close */
int raftmember_from(const struct raft_configuration *c, struct raftnode_members *out); /* 0 or -EBADMSG */

void raftmember_clear(struct raftmember_log *l);
void raftmember_add(struct raftmember_log *l, const struct raftnode_members *m);
void raftmember_truncate(struct raftmember_log *l, uint64_t index); /* those at index and behind */
void raftmember_forget(struct raftmember_log *l, uint64_t index);   /* those that were over before index */
const struct raftnode_members *raftmember_latest(const struct raftmember_log *l); /* NULL: none */
const struct raftnode_members *raftmember_at(const struct raftmember_log *l, uint64_t index); /* in force with entry `index`; NULL */
enum raftnode_role raftmember_role(const struct raftnode_members *m, uint64_t node); /* RAFTNODE_GONE: none; m may be NULL */
uint32_t raftmember_voters(const struct raftnode_members *m);

/* ---- of a group */
bool raftmember_sole_voter(const struct raftgroup *g); /* this node is the only one */
int raftmember_begin(struct raftgroup *g, uint64_t node, enum raftnode_role role); /* raftnode_change */
void raftmember_commit(struct raftgroup *g);  /* tells the engine of changes that are committed now */
void raftmember_advance(struct raftgroup *g); /* takes the next step of a change if its time has come */
void raftmember_reign_ended(struct raftgroup *g);
void raftmember_tell(struct raftgroup *g);
