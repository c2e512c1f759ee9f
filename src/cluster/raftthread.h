/* The thread of a node's Raft groups: it owns raftnode, the shared log with its writer, and the links to the other nodes, and turns them. Everything here that decides
 * something is elsewhere and runs in the simulator too; this is the driver with a real clock, real sockets and real threads.
 *
 *     raftthread_open     opens the log; nothing turns yet
 *     raftthread_found    which groups the log has, and from which snapshot each goes on
 *     raftthread_resume   for each of them (and create, join, peer_put as the node sees fit), then
 *     raftthread_start    listens, and the thread runs
 *     ...                 any thread asks; answers and upcalls come on the raft thread
 *     raftthread_stop     hands leadership over, makes the log tidy; waits
 *     raftthread_close
 *
 * Threads: functions are for any thread at any time between open and close, unless they say otherwise. They hand their request over and return at once; data is copied.
 * Requests of one thread are done in their order. An answer is a call of its function on the raft thread, exactly once for each request: before raftthread_close
 * returns. Requests that come when the thread has ended are answered by raftthread_close, on its caller's thread.
 *
 * UPCALLS AND ANSWERS MUST NOT BLOCK: while one runs, no heartbeat leaves and no peer is heard; more than a few milliseconds unseat leaders. They put things into queues.
 * They may call everything here but start, stop and close. Slices given to them are borrowed. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cluster/links.h"
#include "cluster/raftlog.h"
#include "cluster/raftnode.h"

struct file_ops;
struct raftthread;

/* How a request ended. index: of the entry (submit), or the one whose state is new enough (read); else 0. */
struct raftthread_answer {
    void (*done)(void *ctx, uint64_t token, int rc, uint64_t index); /* NULL: nobody wants to know */
    void *ctx;
    uint64_t token;
};

/* The state machines' side. What the functions mean that bear the names of raftnode's upcalls is said in cluster/raftnode.h; where that asks for raftnode_rewind or
 * raftnode_installed, raftthread_rewind and raftthread_installed do. Those marked * may be NULL. */
struct raftthread_app {
    void *ctx;
    void (*committed)(void *ctx, uint32_t group, const struct raftnode_entry *entries, uint32_t n); /* before the answers of those that were submitted here */
    void (*role)(void *ctx, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader);
    void (*truncated)(void *ctx, uint32_t group, uint64_t index);
    void (*members)(void *ctx, uint32_t group, const struct raftnode_members *members); /* * */
    void (*describe)(void *ctx, uint32_t group, uint64_t index, struct buf *out);
    void (*install_wanted)(void *ctx, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor);
    void (*marked)(void *ctx, uint32_t group, uint64_t index);     /* * */
    void (*gone)(void *ctx, uint32_t group);                       /* * */
    void (*stranger)(void *ctx, uint32_t group, uint64_t from);    /* * */
    /* The group's log has become long, or its oldest entries hold the space of all others: a snapshot is wanted. Said again every second as long as it is so. * */
    void (*snapshot_wanted)(void *ctx, uint32_t group, uint64_t log_bytes);
    /* A frame of a peer that is not Raft's. Negative: it makes no sense, the connection is closed. */
    int (*frame)(void *ctx, uint64_t from, const struct wire_frame *f);
    void (*up)(void *ctx, uint64_t peer, enum links_way way);      /* * */
    void (*down)(void *ctx, uint64_t peer, enum links_way way);    /* * */
    bool (*caller)(void *ctx, const struct wire_hello *hello);     /* links_calls.on_stranger; * */
    void (*lane)(void *ctx, uint64_t peer, uint16_t lane, int fd, struct slice greeting); /* links_calls.on_lane; * */
    /* Every turn: before Raft's part of it, so that what is proposed now goes along; and after it, when its upcalls have come (true: do not wait before the next turn). next: when it wants a turn at
     * the latest. Times are ms of the clock that does not go back. * */
    void (*turn)(void *ctx, uint64_t now);
    bool (*turned)(void *ctx);
    uint64_t (*next)(void *ctx);
    /* Nothing that this node promised can be relied on any more: a write of its log failed, or a promise on which Raft rests is broken. Nothing is sent or answered from now
     * on but requests with -EIO; the owner ends the process. Said once. */
    void (*failed)(void *ctx, const char *why);
};

struct raftthread_options {
    const char *listen;            /* host:port */
    const char *dir;               /* of the log; its parent exists */
    const struct file_ops *files;  /* for the log; kept */
    const struct file_ops *writes; /* for its batches (io/file_direct.h), or the same; kept */
    struct links_options links;    /* seed, now and wake_fd are set here; node is this node's number for Raft too; address NULL: that of `listen` */
    struct raftnode_options raft;  /* id, seed and now are set here */
    struct raftlog_options log;    /* random is set here */
    uint64_t snapshot_bytes;       /* a group's log longer than this wants a snapshot; 0: 64 MiB */
    uint32_t snapshot_segments;    /* and so does the holder of the oldest segment of so many; 0: 4 */
    uint32_t retry_chores_ms;      /* after one failed for want of space; 0: 5000 */
};

/* Gives NULL and a reason. Copies app. */
struct raftthread *raftthread_open(const struct raftthread_options *options, const struct raftthread_app *app, struct buf *error);

struct raftthread_found {
    uint32_t group;
    uint64_t snapshot, first, last; /* the last snapshot's index (0: none), and the entries that the log has */
};
/* Groups of the log, ascending; gives how many there are. Between open and start. */
uint32_t raftthread_found(const struct raftthread *t, struct raftthread_found *out, uint32_t max);

/* 0, or -errno and a reason: it cannot listen, or there is no thread or event loop to be had. May be tried again. Once it has listened, requests are done. */
int raftthread_start(struct raftthread *t, struct buf *error);
/* Ends the thread and waits for that. For at most grace_ms it hands leadership to others, waits for what was submitted, and seals the log; requests are refused with
 * -ESHUTDOWN meanwhile. 0: ends at once, as a crash would, but for the write that is under way. Not from the raft thread; once. */
void raftthread_stop(struct raftthread *t, uint32_t grace_ms);
void raftthread_close(struct raftthread *t); /* stops at once if it was not stopped */

/* ---- entries and reads. Errors of raftnode.h, and -ESHUTDOWN, -EIO: it did certainly not happen. But -ECANCELED: it was submitted and left this node's log, or this node
 * ended; it may have happened or may yet. */

void raftthread_submit(struct raftthread *t, uint32_t group, uint64_t term, struct slice data, struct raftthread_answer answer);
void raftthread_read(struct raftthread *t, uint32_t group, struct raftthread_answer answer); /* -EPERM: not the leader (any more) */

/* ---- groups, as in raftnode.h */

void raftthread_create(struct raftthread *t, uint32_t group, const struct raftnode_member *members, uint32_t count, struct raftthread_answer answer);
void raftthread_join(struct raftthread *t, uint32_t group, struct raftthread_answer answer);
void raftthread_resume(struct raftthread *t, uint32_t group, uint64_t applied, struct raftthread_answer answer);
void raftthread_drop(struct raftthread *t, uint32_t group, struct raftthread_answer answer);
void raftthread_transfer(struct raftthread *t, uint32_t group, uint64_t to, struct raftthread_answer answer); /* answers when it has begun; it ends by role() */
void raftthread_change(struct raftthread *t, uint32_t group, uint64_t node, enum raftnode_role role, struct raftthread_answer answer); /* answers when it has ended */
void raftthread_snapshotted(struct raftthread *t, uint32_t group, uint64_t index, uint32_t trailing, struct raftthread_answer answer);
void raftthread_installed(struct raftthread *t, uint32_t group, uint64_t index, int rc, struct raftthread_answer answer);
void raftthread_rewind(struct raftthread *t, uint32_t group, uint64_t index, struct raftthread_answer answer);
/* info is NULL if rc < 0. */
void raftthread_look(struct raftthread *t, uint32_t group, void (*done)(void *ctx, uint32_t group, int rc, const struct raftnode_info *info), void *ctx);

/* ---- peers */

void raftthread_peer_put(struct raftthread *t, uint64_t node, const char *address);
void raftthread_peer_del(struct raftthread *t, uint64_t node);
void raftthread_secret(struct raftthread *t, const struct linksecret *secret); /* as links_secret */
void raftthread_send(struct raftthread *t, uint64_t peer, struct slice frames); /* whole frames, of other types than Raft's; lost if the link is */
/* The same, but leaves it to raftthread_hurry to wake the thread: for who sends to several peers at a time. */
void raftthread_put(struct raftthread *t, uint64_t peer, struct slice frames);
bool raftthread_hurry(struct raftthread *t); /* false: nothing was put that it has not taken */

/* ---- on the raft thread alone: without a detour by the mailbox */

/* As raftnode_submit; what becomes of it is told by committed() and truncated(). */
int raftthread_propose(struct raftthread *t, uint32_t group, uint64_t term, struct slice data, uint64_t *index);
void raftthread_confirm(struct raftthread *t, uint32_t group, struct raftthread_answer answer); /* as raftthread_read */
int raftthread_inspect(struct raftthread *t, uint32_t group, struct raftnode_info *out);         /* as raftnode_look */
bool raftthread_reaches(struct raftthread *t, uint64_t peer);                                     /* there is a connection to it */
bool raftthread_lanes(struct raftthread *t, uint64_t peer, struct links_lanes *out);              /* as links_lanes */
uint64_t raftthread_spread(struct raftthread *t, struct slice frames, uint16_t version, size_t queued_max, uint64_t *dropped); /* as links_spread */

/* ---- the thread itself */

void raftthread_wake(struct raftthread *t); /* a turn comes soon */

/* Runs a function on the raft thread, between upcalls; also when it has failed. After its end, raftthread_close does. */
void raftthread_run(struct raftthread *t, void (*fn)(void *ctx), void *ctx);

struct raftthread_stats {
    uint64_t turns, slowest_turn_us; /* work of a turn, its wait not counted */
    uint64_t stalls, stalled_ms;     /* times the thread did not run when it wanted to, for long; Raft's clock stands still then */
    uint64_t submits, refused, uncertain; /* taken; turned away; of those taken, ended with -ECANCELED */
    uint64_t commits, commit_bytes;  /* commands handed to committed() */
    uint64_t waiting;                /* submitted and not answered */
    uint64_t reads, reads_failed;
    uint64_t elections, reigns;      /* how often this node stood for election, and led */
    uint32_t groups, leaders;        /* replicas here, and those of them that lead */
    uint64_t capacity;               /* of the log */
    int chore_error;                 /* of the log: why no segment is made ready */
    struct raftlog_info log;         /* batches, bytes, segments */
    bool log_rings;                  /* raftwriter_rings */
    struct links_totals links;
};
struct raftthread_peer {
    uint64_t node;
    struct links_stats link;
};
/* Copies, a tenth of a second old, or of the last turn if the thread slept since. Any thread; does not wait for the raft thread. */
void raftthread_stats(struct raftthread *t, struct raftthread_stats *out);
uint32_t raftthread_peers(struct raftthread *t, struct raftthread_peer *out, uint32_t max); /* gives how many there are */
