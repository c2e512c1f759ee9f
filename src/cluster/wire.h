/* Bytes between nodes: the greeting of a connection and the frames behind it. Pure: bytes in, bytes out; the transport is cluster/links.h.
 *
 * A connection carries frames in one direction, from the node that opened it; a lane, which is between workers (server/relay_lane.h), in both. Both sides greet with a HELLO; where there is a secret, a CHALLENGE and a PROOF
 * come between the two (cluster/linksecret.h). Behind it come frames:
 * a head of WIRE_HEAD bytes (length, checksum, type, flags, group) and a body whose layout the type decides. Bodies are written and read by
 *     cluster/wireraft.h    messages of the Raft engine, read probes
 *     cluster/wirecall.h    commands that are sent on to another node, and their answers
 *     cluster/wiresnap.h    snapshots on their way, in chunks
 *     cluster/wirestatus.h  what nodes tell of themselves
 *     cluster/wirepub.h     messages for the subscribers of other nodes
 *
 * Writing: wire_begin, the body, wire_end. Reading: wire_frame, then the decoder of the type. Decoders trust no length and no number: what is not
 * exactly a message of this version is refused (-EBADMSG), and whoever sent it is disconnected. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum {
    WIRE_VERSION = 5, /* spoken here; and the oldest one that is understood: requests carry the version of the map since then */
    WIRE_VERSION_OLDEST = 3,
    WIRE_VERSION_PUBLISH = 2, /* has PUBLISH: a node of version 1 would not know the type */
    WIRE_VERSION_LANES = 4,   /* has lanes: an older node would take a lane for its peer's connection */
    WIRE_VERSION_SECRET = 5,  /* can prove a secret */
    WIRE_HEAD = 16,
    WIRE_FRAME_MAX = 16 * 1024 * 1024, /* head included */
    WIRE_BODY_MAX = WIRE_FRAME_MAX - WIRE_HEAD,
    WIRE_CLUSTER_ID = 16,
    WIRE_ADDRESS_MAX = 255,
    WIRE_HELLO_MAX = 512,
    WIRE_PROOF_BYTES = 32, /* of a proof, and of the nonces that are in it */
};

enum wire_type {
    WIRE_PING = 1, /* links': body is a u64 that the PONG brings back */
    WIRE_PONG = 2,
    WIRE_CHALLENGE = 3, /* of greetings: body is a nonce; or the proof that it asks for */
    WIRE_PROOF = 4,
    WIRE_VOTE = 16,
    WIRE_VOTE_RESULT = 17,
    WIRE_APPEND = 18,
    WIRE_APPEND_RESULT = 19,
    WIRE_INSTALL = 20,
    WIRE_TIMEOUT_NOW = 21,
    WIRE_PROBE = 32,
    WIRE_PROBE_ACK = 33,
    WIRE_REQUEST = 48,
    WIRE_ANSWER = 49,
    WIRE_SNAP_OFFER = 64,
    WIRE_SNAP_WANT = 65,
    WIRE_SNAP_CHUNK = 66,
    WIRE_SNAP_DONE = 67,
    WIRE_STATUS = 80,
    WIRE_PUBLISH = 96,
};

enum { WIRE_MORE = 1 }; /* flag: pieces of the same message follow (REQUEST, ANSWER) */

enum wire_result { WIRE_OK, WIRE_NEED_MORE, WIRE_BAD };

struct wire_frame {
    enum wire_type type;
    uint8_t flags;
    uint32_t group; /* 0 where the type has none */
    struct slice body;
    struct slice whole; /* head and body */
};

/* ---- frames */

/* Begins a frame at the end of out and gives its position; the caller appends the body, at most WIRE_BODY_MAX bytes, and ends it. */
size_t wire_begin(struct buf *out, enum wire_type type, uint8_t flags, uint32_t group);
void wire_end(struct buf *out, size_t frame);
/* The frame at the beginning of `in`. On WIRE_BAD, *why is a static sentence. out borrows from in. */
enum wire_result wire_frame(struct slice in, struct wire_frame *out, const char **why);
/* The length that a frame at the beginning of `in` says it has, for whoever makes room; 0: the first bytes are not there yet, or are none of a frame. */
size_t wire_frame_length(struct slice in);
/* How many frames lie in `frames`, which were made here. */
uint32_t wire_count(struct slice frames);
const char *wire_type_name(enum wire_type type); /* "append"; "unknown" */

void wire_add_ping(struct buf *out, enum wire_type ping_or_pong, uint64_t token);
int wire_get_ping(const struct wire_frame *f, uint64_t *token); /* 0 or -EBADMSG */

void wire_add_proof(struct buf *out, enum wire_type challenge_or_proof, const uint8_t bytes[WIRE_PROOF_BYTES]);
/* The frame of this type at the beginning of `in`; *used is its length. WIRE_BAD as soon as the bytes cannot be one: whoever has not proven anything is not waited for longer. */
enum wire_result wire_proof(struct slice in, enum wire_type challenge_or_proof, uint8_t out[WIRE_PROOF_BYTES], size_t *used, const char **why);

/* ---- the greeting */

struct wire_hello {
    uint16_t version, oldest; /* of the protocol: spoken, and still understood */
    uint8_t cluster[WIRE_CLUSTER_ID];
    uint64_t node;        /* who speaks, not 0 */
    uint64_t to;          /* whom it takes the other for; 0: not known. In an answer: the caller's number, or 0: turned away */
    uint64_t incarnation; /* not 0; grows with every start of the node */
    char address[WIRE_ADDRESS_MAX + 1]; /* where the speaker listens: host:port */
    uint16_t lanes; /* the speaker has so many workers; 0: it takes no lanes */
    uint16_t lane;  /* 0: the connection of a node's raft thread; else it is lane - 1, from worker to worker */
    bool guarded; /* the speaker has a secret: */
    uint8_t nonce[WIRE_PROOF_BYTES];
    bool proven;  /* in an answer: and proves it */
    uint8_t proof[WIRE_PROOF_BYTES];
};

void wire_add_hello(struct buf *out, const struct wire_hello *hello);
/* The HELLO at the beginning of `in`; *used is its length. WIRE_BAD as soon as the bytes cannot be one. A newer version than ours is well-formed:
 * compare versions with wire_version. */
enum wire_result wire_hello(struct slice in, struct wire_hello *out, size_t *used, const char **why);
bool wire_is_hello(struct slice in); /* as far as its first byte says, which no frame has; not empty */
/* The version in which two nodes speak; 0 if there is none. */
uint16_t wire_version(const struct wire_hello *mine, const struct wire_hello *theirs);
