/* Whole nodes in a world (world.h), with the code that real ones run: an engine whose one worker is driven by hand, seats (cluster/seat.h), the cluster's own groups (cluster/metahost.h), Raft and its log, snapshots as files. The
 * simulator has what real nodes have threads and sockets for.
 *
 *     nodesim.c          a node: its raft thread's turns, its worker's, starts and crashes
 *     nodesim_calls.c    what its parts ask of each other
 *     nodesim_snap.c     what snaphost's threads do: snapshots are taken, given, fetched, and seats filled from them
 *     nodesim_client.c   clients, and the guests (server/relay.h) that run their commands
 *     nodesim_leg.c      requests to groups, on their way
 *     nodesim_proof.c    who vouches for a leader
 *     nodesim_txn.c      transactions over groups, their coordinators and the care for what those leave behind
 *     nodesim_forward.c  writes that one node sends to another, with numbers
 *     nodesim_wide.c     commands on ranges that lie in several groups
 *     nodesim_range.c    a key space that has an order, and commands on ranges of it
 *     nodesim_lock.c     clients that lock parts of it
 *     nodesim_pipe.c     pipelines, and reads that may be old
 *     nodesim_list.c     commands over all keys
 *     nodesim_mover.c    movers, which carry keys between groups
 *     nodesim_topology.c changes of that key space, and faults at their steps
 *     nodesim_story.c    an administrator, the weather, and what must be true in the end
 *
 * The raft thread and the worker of a node take turns, but each may stand still for a while when the rest of the world goes on, its own node too: the worker in the middle of a command (struct nodesim_node.busy), the raft thread between turns
 * (raft_until), so that its node goes on to run commands for a group that has long had another leader.
 *
 * A run is a founding, some seconds of faults and of a cluster that changes, then peace. What clients were told is judged key by key (wgl.h), for keys that transactions use pair by pair. In the end every group has a leader, all its replicas have the same keys, and each key is
 * read once more: so nothing that was acknowledged is lost, and what expired has not come back. */
#pragma once
#include "world.h"

/* Bugs that a run must find. They are in the simulator: it does not do what the code that it tests relies on, or asks for. */
enum nodesim_mutant {
    NODESIM_SOUND,
    NODESIM_EARLY_ANSWER,  /* a write is answered before its entry is committed */
    NODESIM_NAIVE_READ,    /* a read is answered though nobody has confirmed that this node leads */
    NODESIM_NO_REFILL,     /* a spoilt seat is taken for a good one */
    NODESIM_TWICE,         /* a spoilt seat is not emptied before it gets the log again: entries of its own are there twice */
    NODESIM_OLD_REIGN,     /* what a command did in a reign that ended meanwhile goes into the next one's entries */
    NODESIM_READ_INTENT,   /* reads pass the intents of transactions */
    NODESIM_NO_RESERVATION, /* a transaction is decided though its reservations are gone */
    NODESIM_UNHELD_READ,   /* one that only reads does not hear that its reservations were gone */
    NODESIM_NO_FENCE,      /* a group serves a key that it has given away, or has not got yet */
    NODESIM_EARLY_DROP,    /* what was given out is dropped before it has arrived */
    NODESIM_OLD_DRIVER,    /* a driver that another one has replaced goes on, and is obeyed */
    NODESIM_OLD_MAP,       /* a leader serves what was carried away by a map that does not know of it */
    NODESIM_HALF_LOCK,     /* a lock over groups does not look for other locks in all of them */
    NODESIM_HALF_DELETION, /* a range over groups is not deleted in all of them */
    NODESIM_NO_RECORD,     /* a leader does not know a write again that has happened */
    NODESIM_ON_THEIR_WAY,  /* a group tells of all its keys while some of them are on their way */
    NODESIM_OLD_LIST,      /* who asks for all keys does not hear that groups know a newer map */
    NODESIM_BLIND_VOUCHER, /* who is asked whether it knows of a later term does not look */
    NODESIM_MUTANTS,
};
const char *nodesim_mutant_name(enum nodesim_mutant m);

/* Steps of a change of topology at which a fault may strike. */
enum nodesim_at { NODESIM_AT_BEGIN, NODESIM_AT_MEASURE, NODESIM_AT_FREEZE, NODESIM_AT_PIECE, NODESIM_AT_PUT, NODESIM_AT_TAKE, NODESIM_AT_END, NODESIM_AT_BOUNDARY, NODESIM_AT_DONE, NODESIM_ATS };

struct nodesim_result {
    bool failed;
    bool counts; /* a node crashed, a group got another leader, a seat was filled from a snapshot or made anew, something was written and read, by transactions over groups, too; a range was split, merged or moved */
    char why[900];
    uint64_t hash;
    struct world_counts world;
    uint64_t writes, reads, bounced, lost, uncertain, expiring;
    uint64_t proven, vouched; /* reads that needed no confirmation by Raft; of them, by the node that sent the request */
    uint64_t boards; /* frames that the board of terms was asked about */
    uint64_t reigns, refills, installs, recoveries, snapshots, held; /* held: commands in whose middle the world went on */
    uint64_t moves, joins, leaves, transfers, drops;
    uint64_t pages, deleted; /* of ranges: pages behind the first, and keys that were deleted */
    uint64_t ranges, unset_ranges, modes, splits, merges, range_moves, group_splits; /* ranges: commands on them; unset_ranges: before their space was set; group_splits: an interval of the hash went to a new group */
    uint64_t slices, carried, large; /* by movers: keys, and those of them that went in pieces */
    uint64_t locks, denied, pipelines, stale_reads; /* denied: others had a lock */
    uint64_t struck[NODESIM_ATS];
    uint64_t strikes, handed_over, blinded; /* faults in the middle of a topology change; nodes that were cut off from the map alone; handed_over: group 1, while keys were carried */
    uint64_t forwarded, sent_again, repeated; /* writes that a node sent on: that were done, those of them that were sent more than once, and answers from a record */
    uint64_t counted, listed, scanned, waited; /* all keys, by DBSIZE, KEYS, and SCAN to its end; and how often one of them waited for a map that its node had not heard of */
    uint64_t wide_ranges, wide_deletions, wide_locks; /* commands on ranges in several groups: reads, deletions, those of locks; */
    uint64_t wide_unset; /* of these, those of a bucket that nobody had set, while its group was split */
    uint64_t wide_writes, wide_reads, wide_refused, wide_uncertain, recovered; /* transactions over two groups; recovered: without their coordinators */
};

void nodesim_run(uint64_t seed, enum nodesim_mutant mutant, bool trace, struct nodesim_result *out);
