/* Decodes a frame by its type and encodes what came out: a message has exactly one form, so the bytes must be the same. For the unit test and the fuzzer. */
#pragma once
#include "base/mem.h"
#include "cluster/wirecall.h"
#include "cluster/wirepub.h"
#include "cluster/wireraft.h"
#include "cluster/wiresnap.h"
#include "cluster/wirestatus.h"

static inline bool wireagain_raft(const struct wire_frame *f, struct buf *out)
{
    struct raft_message m;
    if (wireraft_get(f, 7, &m)) return false;
    CHECK(wireraft_add(out, f->group, &m) == 0);
    wireraft_discard(&m);
    return true;
}

static inline bool wireagain_probe(const struct wire_frame *f, struct buf *out)
{
    struct wireraft_probe probe;
    if (wireraft_probe_get(f, &probe)) return false;
    size_t frame = wireraft_probe_begin(out, f->type, probe.ctx);
    for (uint32_t i = 0; i < probe.n; i++) wireraft_probe_add(out, wireraft_probe_at(&probe, i).group, wireraft_probe_at(&probe, i).term);
    wire_end(out, frame);
    return true;
}

static inline bool wireagain_call(const struct wire_frame *f, struct buf *out)
{
    struct wirecall_joiner *j = wirecall_joiner_new(1 << 20);
    struct wirecall_request request;
    struct wirecall_answer answer;
    struct slice message, *argv = NULL;
    uint32_t room = 0;
    bool good = wirecall_join(j, f, &message) == WIRE_OK;
    if (good && f->type == WIRE_REQUEST) {
        good = wirecall_get_request(message, &request, &argv, &room) == 0;
        if (good) wirecall_add_request(out, f->group, &request, argv);
    } else if (good) {
        good = wirecall_get_answer(message, &answer) == 0;
        if (good) wirecall_add_answer(out, f->group, &answer);
    }
    mem_free(argv);
    wirecall_joiner_free(j);
    return good;
}

#define WIREAGAIN(kind) \
    struct wiresnap_##kind m; \
    if (wiresnap_get_##kind(f, &m)) return false; \
    wiresnap_add_##kind(out, f->group, &m); \
    return true

static inline bool wireagain_offer(const struct wire_frame *f, struct buf *out) { WIREAGAIN(offer); }
static inline bool wireagain_want(const struct wire_frame *f, struct buf *out) { WIREAGAIN(want); }
static inline bool wireagain_chunk(const struct wire_frame *f, struct buf *out) { WIREAGAIN(chunk); }
static inline bool wireagain_done(const struct wire_frame *f, struct buf *out) { WIREAGAIN(done); }

static inline bool wireagain_status(const struct wire_frame *f, struct buf *out)
{
    struct wirestatus_list list;
    struct wirestatus s;
    if (wirestatus_get(f, &list)) return false;
    size_t frame = wirestatus_begin(out);
    for (uint32_t i = 0; i < list.n; i++) {
        CHECK(wirestatus_next(&list, &s));
        wirestatus_add(out, &s);
    }
    CHECK(!wirestatus_next(&list, &s));
    wire_end(out, frame);
    return true;
}

static inline bool wireagain_publish(const struct wire_frame *f, struct buf *out)
{
    struct wirepub p;
    if (wirepub_get(f, &p)) return false;
    wirepub_add(out, &p);
    return true;
}

static inline bool wireagain_ping(const struct wire_frame *f, struct buf *out)
{
    uint64_t token;
    if (wire_get_ping(f, &token)) return false;
    wire_add_ping(out, f->type, token);
    return true;
}

static inline bool wireagain_proof(const struct wire_frame *f, struct buf *out)
{
    uint8_t bytes[WIRE_PROOF_BYTES];
    size_t used;
    const char *why;
    if (wire_proof(f->whole, f->type, bytes, &used, &why) != WIRE_OK) return false;
    CHECK(used == f->whole.n);
    wire_add_proof(out, f->type, bytes);
    return true;
}

/* False: the body is not a message of its type. */
static inline bool wireagain(const struct wire_frame *f, struct buf *out)
{
    switch (f->type) {
    case WIRE_PING:
    case WIRE_PONG: return wireagain_ping(f, out);
    case WIRE_CHALLENGE:
    case WIRE_PROOF: return wireagain_proof(f, out);
    case WIRE_PROBE:
    case WIRE_PROBE_ACK: return wireagain_probe(f, out);
    case WIRE_REQUEST:
    case WIRE_ANSWER: return wireagain_call(f, out);
    case WIRE_SNAP_OFFER: return wireagain_offer(f, out);
    case WIRE_SNAP_WANT: return wireagain_want(f, out);
    case WIRE_SNAP_CHUNK: return wireagain_chunk(f, out);
    case WIRE_SNAP_DONE: return wireagain_done(f, out);
    case WIRE_STATUS: return wireagain_status(f, out);
    case WIRE_PUBLISH: return wireagain_publish(f, out);
    default: CHECK(wireraft_is(f->type)); return wireagain_raft(f, out);
    }
}
