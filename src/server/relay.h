/* Commands of a cluster's clients: each request goes to the node that leads its group, and its answer back, in order; and requests that other nodes send here are run here.
 *
 * A connection's pipeline goes in waves. A wave is the keyed requests of one read, up to the first that is none: those of groups that this node leads run here as one task, those of other nodes' groups go there, one message for
 * each node, at the same time. A wave is over when every request has its answer: confirmed here (seat_outcome), or come from there. Requests of one group run in the order of the pipeline; between groups there is no order within
 * a wave. Then the answers are put together in the pipeline's order, and the next wave begins.
 *
 * What bounced (nobody led the group there, or not any more) goes again, when a leader is known, until the time-out; in a message, once a request of a group has bounced, so do those behind it: the order within a group stays.
 *
 * A message carries the version of the map by which it was routed, and each request the range and the generation of its first key: the fence. A node whose map is older waits a moment for its own before it runs it. Under the tokens the
 * leader compares (struct ticket): a request by an older map that says otherwise is refused with what the newer one says, and goes again when this node's map is as new, of which the relay hears at once.
 *
 *   -CLUSTERDOWN   nobody leads the group for as long as the time-out: nothing happened
 *   -MUSTRETRY     this node's map stayed older than the leader's for as long: nothing happened
 *   -UNCERTAIN     the connection to the leader broke, or it lost its place, while a write was under way, and nobody could say in time what became of it: it may have happened
 *   -CROSSSHARD    the keys of one command are in different groups: nothing happened
 *   -TRYAGAIN      the leader lost its place between two commands of a pipeline, and the later one happened: this one did not, and cannot any more in its order. Or a transaction had the keys for as long as the time-out, or they were on
 *                  their way to another group: nothing happened
 * A read whose fate is unknown is simply asked again. So is a write that was sent to another node: it has a number by which whoever leads knows whether it has happened (cluster/once.h).
 *
 * A command that waits goes alone, and waits on the node that leads its keys' group (server/relay_wait.h).
 *
 * Guests are waves of other nodes: requests that came in a message, run here as one task or bounced, never sent on.
 *
 * Threads: each front has its own waves and guests. Between the fronts of two nodes there are lanes (server/relay_lane.h); what comes from the raft thread instead is handed to them by mail. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct conn;
struct front;
struct links_lanes;
struct node;
struct relay;
struct server;

struct relay *relay_new(struct server *s); /* before the fronts start; kept in s->relay */
void relay_free(struct relay *r);          /* after they have ended */
void relay_set_node(struct relay *r, struct node *n); /* before they start */
void relay_set_timeout(struct relay *r, uint32_t ms); /* of requests that nobody can run; any thread. 5 seconds unless told */
uint32_t relay_timeout_ms(const struct relay *r);
void relay_mapped(struct relay *r); /* another map is in force; any thread */

/* ---- a front's thread */

/* Whether a request goes by relay: the server is a node of a cluster and the command has keys. Others run where they are. */
bool relay_wants(const struct conn *c, uint32_t request);
/* Runs requests [pos, end) of c's batch, all of which it wants, as a wave. True: done, their replies are in c->out. False: c is away (c->away, c->wave), and comes back by front_ready. */
bool relay_run(struct conn *c, uint32_t end);
/* c closes while its wave is under way: the wave ends without it. */
void relay_forget(struct conn *c);
/* Likewise a request that waits, which goes alone: the one at pos. c is away (c->away, c->wait), and comes back by front_ready. It is in line on some node when c->waits. */
bool relay_wait_wants(const struct conn *c, uint32_t request);
void relay_wait_run(struct conn *c);
void relay_wait_forget(struct conn *c);                   /* c closes */
void relay_wait_timeout(struct conn *c);                  /* its deadline has come */
void relay_wait_unblock(struct conn *c, bool with_error); /* CLIENT UNBLOCK; without effect if it is being served by now */
void relay_turn(struct front *f);              /* at the end of each turn: sends what was gathered, hurries the seats */
int relay_wait_ms(const struct front *f);      /* until the next retry or time-out; -1: none */

/* ---- the raft thread: node_calls */
void relay_told(void *ctx);
int relay_request(void *ctx, uint64_t from, uint32_t group, struct slice message);
int relay_answer(void *ctx, uint64_t from, uint32_t group, struct slice message);
void relay_down(void *ctx, uint64_t peer);
void relay_up(void *ctx, uint64_t peer, const struct links_lanes *how);
void relay_lane(void *ctx, uint64_t peer, uint16_t lane, int fd, struct slice greeting); /* takes fd */

struct relay_info { /* any thread */
    uint64_t waves, here, forwarded, bounced, retried, guests;
    uint64_t stale;    /* guests that the fence refused */
    uint64_t repeated; /* guests that had happened before */
    uint64_t uncertain, timed_out;
    uint64_t lanes;  /* that are up now */
    uint64_t proven; /* answers to reads that needed no confirmation by Raft */
};
void relay_look(struct relay *r, struct relay_info *out);
