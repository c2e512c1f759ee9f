/* Connections to servers by name, for programs that wait for what they ask. */
#pragma once
#include "base/buf.h"

/* Connects to "host:port" or "[::1]:port"; every later send or receive gives up after timeout_s. Gives the socket, or -1 and why. */
int dial(const char *to, unsigned timeout_s, struct buf *error);
