/* The snapshots of this node's groups: taken when their logs have become long, given to other nodes and fetched from them, and read to fill seats. The threads for what may block; the raft thread only hands over.
 *
 *   the snapper    takes snapshots (cluster/groupcut.h), one at a time; and fills seats from files: at a start, after an install, when a seat is spoilt
 *   the courier    owns snapsend and snapfetch, and turns them
 *
 * Groups 0 and 1 have no seat: their state is a piece of memory of the raft thread's, which is asked for and handed back by calls there (options.state, options.restore). Their snapshot has it as strings of the system database.
 *
 * Functions marked R are for the raft thread and never block; others say who may call them. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/compress.h"
#include "base/slice.h"
#include "base/slog.h"
#include "cluster/links.h"
#include "cluster/raftnode.h"
#include "cluster/wire.h"

struct file_ops;
struct raftthread;
struct raftthread_found;
struct seats;
struct snaphost;
struct walk;

struct snaphost_options {
    const char *dir;              /* of the snapshots; made if it is not there; copied */
    const struct file_ops *files; /* kept, as what follows */
    struct walk *walk;
    struct seats *seats;
    struct raftthread *raft;
    const struct slog *log;
    uint8_t cluster[WIRE_CLUSTER_ID];
    enum compress_profile profile;
    uint32_t trailing;            /* entries of the log that are kept behind a snapshot for slow followers; 0: 4096 */
    /* R: of groups 0 and 1. state appends the state to out, and says its place in the log; restore takes it (an empty slice and index 0: the state of an empty log). restore gives false if the bytes are none. */
    void *ctx;
    void (*state)(void *ctx, uint32_t group, struct buf *out, uint64_t *index, uint64_t *term);
    bool (*restore)(void *ctx, uint32_t group, struct slice state, uint64_t index);
    /* R: who the members of a group are at this moment, for the snapshot's header. */
    void (*members)(void *ctx, uint32_t group, struct raftnode_members *out);
    /* Any of its threads: this node cannot go on (a snapshot that it needs is damaged, the disk fails). Said once. */
    void (*failed)(void *ctx, const char *why);
};

/* NULL and a reason. Deletes what earlier runs left unfinished. */
struct snaphost *snaphost_open(const struct snaphost_options *options, struct buf *error);
int snaphost_start(struct snaphost *h); /* the threads; 0 or -errno */
/* Ends the threads; what is under way is given up. The engine's workers still run: a walk that is given up ends by their hands. Before raftthread_close. */
void snaphost_stop(struct snaphost *h);
void snaphost_close(struct snaphost *h);

/* A start: each of these groups, which the log has, is filled from its snapshot (of the index that the log says) and then resumed (raftthread_resume). Groups from META_FIRST_DATA_GROUP on have a seat already. Once, after start.
 * Whether all are done, and how far: snaphost_look. A snapshot that is missing or damaged is a failure, with its file and reason. */
void snaphost_recover(struct snaphost *h, const struct raftthread_found *found, uint32_t n);

/* ---- R: upcalls of raftthread_app and seats_options */
void snaphost_wanted(struct snaphost *h, uint32_t group, uint64_t log_bytes);
void snaphost_describe(struct snaphost *h, uint32_t group, uint64_t index, struct buf *out);
/* Fetches it, fills the seat with it, and says raftthread_installed. */
void snaphost_install(struct snaphost *h, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor);
void snaphost_marked(struct snaphost *h, uint32_t group, uint64_t index);
/* The seat is spoilt: fills it from the last snapshot (or with nothing, if the log still begins at 1) and says raftthread_rewind. */
void snaphost_refill(struct snaphost *h, uint32_t group);
/* The replica is gone, and its end in the log is durable: so are its snapshots. */
void snaphost_drop(struct snaphost *h, uint32_t group);
int snaphost_frame(struct snaphost *h, uint64_t from, const struct wire_frame *f); /* SNAP_*: 0 or -EBADMSG */
void snaphost_up(struct snaphost *h, uint64_t peer, enum links_way way);
void snaphost_down(struct snaphost *h, uint64_t peer, enum links_way way);

/* ---- any thread */
struct snaphost_info {
    uint64_t taken, taken_bytes, failed;   /* snapshots, since the start */
    uint64_t sent_bytes, fetched, fetched_bytes, filled;
    uint32_t filling, fetching, sending;   /* just now */
    uint32_t recovering;                   /* groups of the start that are not resumed yet */
    uint64_t last_ms;                      /* how long the last one took */
    uint32_t last_group;
};
void snaphost_look(struct snaphost *h, struct snaphost_info *out);
