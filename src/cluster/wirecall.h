/* Commands that a node sends on to another one, and their answers. A command may be larger than a frame: it is cut into pieces, and a joiner on the other side puts
 * them together again. Pieces of other messages may come between them. */
#pragma once
#include "cluster/wire.h"

enum {
    WIRECALL_ARGS_MAX = (1024 + 16) * 1024,
    WIRECALL_PIECE = 1024 * 1024, /* bytes of a message in one frame */
    WIRECALL_JOIN_MAX = 256 * 1024 * 1024, /* of unfinished messages, on a connection that brings those of clients: the longest reply, and others */
};

enum wirecall_status {
    WIRECALL_DONE = 0,       /* reply holds the answer */
    WIRECALL_MUSTRETRY = 1,  /* nothing happened; reply is empty, or the fence refused it, and it holds what the newer map says */
    WIRECALL_TRYAGAIN = 2,   /* nothing happened: busy */
    WIRECALL_NOT_LEADER = 3, /* nothing happened; leader says whom to ask, or 0 */
    WIRECALL_UNCERTAIN = 4,  /* may have happened */
    WIRECALL_NO_GROUP = 5,   /* nothing happened: the group is not here */
    /* Of a command that waits, before its answer. Since version 2. */
    WIRECALL_WAITS = 6,      /* nothing happened yet; reply holds its time-out */
    WIRECALL_TURN = 7,       /* nothing happened yet: the asker is to say whether it shall */
    WIRECALL_BUSY = 8,       /* nothing happened: a transaction has its keys, or they are on their way to another group. Since version 3. */
};

struct wirecall_request {
    uint64_t id;           /* of the answer; the asker's choice, one at a time per connection */
    uint64_t session;      /* of the asker's, by which it knows requests again that it has seen before; 0: none */
    uint64_t map;          /* the version of the map by which the asker found whom to ask; 0: none */
    uint32_t flags;        /* the caller's */
    uint32_t timeout_ms;   /* after which nobody waits for the answer */
    uint32_t db;
    uint8_t resp;          /* 2 or 3: the protocol of the answer */
    uint32_t argc;
};

struct wirecall_answer {
    uint64_t id;
    enum wirecall_status status;
    uint64_t leader; /* NOT_LEADER: a node, or 0 */
    struct slice reply;
};

/* Append one frame or several. */
void wirecall_add_request(struct buf *out, uint32_t group, const struct wirecall_request *r, const struct slice *argv);
void wirecall_add_answer(struct buf *out, uint32_t group, const struct wirecall_answer *a);

/* ---- reading */

struct wirecall_joiner;

/* Holds at most max_bytes of unfinished messages; what goes beyond is forgotten (its asker's time-out says so). One per connection: forget it with the connection. */
struct wirecall_joiner *wirecall_joiner_new(size_t max_bytes);
void wirecall_joiner_free(struct wirecall_joiner *j);

/* Takes a REQUEST or ANSWER frame. WIRE_OK: *message is whole, it borrows from the frame or from the joiner until its next call. WIRE_NEED_MORE: a piece was
 * kept, or belongs to a message that was forgotten. WIRE_BAD: the connection should be closed. */
enum wire_result wirecall_join(struct wirecall_joiner *j, const struct wire_frame *f, struct slice *message);
size_t wirecall_joiner_bytes(const struct wirecall_joiner *j);

/* Reads a whole message; argv gets argc slices that borrow from it (its memory is kept and grown by the call: start with a zeroed pointer and mem_free it).
 * 0 or -EBADMSG. */
int wirecall_get_request(struct slice message, struct wirecall_request *r, struct slice **argv, uint32_t *argv_room);
int wirecall_get_answer(struct slice message, struct wirecall_answer *a);
