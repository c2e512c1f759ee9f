/* What should change next about who has which replica and who leads: a pure function from what is known now to the next few steps. It keeps nothing between two calls; what it
 * asked for it sees again as operations under way (cluster/metaops.h, move-replica). Whoever leads group 1 calls it now and then.
 *
 * In this order, and a group that one rule has a step for is left alone by those behind it:
 *
 *   undo      a move whose newcomer is dead or gone is taken back
 *   repair    a replica on a node that has been silent for too long, or is gone, is made anew on another; a group with too few replicas gets one
 *   drain     replicas of a node that leaves go to others; leadership first
 *   trim      a group with more replicas than wanted loses one: a dead one first, then one that leaves, then one of the fullest node
 *   spread    a group with two replicas in one zone moves one to a zone where it has none
 *   balance   replicas from the fullest node to the emptiest if they differ by two or more; leaderships likewise
 *
 * Promises: no step for a group without a live majority; none after which the live replicas that are left would be no majority of it; a replica is added before another one is removed; at most
 * moves_per_node moves at a time come from a live node or go to it; no node gets more replicas than it has room for. Each step of the last three rules makes a sum smaller that none of them makes larger, so they end. */
#pragma once
#include "cluster/metagroups.h"
#include "cluster/metanodes.h"

struct placer_node {
    uint64_t id;
    enum metacode_node_state state;
    struct slice zone; /* borrowed from the nodes */
    bool alive;
    bool closed;            /* its log has no room, it cannot be reached, or it has said nothing for a moment: it gets no replica and no leadership */
    uint64_t dead_since_ms; /* if not alive */
    uint32_t room;          /* replicas that it can have at most; 0: any number */
    uint64_t load;          /* any measure, the same for all: of two equal nodes the one with less gets the replica */
};

struct placer_group {
    uint32_t id;
    struct raftnode_members members; /* as the group last told, or as wanted where it told nothing */
    bool busy;                       /* an operation works on it */
    bool moving, undoing;            /* and it is a move of a replica: */
    uint64_t op, from, to;
    uint64_t leader;                      /* 0: not known */
    uint64_t last;                        /* index of the leader's log */
    uint64_t match[RAFTNODE_MEMBERS_MAX]; /* of the members, as the leader knows; for itself too */
};

struct placer_view {
    uint64_t now_ms;
    uint32_t replication, moves_per_node;
    uint64_t dead_after_ms;
    uint64_t lag_max; /* a member that is further behind than this does not count as up to date */
    uint32_t n_nodes, n_groups;
    struct placer_node *nodes;   /* ascending by id; those that are gone too, as far as they are known */
    struct placer_group *groups; /* ascending by id */
};

enum placer_kind { PLACER_MOVE /* from 0: adds, to 0: removes */, PLACER_TRANSFER /* of leadership, from and to */, PLACER_UNDO /* of the operation */ };

enum placer_reason {
    PLACER_NEWCOMER_DEAD,
    PLACER_DEAD,
    PLACER_TOO_FEW,
    PLACER_DRAIN,
    PLACER_DRAIN_LEADER,
    PLACER_TOO_MANY,
    PLACER_LEADER_LEAVES,
    PLACER_ZONES,
    PLACER_BALANCE,
    PLACER_LEADERS,
    PLACER_REASONS,
};
const char *placer_reason_text(enum placer_reason r); /* "its node has been silent for too long" */

struct placer_step {
    enum placer_kind kind;
    enum placer_reason reason;
    uint32_t group;
    uint64_t op;       /* undo */
    uint64_t from, to; /* nodes */
};

/* A view of the two states, in which every node is alive and nothing is known of leaders: the caller sets alive, dead_since_ms, load, leader, last and match. Keeps nodes. */
void placer_view_init(struct placer_view *v, const struct metanodes *nodes, const struct metagroups *groups, uint64_t now_ms);
void placer_view_fini(struct placer_view *v);

/* Up to max steps that may be taken together. Gives how many. */
uint32_t placer_plan(const struct placer_view *v, struct placer_step *out, uint32_t max);
/* Whether a node that drains has nothing left: no member, nor about to be one. */
bool placer_empty(const struct placer_view *v, uint64_t node);
