#include "cluster/raftsend.h"

#include "base/check.h"
#include "base/le.h"
#include "cluster/raftgroup.h"
#include "cluster/wireraft.h"

enum {
    FRAME_BYTES = 256 * 1024, /* of entries in one frame; a larger entry has a frame of its own */
    FRAME_ENTRIES = 256,
};

/* R1. Gives the buffer for frames to this peer, and where the frames begin in it. */
static struct buf *frames_begin(struct raftgroup *g, uint64_t peer, size_t *at)
{
    struct buf *out = g->hard_batch ? &g->held : &raftnode_peer(g->node, peer)->out;
    *at = out->len;
    if (g->hard_batch) {
        le_add_u64(out, peer);
        le_add_u64(out, 0);
    }
    return out;
}

static void frames_end(struct raftgroup *g, struct buf *out, size_t at)
{
    if (out != &g->held) return;
    uint64_t length = htole64(out->len - at - 16);
    memcpy(out->p + at + 8, &length, 8);
}

void raftsend_held(struct raftgroup *g)
{
    g->hard_batch = 0;
    for (size_t at = 0; at < g->held.len;) {
        uint64_t peer = le_u64(g->held.p + at), n = le_u64(g->held.p + at + 8);
        buf_add(&raftnode_peer(g->node, peer)->out, g->held.p + at + 16, n);
        at += 16 + n;
    }
    buf_fini(&g->held);
}

/* Reads entries from `index` on, before `end`, for one frame: until it is full, one at least. Data lies in the node's scratch. */
static uint32_t load_frame(struct raftgroup *g, uint64_t index, uint64_t end, struct raft_entry *entries)
{
    struct buf *scratch = &g->node->scratch;
    scratch->len = 0;
    uint32_t n = 0;
    while (n < FRAME_ENTRIES && index + n < end) {
        struct raftlog_entry e;
        if (raftlog_read(g->node->log, g->id, index + n, &e) < 0) {
            raftgroup_break(g, "its log cannot be read");
            return 0;
        }
        if (n && scratch->len + e.data.n > FRAME_BYTES) break;
        entries[n] = (struct raft_entry){.term = e.term, .type = (enum raft_entry_type)e.type, .buf = {(void *)(uintptr_t)scratch->len, e.data.n}};
        buf_add_slice(scratch, e.data);
        n++;
    }
    for (uint32_t i = 0; i < n; i++) entries[i].buf.base = scratch->p + (uintptr_t)entries[i].buf.base;
    return n;
}

/* Where the entries end that this peer may have: a spare gets no change of members that is not committed (R13). */
static uint64_t entries_end(const struct raftgroup *g, uint64_t peer, uint64_t end)
{
    const struct raftnode_members *m = raftmember_latest(&g->members);
    bool barred = m->index > g->members.committed && m->index < end && raftmember_role(m, peer) == RAFTNODE_SPARE;
    return barred ? m->index : end;
}

/* The engine names entries by index alone. They leave in frames of bounded size, and no more of them than the limit of bytes: what was left out is missed by the
 * peer, whose answer brings the engine back to it (R9). */
static void send_append(struct raftgroup *g, struct raft_message *m, struct buf *out)
{
    struct raft_append_entries *a = &m->append_entries;
    struct raft_entry entries[FRAME_ENTRIES];
    uint64_t end = entries_end(g, m->server_id, a->prev_log_index + 1 + a->n_entries), sent = 0;
    a->entries = entries;
    while (a->prev_log_index + 1 < end && (sent == 0 || sent < g->node->options.inflight_bytes)) {
        a->n_entries = load_frame(g, a->prev_log_index + 1, end, entries);
        if (a->n_entries == 0) return;
        CHECK(wireraft_add(out, g->id, m) == 0);
        sent += g->node->scratch.len + a->n_entries;
        a->prev_log_index += a->n_entries;
        a->prev_log_term = entries[a->n_entries - 1].term;
    }
}

static void send_install(struct raftgroup *g, struct raft_message *m, struct buf *out)
{
    struct buf descriptor = {0};
    raftsnap_fill(g, &m->install_snapshot, &descriptor);
    CHECK(wireraft_add(out, g->id, m) == 0);
    raft_configuration_close(&m->install_snapshot.conf);
    buf_fini(&descriptor);
}

/* The answer to a message of an older term. */
static void answer_stale(const struct raftgroup *g, struct raft_message *m)
{
    if (m->type == RAFT_APPEND_ENTRIES_RESULT) m->append_entries_result.last_log_index = 0; /* the engine leaves it unset */
    if (m->type == RAFT_REQUEST_VOTE_RESULT) m->request_vote_result.term = raft_current_term(&g->raft); /* R12 */
}

void raftsend_message(struct raftgroup *g, struct raft_message *m)
{
    size_t at;
    struct buf *out = frames_begin(g, m->server_id, &at);
    if (m->type == RAFT_APPEND_ENTRIES && m->append_entries.n_entries) {
        send_append(g, m, out);
    } else if (m->type == RAFT_INSTALL_SNAPSHOT) {
        send_install(g, m, out);
    } else {
        if (m->type == RAFT_APPEND_ENTRIES) m->append_entries.entries = NULL;
        if (g->stale_event) answer_stale(g, m);
        CHECK(wireraft_add(out, g->id, m) == 0);
    }
    frames_end(g, out, at);
}
