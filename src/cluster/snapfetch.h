/* Fetches group snapshots from other nodes (cluster/snapsend.h gives them; cluster/wiresnap.h has the messages).
 *
 * A transfer begins with an offer: index, term, length and checksum of a file. The receiver asks for bytes from an offset on, at most a window ahead of what it has, and writes what comes in order into a
 * partial file whose name carries the offer (cluster/groupdir.h). What is lost on the way is asked for again, from where the file ends; after a restart of either side too, if the same file is
 * offered again. When all bytes are there, the file is read to its end and compared with the offer; wrong bytes make it begin anew. Then it is made durable and gets its name.
 *
 * Without thread, clock or socket: frames go out by send, time comes in, files are changed by struct file_ops. Work is done in slices: a chunk is written when it is received, a block is verified per step.
 * One thread owns it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "cluster/wire.h"

struct file_ops;
struct snapfetch;

struct snapfetch_options {
    const struct file_ops *files; /* kept */
    const char *dir;              /* of the snapshots; copied */
    uint8_t cluster[WIRE_CLUSTER_ID];
    uint64_t now;           /* ms of a clock that does not go back, as everywhere below */
    uint32_t transfers_max; /* at a time, the others wait in line; 0: 2 */
    uint32_t window_bytes;  /* of each: asked for and not there yet; 0: 4 MiB */
    uint32_t retry_ms;      /* silence after which bytes are asked for again; 0: 2 s */
    uint32_t give_up_ms;    /* silence after which the transfer fails; 0: 60 s */
    uint32_t restarts_max;  /* for wrong bytes; 0: 2 */
    void (*send)(void *ctx, uint64_t peer, struct slice frame); /* borrows frame; may lose it */
    /* A transfer ended, told once, from snapfetch_step alone. 0: the snapshot is durable, valid, and has its name. -ETIMEDOUT: the peer is silent; -ENOENT: it has the file no more; -EREMOTEIO: it cannot read
     * it; what came is kept then for the next offer of the same file, until groupdir_drop_parts. -EBADMSG: wrong bytes time and again; -EPROTONOSUPPORT: of a later version; else what a file call said. */
    void (*done)(void *ctx, uint32_t group, uint64_t index, uint64_t term, int rc);
    void *ctx;
};

enum snapfetch_state { SNAPFETCH_WAITING /* in line */, SNAPFETCH_FETCHING, SNAPFETCH_VERIFYING, SNAPFETCH_ENDED /* to be told by the next step */ };

struct snapfetch_info {
    enum snapfetch_state state;
    uint64_t from, index, term;
    uint64_t have, bytes;
    uint32_t restarts;
};

struct snapfetch *snapfetch_new(const struct snapfetch_options *options);
void snapfetch_free(struct snapfetch *f); /* what came so far is kept */

/* Begins to fetch what a peer offers; descriptor is what snapsend_add_offer wrote. The group's transfer of another file is given up for it, without a word; one of the same file goes on, from this peer.
 * 0, or -EBADMSG: the descriptor makes no sense, or is of another group, index or term. */
int snapfetch_start(struct snapfetch *f, uint64_t from, uint32_t group, uint64_t index, uint64_t term, struct slice descriptor, uint64_t now);
/* Gives the group's transfer up, if there is one: done is not called, what came so far is deleted. */
void snapfetch_cancel(struct snapfetch *f, uint32_t group);

/* ---- the turn */

/* A CHUNK or a DONE of a peer. 0, or -EBADMSG: it makes no sense, the connection should be closed. */
int snapfetch_receive(struct snapfetch *f, uint64_t from, const struct wire_frame *frame, uint64_t now);
/* Looks at the time, begins what is first in line, verifies one block, tells what ended. True: there is more to do at once. */
bool snapfetch_step(struct snapfetch *f, uint64_t now);
/* When the next step has something to do, at the latest; UINT64_MAX: nothing is under way. */
uint64_t snapfetch_next(const struct snapfetch *f);
/* A way to the peer is there again: asks at once for what is missing. */
void snapfetch_peer_up(struct snapfetch *f, uint64_t peer, uint64_t now);

bool snapfetch_look(const struct snapfetch *f, uint32_t group, struct snapfetch_info *out); /* false: no transfer */
void snapfetch_check(const struct snapfetch *f); /* every promise that can be checked; for tests */
