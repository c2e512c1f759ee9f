/* Rows from a running server that speaks RESP (snapshot/input.h): the string keys of one database. The only fields are "key" and "value".
 *
 * A Sherd hands them out as they were at one moment, by SNAPSHOT.EXPORT. Any other server, Redis for one, is read by SCAN and GET, and what comes is not one moment of it: a key that is there from
 * the beginning to the end of the reading is read, once or more often, with a value that it had meanwhile; keys that come or go in between may be read or not. A key that is read twice counts
 * with its later value. */
#pragma once
#include "snapshot/input.h"

struct inputnet_server {
    const char *address;         /* "host:port" */
    const char *user, *password; /* for AUTH; NULL: none */
};

enum inputnet_way {
    INPUTNET_CUT,           /* at one moment */
    INPUTNET_SCAN_OTHER,    /* by SCAN: it knows no SNAPSHOT.EXPORT */
    INPUTNET_SCAN_SNAPSHOT, /* by SCAN: it serves a snapshot, and may switch to another one meanwhile */
};

/* Keeps server and o. NULL and why. */
struct input *inputnet_open(const struct inputnet_server *server, const struct input_options *o, enum inputnet_way *way, struct buf *error);
