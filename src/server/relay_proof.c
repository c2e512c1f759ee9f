/* That this node leads, said by workers. Raft's rule: an answer shows the newest state if, at some time since the request came, a majority of the group's voters, the leader among them, were in no later term than its own. The terms of this
 * node's replicas, and who votes, stand on the raft thread's board (cluster/termboard.h); so workers can ask and answer each other without their raft threads.
 *
 * Where two voters are a majority, one other is enough: the node that sent the request, which says its term with it, or one that is asked: all groups of a turn in one PROBE by a lane, and the terms of the other in its
 * PROBE_ACK. What is more, or goes wrong, is left to Raft (seat_ask). */
#include "base/mem.h"
#include "cluster/meta.h"
#include "cluster/termboard.h"
#include "cluster/wireraft.h"
#include "server/relay_lane.h"

enum { SPARE_MS = 500 }; /* a worker that was late is probably busy with something long */

struct proof { /* of a group, as far as this front has asked */
    uint64_t term;
    uint64_t asked;             /* the number of the last probe that it is in */
    uint64_t confirmed, failed; /* of the last one that was answered so */
};

struct probing { /* of this turn */
    uint32_t group;
    uint64_t term;
    struct relay_lane *lane;
};

static struct proof *proof_of(struct relay_front *rf, uint32_t group)
{
    if (unlikely(group >= rf->n_proofs)) {
        rf->proofs = mem_resize(rf->proofs, (group + 1) * sizeof *rf->proofs);
        memset(rf->proofs + rf->n_proofs, 0, (group + 1 - rf->n_proofs) * sizeof *rf->proofs);
        rf->n_proofs = group + 1;
    }
    return &rf->proofs[group];
}

static bool is_settled(const struct proof *p) { return p->asked <= p->confirmed || p->asked <= p->failed; }

/* How many of the others it takes. */
static uint32_t others_needed(const struct termboard_group *g, uint64_t self)
{
    bool votes = false;
    for (uint32_t i = 0; i < g->n_voters; i++) votes |= g->voters[i] == self;
    return g->n_voters / 2 + 1 - votes;
}

static bool is_voter(const struct termboard_group *g, uint64_t node)
{
    for (uint32_t i = 0; i < g->n_voters; i++)
        if (g->voters[i] == node) return true;
    return false;
}

/* Whom to ask: one to whom something goes anyway; else who comes next behind this node in the order of numbers, so that the nodes do not all ask the same one. NULL: nobody. */
static struct relay_lane *lane_for(const struct relay_front *rf, const struct termboard_group *g)
{
    uint64_t self = rf->relay->cluster.self;
    int64_t now_ms = relay_now_ms();
    struct relay_lane *best = NULL;
    for (uint32_t i = 0; i < g->n_voters; i++) {
        struct relay_lane *l = g->voters[i] == self ? NULL : relay_lane_to(rf, g->voters[i]);
        if (!l || now_ms < l->spared_until_ms) continue;
        if (!best || (l->out.len > 0) > (best->out.len > 0) || ((l->out.len > 0) == (best->out.len > 0) && l->peer - self < best->peer - self)) best = l;
    }
    return best;
}

static void want(struct relay_front *rf, const struct hold *h, struct proof *p)
{
    if (p->asked == h->probe) return; /* so does another */
    p->asked = h->probe;
    p->term = h->term;
    if (rf->n_probing == rf->cap_probing) {
        rf->cap_probing = rf->cap_probing ? rf->cap_probing * 2 : 16;
        rf->probing = mem_resize(rf->probing, rf->cap_probing * sizeof *rf->probing);
    }
    rf->probing[rf->n_probing++] = (struct probing){.group = h->group, .term = h->term};
}

static enum seat_outcome ask_raft(struct relay_front *rf, struct hold *h)
{
    const struct relay_cluster *c = &rf->relay->cluster;
    c->ask(c->ctx, h);
    relay_listen(rf);
    return SEAT_WAIT;
}

static enum seat_outcome proven(struct relay_front *rf, struct hold *h)
{
    h->unproven = false;
    STAT_ADD(rf->counts.proven, 1);
    return SEAT_DONE;
}

enum seat_outcome relay_proof(struct relay_front *rf, struct hold *h)
{
    const struct relay_cluster *c = &rf->relay->cluster;
    struct proof *p = proof_of(rf, h->group);
    struct termboard_group g;
    termboard_get(c->board, h->group, &g);
    if (g.term != h->term) return SEAT_LOST;
    if (h->probe) {
        if (p->term == h->term && p->confirmed >= h->probe) return proven(rf, h);
        return p->term != h->term || p->failed >= h->probe ? ask_raft(rf, h) : SEAT_WAIT;
    }
    uint32_t needed = others_needed(&g, c->self);
    if (needed == 0) return proven(rf, h);
    if (needed > 1 || !lane_for(rf, &g)) return ask_raft(rf, h);
    h->probe = rf->probe + 1;
    want(rf, h, p);
    return SEAT_WAIT;
}

void relay_proof_begin(struct relay_front *rf, struct hold *holds, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (holds[k].unproven) relay_proof(rf, &holds[k]);
}

void relay_proof_by(struct relay_front *rf, struct hold *h, const struct ticket *by)
{
    const struct relay_cluster *c = &rf->relay->cluster;
    struct termboard_group g;
    if (!h->unproven || by->group != h->group || by->term != h->term) return;
    termboard_get(c->board, h->group, &g);
    if (g.term == h->term && others_needed(&g, c->self) <= 1 && is_voter(&g, by->node)) proven(rf, h);
}

/* ---- asking */

static void send_probe(struct relay_front *rf, struct relay_lane *l)
{
    int64_t now_ms = relay_now_ms();
    l->probe = rf->probe;
    if (!l->asked_ms) l->asked_ms = now_ms;
    relay_look_at(rf, l->asked_ms + rf->relay->late_ms);
    size_t frame = wireraft_probe_begin(&l->out, WIRE_PROBE, rf->probe);
    for (uint32_t i = 0; i < rf->n_probing; i++)
        if (rf->probing[i].lane == l) wireraft_probe_add(&l->out, rf->probing[i].group, rf->probing[i].term);
    wire_end(&l->out, frame);
}

void relay_proof_turn(struct relay_front *rf)
{
    struct termboard_group g;
    bool vain = false; /* whom to ask was there when it was wanted, and is not now */
    if (!rf->n_probing) return;
    rf->probe++;
    for (uint32_t i = 0; i < rf->n_probing; i++) {
        struct probing *q = &rf->probing[i];
        termboard_get(rf->relay->cluster.board, q->group, &g);
        q->lane = lane_for(rf, &g);
        if (!q->lane) proof_of(rf, q->group)->failed = rf->probe;
        vain |= !q->lane;
    }
    for (struct relay_lane *l = rf->lanes; l; l = l->next) {
        bool asked = false;
        for (uint32_t i = 0; i < rf->n_probing && !asked; i++) asked = rf->probing[i].lane == l;
        if (asked) send_probe(rf, l);
    }
    rf->n_probing = 0;
    if (vain) relay_news(rf);
}

/* ---- answers */

static void answer(struct relay_lane *l, const struct wireraft_probe *probe)
{
    size_t frame = wireraft_probe_begin(&l->out, WIRE_PROBE_ACK, probe->ctx);
    for (uint32_t i = 0; i < probe->n; i++) {
        uint32_t group = wireraft_probe_at(probe, i).group;
        wireraft_probe_add(&l->out, group, termboard_term(l->rf->relay->cluster.board, group));
    }
    wire_end(&l->out, frame);
}

static void take_term(struct relay_front *rf, uint64_t probe, struct wireraft_pair said)
{
    struct proof *p = said.group < rf->n_proofs ? &rf->proofs[said.group] : NULL;
    if (!p) return;
    uint64_t *at = said.term == p->term ? &p->confirmed : &p->failed;
    if (*at < probe) *at = probe;
}

int relay_proof_frame(struct relay_lane *l, const struct wire_frame *f)
{
    struct relay_front *rf = l->rf;
    struct wireraft_probe probe;
    if (wireraft_probe_get(f, &probe) < 0) return -1;
    if (f->type == WIRE_PROBE) {
        answer(l, &probe);
        return 0;
    }
    if (probe.ctx > rf->probe) return -1; /* which was never asked */
    l->asked_ms = probe.ctx < l->probe ? relay_now_ms() : 0;
    for (uint32_t i = 0; i < probe.n; i++) take_term(rf, probe.ctx, wireraft_probe_at(&probe, i));
    relay_news(rf);
    return 0;
}

/* ---- no answers */

void relay_proof_lost(struct relay_front *rf)
{
    for (uint32_t i = 0; i < rf->n_proofs; i++) {
        struct proof *p = &rf->proofs[i];
        if (!is_settled(p)) p->failed = p->asked < rf->probe ? p->asked : rf->probe;
    }
}

/* What was asked of others meanwhile goes to Raft, too: that is seldom, and never wrong. */
void relay_proof_time(struct relay_front *rf, int64_t now_ms)
{
    bool late = false;
    for (struct relay_lane *l = rf->lanes; l; l = l->next) {
        if (!l->asked_ms || now_ms - l->asked_ms < rf->relay->late_ms) continue;
        l->asked_ms = 0;
        l->spared_until_ms = now_ms + SPARE_MS;
        late = true;
    }
    if (!late) return;
    relay_proof_lost(rf);
    relay_news(rf);
}

void relay_proof_fini(struct relay_front *rf)
{
    mem_free(rf->proofs);
    mem_free(rf->probing);
}
