/* Every Raft group of a node: elections, replication, commit, reads, membership, transfers and snapshots, on the core of libraft (raft_step) and one
 * shared log (cluster/raftlog.h). Without clock, socket, file or thread of its own: time comes in by calls, frames go out through a table of functions,
 * so the same code runs on real nodes and in the simulator.
 *
 * One thread owns it. A turn of that thread:
 *
 *     raftnode_tick(now)                     first, so that the turn has its time
 *     raftnode_receive / _submit / _read ..  as much as there is
 *     raftnode_persisted()                   after raftlog_written
 *     raftnode_flush()                       last: submits what was gathered (one step per group), asks the peers for the reads of the turn (one frame per
 *                                            peer), hands each peer its frames in one piece
 *     raftlog_begin_write(..)                the owner's: if no write is under way
 *
 * The life of a group on this node: created (a new group, the same call on every first member), or joined (an empty replica that its leader fills), or
 * resumed (found in the log at start). Its state machine is the caller's: committed() hands every entry once, in order, without gaps, from the first one
 * behind the state that the caller says it has.
 *
 * A leader may run ahead of the log: it changes its state first and submits the change then. What it submitted comes back by committed() like any entry; or another leader's
 * entries take its place in this node's log: truncated() names the first index of what was replaced. The caller then goes back to an older state and says so with
 * raftnode_rewind. To a client the outcome of such an entry is uncertain: a copy in another node's log may yet be committed, and then comes by committed() like any
 * other entry. The same holds for what was submitted and not handed back when install_wanted comes. Only what raftnode_submit refused did certainly not happen.
 *
 * Upcalls come from raftnode_flush alone (send and describe: from any call). From an upcall only raftnode_submit, _read, _rewind and the functions that only look may be
 * called. Slices given to upcalls are borrowed. A node number is never 0; a group number may be.
 *
 * Errors: -EPERM not the leader (or not of that term), -EAGAIN come again (too much under way, a transfer or another change is), -EMSGSIZE too large,
 * -ENOSPC a majority has no room in its log, -ENOENT no such group or member, -EEXIST it is there, -EINVAL the request makes no sense. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct raftlog;
struct termboard;
struct raftnode;
struct wire_frame;

enum {
    RAFTNODE_MEMBERS_MAX = 16,
    RAFTNODE_GROUPS_MAX = 1 << 30, /* numbers of groups are below; the log has some beyond of its own (cluster/raftfloor.h) */
    RAFTNODE_ENTRY_BYTES = 256 * 1024,                  /* what an entry should stay below: larger ones travel alone and hold up their group */
    RAFTNODE_ENTRY_BYTES_MAX = 16 * 1024 * 1024 - 4096, /* an entry and its frame's head fit in a frame */
    RAFTNODE_DESCRIPTOR_MAX = 64 * 1024,
};

enum raftnode_role { RAFTNODE_GONE, RAFTNODE_SPARE /* gets nothing */, RAFTNODE_STANDBY /* follows */, RAFTNODE_VOTER };
enum raftnode_state { RAFTNODE_FOLLOWER, RAFTNODE_CANDIDATE, RAFTNODE_LEADER };
enum raftnode_entry_type { RAFTNODE_COMMAND = 1, RAFTNODE_BARRIER = 2 /* of the engine, no data */, RAFTNODE_CHANGE = 3 /* of members */ };

struct raftnode_member {
    uint64_t node;
    enum raftnode_role role;
};

struct raftnode_members {
    uint64_t index; /* of the entry that made them so */
    uint32_t n;
    struct raftnode_member m[RAFTNODE_MEMBERS_MAX];
};

struct raftnode_entry {
    uint64_t index, term;
    enum raftnode_entry_type type;
    struct slice data; /* of commands; others have none */
};

struct raftnode_out {
    void *ctx;
    /* Whole frames for a peer, in order. A link may lose them, never reorder or repeat them. */
    void (*send)(void *ctx, uint64_t peer, struct slice frames);
    void (*committed)(void *ctx, uint32_t group, const struct raftnode_entry *entries, uint32_t n);
    /* Leadership is told when it can be used: an entry of this term is committed and everything up to it was handed to committed(). Its loss is told at
     * once. leader is 0 if nobody knows. */
    void (*role)(void *ctx, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader);
    /* What was submitted here at this index and behind it is not in this node's log any more. From now on until raftnode_rewind, committed() is not called for the group. */
    void (*truncated)(void *ctx, uint32_t group, uint64_t index);
    /* The members changed, by an entry that is committed or by a snapshot. May be NULL. */
    void (*members)(void *ctx, uint32_t group, const struct raftnode_members *members);
    /* Leadership was confirmed by a majority after the read was asked for; with the state at `index` or later the read is linearizable. */
    void (*read_ok)(void *ctx, uint64_t ticket, uint64_t index);
    void (*read_failed)(void *ctx, uint64_t ticket); /* not the leader any more */
    /* A change of members ended: 0, -EPERM leadership was lost meanwhile (it may have happened), -ETIMEDOUT the newcomer did not catch up, -ENOSPC. May be NULL. */
    void (*changed)(void *ctx, uint32_t group, uint64_t node, enum raftnode_role role, int rc);
    /* Appends to out what a peer needs to fetch the snapshot that was last told by raftnode_snapshotted or raftnode_installed (at this index). */
    void (*describe)(void *ctx, uint32_t group, uint64_t index, struct buf *out);
    /* The leader wants this replica to take its snapshot. The caller fetches it, makes it durable beside the one that it has, and says raftnode_installed. Until
     * then nothing else is handed over for the group. */
    void (*install_wanted)(void *ctx, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor);
    /* The log's mark of the snapshot at this index is durable: older snapshots of the group can be deleted, after a crash nobody asks for them. May be NULL. */
    void (*marked)(void *ctx, uint32_t group, uint64_t index);
    /* A peer speaks of a group that is not here: it wants this node to join it, or was not told that it left. May be NULL. */
    void (*stranger)(void *ctx, uint32_t group, uint64_t from);
    /* A promise on which Raft rests does not hold: a peer lost what it had made durable, two nodes lead in one term, or this node's log cannot be read. The group
     * stands still from now on; the owner ends the process. */
    void (*broken)(void *ctx, uint32_t group, const char *why);
    /* The end of a replica that was dropped is durable: its snapshots can be deleted, after a crash nobody asks for them. May be NULL. */
    void (*gone)(void *ctx, uint32_t group);
};

struct raftnode_options {
    uint64_t id;   /* of this node, not 0 */
    uint64_t seed; /* of all randomness; nodes must have different ones */
    uint64_t now;  /* ms of any clock; when it is set back, no time has passed */
    uint32_t election_ms, heartbeat_ms; /* 0: 600 and 60 */
    uint32_t install_ms;                /* an install that is not done is offered again after this; 0: 60 s */
    uint32_t inflight_entries;          /* submitted and not committed, per group; 0: 4096 */
    uint64_t inflight_bytes;            /* 0: 8 MiB; one entry alone may be larger */
    uint64_t reserve_bytes;             /* a log with less room than this takes no new entries; 0: 1 MiB */
    struct termboard *board;            /* where terms and voters are put for other threads; NULL: nowhere. Kept */
    uint32_t prompt_groups;             /* groups below this number: what is committed there is told to all replicas at once, not with the next entry or heartbeat */
};

struct raftnode_info {
    enum raftnode_state state;
    bool ready; /* leader, and told so */
    bool installing, transferring, changing;
    uint64_t term, leader;
    uint64_t first, last;   /* entries in the log */
    uint64_t stored;        /* up to here durable here */
    uint64_t commit, handed; /* handed: given to committed() */
    uint64_t snapshot;      /* index of the last one */
    uint64_t log_bytes;     /* of entries that are kept: what makes a new one worthwhile */
    struct raftnode_members members;      /* the latest, committed or not */
    uint64_t match[RAFTNODE_MEMBERS_MAX]; /* of the members, as far as this leader knows; else 0 */
    bool answers[RAFTNODE_MEMBERS_MAX];   /* the member has answered this node within an election time-out */
};

/* log is open, and kept; only raftnode puts records into it. out is copied. Groups found in the log sleep until they are resumed. */
struct raftnode *raftnode_new(const struct raftnode_options *options, struct raftlog *log, const struct raftnode_out *out);
void raftnode_free(struct raftnode *n);

/* ---- groups */

/* Those that the log has, ascending: to be resumed. Gives how many there are; out gets the first max. */
uint32_t raftnode_found(const struct raftlog *log, uint32_t *out, uint32_t max);

/* A new group with its first members; the same list on each of them. Entry 1 holds the members and is committed. The caller has state 0, and is handed entry 1.
 * -ESTALE: this node had a replica before, which has ended: it joins. */
int raftnode_group_create(struct raftnode *n, uint32_t group, const struct raftnode_member *members, uint32_t count);
/* An empty replica: it waits for its leader's entries or snapshot. */
int raftnode_group_join(struct raftnode *n, uint32_t group);
/* A group that the log has; the caller's state is that at `applied`, which is its snapshot's index (0: none). -EINVAL if the log does not go on from there. */
int raftnode_group_resume(struct raftnode *n, uint32_t group, uint64_t applied);
/* The replica ends, its log goes; what others may rely on is remembered (cluster/raftfloor.h). Its open reads and changes fail. Only after the change that removed it is committed: a voter that forgets breaks Raft. It may join
 * again (-EAGAIN: not before gone() was told), but whoever adds it must have heard from this node after the drop, by the link on which its frames come: an answer of
 * its former life that is still under way would be taken for one of the new. */
int raftnode_group_drop(struct raftnode *n, uint32_t group);
int raftnode_look(const struct raftnode *n, uint32_t group, struct raftnode_info *out);

/* ---- the turn */

void raftnode_tick(struct raftnode *n, uint64_t now);
/* When tick has something to do next, at the latest. */
uint64_t raftnode_next(const struct raftnode *n);
/* A frame of a peer, one of Raft's or a probe. 0, or -EBADMSG: it makes no sense, the connection should be closed. */
int raftnode_receive(struct raftnode *n, uint64_t from, const struct wire_frame *frame);
/* More of the log is durable: see raftlog_durable. */
void raftnode_persisted(struct raftnode *n);
void raftnode_flush(struct raftnode *n);

/* ---- leaders */

/* Proposes an entry. term is that of role(): a leader of an older reign is refused. On 0, *index is where it will stand, if it does; data is copied. */
int raftnode_submit(struct raftnode *n, uint32_t group, uint64_t term, struct slice data, uint64_t *index);
/* Ends with read_ok or read_failed for this ticket, at flush or later; at once if the group is not here. */
void raftnode_read(struct raftnode *n, uint32_t group, uint64_t ticket);
/* Hands leadership to a voter (0: the best one). Submits are refused meanwhile; it ends by role(), or after an election time-out. One that has not answered for so long would not take it: -EAGAIN. */
int raftnode_transfer(struct raftnode *n, uint32_t group, uint64_t to);
/* Makes a node a member with this role, step by step: a newcomer is a spare first, catches up, and is promoted. RAFTNODE_GONE removes it. One at a time per
 * group; ends with changed(). -EBUSY: it is the leader itself, which has to transfer leadership before it can leave. */
int raftnode_change(struct raftnode *n, uint32_t group, uint64_t node, enum raftnode_role role);

/* ---- snapshots */

/* The caller's durable snapshot holds the state at `index` (handed before). The log before it goes, but for `trailing` entries kept for slow followers. -EAGAIN: the
 * log is not durable that far, or an install is under way; what could not be marked is of no use to the log. May be said again of the last one, with fewer entries to keep: a group that is not written to must not
 * hold the log of all others. */
int raftnode_snapshotted(struct raftnode *n, uint32_t group, uint64_t index, uint32_t trailing);
/* The snapshot that install_wanted asked for is durable and is the caller's state now; or it could not be had (rc < 0), and the replica goes on as it was. */
int raftnode_installed(struct raftnode *n, uint32_t group, uint64_t index, int rc);
/* The caller's state of a group is that at `index` now, at or behind its snapshot: committed() goes on behind it. After truncated(). */
int raftnode_rewind(struct raftnode *n, uint32_t group, uint64_t index);

/* Checks every promise that can be checked; for tests. */
void raftnode_check(const struct raftnode *n);
