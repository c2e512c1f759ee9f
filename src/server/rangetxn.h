/* A command on a part of a key space that lies in several groups: RANGE.GET, RANGE.COUNT, RANGE.DEL, and those of locks. It is a transaction (cluster/txn.h) that asks groups for spans instead of keys (server/spancmd.h): what is answered was so
 * at one moment, and what is written is written everywhere or nowhere. Pure: no clock, no thread, no connection; requests go out through the host's functions, answers and time come in by the transaction's.
 *
 * Errors as those of server/widetxn.h. One thread: that of a worker of the engine. */
#pragma once
#include "cluster/txn.h"

struct buf;
struct engine;
struct exec;
struct rangetxn;

struct rangetxn_host {
    void *ctx;
    void (*send)(void *ctx, struct txn *t, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms); /* as of struct txn_host */
    void (*settled)(void *ctx, enum txn_outcome o, struct buf *answer); /* once: the client's answer; takes what is in it */
    void (*over)(void *ctx);                                            /* once, later: it may be freed, also from within */
    unsigned events;                                                    /* that are told: a set of enum notify_class */
};

/* Of x only the command, its arguments and the reply are used; what the arguments point to is kept until it is settled, and the engine for ever. NULL: something is wrong, and that is answered. name is copied. */
struct rangetxn *rangetxn_new(const struct rangetxn_host *host, const struct engine *e, uint16_t db, struct slice name, struct exec *x);
void rangetxn_free(struct rangetxn *w);
struct txn *rangetxn_txn(struct rangetxn *w); /* to be started, told answers and woken */
