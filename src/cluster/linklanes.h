/* How the workers of a peer are called: what the raft thread knows of it (links_lanes), for the workers here. */
#pragma once
#include "cluster/linkcaller.h"
#include "io/resolve.h"

struct links_lanes {
    uint16_t lanes;               /* workers that it has */
    struct resolve_address to;    /* where it was reached */
    struct wire_hello greeting;   /* ours, but for the number of the lane, */
    struct linksecret secret;     /* and what proves it */
    struct linkgreet_known known; /* of the peer: linkcaller_judge judges by it */
};
