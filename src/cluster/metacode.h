/* Entries of groups 0 and 1 as bytes: small deltas, versioned, checked field by field. Pure.
 *
 * An entry is what a node proposes; cluster/metanodes.h and cluster/metagroups.h say what becomes of it. Decoding checks the form alone (lengths, values that exist, nothing behind the end), so
 * that it is the same for everybody; whether the proposal makes sense is judged by the state. */
#pragma once
#include "base/buf.h"
#include "cluster/meta.h"
#include "cluster/metaops.h"

enum { METACODE_VERSION = 1 };

enum metacode_kind {
    /* group 0 */
    METACODE_FOUND_CLUSTER = 1,
    METACODE_NODE_JOIN = 2,
    METACODE_NODE_CHANGE = 3, /* of its addresses, name, zone */
    METACODE_NODE_STATE = 4,
    METACODE_SETTING = 5,
    METACODE_FORMAT = 6,
    /* group 1 */
    METACODE_FOUND_MAP = 32,
    METACODE_GROUP_CREATE = 33,
    METACODE_GROUP_RETIRE = 34,
    METACODE_MEMBERS = 35, /* what the group's log says of its members */
    METACODE_OP_BEGIN = 36,
    METACODE_OP_STEP = 37,
    METACODE_OP_DRIVER = 38,
};

enum metacode_node_state { METACODE_UP, METACODE_DRAINING, METACODE_GONE, METACODE_NODE_STATES };

enum metacode_setting {
    METACODE_REPLICATION,    /* replicas of a new group */
    METACODE_DEAD_AFTER_MS,  /* so long silent, and a node's replicas are made anew elsewhere */
    METACODE_MOVES_PER_NODE, /* at a time */
    METACODE_SETTINGS,
};

/* What is known of a node: whatever its state is. */
struct metacode_node {
    uint64_t instance; /* random, made with its data directory: tells a node that asks again from another one at the same address */
    struct slice peer, client, name, zone; /* host:port of both; zone may be empty */
};

struct metacode_found_cluster {
    uint8_t cluster[META_CLUSTER_ID];
    uint32_t format;
    uint64_t settings[METACODE_SETTINGS];
    const struct metacode_node *nodes; /* they become 1, 2, ... */
    uint32_t n;
};

struct metacode_found_map {
    uint64_t seed;
    enum space_mode default_mode;
    const struct raftnode_members *groups; /* groups 0, 1, and the data groups from 2 on, between which the hash is divided evenly */
    uint32_t n;
};

struct metacode_entry {
    enum metacode_kind kind;
    uint64_t proposer, sequence; /* see cluster/metaseen.h */
    union {
        struct metacode_found_cluster found_cluster;
        struct metacode_node join;
        struct {
            uint64_t node, generation; /* of the node's record: as the proposer saw it */
            struct metacode_node to;
        } change;
        struct {
            uint64_t node;
            enum metacode_node_state from, to;
            bool dead; /* up to gone: it will not come back, its replicas were made anew */
        } state;
        struct {
            enum metacode_setting setting;
            uint64_t value;
        } setting;
        struct {
            uint32_t from, to;
        } format;
        struct metacode_found_map found_map;
        struct raftnode_members create;
        uint32_t retire; /* group */
        struct {
            uint32_t group;
            struct raftnode_members members; /* with their index in the group's log */
        } members;
        struct {
            uint64_t driver;
            struct metaops_plan plan;
        } begin;
        struct {
            uint64_t op;
            enum metaops_step from, to;
            struct slice boundary; /* to walking */
        } step;
        struct {
            uint64_t op, from, to;
        } driver;
    };
    void *storage; /* of what a decoded entry points to; slices lie in the input */
};

/* Appends. The fields' own limits are the caller's promise (CHECK). */
void metacode_encode(const struct metacode_entry *e, struct buf *out);
/* META_DONE, META_MALFORMED or META_FOREIGN. metacode_fini in every case. */
enum meta_code metacode_decode(struct metacode_entry *e, struct slice in);
void metacode_fini(struct metacode_entry *e);
const char *metacode_kind_name(enum metacode_kind kind); /* "node-join"; "unknown" */
const char *metacode_node_state_name(enum metacode_node_state s);

/* Sets of members, for snapshots too: index u64, n u8, then node u64 and role u8 each. A set read here may be empty; else it is valid. */
void metacode_add_members(struct buf *out, const struct raftnode_members *m);
void metacode_get_members(struct wirefield *in, struct raftnode_members *m);
/* A node: instance u64, and the four texts, each with its length u8. */
void metacode_add_node(struct buf *out, const struct metacode_node *n);
void metacode_get_node(struct wirefield *in, struct metacode_node *n);
/* Whether addresses and name are there, printable and not too long to be encoded; NULL, or a sentence. */
const char *metacode_node_flaw(const struct metacode_node *n);
