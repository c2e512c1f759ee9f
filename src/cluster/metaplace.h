/* A new cluster: replicas spread over nodes, and the first entries of groups 0 and 1. Pure; the same input gives the same bytes. */
#pragma once
#include "cluster/metacode.h"

enum { METAPLACE_SHARDS = 16 }; /* data groups of a new cluster, unless asked otherwise */

struct metaplace_node {
    uint64_t id;
    struct slice zone;
    uint32_t replicas; /* that it has; counted on */
};

/* Members of n_groups groups, each of rf voters (of all nodes if they are fewer): on as many zones as there are, and within that even, so that without zones no two nodes differ by more than one.
 * Counts on in nodes[].replicas. */
void metaplace_spread(struct metaplace_node *nodes, uint32_t n_nodes, uint32_t n_groups, uint32_t rf, struct raftnode_members *out);

struct metaplace_cluster {
    uint8_t id[META_CLUSTER_ID]; /* random, not all zero */
    uint64_t seed;               /* of the hash of keys */
    enum space_mode default_mode;
    uint32_t shards;             /* 0: METAPLACE_SHARDS */
    uint32_t replication;        /* 0: the usual */
    const struct metacode_node *nodes; /* they become nodes 1, 2, ... */
    uint32_t n_nodes;
};

/* The members of groups 0, 1 and the data groups: shards + 2 sets. Gives; mem_free. */
struct raftnode_members *metaplace_groups(const struct metaplace_cluster *c, uint32_t *n);
/* The first entry of each group. Appends. */
void metaplace_entries(const struct metaplace_cluster *c, struct buf *group0, struct buf *group1);
