/* Random frames of every type, for round trips. */
#pragma once
#include "base/mem.h"
#include "base/rng.h"
#include "cluster/wirecall.h"
#include "cluster/wirepub.h"
#include "cluster/wireraft.h"
#include "cluster/wiresnap.h"
#include "cluster/wirestatus.h"

enum { WIRERANDOM_ENTRIES = 12 };

static const enum wire_type wirerandom_types[] = {
    WIRE_PING,  WIRE_PONG,      WIRE_VOTE,    WIRE_VOTE_RESULT, WIRE_APPEND,     WIRE_APPEND_RESULT, WIRE_INSTALL,    WIRE_TIMEOUT_NOW, WIRE_PROBE,
    WIRE_PROBE_ACK, WIRE_REQUEST, WIRE_ANSWER, WIRE_SNAP_OFFER,  WIRE_SNAP_WANT, WIRE_SNAP_CHUNK,    WIRE_SNAP_DONE, WIRE_STATUS,
    WIRE_PUBLISH, WIRE_CHALLENGE, WIRE_PROOF,
};

enum { WIRERANDOM_TYPES = sizeof wirerandom_types / sizeof wirerandom_types[0] };

/* Small numbers and large ones, up to 62 bits. */
static inline uint64_t wirerandom_number(struct rng *r) { return rng_u64(r) >> (2 + rng_below(r, 61)); }

static inline struct slice wirerandom_bytes(struct rng *r, size_t max)
{
    static char pool[4096];
    for (size_t i = 0; i < 8; i++) pool[rng_below(r, sizeof pool)] = (char)rng_u64(r);
    size_t n = rng_below(r, 4) ? rng_below(r, max + 1) : 0, at = rng_below(r, sizeof pool - n);
    return slice_of(pool + at, n);
}

static inline struct slice wirerandom_name(struct rng *r)
{
    static const char names[] = "g12-345-6.snap:node-1.example:7000";
    size_t at = rng_below(r, sizeof names - 3);
    if (names[at] == '.') at++;
    return slice_of(names + at, 1 + rng_below(r, sizeof names - 2 - at));
}

/* The data of a CHANGE entry, in `out`: members as the engine writes them. */
static inline struct slice wirerandom_members(struct rng *r, char out[256])
{
    struct raft_configuration conf;
    struct raft_buffer b;
    raft_configuration_init(&conf);
    for (uint64_t i = 0, n = 1 + rng_below(r, 5); i < n; i++) {
        char address[32];
        snprintf(address, sizeof address, "n%llu", (unsigned long long)i);
        CHECK(raft_configuration_add(&conf, 1 + i * 1000 + rng_below(r, 1000), address, (int)rng_below(r, 3)) == 0);
    }
    CHECK(raft_configuration_encode(&conf, &b) == 0 && b.len <= 256);
    memcpy(out, b.base, b.len);
    raft_free(b.base);
    raft_configuration_close(&conf);
    return slice_of(out, b.len);
}

/* An APPEND with entries in `entries`, whose data is borrowed from the pool. */
static inline struct raft_message wirerandom_append(struct rng *r, struct raft_entry entries[WIRERANDOM_ENTRIES])
{
    static char members[256];
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES};
    struct slice change = wirerandom_members(r, members);
    uint64_t term = 1 + wirerandom_number(r) / 4;
    m.append_entries = (struct raft_append_entries){.version = (uint8_t)rng_below(r, 3), .prev_log_index = wirerandom_number(r), .prev_log_term = term,
                                                    .leader_commit = wirerandom_number(r), .entries = entries,
                                                    .n_entries = (unsigned)rng_below(r, WIRERANDOM_ENTRIES + 1)};
    for (unsigned i = 0; i < m.append_entries.n_entries; i++) {
        enum raft_entry_type type = RAFT_COMMAND + (enum raft_entry_type)rng_below(r, 3);
        struct slice data = type == RAFT_CHANGE ? change : wirerandom_bytes(r, 300);
        term += rng_below(r, 3);
        entries[i] = (struct raft_entry){.term = term, .type = type, .buf = {(char *)data.p, data.n}};
    }
    m.append_entries.term = term + rng_below(r, 3);
    return m;
}

static inline void wirerandom_install(struct rng *r, struct buf *out, uint32_t group)
{
    struct raft_message m = {.type = RAFT_INSTALL_SNAPSHOT};
    struct slice data = wirerandom_bytes(r, 300);
    uint64_t index = 1 + wirerandom_number(r) / 4, term = 1 + wirerandom_number(r) / 4;
    m.install_snapshot = (struct raft_install_snapshot){.version = 1, .term = term + rng_below(r, 2), .last_index = index, .last_term = term,
                                                        .conf_index = rng_below(r, index + 1), .data = {(char *)data.p, data.n}};
    struct raft_configuration *conf = &m.install_snapshot.conf;
    raft_configuration_init(conf);
    for (uint64_t i = 0, n = rng_below(r, 6); i < n; i++) {
        char address[32];
        snprintf(address, sizeof address, "n%llu", (unsigned long long)i);
        CHECK(raft_configuration_add(conf, 1 + i * 1000 + rng_below(r, 1000), address, (int)rng_below(r, 3)) == 0);
    }
    CHECK(wireraft_add(out, group, &m) == 0);
    raft_configuration_close(conf);
}

static inline void wirerandom_raft(struct rng *r, struct buf *out, enum wire_type type, uint32_t group)
{
    struct raft_entry entries[WIRERANDOM_ENTRIES];
    struct raft_message m = {0};
    uint8_t version = (uint8_t)rng_below(r, 3);
    uint64_t a = 1 + wirerandom_number(r) / 4, b = wirerandom_number(r), c = wirerandom_number(r);
    uint16_t features = (uint16_t)rng_u64(r), capacity = (uint16_t)rng_u64(r);
    bool x = rng_below(r, 2), y = rng_below(r, 2);
    if (type == WIRE_INSTALL) {
        wirerandom_install(r, out, group);
        return;
    }
    if (type == WIRE_APPEND) m = wirerandom_append(r, entries);
    if (type == WIRE_VOTE) m = (struct raft_message){.type = RAFT_REQUEST_VOTE, .request_vote = {version, a, 1 + rng_u64(r) / 2, b, c, x, y}};
    if (type == WIRE_VOTE_RESULT) m = (struct raft_message){.type = RAFT_REQUEST_VOTE_RESULT, .request_vote_result = {version, a - x, x, y, features, capacity}};
    if (type == WIRE_APPEND_RESULT) m = (struct raft_message){.type = RAFT_APPEND_ENTRIES_RESULT, .append_entries_result = {version, a, b, c, features, capacity}};
    if (type == WIRE_TIMEOUT_NOW) m = (struct raft_message){.type = RAFT_TIMEOUT_NOW, .timeout_now = {version, a, b, c}};
    CHECK(wireraft_add(out, group, &m) == 0);
}

static inline void wirerandom_call(struct rng *r, struct buf *out, enum wire_type type, uint32_t group)
{
    struct slice argv[9];
    struct wirecall_request q = {.id = rng_u64(r), .session = rng_u64(r), .map = wirerandom_number(r), .flags = (uint32_t)rng_u64(r), .timeout_ms = (uint32_t)rng_below(r, 60000),
                                 .db = (uint32_t)rng_below(r, 16), .resp = (uint8_t)(2 + rng_below(r, 2)), .argc = 1 + (uint32_t)rng_below(r, 9)};
    for (uint32_t i = 0; i < q.argc; i++) argv[i] = wirerandom_bytes(r, 200);
    struct wirecall_answer a = {.id = q.id, .status = (enum wirecall_status)rng_below(r, WIRECALL_BUSY + 1), .leader = wirerandom_number(r), .reply = argv[0]};
    if (type == WIRE_REQUEST) wirecall_add_request(out, group, &q, argv);
    else wirecall_add_answer(out, group, &a);
}

static inline void wirerandom_snap(struct rng *r, struct buf *out, enum wire_type type, uint32_t group)
{
    uint64_t id = rng_u64(r), offset = wirerandom_number(r) / 2;
    struct slice data = wirerandom_bytes(r, 500);
    if (type == WIRE_SNAP_OFFER)
        wiresnap_add_offer(out, group, &(struct wiresnap_offer){id, wirerandom_number(r), wirerandom_number(r), offset, rng_u64(r), wirerandom_name(r)});
    if (type == WIRE_SNAP_WANT) wiresnap_add_want(out, group, &(struct wiresnap_want){id, offset, 1 + (uint32_t)rng_below(r, 1 << 20)});
    if (type == WIRE_SNAP_CHUNK) wiresnap_add_chunk(out, group, &(struct wiresnap_chunk){id, offset, data.n ? data : SLICE("x")});
    if (type == WIRE_SNAP_DONE) wiresnap_add_done(out, group, &(struct wiresnap_done){id, (enum wiresnap_status)rng_below(r, WIRESNAP_FAILED + 1)});
}

static inline void wirerandom_status(struct rng *r, struct buf *out, uint64_t node)
{
    uint32_t groups = (uint32_t)rng_below(r, 1000), leaders = (uint32_t)rng_below(r, groups < 4 ? groups + 1 : 5), group = 0;
    struct buf leads = {0};
    for (uint32_t i = 0; i < leaders; i++) {
        struct wirestatus_lead l = {.group = group += 1 + (uint32_t)rng_below(r, 100), .term = wirerandom_number(r), .n_behind = (uint32_t)rng_below(r, 3)};
        for (uint32_t j = 0; j < l.n_behind; j++) l.behind[j] = wirerandom_number(r);
        wirestatus_add_lead(&leads, &l);
    }
    wirestatus_add(out, &(struct wirestatus){.node = node, .incarnation = wirerandom_number(r), .version = wirerandom_number(r),
                                             .state = (enum wirestatus_state)rng_below(r, 3), .groups = groups, .leaders = leaders,
                                             .keys = rng_u64(r), .bytes = rng_u64(r), .free_bytes = rng_u64(r), .ops_per_s = rng_u64(r),
                                             .map_version = rng_u64(r), .address = wirerandom_name(r), .leads = buf_slice(&leads)});
    buf_fini(&leads);
}

static inline void wirerandom_list(struct rng *r, struct buf *out, enum wire_type type)
{
    size_t frame = type == WIRE_STATUS ? wirestatus_begin(out) : wireraft_probe_begin(out, type, rng_u64(r));
    for (uint64_t n = rng_below(r, 8); n; n--) {
        if (type == WIRE_STATUS) wirerandom_status(r, out, n);
        else wireraft_probe_add(out, (uint32_t)rng_u64(r), rng_u64(r));
    }
    wire_end(out, frame);
}

static inline void wirerandom_proof(struct rng *r, enum wire_type type, struct buf *out)
{
    uint8_t bytes[WIRE_PROOF_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)rng_u64(r);
    wire_add_proof(out, type, bytes);
}

static inline void wirerandom_publish(struct rng *r, struct buf *out)
{
    struct slice channel = wirerandom_name(r), message = wirerandom_bytes(r, 500);
    wirepub_add(out, &(struct wirepub){.kind = (enum wirepub_kind)rng_below(r, 2), .channel = rng_below(r, 10) ? channel : SLICE(""), .message = message});
}

/* Appends a frame of this type. */
static inline void wirerandom_frame(struct rng *r, struct buf *out, enum wire_type type)
{
    uint32_t group = (uint32_t)rng_u64(r);
    if (type == WIRE_PING || type == WIRE_PONG) wire_add_ping(out, type, rng_u64(r));
    else if (type == WIRE_CHALLENGE || type == WIRE_PROOF) wirerandom_proof(r, type, out);
    else if (wireraft_is(type)) wirerandom_raft(r, out, type, group);
    else if (type == WIRE_REQUEST || type == WIRE_ANSWER) wirerandom_call(r, out, type, group);
    else if (type >= WIRE_SNAP_OFFER && type <= WIRE_SNAP_DONE) wirerandom_snap(r, out, type, group);
    else if (type == WIRE_PUBLISH) wirerandom_publish(r, out);
    else wirerandom_list(r, out, type);
}
