/* Proposals on their way, and the requests of other nodes.
 *
 * Every node has a replica of groups 0 and 1. So an answer needs no message: a proposal goes to whoever leads, again and again, until the proposer meets it in its own log. Its sequence lets it be applied once,
 * however often it got there. What a node has open at a time is within the window whose answers the states remember (cluster/metaseen.h); what is beyond waits.
 *
 * Between nodes, as REQUEST frames to group 0, which nobody answers; the first argument says what it is:
 *
 *     PROPOSE group entry    to the group's leader
 *     LEAD group node        to the group's leader: hand it over
 *     GONE node              to a node that is */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "cluster/metahost_own.h"

struct metahost_proposal {
    struct metahost_proposal *next;
    uint64_t sequence, deadline, retry_at;
    uint64_t own_term; /* it was submitted here, in this reign: that is once and for all */
    enum metahost_ask_about about;
    uint64_t id;
    metahost_ask_done *done;
    void *ctx;
    struct buf entry;
};

/* ---- proposals */

static uint32_t group_of(enum metacode_kind kind) { return kind < METACODE_FOUND_MAP ? META_NODES_GROUP : META_MAP_GROUP; }

static void free_proposal(struct metahost_proposal *p)
{
    buf_fini(&p->entry);
    mem_free(p);
}

/* Takes it out of the list, then tells: whoever is told may propose again. */
static void finish(struct metahost *h, struct metahost_proposal **at, const struct meta_result *r)
{
    struct metahost_proposal *p = *at;
    *at = p->next;
    if (p->done) p->done(h, p->ctx, r);
    free_proposal(p);
}

static void send_request(struct metahost *h, uint64_t peer, const struct slice *argv, uint32_t argc)
{
    struct wirecall_request q = {.id = ++h->report_version, .resp = 3, .argc = argc};
    h->scratch.len = 0;
    wirecall_add_request(&h->scratch, META_NODES_GROUP, &q, argv);
    h->calls.send(h->calls.ctx, peer, buf_slice(&h->scratch));
}

static void submit_here(struct metahost *h, const struct metahost_group *g, struct metahost_proposal *p)
{
    uint64_t index;
    if (p->own_term == g->term) return;
    if (h->calls.propose(h->calls.ctx, g->id, g->term, buf_slice(&p->entry), &index) == 0) p->own_term = g->term;
}

static void try_now(struct metahost *h, uint32_t group, struct metahost_proposal *p)
{
    const struct metahost_group *g = metahost_peers_group(h, group);
    uint64_t leader = metahost_leader(h, group);
    p->retry_at = h->now + METAHOST_RETRY_MS;
    if (g->here && g->state == RAFTNODE_LEADER) {
        submit_here(h, g, p);
    } else if (leader && leader != h->me) {
        char number[NUM_I64_MAX_CHARS];
        const struct slice argv[] = {SLICE("PROPOSE"), slice_of(number, num_format_u64(number, group)), buf_slice(&p->entry)};
        p->own_term = 0;
        send_request(h, leader, argv, 3);
    }
}

static bool in_window(const struct metahost *h, uint32_t group, const struct metahost_proposal *p) { return p->sequence - h->proposals[group]->sequence < METASEEN_WINDOW; }

static void pump(struct metahost *h, uint32_t group)
{
    for (struct metahost_proposal *p = h->proposals[group]; p && in_window(h, group, p); p = p->next)
        if (h->now >= p->retry_at) try_now(h, group, p);
}

void metahost_ask_propose(struct metahost *h, struct metacode_entry *e, enum metahost_ask_about about, uint64_t id, uint32_t timeout_ms, metahost_ask_done *done, void *ctx)
{
    uint32_t group = group_of(e->kind);
    struct metahost_proposal *p = mem_zalloc(sizeof *p), **at = &h->proposals[group];
    e->proposer = h->me;
    e->sequence = p->sequence = ++h->sequence[group];
    p->deadline = h->now + timeout_ms;
    p->about = about;
    p->id = id;
    p->done = done;
    p->ctx = ctx;
    metacode_encode(e, &p->entry);
    while (*at) at = &(*at)->next;
    *at = p;
    pump(h, group);
}

bool metahost_ask_open(const struct metahost *h, uint32_t group, enum metahost_ask_about about, uint64_t id)
{
    for (const struct metahost_proposal *p = h->proposals[group]; p; p = p->next)
        if (p->about == about && p->id == id) return true;
    return false;
}

void metahost_ask_answered(struct metahost *h, uint32_t group, uint64_t sequence, const struct meta_result *r)
{
    struct metahost_proposal **at = &h->proposals[group];
    while (*at && (*at)->sequence != sequence) at = &(*at)->next;
    if (*at) finish(h, at, r);
}

void metahost_ask_restored(struct metahost *h, uint32_t group)
{
    const struct metaseen *seen = group == META_NODES_GROUP ? &h->nodes->seen : &h->groups->seen;
    for (struct metahost_proposal **at = &h->proposals[group]; *at;) {
        struct meta_result r = {0};
        if (metaseen_new(seen, h->me, (*at)->sequence, &r))
            at = &(*at)->next;
        else
            finish(h, at, r.code == META_OLD ? NULL : &r);
    }
}

void metahost_ask_hurry(struct metahost *h, uint32_t group)
{
    for (struct metahost_proposal *p = h->proposals[group]; p; p = p->next) p->retry_at = h->now;
}

/* ---- leadership */

/* It votes, and has answered lately; 0: somebody else does. Whoever does not would keep the group waiting. */
static bool can_take_over(const struct metahost *h, const struct raftnode_info *info, uint64_t to)
{
    for (uint32_t i = 0; i < info->members.n; i++) {
        const struct raftnode_member *m = &info->members.m[i];
        if ((to ? m->node == to : m->node != h->me) && m->role == RAFTNODE_VOTER && info->answers[i]) return true;
    }
    return false;
}

/* This node leads the group. */
static void hand_over(struct metahost *h, struct metahost_group *g, uint64_t to, const char *why)
{
    struct raftnode_info info;
    if (h->calls.look(h->calls.ctx, g->id, &info) < 0 || info.transferring || to == h->me || !can_take_over(h, &info, to)) return;
    slog(h->log, SLOG_NOTICE, "leadership is handed over", "group=%u to=%" PRIu64 " why=%s", g->id, to, why);
    h->calls.transfer(h->calls.ctx, g->id, to);
}

void metahost_ask_lead(struct metahost *h, uint32_t group, uint64_t to, const char *why)
{
    struct metahost_group *g = metahost_peers_group(h, group);
    uint64_t leader = metahost_leader(h, group);
    if (h->now < g->hand_until) return;
    g->hand_until = h->now + METAHOST_REST_MS;
    if (g->here && g->state == RAFTNODE_LEADER) {
        hand_over(h, g, to, why);
    } else if (leader && leader != h->me) {
        char number[2][NUM_I64_MAX_CHARS];
        const struct slice argv[] = {SLICE("LEAD"), slice_of(number[0], num_format_u64(number[0], group)), slice_of(number[1], num_format_u64(number[1], to)), slice_str(why)};
        send_request(h, leader, argv, 4);
    }
}

void metahost_ask_say_gone(struct metahost *h, uint64_t peer)
{
    char number[NUM_I64_MAX_CHARS];
    const struct slice argv[] = {SLICE("GONE"), slice_of(number, num_format_u64(number, peer))};
    send_request(h, peer, argv, 2);
}

/* ---- requests of others */

/* A leader proposes nothing that it does not understand: others could not follow. */
static int propose_for(struct metahost *h, uint64_t from, uint32_t group, struct slice entry)
{
    struct metahost_group *g = metahost_peers_group(h, group);
    struct metacode_entry e;
    uint64_t index;
    enum meta_code code = metacode_decode(&e, entry);
    bool fits = code == META_DONE && e.proposer == from && group_of(e.kind) == group;
    metacode_fini(&e);
    if (code == META_FOREIGN) return 0;
    if (!fits) return -EBADMSG;
    if (g->here && g->state == RAFTNODE_LEADER) (void)h->calls.propose(h->calls.ctx, group, g->term, entry, &index);
    return 0;
}

static int request(struct metahost *h, uint64_t from, const struct slice *argv, uint32_t argc)
{
    uint64_t a = 0, b = 0;
    if (argc < 2 || !num_parse_u64(argv[1], &a)) return -EBADMSG;
    if (argc == 3 && slice_is(argv[0], "PROPOSE") && a < META_FIRST_DATA_GROUP) return propose_for(h, from, (uint32_t)a, argv[2]);
    if (argc == 2 && slice_is(argv[0], "GONE")) {
        if (a == h->me) metahost_is_gone(h, "another node says that this one was declared gone: to be part of the cluster again it joins with an empty data directory");
        return 0;
    }
    if (argc != 4 || !slice_is(argv[0], "LEAD") || !num_parse_u64(argv[2], &b) || a > UINT32_MAX) return -EBADMSG;
    struct metahost_group *g = metahost_peers_group_known(h, (uint32_t)a);
    char why[128];
    snprintf(why, sizeof why, "%.*s", (int)(argv[3].n < sizeof why ? argv[3].n : sizeof why - 1), argv[3].p);
    if (g && g->here && g->state == RAFTNODE_LEADER) hand_over(h, g, b, why);
    return 0;
}

int metahost_ask_frame(struct metahost *h, uint64_t from, const struct wire_frame *f)
{
    struct wirecall_request q;
    struct slice message, *argv = NULL;
    uint32_t room = 0;
    if (f->type != WIRE_REQUEST || wirecall_join(h->joiner, f, &message) != WIRE_OK) return -EBADMSG;
    int rc = wirecall_get_request(message, &q, &argv, &room);
    if (rc == 0) rc = request(h, from, argv, q.argc);
    mem_free(argv);
    return rc;
}

/* ---- time */

void metahost_ask_tick(struct metahost *h)
{
    for (uint32_t group = 0; group < META_FIRST_DATA_GROUP; group++) {
        for (struct metahost_proposal **at = &h->proposals[group]; *at;) {
            if (h->now >= (*at)->deadline)
                finish(h, at, NULL);
            else
                at = &(*at)->next;
        }
        pump(h, group);
    }
}

uint64_t metahost_ask_next(const struct metahost *h)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t group = 0; group < META_FIRST_DATA_GROUP; group++)
        for (const struct metahost_proposal *p = h->proposals[group]; p; p = p->next) {
            if (p->deadline < next) next = p->deadline;
            if (in_window(h, group, p) && p->retry_at < next) next = p->retry_at;
        }
    return next;
}

void metahost_ask_fini(struct metahost *h)
{
    for (uint32_t group = 0; group < META_FIRST_DATA_GROUP; group++)
        while (h->proposals[group]) finish(h, &h->proposals[group], NULL);
}
