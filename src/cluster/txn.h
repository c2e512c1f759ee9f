/* A transaction over several groups, as the node that coordinates it drives it (docs/decisions/020). Pure: no clock, no thread, no connection. Requests go out through the host's functions; answers and time come in.
 *
 *   fetch     the keys are reserved in their groups, and their entries come; side by side at first, and if something was taken, group after group in ascending order. If a key is not where it was looked for, it
 *             is given up, and begins anew with where it is now
 *   run       the host runs the commands on the entries, and says what they write
 *   done      nothing is written: were all keys held at one moment?
 *   prepare   all groups but one write intents
 *   decide    that one writes its part and the decision: it has happened
 *   ask       whether it has, when nobody knows
 *   commit    the others write their parts; then the decision is forgotten
 *   drop      an attempt is given up
 *
 * Requests are the groups' own commands (cluster/txncmd.h). Each attempt has a name of its own. Besides single keys, or instead, a host can ask groups for other things, which they reserve likewise: parts of key spaces, and locks on them
 * (server/spancmd.h).
 *
 * One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct intentevent;
struct txn;

enum {
    TXN_NAME_MAX = 28,       /* bytes of a transaction's name; with an attempt's number it is a name of cluster/intents.h */
    TXN_NO_GROUP = UINT32_MAX,
};

/* ---- requests and answers: of transactions, and of cluster/txncare.h */

struct txn_request {
    uint32_t group;
    const struct slice *argv; /* argv[0] is the command's name */
    uint32_t argc;
};

enum txn_fate {
    TXN_ANSWERED,      /* there is a reply, perhaps an error */
    TXN_NOT_DONE,      /* nobody could run it in time: nothing happened */
    TXN_MAY_BE_DONE,   /* a write: nobody knows */
};

struct txn_answer {
    enum txn_fate fate;
    struct slice reply; /* RESP2 */
};

/* ---- */

struct txn_key {
    uint16_t db;
    char use; /* 'r' to be read, 'w' to be written; 'e' and 'k' likewise, if its value does not matter: as txn.fetch has it */
    struct slice key;
    struct slice digest; /* of one that is watched, as txn.digest gave it: if it is another when the key is fetched, nothing happens; empty: it is not */
};

enum txn_outcome {
    TXN_DONE,      /* it has happened; or nothing was to be written, and what was read was so at one moment */
    TXN_STOPPED,   /* run said so: nothing happened */
    TXN_CHANGED,   /* a watched key is another: nothing happened */
    TXN_NOBODY,    /* a group could not be reached in time: nothing happened */
    TXN_BUSY,      /* others had its keys until the time was over: nothing happened */
    TXN_REFUSED,   /* a group answered an error, see txn_error: nothing happened */
    TXN_UNCERTAIN, /* the decision was tried, and nobody could say in time what became of it */
};

struct txn_host {
    void *ctx;
    uint32_t (*group_of)(void *ctx, struct slice key); /* TXN_NO_GROUP: not known now */
    /* Sends the requests, side by side; txn_answered is called when each has its answer or its time is over, never from within. The arguments are borrowed. */
    void (*send)(void *ctx, struct txn *t, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms);
    /* All entries are there (txn_entry): runs the commands, and calls txn_write for each op, in their order. False: the transaction is not to happen. Perhaps called again, for another attempt. */
    bool (*run)(void *ctx, struct txn *t);
    void (*settled)(void *ctx, struct txn *t, enum txn_outcome o); /* once: the client's answer may go */
    void (*over)(void *ctx, struct txn *t);                        /* once, later: nothing more will be sent, and t may be freed, also from within */
    /* What is to be asked of groups besides keys, by txn_ask: at the beginning of an attempt, and again whenever all that was asked has been told, before run. Nothing more: that is all. NULL: there is never anything. */
    void (*asks)(void *ctx, struct txn *t);
};

/* The keys are told apart by database and name, each once; what they point to is kept until it is settled. name is copied. n may be 0 if the host asks. */
struct txn *txn_new(const struct txn_host *host, struct slice name, const struct txn_key *keys, uint32_t n);
void txn_free(struct txn *t);

void txn_start(struct txn *t, int64_t now_ms, uint32_t timeout_ms);
void txn_answered(struct txn *t, int64_t now_ms, const struct txn_answer *answers, uint32_t n); /* in the order of the requests */
int64_t txn_wakes_ms(const struct txn *t); /* when txn_wake is wanted; INT64_MAX: it waits for answers */
void txn_wake(struct txn *t, int64_t now_ms);
void txn_hurry(struct txn *t, int64_t now_ms); /* its time is over: it ends as soon as it can */

/* ---- within run */
bool txn_entry(const struct txn *t, uint32_t key, struct slice *raw); /* as dump/dumpfile writes it; false: there is no such key */
void txn_write(struct txn *t, uint32_t key, struct slice op);         /* as log/opcode writes it; of a key that is not only read */

/* ---- within asks and run */

/* A request to a group: a command of its own, the transaction's name, and these words, which are copied. It answers an array: the TOKEN of what it has reserved, null if that is nothing; and what it tells. Requests of one group are in their order. */
void txn_ask(struct txn *t, uint32_t group, const char *command, const struct slice *words, uint32_t n);
uint32_t txn_asked(const struct txn *t);                  /* how many, in this attempt */
struct slice txn_told(const struct txn *t, uint32_t ask); /* RESP: one value */
uint32_t txn_group(const struct txn *t, uint32_t ask);    /* that it was asked of */
/* Within run: the group that this was asked of writes. */
void txn_write_there(struct txn *t, uint32_t ask, struct slice op);

/* Within run: an event that the key's group tells subscribers of, or the one that this was asked of, when it writes; if it writes nothing, and no other does, nobody is told. */
void txn_event(struct txn *t, uint32_t key, const struct intentevent *e);
void txn_event_there(struct txn *t, uint32_t ask, const struct intentevent *e);

/* After TXN_REFUSED: "-ERR ...\r\n". */
struct slice txn_error(const struct txn *t);
uint32_t txn_attempts(const struct txn *t);
