/* Pub/sub over the nodes of a cluster: what is published here goes to all other nodes, and what they publish to the subscribers here.
 *
 * At most once, as with Redis: what is published while a node cannot be reached never reaches it. What one client publishes reaches each subscriber in its order: by one queue on the node that publishes (cluster/spread.h), one link, and one
 * front of the node that it comes to. Both queues are bounded, what is beyond is dropped and counted. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "server/subscribe.h"

struct clusterpub;
struct wirepub;

enum { CLUSTERPUB_BYTES_MAX = 8 * 1024 * 1024 }; /* of channel and message of a client's command, as of the arguments of any that goes to another node */

struct clusterpub *clusterpub_new(struct server *s); /* before the fronts start; kept in s->clusterpub */
void clusterpub_free(struct clusterpub *p);          /* after they have ended */

/* Any thread, also under a token: to the other nodes. */
void clusterpub_send(struct server *s, enum subscribe_kind kind, struct slice channel, struct slice message);
bool clusterpub_is_much(const struct server *s); /* as much is waiting to go as is good: who can pause should */
/* The raft thread: node_calls. */
void clusterpub_came(struct clusterpub *p, uint64_t from, const struct wirepub *what);

struct clusterpub_info {
    uint64_t sent, received, dropped;
};
void clusterpub_look(struct server *s, struct clusterpub_info *out); /* any thread */
