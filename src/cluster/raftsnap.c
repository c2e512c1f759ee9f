#include "cluster/raftsnap.h"

#include <errno.h>

#include "base/check.h"
#include "cluster/raftgroup.h"

/* ---- sending */

void raftsnap_fill(struct raftgroup *g, struct raft_install_snapshot *m, struct buf *descriptor)
{
    struct raftnode_out *out = &g->node->out;
    const struct raftnode_members *members = raftmember_at(&g->members, m->last_index);
    CHECK(members);
    m->conf_index = members->index;
    raftmember_configuration(members, &m->conf);
    out->describe(out->ctx, g->id, m->last_index, descriptor);
    CHECK(descriptor->len <= RAFTNODE_DESCRIPTOR_MAX);
    m->data = (struct raft_buffer){descriptor->p, descriptor->len};
}

/* ---- taking one's own */

static void put_mark(struct raftgroup *g, uint64_t index, uint64_t term, uint64_t first, const struct raftnode_members *m)
{
    struct buf bytes = {0};
    raftmember_encode(&bytes, m);
    struct raftlog_mark mark = {.index = index, .term = term, .first = first, .configuration_index = m->index, .configuration = buf_slice(&bytes)};
    raftlog_put_mark(g->node->log, g->id, &mark);
    buf_fini(&bytes);
    g->snap.batch = raftlog_open_batch(g->node->log);
    g->snap.batch_index = index;
    raftnode_wait(g);
}

int raftsnap_taken(struct raftgroup *g, uint64_t index, uint32_t trailing)
{
    struct raftlog_state st;
    CHECK(raftlog_state(g->node->log, g->id, &st));
    uint64_t first = index > trailing && index - trailing >= st.first ? index - trailing + 1 : st.first; /* as the engine does it */
    bool is_same = index == st.mark_index && first > st.first; /* then the log only lets go of entries that it had kept */
    if (index > g->handed || (index <= st.mark_index && !is_same)) return -EINVAL;
    /* A follower may be handed entries that are not durable here yet; and one that began anew has to hear again what is committed. */
    if (raftsnap_installing(&g->snap) || index > g->raft.last_stored || index > raft_commit_index(&g->raft)) return -EAGAIN;
    struct raftnode_members m = *raftmember_at(&g->members, index);
    put_mark(g, index, raftlog_term(g->node->log, g->id, index), first, &m);
    struct raft_event e = {.type = RAFT_SNAPSHOT};
    e.snapshot.metadata.index = index;
    e.snapshot.metadata.term = raftlog_term(g->node->log, g->id, index);
    e.snapshot.metadata.configuration_index = m.index;
    raftmember_configuration(&m, &e.snapshot.metadata.configuration);
    e.snapshot.trailing = trailing;
    raftmember_forget(&g->members, index);
    CHECK(raftgroup_step(g, &e) == 0);
    return 0;
}

/* ---- taking a leader's */

void raftsnap_receive(struct raftgroup *g, struct raft_message *m)
{
    struct raft_install_snapshot *in = &m->install_snapshot;
    struct raft_configuration conf = in->conf;
    struct raft_buffer data = in->data;
    in->conf = (struct raft_configuration){0}; /* R10 */
    in->data = (struct raft_buffer){0};
    bool was = g->raft.snapshot.installing;
    struct raft_event e = {.type = RAFT_RECEIVE};
    e.receive.message = m;
    g->stale_event = in->term < raft_current_term(&g->raft);
    raftgroup_step(g, &e);
    g->stale_event = false;
    if (!was && g->raft.snapshot.installing) {
        struct raftsnap_state *s = &g->snap;
        s->step = RAFTSNAP_WANTED;
        s->from = m->server_id;
        s->index = in->last_index;
        s->term = in->last_term;
        s->members.index = in->conf_index;
        CHECK(raftmember_from(&conf, &s->members) == 0);
        s->descriptor.len = 0;
        buf_add(&s->descriptor, data.base, data.len);
        raftnode_soil(g);
    }
    raft_configuration_close(&conf);
    raft_free(data.base);
}

int raftsnap_fetched(struct raftgroup *g, uint64_t index, int rc)
{
    struct raftsnap_state *s = &g->snap;
    if (s->step != RAFTSNAP_FETCHING || s->index != index) return -EINVAL;
    raftnode_soil(g);
    if (rc < 0) {
        s->step = RAFTSNAP_GIVING_UP;
        raftnode_wait(g);
        raftsnap_persisted(g);
        return 0;
    }
    struct raftlog_state st;
    CHECK(raftlog_state(g->node->log, g->id, &st));
    if (st.last >= index) raftlog_put_truncate(g->node->log, g->id, st.mark_index + 1); /* they contradict it */
    put_mark(g, index, s->term, index + 1, &s->members);
    s->step = RAFTSNAP_MARKING;
    g->handed = g->counted = index;
    g->own_first = 1;
    g->own_last = 0;
    g->replaced = 0;
    g->rewinding = false;
    return 0;
}

static void finish(struct raftgroup *g)
{
    struct raftsnap_state *s = &g->snap;
    s->step = RAFTSNAP_NONE;
    g->unstored = false;
    raftmember_clear(&g->members);
    raftmember_add(&g->members, &s->members);
    g->members.committed = s->members.index;
    struct raft_event e = {.type = RAFT_PERSISTED_SNAPSHOT};
    e.persisted_snapshot.metadata.index = s->index;
    e.persisted_snapshot.metadata.term = s->term;
    e.persisted_snapshot.metadata.configuration_index = s->members.index;
    raftmember_configuration(&s->members, &e.persisted_snapshot.metadata.configuration);
    e.persisted_snapshot.last = true;
    raftgroup_step(g, &e);
    raftnode_soil(g);
}

/* The engine has given up its log for the snapshot's sake, ours still has it. Entries that are not durable must not be there when it begins anew, since it takes
 * all of them for durable. */
static void give_up(struct raftgroup *g)
{
    struct raftlog_state st;
    CHECK(raftlog_state(g->node->log, g->id, &st));
    if (raftlog_durable_index(g->node->log, g->id) < st.last) return;
    g->snap.step = RAFTSNAP_NONE;
    raftgroup_restart(g);
}

void raftsnap_persisted(struct raftgroup *g)
{
    struct raftsnap_state *s = &g->snap;
    bool durable = s->batch && raftlog_durable(g->node->log) >= s->batch;
    if (s->step == RAFTSNAP_MARKING && durable) finish(g);
    if (s->step == RAFTSNAP_GIVING_UP) give_up(g);
    if (durable) raftnode_soil(g);
}

void raftsnap_tell(struct raftgroup *g)
{
    struct raftsnap_state *s = &g->snap;
    struct raftnode_out *out = &g->node->out;
    /* That the log has it on disk may be seen here before raftsnap_persisted is asked: what is being installed is not told before it is finished there. */
    if (s->step != RAFTSNAP_MARKING && s->batch && raftlog_durable(g->node->log) >= s->batch) {
        s->batch = 0;
        if (out->marked) out->marked(out->ctx, g->id, s->batch_index);
    }
    if (s->step == RAFTSNAP_WANTED) {
        s->step = RAFTSNAP_FETCHING;
        out->install_wanted(out->ctx, g->id, s->from, s->index, s->term, buf_slice(&s->descriptor));
    }
}
