/* Group 1: the cluster's groups and their members, the map of keys (a shard of it is a group), and the topology operations under way. A pure state machine: see cluster/meta.h. Thread: its owner's.
 *
 * Ids of groups, of ranges (and intervals of the hash) and of operations come from three counters and are given in the entry that makes the thing; they are never used twice. What a group
 * covers stands in the map alone. Who leads a group is not state: leaders come and go without asking.
 *
 * A group has the members that are wanted, which operations change, and those that its own log last told. The first follow a plan, the second the truth. */
#pragma once
#include "cluster/metacode.h"
#include "cluster/metaseen.h"
#include "route/spaces.h"

enum { METAGROUPS_ENDED_KEPT = 64 }; /* operations that ended, the latest of them, for drivers that come late */

struct metagroups_group {
    uint32_t id;
    uint64_t generation; /* rises when other members are wanted */
    struct raftnode_members wanted, told; /* told.n = 0: nothing was heard of it yet. wanted.index: 0 the group was founded with the cluster, 1 it was made later */
};

struct metagroups_ended {
    uint64_t op;
    enum metaops_kind kind;
    enum metaops_step step; /* done or undone */
};

struct metagroups {
    uint64_t version; /* rises with every entry that is done; 0: not founded yet */
    uint32_t next_group;
    uint64_t next_range, next_op;
    struct space_map *map; /* NULL: not founded yet. Each change makes a new one with a higher version; take a reference to keep it. */
    uint32_t n;
    struct metagroups_group *groups; /* ascending by id; 0 and 1 are the first */
    uint32_t n_ops;
    struct metaops_op **ops; /* ascending by id */
    uint32_t n_ended;
    struct metagroups_ended ended[METAGROUPS_ENDED_KEPT]; /* the latest is the last */
    struct metaseen seen;
};

struct metagroups *metagroups_new(void);
void metagroups_free(struct metagroups *m);

/* An entry of the group's log. Borrows. META_FOREIGN: the caller must stop, this replica cannot follow any more. */
void metagroups_apply(struct metagroups *m, struct slice entry, struct meta_result *r);

struct metagroups_group *metagroups_find(const struct metagroups *m, uint32_t id); /* NULL: none; changed by none but the files of this module */
struct metaops_op *metagroups_op(const struct metagroups *m, uint64_t id);         /* NULL: it never was, or ended */
const struct metaops_op *metagroups_op_of(const struct metagroups *m, uint32_t group); /* the one that keeps another from moving its replicas; NULL */

/* Groups of which the node is wanted as a member, or told to be one. Gives how many there are; out gets the first max. */
uint32_t metagroups_of_node(const struct metagroups *m, uint64_t node, uint32_t *out, uint32_t max);

/* What a group covers: intervals of the hash and ranges of spaces, also those that are on their way to or from it. */
struct metagroups_cover {
    const struct hash_desc *hash;   /* or */
    const struct range_desc *range; /* of: */
    struct slice space;
};
typedef bool metagroups_cover_fn(void *ctx, const struct metagroups_cover *c);
/* Ends early when visit gives false, and gives false then. */
bool metagroups_covers(const struct metagroups *m, uint32_t group, metagroups_cover_fn *visit, void *ctx);

/* The whole state, canonical: equal states have equal bytes. At most META_SNAPSHOT_MAX. */
void metagroups_snapshot(const struct metagroups *m, struct buf *out);
/* NULL, and a sentence in why. */
struct metagroups *metagroups_restore(struct slice snapshot, struct buf *why);
uint64_t metagroups_digest(const struct metagroups *m);

/* CHECKs that everything fits together: the map is whole, every group that it names exists, ids are below their counters, operations do not conflict. */
void metagroups_check(const struct metagroups *m);

/* ---- for the files of this module */

/* Adds a group, whose id is the greatest. */
struct metagroups_group *metagroups_add(struct metagroups *m, uint32_t id, const struct raftnode_members *wanted);
/* The refusal that the map's error is. Takes why; gives false. */
bool metagroups_map_refuses(struct meta_result *r, enum spaces_error error, struct buf *why);
bool metagroups_places_exist(const struct metagroups *m); /* every place that the map names is a group */
