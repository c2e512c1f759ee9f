#include "cluster/raftmember.h"

#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "base/le.h"
#include "base/mem.h"
#include "cluster/raftgroup.h"

enum { FORMAT = 1 };

static int engine_role(enum raftnode_role role) { return role == RAFTNODE_VOTER ? RAFT_VOTER : role == RAFTNODE_STANDBY ? RAFT_STANDBY : RAFT_SPARE; }

static enum raftnode_role role_from(int role) { return role == RAFT_VOTER ? RAFTNODE_VOTER : role == RAFT_STANDBY ? RAFTNODE_STANDBY : RAFTNODE_SPARE; }

static bool known(const struct raftnode_members *m, uint64_t node) { return raftmember_role(m, node) != RAFTNODE_GONE; }

/* ---- bytes */

void raftmember_encode(struct buf *out, const struct raftnode_members *m)
{
    size_t begin = out->len;
    buf_add_byte(out, FORMAT);
    le_add_u64(out, m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        le_add_u64(out, m->m[i].node);
        buf_printf(out, "%llu", (unsigned long long)m->m[i].node);
        buf_add_byte(out, 0);
        buf_add_byte(out, (char)engine_role(m->m[i].role));
    }
    while ((out->len - begin) % 8) buf_add_byte(out, 0);
}

static int read_members(struct slice in, struct raftnode_members *out)
{
    if (in.n < 9 || in.p[0] != FORMAT) return -EBADMSG;
    uint64_t n = le_u64(in.p + 1);
    if (n == 0 || n > RAFTNODE_MEMBERS_MAX) return -EBADMSG;
    out->n = 0;
    for (size_t at = 9; out->n < n;) {
        if (in.n - at < 8) return -EBADMSG;
        uint64_t node = le_u64(in.p + at);
        at += 8 + strnlen(in.p + at + 8, in.n - at - 8) + 1;
        if (at >= in.n || node == 0 || known(out, node)) return -EBADMSG;
        int role = (unsigned char)in.p[at++];
        if (role != RAFT_VOTER && role != RAFT_STANDBY && role != RAFT_SPARE) return -EBADMSG;
        out->m[out->n++] = (struct raftnode_member){node, role_from(role)};
    }
    return 0;
}

int raftmember_decode(struct slice bytes, struct raftnode_members *out)
{
    if (read_members(bytes, out) < 0) return -EBADMSG;
    struct buf again = {0}; /* addresses and padding are right if they are what we would have written */
    raftmember_encode(&again, out);
    bool same = slice_eq(buf_slice(&again), bytes);
    buf_fini(&again);
    return same ? 0 : -EBADMSG;
}

void raftmember_configuration(const struct raftnode_members *m, struct raft_configuration *out)
{
    raft_configuration_init(out);
    for (uint32_t i = 0; i < m->n; i++) {
        char address[24];
        snprintf(address, sizeof address, "%llu", (unsigned long long)m->m[i].node);
        CHECK(raft_configuration_add(out, m->m[i].node, address, engine_role(m->m[i].role)) == 0);
    }
}

int raftmember_from(const struct raft_configuration *c, struct raftnode_members *out)
{
    if (c->n == 0 || c->n > RAFTNODE_MEMBERS_MAX) return -EBADMSG;
    out->n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct raft_server *s = &c->servers[i];
        if (s->id == 0 || known(out, s->id)) return -EBADMSG;
        out->m[out->n++] = (struct raftnode_member){s->id, role_from(s->role)};
    }
    return 0;
}

/* ---- as they were at each index */

void raftmember_clear(struct raftmember_log *l)
{
    mem_free(l->v);
    l->v = NULL;
    l->n = l->cap = 0;
}

void raftmember_add(struct raftmember_log *l, const struct raftnode_members *m)
{
    CHECK(l->n == 0 || l->v[l->n - 1].index < m->index);
    if (l->n == l->cap) {
        l->cap = l->cap * 2 + 2;
        l->v = mem_resize(l->v, l->cap * sizeof *l->v);
    }
    l->v[l->n++] = *m;
}

void raftmember_truncate(struct raftmember_log *l, uint64_t index)
{
    while (l->n && l->v[l->n - 1].index >= index) l->n--;
}

void raftmember_forget(struct raftmember_log *l, uint64_t index)
{
    uint32_t over = 0;
    while (over + 1 < l->n && l->v[over + 1].index <= index) over++;
    memmove(l->v, l->v + over, (l->n - over) * sizeof *l->v);
    l->n -= over;
}

const struct raftnode_members *raftmember_latest(const struct raftmember_log *l) { return l->n ? &l->v[l->n - 1] : NULL; }

const struct raftnode_members *raftmember_at(const struct raftmember_log *l, uint64_t index)
{
    for (uint32_t i = l->n; i-- > 0;)
        if (l->v[i].index <= index) return &l->v[i];
    return NULL;
}

enum raftnode_role raftmember_role(const struct raftnode_members *m, uint64_t node)
{
    for (uint32_t i = 0; m && i < m->n; i++)
        if (m->m[i].node == node) return m->m[i].role;
    return RAFTNODE_GONE;
}

uint32_t raftmember_voters(const struct raftnode_members *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; m && i < m->n; i++) n += m->m[i].role == RAFTNODE_VOTER;
    return n;
}

bool raftmember_sole_voter(const struct raftgroup *g)
{
    const struct raftnode_members *m = raftmember_latest(&g->members);
    return raftmember_voters(m) == 1 && raftmember_role(m, g->node->options.id) == RAFTNODE_VOTER;
}

void raftmember_commit(struct raftgroup *g)
{
    struct raftmember_log *l = &g->members;
    if (raftsnap_installing(&g->snap)) return;
    for (;;) {
        const struct raftnode_members *m = NULL;
        for (uint32_t i = 0; i < l->n && !m; i++)
            if (l->v[i].index > l->committed && l->v[i].index <= raft_commit_index(&g->raft)) m = &l->v[i];
        if (!m) return;
        l->committed = m->index;
        struct raft_event e = {.type = RAFT_CONFIGURATION};
        e.configuration.index = m->index;
        raftmember_configuration(m, &e.configuration.conf);
        raftgroup_step(g, &e);
    }
}

/* ---- changes */

static void change_ended(struct raftgroup *g, int rc)
{
    g->change.step = RAFTMEMBER_ENDED;
    g->change.rc = rc;
    raftnode_soil(g);
}

/* Submits the members with one of them in another role. */
static void change_role(struct raftgroup *g, enum raftmember_step step, enum raftnode_role role)
{
    struct raftnode_members m = *raftmember_latest(&g->members);
    uint32_t i = 0;
    while (i < m.n && m.m[i].node != g->change.node) i++;
    if (role == RAFTNODE_GONE) {
        memmove(&m.m[i], &m.m[i + 1], (m.n - i - 1) * sizeof m.m[0]);
        m.n--;
    } else {
        m.m[i] = (struct raftnode_member){g->change.node, role};
        if (i == m.n) m.n++;
    }
    struct buf bytes = {0};
    raftmember_encode(&bytes, &m);
    g->change.step = step;
    g->change.index = raft_last_index(&g->raft) + 1;
    if (raftgroup_submit_one(g, RAFT_CHANGE, buf_slice(&bytes)) != 0) change_ended(g, -EPERM);
    buf_fini(&bytes);
}

static void catch_up(struct raftgroup *g)
{
    g->change.step = RAFTMEMBER_CATCHING_UP;
    struct raft_event e = {.type = RAFT_CATCH_UP};
    e.catch_up.server_id = g->change.node;
    if (raftgroup_step(g, &e) != 0) change_ended(g, -EPERM);
}

static void check_caught_up(struct raftgroup *g)
{
    int status = RAFT_CATCH_UP_ABORTED;
    raft_catch_up(&g->raft, g->change.node, &status);
    if (status == RAFT_CATCH_UP_ABORTED) change_ended(g, -ETIMEDOUT);
    if (status != RAFT_CATCH_UP_FINISHED) return;
    raftgroup_submit_queue(g); /* R7 */
    if (g->change.step == RAFTMEMBER_CATCHING_UP) change_role(g, RAFTMEMBER_ASSIGNING, RAFTNODE_VOTER);
}

static void spared(struct raftgroup *g)
{
    if (g->change.goal == RAFTNODE_SPARE) {
        change_ended(g, 0);
    } else if (g->change.goal == RAFTNODE_VOTER) {
        catch_up(g);
    } else {
        raftgroup_submit_queue(g); /* R7 */
        if (g->change.step == RAFTMEMBER_SPARING) change_role(g, RAFTMEMBER_ASSIGNING, g->change.goal);
    }
}

void raftmember_advance(struct raftgroup *g)
{
    struct raftmember_change *c = &g->change;
    if (c->step == RAFTMEMBER_IDLE || !g->reign || c->advancing) return;
    c->advancing = true; /* steps below come here again */
    if (c->step == RAFTMEMBER_SPARING && c->index <= g->members.committed) spared(g);
    if (c->step == RAFTMEMBER_CATCHING_UP) check_caught_up(g);
    if (c->step == RAFTMEMBER_ASSIGNING && c->index <= g->members.committed) change_ended(g, 0);
    c->advancing = false;
}

void raftmember_reign_ended(struct raftgroup *g)
{
    if (g->change.step != RAFTMEMBER_IDLE && g->change.step != RAFTMEMBER_ENDED) change_ended(g, -EPERM);
}

static void tell_members(struct raftgroup *g)
{
    const struct raftnode_members *m = raftmember_at(&g->members, raft_commit_index(&g->raft));
    if (g->broken || raftsnap_installing(&g->snap) || !m || m->index <= g->members.told) return;
    g->members.told = m->index;
    if (g->node->out.members) g->node->out.members(g->node->out.ctx, g->id, m);
}

void raftmember_tell(struct raftgroup *g)
{
    tell_members(g);
    if (g->change.step != RAFTMEMBER_ENDED) return;
    struct raftmember_change c = g->change;
    g->change = (struct raftmember_change){0};
    if (g->node->out.changed) g->node->out.changed(g->node->out.ctx, g->id, c.node, c.goal, c.rc);
}

static int change_refused(struct raftgroup *g, const struct raftnode_members *m, uint64_t node, enum raftnode_role role)
{
    enum raftnode_role now = raftmember_role(m, node);
    if (!raftgroup_ready(g)) return -EPERM;
    if (g->change.step != RAFTMEMBER_IDLE || raft_transferee(&g->raft) || m->index > g->members.committed) return -EAGAIN;
    if (node == 0 || role > RAFTNODE_VOTER) return -EINVAL;
    if (now == role) return role == RAFTNODE_GONE ? -ENOENT : -EEXIST;
    if (now == RAFTNODE_GONE && m->n == RAFTNODE_MEMBERS_MAX) return -EINVAL;
    if (now == RAFTNODE_VOTER && raftmember_voters(m) == 1) return -EINVAL;
    if (node == g->node->options.id) return -EBUSY; /* R13 */
    return 0;
}

int raftmember_begin(struct raftgroup *g, uint64_t node, enum raftnode_role role)
{
    const struct raftnode_members *m = raftmember_latest(&g->members);
    int rc = change_refused(g, m, node, role);
    if (rc < 0) return rc;
    enum raftnode_role now = raftmember_role(m, node);
    raftgroup_submit_queue(g); /* R7 */
    g->change = (struct raftmember_change){.node = node, .goal = role};
    raft_index match = 0;
    /* The engine looks at a promotion when the newcomer's log has grown: one that has everything already would wait for the next entry, for ever in an idle group. */
    bool there = now == RAFTNODE_STANDBY && raft_match_index(&g->raft, node, &match) == 0 && match == raft_last_index(&g->raft);
    if (now == RAFTNODE_GONE || (now == RAFTNODE_VOTER && role == RAFTNODE_STANDBY)) { /* R13 */
        change_role(g, RAFTMEMBER_SPARING, RAFTNODE_SPARE);
    } else if (role == RAFTNODE_VOTER && !there) {
        catch_up(g);
    } else {
        change_role(g, RAFTMEMBER_ASSIGNING, role);
    }
    return 0;
}
