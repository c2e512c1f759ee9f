/* What the cluster knows about itself, as text: for `sherd cluster status`, CLUSTER NODES and log lines. Pure. */
#pragma once
#include "base/buf.h"
#include "cluster/metagroups.h"
#include "cluster/metanodes.h"

enum { METAVIEW_NODE_NAME = 40 }; /* hex digits that Redis clients know a node by: 24 of the cluster, 16 of the node */

/* What is known here and now and is no state. Functions may be NULL: then nobody leads, everybody is alive and reached. */
struct metaview_hints {
    void *ctx;
    uint64_t myself;                                   /* 0: none of them */
    uint64_t (*leader)(void *ctx, uint32_t group);     /* 0: not known */
    bool (*alive)(void *ctx, uint64_t node);           /* it is heard of */
    bool (*reached)(void *ctx, uint64_t node);         /* there is a connection to it from here */
};

void metaview_name(char out[METAVIEW_NODE_NAME + 1], const uint8_t cluster[META_CLUSTER_ID], uint64_t node);
void metaview_node_name(char out[METAVIEW_NODE_NAME + 1], const struct metanodes *m, uint64_t node);

/* Tables with a head line, columns padded with spaces, a line each; those that are gone are left out. */
void metaview_nodes(struct buf *out, const struct metanodes *nodes, const struct metagroups *groups, const struct metaview_hints *h);
void metaview_groups(struct buf *out, const struct metagroups *groups, const struct metaview_hints *h);
void metaview_ops(struct buf *out, const struct metagroups *groups, const struct metaview_hints *h); /* nothing if there are none */

/* The answer of CLUSTER NODES without slots: a node's own slots are whatever the caller says of each (slots may be NULL), as every node serves every key. */
void metaview_cluster_nodes(struct buf *out, const struct metanodes *nodes, const struct metaview_hints *h, const char *slots);
