/* Requests on their way to the raft thread: a queue that any thread puts into without waiting, and the wake-up of its one reader. Private to raftthread.c.
 *
 * The reader's turn:
 *
 *     if (!raftmail_sleeps(b)) do not wait       something came since it last looked
 *     ... waits for the descriptor and for other things ...
 *     raftmail_wakes(b)                          from here on a wake-up is for the next turn
 *     raftmail_take(b) */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "cluster/raftthread.h"

enum raftmail_kind {
    RAFTMAIL_SUBMIT,
    RAFTMAIL_READ,
    RAFTMAIL_CREATE,
    RAFTMAIL_JOIN,
    RAFTMAIL_RESUME,
    RAFTMAIL_DROP,
    RAFTMAIL_TRANSFER,
    RAFTMAIL_CHANGE,
    RAFTMAIL_SNAPSHOTTED,
    RAFTMAIL_INSTALLED,
    RAFTMAIL_REWIND,
    RAFTMAIL_LOOK,
    RAFTMAIL_PEER_PUT,
    RAFTMAIL_PEER_DEL,
    RAFTMAIL_SECRET,
    RAFTMAIL_SEND,
    RAFTMAIL_RUN,
    RAFTMAIL_STOP,
    RAFTMAIL_KINDS,
};

struct raftmail {
    struct raftmail *next;
    enum raftmail_kind kind;
    uint32_t group;
    uint64_t node, index; /* or a term, or a time: as the kind has it */
    int number;           /* a role, a count, a result */
    struct raftthread_answer answer;
    union {
        void (*run)(void *ctx);
        void (*look)(void *ctx, uint32_t group, int rc, const struct raftnode_info *info);
    } fn;
    void *fn_ctx;
    size_t n;
    _Alignas(8) char data[];
};

struct raftmail_box {
    _Atomic(struct raftmail *) top; /* the latest; each points to the one before it */
    atomic_int state;
    int fd; /* an eventfd */
};

int raftmail_init(struct raftmail_box *b); /* 0 or -errno */
void raftmail_fini(struct raftmail_box *b); /* empty */

/* A copy of `mail` with these bytes as its data. put: its reader is not woken, which the caller does when he has put everything. */
void raftmail_put(struct raftmail_box *b, const struct raftmail *mail, struct slice data);
void raftmail_post(struct raftmail_box *b, const struct raftmail *mail, struct slice data);
void raftmail_wake(struct raftmail_box *b); /* any thread */
bool raftmail_is_empty(const struct raftmail_box *b); /* of what the caller has put, at least */

/* ---- the reader's */
bool raftmail_sleeps(struct raftmail_box *b); /* it is about to; false: it should not */
void raftmail_wakes(struct raftmail_box *b);
struct raftmail *raftmail_take(struct raftmail_box *b); /* gives all of it, oldest first; mem_free each */
void raftmail_wait(struct raftmail_box *b, int timeout_ms); /* sleeps and wakes, where there is nothing else to wait for */
