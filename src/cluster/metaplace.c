/* One replica after the other goes to the node that has least, in a zone that the group has least of. */
#include "cluster/metaplace.h"

#include "base/mem.h"
#include "cluster/metanodes.h"

static uint32_t in_zone(const struct metaplace_node *nodes, uint32_t n, const struct raftnode_members *m, struct slice zone)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) found += slice_eq(nodes[i].zone, zone) && meta_members_has(m, nodes[i].id);
    return found;
}

/* Nodes are tried from `first` on, so that equals take turns. */
static struct metaplace_node *choose(struct metaplace_node *nodes, uint32_t n, uint32_t first, const struct raftnode_members *m)
{
    struct metaplace_node *best = NULL;
    uint32_t best_zone = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct metaplace_node *node = &nodes[(first + i) % n];
        if (meta_members_has(m, node->id)) continue;
        uint32_t zone = in_zone(nodes, n, m, node->zone);
        if (best && (zone > best_zone || (zone == best_zone && node->replicas >= best->replicas))) continue;
        best = node;
        best_zone = zone;
    }
    return best;
}

void metaplace_spread(struct metaplace_node *nodes, uint32_t n_nodes, uint32_t n_groups, uint32_t rf, struct raftnode_members *out)
{
    CHECK(n_nodes && rf && rf <= RAFTNODE_MEMBERS_MAX);
    for (uint32_t g = 0; g < n_groups; g++) {
        out[g] = (struct raftnode_members){0};
        for (uint32_t i = 0; i < rf && i < n_nodes; i++) {
            struct metaplace_node *node = choose(nodes, n_nodes, g % n_nodes, &out[g]);
            meta_members_set(&out[g], node->id, RAFTNODE_VOTER);
            node->replicas++;
        }
    }
}

static uint32_t replication_of(const struct metaplace_cluster *c) { return c->replication ? c->replication : (uint32_t)metanodes_settings[METACODE_REPLICATION].usual; }

struct raftnode_members *metaplace_groups(const struct metaplace_cluster *c, uint32_t *n)
{
    *n = (c->shards ? c->shards : METAPLACE_SHARDS) + META_FIRST_DATA_GROUP;
    struct raftnode_members *groups = mem_zalloc(*n * sizeof *groups);
    struct metaplace_node *nodes = mem_zalloc(c->n_nodes * sizeof *nodes);
    for (uint32_t i = 0; i < c->n_nodes; i++) nodes[i] = (struct metaplace_node){.id = i + 1, .zone = c->nodes[i].zone};
    metaplace_spread(nodes, c->n_nodes, *n, replication_of(c), groups);
    mem_free(nodes);
    return groups;
}

void metaplace_entries(const struct metaplace_cluster *c, struct buf *group0, struct buf *group1)
{
    struct metacode_entry cluster = {.kind = METACODE_FOUND_CLUSTER}, map = {.kind = METACODE_FOUND_MAP};
    struct metacode_found_cluster *f = &cluster.found_cluster;
    memcpy(f->cluster, c->id, META_CLUSTER_ID);
    f->format = META_FORMAT;
    for (int i = 0; i < METACODE_SETTINGS; i++) f->settings[i] = metanodes_settings[i].usual;
    f->settings[METACODE_REPLICATION] = replication_of(c);
    f->nodes = c->nodes;
    f->n = c->n_nodes;
    metacode_encode(&cluster, group0);

    uint32_t n;
    struct raftnode_members *groups = metaplace_groups(c, &n);
    map.found_map = (struct metacode_found_map){.seed = c->seed, .default_mode = c->default_mode, .groups = groups, .n = n};
    metacode_encode(&map, group1);
    mem_free(groups);
}
