/* The parts of cluster/metahost.h and what they have in common. Private to its files:
 *
 *     metahost.c          the two states: entries, snapshots, what is published; the turn
 *     metahost_peers.c    the other nodes: who is heard of, STATUS frames, who leads what, farewells
 *     metahost_ask.c      proposals on their way, and the requests of other nodes
 *     metahost_question.c what operators and new nodes ask
 *     metahost_spaces.c   those of them that are about key spaces, and what a lost driver left of them
 *     metahost_hash.c     that which splits a group: its interval of the hash is cut, and a part of it gets a group of its own
 *     metahost_moves.c    what of that carries keys, for whoever drives it
 *     metahost_tend.c     what a leader does for its own groups: members, and the steps of their moves; which replicas are here
 *     metahost_place.c    what the leaders of groups 0 and 1 do for the cluster: placement, nodes that are gone
 *
 * Upcalls only note what they bring; tick acts. So everything is done at a moment when Raft can be asked for anything. */
#pragma once
#include "cluster/metahost.h"
#include "cluster/placer.h"
#include "cluster/wirecall.h"
#include "cluster/wirestatus.h"

enum {
    METAHOST_STATUS_MS = 250,    /* between two reports */
    METAHOST_ALIVE_MS = 3000,    /* so long after its last report a node is alive, */
    METAHOST_LIVELY_MS = 1000,   /* and so long it is given something to do */
    METAHOST_PAUSE_MS = 1000,    /* a turn that comes so late: this process stood still, and the silence was its own */
    METAHOST_RETRY_MS = 300,     /* a proposal that went to another node is repeated */
    METAHOST_TEND_MS = 200,      /* a leader looks after its groups, at least */
    METAHOST_PLACE_MS = 1000,    /* placement is looked at */
    METAHOST_REST_MS = 1000,     /* after something was refused */
    METAHOST_GIVE_UP_MS = 5000,  /* what nobody asked for is not proposed for longer: it is decided anew */
    METAHOST_FAREWELL_MS = 5000, /* a node that is gone is told so for so long */
    METAHOST_LAG_MAX = 1000,     /* entries that a member may lack and still be up to date */
};

/* Another node. */
struct metahost_peer {
    uint64_t id;
    char address[WIRE_ADDRESS_MAX + 1]; /* as links know it; empty: they do not */
    uint64_t since, heard;              /* when it was first known, and last heard of (0: never) */
    bool alive;                         /* as the log was told */
    bool leaving, gone;                 /* as group 0 last said */
    uint64_t farewell_until;            /* if gone */
    uint64_t incarnation, version;      /* of its last report, and what it said: */
    uint64_t bytes, map_version;
    bool full;
};

/* A group: its replica here, and what others say of it. */
struct metahost_group {
    uint32_t id;
    bool here; /* there is a replica */
    enum raftnode_state state; /* LEADER: can be used */
    uint64_t term, leader;
    struct raftnode_members members; /* as its log last said */
    uint64_t hint, hint_term;        /* the leader, as it says itself */
    uint32_t n_behind;               /* members that lag, as the leader says (this node, if it leads) */
    uint64_t behind[RAFTNODE_MEMBERS_MAX];
    bool changing;        /* a change of members, begun here, is under way */
    uint64_t rest_until;  /* before that nothing is changed */
    uint64_t hand_until;  /* leadership is being handed over, by a request from here */
    bool called;          /* groups 0 and 1: a member speaks to this node, which has no replica */
    uint64_t founded_term; /* groups 0 and 1: the first entry was proposed in it */
};

/* Since when this node knows of an operation: whoever has this version knows of it too. */
struct metahost_known_op {
    uint64_t op, version;
};

/* r is NULL if nothing was heard in time. */
typedef void metahost_ask_done(struct metahost *h, void *ctx, const struct meta_result *r);

struct metahost_proposal; /* metahost_ask.c */
struct metahost_waiter;   /* metahost_question.c */
struct metahost_planned;

struct metahost {
    uint64_t me, incarnation, now, started;
    uint32_t seats;
    uint8_t cluster[META_CLUSTER_ID];
    struct metacode_node is; /* bytes are own */
    char *is_bytes;
    struct buf found[2];     /* the first entries; empty: the cluster is there */
    struct raftnode_members *found_groups;
    uint32_t n_found_groups;
    struct metahost_calls calls;
    const struct slog *log;
    bool failed;
    bool leaving; /* as it last heard of itself */

    struct metanodes *nodes;
    struct metagroups *groups;
    struct {
        uint64_t index, term;
        bool changed; /* since it was last looked at */
    } applied[2];
    uint64_t map_version; /* published */
    struct metahost_known_op known_ops[META_OPS_MAX];
    uint32_t n_known_ops;

    uint32_t n_peers;
    struct metahost_peer *peers; /* ascending by id */
    uint32_t n_known;
    struct metahost_group *known; /* groups, ascending by id */
    uint64_t report_version;
    struct metahost_report report;
    struct wirecall_joiner *joiner; /* lets no message in that has several pieces */

    struct metahost_proposal *proposals[2]; /* ascending by sequence */
    struct metahost_waiter *waiters;        /* for a leadership */
    struct metahost_planned *planned;       /* questions whose first entry is done */
    uint64_t sequence[2];

    bool dirty; /* something happened that a leader should look at */
    uint64_t status_at, tend_at, place_at, lose_at, describe_at; /* the next time for each */
    struct buf scratch;
};

/* ---- metahost.c */
void metahost_fail(struct metahost *h, const char *why);
void metahost_is_gone(struct metahost *h, const char *why); /* as told by why: it has left, or has failed */
bool metahost_founded(const struct metahost *h); /* both states are there */
/* No node that is heard of knows more of group 1. */
bool metahost_map_is_fresh(const struct metahost *h);

/* ---- metahost_peers.c */
struct metahost_peer *metahost_peers_find(const struct metahost *h, uint64_t id);
void metahost_peers_put(struct metahost *h, uint64_t id, struct slice address);
void metahost_peers_sync(struct metahost *h); /* with the state of group 0 */
void metahost_peers_pass(struct metahost *h, uint64_t gap); /* time that nobody lived through */
void metahost_peers_tick(struct metahost *h);
bool metahost_peers_lively(const struct metahost *h, uint64_t id); /* another node: it was heard of just now, and is reached */
/* Since when a node has been silent; 0: it is alive. */
uint64_t metahost_peers_silent_since(const struct metahost *h, uint64_t id);
bool metahost_peers_lost(const struct metahost *h, uint64_t id); /* silent for so long that its replicas are made anew; or gone */
struct metahost_group *metahost_peers_group(struct metahost *h, uint32_t id); /* made if it is not there */
struct metahost_group *metahost_peers_group_known(const struct metahost *h, uint32_t id); /* NULL: nothing is known of it */
bool metahost_peers_is_behind(const struct metahost_group *g, uint64_t node);

/* ---- metahost_ask.c */
/* What a proposal is about, so that it is not made twice at a time. */
enum metahost_ask_about { METAHOST_ASK_QUESTION, METAHOST_ASK_MEMBERS, METAHOST_ASK_OP, METAHOST_ASK_MOVE, METAHOST_ASK_NODE };
/* Gives e a sequence. done may be NULL. */
void metahost_ask_propose(struct metahost *h, struct metacode_entry *e, enum metahost_ask_about about, uint64_t id, uint32_t timeout_ms, metahost_ask_done *done, void *ctx);
bool metahost_ask_open(const struct metahost *h, uint32_t group, enum metahost_ask_about about, uint64_t id);
void metahost_ask_answered(struct metahost *h, uint32_t group, uint64_t sequence, const struct meta_result *r);
void metahost_ask_restored(struct metahost *h, uint32_t group); /* another state is there: it may know answers */
void metahost_ask_hurry(struct metahost *h, uint32_t group);    /* another leader */
void metahost_ask_tick(struct metahost *h);
uint64_t metahost_ask_next(const struct metahost *h);
void metahost_ask_fini(struct metahost *h);
int metahost_ask_frame(struct metahost *h, uint64_t from, const struct wire_frame *f);
void metahost_ask_say_gone(struct metahost *h, uint64_t peer); /* to a node that is */
/* Hands leadership of a group over, or asks its leader to. */
void metahost_ask_lead(struct metahost *h, uint32_t group, uint64_t to, const char *why);

/* ---- metahost_question.c */
void metahost_question_tick(struct metahost *h);
void metahost_question_fini(struct metahost *h);

/* ---- metahost_spaces.c */
/* The operation that a question about a key space asks for (range: where its plan has room). NULL, or why there is none. is_so: nothing is to be done. */
bool metahost_spaces_plan(const struct metahost *h, enum metahost_question q, const struct slice *argv, struct metaops_plan *p, struct metaops_range *range, bool *is_so, struct buf *why);
void metahost_spaces_finish(struct metahost *h, uint64_t op, uint32_t timeout_ms, metahost_ask_done *done, void *ctx); /* what was planned is done, or walks */
bool metahost_spaces_carries(const struct metahost *h, const struct metaops_op *op); /* keys go to other groups by it */
uint32_t metahost_spaces_home(const struct space_map *m, struct slice space); /* the group that an unset bucket of that name is in */
void metahost_spaces_sweep(struct metahost *h); /* the leader of group 1: operations whose driver is lost */

/* ---- metahost_hash.c */
/* Whether a node may get another replica of a data group; if not, what its asker is told. */
bool metahost_hash_room(const struct metahost *h, uint64_t node);
#define METAHOST_HASH_NO_ROOM "node %" PRIu64 " has no room for another replica: cluster-seats is too small"
/* The operation that splits a group; the hash in hex, or empty. NULL, or why there is none (sentence: it is there). */
const char *metahost_hash_plan(const struct metahost *h, uint64_t group, struct slice hash, struct metaops_plan *p, struct buf *sentence);

/* ---- metahost_tend.c */
void metahost_tend(struct metahost *h);

/* ---- metahost_place.c */
void metahost_place(struct metahost *h);
void metahost_place_gone(struct metahost *h); /* declares nodes gone */
