/* One connection between two nodes, from its first byte on: greeting, frames, pings, silence. Private to the link files; links.c decides who is connected to whom. */
#pragma once
#include "cluster/linkcaller.h"
#include "cluster/links.h"
#include "base/rng.h"
#include "io/resolve.h"

enum linkconn_phase {
    LINKCONN_GREETING, /* the other's HELLO is missing */
    LINKCONN_PROVING,  /* a caller's PROOF is missing */
    LINKCONN_UP,
    LINKCONN_LEAVING, /* turned away: ends when our HELLO is sent */
    LINKCONN_HANDED,  /* a lane: the owner's when the event loop has let go */
    LINKCONN_CLOSED,  /* waits for that, too */
};

struct linkconn {
    struct stream stream; /* its owner is this */
    struct links *links;
    struct linkconn *next, **place; /* of all */
    struct linkpeer *peer;        /* NULL: a caller that has not greeted, or closed */
    enum links_way way;
    enum linkconn_phase phase;
    struct linkcaller call;  /* OUT: how it greets */
    struct wire_hello theirs; /* IN: the caller's greeting, from PROVING on; */
    uint8_t nonce[WIRE_PROOF_BYTES]; /* what it was challenged with, */
    bool proven;              /* and that it has proven a secret of ours */
    struct buf in;     /* bytes of an unfinished frame */
    bool heard;        /* since the last tick */
    uint64_t heard_ms; /* on the waking clock; until it is up: when it began */
    uint64_t acked;    /* bytes of ours that were taken, when we last looked */
    uint64_t lane_of, lane_run; /* HANDED: the peer and its incarnation, and which one */
    uint16_t lane;
};

struct linkpeer {
    uint64_t node;
    char address[WIRE_ADDRESS_MAX + 1]; /* "": it comes to us, we do not go to it */
    struct linkgreet_known known;
    enum links_state state;
    struct linkconn *out, *in;
    struct resolve *resolve;
    struct buf queue; /* whole frames that wait for the connection to be drained */
    uint64_t retry_at, up_at;
    uint32_t retry_ms; /* the next pause */
    uint64_t ping_at, ping_token;
    const char *told; /* what the log last said of it: it says nothing twice */
    struct links_stats stats;
};

struct links {
    struct links_options options;
    char address[WIRE_ADDRESS_MAX + 1];
    struct links_calls calls;
    struct loop *loop;
    struct rng rng;
    uint64_t now;
    uint64_t awake_ms; /* a clock that stands still while this process does: silence is measured by it */
    struct linkpeer **peers;
    uint32_t n_peers, peers_room;
    struct linkconn *conns;
    uint32_t callers;
    uint64_t refused, unproven;
    uint64_t told_refusal_at, untold; /* log lines about callers are rationed */
    uint16_t port;
    bool ending;
};

/* ---- linkconn.c */

struct linkconn *linkconn_open(struct links *l, int fd, enum links_way way, struct linkpeer *peer);
void linkconn_data(struct linkconn *c, struct slice bytes);
void linkconn_call(struct linkconn *c);               /* sends our HELLO */
void linkconn_challenge(struct linkconn *c, const struct wire_hello *theirs); /* wants the caller to prove the secret */
void linkconn_answer(const struct linkconn *c, uint64_t to, struct buf *out); /* appends our HELLO to a caller's, with our proof if it gave one */
void linkconn_greet(struct linkconn *c, uint64_t to); /* sends that */
void linkconn_hand_over(struct linkconn *c, const struct wire_hello *hello); /* it is the lane that the hello says */
void linkconn_leave(struct linkconn *c);              /* closes when all is sent */
void linkconn_drained(struct linkconn *c);            /* it is */
void linkconn_close(struct linkconn *c);
void linkconn_free(struct linkconn *c); /* the event loop has let go of it */
/* Once a tick: whether nothing was heard for too long. */
bool linkconn_silent(struct linkconn *c);

/* ---- links.c, called by connections */

void links_hello(const struct links *l, uint64_t to, struct wire_hello *out); /* ours */
/* The other's greeting is here. What a verdict other than welcome leads to is done. */
void links_greeted(struct links *l, struct linkconn *c, const struct wire_hello *hello);
void links_proven(struct links *l, struct linkconn *c); /* c->proven: the caller's proof is right, or not */
/* The connection is of no use any more: closes it, and tells and retries as is due. why is a sentence, or NULL for error. */
void links_lost(struct links *l, struct linkconn *c, int error, const char *why);
