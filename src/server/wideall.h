/* A command over all keys of a cluster, under way (server/wide.h says what is promised): DBSIZE, KEYS, RANDOMKEY, FLUSHDB, FLUSHALL, SWAPDB and SCAN. Pure: no clock, no thread, no connection; requests to groups go out through the host's
 * functions, and their answers come in.
 *
 * Where a group's leader knows a newer map than this node, keys may be where nobody was asked: it waits until that map is in force here, and asks again. One thread: that of a worker of the engine. */
#pragma once
#include "cluster/txn.h"

struct buf;
struct command;
struct engine;
struct exec;
struct wideall;

struct wideall_host {
    void *ctx;
    const struct engine *engine; /* kept */
    int64_t (*now_ms)(void *ctx);
    /* Sends the requests, side by side; wideall_answered is called when each has its answer or its time is over, never from within. The arguments are borrowed. */
    void (*send)(void *ctx, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms);
};

bool wideall_has(const struct command *c); /* it is one of them */

/* Of x only the command, its arguments and the reply are used; what the arguments point to is kept. NULL: it is answered already. */
struct wideall *wideall_new(const struct wideall_host *host, struct exec *x, uint32_t timeout_ms);
/* In the order of the requests; one that was not answered has an error for a reply, which a client can be told. True: out has the client's answer, and it is over. False: there are other requests, or it waits for a map. */
bool wideall_answered(struct wideall *w, const struct txn_answer *answers, uint32_t n, struct buf *out);
/* Another map is in force, or it is time. As wideall_answered; nothing happens unless it waits for just that. */
bool wideall_wake(struct wideall *w, struct buf *out);
int64_t wideall_wakes_ms(const struct wideall *w); /* when wideall_wake is wanted, if no map comes before; INT64_MAX: it waits for answers */
void wideall_hurry(struct wideall *w);             /* its time is over */
void wideall_free(struct wideall *w);
