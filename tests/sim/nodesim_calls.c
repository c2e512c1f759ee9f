/* What a node's parts ask of each other: Raft's upcalls, what seats want of Raft, what the cluster's own groups want of the node (as cluster/node.c and node_meta.c have it); and what goes between the engine and its seats. */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "boardcheck.h"
#include "cluster/intents.h"
#include "nodesim_own.h"
#include "shard/task.h"
#include "shard/topology.h"

enum { UNCERTAIN_MS = 2000 };

static struct nodesim_machine *machine_of(const struct nodesim_node *n) { return &n->sim->machines[n->id]; }
static bool is_data(uint32_t group) { return group >= META_FIRST_DATA_GROUP; }

/* ---- upcalls of Raft */

static void on_send(void *ctx, uint64_t peer, struct slice frames)
{
    struct nodesim_node *n = ctx;
    n->sim->result->boards += boardcheck_frames(n->sim->w, n->id, n->raft, n->board, frames);
    nodesim_send(n, peer, frames);
}

static void on_committed(void *ctx, uint32_t group, const struct raftnode_entry *entries, uint32_t count)
{
    struct nodesim_node *n = ctx;
    for (uint32_t i = 0; i < count; i++) world_note(n->sim->w, entries[i].index ^ entries[i].term << 24 ^ (uint64_t)group << 48 ^ (uint64_t)n->id << 56);
    if (is_data(group)) seats_committed(n->seats, group, entries, count);
    else metahost_committed(n->meta, group, entries, count);
}

static void on_role(void *ctx, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader)
{
    struct nodesim_node *n = ctx;
    static const char *names[] = {"follows", "stands for election", "leads"};
    world_trace(n->sim->w, n->id, "group %u: %s in term %llu, leader %llu", group, names[state], (unsigned long long)term, (unsigned long long)leader);
    n->leads[group] = state == RAFTNODE_LEADER;
    n->sim->result->reigns += n->leads[group] && is_data(group);
    if (is_data(group)) seats_role(n->seats, group, state, term, leader);
    metahost_role(n->meta, group, state, term, leader);
}

static void on_truncated(void *ctx, uint32_t group, uint64_t index)
{
    struct nodesim_node *n = ctx;
    world_trace(n->sim->w, n->id, "group %u: what it submitted at %llu is gone", group, (unsigned long long)index);
    if (is_data(group)) seats_truncated(n->seats, group, index);
    else metahost_truncated(n->meta, group, index);
}

static void on_members(void *ctx, uint32_t group, const struct raftnode_members *members) { metahost_members(((struct nodesim_node *)ctx)->meta, group, members); }

enum { ROUND_BITS = 48 }; /* a ticket is the group, and the round of its confirmations */

static void confirmed(struct nodesim_node *n, uint64_t ticket, int rc) { seats_confirmed(n->seats, (uint32_t)(ticket >> ROUND_BITS), ticket & ((1ull << ROUND_BITS) - 1), rc); }
static void on_read_ok(void *ctx, uint64_t ticket, uint64_t index) { confirmed(ctx, ticket, 0); }
static void on_read_failed(void *ctx, uint64_t ticket) { confirmed(ctx, ticket, -EPERM); }

static void on_changed(void *ctx, uint32_t group, uint64_t node, enum raftnode_role role, int rc)
{
    struct nodesim_node *n = ctx;
    world_trace(n->sim->w, n->id, "group %u: change of %llu to role %d ended with %d", group, (unsigned long long)node, (int)role, rc);
    metahost_changed(n->meta, group, node, role, rc);
}

static void on_describe(void *ctx, uint32_t group, uint64_t index, struct buf *out) { nodesim_snap_describe(ctx, group, index, out); }

static void on_install_wanted(void *ctx, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor)
{
    struct nodesim_node *n = ctx;
    world_trace(n->sim->w, n->id, "group %u: shall take %llu's snapshot at %llu", group, (unsigned long long)from, (unsigned long long)index);
    nodesim_snap_install(n, group, from, index, term, descriptor);
}

static void on_marked(void *ctx, uint32_t group, uint64_t index) { nodesim_snap_marked(ctx, group, index); }
static void on_stranger(void *ctx, uint32_t group, uint64_t from) { metahost_stranger(((struct nodesim_node *)ctx)->meta, group, from); }

static void on_broken(void *ctx, uint32_t group, const char *why)
{
    struct nodesim_node *n = ctx;
    world_fail(n->sim->w, "group %u: node %u stands still: %s", group, n->id, why);
}

static void on_gone(void *ctx, uint32_t group) { nodesim_snap_drop(ctx, group); }

const struct raftnode_out nodesim_upcalls = {
    .send = on_send,
    .committed = on_committed,
    .role = on_role,
    .truncated = on_truncated,
    .members = on_members,
    .read_ok = on_read_ok,
    .read_failed = on_read_failed,
    .changed = on_changed,
    .describe = on_describe,
    .install_wanted = on_install_wanted,
    .marked = on_marked,
    .stranger = on_stranger,
    .broken = on_broken,
    .gone = on_gone,
};

/* ---- what seats ask for */

static void seats_wake(void *ctx) { nodesim_wake(ctx); }

static int submit(void *ctx, uint32_t group, uint64_t term, struct slice data, uint64_t *index) { return raftnode_submit(((struct nodesim_node *)ctx)->raft, group, term, data, index); }
static void ask_round(void *ctx, uint32_t group, uint64_t round) { raftnode_read(((struct nodesim_node *)ctx)->raft, group, (uint64_t)group << ROUND_BITS | round); }

static void refill(void *ctx, uint32_t group)
{
    struct nodesim_node *n = ctx;
    world_trace(n->sim->w, n->id, "group %u: its seat is spoilt", group);
    nodesim_snap_put(n, &(struct nodesim_job){.kind = NODESIM_REFILL, .group = group});
}

static void told(void *ctx)
{
    struct nodesim_node *n = ctx;
    if (n->planned_look || n->n_guests == 0) return;
    n->planned_look = true;
    world_after(n->sim->w, n->id, 1 + rng_below(nodesim_rng(n), 100), NODESIM_LOOK, 0);
}

/* ---- between the engine and the seats: for a mutant, and to know which reign a command is of */

static uint64_t reign_of(struct nodesim_node *n, uint32_t group)
{
    struct seat_info info;
    return seats_look(n->seats, group, &info) && seats_serves(n->seats, group) ? info.reign : 0;
}

static bool admits(void *ctx, const struct task *t, const struct request *r, const struct shard *s)
{
    struct nodesim_node *n = ctx;
    n->admitted = reign_of(n, r->group);
    bool admitted = n->real->admits(n->real->ctx, t, r, s);
    if (n->sim->mutant == NODESIM_READ_INTENT && n->admitted && (r->cmd->flags & (CMD_READONLY | CMD_OF_GROUP)) == CMD_READONLY) return true;
    if (n->sim->mutant == NODESIM_ON_THEIR_WAY && n->admitted && r->cmd->flags & CMD_ALL_KEYS) return true;
    if (n->sim->mutant == NODESIM_NO_FENCE && n->admitted && !(r->cmd->flags & CMD_OF_GROUP) && !intents_any(n->real->intents(n->real->ctx, s))) return true;
    return admitted;
}

static bool repeats(void *ctx, const struct task *t, const struct request *r, const struct shard *s, struct hold *h)
{
    struct nodesim_node *n = ctx;
    if (n->sim->mutant == NODESIM_NO_RECORD || !n->real->repeats(n->real->ctx, t, r, s, h)) return false;
    n->sim->result->repeated += h->repeated;
    return true;
}

static void ran(void *ctx, const struct task *t, const struct request *r, const struct shard *s, const struct exec *x, struct hold *h)
{
    struct nodesim_node *n = ctx;
    if (n->sim->mutant == NODESIM_OLD_REIGN && reign_of(n, r->group) != n->admitted) h->bounced = true; /* its ops stay where they are gathered */
    else n->real->ran(n->real->ctx, t, r, s, x, h);
}

static bool rules(void *ctx, const struct shard *s)
{
    struct nodesim_node *n = ctx;
    return n->real->rules(n->real->ctx, s);
}

static void settle(void *ctx, const struct shard *s)
{
    struct nodesim_node *n = ctx;
    if (n->sim->mutant == NODESIM_OLD_REIGN && !n->real->rules(n->real->ctx, s)) return;
    n->real->settle(n->real->ctx, s);
}

static struct intents *intents(void *ctx, const struct shard *s)
{
    struct nodesim_node *n = ctx;
    return n->real->intents(n->real->ctx, s);
}

static struct holding *holding(void *ctx, const struct shard *s)
{
    struct nodesim_node *n = ctx;
    return n->real->holding(n->real->ctx, s);
}

static uint32_t group_of(void *ctx, const struct shard *s)
{
    struct nodesim_node *n = ctx;
    return n->real->group(n->real->ctx, s);
}

static bool serves(void *ctx, const struct shard *s, struct slice key)
{
    struct nodesim_node *n = ctx;
    return n->real->serves(n->real->ctx, s, key);
}

/* In the middle of a command, when its ops are in the store and nobody has taken them: the worker stands still for a while, and the world goes on. Often just then its node loses the group. */
static void stand_still(void *ctx, const struct task *t, const struct exec *x, uint64_t ticks)
{
    struct nodesim_node *n = ctx;
    struct nodesim *s = n->sim;
    struct rng *rng = world_rng(s->w);
    if (s->held || !s->load || !t->requests || rng_below(rng, 120)) return; /* without requests: a part of another one */
    uint32_t group = t->requests[t->pos].group;
    s->held = n->id;
    n->busy = true;
    s->result->held++;
    bool transfer = rng_below(rng, 2) && nodesim_raft_runs(n);
    world_trace(s->w, n->id, "group %u: a command stands still", group);
    if (transfer) {
        nodesim_begin_turn(n);
        raftnode_transfer(n->raft, group, 0);
        nodesim_end_turn(n);
    }
    world_run(s->w, rng_below(rng, (transfer ? 1500 : 100) * WORLD_MS));
    n->busy = false;
    s->held = 0;
}

/* ---- what the cluster's state asks for */

static int add_seat(struct nodesim_node *n, uint32_t group)
{
    int rc = is_data(group) ? seats_add(n->seats, group) : 0;
    return rc == -EEXIST ? 0 : rc;
}

static int meta_create(void *ctx, uint32_t group, const struct raftnode_member *members, uint32_t count)
{
    struct nodesim_node *n = ctx;
    int rc = add_seat(n, group);
    return rc == 0 ? raftnode_group_create(n->raft, group, members, count) : rc;
}

static int meta_join(void *ctx, uint32_t group)
{
    struct nodesim_node *n = ctx;
    int rc = add_seat(n, group);
    if (rc == 0) rc = raftnode_group_join(n->raft, group);
    world_trace(n->sim->w, n->id, "group %u: joins, %d", group, rc);
    return rc;
}

static void meta_drop(void *ctx, uint32_t group)
{
    struct nodesim_node *n = ctx;
    world_trace(n->sim->w, n->id, "group %u: drops its replica", group);
    n->sim->result->drops++;
    raftnode_group_drop(n->raft, group);
    if (is_data(group)) seats_remove(n->seats, group);
    n->leads[group] = false;
}

static void meta_transfer(void *ctx, uint32_t group, uint64_t to)
{
    struct nodesim_node *n = ctx;
    n->sim->result->transfers += raftnode_transfer(n->raft, group, to) == 0;
}

static int meta_change(void *ctx, uint32_t group, uint64_t node, enum raftnode_role role)
{
    struct nodesim_node *n = ctx;
    int rc = raftnode_change(n->raft, group, node, role);
    world_trace(n->sim->w, n->id, "group %u: change of %llu to role %d: %d", group, (unsigned long long)node, (int)role, rc);
    return rc;
}

static int meta_look(void *ctx, uint32_t group, struct raftnode_info *out) { return raftnode_look(((struct nodesim_node *)ctx)->raft, group, out); }

static void meta_rewind(void *ctx, uint32_t group, uint64_t index)
{
    struct nodesim_node *n = ctx;
    if (raftnode_rewind(n->raft, group, index) != 0) world_fail(n->sim->w, "group %u: node %u cannot go back to %llu", group, n->id, (unsigned long long)index);
}

static void meta_peer_put(void *ctx, uint64_t node, const char *address)
{
    struct nodesim_node *n = ctx;
    if (node == n->id || node > NODESIM_NODES) return;
    snprintf(n->peers[node], sizeof n->peers[node], "%s", address);
    memcpy(machine_of(n)->peers[node], n->peers[node], sizeof n->peers[node]);
}

static void meta_peer_del(void *ctx, uint64_t node)
{
    struct nodesim_node *n = ctx;
    n->peers[node][0] = machine_of(n)->peers[node][0] = 0;
}

static void meta_send(void *ctx, uint64_t peer, struct slice frames) { nodesim_send(ctx, peer, frames); }

struct new_map {
    struct mail mail;
    struct space_map *map;
};

static void set_map(struct worker *w, struct mail *m)
{
    struct new_map *to = (struct new_map *)m;
    topology_follow(w->engine->topology, w, to->map);
    mem_free(to);
}

static void meta_map(void *ctx, struct space_map *m)
{
    struct nodesim_node *n = ctx;
    struct new_map *to = mem_alloc(sizeof *to);
    nodesim_topology_map(n, m);
    *to = (struct new_map){.mail.to_worker = set_map, .map = m};
    engine_send(n->engine, 0, &to->mail);
}

static void meta_failed(void *ctx, const char *why)
{
    struct nodesim_node *n = ctx;
    world_trace(n->sim->w, n->id, "%s", why);
    if (!machine_of(n)->leaving && !n->sim->impatient) world_fail(n->sim->w, "node %u must end: %s", n->id, why);
    n->ends = true;
}

static bool meta_reaches(void *ctx, uint64_t peer)
{
    const struct nodesim_node *n = ctx;
    return world_reaches(n->sim->w, n->id, (uint32_t)peer);
}

const struct metahost_calls nodesim_meta_calls = {
    .propose = submit,
    .create = meta_create,
    .join = meta_join,
    .drop = meta_drop,
    .transfer = meta_transfer,
    .change = meta_change,
    .look = meta_look,
    .rewind = meta_rewind,
    .peer_put = meta_peer_put,
    .peer_del = meta_peer_del,
    .send = meta_send,
    .map = meta_map,
    .failed = meta_failed,
    .reaches = meta_reaches,
};

/* ---- */

static void mapped(void *ctx)
{
    struct nodesim_node *n = ctx;
    if (n->lists) world_after(n->sim->w, n->id, 1, NODESIM_LIST_WAKE, 0);
}

void nodesim_make_seats(struct nodesim_node *n)
{
    struct seats_options o = {.engine = n->engine,
                              .raft = {n, seats_wake, submit, ask_round},
                              .now = n->mono,
                              .uncertain_after_ms = UNCERTAIN_MS,
                              .refill = refill,
                              .told = told,
                              .ctx = n};
    n->seats = seats_new(&o);
    n->real = n->engine->seating;
    n->seating = (struct seating){.ctx = n, .admits = admits, .repeats = repeats, .ran = ran, .rules = rules, .settle = settle, .intents = intents, .holding = holding, .group = group_of, .serves = serves};
    n->engine->seating = &n->seating;
    n->engine->hooks.slow = stand_still;
    n->engine->hooks.mapped = mapped;
    n->engine->hooks.ctx = n;
    atomic_store(&n->engine->slow_ticks, 0); /* every command may be held up */
}
