/* Raft groups in a world: real raftnode, raftlog and frames on every node, a small state machine in each group, clients, and an administrator who moves leaders and
 * members about. raftsim.c is a node, raftload.c what is done to it. */
#pragma once
#include "cluster/raftlog.h"
#include "cluster/raftnode.h"
#include "raftcheck.h"
#include "world.h"

enum { RAFTSIM_NODES = 5, RAFTSIM_SNAPSHOTS = 4, RAFTSIM_PENDING = 512 };

/* Bugs that a run must find. They are in the simulator, not in what it tests. */
enum raftsim_mutant {
    RAFTSIM_SOUND,
    RAFTSIM_FORGETFUL_DISK, /* at a crash the last writes are gone, though they were synced */
    RAFTSIM_EARLY_SYNC,     /* writes are said to be durable before they are */
    RAFTSIM_EARLY_ACK,      /* clients are answered when their command is submitted */
    RAFTSIM_NAIVE_READ,     /* leaders answer reads without asking the others */
    RAFTSIM_AMNESIA,        /* a node that starts again forgets for whom it voted, and its log */
    RAFTSIM_MUTANTS,
};
const char *raftsim_mutant_name(enum raftsim_mutant m);

struct raftsim_result {
    bool failed;
    bool counts; /* a leader crashed, a fault completed, and something was written and read */
    char why[600];
    uint64_t hash;
    struct world_counts world;
    uint64_t acks, reads, snapshots, installs, changes, drops, transfers, truncations, vouched;
};

void raftsim_run(uint64_t seed, enum raftsim_mutant mutant, bool trace, struct raftsim_result *out);

/* ---- between raftsim.c and raftload.c */

struct raftsim_snapshot {
    uint64_t index; /* 0: none */
    struct raftcheck_state state;
};

/* What a node has besides its log that a crash does not take. */
struct raftsim_durable {
    struct raftsim_snapshot snapshots[RAFTCHECK_GROUPS][RAFTSIM_SNAPSHOTS];
    struct {
        char path[64];
        uint64_t at, n;
    } writes[3]; /* the last ones, the latest first */
    bool crashed;
    bool dropped[RAFTCHECK_GROUPS]; /* it left the group once, so it is no first member any more */
};

struct raftsim_write {
    uint64_t index, id;
};

struct raftsim_read {
    uint64_t ticket, floor;
    struct raftcheck_state shown;
    bool confirmed;
};

struct raftsim_replica { /* of a group, in a running process */
    bool there;
    bool leads;
    uint64_t term;
    uint64_t handed;
    struct raftcheck_state state; /* of a leader it may be ahead of what was handed */
    struct raftsim_write writes[RAFTSIM_PENDING];
    uint32_t n_writes;
    struct raftsim_read reads[RAFTSIM_PENDING];
    uint32_t n_reads;
    uint64_t wanted, wanted_from; /* index of a snapshot that is being fetched, and the node that has it */
};

struct raftsim_proc {
    struct raftsim *sim;
    uint32_t node;
    struct raftlog *log;
    struct raftnode *raft;
    struct termboard *board;
    struct raftlog_write write;
    struct buf write_copy; /* of the mutant that syncs early */
    bool writing, choring;
    struct raftlog_chore chore;
    uint32_t turns;
    struct raftsim_replica r[RAFTCHECK_GROUPS];
};

struct raftsim {
    struct world *w;
    struct raftcheck *check;
    enum raftsim_mutant mutant;
    uint64_t next_id, next_ticket;
    bool load, admin; /* clients and administrator are at work */
    uint32_t client_us;
    bool large; /* some commands are */
    uint64_t banned[RAFTCHECK_GROUPS][RAFTSIM_NODES + 1]; /* a node that was removed is not added again before this time: it forgets meanwhile */
    struct raftsim_durable durable[RAFTSIM_NODES + 1];
    struct raftsim_result *result;
};

enum raftsim_task { RAFTSIM_WRITTEN, RAFTSIM_CHORE, RAFTSIM_RETRY, RAFTSIM_FETCH, RAFTSIM_JOIN, RAFTSIM_CLIENT, RAFTSIM_ADMIN, RAFTSIM_DROP };

extern const struct world_program raftsim_program; /* ctx is a struct raftsim */
void raftsim_turn(struct raftsim_proc *p); /* the end of a turn: what was gathered goes out */
void raftsim_wake(struct raftsim_proc *p); /* its begin */
void raftsim_answer(struct raftsim_proc *p, uint32_t group); /* reads that can be answered now */

void raftload_client(struct raftsim *s);
void raftload_admin(struct raftsim *s);
void raftload_removed(struct raftsim *s, uint32_t group, uint32_t node); /* that change is committed */
void raftload_drop(struct raftsim *s, uint32_t group, uint32_t node);    /* and the node is told */
