/* What the configuration says of a node of a cluster: who the first nodes are, where this one is reached, and what does not go together. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cluster/node.h"

struct config;

enum { CLUSTERCONF_ADDRESS_MAX = 272, CLUSTERCONF_PEERS_MAX = 16, CLUSTERCONF_SEGMENT_MIN = 8 * 1024 * 1024 };

/* The first nodes of a new cluster: "1=host:port/host:port 2=...", the cluster's port and the clients'. Their numbers are 1, 2, ..., each once; given in that order. */
struct clusterconf_peers {
    struct node_peer of[CLUSTERCONF_PEERS_MAX];
    uint32_t n;
    char *text; /* that they point into */
};
/* 0, or -1 and the reason; clusterconf_fini in every case. An empty list is none. */
int clusterconf_peers(struct clusterconf_peers *p, const char *words, struct buf *error);
void clusterconf_fini(struct clusterconf_peers *p);

/* Where this node listens for others, and where others and clients reach it. */
struct clusterconf_addresses {
    char listen[CLUSTERCONF_ADDRESS_MAX], advertise[CLUSTERCONF_ADDRESS_MAX], clients[CLUSTERCONF_ADDRESS_MAX];
};
/* `me`: what the list of peers says of this node, or NULL; cluster-advertise, where it is set, says more. -1 and the reason. */
int clusterconf_addresses(struct clusterconf_addresses *a, const struct config *cfg, const struct node_peer *me, struct buf *error);

/* Part of config_check: options that contradict each other. -1 and the reason. */
int clusterconf_check(const struct config *cfg, struct buf *why);

/* The cluster port of a server with these ports. */
uint16_t clusterconf_port(int64_t cluster_port, int64_t port);
