#include "cluster/raftread.h"

#include <errno.h>

#include "base/check.h"
#include "base/mem.h"
#include "cluster/raftgroup.h"
#include "cluster/wireraft.h"

enum { LATE_SHARE = 4 };

void raftread_fini(struct raftgroup *g)
{
    mem_free(g->reads.open);
    mem_free(g->reads.failed);
}

static void fail(struct raftgroup *g, uint64_t ticket)
{
    struct raftread_state *s = &g->reads;
    if (s->n_failed == s->cap_failed) {
        s->cap_failed = s->cap_failed * 2 + 8;
        s->failed = mem_resize(s->failed, s->cap_failed * sizeof *s->failed);
    }
    s->failed[s->n_failed++] = ticket;
    raftnode_soil(g);
}

void raftread_add(struct raftgroup *g, uint64_t ticket)
{
    struct raftread_state *s = &g->reads;
    if (!raftgroup_ready(g)) {
        fail(g, ticket);
        return;
    }
    if (s->n == s->cap) {
        s->cap = s->cap * 2 + 8;
        s->open = mem_resize(s->open, s->cap * sizeof *s->open);
    }
    if (s->n == 0) s->since = g->node->now;
    s->open[s->n++] = (struct raftread){ticket, raft_commit_index(&g->raft), g->node->probe + 1};
    s->ask = true;
    raftnode_soil(g);
}

void raftread_reign_ended(struct raftgroup *g)
{
    for (uint32_t i = 0; i < g->reads.n; i++) fail(g, g->reads.open[i].ticket);
    g->reads.n = 0;
    g->reads.ask = false;
}

/* Answers take a round trip, which is far below the time of a heartbeat. */
static uint64_t late_at(const struct raftgroup *g) { return g->reads.since + g->node->options.heartbeat_ms / LATE_SHARE; }

static uint64_t remind_at(const struct raftgroup *g) { return g->reads.some ? late_at(g) : g->reads.asked + g->node->options.heartbeat_ms; }

uint64_t raftread_remind(struct raftgroup *g)
{
    struct raftread_state *s = &g->reads;
    if (s->n == 0) return UINT64_MAX;
    if (!s->ask && g->node->now >= remind_at(g)) {
        s->ask = true;
        raftnode_soil(g);
    }
    return remind_at(g);
}

/* ---- probes */

static bool is_other_voter(const struct raftgroup *g, const struct raftnode_member *m) { return m->role == RAFTNODE_VOTER && m->node != g->node->options.id; }

static uint64_t last_ack(const struct raftgroup *g, uint64_t node)
{
    const struct raftread_state *s = &g->reads;
    for (uint32_t i = 0; i < s->n_acks; i++)
        if (s->acks[i].node == node) return s->acks[i].probe;
    return 0;
}

/* Who answered later is asked before; among equals, who comes next behind this node in the order of numbers, so that the nodes do not all ask the same one. */
static bool is_before(const struct raftgroup *g, uint64_t a, uint64_t b)
{
    uint64_t of_a = last_ack(g, a), of_b = last_ack(g, b), self = g->node->options.id;
    return of_a != of_b ? of_a > of_b : a - self < b - self;
}

/* Whether fewer of the others are asked before this one than a majority needs besides this node. */
static bool is_needed(const struct raftgroup *g, const struct raftnode_members *m, uint64_t node)
{
    uint32_t before = 0, self = raftmember_role(m, g->node->options.id) == RAFTNODE_VOTER;
    for (uint32_t i = 0; i < m->n; i++) before += is_other_voter(g, &m->m[i]) && m->m[i].node != node && is_before(g, m->m[i].node, node);
    return before + self <= raftmember_voters(m) / 2;
}

void raftread_ask(struct raftgroup *g)
{
    struct raftnode *n = g->node;
    struct raftread_state *s = &g->reads;
    if (!s->ask) return;
    bool all = s->n_acks == 0 || n->now >= late_at(g);
    s->ask = s->some = false;
    s->asked = n->now;
    const struct raftnode_members *m = raftmember_latest(&g->members);
    for (uint32_t i = 0; i < m->n; i++) {
        if (!is_other_voter(g, &m->m[i])) continue;
        if (!all && !is_needed(g, m, m->m[i].node)) {
            s->some = true;
            continue;
        }
        struct raftnode_peer *p = raftnode_peer(n, m->m[i].node);
        if (!p->probe.len) p->probe_at = wireraft_probe_begin(&p->probe, WIRE_PROBE, n->probe + 1);
        wireraft_probe_add(&p->probe, g->id, g->reign);
    }
    if (remind_at(g) < n->scan_at) n->scan_at = remind_at(g);
    if (raftmember_sole_voter(g)) raftnode_soil(g); /* nobody to ask: the next flush tells */
}

void raftread_send(struct raftnode *n)
{
    for (uint32_t i = 0; i < n->n_peers; i++) {
        struct raftnode_peer *p = n->peers[i];
        if (!p->probe.len) continue;
        wire_end(&p->probe, p->probe_at);
        buf_add_slice(&p->out, buf_slice(&p->probe));
        p->probe.len = 0;
    }
    n->probe++;
}

/* Where a node's answers are noted. There is room for as many as a group can have members; nodes that were members before give way, and who is silent, in the order of their last answers. */
static uint32_t place_of(struct raftread_state *s, uint64_t node)
{
    uint32_t i = 0, oldest = 0;
    for (; i < s->n_acks && s->acks[i].node != node; i++)
        if (s->acks[i].probe < s->acks[oldest].probe) oldest = i;
    if (i < s->n_acks) return i;
    if (i == RAFTNODE_MEMBERS_MAX) i = oldest;
    else s->n_acks++;
    s->acks[i].node = node;
    s->acks[i].probe = 0;
    return i;
}

static void note_ack(struct raftgroup *g, uint64_t from, uint64_t probe)
{
    struct raftread_state *s = &g->reads;
    uint32_t i = place_of(s, from);
    if (s->acks[i].probe < probe) s->acks[i].probe = probe;
    if (s->n) raftnode_soil(g);
}

/* We know of no later term in these groups. */
static void answer(struct raftnode *n, uint64_t from, const struct wireraft_probe *probe)
{
    struct buf *out = &raftnode_peer(n, from)->out;
    size_t frame = wireraft_probe_begin(out, WIRE_PROBE_ACK, probe->ctx);
    for (uint32_t i = 0; i < probe->n; i++) {
        struct wireraft_pair p = wireraft_probe_at(probe, i);
        const struct raftgroup *g = raftnode_group(n, p.group);
        if (g && !g->broken && raft_current_term(&g->raft) == p.term) wireraft_probe_add(out, p.group, p.term);
    }
    wire_end(out, frame);
}

int raftread_receive(struct raftnode *n, uint64_t from, const struct wire_frame *f)
{
    struct wireraft_probe probe;
    if (wireraft_probe_get(f, &probe) < 0) return -EBADMSG;
    if (f->type == WIRE_PROBE) {
        answer(n, from, &probe);
        return 0;
    }
    if (probe.ctx > n->probe) return -EBADMSG; /* which was never asked */
    for (uint32_t i = 0; i < probe.n; i++) {
        struct wireraft_pair p = wireraft_probe_at(&probe, i);
        struct raftgroup *g = raftnode_group(n, p.group);
        if (g && g->reign && g->reign == p.term) note_ack(g, from, probe.ctx);
    }
    return 0;
}

/* ---- telling */

/* A majority of the voters, this node among them, answered this probe or a later one. */
static bool confirmed(const struct raftgroup *g, uint64_t probe)
{
    const struct raftread_state *s = &g->reads;
    const struct raftnode_members *m = raftmember_latest(&g->members);
    uint32_t yes = raftmember_role(m, g->node->options.id) == RAFTNODE_VOTER;
    for (uint32_t i = 0; i < s->n_acks; i++) yes += s->acks[i].probe >= probe && raftmember_role(m, s->acks[i].node) == RAFTNODE_VOTER;
    return yes > raftmember_voters(m) / 2;
}

void raftread_tell(struct raftgroup *g)
{
    struct raftread_state *s = &g->reads;
    struct raftnode_out *out = &g->node->out;
    uint32_t done = s->n_failed; /* upcalls may add to both lists */
    for (uint32_t i = 0; i < done; i++) out->read_failed(out->ctx, s->failed[i]);
    if (done) memmove(s->failed, s->failed + done, (s->n_failed - done) * sizeof *s->failed);
    s->n_failed -= done;
    done = 0;
    while (done < s->n && confirmed(g, s->open[done].probe)) done++;
    for (uint32_t i = 0; i < done; i++) out->read_ok(out->ctx, s->open[i].ticket, s->open[i].index);
    if (done) memmove(s->open, s->open + done, (s->n - done) * sizeof *s->open);
    if (done) s->since = g->node->now;
    s->n -= done;
}
