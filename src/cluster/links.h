/* A node's connections to the other nodes: one listener, and one TCP connection to each peer that carries frames to it. Frames to a peer arrive in the order in
 * which they were sent, or not at all: never twice, never late.
 *
 * That holds because a connection's frames die with it. A peer that connects anew makes us drop what is left of its old connection, read or unread; when ours
 * breaks, what was not sent is dropped. A peer that reads too slowly loses whole frames: beyond out_max bytes nothing is queued.
 *
 * One thread owns it, event loop included. A turn of that thread:
 *
 *     links_turn(timeout)     waits for events and delivers frames (on_frame)
 *     links_tick(now)         connects, greets, pings, gives up what is silent
 *     ... links_send          as often as there is something
 *     links_flush()           hands each peer's frames to the kernel in one piece
 *
 * Callers may also be workers of a peer, who want to speak to a worker here: once such a connection, a lane, has been greeted, it is handed to the owner (on_lane). Lanes to a peer are opened by its
 * workers' likes here, with what links_lanes tells them.
 *
 * Both sides greet with a HELLO. A caller of another cluster or protocol, one that takes us for somebody else, that bears our own number, or the number of a node
 * that runs elsewhere is turned away, with a line in the log. If there is a secret (cluster/linksecret.h), so is everybody who does not prove it, and nobody else is spoken to. For all of that
 * there is silence_ms, and not much more memory than a greeting takes.
 *
 * Calls come from within links_turn, links_tick, links_peer_put and links_secret. From them links_send, links_peer_put and what only looks may be called. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/slog.h"
#include "cluster/linksecret.h"
#include "cluster/wire.h"
#include "io/loop.h"

struct links;
struct links_lanes; /* cluster/linklanes.h */

/* Of a peer: the connection that we opened to it, and the one that it opened to us. */
enum links_way { LINKS_OUT, LINKS_IN };

struct links_calls {
    void *ctx;
    /* A frame that a peer sent, checked as far as its head and checksum go. f is borrowed. A negative result closes the peer's connection: the frame made no sense. */
    int (*on_frame)(void *ctx, uint64_t from, const struct wire_frame *f);
    /* A way is there: what is sent now may arrive; or the peer can reach us. */
    void (*on_up)(void *ctx, uint64_t peer, enum links_way way);
    /* It is gone. OUT: frames sent to the peer may not have arrived. IN: frames that it sent may not have arrived here. */
    void (*on_down)(void *ctx, uint64_t peer, enum links_way way);
    /* A node that is no peer introduces itself, or a peer that calls itself by another address than links_peer_put said. True lets it in; the owner calls links_peer_put
     * to reach it there. May be NULL: then strangers are turned away, and such peers are let in. */
    bool (*on_stranger)(void *ctx, const struct wire_hello *hello);
    /* A peer's worker has called: the connection is the owner's, who sends our greeting as its first bytes (borrowed). May be NULL if options.lanes is 0. */
    void (*on_lane)(void *ctx, uint64_t peer, uint16_t lane, int fd, struct slice greeting);
};

struct links_options {
    uint8_t cluster[WIRE_CLUSTER_ID];
    uint64_t node;        /* ours, not 0 */
    uint64_t incarnation; /* not 0; grows with every start */
    const char *address;  /* ours, as others shall know it: host:port; copied */
    struct linksecret secret; /* that nodes prove to each other; may be none */
    uint16_t lanes;       /* how many workers there are to take lanes; 0: none are taken */
    uint64_t seed;        /* of the jitter */
    uint64_t now;         /* ms */
    int wake_fd;          /* an eventfd that ends a wait; kept */
    enum loop_backend backend;
    size_t out_max;       /* bytes queued for a peer; 0: 64 MiB */
    uint32_t retry_min_ms, retry_max_ms; /* between attempts to connect, doubling, with jitter; 0: 50 and 1000 */
    uint32_t silence_ms;  /* a connection on which nothing was heard for so long is given up; also the time to connect and to greet; 0: 3000 */
    const struct slog *log; /* kept */
};

enum links_state {
    LINKS_WAITING,    /* until the next attempt */
    LINKS_RESOLVING,  /* the name */
    LINKS_CONNECTING, /* and greeting */
    LINKS_UP,
};

struct links_stats {
    enum links_state state;
    bool in;                      /* the peer is connected to us */
    uint64_t incarnation;         /* of the peer, 0: not met yet */
    uint64_t frames_out, bytes_out, frames_in, bytes_in;
    uint64_t dropped;             /* frames to the peer that were not sent: it read too slowly or was not connected */
    uint64_t dropped_slow;        /* of these, the first kind */
    uint64_t connects, accepts;   /* connections that passed the greeting; more than one: there were reconnects */
    size_t queued;                /* bytes */
    uint64_t round_trip_us;       /* of the last ping, as exact as turns are */
    int error;                    /* why the last attempt failed, or 0 */
    char address[WIRE_ADDRESS_MAX + 1];
};

struct links_totals {
    uint64_t refused; /* callers that were turned away: garbage, strangers, another cluster */
    uint64_t unproven; /* greetings, of callers and of nodes that were called, that failed for want of the same secret */
    uint32_t callers; /* that have not greeted yet */
};

/* NULL and a sentence in error if there is no event loop to be had. */
struct links *links_new(const struct links_options *options, const struct links_calls *calls, char error[128]);
/* Closes everything, without calls. */
void links_free(struct links *l);

/* Listens at "host:port" (port 0: any); gives 0 or -errno. May be called several times. */
int links_listen(struct links *l, const char *address);
uint16_t links_port(const struct links *l); /* of the last listener */

/* Adds a peer, or changes its address: a connection to the old one ends. */
void links_peer_put(struct links *l, uint64_t node, const char *address);
/* The secret from now on. If it is another one, all connections end and are made anew. Not from within a call of links_calls. */
void links_secret(struct links *l, const struct linksecret *secret);
/* Forgets a peer: its connections end, without on_down. Not from within a call of links_calls. */
void links_peer_del(struct links *l, uint64_t node);
uint32_t links_peers(const struct links *l, uint64_t *out, uint32_t max); /* gives how many there are */
bool links_stats(const struct links *l, uint64_t node, struct links_stats *out); /* false: no such peer */
void links_totals(const struct links *l, struct links_totals *out);
bool links_lanes(const struct links *l, uint64_t node, struct links_lanes *out); /* false: none: it is not connected, or takes none */

/* Queues whole frames for a peer. False: they are dropped and counted, all of them: no connection, or more than out_max would be queued (if nothing is, any size
 * is taken). */
bool links_send(struct links *l, uint64_t peer, struct slice frames);
/* To every peer that is connected and speaks this version or a later one: frames that may get lost. Gives how often they were queued, frames times peers. A peer for which more than queued_max
 * bytes would be queued then does not get them, so that they never are what Raft's frames have to wait behind; *dropped grows by those, and only those: who is not connected is not waited for. */
uint64_t links_spread(struct links *l, struct slice frames, uint16_t version, size_t queued_max, uint64_t *dropped);
void links_flush(struct links *l);
void links_push(struct links *l); /* and now: for who will not turn soon */

int links_turn(struct links *l, int timeout_ms); /* gives the number of events */
void links_tick(struct links *l, uint64_t now_ms);
uint64_t links_next(const struct links *l); /* when tick has something to do next, at the latest */
