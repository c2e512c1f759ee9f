/* Connections to servers. */
#pragma once
#include "base/buf.h"
#include "io/resolve.h"

/* By name, for programs that wait for what they ask. Connects to "host:port" or "[::1]:port"; every later send or receive gives up after timeout_s. Gives the socket, or -1 and why. */
int dial(const char *to, unsigned timeout_s, struct buf *error);

/* For others: gives a socket at once that is being connected, or -errno. What it sends is given up if the other side does not acknowledge it for patience_ms. */
int dial_begin(const struct resolve_address *to, unsigned patience_ms);

enum { DIAL_HOST_MAX = 256 };

/* Takes "host:port" or "[::1]:port" apart; *port is the rest of `to`. False: it is not of that form. */
bool dial_split(const char *to, char host[DIAL_HOST_MAX], const char **port);
