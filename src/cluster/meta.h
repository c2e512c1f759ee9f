/* What the cluster knows about itself: the words that the state machines of group 0 and group 1 share. Pure: no clock, no file, no thread; the same entries give the same state and
 * the same bytes on every replica.
 *
 *     cluster/metanodes.h    group 0: who the cluster is, its nodes, its settings
 *     cluster/metagroups.h   group 1: groups and their members, the map of keys, topology operations under way
 *     cluster/metaops.h      those operations: their kinds and steps
 *     cluster/metacode.h     entries as bytes
 *     cluster/metaseen.h     the memory that lets a retried proposal be applied once
 *     cluster/metaplace.h    the first entries of a new cluster; replicas spread over nodes
 *     cluster/metaview.h     text of all that
 *     cluster/placer.h       what should change next
 *
 * Neither group looks into the other: their logs have no common order, so an entry of one that was judged by the state of the other would be judged differently on two replicas.
 * A member that group 1 names may be a node that group 0 has declared gone; as numbers of nodes are used once, that is seen and never mistaken.
 *
 * Each entry is a proposal. Applying it gives a code, and for all but META_DONE a sentence. A proposal that is not META_DONE changes nothing but the memory of proposals. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "cluster/raftnode.h"
#include "cluster/wire.h"

enum {
    META_NODES_GROUP = 0,
    META_MAP_GROUP = 1,
    META_FIRST_DATA_GROUP = 2,
    META_CLUSTER_ID = WIRE_CLUSTER_ID,
    META_FORMAT = 1, /* the newest format of a cluster's data that this program knows */
    META_WHY_MAX = 240,
    /* Limits, so that a snapshot has one. */
    META_NODES_MAX = RAFTNODE_MEMBERS_MAX, /* each is a member of groups 0 and 1 */
    META_GROUPS_MAX = 16384,
    META_SPACES_MAX = 16384,
    META_RANGES_MAX = 65536, /* with intervals of the hash */
    META_OPS_MAX = 256,
    META_PLAN_RANGES_MAX = 256, /* of one change of mode */
    META_TEXT_MAX = WIRE_ADDRESS_MAX,
    META_KEY_MAX = 4096, /* where ranges are cut. A boundary that walks is rounded down to that: the map may lag */
    META_ENTRY_MAX = 4 * 1024 * 1024,
    META_SNAPSHOT_MAX = 1024 * 1024 * 1024,
};

enum meta_code {
    META_DONE,
    META_SAME,      /* nothing to do: it is so already */
    META_STALE,     /* what it was decided on has changed: look again */
    META_UNKNOWN,   /* no such node, group, space, range or operation */
    META_DUPLICATE, /* an address or an instance that another node has */
    META_BUSY,      /* another operation works on it */
    META_EARLY,     /* a step before its time: what it claims is not so yet */
    META_INVALID,   /* it makes no sense */
    META_LIMIT,     /* no more of these */
    META_OLD,       /* so old that nobody remembers whether it was applied */
    META_MALFORMED, /* no entry at all */
    META_FOREIGN,   /* of a newer version of this program: whoever meets one must stop, for others may understand it */
    META_CODES,
};
const char *meta_code_name(enum meta_code code); /* "stale" */

struct meta_result {
    enum meta_code code;
    bool repeat;  /* proposed before; this is the answer of then */
    uint64_t id;  /* of the node, group or operation that was made, or that stands in the way; 0: none */
    char why[META_WHY_MAX]; /* a sentence without a full stop; empty if done */
};

/* Sets code and sentence; gives false. */
bool meta_refuse(struct meta_result *r, enum meta_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Numbers of nodes that are not 0 and not twice, roles of members, at least one voter. */
bool meta_members_valid(const struct raftnode_members *m);
bool meta_members_equal(const struct raftnode_members *a, const struct raftnode_members *b); /* whatever their index and order */
bool meta_members_has(const struct raftnode_members *m, uint64_t node);
enum raftnode_role meta_members_role(const struct raftnode_members *m, uint64_t node); /* RAFTNODE_GONE: none */
/* Adds the node or gives it another role; RAFTNODE_GONE removes it. Ascending order stays. False: it is full. */
bool meta_members_set(struct raftnode_members *m, uint64_t node, enum raftnode_role role);
