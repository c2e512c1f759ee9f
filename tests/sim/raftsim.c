#include "raftsim.h"

#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "base/le.h"
#include "base/mem.h"
#include "boardcheck.h"
#include "cluster/termboard.h"
#include "cluster/wire.h"

static struct rng *rng_of(struct raftsim_proc *p) { return world_rng(p->sim->w); }

/* ---- snapshots, which are durable when they are there */

static struct raftsim_snapshot *find_snapshot(struct raftsim *s, uint32_t node, uint32_t group, uint64_t index)
{
    for (int i = 0; i < RAFTSIM_SNAPSHOTS; i++)
        if (s->durable[node].snapshots[group][i].index == index) return &s->durable[node].snapshots[group][i];
    return NULL;
}

static bool keep_snapshot(struct raftsim_proc *p, uint32_t group, uint64_t index, const struct raftcheck_state *state)
{
    struct raftsim_snapshot *at = find_snapshot(p->sim, p->node, group, index);
    if (!at) at = find_snapshot(p->sim, p->node, group, 0);
    if (!at) return false;
    *at = (struct raftsim_snapshot){index, *state};
    return true;
}

/* ---- upcalls */

static void on_send(void *ctx, uint64_t peer, struct slice frames)
{
    struct raftsim_proc *p = ctx;
    p->sim->result->vouched += boardcheck_frames(p->sim->w, p->node, p->raft, p->board, frames);
    world_send(p->sim->w, p->node, (uint32_t)peer, frames);
}

static void settle_write(struct raftsim_proc *p, uint32_t group, const struct raftnode_entry *e)
{
    struct raftsim_replica *r = &p->r[group];
    for (uint32_t i = 0; i < r->n_writes; i++) {
        if (r->writes[i].index != e->index) continue;
        if (r->writes[i].id == raftcheck_id(e) && p->sim->mutant != RAFTSIM_EARLY_ACK) raftcheck_acked(p->sim->check, group, e->index, r->writes[i].id);
        r->writes[i] = r->writes[--r->n_writes];
        return;
    }
}

static void on_committed(void *ctx, uint32_t group, const struct raftnode_entry *entries, uint32_t n)
{
    struct raftsim_proc *p = ctx;
    struct raftsim_replica *r = &p->r[group];
    for (uint32_t i = 0; i < n; i++) {
        const struct raftnode_entry *e = &entries[i];
        if (e->index != r->handed + 1) world_fail(p->sim->w, "group %u: node %u was handed entry %llu behind %llu", group, p->node, (unsigned long long)e->index, (unsigned long long)r->handed);
        r->handed = e->index;
        bool ahead = e->index <= r->state.applied;
        if (!ahead) raftcheck_apply(&r->state, e->index, e->type, e->data);
        raftcheck_committed(p->sim->check, p->node, group, e, ahead ? NULL : &r->state);
        settle_write(p, group, e);
    }
    raftsim_answer(p, group);
}

static void on_role(void *ctx, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader)
{
    struct raftsim_proc *p = ctx;
    struct raftsim_replica *r = &p->r[group];
    static const char *names[] = {"follows", "stands for election", "leads"};
    world_trace(p->sim->w, p->node, "group %u: %s in term %llu, leader %llu", group, names[state], (unsigned long long)term, (unsigned long long)leader);
    r->leads = state == RAFTNODE_LEADER;
    r->term = term;
    if (r->leads && r->state.applied != r->handed) world_fail(p->sim->w, "group %u: node %u leads before its state is that of the log", group, p->node);
}

/* Back to the last snapshot that the log knows of; the log brings the rest again. */
static void on_truncated(void *ctx, uint32_t group, uint64_t index)
{
    struct raftsim_proc *p = ctx;
    struct raftsim_replica *r = &p->r[group];
    struct raftnode_info info;
    CHECK(raftnode_look(p->raft, group, &info) == 0);
    world_trace(p->sim->w, p->node, "group %u: what it submitted at %llu is gone", group, (unsigned long long)index);
    p->sim->result->truncations++;
    for (uint32_t i = 0; i < r->n_writes;) {
        if (r->writes[i].index >= index) r->writes[i] = r->writes[--r->n_writes];
        else i++;
    }
    r->n_reads = 0;
    struct raftsim_snapshot none = {0}, *s = info.snapshot ? find_snapshot(p->sim, p->node, group, info.snapshot) : &none;
    CHECK(s);
    r->state = s->state;
    r->handed = s->index;
    if (raftnode_rewind(p->raft, group, s->index) != 0) world_fail(p->sim->w, "group %u: node %u cannot go back to %llu", group, p->node, (unsigned long long)s->index);
}

static struct raftsim_read *find_read(struct raftsim_proc *p, uint64_t ticket, uint32_t *group)
{
    for (*group = 0; *group < RAFTCHECK_GROUPS; ++*group)
        for (uint32_t i = 0; i < p->r[*group].n_reads; i++)
            if (p->r[*group].reads[i].ticket == ticket) return &p->r[*group].reads[i];
    return NULL;
}

static void on_read_ok(void *ctx, uint64_t ticket, uint64_t index)
{
    struct raftsim_proc *p = ctx;
    uint32_t group;
    struct raftsim_read *read = find_read(p, ticket, &group);
    if (!read) return; /* given up when the state went back */
    if (read->shown.applied < index) world_fail(p->sim->w, "group %u: a leader's state is behind its commit index", group);
    read->confirmed = true;
    raftsim_answer(p, group);
}

static void on_read_failed(void *ctx, uint64_t ticket)
{
    struct raftsim_proc *p = ctx;
    uint32_t group;
    struct raftsim_read *read = find_read(p, ticket, &group);
    if (read) *read = p->r[group].reads[--p->r[group].n_reads];
}

/* Confirmed, and everything that it showed is committed. */
void raftsim_answer(struct raftsim_proc *p, uint32_t group)
{
    struct raftsim_replica *r = &p->r[group];
    for (uint32_t i = 0; i < r->n_reads;) {
        if (r->reads[i].confirmed && r->reads[i].shown.applied <= r->handed) {
            raftcheck_read(p->sim->check, p->node, group, r->reads[i].floor, &r->reads[i].shown);
            r->reads[i] = r->reads[--r->n_reads];
        } else {
            i++;
        }
    }
}

static void on_changed(void *ctx, uint32_t group, uint64_t node, enum raftnode_role role, int rc)
{
    struct raftsim_proc *p = ctx;
    world_trace(p->sim->w, p->node, "group %u: change of %llu to role %d ended with %d", group, (unsigned long long)node, (int)role, rc);
    p->sim->result->changes += rc == 0;
    if (rc == 0 && role == RAFTNODE_GONE) raftload_removed(p->sim, group, (uint32_t)node);
}

static void on_describe(void *ctx, uint32_t group, uint64_t index, struct buf *out)
{
    struct raftsim_proc *p = ctx;
    le_add_u64(out, p->node);
    le_add_u64(out, index);
    le_add_u32(out, group);
}

static void on_install_wanted(void *ctx, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor)
{
    struct raftsim_proc *p = ctx;
    world_trace(p->sim->w, p->node, "group %u: shall take %llu's snapshot at %llu", group, (unsigned long long)from, (unsigned long long)index);
    CHECK(descriptor.n == 20 && le_u64(descriptor.p + 8) == index && le_u32(descriptor.p + 16) == group);
    p->r[group].wanted = index;
    p->r[group].wanted_from = le_u64(descriptor.p);
    world_after(p->sim->w, p->node, 1000 + rng_below(rng_of(p), 300 * WORLD_MS), RAFTSIM_FETCH, group);
}

static void on_marked(void *ctx, uint32_t group, uint64_t index)
{
    struct raftsim_proc *p = ctx;
    for (int i = 0; i < RAFTSIM_SNAPSHOTS; i++) {
        struct raftsim_snapshot *s = &p->sim->durable[p->node].snapshots[group][i];
        if (s->index < index) s->index = 0;
    }
}

static void on_stranger(void *ctx, uint32_t group, uint64_t from)
{
    struct raftsim_proc *p = ctx;
    world_after(p->sim->w, p->node, rng_below(rng_of(p), 50 * WORLD_MS), RAFTSIM_JOIN, group);
}

static void on_broken(void *ctx, uint32_t group, const char *why)
{
    struct raftsim_proc *p = ctx;
    world_fail(p->sim->w, "group %u: node %u stands still: %s", group, p->node, why);
}

static const struct raftnode_out upcalls = {
    .send = on_send,
    .committed = on_committed,
    .role = on_role,
    .truncated = on_truncated,
    .read_ok = on_read_ok,
    .read_failed = on_read_failed,
    .changed = on_changed,
    .describe = on_describe,
    .install_wanted = on_install_wanted,
    .marked = on_marked,
    .stranger = on_stranger,
    .broken = on_broken,
};

/* ---- a turn */

static bool take_snapshot(struct raftsim_proc *p, uint32_t group)
{
    struct raftsim_replica *r = &p->r[group];
    struct raftnode_info info;
    if (!r->there || r->state.applied != r->handed || raftnode_look(p->raft, group, &info) != 0) return false;
    if (info.installing || r->handed < info.snapshot + 20 + rng_below(rng_of(p), 200) || !find_snapshot(p->sim, p->node, group, 0)) return false;
    CHECK(keep_snapshot(p, group, r->handed, &r->state));
    uint32_t trailing = rng_below(rng_of(p), 3) ? (uint32_t)rng_below(rng_of(p), 40) : 0;
    int rc = raftnode_snapshotted(p->raft, group, r->handed, trailing);
    if (rc == -EAGAIN) {
        find_snapshot(p->sim, p->node, group, r->handed)->index = 0;
        return false;
    }
    if (rc != 0) world_fail(p->sim->w, "group %u: node %u may not take a snapshot at %llu: %d", group, p->node, (unsigned long long)r->handed, rc);
    world_trace(p->sim->w, p->node, "group %u: has a snapshot at %llu, %u entries stay before it", group, (unsigned long long)r->handed, trailing);
    p->sim->result->snapshots++;
    return true;
}

static void write_unsynced(struct raftsim_proc *p, uint64_t n)
{
    const struct file_ops *ops = world_disk(p->sim->w, p->node);
    int fd = ops->open(ops->ctx, p->write.path, FILE_CHANGE);
    if (fd < 0) return;
    file_write_all(ops, fd, slice_of(p->write.bytes.p, n), p->write.at);
    ops->close(ops->ctx, fd);
}

static void begin_write(struct raftsim_proc *p)
{
    if (p->writing || !raftlog_begin_write(p->log, &p->write)) return;
    p->writing = true;
    world_after(p->sim->w, p->node, world_disk_us(p->sim->w, p->node), RAFTSIM_WRITTEN, 0);
    if (p->sim->mutant != RAFTSIM_EARLY_SYNC) return;
    p->write_copy.len = 0;
    buf_add_slice(&p->write_copy, p->write.bytes);
    p->write.bytes = buf_slice(&p->write_copy);
    write_unsynced(p, p->write.bytes.n);
    raftlog_written(p->log, p->write.batch, 0);
    raftnode_persisted(p->raft);
    raftnode_flush(p->raft);
}

void raftsim_wake(struct raftsim_proc *p) { raftnode_tick(p->raft, world_clock(p->sim->w, p->node)); }

void raftsim_turn(struct raftsim_proc *p)
{
    raftnode_flush(p->raft);
    if (p->turns++ % 16 == 0) {
        raftnode_check(p->raft);
        take_snapshot(p, (uint32_t)rng_below(rng_of(p), RAFTCHECK_GROUPS));
    }
    begin_write(p);
    if (!p->choring && raftlog_begin_chore(p->log, &p->chore)) {
        p->choring = true;
        world_after(p->sim->w, p->node, 5 * world_disk_us(p->sim->w, p->node), RAFTSIM_CHORE, 0);
    }
    world_timer(p->sim->w, p->node, raftnode_next(p->raft));
}

static void on_written(struct raftsim_proc *p)
{
    struct raftsim_durable *d = &p->sim->durable[p->node];
    int rc = raftlog_write_run(world_disk(p->sim->w, p->node), &p->write);
    if (rc < 0) world_fail(p->sim->w, "node %u: a write of its log failed: %d", p->node, rc);
    memmove(&d->writes[1], &d->writes[0], sizeof d->writes - sizeof d->writes[0]);
    snprintf(d->writes[0].path, sizeof d->writes[0].path, "%.63s", p->write.path);
    d->writes[0].at = p->write.at;
    d->writes[0].n = p->write.bytes.n;
    p->writing = false;
    if (p->sim->mutant == RAFTSIM_EARLY_SYNC) return;
    raftlog_written(p->log, p->write.batch, rc);
    raftnode_persisted(p->raft);
}

static void on_chore(struct raftsim_proc *p)
{
    int rc = raftlog_chore_run(world_disk(p->sim->w, p->node), &p->chore);
    p->choring = false;
    raftlog_chore_done(p->log, rc);
    if (rc < 0) world_after(p->sim->w, p->node, 200 * WORLD_MS, RAFTSIM_RETRY, 0);
}

static void on_fetch(struct raftsim_proc *p, uint32_t group)
{
    struct raftsim_replica *r = &p->r[group];
    uint32_t from = (uint32_t)r->wanted_from;
    uint64_t index = r->wanted;
    r->wanted = 0;
    if (!r->there || index == 0) return; /* the replica was dropped meanwhile */
    struct raftsim_snapshot *s = find_snapshot(p->sim, from, group, index);
    bool got = s && world_reaches(p->sim->w, from, p->node) && keep_snapshot(p, group, s->index, &s->state);
    world_trace(p->sim->w, p->node, "group %u: %s the snapshot at %llu", group, got ? "has" : "cannot get", (unsigned long long)index);
    if (raftnode_installed(p->raft, group, index, got ? 0 : -EIO) != 0) world_fail(p->sim->w, "group %u: node %u may not install", group, p->node);
    if (!got) return;
    p->sim->result->installs++;
    r->state = s->state;
    r->handed = s->index;
    r->n_writes = r->n_reads = 0; /* nobody knows */
}

static void on_join(struct raftsim_proc *p, uint32_t group)
{
    if (raftnode_group_join(p->raft, group) != 0) return;
    world_trace(p->sim->w, p->node, "group %u: joins", group);
    p->r[group].there = true;
}

static void on_task(void *ctx, void *self, uint32_t kind, uint64_t arg)
{
    struct raftsim_proc *p = self;
    if (kind == RAFTSIM_CLIENT) raftload_client(ctx);
    if (kind == RAFTSIM_ADMIN) raftload_admin(ctx);
    if (kind == RAFTSIM_DROP) raftload_drop(ctx, (uint32_t)(arg >> 32), (uint32_t)arg);
    if (!p) return;
    raftsim_wake(p);
    if (kind == RAFTSIM_WRITTEN) on_written(p);
    if (kind == RAFTSIM_CHORE) on_chore(p);
    if (kind == RAFTSIM_RETRY) raftlog_retry_chores(p->log);
    if (kind == RAFTSIM_FETCH) on_fetch(p, (uint32_t)arg);
    if (kind == RAFTSIM_JOIN) on_join(p, (uint32_t)arg);
    raftsim_turn(p);
}

static void on_receive(void *ctx, void *self, uint32_t from, struct slice bytes)
{
    struct raftsim_proc *p = self;
    raftsim_wake(p);
    while (bytes.n) {
        struct wire_frame f;
        const char *why = "";
        CHECK(wire_frame(bytes, &f, &why) == WIRE_OK);
        int rc = raftnode_receive(p->raft, from, &f);
        if (rc < 0) world_fail(p->sim->w, "node %u does not understand a frame of type %s from %u", p->node, wire_type_name(f.type), from);
        bytes = slice_of(bytes.p + f.whole.n, bytes.n - f.whole.n);
    }
    raftsim_turn(p);
}

static void on_timer(void *ctx, void *self)
{
    raftsim_wake(self);
    raftsim_turn(self);
}

static bool leads(void *ctx, void *self)
{
    struct raftsim_proc *p = self;
    for (uint32_t i = 0; i < RAFTCHECK_GROUPS; i++)
        if (p->r[i].leads) return true;
    return false;
}

/* ---- starting and stopping */

/* The first members of group g are three nodes in a row. */
static bool create_group(struct raftsim_proc *p, uint32_t group)
{
    struct raftnode_member members[3];
    bool among = false;
    for (uint32_t i = 0; i < 3; i++) {
        members[i] = (struct raftnode_member){(group + i) % RAFTSIM_NODES + 1, RAFTNODE_VOTER};
        among |= members[i].node == p->node;
    }
    return among && !p->sim->durable[p->node].dropped[group] && raftnode_group_create(p->raft, group, members, 3) == 0;
}

static bool resume_group(struct raftsim_proc *p, uint32_t group, const struct raftlog_state *st)
{
    struct raftsim_snapshot none = {0}, *s = st->mark_index ? find_snapshot(p->sim, p->node, group, st->mark_index) : &none;
    if (!s) {
        world_fail(p->sim->w, "group %u: node %u has no snapshot at %llu, which its log needs", group, p->node, (unsigned long long)st->mark_index);
        return false;
    }
    p->r[group].state = s->state;
    p->r[group].handed = s->index;
    return raftnode_group_resume(p->raft, group, s->index) == 0;
}

/* Of disks that lie. */
static void spoil_disk(struct raftsim *s, uint32_t node)
{
    struct raftsim_durable *d = &s->durable[node];
    uint64_t n = 1 + rng_below(world_rng(s->w), 3);
    for (uint64_t i = 0; d->crashed && s->mutant == RAFTSIM_FORGETFUL_DISK && i < n && d->writes[i].n; i++)
        world_forget_bytes(s->w, node, d->writes[i].path, d->writes[i].at, d->writes[i].n);
    memset(d->writes, 0, sizeof d->writes);
    d->crashed = false;
}

static void *start(void *ctx, struct world *w, uint32_t node)
{
    struct raftsim *s = ctx;
    struct rng *rng = world_rng(w);
    spoil_disk(s, node);
    struct raftsim_proc *p = mem_zalloc(sizeof *p);
    p->sim = s;
    p->node = node;
    struct buf error = {0};
    struct raftlog_options options = {.segment_bytes = 64 * 1024 << rng_below(rng, 3), .cache_bytes = 1024 << rng_below(rng, 6), .random = rng_u64(rng)};
    const char *dir = "/n/log";
    if (s->mutant == RAFTSIM_AMNESIA && rng_below(rng, 2)) {
        static const char *dirs[] = {"/n/log1", "/n/log2", "/n/log3", "/n/log4", "/n/log5", "/n/log6"};
        dir = dirs[rng_below(rng, 6)];
        memset(s->durable[node].snapshots, 0, sizeof s->durable[node].snapshots);
    }
    p->log = raftlog_open(world_disk(w, node), dir, &options, &error);
    if (!p->log) {
        world_fail(w, "node %u: its log cannot be opened: %.*s", node, (int)error.len, error.p);
        buf_fini(&error);
        mem_free(p);
        return NULL;
    }
    struct raftnode_options o = {.id = node, .seed = rng_u64(rng), .now = world_clock(w, node), .reserve_bytes = 4096, .install_ms = 3000, .inflight_entries = 256, .inflight_bytes = 256 * 1024, .prompt_groups = 2, .board = p->board = termboard_new(RAFTCHECK_GROUPS)};
    struct raftnode_out out = upcalls;
    out.ctx = p;
    p->raft = raftnode_new(&o, p->log, &out);
    for (uint32_t g = 0; g < RAFTCHECK_GROUPS; g++) {
        struct raftlog_state st;
        p->r[g].there = raftlog_state(p->log, g, &st) ? resume_group(p, g, &st) : create_group(p, g);
    }
    raftsim_turn(p);
    return p;
}

static void stop(void *ctx, void *self, bool crash)
{
    struct raftsim_proc *p = self;
    struct raftsim *s = ctx;
    uint64_t size = p->writing ? p->write.bytes.n : 0; /* of a write that is under way: all, a part or nothing is on the disk, unsynced */
    if (size && rng_below(rng_of(p), 3)) write_unsynced(p, rng_below(rng_of(p), 2) ? size : rng_below(rng_of(p), size + 1));
    if (p->choring && rng_below(rng_of(p), 2)) raftlog_chore_run(world_disk(s->w, p->node), &p->chore);
    if (p->writing && s->mutant != RAFTSIM_EARLY_SYNC) raftlog_written(p->log, p->write.batch, -EIO);
    if (p->choring) raftlog_chore_done(p->log, -EIO);
    s->durable[p->node].crashed = true;
    raftnode_free(p->raft);
    raftlog_close(p->log);
    termboard_free(p->board);
    buf_fini(&p->write_copy);
    mem_free(p);
}

const struct world_program raftsim_program = {
    .start = start,
    .stop = stop,
    .receive = on_receive,
    .timer = on_timer,
    .task = on_task,
    .leads = leads,
};
