/* Listening sockets. */
#pragma once
#include "server/server.h"

struct front;

/* Makes room for maxclients descriptors. Where the system does not allow so many, maxclients is lowered, and the log says so. */
void listen_make_room(struct server *s);

/* Opens the configured sockets for every front: one per front and address for TCP (the kernel spreads connections), one shared unix socket.
 * False: the error is logged and nothing stays open. */
bool listen_open(struct server *s);
void listen_cleanup(struct server *s); /* removes the unix socket's file */
