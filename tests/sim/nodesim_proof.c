/* That a node leads what an answer shows, said by others (docs/decisions/027), as server/relay_proof.c has it: the worker of a voter is asked in which term its node's replica is, or the node that sent a request has said so with it. Both read
 * their boards, while their raft threads do what they like: so a board that says too little shows in what clients read. What nobody can vouch for is left to Raft. */
#include "base/mem.h"
#include "cluster/termboard.h"
#include "nodesim_own.h"

enum { LATE_MS = 20 };

/* A question under way. */
struct nodesim_probe {
    uint32_t from, to, group;
    uint64_t term; /* that is asked for; then, what was said */
};

static uint64_t add_probe(struct nodesim *s, const struct nodesim_probe *p)
{
    if (s->n_probes == s->cap_probes) {
        s->cap_probes = s->cap_probes * 2 + 256;
        s->probes = mem_resize(s->probes, s->cap_probes * sizeof *s->probes);
    }
    s->probes[s->n_probes++] = *p;
    return s->n_probes; /* one more than its place: 0 is none */
}

/* Mostly soon. */
static uint64_t way_us(struct nodesim *s)
{
    struct rng *rng = world_rng(s->w);
    return 50 + rng_below(rng, rng_below(rng, 20) ? 500 : 200 * WORLD_MS);
}

static bool is_voter(const struct termboard_group *g, uint64_t node)
{
    for (uint32_t i = 0; i < g->n_voters; i++)
        if (g->voters[i] == node) return true;
    return false;
}

static uint32_t others_needed(const struct termboard_group *g, uint64_t self) { return g->n_voters / 2 + 1 - is_voter(g, self); }

static void ask_raft(struct nodesim_node *n, struct hold *h)
{
    seat_ask(h);
    nodesim_wake(n);
}

static enum seat_outcome proven(struct nodesim_node *n, struct hold *h)
{
    h->unproven = false;
    n->sim->result->proven++;
    return SEAT_DONE;
}

static void ask_one(struct nodesim_node *n, struct hold *h, const struct termboard_group *g)
{
    struct nodesim *s = n->sim;
    struct nodesim_probe p = {.from = n->id, .group = h->group, .term = h->term};
    do p.to = (uint32_t)g->voters[rng_below(nodesim_rng(n), g->n_voters)];
    while (p.to == n->id);
    h->probe = add_probe(s, &p);
    world_after(s->w, p.to, way_us(s), NODESIM_PROBE, h->probe);
    world_after(s->w, n->id, LATE_MS * WORLD_MS, NODESIM_PROBE_TIME, h->probe);
}

enum seat_outcome nodesim_proof(struct nodesim_node *n, struct hold *h)
{
    struct termboard_group g;
    termboard_get(n->board, h->group, &g);
    if (g.term != h->term) return SEAT_LOST;
    if (h->probe) return SEAT_WAIT;
    uint32_t needed = others_needed(&g, n->id);
    if (needed == 0) return proven(n, h);
    if (needed == 1) ask_one(n, h, &g);
    else ask_raft(n, h);
    return SEAT_WAIT;
}

void nodesim_proof_by(struct nodesim_node *n, struct hold *h, uint32_t node, uint64_t term)
{
    struct termboard_group g;
    if (!h->unproven || term != h->term) return;
    termboard_get(n->board, h->group, &g);
    if (g.term != h->term || others_needed(&g, n->id) > 1 || !is_voter(&g, node) || node == n->id) return;
    proven(n, h);
    n->sim->result->vouched++;
}

/* ---- tasks of workers */

static void on_probe(struct nodesim_node *n, uint64_t probe)
{
    struct nodesim *s = n->sim;
    struct nodesim_probe *p = &s->probes[probe - 1];
    if (s->mutant != NODESIM_BLIND_VOUCHER) p->term = termboard_term(n->board, p->group);
    world_after(s->w, p->from, way_us(s), NODESIM_PROBE_ACK, probe);
}

static struct hold *find_hold(struct nodesim_node *n, uint64_t probe)
{
    for (uint32_t i = 0; i < n->n_guests; i++)
        if (n->guests[i].hold.unproven && n->guests[i].hold.probe == probe) return &n->guests[i].hold;
    return NULL;
}

static void on_ack(struct nodesim_node *n, uint64_t probe)
{
    struct hold *h = find_hold(n, probe);
    if (!h) return;
    if (termboard_term(n->board, h->group) != h->term) return; /* which whoever looks will find */
    if (n->sim->probes[probe - 1].term == h->term) proven(n, h);
    else ask_raft(n, h);
}

static void on_time(struct nodesim_node *n, uint64_t probe)
{
    struct hold *h = find_hold(n, probe);
    if (h) ask_raft(n, h);
}

void nodesim_proof_task(struct nodesim_node *n, enum nodesim_task kind, uint64_t probe)
{
    if (kind == NODESIM_PROBE) on_probe(n, probe);
    if (kind == NODESIM_PROBE_ACK) on_ack(n, probe);
    if (kind == NODESIM_PROBE_TIME) on_time(n, probe);
    if (kind == NODESIM_PROBE_ACK) nodesim_client_look(n);
}
