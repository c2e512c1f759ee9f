/* A message that was published on one node, on its way to the subscribers of another. */
#pragma once
#include "cluster/wire.h"

enum wirepub_kind { WIREPUB_CHANNEL, WIREPUB_SHARD };

enum {
    WIREPUB_HEAD = 5,
    WIREPUB_BYTES_MAX = WIRE_BODY_MAX - WIREPUB_HEAD, /* of channel and message together */
};

struct wirepub {
    enum wirepub_kind kind;
    struct slice channel, message;
};

void wirepub_add(struct buf *out, const struct wirepub *p); /* one frame */
int wirepub_get(const struct wire_frame *f, struct wirepub *p); /* 0 or -EBADMSG; p borrows from f */
