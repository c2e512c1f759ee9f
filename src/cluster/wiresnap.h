/* Snapshots on their way from one node to another. The receiver asks: it wants bytes from an offset on, as much as its window allows, and asks again, also after
 * a broken connection. The frame's group is the group whose state it is. */
#pragma once
#include "cluster/wire.h"

enum {
    WIRESNAP_NAME_MAX = 255,
    WIRESNAP_CHUNK_MAX = 1024 * 1024, /* of data in a CHUNK */
};

enum wiresnap_status { WIRESNAP_COMPLETE = 0, WIRESNAP_GONE = 1 /* not here any more */, WIRESNAP_FAILED = 2 /* cannot be read or stored */ };

/* What can be had: the descriptor of an install, or an answer to a question for it. */
struct wiresnap_offer {
    uint64_t id;          /* the holder's name for it */
    uint64_t index, term; /* of the last entry in it */
    uint64_t bytes;
    uint64_t checksum;    /* of all bytes */
    struct slice name;    /* of the file, without a folder */
};

struct wiresnap_want {
    uint64_t id;
    uint64_t offset;
    uint32_t bytes; /* at most so many, in one or several chunks */
};

struct wiresnap_chunk {
    uint64_t id;
    uint64_t offset;
    struct slice data; /* not empty */
};

struct wiresnap_done {
    uint64_t id;
    enum wiresnap_status status;
};

void wiresnap_add_offer(struct buf *out, uint32_t group, const struct wiresnap_offer *m);
void wiresnap_add_want(struct buf *out, uint32_t group, const struct wiresnap_want *m);
void wiresnap_add_chunk(struct buf *out, uint32_t group, const struct wiresnap_chunk *m);
void wiresnap_add_done(struct buf *out, uint32_t group, const struct wiresnap_done *m);

/* 0 or -EBADMSG; slices borrow from the frame. */
int wiresnap_get_offer(const struct wire_frame *f, struct wiresnap_offer *m);
int wiresnap_get_want(const struct wire_frame *f, struct wiresnap_want *m);
int wiresnap_get_chunk(const struct wire_frame *f, struct wiresnap_chunk *m);
int wiresnap_get_done(const struct wire_frame *f, struct wiresnap_done *m);
