/* Pub/sub: channels, patterns, sharded channels.
 *
 * Each front knows its own subscribers (struct topics); the server knows which fronts have any (struct pubsub, under a lock held only to look a channel up). PUBLISH
 * sends one message per front concerned; the front hands it to its subscribers. Any thread may publish, also under a token: keyspace
 * notifications do. */
#pragma once
#include "server/conn.h"

struct pubsub;
struct topics;
struct front;

struct pubsub *subscribe_registry_new(uint32_t fronts);
void subscribe_registry_free(struct pubsub *p);
struct topics *subscribe_topics_new(void);
void subscribe_topics_free(struct topics *t);

enum subscribe_kind { SUBSCRIBE_CHANNEL, SUBSCRIBE_PATTERN, SUBSCRIBE_SHARD };

/* Gives the number of receivers; in a cluster those on this node, though the other nodes' get it too (server/clusterpub.h). kind: SUBSCRIBE_CHANNEL (patterns get it too) or SUBSCRIBE_SHARD. */
uint64_t subscribe_publish(struct server *s, enum subscribe_kind kind, struct slice channel, struct slice message);
uint64_t subscribe_deliver(struct server *s, enum subscribe_kind kind, struct slice channel, struct slice message); /* to those on this node alone */
bool subscribe_any(const struct server *s);          /* there are subscribers; any thread */
size_t subscribe_undelivered(const struct server *s); /* bytes of messages that some front has not had yet; any thread */

void subscribe_drop(struct conn *c); /* the connection leaves all channels, silently: closing, RESET */
uint32_t subscribe_count(const struct conn *c, enum subscribe_kind kind);
uint64_t subscribe_names(struct server *s, enum subscribe_kind kind); /* channels or patterns with a subscriber, in the whole server; any thread */

extern const struct command_family subscribe_family; /* SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE ... PUBLISH SPUBLISH PUBSUB */
