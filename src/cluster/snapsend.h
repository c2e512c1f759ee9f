/* Gives group snapshots to other nodes, in pieces, as they ask for them (cluster/snapfetch.h asks; cluster/wiresnap.h has the messages). Nothing here remembers how far a receiver is: every WANT names its
 * offset, so a broken connection, a lost frame or a restart on either side costs what was under way and no more.
 *
 * Without thread, clock or socket: frames go out by send, time comes in, files are read by struct file_ops, one piece per step, so that whoever drives it sets the pace. One
 * thread owns it. Streams take turns, piece by piece, and share a budget of bytes per second.
 *
 * A snapshot's name on the wire is its checksum: that is the same after a restart, and another one for other bytes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct file_ops;
struct groupdir_file;
struct groupsnap_totals;
struct snapsend;
struct wire_frame;

struct snapsend_options {
    const struct file_ops *files; /* kept */
    const char *dir;              /* of the snapshots; copied */
    uint64_t now;                 /* ms of a clock that does not go back, as everywhere below */
    uint32_t streams_max;         /* at a time: a receiver beyond them asks again later; 0: 8 */
    uint64_t bytes_per_s;         /* of all streams together; 0: as fast as they are asked for */
    uint32_t chunk_bytes;         /* of a piece, at most WIRESNAP_CHUNK_MAX; 0: that. What shares the connection waits for one */
    uint32_t idle_ms;             /* a stream that nobody asked for so long is forgotten; 0: 30 s */
    void (*send)(void *ctx, uint64_t peer, struct slice frame); /* borrows frame; may lose it */
    void *ctx;
};

struct snapsend *snapsend_new(const struct snapsend_options *options);
void snapsend_free(struct snapsend *s);

/* ---- what can be had */

/* Appends the offer of a snapshot: what a peer needs to fetch it. Pure; any thread. */
void snapsend_add_offer(struct buf *out, const struct groupdir_file *f, const struct groupsnap_totals *t);
/* This whole snapshot is in the folder and can be had from now on. Putting it again changes nothing. */
void snapsend_put(struct snapsend *s, const struct groupdir_file *f, const struct groupsnap_totals *t);
/* The group's snapshots before this index cannot be had any more, and their files are not read any more: those who are at it are told. UINT64_MAX: none of the group's can. */
void snapsend_drop_before(struct snapsend *s, uint32_t group, uint64_t index);
/* Is somebody at a snapshot of the group before this index? Then it is worth waiting a little before it is deleted. */
bool snapsend_is_wanted_before(const struct snapsend *s, uint32_t group, uint64_t index);

/* ---- the turn */

/* A WANT or a DONE of a peer. 0, or -EBADMSG: it makes no sense, the connection should be closed. */
int snapsend_receive(struct snapsend *s, uint64_t from, const struct wire_frame *f, uint64_t now);
/* Reads and sends one piece. True: there is more that could go at once. */
bool snapsend_step(struct snapsend *s, uint64_t now);
/* When the next step can do something; UINT64_MAX: when a peer has asked. */
uint64_t snapsend_next(const struct snapsend *s);
/* The way to the peer is gone: what it asked for is void. */
void snapsend_peer_down(struct snapsend *s, uint64_t peer);

uint32_t snapsend_streams(const struct snapsend *s);
uint64_t snapsend_sent_bytes(const struct snapsend *s); /* ever */
void snapsend_check(const struct snapsend *s); /* every promise that can be checked; for tests */
