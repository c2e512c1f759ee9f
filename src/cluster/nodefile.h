/* The files that say who a node is and where the others are: NODE and PEERS, in the folder `cluster` of its data directory. Text, one fact per line; replaced whole, so that a crash leaves the old one or the new one. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cluster/links.h"
#include "cluster/meta.h"

struct file_ops;

enum { NODEFILE_FOUNDERS_MAX = RAFTNODE_MEMBERS_MAX, NODEFILE_PEERS_MAX = 64 };

struct nodefile_founder {
    uint64_t id;
    uint64_t instance; /* 0: not met yet */
    char peer[WIRE_ADDRESS_MAX + 1], clients[WIRE_ADDRESS_MAX + 1];
};

struct nodefile {
    uint8_t cluster[META_CLUSTER_ID];
    uint64_t id, instance, seed, incarnation;
    bool has_log; /* something was committed in it: it cannot be missing */
    /* The first nodes of the cluster, if this is one of them. */
    uint32_t shards, replication;
    bool founded; /* its replicas were created, with the others' instances as they stand here */
    uint32_t n_founders;
    struct nodefile_founder founders[NODEFILE_FOUNDERS_MAX];
};

/* 0; -ENOENT: there is none; else -errno, -EINVAL if it makes no sense, and a reason that names the file. dir is the folder `cluster`. */
int nodefile_read(const struct file_ops *files, const char *dir, struct nodefile *out, struct buf *error);
int nodefile_write(const struct file_ops *files, const char *dir, const struct nodefile *n, struct buf *error);

struct nodefile_peers {
    uint32_t n;
    struct nodefile_peer {
        uint64_t id;
        char address[WIRE_ADDRESS_MAX + 1];
    } of[NODEFILE_PEERS_MAX];
};
void nodefile_put_peer(struct nodefile_peers *p, uint64_t id, const char *address);
void nodefile_del_peer(struct nodefile_peers *p, uint64_t id);
int nodefile_read_peers(const struct file_ops *files, const char *dir, struct nodefile_peers *out, struct buf *error); /* 0 and none if there is no file */
int nodefile_write_peers(const struct file_ops *files, const char *dir, const struct nodefile_peers *p);
