/* Rows from a running server that speaks RESP, Sherd or Redis (snapshot/input.h): the string keys of one database, found by SCAN and read by GET. The only fields are "key" and "value".
 *
 * What is read is not one moment of the server: a key that is there from the beginning to the end of the reading is read, once or more often, with a value that it had meanwhile; keys that
 * come or go in between may be read or not. A key that is read twice counts with its later value. */
#pragma once
#include "snapshot/input.h"

struct inputnet_server {
    const char *address;         /* "host:port" */
    const char *user, *password; /* for AUTH; NULL: none */
};

/* Keeps both. NULL and why. */
struct input *inputnet_open(const struct inputnet_server *server, const struct input_options *o, struct buf *error);
