/* What the parts of a transaction (cluster/txn.h) share: txn.c has its steps, txnwants.c what it wants of groups. */
#pragma once
#include "base/buf.h"
#include "cluster/txn.h"
#include "cluster/txnask.h"
#include "cluster/txncmd.h"

enum txn_state {
    STATE_NEW,
    STATE_PAUSED,  /* until wakes_ms; `then` goes on */
    STATE_FETCHING,
    STATE_ENDING,  /* nothing was written: txn.done */
    STATE_PREPARING,
    STATE_DECIDING,
    STATE_ASKING,
    STATE_COMMITTING,
    STATE_FORGETTING,
    STATE_DROPPING, /* then it begins anew, unless it is settled */
    STATE_OVER,
};

struct key {
    struct txn_key k;
    uint32_t group;      /* in txn->groups */
    bool there;
    size_t entry_at, entry_n; /* in entries */
};

struct ask {
    const char *command;
    uint32_t group;           /* in txn->groups */
    uint32_t first_word, n_words;
    bool told;
    size_t at, n;             /* what, in entries */
};

struct word { /* of an ask, in words */
    size_t at, n;
};

struct group {
    uint32_t number;
    bool touched; /* it may have a reservation of this attempt */
    bool fetched; /* its keys' entries are there; also if it has none */
    bool has_token;
    bool torn; /* it gave another token before: what that stood for is gone */
    char token[TXNCMD_TOKEN_BYTES];
    struct buf ops, events;
};

enum { NO_ASK = UINT32_MAX };

struct sent { /* a request that reserves */
    uint32_t group, ask; /* in groups; in asks, or NO_ASK: the group's keys */
};

struct txn {
    struct txn_host host;
    char id[TXN_NAME_MAX + 4]; /* the name, and from name_n on the attempt */
    size_t name_n, id_n;
    struct key *keys;
    uint32_t n_keys;
    struct ask *asks;     /* of this attempt */
    uint32_t n_asks, cap_asks;
    struct word *words;   /* of asks */
    uint32_t n_words, cap_words;
    struct buf bytes;     /* of words */
    struct group *groups; /* of this attempt: first those of keys, ascending */
    uint32_t n_groups, cap_groups;
    struct sent *sent;    /* by fetch_next */
    uint32_t n_sent, cap_sent;
    uint32_t decider;     /* of groups */
    enum txn_state state;
    void (*then)(struct txn *t, int64_t now_ms);
    int64_t deadline_ms, wakes_ms, decided_ms;
    uint32_t pause_ms;
    uint32_t attempts;
    bool moved;      /* a group does not serve what it was asked for */
    bool one_by_one; /* groups are reserved one after the other, in ascending order */
    uint32_t next;   /* and this one is being asked */
    bool settled;
    struct buf entries, error;
    struct txnask ask;
};

/* A request about this transaction to a group. */
void txnwants_request(struct txn *t, uint32_t group, const char *command);

/* Keys and asks of a new attempt, and their groups. False: some group is not known. */
bool txnwants_begin(struct txn *t);
void txnwants_fini(struct txn *t);
/* Whatever else the host asks, when all is there. */
void txnwants_more(struct txn *t);
/* The group with the lowest number of which something is not there yet; TXN_NO_GROUP: all is there. */
uint32_t txnwants_next(const struct txn *t);
/* Requests for all that is wanted of a group, noted in t->sent. */
void txnwants_add(struct txn *t, uint32_t group);
/* The answer to t->sent[i]; false: it is none. */
bool txnwants_take(struct txn *t, uint32_t i, struct slice answer);
