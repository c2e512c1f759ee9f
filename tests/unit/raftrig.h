/* Some nodes with Raft groups in one process, for tests: real logs on simulated disks, frames that are delivered when the test says so, and a record of what each
 * node was told. Nothing happens by itself. */
#pragma once
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/le.h"
#include "base/mem.h"
#include "cluster/raftlog.h"
#include "cluster/raftnode.h"
#include "cluster/wire.h"
#include "io/file_sim.h"

enum { RIG_NODES = 5, RIG_GROUPS = 64, RIG_TYPES = 128 };

struct rig_node {
    struct rig *rig;
    uint64_t id;
    struct file_sim *disk;
    struct raftlog *log;
    struct raftnode *raft; /* NULL: it is down */
    bool slow_disk;        /* nothing is written */
    bool cut;              /* no frame comes or goes */
    bool flushes_first;    /* what is durable is seen by a flush before the groups are asked: the raft thread has written at the end of its turn */
    struct buf out[RIG_NODES + 1];
    /* what it was told */
    uint32_t sends, frames[RIG_TYPES];
    struct {
        enum raftnode_state state;
        uint64_t term, leader, handed, truncated, truncations, wanted, wanted_from, changes, marked, gone, strangers, members, members_at;
        int changed;
        uint64_t hash; /* of the commands */
    } g[RIG_GROUPS];
    uint64_t reads_ok, reads_failed, read_index;
    char broken[128];
};

struct rig {
    uint64_t now;
    uint64_t segment_bytes, inflight_bytes;
    struct rig_node n[RIG_NODES + 1];
    uint32_t prompt_groups; /* of nodes that start from now on */
};

static void rig_on_send(void *ctx, uint64_t peer, struct slice frames)
{
    struct rig_node *n = ctx;
    n->sends++;
    for (struct slice rest = frames; rest.n;) {
        struct wire_frame f;
        const char *why;
        assert_int_equal(wire_frame(rest, &f, &why), WIRE_OK);
        n->frames[f.type]++;
        rest = slice_of(rest.p + f.whole.n, rest.n - f.whole.n);
    }
    buf_add_slice(&n->out[peer], frames);
}

static void rig_on_committed(void *ctx, uint32_t group, const struct raftnode_entry *entries, uint32_t count)
{
    struct rig_node *n = ctx;
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(entries[i].index, n->g[group].handed + 1);
        n->g[group].handed++;
        for (size_t k = 0; entries[i].type == RAFTNODE_COMMAND && k < entries[i].data.n; k++) n->g[group].hash = n->g[group].hash * 31 + (uint8_t)entries[i].data.p[k];
    }
}

static void rig_on_role(void *ctx, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader)
{
    struct rig_node *n = ctx;
    n->g[group].state = state;
    n->g[group].term = term;
    n->g[group].leader = leader;
}

static void rig_on_truncated(void *ctx, uint32_t group, uint64_t index)
{
    struct rig_node *n = ctx;
    n->g[group].truncated = index;
    n->g[group].truncations++;
}

static void rig_on_read_ok(void *ctx, uint64_t ticket, uint64_t index)
{
    struct rig_node *n = ctx;
    n->reads_ok++;
    n->read_index = index;
}

static void rig_on_read_failed(void *ctx, uint64_t ticket) { ((struct rig_node *)ctx)->reads_failed++; }

static void rig_on_members(void *ctx, uint32_t group, const struct raftnode_members *members)
{
    struct rig_node *n = ctx;
    assert_true(members->index > n->g[group].members_at);
    n->g[group].members = members->n;
    n->g[group].members_at = members->index;
}

static void rig_on_changed(void *ctx, uint32_t group, uint64_t node, enum raftnode_role role, int rc)
{
    struct rig_node *n = ctx;
    n->g[group].changes++;
    n->g[group].changed = rc;
}

static void rig_on_describe(void *ctx, uint32_t group, uint64_t index, struct buf *out)
{
    struct rig_node *n = ctx;
    le_add_u64(out, n->g[group].hash);
}

static void rig_on_install(void *ctx, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor)
{
    struct rig_node *n = ctx;
    assert_int_equal(descriptor.n, 8);
    n->g[group].wanted = index;
    n->g[group].wanted_from = le_u64(descriptor.p);
}

static void rig_on_marked(void *ctx, uint32_t group, uint64_t index) { ((struct rig_node *)ctx)->g[group].marked = index; }
static void rig_on_gone(void *ctx, uint32_t group) { ((struct rig_node *)ctx)->g[group].gone++; }
static void rig_on_stranger(void *ctx, uint32_t group, uint64_t from) { ((struct rig_node *)ctx)->g[group].strangers++; }

static void rig_on_broken(void *ctx, uint32_t group, const char *why)
{
    struct rig_node *n = ctx;
    snprintf(n->broken, sizeof n->broken, "%s", why);
}

/* Starts a node; what it was told before is forgotten. Gives false if its log is refused. */
static bool rig_start(struct rig *r, uint64_t id)
{
    struct rig_node *n = &r->n[id];
    struct file_sim *disk = n->disk;
    *n = (struct rig_node){.rig = r, .id = id, .disk = disk ? disk : file_sim_new("/n", id)};
    struct raftlog_options lo = {.segment_bytes = r->segment_bytes, .random = id};
    struct buf error = {0};
    n->log = raftlog_open(file_sim_ops(n->disk), "/n/log", &lo, &error);
    buf_fini(&error);
    if (!n->log) return false;
    struct raftnode_options o = {.id = id, .seed = 7 * id, .now = r->now, .reserve_bytes = 4096, .inflight_bytes = r->inflight_bytes, .prompt_groups = r->prompt_groups};
    struct raftnode_out out = {n, rig_on_send, rig_on_committed, rig_on_role, rig_on_truncated, rig_on_members, rig_on_read_ok, rig_on_read_failed, rig_on_changed, rig_on_describe,
                               rig_on_install, rig_on_marked, rig_on_stranger, rig_on_broken, rig_on_gone};
    n->raft = raftnode_new(&o, n->log, &out);
    return true;
}

static void rig_stop(struct rig *r, uint64_t id)
{
    struct rig_node *n = &r->n[id];
    if (!n->raft) return;
    raftnode_free(n->raft);
    raftlog_close(n->log);
    for (int i = 0; i <= RIG_NODES; i++) buf_fini(&n->out[i]);
    file_sim_crash(n->disk, true);
    n->raft = NULL;
}

static struct rig *rig_new(uint32_t nodes)
{
    struct rig *r = mem_zalloc(sizeof *r);
    r->now = 1000;
    r->segment_bytes = 1 << 20;
    for (uint64_t id = 1; id <= nodes; id++) assert_true(rig_start(r, id));
    return r;
}

static void rig_free(struct rig *r)
{
    for (uint64_t id = 1; id <= RIG_NODES; id++) {
        rig_stop(r, id);
        if (r->n[id].disk) file_sim_free(r->n[id].disk);
    }
    mem_free(r);
}

/* Everything that is in the log so far becomes durable. */
static void rig_write(struct rig_node *n)
{
    struct raftlog_write *w = mem_alloc(sizeof *w);
    struct raftlog_chore *c = mem_alloc(sizeof *c);
    const struct file_ops *ops = file_sim_ops(n->disk);
    for (int i = 0; i < 4 && !n->slow_disk; i++) {
        if (raftlog_begin_chore(n->log, c)) raftlog_chore_done(n->log, raftlog_chore_run(ops, c));
        if (!raftlog_begin_write(n->log, w)) continue;
        assert_int_equal(raftlog_write_run(ops, w), 0);
        raftlog_written(n->log, w->batch, 0);
        if (n->flushes_first) raftnode_flush(n->raft);
        raftnode_persisted(n->raft);
        raftnode_flush(n->raft);
    }
    mem_free(w);
    mem_free(c);
}

static void rig_deliver(struct rig *r, struct rig_node *from, uint64_t to)
{
    struct buf frames = from->out[to];
    from->out[to] = (struct buf){0};
    struct rig_node *n = &r->n[to];
    for (struct slice rest = buf_slice(&frames); rest.n && n->raft && !n->cut && !from->cut;) {
        struct wire_frame f;
        const char *why;
        assert_int_equal(wire_frame(rest, &f, &why), WIRE_OK);
        assert_int_equal(raftnode_receive(n->raft, from->id, &f), 0);
        rest = slice_of(rest.p + f.whole.n, rest.n - f.whole.n);
    }
    buf_fini(&frames);
}

/* All frames that are under way arrive, and what they cause, a few times over. */
static void rig_settle(struct rig *r)
{
    for (int round = 0; round < 12; round++) {
        for (uint64_t id = 1; id <= RIG_NODES; id++) {
            struct rig_node *n = &r->n[id];
            if (!n->raft) continue;
            for (uint64_t from = 1; from <= RIG_NODES; from++)
                if (r->n[from].raft) rig_deliver(r, &r->n[from], id);
            raftnode_flush(n->raft);
            rig_write(n);
            raftnode_check(n->raft);
        }
    }
}

static void rig_run(struct rig *r, uint64_t ms)
{
    for (uint64_t end = r->now + ms; r->now < end; r->now += 10) {
        for (uint64_t id = 1; id <= RIG_NODES; id++)
            if (r->n[id].raft) raftnode_tick(r->n[id].raft, r->now);
        rig_settle(r);
    }
}

/* The node that leads a group and is not cut off; NULL: there is none. */
static struct rig_node *rig_leader(struct rig *r, uint32_t group)
{
    for (uint64_t id = 1; id <= RIG_NODES; id++)
        if (r->n[id].raft && !r->n[id].cut && r->n[id].g[group].state == RAFTNODE_LEADER) return &r->n[id];
    return NULL;
}

static void rig_create(struct rig *r, uint32_t group, uint32_t nodes)
{
    struct raftnode_member members[RIG_NODES];
    for (uint64_t id = 1; id <= nodes; id++) members[id - 1] = (struct raftnode_member){id, RAFTNODE_VOTER};
    for (uint64_t id = 1; id <= nodes; id++) assert_int_equal(raftnode_group_create(r->n[id].raft, group, members, nodes), 0);
}

static uint64_t rig_submit(struct rig_node *n, uint32_t group, const char *text)
{
    uint64_t index = 0;
    assert_int_equal(raftnode_submit(n->raft, group, n->g[group].term, slice_str(text), &index), 0);
    return index;
}

/* Whoever leads after a while; somebody must. */
static struct rig_node *rig_new_leader(struct rig *r, uint32_t group)
{
    rig_run(r, 3000);
    struct rig_node *n = rig_leader(r, group);
    assert_non_null(n);
    return n;
}

/* One of the others, of three. */
static struct rig_node *rig_follower_of(struct rig *r, const struct rig_node *leader) { return &r->n[leader->id % 3 + 1]; }
