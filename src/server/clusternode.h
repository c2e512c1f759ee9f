/* The server as a node of a cluster: puts struct node (cluster/node.h) and the relay (server/relay.h) into it, and takes them out again.
 *
 *     clusternode_new    who this node is; joins a cluster if it is to, which may take a while
 *     clusternode_open   the engine is made, nothing runs yet
 *     clusternode_start  the workers run
 *     clusternode_stop   they still do: leadership goes elsewhere
 *     clusternode_close  they have ended, and no walk is under way; then clusternode_free
 *
 * All on the main thread, but what says otherwise. Whatever is wrong is logged. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct clusternode;
struct datadir;
struct health_node_facts;
struct server;

/* NULL: it cannot be one. Keeps s and d. */
struct clusternode *clusternode_new(struct server *s, const struct datadir *d);
void clusternode_free(struct clusternode *c);
uint64_t clusternode_seed(const struct clusternode *c); /* of the hash of keys */

/* Sets s->node and s->relay. */
bool clusternode_open(struct clusternode *c);
bool clusternode_start(struct clusternode *c);
void clusternode_stop(struct clusternode *c);
void clusternode_close(struct clusternode *c);

/* ---- any thread: of a server that is a node */

void clusternode_apply_secret(struct server *s); /* as the configuration says it now */
/* The fields of CLUSTER INFO, "name:value\r\n" each. */
void clusternode_info(struct server *s, struct buf *out);
void clusternode_facts(struct server *s, struct health_node_facts *out); /* for HEALTH */
/* This node's name among Redis clients. */
void clusternode_name(const struct server *s, char out[41]);
