/* The inside of a node, for the files of cluster/node.h. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "cluster/node.h"
#include "cluster/nodefile.h"
#include "cluster/nodefound.h"
#include "cluster/spread.h"

struct node {
    struct node_options o; /* what it points to lives as long as the node */
    const struct slog *log;
    struct node_calls calls;
    struct engine *engine;
    struct node_identity who;
    char dir[4000]; /* the folder `cluster` */
    struct raftthread *raft;
    struct seats *seats;
    struct snaphost *snapshots;
    atomic_bool started;
    struct spread spread;
    struct termboard *board;   /* of its groups */
    _Atomic uint64_t *leaders; /* [META_GROUPS_MAX] */
    struct raftthread_found *recovered;
    uint32_t to_recover;

    /* R */
    struct metahost *meta; /* NULL: the cluster is not founded yet */
    struct nodefile file;
    struct nodefile_peers peers;
    struct nodefound found;
    uint64_t now, look_at;
    struct node_joiner {
        uint64_t peer;
        struct wirecall_joiner *of;
    } *joiners;
    uint32_t n_joiners;

    pthread_mutex_t lock; /* of what follows */
    struct node_info info;
    struct raftnode_members *members; /* of each group, in the order of their numbers */
    uint32_t *member_groups, n_members;
};

/* ---- node_meta.c, R */
void node_make_meta(struct node *n); /* also before the thread runs */
void node_found_tick(struct node *n, uint64_t now);
int node_found_frame(struct node *n, uint64_t from, const struct wire_frame *f);
void node_publish(struct node *n); /* what others see of the cluster */
