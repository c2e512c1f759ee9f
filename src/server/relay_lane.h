/* Lanes: connections between a worker of this node and one of another, past both raft threads (docs/decisions/027). Requests of waves and their answers go by them, and the questions whether a leader still leads
 * (relay_proof.c). Where there is no lane, and for everything else, the nodes' own connections do.
 *
 * Between two nodes there are as many lanes as the one with more workers has: lane k is between the workers k of both, counted around. The node with the smaller number opens them, when it has reached the other, and again
 * when they break. A front sends its requests by the lane with its own number; an answer goes back by the lane on which the request came, or nowhere: what is lost with a lane is lost as with a node's connection.
 *
 * All of it belongs to the front's thread, but for relay_up and relay_lane. */
#pragma once
#include "cluster/linklanes.h"
#include "io/loop.h"
#include "server/relay_parts.h"

enum relay_lane_phase {
    LANE_RESTS,    /* ours, and there is no connection: until dial_ms */
    LANE_GREETING, /* ours: the other's greeting is missing */
    LANE_UP,
    LANE_CLOSING,  /* until the event loop has let go */
};

struct relay_lane {
    struct stream stream; /* first: the stream of a lane is the lane */
    struct relay_lane *next; /* of the front's */
    struct relay_front *rf;
    uint64_t peer, serial; /* serial: of this connection, over all of the front's; not 0 */
    uint16_t number;
    enum relay_lane_phase phase;
    bool ours;     /* opened from here */
    bool unwanted; /* goes when it is closed */
    struct links_lanes how; /* ours: where it leads, */
    struct linkcaller call; /* and how it greets there */
    int64_t dial_ms;
    uint32_t pause_ms;
    struct buf in, out; /* an unfinished frame; frames of this turn */
    struct wirecall_joiner *joiner;
    /* relay_proof.c */
    uint64_t probe;   /* the last that went by it */
    int64_t asked_ms; /* since when there is one without an answer; 0: there is none */
    int64_t spared_until_ms; /* its worker was late: it is not asked before */
};

/* ---- the event loop's calls */
void relay_lane_data(struct relay_lane *l, struct slice bytes);
void relay_lane_ended(struct relay_lane *l);
void relay_lane_closed(struct relay_lane *l); /* the loop has let go */

/* ---- the relay */
struct relay_lane *relay_lane_to(const struct relay_front *rf, uint64_t peer); /* that is up, for requests; NULL: none */
struct relay_lane *relay_lane_find(const struct relay_front *rf, uint64_t serial); /* that is up still; NULL */
bool relay_lane_is_any(const struct relay_front *rf); /* some lane is up */
void relay_lane_turn(struct relay_front *rf); /* sends what was gathered */
void relay_lane_time(struct relay_front *rf, int64_t now_ms);
void relay_lane_peer_down(struct relay_front *rf, uint64_t peer); /* the nodes' connection broke */
bool relay_lane_stop(struct relay_front *rf); /* closes all; true: none is left. Until then it is called in every turn */
void relay_lane_fini(struct relay_front *rf);

/* ---- relay_proof.c: that this node leads what an answer shows. What another node's worker says of its replica's term, after the request came, proves it where two voters are a majority. */

/* Of a hold for which there is nothing else to wait for. LOST: it does not lead any more. */
enum seat_outcome relay_proof(struct relay_front *rf, struct hold *h);
/* The request has run: what its holds need is asked for now, for all of them at once, and not when each one's turn has come. */
void relay_proof_begin(struct relay_front *rf, struct hold *holds, uint32_t n);
/* The node that sent the request said in which term its replica was then: that may do. */
void relay_proof_by(struct relay_front *rf, struct hold *h, const struct ticket *by);
void relay_proof_turn(struct relay_front *rf); /* asks for what is wanted; before what was gathered is sent */
int relay_proof_frame(struct relay_lane *l, const struct wire_frame *f); /* PROBE or PROBE_ACK; negative: it makes no sense */
void relay_proof_lost(struct relay_front *rf); /* a lane broke: what was asked may have no answer */
void relay_proof_time(struct relay_front *rf, int64_t now_ms);
void relay_proof_fini(struct relay_front *rf);
