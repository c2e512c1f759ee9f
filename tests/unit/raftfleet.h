/* A fleet of nodes with real raft threads in one process: sockets on loopback, logs in a temporary folder, disks that can be slow, full or broken, and a state machine for each
 * group that notices what is missing and what comes twice. Snapshots are copies that survive their node. */
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/le.h"
#include "base/mem.h"
#include "cluster/raftthread.h"
#include "io/file.h"

enum { FLEET_NODES = 4, FLEET_GROUPS = 16, FLEET_IDS = 64 * 512, FLEET_SNAPSHOTS = 4, FLEET_PATIENCE_MS = 60 * 1000 };

struct fleet_state {
    uint64_t applied, commands, hash;
    uint64_t seen[FLEET_IDS / 64];
};

struct fleet_disk {
    struct file_ops ops; /* file_disk with the faults below */
    atomic_int sync_us;  /* a sync takes so long */
    atomic_bool full;    /* no file can be made */
    atomic_bool broken;  /* no write succeeds */
};

struct fleet_node {
    struct fleet *fleet;
    uint64_t id, incarnation;
    uint16_t port;
    struct fleet_disk disk;
    struct raftthread *thread; /* NULL: down */
    struct {
        struct fleet_state state;
        struct fleet_state snapshots[FLEET_SNAPSHOTS]; /* durable; none where applied is 0 */
        bool leads;
        uint64_t term, leader, reigns, truncations, installs, marked, members;
    } g[FLEET_GROUPS];
    char failed[160];
    uint32_t ups, downs, frames;
    uint64_t frame_from;
};

struct fleet {
    pthread_mutex_t lock; /* of everything below; upcalls take it for a moment */
    char dir[64];
    uint32_t groups, first; /* members of the groups are nodes 1 .. first */
    uint64_t segment_bytes, reserve_bytes;
    bool no_snapshots;
    struct slog log;
    uint64_t acked[FLEET_GROUPS][FLEET_IDS / 64];
    struct fleet_node nodes[FLEET_NODES + 1];
};

static inline void bit_set(uint64_t *bits, uint64_t i) { bits[i / 64] |= 1ull << i % 64; }
static inline bool bit(const uint64_t *bits, uint64_t i) { return bits[i / 64] >> i % 64 & 1; }

/* ---- one request that is waited for */

struct fleet_call {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;
    int rc;
    uint64_t index;
};

static void fleet_call_done(void *ctx, uint64_t token, int rc, uint64_t index)
{
    struct fleet_call *c = ctx;
    pthread_mutex_lock(&c->lock);
    CHECK(!c->done);
    c->done = true;
    c->rc = rc;
    c->index = index;
    pthread_cond_signal(&c->ended);
    pthread_mutex_unlock(&c->lock);
}

static struct raftthread_answer fleet_call_begin(struct fleet_call *c)
{
    *c = (struct fleet_call){0};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->ended, NULL);
    return (struct raftthread_answer){fleet_call_done, c, 0};
}

static int fleet_call_wait(struct fleet_call *c)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FLEET_PATIENCE_MS / 1000;
    pthread_mutex_lock(&c->lock);
    while (!c->done) CHECK(pthread_cond_timedwait(&c->ended, &c->lock, &until) == 0);
    pthread_mutex_unlock(&c->lock);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->ended);
    return c->rc;
}

/* ---- the state machines */

static struct fleet_state *fleet_snapshot_at(struct fleet_node *n, uint32_t group, uint64_t index)
{
    for (int i = 0; i < FLEET_SNAPSHOTS; i++)
        if (n->g[group].snapshots[i].applied == index) return &n->g[group].snapshots[i];
    return NULL;
}

static void fleet_on_committed(void *ctx, uint32_t group, const struct raftnode_entry *entries, uint32_t count)
{
    struct fleet_node *n = ctx;
    pthread_mutex_lock(&n->fleet->lock);
    struct fleet_state *s = &n->g[group].state;
    for (uint32_t i = 0; i < count; i++) {
        CHECK(entries[i].index == s->applied + 1);
        s->applied++;
        if (entries[i].type != RAFTNODE_COMMAND) continue;
        uint64_t id = le_u64(entries[i].data.p);
        CHECK(id < FLEET_IDS && !bit(s->seen, id));
        bit_set(s->seen, id);
        s->hash = s->hash * 31 + id;
        s->commands++;
    }
    pthread_mutex_unlock(&n->fleet->lock);
}

static void fleet_on_role(void *ctx, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader)
{
    struct fleet_node *n = ctx;
    pthread_mutex_lock(&n->fleet->lock);
    n->g[group].leads = state == RAFTNODE_LEADER;
    n->g[group].reigns += n->g[group].leads;
    n->g[group].term = term;
    n->g[group].leader = leader;
    pthread_mutex_unlock(&n->fleet->lock);
}

/* The state never runs ahead of the log here, so there is nothing to undo. */
static void fleet_on_truncated(void *ctx, uint32_t group, uint64_t index)
{
    struct fleet_node *n = ctx;
    pthread_mutex_lock(&n->fleet->lock);
    CHECK(index > n->g[group].state.applied);
    n->g[group].truncations++;
    raftthread_rewind(n->thread, group, n->g[group].state.applied, (struct raftthread_answer){0});
    pthread_mutex_unlock(&n->fleet->lock);
}

static void fleet_on_members(void *ctx, uint32_t group, const struct raftnode_members *members)
{
    struct fleet_node *n = ctx;
    pthread_mutex_lock(&n->fleet->lock);
    n->g[group].members = members->n;
    pthread_mutex_unlock(&n->fleet->lock);
}

static void fleet_on_describe(void *ctx, uint32_t group, uint64_t index, struct buf *out)
{
    const struct fleet_node *n = ctx;
    le_add_u64(out, n->id);
}

static void fleet_on_install_wanted(void *ctx, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor)
{
    struct fleet_node *n = ctx;
    CHECK(descriptor.n == 8);
    pthread_mutex_lock(&n->fleet->lock);
    struct fleet_state *theirs = fleet_snapshot_at(&n->fleet->nodes[le_u64(descriptor.p)], group, index), *mine = fleet_snapshot_at(n, group, 0);
    if (theirs && mine) {
        *mine = n->g[group].state = *theirs;
        n->g[group].installs++;
    }
    raftthread_installed(n->thread, group, index, theirs && mine ? 0 : -EIO, (struct raftthread_answer){0});
    pthread_mutex_unlock(&n->fleet->lock);
}

static void fleet_on_marked(void *ctx, uint32_t group, uint64_t index)
{
    struct fleet_node *n = ctx;
    pthread_mutex_lock(&n->fleet->lock);
    n->g[group].marked = index;
    for (int i = 0; i < FLEET_SNAPSHOTS; i++)
        if (n->g[group].snapshots[i].applied < index) n->g[group].snapshots[i].applied = 0;
    pthread_mutex_unlock(&n->fleet->lock);
}

static void fleet_on_stranger(void *ctx, uint32_t group, uint64_t from)
{
    struct fleet_node *n = ctx;
    raftthread_join(n->thread, group, (struct raftthread_answer){0});
}

struct fleet_taken {
    struct fleet_node *node;
    uint32_t group;
};

/* A snapshot that the log did not mark is none. */
static void fleet_on_snapshotted(void *ctx, uint64_t token, int rc, uint64_t index)
{
    struct fleet_taken *taken = ctx;
    struct fleet_node *n = taken->node;
    pthread_mutex_lock(&n->fleet->lock);
    struct fleet_state *s = fleet_snapshot_at(n, taken->group, token);
    if (rc < 0 && s && n->g[taken->group].marked != token) s->applied = 0;
    pthread_mutex_unlock(&n->fleet->lock);
    mem_free(taken);
}

static void fleet_snapshot(struct fleet_node *n, uint32_t group)
{
    pthread_mutex_lock(&n->fleet->lock);
    const struct fleet_state *s = &n->g[group].state;
    struct fleet_state *place = fleet_snapshot_at(n, group, 0);
    if (place && s->applied && !fleet_snapshot_at(n, group, s->applied)) {
        struct fleet_taken *taken = mem_alloc(sizeof *taken);
        *place = *s;
        *taken = (struct fleet_taken){n, group};
        raftthread_snapshotted(n->thread, group, s->applied, 0, (struct raftthread_answer){fleet_on_snapshotted, taken, s->applied});
    }
    pthread_mutex_unlock(&n->fleet->lock);
}

static void fleet_on_snapshot_wanted(void *ctx, uint32_t group, uint64_t log_bytes)
{
    struct fleet_node *n = ctx;
    if (!n->fleet->no_snapshots) fleet_snapshot(n, group);
}

/* ---- other upcalls */

static int fleet_on_frame(void *ctx, uint64_t from, const struct wire_frame *f)
{
    struct fleet_node *n = ctx;
    pthread_mutex_lock(&n->fleet->lock);
    n->frames++;
    n->frame_from = from;
    pthread_mutex_unlock(&n->fleet->lock);
    return f->type == WIRE_STATUS ? 0 : -EBADMSG;
}

static void fleet_on_up(void *ctx, uint64_t peer, enum links_way way)
{
    struct fleet_node *n = ctx;
    pthread_mutex_lock(&n->fleet->lock);
    n->ups++;
    pthread_mutex_unlock(&n->fleet->lock);
}

static void fleet_on_down(void *ctx, uint64_t peer, enum links_way way)
{
    struct fleet_node *n = ctx;
    pthread_mutex_lock(&n->fleet->lock);
    n->downs++;
    pthread_mutex_unlock(&n->fleet->lock);
}

static void fleet_on_failed(void *ctx, const char *why)
{
    struct fleet_node *n = ctx;
    pthread_mutex_lock(&n->fleet->lock);
    CHECK(!n->failed[0]);
    snprintf(n->failed, sizeof n->failed, "%s", why);
    for (uint32_t g = 0; g < FLEET_GROUPS; g++) n->g[g].leads = false;
    pthread_mutex_unlock(&n->fleet->lock);
}

static const struct raftthread_app fleet_app = {
    .committed = fleet_on_committed,
    .role = fleet_on_role,
    .truncated = fleet_on_truncated,
    .members = fleet_on_members,
    .describe = fleet_on_describe,
    .install_wanted = fleet_on_install_wanted,
    .marked = fleet_on_marked,
    .stranger = fleet_on_stranger,
    .snapshot_wanted = fleet_on_snapshot_wanted,
    .frame = fleet_on_frame,
    .up = fleet_on_up,
    .down = fleet_on_down,
    .failed = fleet_on_failed,
};

/* ---- disks */

static int fleet_disk_open(void *ctx, const char *path, enum file_mode mode)
{
    struct fleet_disk *d = ctx;
    return mode == FILE_CREATE && d->full ? -ENOSPC : file_disk.open(file_disk.ctx, path, mode);
}

static ssize_t fleet_disk_write(void *ctx, int fd, const void *p, size_t n, uint64_t at)
{
    struct fleet_disk *d = ctx;
    return d->broken ? -EIO : file_disk.write(file_disk.ctx, fd, p, n, at);
}

static int fleet_disk_sync(void *ctx, const int *fds, uint32_t n)
{
    struct fleet_disk *d = ctx;
    if (d->sync_us) usleep((useconds_t)d->sync_us);
    return file_disk.sync(file_disk.ctx, fds, n);
}

static void fleet_disk_init(struct fleet_disk *d)
{
    d->ops = file_disk;
    d->ops.ctx = d;
    d->ops.open = fleet_disk_open;
    d->ops.write = fleet_disk_write;
    d->ops.sync = fleet_disk_sync;
    d->ops.commit = NULL;
}

/* ---- nodes */

static void fleet_address(const struct fleet *f, uint64_t id, char out[32]) { snprintf(out, 32, "127.0.0.1:%u", f->nodes[id].port); }

static void fleet_meet(struct fleet_node *n, uint64_t other)
{
    char address[32];
    fleet_address(n->fleet, other, address);
    raftthread_peer_put(n->thread, other, address);
}

/* What the log has goes on from its snapshot; an empty log begins with the groups of which the node is a first member. */
static void fleet_groups(struct fleet_node *n)
{
    struct fleet *f = n->fleet;
    struct raftthread_found found[FLEET_GROUPS];
    struct raftnode_member members[FLEET_NODES];
    uint32_t there = raftthread_found(n->thread, found, FLEET_GROUPS);
    CHECK(there <= FLEET_GROUPS);
    for (uint32_t i = 0; i < there; i++) {
        const struct fleet_state *s = found[i].snapshot ? fleet_snapshot_at(n, found[i].group, found[i].snapshot) : NULL;
        CHECK(s || !found[i].snapshot);
        if (s) n->g[found[i].group].state = *s;
        raftthread_resume(n->thread, found[i].group, found[i].snapshot, (struct raftthread_answer){0});
    }
    for (uint32_t i = 0; i < f->first; i++) members[i] = (struct raftnode_member){i + 1, RAFTNODE_VOTER};
    for (uint32_t g = 0; there == 0 && n->id <= f->first && g < f->groups; g++) raftthread_create(n->thread, g, members, f->first, (struct raftthread_answer){0});
}

static void fleet_forget(struct fleet_node *n)
{
    for (uint32_t g = 0; g < FLEET_GROUPS; g++) {
        n->g[g].state = (struct fleet_state){0};
        n->g[g].leads = false;
        n->g[g].term = n->g[g].leader = 0;
    }
    n->failed[0] = 0;
}

static void fleet_start(struct fleet *f, uint64_t id)
{
    struct fleet_node *n = &f->nodes[id];
    char listen[32], dir[96];
    struct buf error = {0};
    fleet_forget(n);
    fleet_address(f, id, listen);
    snprintf(dir, sizeof dir, "%s/n%u", f->dir, (unsigned)id);
    struct raftthread_options o = {.listen = listen, .dir = dir, .files = &n->disk.ops, .writes = &n->disk.ops, .retry_chores_ms = 200};
    o.links = (struct links_options){.cluster = "a fleet of ours", .node = id, .incarnation = ++n->incarnation, .log = &f->log};
    o.raft.reserve_bytes = f->reserve_bytes;
    o.log.segment_bytes = f->segment_bytes;
    struct raftthread_app app = fleet_app;
    app.ctx = n;
    struct raftthread *t = raftthread_open(&o, &app, &error);
    if (!t) fail_msg("%.*s", (int)error.len, error.p);
    pthread_mutex_lock(&f->lock);
    n->thread = t;
    fleet_groups(n);
    for (uint64_t other = 1; other <= FLEET_NODES; other++)
        if (other != id) fleet_meet(n, other);
    pthread_mutex_unlock(&f->lock);
    if (raftthread_start(t, &error) != 0) fail_msg("%.*s", (int)error.len, error.p);
    buf_fini(&error);
}

/* grace_ms 0: as if it were killed. */
static void fleet_stop(struct fleet *f, uint64_t id, uint32_t grace_ms)
{
    struct fleet_node *n = &f->nodes[id];
    struct raftthread *t = n->thread;
    if (!t) return;
    raftthread_stop(t, grace_ms);
    pthread_mutex_lock(&f->lock); /* whoever has a request to make holds it */
    n->thread = NULL;
    for (uint32_t g = 0; g < FLEET_GROUPS; g++) n->g[g].leads = false;
    pthread_mutex_unlock(&f->lock);
    raftthread_close(t);
}

static uint16_t fleet_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 && getsockname(fd, (struct sockaddr *)&a, &n) == 0);
    close(fd);
    return ntohs(a.sin_port);
}

/* Not started yet. */
static struct fleet *fleet_new(uint32_t groups, uint32_t first)
{
    struct fleet *f = mem_zalloc(sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    snprintf(f->dir, sizeof f->dir, "/tmp/raftfleet-XXXXXX");
    CHECK(mkdtemp(f->dir));
    CHECK(slog_open(&f->log, "/dev/null", SLOG_TEXT, SLOG_VERBOSE) == 0);
    f->groups = groups;
    f->first = first;
    f->segment_bytes = 1 << 20;
    f->reserve_bytes = 4096;
    for (uint64_t id = 1; id <= FLEET_NODES; id++) {
        f->nodes[id].fleet = f;
        f->nodes[id].id = id;
        f->nodes[id].port = fleet_port();
        fleet_disk_init(&f->nodes[id].disk);
    }
    return f;
}

static struct fleet *fleet_running(uint32_t groups)
{
    struct fleet *f = fleet_new(groups, 3);
    for (uint64_t id = 1; id <= 3; id++) fleet_start(f, id);
    return f;
}

static void fleet_delete_file(void *arg, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", (const char *)arg, name);
    unlink(path);
}

static void fleet_free(struct fleet *f)
{
    for (uint64_t id = 1; id <= FLEET_NODES; id++) {
        char dir[96];
        fleet_stop(f, id, 0);
        snprintf(dir, sizeof dir, "%s/n%u", f->dir, (unsigned)id);
        file_disk.list(file_disk.ctx, dir, fleet_delete_file, dir);
        rmdir(dir);
    }
    rmdir(f->dir);
    slog_close(&f->log);
    pthread_mutex_destroy(&f->lock);
    mem_free(f);
}

/* ---- looking; under the lock */

static struct fleet_node *fleet_leader(struct fleet *f, uint32_t group)
{
    struct fleet_node *leader = NULL;
    for (uint64_t id = 1; id <= FLEET_NODES; id++) {
        struct fleet_node *n = &f->nodes[id];
        if (n->thread && n->g[group].leads && (!leader || leader->g[group].term < n->g[group].term)) leader = n;
    }
    return leader;
}

static bool fleet_all_led(struct fleet *f)
{
    for (uint32_t g = 0; g < f->groups; g++)
        if (!fleet_leader(f, g)) return false;
    return true;
}

/* All nodes that run have the same state, in all groups. */
static bool fleet_alike(struct fleet *f)
{
    for (uint32_t g = 0; g < f->groups; g++) {
        const struct fleet_state *one = NULL;
        for (uint64_t id = 1; id <= FLEET_NODES; id++) {
            const struct fleet_node *n = &f->nodes[id];
            if (!n->thread || n->failed[0]) continue;
            if (one && (one->applied != n->g[g].state.applied || one->hash != n->g[g].state.hash)) return false;
            one = &n->g[g].state;
        }
    }
    return true;
}

/* Everything that was acknowledged is there. */
static void fleet_check_acked(struct fleet *f)
{
    for (uint32_t g = 0; g < f->groups; g++)
        for (uint64_t id = 1; id <= FLEET_NODES; id++)
            for (uint32_t i = 0; f->nodes[id].thread && !f->nodes[id].failed[0] && i < FLEET_IDS / 64; i++)
                assert_int_equal(f->acked[g][i] & ~f->nodes[id].g[g].state.seen[i], 0);
}

/* ---- waiting, without the lock */

#define FLEET_AWAIT(f, condition) \
    do { \
        uint64_t fleet_until = (uint64_t)clock_mono_us() + FLEET_PATIENCE_MS * 1000ull; \
        for (bool fleet_met = false; !fleet_met;) { \
            pthread_mutex_lock(&(f)->lock); \
            fleet_met = (condition); \
            pthread_mutex_unlock(&(f)->lock); \
            if (!fleet_met && (uint64_t)clock_mono_us() > fleet_until) fail_msg("in vain: %s", #condition); \
            if (!fleet_met) usleep(2000); \
        } \
    } while (0)

static void fleet_await_alike(struct fleet *f)
{
    FLEET_AWAIT(f, fleet_all_led(f) && fleet_alike(f));
    pthread_mutex_lock(&f->lock);
    fleet_check_acked(f);
    pthread_mutex_unlock(&f->lock);
}

/* ---- clients */

/* One attempt at whoever leads. -EHOSTDOWN: nobody does. */
static int fleet_try(struct fleet *f, uint32_t group, uint64_t id, size_t bytes)
{
    struct fleet_call call;
    char data[4096] = {0};
    CHECK(id < FLEET_IDS && bytes >= 8 && bytes <= sizeof data);
    memcpy(data, &(uint64_t){htole64(id)}, 8);
    pthread_mutex_lock(&f->lock);
    struct fleet_node *n = fleet_leader(f, group);
    if (n) raftthread_submit(n->thread, group, n->g[group].term, slice_of(data, bytes), fleet_call_begin(&call));
    pthread_mutex_unlock(&f->lock);
    if (!n) return -EHOSTDOWN;
    int rc = fleet_call_wait(&call);
    if (rc) return rc;
    pthread_mutex_lock(&f->lock);
    bit_set(f->acked[group], id);
    pthread_mutex_unlock(&f->lock);
    return 0;
}

/* Until it is there or nobody knows: 0 or -ECANCELED. What was refused is tried again: it did not happen, or the state machine finds it twice. */
static int fleet_write(struct fleet *f, uint32_t group, uint64_t id)
{
    uint64_t until = (uint64_t)clock_mono_us() + FLEET_PATIENCE_MS * 1000ull;
    for (;;) {
        int rc = fleet_try(f, group, id, 128);
        if (rc == 0 || rc == -ECANCELED) return rc;
        CHECK((uint64_t)clock_mono_us() < until);
        usleep(2000);
    }
}

struct fleet_writer {
    struct fleet *fleet;
    pthread_t thread;
    uint64_t first, n; /* commands */
    atomic_ullong acked, uncertain;
    atomic_bool stop;
};

static void *fleet_writer_run(void *arg)
{
    struct fleet_writer *w = arg;
    for (uint64_t i = 0; i < w->n && !w->stop; i++) {
        if (fleet_write(w->fleet, (uint32_t)(i % w->fleet->groups), w->first + i) == 0) w->acked++;
        else w->uncertain++;
    }
    return NULL;
}

static void fleet_writer_begin(struct fleet_writer *w, struct fleet *f, uint64_t first, uint64_t n)
{
    w->fleet = f;
    w->first = first;
    w->n = n;
    w->acked = w->uncertain = 0;
    w->stop = false;
    CHECK(pthread_create(&w->thread, NULL, fleet_writer_run, w) == 0);
}

static void fleet_writer_end(struct fleet_writer *w) { pthread_join(w->thread, NULL); }
