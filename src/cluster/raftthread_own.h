/* The inside of the raft thread, for the files of cluster/raftthread.h. */
#pragma once
#include <pthread.h>

#include "cluster/raftledger.h"
#include "cluster/raftmail.h"
#include "cluster/raftthread.h"
#include "cluster/raftwriter.h"

enum phase { RUNNING, LEAVING /* hands leadership over */, ENDING };

struct raftthread {
    struct raftthread_options options;
    char *listen, *address, *dir; /* which options point to */
    struct raftthread_app app;
    struct raftmail_box box;
    struct raftlog *log;
    struct raftwriter *writer;
    struct raftnode *node;
    struct links *links; /* the thread's */
    struct raftledger ledger;

    pthread_t thread;
    bool started;

    enum phase phase;
    uint64_t leave_by, end_by; /* 0: at once */
    const char *failure;       /* why it stands still */

    uint64_t now;     /* ms of the clock, at this turn */
    uint64_t awake;   /* the same without stalls: Raft's time */
    uint64_t planned; /* how long this turn meant to wait */
    bool timed;       /* this turn has its time */
    bool hurry;       /* the next turn has something to do */
    int64_t turn_us;  /* when work began */
    uint64_t house_at, publish_at, retry_at /* 0: nothing failed */;
    uint64_t durable; /* the last batch of the log of which raftnode knows */
    uint64_t wrote_at;
    bool unsealed;
    int told_chore_error;
    struct raftthread_stats stats;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    enum { STARTING, STARTED, START_FAILED } start;
    struct buf start_error;
    struct raftthread_stats published;
    struct raftthread_peer *peers;
    uint32_t n_peers;
};

/* raftthread_requests.c: does what was asked for. refusal: 0, or why everything is refused that can be. */
void raftthread_take_mail(struct raftthread *t, int refusal);
