/* Keyspace notifications: key events as pub/sub messages, as notify-keyspace-events asks for. Any thread, also under a token. */
#pragma once
#include "server/server.h"

void notify_key(struct server *s, unsigned event_class, const char *event, struct slice key, uint16_t db);
unsigned notify_wanted(const struct server *s); /* a set of enum notify_class: the events that are told here; 0: none */
void notify_install(struct server *s); /* wires the engine's commands and expiry to it */
