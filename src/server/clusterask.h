/* One question to a server that speaks RESP, and its answer: for a node that wants to join a cluster, and for `sherd cluster`. Blocks. */
#pragma once
#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"

struct clusterask {
    const char *address;         /* host:port */
    const char *user, *password; /* NULL: none */
    unsigned timeout_s;          /* of each step */
};

enum clusterask_result {
    CLUSTERASK_ANSWERED, /* a string or a number: its text */
    CLUSTERASK_REFUSED,  /* the server's error, without the dash */
    CLUSTERASK_BROKEN,   /* no answer: why, beginning with the address */
};

/* Appends to out what the result says. */
enum clusterask_result clusterask(const struct clusterask *a, const struct slice *argv, size_t argc, struct buf *out);
