/* Group 0: who the cluster is, which nodes it has, and its settings. A pure state machine: see cluster/meta.h. Thread: its owner's.
 *
 * Numbers of nodes come from a counter and are never used twice. A node asks to join with its instance (a random number that was made with its data directory): if the answer is lost it asks again and is told
 * the number that it has. A machine that lost its directory has another instance, and so cannot slip into the place, and the votes, of the node that was at its address.
 *
 *   up -> draining      sherd cluster leave: replicas are moved away; back to up if that is called off
 *   draining -> gone    nothing is left on it. Final.
 *   up -> gone          it is dead: its replicas were made anew elsewhere. If it comes back it finds itself gone, and has to join as a new one.
 *
 * One node is up at any time: the last one neither leaves nor is declared dead, whoever asks for what at the same moment.
 * Whether nothing is left on a node is group 1's knowledge; the proposer has looked. */
#pragma once
#include "cluster/metacode.h"
#include "cluster/metaseen.h"

enum { METANODES_GONE_KEPT = 64 }; /* records of nodes that are gone, the latest of them, for whoever looks; the older ones are just gone */

struct metanodes_node {
    uint64_t id;
    uint64_t generation; /* rises with every change of this record */
    enum metacode_node_state state;
    struct metacode_node is; /* its bytes are the record's own */
    char *bytes;
};

struct metanodes {
    uint64_t version; /* rises with every entry that is done; 0: the cluster was not founded yet */
    uint8_t cluster[META_CLUSTER_ID];
    uint32_t format;
    uint64_t settings[METACODE_SETTINGS];
    uint64_t next_node;
    uint32_t n;
    struct metanodes_node *nodes; /* ascending by id */
    struct metaseen seen;
};

struct metanodes *metanodes_new(void);
void metanodes_free(struct metanodes *m);

/* An entry of the group's log. Borrows. META_FOREIGN: the caller must stop, this replica cannot follow any more. */
void metanodes_apply(struct metanodes *m, struct slice entry, struct meta_result *r);

const struct metanodes_node *metanodes_find(const struct metanodes *m, uint64_t id); /* NULL: it never was, or is gone and forgotten */
bool metanodes_gone(const struct metanodes *m, uint64_t id); /* such a node was here, and is not any more */

/* The whole state, canonical: equal states have equal bytes. */
void metanodes_snapshot(const struct metanodes *m, struct buf *out);
/* NULL, and why: a static sentence. */
struct metanodes *metanodes_restore(struct slice snapshot, const char **why);
uint64_t metanodes_digest(const struct metanodes *m);

/* What a setting may be; name is the one in files and commands. */
struct metanodes_setting {
    const char *name;
    uint64_t min, max, usual;
};
extern const struct metanodes_setting metanodes_settings[METACODE_SETTINGS];

void metanodes_check(const struct metanodes *m);
