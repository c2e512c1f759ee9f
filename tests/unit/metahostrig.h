/* Some nodes with the cluster's own state machines, on a Raft that is made up: each group is one log that the test's rules extend, with a leader that they choose. Deterministic by seed. For tests of cluster/metahost.h.
 *
 * A step is 50 ms: messages arrive, what was proposed is committed if a majority is up (or is lost with its leader), replicas are handed what they lack, everybody's clock goes on. */
#pragma once
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cluster/metahost.h"
#include "cluster/wirecall.h"

enum { METAHOSTRIG_NODES = 20, METAHOSTRIG_GROUPS = 40, METAHOSTRIG_STEP_MS = 50 };

struct metahostrig;

struct metahostrig_entry {
    uint64_t term;
    enum raftnode_entry_type type;
    struct buf data;
    struct raftnode_members members; /* of a change */
};

struct metahostrig_group {
    bool made;
    uint32_t n, committed; /* entries; the first has index 1 */
    struct metahostrig_entry *log;
    uint64_t leader, term;
    struct { /* a change of members under way */
        bool on;
        uint64_t node;
        enum raftnode_role role;
        uint32_t index, waited; /* index 0: the newcomer is not there yet */
    } change;
};

struct metahostrig_node {
    struct metahostrig *rig;
    uint64_t id, incarnation;
    bool exists, up, failed;
    bool unreachable; /* its own frames arrive, those to it do not */
    bool silent;      /* neither do, though the others are connected to it */
    struct metahost *host;
    struct metacode_node is;
    char text[4][48];
    bool peer[METAHOSTRIG_NODES + 1];
    struct { /* the replica */
        bool here, was_here;
        uint32_t handed;
        uint64_t told_term, told_leader, told_members;
        bool told;
    } at[METAHOSTRIG_GROUPS];
    struct buf saved[2]; /* snapshots of groups 0 and 1 */
    uint64_t saved_index[2];
    uint64_t map_version;
    uint64_t maps, drops, joins;
};

struct metahostrig_mail {
    struct metahostrig_mail *next;
    uint64_t from, to;
    struct buf bytes;
};

struct metahostrig {
    uint64_t now;
    struct rng rng;
    struct slog log;
    uint32_t shards, founders, replication;
    uint32_t seats; /* of nodes that are started from now on */
    uint32_t loss; /* of 100 messages so many are lost */
    struct metahostrig_node nodes[METAHOSTRIG_NODES + 1]; /* by id */
    struct metahostrig_group groups[METAHOSTRIG_GROUPS];
    struct metahostrig_mail *mail, **mail_end;
    uint64_t transfers, proposals, repeats;
    uint64_t vain; /* transfers to a node that is down or silent */
};

/* ---- the made-up Raft */

static inline const struct raftnode_members *metahostrig_members(const struct metahostrig_group *g, uint32_t upto)
{
    for (uint32_t i = upto; i-- > 0;)
        if (g->log[i].members.n) return &g->log[i].members;
    return NULL;
}

static inline struct metahostrig_entry *metahostrig_append(struct metahostrig_group *g, enum raftnode_entry_type type)
{
    g->log = mem_resize(g->log, (g->n + 1) * sizeof *g->log);
    g->log[g->n] = (struct metahostrig_entry){.term = g->term, .type = type};
    return &g->log[g->n++];
}

static inline bool metahostrig_sits(struct metahostrig *r, uint32_t group, uint64_t node) { return r->nodes[node].up && r->nodes[node].at[group].here; }

static inline bool metahostrig_quorum(struct metahostrig *r, uint32_t group)
{
    const struct raftnode_members *m = metahostrig_members(&r->groups[group], r->groups[group].n);
    uint32_t voters = 0, up = 0;
    for (uint32_t i = 0; m && i < m->n; i++) {
        voters += m->m[i].role == RAFTNODE_VOTER;
        up += m->m[i].role == RAFTNODE_VOTER && metahostrig_sits(r, group, m->m[i].node);
    }
    return up > voters / 2;
}

static inline void metahostrig_end_change(struct metahostrig *r, uint32_t group, int rc)
{
    struct metahostrig_group *g = &r->groups[group];
    if (!g->change.on) return;
    g->change.on = false;
    if (r->nodes[g->leader].up) metahost_changed(r->nodes[g->leader].host, group, g->change.node, g->change.role, rc);
}

/* What was not committed may be lost with its leader. */
static inline void metahostrig_unseat(struct metahostrig *r, uint32_t group)
{
    struct metahostrig_group *g = &r->groups[group];
    uint64_t old = g->leader;
    metahostrig_end_change(r, group, -EPERM);
    uint32_t keep = g->committed + (uint32_t)rng_below(&r->rng, g->n - g->committed + 1);
    bool cut = keep < g->n;
    while (g->n > keep) buf_fini(&g->log[--g->n].data);
    g->leader = 0;
    if (cut && group < 2 && r->nodes[old].up) metahost_truncated(r->nodes[old].host, group, keep + 1);
}

static inline void metahostrig_seat(struct metahostrig *r, uint32_t group, uint64_t node)
{
    struct metahostrig_group *g = &r->groups[group];
    g->leader = node;
    g->term++;
    metahostrig_append(g, RAFTNODE_BARRIER);
}

static inline void metahostrig_elect(struct metahostrig *r, uint32_t group)
{
    struct metahostrig_group *g = &r->groups[group];
    const struct raftnode_members *m = metahostrig_members(g, g->n);
    if (!m) return;
    if (g->leader && (!metahostrig_sits(r, group, g->leader) || !metahostrig_quorum(r, group))) metahostrig_unseat(r, group);
    m = metahostrig_members(g, g->n);
    if (g->leader || !metahostrig_quorum(r, group)) return;
    for (;;) {
        const struct raftnode_member *who = &m->m[rng_below(&r->rng, m->n)];
        if (who->role != RAFTNODE_VOTER || !metahostrig_sits(r, group, who->node)) continue;
        metahostrig_seat(r, group, who->node);
        return;
    }
}

static inline void metahostrig_advance_change(struct metahostrig *r, uint32_t group)
{
    struct metahostrig_group *g = &r->groups[group];
    if (!g->change.on) return;
    uint64_t node = g->change.node;
    if (g->change.index) {
        if (g->change.index <= g->committed) metahostrig_end_change(r, group, 0);
        return;
    }
    if (g->change.role == RAFTNODE_VOTER && !metahostrig_sits(r, group, node)) {
        struct raftnode_members m = *metahostrig_members(g, g->n);
        if (!meta_members_has(&m, node)) { /* a spare first */
            meta_members_set(&m, node, RAFTNODE_SPARE);
            struct metahostrig_entry *e = metahostrig_append(g, RAFTNODE_CHANGE);
            m.index = g->n;
            e->members = m;
        }
        if (++g->change.waited > 40) metahostrig_end_change(r, group, -ETIMEDOUT);
        return;
    }
    struct raftnode_members m = *metahostrig_members(g, g->n);
    CHECK(meta_members_set(&m, node, g->change.role));
    struct metahostrig_entry *e = metahostrig_append(g, RAFTNODE_CHANGE);
    m.index = g->n;
    e->members = m;
    g->change.index = g->n;
}

static inline void metahostrig_hand(struct metahostrig *r, struct metahostrig_node *n, uint32_t group)
{
    struct metahostrig_group *g = &r->groups[group];
    while (n->up && n->at[group].here && n->at[group].handed < g->committed) {
        uint32_t i = n->at[group].handed++;
        struct raftnode_entry e = {.index = i + 1, .term = g->log[i].term, .type = g->log[i].type, .data = buf_slice(&g->log[i].data)};
        if (group < 2) metahost_committed(n->host, group, &e, 1);
    }
    const struct raftnode_members *m = n->at[group].here ? metahostrig_members(g, n->at[group].handed) : NULL;
    if (!m || m->index <= n->at[group].told_members) return;
    n->at[group].told_members = m->index;
    metahost_members(n->host, group, m);
}

static inline void metahostrig_tell_role(struct metahostrig *r, struct metahostrig_node *n, uint32_t group)
{
    const struct metahostrig_group *g = &r->groups[group];
    if (n->at[group].told && n->at[group].told_term == g->term && n->at[group].told_leader == g->leader) return;
    if (g->leader == n->id && n->at[group].handed < g->n) return; /* not before an entry of its term is there */
    n->at[group].told = true;
    n->at[group].told_term = g->term;
    n->at[group].told_leader = g->leader;
    metahost_role(n->host, group, g->leader == n->id ? RAFTNODE_LEADER : RAFTNODE_FOLLOWER, g->term, g->leader);
}

static inline void metahostrig_turn_group(struct metahostrig *r, uint32_t group)
{
    struct metahostrig_group *g = &r->groups[group];
    metahostrig_elect(r, group);
    if (g->leader) metahostrig_advance_change(r, group);
    if (g->leader && metahostrig_quorum(r, group)) g->committed = g->n;
    const struct raftnode_members *m = metahostrig_members(g, g->n);
    for (uint64_t id = 1; id <= METAHOSTRIG_NODES; id++) {
        struct metahostrig_node *n = &r->nodes[id];
        if (!n->up || (!n->at[group].here && !(m && meta_members_has(m, id)))) continue;
        if (!n->at[group].here) {
            if (g->leader) metahost_stranger(n->host, group, g->leader);
            continue;
        }
        /* Who is no member hears nothing. Replicas are handed what they lack one after the other. */
        if (g->leader && m && meta_members_has(m, id) && (id == g->leader || rng_below(&r->rng, 4))) metahostrig_hand(r, n, group);
        if (g->leader && m && meta_members_has(m, id)) metahostrig_tell_role(r, n, group);
    }
}

/* ---- what a node calls */

static inline int metahostrig_propose(void *ctx, uint32_t group, uint64_t term, struct slice data, uint64_t *index)
{
    struct metahostrig_node *n = ctx;
    struct metahostrig_group *g = &n->rig->groups[group];
    CHECK(n->at[group].here);
    if (g->leader != n->id || g->term != term) return -EPERM;
    buf_add_slice(&metahostrig_append(g, RAFTNODE_COMMAND)->data, data);
    n->rig->proposals++;
    *index = g->n;
    return 0;
}

static inline int metahostrig_create(void *ctx, uint32_t group, const struct raftnode_member *members, uint32_t count)
{
    struct metahostrig_node *n = ctx;
    struct metahostrig_group *g = &n->rig->groups[group];
    CHECK(group < METAHOSTRIG_GROUPS && !n->at[group].here);
    n->at[group].here = n->at[group].was_here = true;
    if (g->made) return 0;
    g->made = true;
    g->term = 1;
    struct metahostrig_entry *e = metahostrig_append(g, RAFTNODE_CHANGE);
    e->members.index = e->members.n = 0;
    for (uint32_t i = 0; i < count; i++) meta_members_set(&e->members, members[i].node, members[i].role);
    e->members.index = 1;
    g->committed = 1;
    return 0;
}

static inline int metahostrig_join(void *ctx, uint32_t group)
{
    struct metahostrig_node *n = ctx;
    const struct raftnode_members *m = metahostrig_members(&n->rig->groups[group], n->rig->groups[group].n);
    CHECK(!n->at[group].here);
    CHECK(!m || meta_members_role(m, n->id) != RAFTNODE_VOTER || !n->at[group].was_here); /* a voter that forgot */
    memset(&n->at[group], 0, sizeof n->at[group]);
    n->at[group].here = n->at[group].was_here = true;
    n->joins++;
    return 0;
}

static inline void metahostrig_drop(void *ctx, uint32_t group)
{
    struct metahostrig_node *n = ctx;
    const struct metahostrig_group *g = &n->rig->groups[group];
    const struct raftnode_members *m = metahostrig_members(g, g->n);
    CHECK(n->at[group].here && group >= 2);
    CHECK(!meta_members_has(m, n->id)); /* a member that forgets */
    memset(&n->at[group], 0, sizeof n->at[group]);
    n->drops++;
}

static inline void metahostrig_transfer(void *ctx, uint32_t group, uint64_t to)
{
    struct metahostrig_node *n = ctx;
    struct metahostrig *r = n->rig;
    struct metahostrig_group *g = &r->groups[group];
    const struct raftnode_members *m = metahostrig_members(g, g->n);
    r->vain += to && (!r->nodes[to].up || r->nodes[to].silent);
    if (g->leader != n->id || g->change.on) return;
    for (uint32_t i = 0; !to && i < m->n; i++)
        if (m->m[i].node != n->id && m->m[i].role == RAFTNODE_VOTER && metahostrig_sits(r, group, m->m[i].node)) to = m->m[i].node;
    if (!to || meta_members_role(m, to) != RAFTNODE_VOTER || !metahostrig_sits(r, group, to) || !metahostrig_quorum(r, group)) return;
    g->committed = g->n;
    metahostrig_seat(r, group, to);
    r->transfers++;
}

static inline int metahostrig_change(void *ctx, uint32_t group, uint64_t node, enum raftnode_role role)
{
    struct metahostrig_node *n = ctx;
    struct metahostrig_group *g = &n->rig->groups[group];
    const struct raftnode_members *m = metahostrig_members(g, g->n);
    if (g->leader != n->id) return -EPERM;
    if (g->change.on || m->index > g->committed) return -EAGAIN;
    if (meta_members_role(m, node) == role) return role == RAFTNODE_GONE ? -ENOENT : -EEXIST;
    if (node == n->id) return -EBUSY;
    g->change.on = true;
    g->change.node = node;
    g->change.role = role;
    g->change.index = g->change.waited = 0;
    return 0;
}

static inline int metahostrig_look(void *ctx, uint32_t group, struct raftnode_info *out)
{
    struct metahostrig_node *n = ctx;
    *out = (struct raftnode_info){0};
    if (group >= METAHOSTRIG_GROUPS || !n->at[group].here) return -ENOENT;
    const struct metahostrig_group *g = &n->rig->groups[group];
    bool leads = g->leader == n->id && g->term == n->at[group].told_term;
    const struct raftnode_members *m = metahostrig_members(g, leads ? g->n : n->at[group].handed);
    out->state = leads ? RAFTNODE_LEADER : RAFTNODE_FOLLOWER;
    out->ready = leads;
    out->changing = leads && g->change.on;
    out->term = g->term;
    out->leader = g->leader;
    out->last = g->n;
    if (m) out->members = *m;
    for (uint32_t i = 0; leads && m && i < m->n; i++) {
        const struct metahostrig_node *peer = &n->rig->nodes[m->m[i].node];
        out->match[i] = peer->at[group].handed;
        out->answers[i] = peer->up && !peer->silent && !peer->unreachable;
    }
    return 0;
}

static inline void metahostrig_rewind(void *ctx, uint32_t group, uint64_t index)
{
    struct metahostrig_node *n = ctx;
    CHECK(n->at[group].handed == index);
}

static inline void metahostrig_peer_put(void *ctx, uint64_t node, const char *address)
{
    struct metahostrig_node *n = ctx;
    CHECK(node && node != n->id && node <= METAHOSTRIG_NODES && strchr(address, ':'));
    n->peer[node] = true;
}

static inline void metahostrig_peer_del(void *ctx, uint64_t node)
{
    struct metahostrig_node *n = ctx;
    CHECK(n->peer[node]);
    n->peer[node] = false;
}

static inline void metahostrig_send(void *ctx, uint64_t peer, struct slice frames)
{
    struct metahostrig_node *n = ctx;
    struct metahostrig *r = n->rig;
    if (!n->peer[peer] || n->silent || r->nodes[peer].silent || r->nodes[peer].unreachable || rng_below(&r->rng, 100) < r->loss) return;
    struct metahostrig_mail *m = mem_zalloc(sizeof *m);
    m->from = n->id;
    m->to = peer;
    buf_add_slice(&m->bytes, frames);
    *r->mail_end = m;
    r->mail_end = &m->next;
}

static inline bool metahostrig_reaches(void *ctx, uint64_t peer)
{
    struct metahostrig_node *n = ctx;
    return n->peer[peer] && n->rig->nodes[peer].up && !n->rig->nodes[peer].unreachable;
}

static inline void metahostrig_map(void *ctx, struct space_map *m)
{
    struct metahostrig_node *n = ctx;
    n->map_version = m->version;
    n->maps++;
    spaces_unref(m);
}

static inline void metahostrig_failed(void *ctx, const char *why)
{
    struct metahostrig_node *n = ctx;
    CHECK(why && *why);
    n->failed = true;
}

/* ---- nodes */

static const struct metahost_calls metahostrig_calls = {.propose = metahostrig_propose, .create = metahostrig_create, .join = metahostrig_join, .drop = metahostrig_drop, .transfer = metahostrig_transfer,
                                                        .change = metahostrig_change, .look = metahostrig_look, .rewind = metahostrig_rewind, .peer_put = metahostrig_peer_put,
                                                        .peer_del = metahostrig_peer_del, .send = metahostrig_send, .map = metahostrig_map, .failed = metahostrig_failed, .reaches = metahostrig_reaches};

static inline void metahostrig_describe(struct metahostrig_node *n, uint64_t id)
{
    snprintf(n->text[0], 48, "10.0.0.%u:7001", (unsigned)id);
    snprintf(n->text[1], 48, "10.0.0.%u:6379", (unsigned)id);
    snprintf(n->text[2], 48, "n%u", (unsigned)id);
    n->is = (struct metacode_node){.instance = 100 + id, .peer = slice_str(n->text[0]), .client = slice_str(n->text[1]), .name = slice_str(n->text[2]), .zone = SLICE("")};
}

/* Starts a node; after a crash from its snapshots and its log. */
static inline void metahostrig_start(struct metahostrig *r, uint64_t id)
{
    struct metahostrig_node *n = &r->nodes[id];
    struct metacode_node founders[METAHOSTRIG_NODES];
    CHECK(!n->up && id <= METAHOSTRIG_NODES);
    bool fresh = !n->exists;
    n->rig = r;
    n->id = id;
    metahostrig_describe(n, id);
    for (uint32_t i = 0; i < r->founders; i++) founders[i] = r->nodes[i + 1].is;
    struct metaplace_cluster c = {.id = "a cluster of ou", .seed = 7, .default_mode = SPACE_BUCKET, .shards = r->shards, .replication = r->replication, .nodes = founders, .n_nodes = r->founders};
    struct metahost_options o = {.node = id, .incarnation = ++n->incarnation, .now = r->now, .seats = r->seats, .seed = rng_u64(&r->rng), .cluster = "a cluster of ou", .me = n->is,
                                 .founding = id <= r->founders ? &c : NULL, .calls = metahostrig_calls, .log = &r->log};
    o.calls.ctx = n;
    n->exists = n->up = true;
    n->failed = false;
    n->map_version = 0;
    n->host = metahost_new(&o);
    if (fresh) metahost_found(n->host);
    /* Those that it had before; a new one was told of somebody. */
    if (fresh && id > r->founders) n->peer[1] = n->peer[2] = true;
    for (uint64_t peer = 1; peer <= METAHOSTRIG_NODES; peer++)
        if (n->peer[peer]) metahost_peer(n->host, peer, r->nodes[peer].text[0]);
    for (uint32_t g = 0; g < METAHOSTRIG_GROUPS; g++) {
        n->at[g].told = false;
        n->at[g].told_members = 0;
        if (g >= 2) continue;
        n->at[g].handed = (uint32_t)n->saved_index[g];
        if (n->at[g].here) CHECK(metahost_restore(n->host, g, buf_slice(&n->saved[g]), n->saved_index[g]));
    }
}

static inline void metahostrig_crash(struct metahostrig *r, uint64_t id)
{
    struct metahostrig_node *n = &r->nodes[id];
    CHECK(n->up);
    n->up = false;
    metahost_free(n->host);
    n->host = NULL;
}

static inline void metahostrig_save(struct metahostrig *r, uint64_t id)
{
    struct metahostrig_node *n = &r->nodes[id];
    for (uint32_t g = 0; g < 2; g++) {
        uint64_t term;
        if (!n->at[g].here) continue;
        n->saved[g].len = 0;
        metahost_state(n->host, g, &n->saved[g], &n->saved_index[g], &term);
        CHECK(n->saved_index[g] == n->at[g].handed && (!n->at[g].handed || term == r->groups[g].log[n->at[g].handed - 1].term));
    }
}

/* A replica of groups 0 or 1 gets another one's state instead of the entries that it lacks. */
static inline void metahostrig_install(struct metahostrig *r, uint32_t group, uint64_t from, uint64_t to)
{
    struct metahostrig_node *a = &r->nodes[from], *b = &r->nodes[to];
    struct buf state = {0};
    uint64_t index, term;
    if (!a->up || !b->up || !a->at[group].here || !b->at[group].here || a->at[group].handed <= b->at[group].handed) return;
    metahost_state(a->host, group, &state, &index, &term);
    CHECK(metahost_restore(b->host, group, buf_slice(&state), index));
    b->at[group].handed = (uint32_t)index;
    buf_fini(&state);
}

static inline void metahostrig_deliver(struct metahostrig *r)
{
    struct metahostrig_mail *m = r->mail, *next;
    r->mail = NULL;
    r->mail_end = &r->mail;
    for (; m; m = next) {
        struct metahostrig_node *to = &r->nodes[m->to], *from = &r->nodes[m->from];
        struct wire_hello hello = {.node = m->from, .to = m->to, .incarnation = from->incarnation, .cluster = "a cluster of ou"};
        struct wire_frame f;
        const char *why;
        next = m->next;
        memcpy(hello.address, from->text[0], sizeof from->text[0]);
        if (to->up && (to->peer[m->from] || metahost_caller(to->host, &hello)))
            for (struct slice in = buf_slice(&m->bytes); in.n; in = slice_of(in.p + f.whole.n, in.n - f.whole.n)) {
                CHECK(wire_frame(in, &f, &why) == WIRE_OK);
                CHECK(metahost_frame(to->host, m->from, &f) == 0);
            }
        buf_fini(&m->bytes);
        mem_free(m);
    }
}

static inline void metahostrig_step(struct metahostrig *r)
{
    r->now += METAHOSTRIG_STEP_MS;
    metahostrig_deliver(r);
    for (uint32_t g = 0; g < METAHOSTRIG_GROUPS; g++)
        if (r->groups[g].made) metahostrig_turn_group(r, g);
    for (uint64_t id = 1; id <= METAHOSTRIG_NODES; id++)
        if (r->nodes[id].up) metahost_tick(r->nodes[id].host, r->now);
    /* Whoever finds itself gone ends. */
    for (uint64_t id = 1; id <= METAHOSTRIG_NODES; id++)
        if (r->nodes[id].up && r->nodes[id].failed) metahostrig_crash(r, id);
}

static inline void metahostrig_run(struct metahostrig *r, uint64_t ms)
{
    for (uint64_t end = r->now + ms; r->now < end;) metahostrig_step(r);
}

static inline struct metahostrig *metahostrig_new(uint32_t founders, uint32_t shards, uint64_t seed)
{
    struct metahostrig *r = mem_zalloc(sizeof *r);
    r->now = 1000000;
    r->mail_end = &r->mail;
    r->founders = founders;
    r->shards = shards;
    r->replication = 3;
    r->seats = METAHOSTRIG_GROUPS;
    rng_init(&r->rng, seed);
    slog_open(&r->log, getenv("METAHOSTRIG_LOG"), SLOG_TEXT, getenv("METAHOSTRIG_LOG") ? SLOG_DEBUG : (enum slog_level)99);
    for (uint64_t id = 1; id <= founders; id++) metahostrig_describe(&r->nodes[id], id); /* the list is the same on all */
    for (uint64_t id = 1; id <= founders; id++) metahostrig_start(r, id);
    return r;
}

static inline void metahostrig_free(struct metahostrig *r)
{
    for (uint64_t id = 1; id <= METAHOSTRIG_NODES; id++) {
        if (r->nodes[id].up) metahostrig_crash(r, id);
        for (int g = 0; g < 2; g++) buf_fini(&r->nodes[id].saved[g]);
    }
    for (uint32_t g = 0; g < METAHOSTRIG_GROUPS; g++) {
        while (r->groups[g].n) buf_fini(&r->groups[g].log[--r->groups[g].n].data);
        mem_free(r->groups[g].log);
    }
    while (r->mail) {
        struct metahostrig_mail *m = r->mail;
        r->mail = m->next;
        buf_fini(&m->bytes);
        mem_free(m);
    }
    slog_close(&r->log);
    mem_free(r);
}

/* ---- asking */

struct metahostrig_answer {
    uint32_t n; /* how often it was given */
    int rc;
    struct buf text;
};

static inline void metahostrig_answered(void *ctx, int rc, struct slice text)
{
    struct metahostrig_answer *a = ctx;
    a->n++;
    a->rc = rc;
    a->text.len = 0;
    buf_add_slice(&a->text, text);
    buf_add_byte(&a->text, 0);
}

/* Words are separated by spaces; "-" is an empty one. */
static inline void metahostrig_begin(struct metahostrig *r, uint64_t node, enum metahost_question q, const char *words, struct metahostrig_answer *a)
{
    struct slice argv[8];
    uint32_t argc = 0;
    for (const char *at = words; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        argv[argc++] = n == 1 && *at == '-' ? SLICE("") : slice_of(at, n);
        at += n;
    }
    a->n = 0;
    metahost_ask(r->nodes[node].host, q, argv, argc, 5000, metahostrig_answered, a);
}

/* Asks and waits. */
static inline int metahostrig_ask(struct metahostrig *r, uint64_t node, enum metahost_question q, const char *words, struct metahostrig_answer *a)
{
    metahostrig_begin(r, node, q, words, a);
    for (uint32_t i = 0; i < 300 && !a->n; i++) metahostrig_step(r);
    CHECK(a->n == 1);
    return a->rc;
}

/* ---- looking at the whole */

static inline const struct metagroups *metahostrig_groups(struct metahostrig *r, uint64_t id) { return metahost_groups(r->nodes[id].host); }
static inline const struct metanodes *metahostrig_nodes(struct metahostrig *r, uint64_t id) { return metahost_nodes(r->nodes[id].host); }

static inline uint64_t metahostrig_first_up(struct metahostrig *r)
{
    uint64_t id = 1;
    while (!r->nodes[id].up) id++;
    return id;
}

/* Every node that runs has the same two states. */
static inline void metahostrig_assert_equal_states(struct metahostrig *r)
{
    uint64_t first = metahostrig_first_up(r);
    for (uint64_t id = first; id <= METAHOSTRIG_NODES; id++) {
        if (!r->nodes[id].up) continue;
        metanodes_check(metahostrig_nodes(r, id));
        metagroups_check(metahostrig_groups(r, id));
        assert_int_equal(metanodes_digest(metahostrig_nodes(r, id)), metanodes_digest(metahostrig_nodes(r, first)));
        assert_int_equal(metagroups_digest(metahostrig_groups(r, id)), metagroups_digest(metahostrig_groups(r, first)));
        assert_int_equal(r->nodes[id].map_version, metahostrig_groups(r, id)->map->version);
    }
}

static inline enum raftnode_role metahostrig_role(struct metahostrig *r, uint32_t group, uint64_t id)
{
    return meta_members_role(metahostrig_members(&r->groups[group], r->groups[group].n), id);
}

static inline uint32_t metahostrig_voters(struct metahostrig *r, uint32_t group)
{
    const struct raftnode_members *m = metahostrig_members(&r->groups[group], r->groups[group].n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) n += m->m[i].role == RAFTNODE_VOTER;
    return n;
}

/* Nothing is under way, what is wanted is so, and replicas are where the map says. */
static inline bool metahostrig_at_rest(struct metahostrig *r)
{
    uint64_t first = metahostrig_first_up(r);
    const struct metagroups *m = metahostrig_groups(r, first);
    if (!m->version || m->n_ops) return false;
    for (uint32_t i = 0; i < m->n; i++) {
        const struct metagroups_group *g = &m->groups[i];
        if (g->id >= 2 && !meta_members_equal(&g->wanted, &g->told)) return false;
        if (g->told.index != metahostrig_members(&r->groups[g->id], r->groups[g->id].n)->index) return false;
        for (uint64_t id = 1; g->id >= 2 && id <= METAHOSTRIG_NODES; id++)
            if (r->nodes[id].up && r->nodes[id].at[g->id].here != meta_members_has(&g->told, id)) return false;
    }
    return true;
}

static inline void metahostrig_run_to_rest(struct metahostrig *r, uint32_t seconds)
{
    uint32_t calm = 0;
    for (uint32_t i = 0; i < seconds * 1000 / METAHOSTRIG_STEP_MS && calm < 100; i++) {
        metahostrig_step(r);
        calm = metahostrig_at_rest(r) ? calm + 1 : 0;
    }
    assert_true(calm >= 100);
}

static inline uint64_t metahostrig_not_the_leader(struct metahostrig *r, uint32_t group)
{
    for (uint64_t id = 1;; id++)
        if (r->nodes[id].up && r->nodes[id].at[group].here && r->groups[group].leader != id) return id;
}
