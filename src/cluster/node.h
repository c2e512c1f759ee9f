/* A node of a cluster: one raft thread with everything that it turns (cluster/raftthread.h, seat.h, metahost.h, snaphost.h), and the table of who leads what that workers look at. What is below the server and above Raft.
 *
 *     node_open      the folder, its identity, the log; a new folder becomes a new node: one of a new cluster's first, or one that has joined
 *     node_start     after the engine's workers run: the threads; groups come back one after the other
 *     node_stop      hands leadership over, ends the threads; then node_close
 *
 * Files, in the data directory's folder `cluster`: NODE (who it is: cluster, number, instance, incarnation, the seed of the hash of keys), raft/ (the log), snapshots/. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slog.h"
#include "cluster/metahost.h"
#include "cluster/raftthread.h"
#include "cluster/seat.h"
#include "cluster/snaphost.h"

struct node;
struct termboard;
struct wirepub;

/* Who a node is: what its file says. */
struct node_identity {
    uint8_t cluster[META_CLUSTER_ID];
    uint64_t id, instance;
    uint64_t incarnation; /* of this run: one more than that of the last */
    uint64_t seed;        /* of the hash of keys; the cluster's */
    bool fresh;           /* made by this start */
};

struct node_peer { /* of a new cluster */
    uint64_t id;
    const char *address; /* of the cluster's port: host:port */
    const char *clients; /* of the clients' port */
};

struct node_options {
    const char *dir;       /* the data directory; there */
    const char *listen;    /* the cluster's port: host:port */
    const char *advertise; /* as other nodes reach it; NULL: the same */
    const char *clients;   /* as clients reach this node */
    const char *name, *zone; /* may be empty */
    /* A fresh folder: either the same list on each of the first nodes, with this node's number, */
    uint64_t id;
    const struct node_peer *peers;
    uint32_t n_peers;
    uint32_t shards, replication; /* of the new cluster; 0: the usual */
    /* or what JOIN of a node of the cluster answered (METAHOST_JOIN): lines "cluster HEX", "node NUMBER", "seed HEX", "peer NUMBER ADDRESS". */
    const char *joined;
    struct linksecret secret; /* that nodes prove to each other; may be none */
    const struct file_ops *files, *writes;
    const struct slog *log;
    uint32_t election_ms, heartbeat_ms; /* 0: the usual */
    uint64_t segment_bytes, snapshot_bytes; /* of the log; 0: the usual */
};

/* The server's side. */
struct node_calls {
    void *ctx;
    void (*told)(void *ctx); /* R: holds may have an outcome */
    /* R: a REQUEST or an ANSWER for a data group, whole. Borrowed; must not block. Negative: it makes no sense. */
    int (*request)(void *ctx, uint64_t from, uint32_t group, struct slice message);
    int (*answer)(void *ctx, uint64_t from, uint32_t group, struct slice message);
    void (*down)(void *ctx, uint64_t peer); /* R: what was sent to it, or it sent, may be lost */
    void (*up)(void *ctx, uint64_t peer, const struct links_lanes *how); /* R: it can be reached, and its workers can be called */
    void (*lane)(void *ctx, uint64_t peer, uint16_t lane, int fd, struct slice greeting); /* R: one of its workers has called (links_calls.on_lane) */
    void (*published)(void *ctx, uint64_t from, const struct wirepub *what); /* R: another node's node_spread. Borrowed; must not block. */
    void (*left)(void *ctx); /* R: this node was asked to leave the cluster and has: the server can stop */
    void (*failed)(void *ctx, const char *why); /* this node cannot go on: the process ends */
};

/* The random number of this directory, made if there is none: a node that is to join says it in its question. -errno and a reason. */
int node_instance(const struct node_options *o, uint64_t *instance, struct buf *error);
/* Whether the directory has a node already: it needs neither peers nor an answer to JOIN then. */
bool node_is_known(const struct node_options *o);
/* Reads or makes the identity: the engine needs its seed. -errno and a reason. */
int node_identify(const struct node_options *o, struct node_identity *out, struct buf *error);
/* After node_identify; before the engine's workers run. NULL and a reason. e has room for seats (shard/seating.h). */
struct node *node_open(const struct node_options *o, const struct node_identity *who, struct engine *e, struct walk *w, const struct node_calls *calls, struct buf *error);
int node_start(struct node *n, struct buf *error);
void node_stop(struct node *n, uint32_t grace_ms); /* workers still run */
void node_close(struct node *n);                   /* workers have ended */

/* ---- any thread */
struct seats *node_seats(struct node *n);
const struct termboard *node_board(const struct node *n);
uint64_t node_id(const struct node *n);
uint64_t node_leader(const struct node *n, uint32_t group); /* a hint; 0: not known */
uint32_t node_replicas(struct node *n, uint32_t group, uint64_t *nodes, uint32_t max); /* that have one, as its log last said; gives how many */
void node_leader_is(struct node *n, uint32_t group, uint64_t leader); /* another node said so: a hint */
void node_send(struct node *n, uint64_t peer, struct slice frames); /* leaves with the next node_hurry */
void node_secret(struct node *n, const struct linksecret *secret); /* from now on: if it is another one, all connections to nodes are made anew */
void node_hurry(struct node *n); /* the raft thread is woken if there is anything for it to do. Once per turn of a worker */
/* A message for the subscribers of all other nodes, in the order of these calls, at most once (cluster/spread.h). */
void node_spread(struct node *n, const struct wirepub *what);
bool node_spreads_much(const struct node *n); /* much is waiting: who can pause should */
void node_ask(struct node *n, enum metahost_question q, const struct slice *argv, uint32_t argc, uint32_t timeout_ms, metahost_answer *answer, void *ctx); /* argv is copied; the answer comes on R */
/* metahost_moves and metahost_step; the answers come on R. answer takes what it is given; NULL: the cluster is not founded yet. boundary is copied. */
void node_moves(struct node *n, void (*answer)(void *ctx, struct metahost_moves *m), void *ctx);
void node_step(struct node *n, uint64_t op, enum metaops_step from, enum metaops_step to, struct slice boundary, uint32_t timeout_ms, void (*done)(void *ctx, uint64_t version), void *ctx);
bool node_is_up(struct node *n); /* the groups of the start are back, and the map is known */

struct node_info {
    struct node_identity who;
    struct raftthread_stats raft;
    struct snaphost_info snapshots;
    uint32_t nodes, nodes_alive; /* of the cluster, as heard of here */
    uint32_t nodes_reached;      /* those of them that there is a connection to */
    uint32_t groups, groups_led; /* of the cluster; those whose leader is known */
    uint64_t map_version;
    uint32_t operations;         /* of topology, under way */
    uint64_t spread, spread_dropped; /* messages times nodes */
};
void node_look(struct node *n, struct node_info *out);
