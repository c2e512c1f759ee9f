#include "cluster/node.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "cluster/node_own.h"
#include "cluster/wirecall.h"
#include "cluster/linklanes.h"
#include "cluster/termboard.h"
#include "io/file.h"
#include "shard/engine.h"
#include "shard/walk.h"

enum { LOOK_EVERY_MS = 200, PATH_BYTES = 4096 };

/* ---- R: frames that come in pieces */

static struct node_joiner *joiner_of(struct node *n, uint64_t peer)
{
    for (uint32_t i = 0; i < n->n_joiners; i++)
        if (n->joiners[i].peer == peer) return &n->joiners[i];
    n->joiners = mem_resize(n->joiners, (n->n_joiners + 1) * sizeof *n->joiners);
    n->joiners[n->n_joiners] = (struct node_joiner){.peer = peer, .of = wirecall_joiner_new(WIRECALL_JOIN_MAX)};
    return &n->joiners[n->n_joiners++];
}

static void forget_pieces(struct node *n, uint64_t peer)
{
    for (uint32_t i = 0; i < n->n_joiners; i++) {
        if (n->joiners[i].peer != peer) continue;
        wirecall_joiner_free(n->joiners[i].of);
        n->joiners[i] = n->joiners[--n->n_joiners];
        return;
    }
}

static int on_call(struct node *n, uint64_t from, const struct wire_frame *f)
{
    struct slice message;
    switch (wirecall_join(joiner_of(n, from)->of, f, &message)) {
    case WIRE_NEED_MORE: return 0;
    case WIRE_BAD: return -EBADMSG;
    case WIRE_OK: break;
    }
    return f->type == WIRE_REQUEST ? n->calls.request(n->calls.ctx, from, f->group, message) : n->calls.answer(n->calls.ctx, from, f->group, message);
}

static int on_published(struct node *n, uint64_t from, const struct wire_frame *f)
{
    struct wirepub what;
    int rc = wirepub_get(f, &what);
    if (rc == 0) n->calls.published(n->calls.ctx, from, &what);
    return rc;
}

static int on_frame(void *ctx, uint64_t from, const struct wire_frame *f)
{
    struct node *n = ctx;
    switch (f->type) {
    case WIRE_STATUS: return n->meta ? metahost_frame(n->meta, from, f) : 0;
    case WIRE_PUBLISH: return on_published(n, from, f);
    case WIRE_SNAP_OFFER:
    case WIRE_SNAP_WANT:
    case WIRE_SNAP_CHUNK:
    case WIRE_SNAP_DONE: return snaphost_frame(n->snapshots, from, f);
    case WIRE_REQUEST:
    case WIRE_ANSWER:
        if (f->group == NODEFOUND_GROUP) return node_found_frame(n, from, f);
        if (f->group < META_FIRST_DATA_GROUP) return n->meta ? metahost_frame(n->meta, from, f) : 0;
        return on_call(n, from, f);
    default: return -EBADMSG;
    }
}

static void on_up(void *ctx, uint64_t peer, enum links_way way)
{
    struct node *n = ctx;
    if (way == LINKS_IN) forget_pieces(n, peer);
    if (n->meta) metahost_up(n->meta, peer, way);
    snaphost_up(n->snapshots, peer, way);
    struct links_lanes how; /* lanes end with either connection (on_down), so either one may be what they wait for */
    if (raftthread_lanes(n->raft, peer, &how)) n->calls.up(n->calls.ctx, peer, &how);
}

static void on_lane(void *ctx, uint64_t peer, uint16_t lane, int fd, struct slice greeting)
{
    struct node *n = ctx;
    n->calls.lane(n->calls.ctx, peer, lane, fd, greeting);
}

static void on_down(void *ctx, uint64_t peer, enum links_way way)
{
    struct node *n = ctx;
    if (way == LINKS_IN) forget_pieces(n, peer);
    snaphost_down(n->snapshots, peer, way);
    n->calls.down(n->calls.ctx, peer);
}

static bool on_caller(void *ctx, const struct wire_hello *hello)
{
    struct node *n = ctx;
    return n->meta && metahost_caller(n->meta, hello);
}

/* ---- R: upcalls of Raft */

static bool is_data(uint32_t group) { return group >= META_FIRST_DATA_GROUP; }

static void on_committed(void *ctx, uint32_t group, const struct raftnode_entry *entries, uint32_t count)
{
    struct node *n = ctx;
    if (is_data(group)) seats_committed(n->seats, group, entries, count);
    else metahost_committed(n->meta, group, entries, count);
}

static void on_role(void *ctx, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader)
{
    struct node *n = ctx;
    if (group < META_GROUPS_MAX) atomic_store(&n->leaders[group], leader);
    if (is_data(group)) seats_role(n->seats, group, state, term, leader);
    metahost_role(n->meta, group, state, term, leader);
}

static void on_truncated(void *ctx, uint32_t group, uint64_t index)
{
    struct node *n = ctx;
    if (is_data(group)) seats_truncated(n->seats, group, index);
    else metahost_truncated(n->meta, group, index);
}

static void on_members(void *ctx, uint32_t group, const struct raftnode_members *members)
{
    struct node *n = ctx;
    metahost_members(n->meta, group, members);
}

static void on_describe(void *ctx, uint32_t group, uint64_t index, struct buf *out) { snaphost_describe(((struct node *)ctx)->snapshots, group, index, out); }

static void on_install_wanted(void *ctx, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor)
{
    snaphost_install(((struct node *)ctx)->snapshots, group, from, index, term, descriptor);
}

static void on_marked(void *ctx, uint32_t group, uint64_t index) { snaphost_marked(((struct node *)ctx)->snapshots, group, index); }

static void on_gone(void *ctx, uint32_t group) { snaphost_drop(((struct node *)ctx)->snapshots, group); }

static void on_stranger(void *ctx, uint32_t group, uint64_t from)
{
    struct node *n = ctx;
    if (n->meta) metahost_stranger(n->meta, group, from);
}

static void on_snapshot_wanted(void *ctx, uint32_t group, uint64_t log_bytes) { snaphost_wanted(((struct node *)ctx)->snapshots, group, log_bytes); }

static void on_failed(void *ctx, const char *why)
{
    struct node *n = ctx;
    n->calls.failed(n->calls.ctx, why);
}

/* ---- R: the turn */

static void send_spread(struct node *n)
{
    uint64_t dropped = 0;
    struct slice frames = spread_take(&n->spread);
    if (!frames.n) return;
    uint64_t sent = raftthread_spread(n->raft, frames, WIRE_VERSION_PUBLISH, SPREAD_LINK_MAX, &dropped);
    spread_went(&n->spread, sent, dropped);
}

static void on_turn(void *ctx, uint64_t now)
{
    struct node *n = ctx;
    n->now = now;
    node_found_tick(n, now);
    seats_turn(n->seats, now);
    send_spread(n);
    if (n->meta && now >= metahost_next(n->meta)) metahost_tick(n->meta, now);
    if (now >= n->look_at) {
        n->look_at = now + LOOK_EVERY_MS;
        node_publish(n);
    }
}

static bool on_turned(void *ctx) { return seats_tell(((struct node *)ctx)->seats); }

static uint64_t on_next(void *ctx)
{
    const struct node *n = ctx;
    uint64_t next = n->meta ? metahost_next(n->meta) : n->found.next_ms;
    return next < n->look_at ? next : n->look_at;
}

static const struct raftthread_app app_calls = {
    .committed = on_committed,
    .role = on_role,
    .truncated = on_truncated,
    .members = on_members,
    .describe = on_describe,
    .install_wanted = on_install_wanted,
    .marked = on_marked,
    .gone = on_gone,
    .stranger = on_stranger,
    .snapshot_wanted = on_snapshot_wanted,
    .frame = on_frame,
    .up = on_up,
    .lane = on_lane,
    .down = on_down,
    .caller = on_caller,
    .failed = on_failed,
    .turn = on_turn,
    .turned = on_turned,
    .next = on_next,
};

/* ---- what seats ask of Raft */

static void seats_wake(void *ctx) { raftthread_wake(((struct node *)ctx)->raft); } /* any thread */

void node_spread(struct node *n, const struct wirepub *what)
{
    if (spread_put(&n->spread, what)) seats_wake(n);
}

bool node_spreads_much(const struct node *n) { return spread_is_much(&n->spread); }

static int seats_propose(void *ctx, uint32_t group, uint64_t term, struct slice data, uint64_t *index)
{
    return raftthread_propose(((struct node *)ctx)->raft, group, term, data, index);
}

struct confirmation {
    struct node *node;
    uint32_t group;
};

static void confirmed(void *ctx, uint64_t token, int rc, uint64_t index)
{
    struct confirmation *c = ctx;
    seats_confirmed(c->node->seats, c->group, token, rc);
    mem_free(c);
}

static void seats_read(void *ctx, uint32_t group, uint64_t round)
{
    struct node *n = ctx;
    struct confirmation *c = mem_alloc(sizeof *c);
    *c = (struct confirmation){n, group};
    raftthread_confirm(n->raft, group, (struct raftthread_answer){confirmed, c, round});
}

static void seats_refill(void *ctx, uint32_t group)
{
    struct node *n = ctx;
    slog(n->log, SLOG_NOTICE, "a replica ran ahead of its group and is made anew", "group=%u", group);
    snaphost_refill(n->snapshots, group);
}

static void seats_told(void *ctx)
{
    struct node *n = ctx;
    n->calls.told(n->calls.ctx);
}

/* ---- what snapshots ask */

static void snap_state(void *ctx, uint32_t group, struct buf *out, uint64_t *index, uint64_t *term) { metahost_state(((struct node *)ctx)->meta, group, out, index, term); }
static bool snap_restore(void *ctx, uint32_t group, struct slice state, uint64_t index) { return metahost_restore(((struct node *)ctx)->meta, group, state, index); }
static void snap_members(void *ctx, uint32_t group, struct raftnode_members *out) { metahost_members_of(((struct node *)ctx)->meta, group, out); }

/* ---- opening */

static int open_raft(struct node *n, struct buf *error)
{
    const struct node_options *o = &n->o;
    char dir[PATH_BYTES];
    snprintf(dir, sizeof dir, "%s/raft", n->dir);
    struct raftthread_options options = {
        .listen = o->listen,
        .dir = dir,
        .files = o->files,
        .writes = o->writes,
        .links = {.node = n->who.id, .incarnation = n->who.incarnation, .address = o->advertise ? o->advertise : o->listen, .lanes = (uint16_t)n->engine->n_workers, .secret = o->secret, .log = o->log},
        .raft = {.election_ms = o->election_ms, .heartbeat_ms = o->heartbeat_ms, .board = n->board, .prompt_groups = META_FIRST_DATA_GROUP}, /* who has an old map asks in vain */
        .log = {.segment_bytes = o->segment_bytes},
        .snapshot_bytes = o->snapshot_bytes,
    };
    memcpy(options.links.cluster, n->who.cluster, META_CLUSTER_ID);
    struct raftthread_app app = app_calls;
    app.ctx = n;
    n->raft = raftthread_open(&options, &app, error);
    return n->raft ? 0 : -EIO;
}

static int open_snapshots(struct node *n, struct walk *w, struct buf *error)
{
    char dir[PATH_BYTES];
    snprintf(dir, sizeof dir, "%s/snapshots", n->dir);
    struct snaphost_options options = {
        .dir = dir,
        .files = n->o.files,
        .walk = w,
        .seats = n->seats,
        .raft = n->raft,
        .log = n->log,
        .profile = COMPRESS_FAST,
        .ctx = n,
        .state = snap_state,
        .restore = snap_restore,
        .members = snap_members,
        .failed = on_failed,
    };
    memcpy(options.cluster, n->who.cluster, META_CLUSTER_ID);
    n->snapshots = snaphost_open(&options, error);
    return n->snapshots ? 0 : -EIO;
}

struct node *node_open(const struct node_options *o, const struct node_identity *who, struct engine *e, struct walk *w, const struct node_calls *calls, struct buf *error)
{
    struct node *n = mem_zalloc(sizeof *n);
    n->o = *o;
    n->log = o->log;
    n->calls = *calls;
    n->engine = e;
    n->who = *who;
    snprintf(n->dir, sizeof n->dir, "%s/cluster", o->dir);
    pthread_mutex_init(&n->lock, NULL);
    spread_init(&n->spread);
    n->board = termboard_new(META_GROUPS_MAX);
    n->leaders = mem_zalloc(META_GROUPS_MAX * sizeof *n->leaders);
    n->now = (uint64_t)clock_mono_us() / 1000;
    struct seats_options seats = {.engine = e, .raft = {n, seats_wake, seats_propose, seats_read}, .now = n->now, .refill = seats_refill, .told = seats_told, .ctx = n};
    n->seats = seats_new(&seats);
    if (nodefile_read(o->files, n->dir, &n->file, error) < 0 || nodefile_read_peers(o->files, n->dir, &n->peers, error) < 0 || open_raft(n, error) < 0 || open_snapshots(n, w, error) < 0) {
        node_close(n);
        return NULL;
    }
    nodefound_init(&n->found, &n->file, n->now);
    if (n->file.founded || !n->file.n_founders) node_make_meta(n);
    return n;
}

/* ---- starting */

static void found_now(void *ctx)
{
    struct node *n = ctx;
    metahost_found(n->meta);
}

/* Seats of the groups that the log has; then their content. A replica without a seat would vote and be elected, and serve nobody. */
static int recover(struct node *n, struct buf *error)
{
    uint32_t count = raftthread_found(n->raft, NULL, 0), replicas = 0;
    struct raftthread_found *found = mem_alloc((count + 1) * sizeof *found);
    raftthread_found(n->raft, found, count);
    int rc = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_data(found[i].group)) continue;
        replicas++;
        if (rc == 0) rc = seats_add(n->seats, found[i].group);
    }
    n->to_recover = count;
    n->recovered = found;
    if (count == 0 && n->file.has_log) {
        buf_add_str(error, "the log of this node is lost, and with it what the node promised: remove it from the cluster, and let a new one join");
        return -ENODATA;
    }
    if (rc < 0) buf_printf(error, "this node has %u replicas, and room for %u: cluster-seats is too small", replicas, n->engine->route.shards - 1);
    return rc;
}

int node_start(struct node *n, struct buf *error)
{
    int rc = recover(n, error);
    if (rc < 0) return rc;
    for (uint32_t i = 0; i < n->peers.n; i++)
        if (n->peers.of[i].id != n->who.id) raftthread_peer_put(n->raft, n->peers.of[i].id, n->peers.of[i].address);
    rc = snaphost_start(n->snapshots);
    if (rc < 0) {
        buf_printf(error, "no thread for snapshots: %s", strerror(-rc));
        return rc;
    }
    rc = raftthread_start(n->raft, error);
    if (rc < 0) return rc;
    atomic_store(&n->started, true);
    if (n->to_recover) snaphost_recover(n->snapshots, n->recovered, n->to_recover);
    else if (n->meta && n->file.founded) raftthread_run(n->raft, found_now, n); /* it stopped between saying so and doing so */
    return 0;
}

void node_stop(struct node *n, uint32_t grace_ms)
{
    if (atomic_load(&n->started)) raftthread_stop(n->raft, grace_ms);
    if (n->snapshots) snaphost_stop(n->snapshots);
}

void node_close(struct node *n)
{
    if (!n) return;
    if (n->raft) raftthread_close(n->raft);
    if (n->snapshots) snaphost_close(n->snapshots);
    metahost_free(n->meta);
    seats_free(n->seats);
    for (uint32_t i = 0; i < n->n_joiners; i++) wirecall_joiner_free(n->joiners[i].of);
    mem_free(n->joiners);
    mem_free(n->recovered);
    termboard_free(n->board);
    mem_free(n->leaders);
    spread_fini(&n->spread);
    mem_free(n->members);
    mem_free(n->member_groups);
    pthread_mutex_destroy(&n->lock);
    mem_free(n);
}
