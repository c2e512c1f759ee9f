/* Requests to the raft thread: how they come there, and what they do. */
#include <errno.h>

#include "base/mem.h"
#include "cluster/raftthread_own.h"

/* ---- on the raft thread. They give what is to be answered, or LATER. */

enum { LATER = 1 };

static int do_submit(struct raftthread *t, struct raftmail *m)
{
    uint64_t index;
    int rc = raftnode_submit(t->node, m->group, m->index, slice_of(m->data, m->n), &index);
    if (rc < 0) {
        t->stats.refused++;
        return rc;
    }
    t->stats.submits++;
    raftledger_submitted(&t->ledger, raftledger_find(&t->ledger, m->group), index, m->index, m->answer);
    return LATER;
}

static int do_read(struct raftthread *t, struct raftmail *m)
{
    t->stats.reads++;
    raftnode_read(t->node, m->group, raftledger_read(&t->ledger, m->answer));
    return LATER;
}

static int begun(struct raftthread *t, uint32_t group, int rc)
{
    if (rc == 0) raftledger_add(&t->ledger, group);
    return rc;
}

static int do_create(struct raftthread *t, struct raftmail *m)
{
    const struct raftnode_member *members = (const void *)m->data;
    return begun(t, m->group, raftnode_group_create(t->node, m->group, members, (uint32_t)(m->n / sizeof *members)));
}

static int do_join(struct raftthread *t, struct raftmail *m) { return begun(t, m->group, raftnode_group_join(t->node, m->group)); }

static int do_resume(struct raftthread *t, struct raftmail *m) { return begun(t, m->group, raftnode_group_resume(t->node, m->group, m->index)); }

static int do_drop(struct raftthread *t, struct raftmail *m)
{
    int rc = raftnode_group_drop(t->node, m->group);
    if (rc == 0) raftledger_del(&t->ledger, m->group);
    return rc;
}

static int do_transfer(struct raftthread *t, struct raftmail *m) { return raftnode_transfer(t->node, m->group, m->node); }

static int do_change(struct raftthread *t, struct raftmail *m)
{
    int rc = raftnode_change(t->node, m->group, m->node, (enum raftnode_role)m->number);
    if (rc < 0) return rc;
    raftledger_changing(raftledger_find(&t->ledger, m->group), m->answer);
    return LATER;
}

static int do_snapshotted(struct raftthread *t, struct raftmail *m) { return raftnode_snapshotted(t->node, m->group, m->index, (uint32_t)m->number); }

static int do_installed(struct raftthread *t, struct raftmail *m) { return raftnode_installed(t->node, m->group, m->index, m->number); }

static int do_rewind(struct raftthread *t, struct raftmail *m) { return raftnode_rewind(t->node, m->group, m->index); }

static int do_look(struct raftthread *t, struct raftmail *m)
{
    struct raftnode_info info;
    int rc = raftnode_look(t->node, m->group, &info);
    m->fn.look(m->fn_ctx, m->group, rc, rc == 0 ? &info : NULL);
    return LATER;
}

static int do_peer_put(struct raftthread *t, struct raftmail *m)
{
    links_peer_put(t->links, m->node, m->data);
    return 0;
}

static int do_peer_del(struct raftthread *t, struct raftmail *m)
{
    links_peer_del(t->links, m->node);
    return 0;
}

static int do_secret(struct raftthread *t, struct raftmail *m)
{
    const struct linksecret *secret = (const void *)m->data;
    links_secret(t->links, secret);
    return 0;
}

static int do_send(struct raftthread *t, struct raftmail *m)
{
    links_send(t->links, m->node, slice_of(m->data, m->n));
    return 0;
}

static int do_run(struct raftthread *t, struct raftmail *m)
{
    m->fn.run(m->fn_ctx);
    return LATER;
}

static int do_stop(struct raftthread *t, struct raftmail *m)
{
    t->phase = m->index ? LEAVING : ENDING;
    t->end_by = m->index ? t->now + m->index : 0;
    t->leave_by = t->end_by - m->index / 4; /* some of it is for the seal */
    return LATER;
}

static const struct {
    int (*act)(struct raftthread *t, struct raftmail *m);
    bool leaving; /* is done while the node hands its leadership over */
    bool always;  /* even if it has failed or ended */
} acts[RAFTMAIL_KINDS] = {
    [RAFTMAIL_SUBMIT] = {.act = do_submit},
    [RAFTMAIL_READ] = {.act = do_read},
    [RAFTMAIL_CREATE] = {.act = do_create},
    [RAFTMAIL_JOIN] = {.act = do_join},
    [RAFTMAIL_RESUME] = {.act = do_resume},
    [RAFTMAIL_DROP] = {.act = do_drop},
    [RAFTMAIL_TRANSFER] = {.act = do_transfer},
    [RAFTMAIL_CHANGE] = {.act = do_change},
    [RAFTMAIL_SNAPSHOTTED] = {.act = do_snapshotted, .leaving = true},
    [RAFTMAIL_INSTALLED] = {.act = do_installed, .leaving = true},
    [RAFTMAIL_REWIND] = {.act = do_rewind, .leaving = true},
    [RAFTMAIL_LOOK] = {.act = do_look, .leaving = true},
    [RAFTMAIL_PEER_PUT] = {.act = do_peer_put, .leaving = true},
    [RAFTMAIL_PEER_DEL] = {.act = do_peer_del, .leaving = true},
    [RAFTMAIL_SECRET] = {.act = do_secret, .leaving = true},
    [RAFTMAIL_SEND] = {.act = do_send, .leaving = true},
    [RAFTMAIL_RUN] = {.act = do_run, .leaving = true, .always = true},
    [RAFTMAIL_STOP] = {.act = do_stop, .leaving = true, .always = true},
};

static void refuse(struct raftmail *m, int rc)
{
    if (m->kind == RAFTMAIL_LOOK) m->fn.look(m->fn_ctx, m->group, rc, NULL);
    else raftledger_tell(&m->answer, rc, 0);
}

void raftthread_take_mail(struct raftthread *t, int refusal)
{
    for (struct raftmail *m = raftmail_take(&t->box), *next; m; m = next) {
        next = m->next;
        bool refused = refusal ? !acts[m->kind].always : t->phase != RUNNING && !acts[m->kind].leaving;
        int rc = refused ? LATER : acts[m->kind].act(t, m);
        if (refused) refuse(m, refusal ? refusal : -ESHUTDOWN);
        if (rc != LATER) raftledger_tell(&m->answer, rc, 0);
        mem_free(m);
    }
}

/* ---- on any thread */

static void ask(struct raftthread *t, struct raftmail m, struct slice data) { raftmail_post(&t->box, &m, data); }

void raftthread_submit(struct raftthread *t, uint32_t group, uint64_t term, struct slice data, struct raftthread_answer answer)
{
    ask(t, (struct raftmail){.kind = RAFTMAIL_SUBMIT, .group = group, .index = term, .answer = answer}, data);
}

void raftthread_read(struct raftthread *t, uint32_t group, struct raftthread_answer answer)
{
    ask(t, (struct raftmail){.kind = RAFTMAIL_READ, .group = group, .answer = answer}, SLICE(""));
}

int raftthread_propose(struct raftthread *t, uint32_t group, uint64_t term, struct slice data, uint64_t *index)
{
    if (t->phase != RUNNING || t->failure) return t->failure ? -EIO : -ESHUTDOWN;
    int rc = raftnode_submit(t->node, group, term, data, index);
    if (rc < 0) t->stats.refused++;
    else t->stats.submits++;
    return rc;
}

void raftthread_confirm(struct raftthread *t, uint32_t group, struct raftthread_answer answer)
{
    t->stats.reads++;
    raftnode_read(t->node, group, raftledger_read(&t->ledger, answer));
}

int raftthread_inspect(struct raftthread *t, uint32_t group, struct raftnode_info *out) { return raftnode_look(t->node, group, out); }

uint64_t raftthread_spread(struct raftthread *t, struct slice frames, uint16_t version, size_t queued_max, uint64_t *dropped)
{
    return t->links && !t->failure ? links_spread(t->links, frames, version, queued_max, dropped) : 0;
}

void raftthread_create(struct raftthread *t, uint32_t group, const struct raftnode_member *members, uint32_t count, struct raftthread_answer answer)
{
    ask(t, (struct raftmail){.kind = RAFTMAIL_CREATE, .group = group, .answer = answer}, slice_of(members, count * sizeof *members));
}

void raftthread_join(struct raftthread *t, uint32_t group, struct raftthread_answer answer)
{
    ask(t, (struct raftmail){.kind = RAFTMAIL_JOIN, .group = group, .answer = answer}, SLICE(""));
}

void raftthread_resume(struct raftthread *t, uint32_t group, uint64_t applied, struct raftthread_answer answer)
{
    ask(t, (struct raftmail){.kind = RAFTMAIL_RESUME, .group = group, .index = applied, .answer = answer}, SLICE(""));
}

void raftthread_drop(struct raftthread *t, uint32_t group, struct raftthread_answer answer)
{
    ask(t, (struct raftmail){.kind = RAFTMAIL_DROP, .group = group, .answer = answer}, SLICE(""));
}

void raftthread_transfer(struct raftthread *t, uint32_t group, uint64_t to, struct raftthread_answer answer)
{
    ask(t, (struct raftmail){.kind = RAFTMAIL_TRANSFER, .group = group, .node = to, .answer = answer}, SLICE(""));
}

void raftthread_change(struct raftthread *t, uint32_t group, uint64_t node, enum raftnode_role role, struct raftthread_answer answer)
{
    ask(t, (struct raftmail){.kind = RAFTMAIL_CHANGE, .group = group, .node = node, .number = (int)role, .answer = answer}, SLICE(""));
}

void raftthread_snapshotted(struct raftthread *t, uint32_t group, uint64_t index, uint32_t trailing, struct raftthread_answer answer)
{
    CHECK(trailing <= INT32_MAX);
    ask(t, (struct raftmail){.kind = RAFTMAIL_SNAPSHOTTED, .group = group, .index = index, .number = (int)trailing, .answer = answer}, SLICE(""));
}

void raftthread_installed(struct raftthread *t, uint32_t group, uint64_t index, int rc, struct raftthread_answer answer)
{
    ask(t, (struct raftmail){.kind = RAFTMAIL_INSTALLED, .group = group, .index = index, .number = rc, .answer = answer}, SLICE(""));
}

void raftthread_rewind(struct raftthread *t, uint32_t group, uint64_t index, struct raftthread_answer answer)
{
    ask(t, (struct raftmail){.kind = RAFTMAIL_REWIND, .group = group, .index = index, .answer = answer}, SLICE(""));
}

void raftthread_look(struct raftthread *t, uint32_t group, void (*done)(void *ctx, uint32_t group, int rc, const struct raftnode_info *info), void *ctx)
{
    ask(t, (struct raftmail){.kind = RAFTMAIL_LOOK, .group = group, .fn.look = done, .fn_ctx = ctx}, SLICE(""));
}

void raftthread_peer_put(struct raftthread *t, uint64_t node, const char *address)
{
    CHECK(strlen(address) <= WIRE_ADDRESS_MAX);
    ask(t, (struct raftmail){.kind = RAFTMAIL_PEER_PUT, .node = node}, slice_of(address, strlen(address) + 1));
}

void raftthread_peer_del(struct raftthread *t, uint64_t node) { ask(t, (struct raftmail){.kind = RAFTMAIL_PEER_DEL, .node = node}, SLICE("")); }

void raftthread_secret(struct raftthread *t, const struct linksecret *secret) { ask(t, (struct raftmail){.kind = RAFTMAIL_SECRET}, slice_of(secret, sizeof *secret)); }

void raftthread_send(struct raftthread *t, uint64_t peer, struct slice frames) { ask(t, (struct raftmail){.kind = RAFTMAIL_SEND, .node = peer}, frames); }

void raftthread_put(struct raftthread *t, uint64_t peer, struct slice frames) { raftmail_put(&t->box, &(struct raftmail){.kind = RAFTMAIL_SEND, .node = peer}, frames); }

bool raftthread_hurry(struct raftthread *t)
{
    if (raftmail_is_empty(&t->box)) return false;
    raftmail_wake(&t->box);
    return true;
}

void raftthread_wake(struct raftthread *t) { raftmail_wake(&t->box); }

void raftthread_run(struct raftthread *t, void (*fn)(void *ctx), void *ctx)
{
    ask(t, (struct raftmail){.kind = RAFTMAIL_RUN, .fn.run = fn, .fn_ctx = ctx}, SLICE(""));
}
