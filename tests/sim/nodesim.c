#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/le.h"
#include "base/mem.h"
#include "cluster/termboard.h"
#include "cluster/wire.h"
#include "cluster/wireraft.h"
#include "nodesim_own.h"
#include "shard/task.h"
#include "shard/topology.h"

enum {
    SEED = 7777, /* of the hash of keys */
    EPOCH_MS = 0x19000000000, /* when the world's clock began: all nodes think it is some day in 2025 */
    UPKEEP_MS = 100,
    RAFT_STILL_MS = 2500,
    LATE_HEAD = 12,
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

/* ---- the raft thread's turn */

bool nodesim_raft_runs(const struct nodesim_node *n) { return world_now(n->sim->w) >= n->raft_until; }

void nodesim_hold_raft(struct nodesim_node *n, uint64_t us)
{
    struct world *w = n->sim->w;
    world_trace(w, n->id, "its raft thread stands still");
    n->raft_until = world_now(w) + us;
    world_after(w, n->id, us, NODESIM_TURN, 0);
}

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
    struct rng *rng = nodesim_rng(n);
    if (n->sim->admin && rng_below(rng, 3000) == 0) nodesim_hold_raft(n, rng_below(rng, RAFT_STILL_MS * WORLD_MS));
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

static void on_frames(struct nodesim_node *n, uint32_t from, struct slice bytes)
{
    if (!lets_in(n, from)) return;
    while (bytes.n) {
        struct wire_frame f;
        const char *why = "";
        CHECK(wire_frame(bytes, &f, &why) == WIRE_OK);
        if (!nodesim_topology_blinds(n->sim, from, n->id, &f)) on_frame(n, from, &f);
        bytes = slice_of(bytes.p + f.whole.n, bytes.n - f.whole.n);
    }
}

/* But for those of a life of their sender that is over: their connection is, too. */
static void take_late(struct nodesim_node *n)
{
    for (struct slice rest = buf_slice(&n->late); rest.n;) {
        uint32_t from = le_u32(rest.p), life = le_u32(rest.p + 4), len = le_u32(rest.p + 8);
        if (life == (uint32_t)n->sim->machines[from].incarnation) on_frames(n, from, slice_of(rest.p + LATE_HEAD, len));
        rest = slice_of(rest.p + LATE_HEAD + len, rest.n - LATE_HEAD - len);
    }
    n->late.len = 0;
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

static void do_raft_task(struct nodesim_node *n, enum nodesim_task kind, uint64_t arg)
{
    nodesim_begin_turn(n);
    take_late(n);
    if (kind == NODESIM_TURN) n->woken = false;
    if (kind == NODESIM_WRITTEN) on_written(n);
    if (kind == NODESIM_CHORE) on_chore(n);
    if (kind == NODESIM_RETRY) raftlog_retry_chores(n->log);
    if (kind == NODESIM_JOB) nodesim_snap_job(n);
    if (kind == NODESIM_COURIER) nodesim_snap_courier(n);
    nodesim_mover_raft(n, kind, arg);
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
    if (kind >= NODESIM_LEG && kind <= NODESIM_LEG_TIME && !nodesim_leg_task(n, kind, arg)) return false;
    nodesim_txn_task(n, kind, arg);
    if (kind == NODESIM_WIDE_WAKE) nodesim_wide_wake(n, arg);
    if (kind == NODESIM_LIST_WAKE) nodesim_list_wake(n);
    if (kind == NODESIM_FORWARD) nodesim_forward_go_on(n, arg);
    nodesim_proof_task(n, kind, arg);
    nodesim_mover_task(n, kind, arg);
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
    if (!works && !nodesim_raft_runs(n)) {
        world_after(n->sim->w, n->id, n->raft_until - world_now(n->sim->w), kind, arg);
        return;
    }
    if (works && !do_work_task(n, kind, arg)) return;
    if (!works) do_raft_task(n, kind, arg);
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
    case NODESIM_LOCK: nodesim_lock_event(s, arg); break;
    case NODESIM_PIPE: nodesim_pipe_event(s, arg); break;
    case NODESIM_LIST: nodesim_list_event(s, arg); break;
    case NODESIM_TOPOLOGY: nodesim_topology_admin(s); break;
    case NODESIM_STRIKE: nodesim_topology_strike(s, arg); break;
    case NODESIM_TXN_CLIENT:
    case NODESIM_TXN_END:
    case NODESIM_TXN_TIMEOUT: nodesim_txn_event(s, (enum nodesim_task)kind, arg); break;
    default: do_task(self, (enum nodesim_task)kind, arg);
    }
}

static void on_receive(void *ctx, void *self, uint32_t from, struct slice bytes)
{
    struct nodesim_node *n = self;
    if (!n->member) return;
    if (!nodesim_raft_runs(n)) {
        le_add_u32(&n->late, from);
        le_add_u32(&n->late, (uint32_t)n->sim->machines[from].incarnation);
        le_add_u32(&n->late, (uint32_t)bytes.n);
        buf_add_slice(&n->late, bytes);
        return;
    }
    nodesim_begin_turn(n);
    take_late(n);
    on_frames(n, from, bytes);
    nodesim_end_turn(n);
    if (n->ends && !n->busy) resign(n);
}

static void on_timer(void *ctx, void *self)
{
    struct nodesim_node *n = self;
    if (n->member && nodesim_raft_runs(n)) do_task(n, NODESIM_TURN, 0); /* else a turn is on its way */
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
    struct raftnode_options o = {.id = n->id, .seed = rng_u64(rng), .now = n->clock, .reserve_bytes = 4096, .install_ms = 3000, .prompt_groups = META_FIRST_DATA_GROUP, .board = n->board = termboard_new(NODESIM_GROUPS)};
    struct raftnode_out out = nodesim_upcalls;
    out.ctx = n;
    n->raft = raftnode_new(&o, n->log, &out);
    return true;
}

static void open_engine(struct nodesim_node *n)
{
    n->engine = engine_new(1 + NODESIM_DATA + NODESIM_NEW + 1, SEED, rng_u64(nodesim_rng(n)), n->sim->commands);
    n->engine->ticks_per_ms = UINT64_MAX; /* the worker's clock is ours */
    n->worker = aligned_alloc(_Alignof(struct worker), sizeof *n->worker);
    engine_init_worker(n->worker, n->engine);
    topology_new(n->engine);
    nodesim_make_seats(n);
    nodesim_txn_open(n);
    nodesim_forward_open(n);
    nodesim_mover_open(n);
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
                                 .seats = NODESIM_DATA + NODESIM_NEW,
                                 .me = description(m),
                                 .founding = n->id <= s->founders ? &first : NULL,
                                 .calls = nodesim_meta_calls,
                                 .log = &s->log};
    memcpy(o.cluster, nodesim_cluster, sizeof o.cluster);
    o.calls.ctx = n;
    n->meta = metahost_new(&o);
    for (uint32_t id = 1; id <= NODESIM_NODES; id++)
        if (n->peers[id][0]) metahost_peer(n->meta, id, n->peers[id]);
}

/* Replicas that the log has come back from their snapshots, one after the other; a new founder makes its own. */
static void recover(struct nodesim_node *n)
{
    uint32_t groups[NODESIM_GROUPS], count = raftnode_found(n->log, groups, NODESIM_GROUPS);
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
    nodesim_leg_close(n);
    nodesim_txn_close(n);
    nodesim_wide_close(n);
    nodesim_forward_close(n);
    nodesim_list_close(n);
    memset(n->leads, 0, sizeof n->leads);
    struct metahost *meta = n->meta;
    n->meta = NULL; /* those who asked are told */
    metahost_free(meta);
    nodesim_mover_close(n);
    raftnode_free(n->raft);
    raftlog_close(n->log);
    termboard_free(n->board);
    n->log = NULL;
    n->raft = NULL;
    n->board = NULL;
    nodesim_snap_close(n);
}

static void close_engine(struct nodesim_node *n)
{
    for (int i = 0; i < 8; i++) work(n); /* mail is freed by whoever gets it */
    seats_free(n->seats);
    topology_free(n->engine->topology);
    engine_fini_worker(n->worker);
    free(n->worker);
    engine_free(n->engine);
    for (uint32_t i = 0; i < n->n_guests; i++) buf_fini(&n->guests[i].reply);
    mem_free(n->guests);
    buf_fini(&n->late);
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
