/* For tests of the cluster's knowledge of itself: a cluster of made-up nodes, and entries that are proposed to it through their bytes. */
#pragma once
#include <stdio.h>

#include "base/mem.h"
#include "cluster/metagroups.h"
#include "cluster/metanodes.h"
#include "cluster/metaplace.h"

enum { METAKIT_NODES_MAX = 16 };

struct metakit {
    struct metanodes *nodes;
    struct metagroups *groups;
    struct meta_result r; /* of the last proposal */
    struct buf bytes;     /* of the last proposal */
    char text[METAKIT_NODES_MAX][4][32];
};

/* Node i (from 0) of a cluster: instance 100 + i, name n<i>, in one of `zones` zones (0: none). */
static inline struct metacode_node metakit_node(struct metakit *k, uint32_t i, uint32_t zones)
{
    char(*t)[32] = k->text[i % METAKIT_NODES_MAX];
    snprintf(t[0], 32, "10.0.0.%u:7001", i + 1);
    snprintf(t[1], 32, "10.0.0.%u:6379", i + 1);
    snprintf(t[2], 32, "n%u", i);
    snprintf(t[3], 32, "z%u", zones ? i % zones : 0);
    return (struct metacode_node){.instance = 100 + i, .peer = slice_str(t[0]), .client = slice_str(t[1]), .name = slice_str(t[2]), .zone = zones ? slice_str(t[3]) : SLICE("")};
}

static inline enum meta_code metakit_propose(struct metakit *k, const struct metacode_entry *e)
{
    k->bytes.len = 0;
    metacode_encode(e, &k->bytes);
    if (e->kind < METACODE_FOUND_MAP)
        metanodes_apply(k->nodes, buf_slice(&k->bytes), &k->r);
    else
        metagroups_apply(k->groups, buf_slice(&k->bytes), &k->r);
    return k->r.code;
}

static inline void metakit_init(struct metakit *k, uint32_t nodes, uint32_t zones, uint32_t shards, uint32_t rf, enum space_mode mode)
{
    struct metacode_node of[METAKIT_NODES_MAX];
    struct buf b0 = {0}, b1 = {0};
    memset(k, 0, sizeof *k);
    k->nodes = metanodes_new();
    k->groups = metagroups_new();
    for (uint32_t i = 0; i < nodes; i++) of[i] = metakit_node(k, i, zones);
    metaplace_entries(&(struct metaplace_cluster){.id = "a cluster of ou", .seed = 7, .default_mode = mode, .shards = shards, .replication = rf, .nodes = of, .n_nodes = nodes}, &b0, &b1);
    metanodes_apply(k->nodes, buf_slice(&b0), &k->r);
    CHECK(k->r.code == META_DONE);
    metagroups_apply(k->groups, buf_slice(&b1), &k->r);
    CHECK(k->r.code == META_DONE);
    buf_fini(&b0);
    buf_fini(&b1);
}

static inline void metakit_fini(struct metakit *k)
{
    metanodes_free(k->nodes);
    metagroups_free(k->groups);
    buf_fini(&k->bytes);
}

static inline enum meta_code metakit_begin(struct metakit *k, const struct metaops_plan *plan)
{
    struct metacode_entry e = {.kind = METACODE_OP_BEGIN};
    e.begin.driver = 1;
    e.begin.plan = *plan;
    return metakit_propose(k, &e);
}

static inline enum meta_code metakit_step(struct metakit *k, uint64_t op, enum metaops_step from, enum metaops_step to, struct slice boundary)
{
    struct metacode_entry e = {.kind = METACODE_OP_STEP};
    e.step.op = op;
    e.step.from = from;
    e.step.to = to;
    e.step.boundary = boundary;
    return metakit_propose(k, &e);
}

static inline enum meta_code metakit_told(struct metakit *k, uint32_t group, const struct raftnode_members *members)
{
    struct metacode_entry e = {.kind = METACODE_MEMBERS};
    e.members.group = group;
    e.members.members = *members;
    return metakit_propose(k, &e);
}
