/* Messages of the Raft engine and read probes as frames. Pure but for the engine's allocator, which messages that come in belong to. */
#pragma once
#include "cluster/raftlib.h"
#include "cluster/wire.h"

enum {
    WIRERAFT_MEMBERS_MAX = 64,
    WIRERAFT_ENTRY_OVERHEAD = 16, /* of an entry in an APPEND, besides its data */
    WIRERAFT_APPEND_OVERHEAD = WIRE_HEAD + 64, /* of an APPEND besides its entries, at most */
};

/* The size of the APPEND frame for the first n of these entries; larger than WIRE_FRAME_MAX must not be encoded. */
size_t wireraft_append_bytes(const struct raft_entry *entries, uint32_t n);

/* Appends the frame of a message; server_id and server_address are not part of it. Entries and data are copied. -EMSGSIZE: it does not fit in a frame, nothing
 * was appended. */
int wireraft_add(struct buf *out, uint32_t group, const struct raft_message *m);

/* Whether a frame of this type is one of wireraft_get's. */
bool wireraft_is(enum wire_type type);

/* Reads a message that came from the node `from`. 0, or -EBADMSG. On 0, m is ready for RAFT_RECEIVE, and its memory is:
 *     APPEND   entries[] (wireraft_release frees it) and one raft_malloc'ed block for the data of all of them: every entry's batch points to it, entries without
 *              data too. The engine frees the block if it does not take the entries, its caller does after an update with RAFT_UPDATE_ENTRIES.
 *     INSTALL  conf and data.base, raft_malloc'ed. The engine frees them if it needs no snapshot, or hands them on in update.snapshot (RAFT_UPDATE_SNAPSHOT). While it
 *              installs one already it does neither: such a message is to be discarded instead of being handed to it.
 * server_address is "". */
int wireraft_get(const struct wire_frame *f, uint64_t from, struct raft_message *m);
void wireraft_release(struct raft_message *m); /* after raft_step: frees entries[], not what the engine owns */
void wireraft_discard(struct raft_message *m); /* a message that the engine never saw: frees all of it */

/* ---- read probes: "I lead these groups in these terms, do you know of a later one?", and the groups for which the answer is no */

enum { WIRERAFT_PROBE_MAX = 64 * 1024 }; /* groups in one probe */

struct wireraft_probe {
    uint64_t ctx; /* the asker's; comes back in the answer */
    uint32_t n;
    const char *pairs; /* wireraft_probe_at */
};

struct wireraft_pair {
    uint32_t group;
    uint64_t term;
};

/* type is WIRE_PROBE or WIRE_PROBE_ACK. wire_end ends the frame. */
size_t wireraft_probe_begin(struct buf *out, enum wire_type type, uint64_t ctx);
void wireraft_probe_add(struct buf *out, uint32_t group, uint64_t term);
int wireraft_probe_get(const struct wire_frame *f, struct wireraft_probe *probe); /* 0 or -EBADMSG; borrows from f */
struct wireraft_pair wireraft_probe_at(const struct wireraft_probe *probe, uint32_t i);
