/* The relay's cluster is a real node. */
#include "cluster/node.h"
#include "server/relay_parts.h"

static bool serves(void *ctx, uint32_t group) { return seats_serves(node_seats(ctx), group); }
static uint64_t leader(void *ctx, uint32_t group) { return node_leader(ctx, group); }
static void leader_is(void *ctx, uint32_t group, uint64_t node) { node_leader_is(ctx, group, node); }
static void ask(void *ctx, struct hold *h) { seat_ask(h); }
static enum seat_outcome outcome(void *ctx, const struct hold *h) { return seat_outcome(h); }
static void hurry(void *ctx) { node_hurry(ctx); }
static void send_frames(void *ctx, uint64_t peer, struct slice frames) { node_send(ctx, peer, frames); }

void relay_set_node(struct relay *r, struct node *n)
{
    relay_set_cluster(r, &(struct relay_cluster){n, node_id(n), serves, leader, leader_is, outcome, hurry, send_frames, ask, node_board(n)});
}
