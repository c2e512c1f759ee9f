/* The cluster's own state machines on this node, and what follows from them: groups 0 and 1 (cluster/meta.h), the map that the engine routes by, where groups lead, which replicas this node has; joining, leaving, moving replicas.
 *
 * Every node has a replica of groups 0 and 1: three of them vote, the others follow. So everybody has the map and knows the nodes. Whoever leads group 0 lets nodes in and declares them gone; whoever leads group 1 looks after placement
 * (cluster/placer.h) and drives its operations; every leader carries out the membership changes of its own groups that group 1 wants.
 *
 * Pure, as the state machines are: no clock, no socket, no thread of its own; the raft thread owns it, and a simulator can. Time comes in by metahost_tick.
 *
 * Who leads what: of groups that have a replica here their own Raft says it; of others the nodes' reports (STATUS frames, which each node sends to all others several times a second) say it. It is a hint. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/slog.h"
#include "cluster/links.h"
#include "cluster/metagroups.h"
#include "cluster/metanodes.h"
#include "cluster/metaplace.h"
#include "cluster/mover.h"
#include "cluster/raftnode.h"

struct metahost;
struct wire_frame;

/* What it needs of the node; all on the raft thread. */
struct metahost_calls {
    void *ctx;
    int (*propose)(void *ctx, uint32_t group, uint64_t term, struct slice data, uint64_t *index); /* as raftnode_submit */
    int (*create)(void *ctx, uint32_t group, const struct raftnode_member *members, uint32_t n); /* replicas of this node; data groups get their seat */
    int (*join)(void *ctx, uint32_t group);
    void (*drop)(void *ctx, uint32_t group);
    void (*transfer)(void *ctx, uint32_t group, uint64_t to);
    int (*change)(void *ctx, uint32_t group, uint64_t node, enum raftnode_role role); /* 0: begun, ends with metahost_changed */
    int (*look)(void *ctx, uint32_t group, struct raftnode_info *out); /* 0 or -ENOENT */
    void (*rewind)(void *ctx, uint32_t group, uint64_t index);
    void (*peer_put)(void *ctx, uint64_t node, const char *address);
    void (*peer_del)(void *ctx, uint64_t node);
    void (*send)(void *ctx, uint64_t peer, struct slice frames);
    /* The map in which a shard is a group; takes the reference. */
    void (*map)(void *ctx, struct space_map *m);
    /* This node was declared gone, or its data is of another cluster's format: it must end. */
    void (*failed)(void *ctx, const char *why);
    /* It was asked to leave, has nothing left, and is no part of the cluster any more. NULL: that is a failure, too. */
    void (*left)(void *ctx);
    /* Whether there is a connection to a peer, so that what is sent may arrive. NULL: there always is. */
    bool (*reaches)(void *ctx, uint64_t peer);
};

struct metahost_options {
    uint64_t node, incarnation; /* this one; incarnation rises with every start */
    uint64_t now, seed;
    uint32_t seats; /* replicas of data groups that this node has room for */
    uint8_t cluster[META_CLUSTER_ID];
    struct metacode_node me;     /* instance, addresses (of the cluster's port, and of the clients'), name, zone; copied */
    const struct metaplace_cluster *founding; /* this node is one of a new cluster's first: what it looks like; NULL: the cluster is there. Copied. The same at later starts
                                               * too, as far as it is known: it is of use until the cluster is founded, and does no harm then. */
    struct metahost_calls calls;
    const struct slog *log;      /* kept */
};

struct metahost *metahost_new(const struct metahost_options *options);
void metahost_free(struct metahost *h);
/* A new node of a new cluster: its replicas are created. Nothing for one that was here before (its log has them). */
void metahost_found(struct metahost *h);

/* A node that was a peer when this one last ran, or that JOIN named: it is one until group 0 says otherwise. */
void metahost_peer(struct metahost *h, uint64_t node, const char *address);

/* ---- upcalls of raftthread_app. role, members, stranger and changed: of all groups; the others of groups 0 and 1. They note what they bring, and tick acts: metahost_next says that it should soon. (What raftnode allows within upcalls is
 * all that happens there: rewind; answers to questions.) */
void metahost_committed(struct metahost *h, uint32_t group, const struct raftnode_entry *entries, uint32_t n);
void metahost_truncated(struct metahost *h, uint32_t group, uint64_t index); /* its state never runs ahead: it just goes on */
void metahost_role(struct metahost *h, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader);
void metahost_members(struct metahost *h, uint32_t group, const struct raftnode_members *members);
void metahost_stranger(struct metahost *h, uint32_t group, uint64_t from);
void metahost_changed(struct metahost *h, uint32_t group, uint64_t node, enum raftnode_role role, int rc);
int metahost_frame(struct metahost *h, uint64_t from, const struct wire_frame *f); /* STATUS, and REQUEST and ANSWER frames of groups 0 and 1: 0 or -EBADMSG */
void metahost_up(struct metahost *h, uint64_t peer, enum links_way way);
bool metahost_caller(struct metahost *h, const struct wire_hello *hello); /* a node that links do not know: may it in? */
void metahost_tick(struct metahost *h, uint64_t now);
uint64_t metahost_next(const struct metahost *h); /* when tick has something to do next, at the latest */

/* Snapshots of groups 0 and 1, for snaphost_options. */
void metahost_state(struct metahost *h, uint32_t group, struct buf *out, uint64_t *index, uint64_t *term);
bool metahost_restore(struct metahost *h, uint32_t group, struct slice state, uint64_t index);
void metahost_members_of(const struct metahost *h, uint32_t group, struct raftnode_members *out); /* as this replica last heard */

/* ---- what the node reports of itself in its next STATUS */
struct metahost_report {
    uint64_t keys, bytes, free_bytes, ops_per_s;
    bool full; /* its log has no room: it hands over what it leads, and gets nothing */
};
void metahost_report(struct metahost *h, const struct metahost_report *r);

/* ---- asking. The answer is a call, once, on the raft thread, within timeout_ms: rc 0 and text (a result, lines or a table), or -errno and a sentence. Proposals go to whoever leads, and are repeated until they are answered; a
 * proposal that timed out may yet be applied (-ETIMEDOUT). */
typedef void metahost_answer(void *ctx, int rc, struct slice text);

enum metahost_question {
    METAHOST_JOIN,    /* argv: instance, cluster address, client address, name, zone. Text: lines of what a new node must know: "cluster HEX", "node NUMBER", "seed HEX" (of the map), "peer NUMBER ADDRESS" of each other node */
    METAHOST_LEAVE,   /* argv: node. Its replicas are moved away; it is gone when none is left. Text: "draining" */
    METAHOST_RETURN,  /* argv: node. Calls that off */
    METAHOST_REMOVE,  /* argv: node. It is dead for good: its replicas are made anew elsewhere. Refused while it is heard of. */
    METAHOST_MOVE,    /* argv: group, from, to (nodes). A replica. Text: the number of the operation */
    METAHOST_LEAD,    /* argv: group, node. Leadership goes there, if it is a voter. */
    METAHOST_SET,     /* argv: setting, number */
    METAHOST_SPACE,   /* argv: key space, mode. Its keys go where that says; it is answered when that has begun */
    METAHOST_SPLIT,   /* argv: key space, key. The range that holds the key is cut before it */
    METAHOST_MERGE,   /* argv: key space, key. The range that begins there is joined with the one before it, if both are in one group */
    METAHOST_MOVE_RANGE, /* argv: key space, key, group. The range that holds the key goes there; it is answered when that has begun */
    METAHOST_SPLIT_GROUP, /* argv: group [, hash (else: the middle of its largest interval)]. What lies from there on in that interval goes to a new group. Text: its number; it is answered when that has begun */
    METAHOST_STATUS,  /* no argv. Text: tables of nodes, groups and operations (cluster/metaview.h) */
    METAHOST_NODES,   /* no argv. Text: as CLUSTER NODES has it */
    METAHOST_QUESTIONS,
};
void metahost_ask(struct metahost *h, enum metahost_question q, const struct slice *argv, uint32_t argc, uint32_t timeout_ms, metahost_answer *answer, void *ctx);

/* ---- operations that carry keys: what the mover of whoever leads group 1 (cluster/mover.h) has to do, as group 1's state is now */
struct metahost_moves {
    uint64_t term;         /* of this node's leadership of group 1; 0: it does not lead, and there is nothing else */
    struct space_map *map; /* has a reference */
    uint32_t n;
    struct mover_op *ops;
    /* private: what they point to */
    struct buf *plans;
    void **pieces;
    uint32_t *groups, n_groups; /* all data groups */
};
struct metahost_moves *metahost_moves(const struct metahost *h); /* metahost_moves_free */
void metahost_moves_free(struct metahost_moves *m);
/* Proposes a step of one. done is called once, within timeout_ms: the step is so, and the map has this version or a later one; 0: nobody knows, or it cannot be. */
void metahost_step(struct metahost *h, uint64_t op, enum metaops_step from, enum metaops_step to, struct slice boundary, uint32_t timeout_ms, void (*done)(void *ctx, uint64_t version), void *ctx);

/* ---- looking, on the raft thread */
uint64_t metahost_leader(const struct metahost *h, uint32_t group); /* a hint; 0: not known */
uint64_t metahost_live_leader(const struct metahost *h, uint32_t group); /* 0 also if it is not heard of any more */
const struct metanodes *metahost_nodes(const struct metahost *h);
const struct metagroups *metahost_groups(const struct metahost *h);
bool metahost_alive(const struct metahost *h, uint64_t node); /* heard of within some seconds */
bool metahost_reaches(const struct metahost *h, uint64_t node); /* what is sent to it may arrive: it may be heard of and not be reached, for instance at a wrong address */
