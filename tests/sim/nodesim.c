#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "cluster/wire.h"
#include "cluster/wireraft.h"
#include "nodesim_own.h"
#include "shard/task.h"

enum {
    SEED = 7777, /* of the hash of keys */
    EPOCH_MS = 0x19000000000, /* when the world's clock began: all nodes think it is some day in 2025 */
    UPKEEP_MS = 100,
    UNCERTAIN_MS = 2000,
};

const uint8_t nodesim_cluster[META_CLUSTER_ID] = "a world of nodes";

struct rng *nodesim_rng(const struct nodesim_node *n) { return world_rng(n->sim->w); }

static struct nodesim_machine *machine_of(const struct nodesim_node *n) { return &n->sim->machines[n->id]; }
static bool is_data(uint32_t group) { return group >= META_FIRST_DATA_GROUP; }

int64_t nodesim_unix_ms(const struct nodesim_node *n) { return EPOCH_MS + (int64_t)world_clock(n->sim->w, n->id) + machine_of(n)->skew_ms; }

void nodesim_wake(struct nodesim_node *n)
{
    if (n->woken || !n->log) return;
    n->woken = true;
    world_after(n->sim->w, n->id, 1 + rng_below(nodesim_rng(n), 200), NODESIM_TURN, 0);
}

/* Mostly at once; but the worker has other things to do, too. */
void nodesim_plan_work(struct nodesim_node *n)
{
    if (n->planned_work || !n->log || !atomic_load(&n->worker->inbox)) return;
    n->planned_work = true;
    world_after(n->sim->w, n->id, rng_below(nodesim_rng(n), rng_below(nodesim_rng(n), 20) ? 200 : 30 * WORLD_MS), NODESIM_WORK, 0);
}

void nodesim_send(struct nodesim_node *n, uint64_t peer, struct slice frames)
{
    if (peer <= NODESIM_NODES && n->peers[peer][0]) world_send(n->sim->w, n->id, (uint32_t)peer, frames);
}

/* ---- upcalls of Raft */

static void on_send(void *ctx, uint64_t peer, struct slice frames) { nodesim_send(ctx, peer, frames); }

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

static const struct raftnode_out upcalls = {
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
    return n->real->admits(n->real->ctx, t, r, s);
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

/* In the middle of a command, when its ops are in the store and nobody has taken them: the worker stands still for a while, and the world goes on. Often just then its node loses the group. */
static void stand_still(void *ctx, const struct task *t, const struct exec *x, uint64_t ticks)
{
    struct nodesim_node *n = ctx;
    struct nodesim *s = n->sim;
    struct rng *rng = world_rng(s->w);
    uint32_t group = t->requests[t->pos].group;
    if (s->held || !s->load || rng_below(rng, 120)) return;
    s->held = n->id;
    n->busy = true;
    s->result->held++;
    bool transfer = rng_below(rng, 2);
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
    engine_set_map(w->engine, w, to->map);
    mem_free(to);
}

static void meta_map(void *ctx, struct space_map *m)
{
    struct nodesim_node *n = ctx;
    struct new_map *to = mem_alloc(sizeof *to);
    *to = (struct new_map){.mail.to_worker = set_map, .map = m};
    engine_send(n->engine, 0, &to->mail);
}

static void meta_failed(void *ctx, const char *why)
{
    struct nodesim_node *n = ctx;
    world_trace(n->sim->w, n->id, "%s", why);
    if (!machine_of(n)->leaving) world_fail(n->sim->w, "node %u must end: %s", n->id, why);
    n->ends = true;
}

static const struct metahost_calls meta_calls = {
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
};

/* ---- the raft thread's turn */

void nodesim_begin_turn(struct nodesim_node *n)
{
    uint64_t clock = world_clock(n->sim->w, n->id);
    if (clock > n->clock) n->mono += clock - n->clock;
    n->clock = clock;
    raftnode_tick(n->raft, clock);
}

static void begin_write(struct nodesim_node *n)
{
    struct world *w = n->sim->w;
    if (!n->writing && raftlog_begin_write(n->log, &n->write)) {
        n->writing = true;
        world_after(w, n->id, world_disk_us(w, n->id), NODESIM_WRITTEN, 0);
    }
    if (!n->choring && raftlog_begin_chore(n->log, &n->chore)) {
        n->choring = true;
        world_after(w, n->id, 5 * world_disk_us(w, n->id), NODESIM_CHORE, 0);
    }
}

/* Logs become long; here that means some dozen entries. */
static void want_snapshot(struct nodesim_node *n)
{
    uint32_t group = (uint32_t)rng_below(nodesim_rng(n), NODESIM_GROUPS);
    struct raftnode_info info;
    if (raftnode_look(n->raft, group, &info) != 0 || info.installing || info.handed < info.snapshot + 5 + rng_below(nodesim_rng(n), 60)) return;
    nodesim_snap_put(n, &(struct nodesim_job){.kind = NODESIM_TAKE, .group = group});
}

static void plan_timer(struct nodesim_node *n)
{
    uint64_t next = raftnode_next(n->raft), meta = metahost_next(n->meta);
    if (meta != UINT64_MAX) meta = n->clock + (meta > n->mono ? meta - n->mono : 1);
    world_timer(n->sim->w, n->id, next < meta ? next : meta);
}

void nodesim_end_turn(struct nodesim_node *n)
{
    seats_turn(n->seats, n->mono);
    if (n->mono >= metahost_next(n->meta)) metahost_tick(n->meta, n->mono);
    raftnode_flush(n->raft);
    if (n->turns++ % 16 == 0) {
        raftnode_check(n->raft);
        want_snapshot(n);
    }
    begin_write(n);
    if (seats_tell(n->seats)) nodesim_wake(n);
    nodesim_snap_plan(n);
    nodesim_plan_work(n);
    plan_timer(n);
}

static void on_written(struct nodesim_node *n)
{
    int rc = raftlog_write_run(world_disk(n->sim->w, n->id), &n->write);
    if (rc < 0) world_fail(n->sim->w, "node %u: a write of its log failed: %d", n->id, rc);
    n->writing = false;
    raftlog_written(n->log, n->write.batch, rc);
    raftnode_persisted(n->raft);
}

static void on_chore(struct nodesim_node *n)
{
    int rc = raftlog_chore_run(world_disk(n->sim->w, n->id), &n->chore);
    n->choring = false;
    raftlog_chore_done(n->log, rc);
    if (rc < 0) world_after(n->sim->w, n->id, 200 * WORLD_MS, NODESIM_RETRY, 0);
}

static void on_frame(struct nodesim_node *n, uint32_t from, const struct wire_frame *f)
{
    int rc = 0;
    switch (f->type) {
    case WIRE_SNAP_OFFER:
    case WIRE_SNAP_WANT:
    case WIRE_SNAP_CHUNK:
    case WIRE_SNAP_DONE: nodesim_snap_frame(n, from, f); break;
    case WIRE_STATUS:
    case WIRE_REQUEST:
    case WIRE_ANSWER: rc = metahost_frame(n->meta, from, f); break;
    default: rc = raftnode_receive(n->raft, from, f);
    }
    if (rc < 0) world_fail(n->sim->w, "node %u does not understand a frame of type %s from %u", n->id, wire_type_name(f->type), from);
}

/* A node that links do not know is asked who it is. */
static bool lets_in(struct nodesim_node *n, uint32_t from)
{
    struct wire_hello hello = {.node = from, .to = n->id, .incarnation = n->sim->machines[from].incarnation};
    if (n->peers[from][0]) return true;
    memcpy(hello.cluster, nodesim_cluster, sizeof hello.cluster);
    snprintf(hello.address, sizeof hello.address, "%s", n->sim->machines[from].address);
    return metahost_caller(n->meta, &hello);
}

/* ---- the worker's turn */

static void work(struct nodesim_node *n)
{
    n->worker->now_ms = nodesim_unix_ms(n);
    engine_receive(n->worker);
    task_pump(n->worker);
}

static int64_t no_clock(void) { return 0; }

static void upkeep(struct nodesim_node *n)
{
    const struct engine *e = n->engine;
    for (uint32_t i = 0; i < e->route.shards; i++) {
        struct shard *s = &e->shards[i];
        if (!engine_try(s)) continue;
        task_enter(n->worker, s);
        if (e->seating->rules(e->seating->ctx, s)) store_expire_step(s->store, 1, no_clock);
        e->seating->settle(e->seating->ctx, s);
        engine_release(n->worker, s);
    }
}

/* ---- what the world calls */

static void resign(struct nodesim_node *n);

static void do_raft_task(struct nodesim_node *n, enum nodesim_task kind)
{
    nodesim_begin_turn(n);
    if (kind == NODESIM_TURN) n->woken = false;
    if (kind == NODESIM_WRITTEN) on_written(n);
    if (kind == NODESIM_CHORE) on_chore(n);
    if (kind == NODESIM_RETRY) raftlog_retry_chores(n->log);
    if (kind == NODESIM_JOB) nodesim_snap_job(n);
    if (kind == NODESIM_COURIER) nodesim_snap_courier(n);
    nodesim_end_turn(n);
}

/* False: the process is not there any more. */
static bool do_work_task(struct nodesim_node *n, enum nodesim_task kind, uint64_t arg)
{
    if (kind == NODESIM_WORK) n->planned_work = false;
    if (kind == NODESIM_LOOK) n->planned_look = false;
    if (kind == NODESIM_UPKEEP) world_after(n->sim->w, n->id, UPKEEP_MS * WORLD_MS + rng_below(nodesim_rng(n), 20 * WORLD_MS), NODESIM_UPKEEP, 0);
    work(n);
    if (kind == NODESIM_UPKEEP) upkeep(n);
    if (kind == NODESIM_REQUEST && !nodesim_client_request(n, (uint32_t)arg)) return false;
    if (kind == NODESIM_LOOK || kind == NODESIM_UPKEEP) nodesim_client_look(n);
    work(n);
    seats_hurry(n->seats);
    nodesim_plan_work(n);
    return true;
}

static void do_task(struct nodesim_node *n, enum nodesim_task kind, uint64_t arg)
{
    bool works = kind >= NODESIM_WORK && kind <= NODESIM_LOOK;
    if (!n->member && kind == NODESIM_BEGIN) nodesim_become(n);
    if (!n->member || kind == NODESIM_BEGIN) return;
    if (n->busy && (works || kind == NODESIM_JOB)) {
        world_after(n->sim->w, n->id, 500 + rng_below(nodesim_rng(n), 500), kind, arg);
        return;
    }
    if (works && !do_work_task(n, kind, arg)) return;
    if (!works) do_raft_task(n, kind);
    if (n->ends && !n->busy) resign(n);
}

static void on_task(void *ctx, void *self, uint32_t kind, uint64_t arg)
{
    struct nodesim *s = ctx;
    switch ((enum nodesim_task)kind) {
    case NODESIM_CLIENT: nodesim_client_begin(s, (uint32_t)arg); break;
    case NODESIM_ANSWER: nodesim_client_answer(s, (uint32_t)arg); break;
    case NODESIM_TIMEOUT: nodesim_client_timeout(s, (uint32_t)(arg >> 32), (uint32_t)arg); break;
    case NODESIM_ADMIN: nodesim_story_admin(s); break;
    default: do_task(self, (enum nodesim_task)kind, arg);
    }
}

static void on_receive(void *ctx, void *self, uint32_t from, struct slice bytes)
{
    struct nodesim_node *n = self;
    if (!n->member || !lets_in(n, from)) return;
    nodesim_begin_turn(n);
    while (bytes.n) {
        struct wire_frame f;
        const char *why = "";
        CHECK(wire_frame(bytes, &f, &why) == WIRE_OK);
        on_frame(n, from, &f);
        bytes = slice_of(bytes.p + f.whole.n, bytes.n - f.whole.n);
    }
    nodesim_end_turn(n);
    if (n->ends && !n->busy) resign(n);
}

static void on_timer(void *ctx, void *self)
{
    struct nodesim_node *n = self;
    if (n->member) do_task(n, NODESIM_TURN, 0);
}

static bool leads(void *ctx, void *self)
{
    const struct nodesim_node *n = self;
    for (uint32_t g = 0; g < NODESIM_GROUPS; g++)
        if (n->leads[g]) return true;
    return false;
}

/* ---- a node begins */

static bool open_raft(struct nodesim_node *n)
{
    struct world *w = n->sim->w;
    struct rng *rng = world_rng(w);
    struct buf error = {0};
    struct raftlog_options log = {.segment_bytes = 64 * 1024 << rng_below(rng, 3), .cache_bytes = 1024 << rng_below(rng, 6), .random = rng_u64(rng)};
    n->log = raftlog_open(world_disk(w, n->id), "/n/log", &log, &error);
    if (!n->log && machine_of(n)->incarnation) world_fail(w, "node %u: its log cannot be opened: %.*s", n->id, (int)error.len, error.p);
    if (!n->log) world_after(w, n->id, 300 * WORLD_MS, NODESIM_BEGIN, 0); /* a new one, on a full disk: it is tried again */
    buf_fini(&error);
    if (!n->log) return false;
    struct raftnode_options o = {.id = n->id, .seed = rng_u64(rng), .now = n->clock, .reserve_bytes = 4096, .install_ms = 3000};
    struct raftnode_out out = upcalls;
    out.ctx = n;
    n->raft = raftnode_new(&o, n->log, &out);
    return true;
}

static void open_engine(struct nodesim_node *n)
{
    n->engine = engine_new(1 + NODESIM_DATA + 1, SEED, rng_u64(nodesim_rng(n)), n->sim->commands);
    n->engine->ticks_per_ms = UINT64_MAX; /* the worker's clock is ours */
    n->worker = aligned_alloc(_Alignof(struct worker), sizeof *n->worker);
    engine_init_worker(n->worker, n->engine);
    struct seats_options o = {.engine = n->engine,
                              .raft = {n, seats_wake, submit, ask_round},
                              .now = n->mono,
                              .uncertain_after_ms = UNCERTAIN_MS,
                              .refill = refill,
                              .told = told,
                              .ctx = n};
    n->seats = seats_new(&o);
    n->real = n->engine->seating;
    n->seating = (struct seating){.ctx = n, .admits = admits, .ran = ran, .rules = rules, .settle = settle};
    n->engine->seating = &n->seating;
    n->engine->hooks.slow = stand_still;
    n->engine->hooks.ctx = n;
    atomic_store(&n->engine->slow_ticks, 0); /* every command may be held up */
}

static struct metacode_node description(const struct nodesim_machine *m)
{
    return (struct metacode_node){.instance = m->instance, .peer = slice_str(m->address), .client = slice_str(m->clients), .name = slice_str(m->name), .zone = SLICE("")};
}

static void open_meta(struct nodesim_node *n)
{
    struct nodesim *s = n->sim;
    struct nodesim_machine *m = machine_of(n);
    struct metacode_node founders[NODESIM_NODES];
    for (uint32_t i = 0; i < s->founders; i++) founders[i] = description(&s->machines[i + 1]);
    struct metaplace_cluster first = {.seed = SEED, .default_mode = SPACE_BUCKET, .shards = NODESIM_DATA, .replication = 3, .nodes = founders, .n_nodes = s->founders};
    memcpy(first.id, nodesim_cluster, sizeof first.id);
    struct metahost_options o = {.node = n->id,
                                 .incarnation = ++m->incarnation,
                                 .now = n->mono,
                                 .seed = rng_u64(nodesim_rng(n)),
                                 .me = description(m),
                                 .founding = n->id <= s->founders ? &first : NULL,
                                 .calls = meta_calls,
                                 .log = &s->log};
    memcpy(o.cluster, nodesim_cluster, sizeof o.cluster);
    o.calls.ctx = n;
    n->meta = metahost_new(&o);
}

/* Replicas that the log has come back from their snapshots, one after the other; a new founder makes its own. */
static void recover(struct nodesim_node *n)
{
    uint32_t groups[NODESIM_GROUPS], count = raftlog_groups(n->log, groups, NODESIM_GROUPS);
    for (uint32_t i = 0; i < count; i++) {
        struct raftlog_state st;
        CHECK(raftlog_state(n->log, groups[i], &st));
        if (is_data(groups[i])) CHECK(seats_add(n->seats, groups[i]) == 0);
        nodesim_snap_put(n, &(struct nodesim_job){.kind = NODESIM_RECOVER, .group = groups[i], .index = st.mark_index});
    }
    if (count == 0) metahost_found(n->meta);
}

void nodesim_become(struct nodesim_node *n)
{
    n->clock = world_clock(n->sim->w, n->id);
    n->mono = n->clock;
    memcpy(n->peers, machine_of(n)->peers, sizeof n->peers);
    if (!open_raft(n)) return;
    open_engine(n);
    nodesim_snap_open(n);
    open_meta(n);
    n->member = true;
    nodesim_begin_turn(n);
    recover(n);
    nodesim_end_turn(n);
    world_after(n->sim->w, n->id, UPKEEP_MS * WORLD_MS, NODESIM_UPKEEP, 0);
}

static void *start(void *ctx, struct world *w, uint32_t node)
{
    struct nodesim *s = ctx;
    struct nodesim_node *n = mem_zalloc(sizeof *n);
    n->sim = s;
    n->id = node;
    if (s->machines[node].member && !s->machines[node].gone) nodesim_become(n);
    return n;
}

/* ---- and ends */

/* Of a write that is under way all, a part or nothing is on the disk, unsynced. */
static void leave_write(struct nodesim_node *n)
{
    const struct file_ops *ops = world_disk(n->sim->w, n->id);
    struct rng *rng = nodesim_rng(n);
    size_t size = n->write.bytes.n;
    int fd = rng_below(rng, 3) ? ops->open(ops->ctx, n->write.path, FILE_CHANGE) : -1;
    if (fd < 0) return;
    file_write_all(ops, fd, slice_of(n->write.bytes.p, rng_below(rng, 2) ? size : rng_below(rng, size + 1)), n->write.at);
    ops->close(ops->ctx, fd);
}

static void close_raft(struct nodesim_node *n)
{
    if (n->writing) {
        leave_write(n);
        raftlog_written(n->log, n->write.batch, -EIO);
    }
    if (n->choring) {
        if (rng_below(nodesim_rng(n), 2)) raftlog_chore_run(world_disk(n->sim->w, n->id), &n->chore);
        raftlog_chore_done(n->log, -EIO);
    }
    n->member = false;
    memset(n->leads, 0, sizeof n->leads);
    struct metahost *meta = n->meta;
    n->meta = NULL; /* those who asked are told */
    metahost_free(meta);
    raftnode_free(n->raft);
    raftlog_close(n->log);
    n->log = NULL;
    n->raft = NULL;
    nodesim_snap_close(n);
}

static void close_engine(struct nodesim_node *n)
{
    for (int i = 0; i < 8; i++) work(n); /* mail is freed by whoever gets it */
    seats_free(n->seats);
    engine_fini_worker(n->worker);
    free(n->worker);
    engine_free(n->engine);
    for (uint32_t i = 0; i < n->n_guests; i++) buf_fini(&n->guests[i].reply);
    mem_free(n->guests);
}

/* It is no part of the cluster any more; its machine stays. */
static void resign(struct nodesim_node *n)
{
    struct nodesim *s = n->sim;
    uint32_t id = n->id;
    world_trace(s->w, id, "is gone");
    s->machines[id].gone = true;
    s->result->leaves++;
    close_raft(n);
    close_engine(n);
    *n = (struct nodesim_node){.sim = s, .id = id};
}

static void stop(void *ctx, void *self, bool crash)
{
    struct nodesim_node *n = self;
    if (n->member) {
        close_raft(n);
        if (n->busy) return; /* nodesim_free_rest comes when the command has ended */
        close_engine(n);
    }
    mem_free(n);
}

void nodesim_free_rest(struct nodesim_node *n)
{
    close_engine(n);
    mem_free(n);
}

const struct world_program nodesim_program = {
    .start = start,
    .stop = stop,
    .receive = on_receive,
    .timer = on_timer,
    .task = on_task,
    .leads = leads,
};
