/* One Raft group on this node: the engine's struct raft, and what stands around it. Private to raftnode.c, raftgroup.c, raftmember.c, raftread.c, raftsend.c
 * and raftsnap.c.
 *
 * What the engine (libraft 0.22.1, raft_step) demands of its caller, and where it is met; numbers are cited in the code.
 *
 *  R1  A message of a step that changed term or vote leaves only when both are durable, and later messages of the group wait behind it.        (held, hard_batch)
 *  R2  RAFT_PERSISTED_ENTRIES is above last_stored and never counts entries that a truncation voided. raftlog_durable_index knows both.
 *  R3  A new leader commits an entry of its own term before anything is built on its commit index. The engine adds one only if its log has uncommitted entries.
 *  R4  A change of members that is not the first new entry of a message is noted under a wrong index, and is not undone when it should be. So received
 *      messages are cut in front of every change.
 *  R5  The only voter elects itself without a new term, so that two nodes may lead in one term when two voters become one. So the term is raised for it.
 *  R6  A vote's result is judged by fields that only candidates have: others drop it. So is the order to stand for election where there is one voter.
 *  R7  A change that is refused in the middle of a submit leaves the entries before it in the engine's log. So changes are submitted alone, after the queue.
 *  R8  With a capacity threshold, an election that is won on a full disk ends in a half-made leader. So the threshold stays off, and raftnode_submit refuses.
 *  R9  The engine limits entries under way by number, not by bytes: the number is set by the mean size of the log's entries, and a message is cut.
 *  R10 entries[0].batch of a received message is freed by the engine unless it takes the entries: it gets an empty block for that, the data stays ours. The
 *      configuration and data of an install are freed on some ways and not on others: it gets none, and ours when the snapshot is durable.
 *  R11 A follower refuses entries behind an index that its snapshot has swallowed, and the leader goes back one by one until it finds nothing but a snapshot to
 *      send. What a snapshot holds is committed, so every leader has the same: such messages are cut to begin behind our snapshot.
 *  R12 Who is asked in a pre-vote for an older term than its own refuses without telling its term, and the asker asks for the old term for ever. If it is the
 *      only one with a full log, nobody can win. So the refusal gets the term, which the asker then takes over.
 *  R13 A node that finds itself no voter in its own log neither votes nor stands for election, also while that change is not committed; if its log is the longest,
 *      nobody else can win. So a leader does not remove itself (it transfers first), and a voter becomes a spare before it becomes a standby: the engine sends nothing
 *      to those that are removed, and to spares only what their answers to earlier messages bring about. That ends before a change that is not committed.
 *  R14 That a change is committed is not heard when the next one is in the log already, and then both are undone together. So a message whose entries begin with a change is
 *      received without them first: it may commit the change before. */
#pragma once
#include "base/buf.h"
#include "base/rng.h"
#include "cluster/raftfloor.h"
#include "cluster/raftlib.h"
#include "cluster/raftlog.h"
#include "cluster/raftmember.h"
#include "cluster/raftnode.h"
#include "cluster/raftread.h"
#include "cluster/raftsend.h"
#include "cluster/raftsnap.h"

struct raftgroup {
    struct raftnode *node;
    uint32_t id;
    struct raft raft;
    bool dirty; /* stands in its node's list: flush has something to do */
    struct raftgroup *next_dirty;
    bool waits; /* stands in its node's list of those that wait for the log */
    struct raftgroup *next_waiting;
    bool dropped;
    struct raftfloor floor; /* of a former life here */
    const char *broken; /* why it stands still */
    bool broken_told;

    uint64_t hard_batch; /* 0, or: frames wait in `held` until this batch of the log is durable */
    struct buf held;     /* of {peer u64, length u64, frames} */
    bool unstored;       /* entries were put of which the engine does not know that they are durable */
    bool took_entries;   /* the last step brought entries */
    bool stale_event;    /* the message being stepped is of an older term */

    uint64_t handed;               /* to committed(), up to here */
    uint64_t own_first, own_last;  /* submitted here and not handed, with other entries in between perhaps; none if first > last */
    uint64_t replaced;             /* 0, or: truncated() is to be told of this index */
    bool rewinding;                /* told, and the caller did not go back yet */

    uint64_t reign;   /* the term in which this node leads; 0 */
    uint64_t barrier; /* the entry of this reign that has to be committed first */
    uint64_t announced; /* of prompt groups: up to here all were told what is committed */
    uint64_t shown_term, shown_members; /* what the board says: the term, and the index of the members */
    enum raftnode_state told_state;
    uint64_t told_term, told_leader;
    bool told;

    struct buf queue; /* of submits of this turn: {length u32, data} */
    uint32_t queue_n;
    uint64_t inflight_bytes; /* submitted in this reign and not handed */
    uint64_t counted;        /* the last entry whose bytes were taken off it, if they were in it */

    struct raftmember_log members;
    struct raftmember_change change;
    struct raftread_state reads;
    struct raftsnap_state snap;
};

struct raftnode_peer {
    uint64_t id;
    char address[24]; /* for the engine */
    struct buf out;
    struct buf probe; /* the read probe of this turn, a frame that is not ended yet; empty: none */
    size_t probe_at;
    bool answered;        /* something that this node sent, at last at */
    uint64_t answered_at;
    bool capacity_known;
    uint32_t capacity_kib; /* of its log, as it said last */
};

struct raftnode_stranger {
    uint32_t group;
    uint64_t from;
};

struct raftnode {
    struct raftnode_options options;
    struct raftnode_out out;
    struct raftlog *log;
    struct rng rng;
    uint64_t now;      /* goes with the caller's clock, but never back */
    uint64_t clock;    /* the caller's, at the last tick */
    uint64_t scan_at;  /* no group's timer ends before */
    uint64_t scanned;  /* when timers were looked at last */
    char address[24];  /* of this node, for the engine */
    struct raftgroup **groups; /* by ascending number */
    uint32_t n_groups, cap_groups;
    struct raftgroup *dirty, **dirty_end;
    struct raftgroup *waiting;
    struct raftnode_peer **peers; /* by ascending number */
    uint32_t n_peers, cap_peers;
    uint64_t drop_batch;   /* of the log, with the last end of a group; 0: gone() was told of all */
    uint32_t *gone;        /* groups of which it has to be told */
    uint32_t n_gone, cap_gone;
    uint64_t queued_bytes; /* of all groups' queues */
    uint64_t probe;        /* number of the last probe that went out */
    struct buf scratch;    /* for copies of entries within one function */
    struct raftnode_stranger strangers[16];
    uint32_t n_strangers;
};

/* ---- raftnode.c, for the others */
void raftnode_soil(struct raftgroup *g); /* flush shall look at this group */
void raftnode_wait(struct raftgroup *g); /* raftnode_persisted shall */
struct raftnode_peer *raftnode_peer(struct raftnode *n, uint64_t id);
struct raftgroup *raftnode_group(const struct raftnode *n, uint32_t group); /* NULL: not here, or asleep */

/* ---- raftgroup.c */

/* Makes a group from what the log has of it. applied: the caller's state. */
struct raftgroup *raftgroup_new(struct raftnode *n, uint32_t id, uint64_t applied);
void raftgroup_free(struct raftgroup *g);
/* The engine begins anew from the log; what the caller was handed stays handed. */
void raftgroup_restart(struct raftgroup *g);
/* Steps the engine and does what it asks for. 0 or the engine's error. */
int raftgroup_step(struct raftgroup *g, struct raft_event *event);
void raftgroup_timeout(struct raftgroup *g);
void raftgroup_receive(struct raftgroup *g, struct raft_message *m); /* checked by raftgroup_sane */
bool raftgroup_sane(const struct raft_message *m);
void raftgroup_persisted(struct raftgroup *g);
bool raftgroup_waits(const struct raftgroup *g); /* for something to be durable */
void raftgroup_submit_queue(struct raftgroup *g);
/* Submits one entry of the engine's kinds. 0 or the engine's error. */
int raftgroup_submit_one(struct raftgroup *g, enum raft_entry_type type, struct slice data);
void raftgroup_tell(struct raftgroup *g); /* all upcalls that are due */
void raftgroup_break(struct raftgroup *g, const char *why);
void raftgroup_check(const struct raftgroup *g);

static inline bool raftgroup_ready(const struct raftgroup *g) /* the caller knows that it leads */
{
    return !g->broken && g->told && g->told_state == RAFTNODE_LEADER && g->reign == g->told_term && g->reign != 0;
}
