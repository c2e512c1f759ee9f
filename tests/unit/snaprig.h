/* Nodes with everything that has to do with snapshots, in one process: raft threads, sockets on loopback, files in a temporary folder, an engine with one worker thread each, seats, and cluster/snaphost.h. Group 0
 * has a small state of its own; data groups are written to by the worker of whoever serves them, ahead of the log as commands do it. */
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rig.h"

#include "base/le.h"
#include "base/rng.h"
#include "cluster/groupdir.h"
#include "cluster/meta.h"
#include "cluster/raftthread.h"
#include "cluster/seat.h"
#include "cluster/snaphost.h"
#include "cluster/snapwait.h"
#include "io/file.h"
#include "shard/seating.h"
#include "shard/walk.h"
#include "store/store.h"

enum { SNAPRIG_NODES = 3, SNAPRIG_GROUPS = 4 /* 0 and 1 have no seat */, SNAPRIG_SHARDS = 4, SNAPRIG_KEYS = 300, SNAPRIG_PATIENCE_MS = 60 * 1000, SNAPRIG_AHEAD = 64 };

static const uint32_t snaprig_groups[] = {0, 2, 3};
enum { SNAPRIG_N_GROUPS = 3 };

struct snaprig_state { /* of group 0 */
    uint64_t applied, term, commands, hash;
};

struct snaprig_node {
    struct snaprig *all;
    uint64_t id, incarnation;
    uint16_t port;
    bool up;
    struct rig *rig;
    struct walk *walk;
    struct raftthread *raft;
    struct seats *seats;
    struct snaphost *host;

    pthread_t worker;
    struct rng rng;
    atomic_bool stop, writes;
    atomic_bool digest_wanted;
    atomic_int proposed[SNAPRIG_GROUPS]; /* what the last attempt gave */
    uint64_t written; /* the worker's */

    pthread_mutex_t lock; /* of what follows */
    struct snaprig_state state;
    bool leads[SNAPRIG_GROUPS];
    uint64_t term[SNAPRIG_GROUPS], marked[SNAPRIG_GROUPS];
    struct raftnode_members members[SNAPRIG_GROUPS];
    uint64_t digest[SNAPRIG_GROUPS], keys[SNAPRIG_GROUPS], applied[SNAPRIG_GROUPS];
    uint64_t refills;
    char failed[512];
};

struct snaprig {
    char dir[64];
    struct slog log;
    uint32_t first; /* members of the groups are nodes 1 .. first */
    uint64_t snapshot_bytes, segment_bytes;
    struct snaprig_node nodes[SNAPRIG_NODES + 1];
};

/* ---- on the raft thread */

static void snaprig_on_committed(void *ctx, uint32_t group, const struct raftnode_entry *entries, uint32_t n)
{
    struct snaprig_node *node = ctx;
    if (group >= META_FIRST_DATA_GROUP) {
        seats_committed(node->seats, group, entries, n);
        return;
    }
    pthread_mutex_lock(&node->lock);
    struct snaprig_state *s = &node->state;
    for (uint32_t i = 0; i < n; i++) {
        RIG_CHECK(entries[i].index == s->applied + 1, "node %u: entry %u came after %u", (unsigned)node->id, (unsigned)entries[i].index, (unsigned)s->applied);
        s->applied = entries[i].index;
        s->term = entries[i].term;
        if (entries[i].type != RAFTNODE_COMMAND) continue;
        s->commands++;
        s->hash = s->hash * 31 + le_u64(entries[i].data.p);
    }
    pthread_mutex_unlock(&node->lock);
}

static void snaprig_on_role(void *ctx, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader)
{
    struct snaprig_node *node = ctx;
    pthread_mutex_lock(&node->lock);
    node->leads[group] = state == RAFTNODE_LEADER;
    node->term[group] = term;
    pthread_mutex_unlock(&node->lock);
    if (group >= META_FIRST_DATA_GROUP) seats_role(node->seats, group, state, term, leader);
}

static void snaprig_on_truncated(void *ctx, uint32_t group, uint64_t index)
{
    struct snaprig_node *node = ctx;
    if (group >= META_FIRST_DATA_GROUP) seats_truncated(node->seats, group, index);
    else raftthread_rewind(node->raft, group, node->state.applied, (struct raftthread_answer){0});
}

static void snaprig_on_members(void *ctx, uint32_t group, const struct raftnode_members *m)
{
    struct snaprig_node *node = ctx;
    node->members[group] = *m;
}

static void snaprig_on_describe(void *ctx, uint32_t group, uint64_t index, struct buf *out) { snaphost_describe(((struct snaprig_node *)ctx)->host, group, index, out); }

static void snaprig_on_install(void *ctx, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor)
{
    snaphost_install(((struct snaprig_node *)ctx)->host, group, from, index, term, descriptor);
}

static void snaprig_on_marked(void *ctx, uint32_t group, uint64_t index)
{
    struct snaprig_node *node = ctx;
    pthread_mutex_lock(&node->lock);
    node->marked[group] = index;
    pthread_mutex_unlock(&node->lock);
    snaphost_marked(node->host, group, index);
}

static void snaprig_on_wanted(void *ctx, uint32_t group, uint64_t bytes) { snaphost_wanted(((struct snaprig_node *)ctx)->host, group, bytes); }
static int snaprig_on_frame(void *ctx, uint64_t from, const struct wire_frame *f) { return snaphost_frame(((struct snaprig_node *)ctx)->host, from, f); }
static void snaprig_on_up(void *ctx, uint64_t peer, enum links_way way) { snaphost_up(((struct snaprig_node *)ctx)->host, peer, way); }
static void snaprig_on_down(void *ctx, uint64_t peer, enum links_way way) { snaphost_down(((struct snaprig_node *)ctx)->host, peer, way); }
static void snaprig_on_turn(void *ctx, uint64_t now) { seats_turn(((struct snaprig_node *)ctx)->seats, now); }
static bool snaprig_on_turned(void *ctx) { return seats_tell(((struct snaprig_node *)ctx)->seats); }

static void snaprig_on_failed(void *ctx, const char *why)
{
    struct snaprig_node *node = ctx;
    pthread_mutex_lock(&node->lock);
    RIG_CHECK(!node->failed[0], "it failed twice: %s", why);
    snprintf(node->failed, sizeof node->failed, "%s", why);
    pthread_mutex_unlock(&node->lock);
}

static const struct raftthread_app snaprig_app = {
    .committed = snaprig_on_committed,
    .role = snaprig_on_role,
    .truncated = snaprig_on_truncated,
    .members = snaprig_on_members,
    .describe = snaprig_on_describe,
    .install_wanted = snaprig_on_install,
    .marked = snaprig_on_marked,
    .snapshot_wanted = snaprig_on_wanted,
    .frame = snaprig_on_frame,
    .up = snaprig_on_up,
    .down = snaprig_on_down,
    .turn = snaprig_on_turn,
    .turned = snaprig_on_turned,
    .failed = snaprig_on_failed,
};

/* ---- seats' Raft, and their spoilt ones */

static void snaprig_nothing(void *ctx) {}
static void snaprig_told(void *ctx) {}
static void snaprig_wake(void *ctx) { raftthread_run(((struct snaprig_node *)ctx)->raft, snaprig_nothing, NULL); }
static int snaprig_propose(void *ctx, uint32_t group, uint64_t term, struct slice data, uint64_t *index)
{
    struct snaprig_node *n = ctx;
    int rc = raftthread_propose(n->raft, group, term, data, index);
    n->proposed[group] = rc;
    return rc;
}

static void snaprig_read(void *ctx, uint32_t group, uint64_t round) { seats_confirmed(((struct snaprig_node *)ctx)->seats, group, round, 0); } /* nobody reads here */

static void snaprig_refill(void *ctx, uint32_t group)
{
    struct snaprig_node *node = ctx;
    pthread_mutex_lock(&node->lock);
    node->refills++;
    pthread_mutex_unlock(&node->lock);
    snaphost_refill(node->host, group);
}

/* ---- the state of group 0 */

static void snaprig_get_state(void *ctx, uint32_t group, struct buf *out, uint64_t *index, uint64_t *term)
{
    const struct snaprig_node *node = ctx;
    RIG_CHECK(group == 0, "group %u has a seat", group);
    buf_add(out, &node->state, sizeof node->state);
    *index = node->state.applied;
    *term = node->state.term;
}

static bool snaprig_restore(void *ctx, uint32_t group, struct slice state, uint64_t index)
{
    struct snaprig_node *node = ctx;
    struct snaprig_state s = {0};
    if (state.n && state.n != sizeof s) return false;
    if (state.n) memcpy(&s, state.p, sizeof s);
    if (s.applied != index) return false;
    pthread_mutex_lock(&node->lock);
    node->state = s;
    pthread_mutex_unlock(&node->lock);
    return true;
}

static void snaprig_get_members(void *ctx, uint32_t group, struct raftnode_members *out) { *out = ((struct snaprig_node *)ctx)->members[group]; }

/* ---- the worker */

/* As a command does it: changes the store, and what it did goes into the open entry. */
static void snaprig_write(struct snaprig_node *n, uint32_t group)
{
    struct seat_info seat;
    char key[32], value[160];
    if (!seats_look(n->seats, group, &seat) || !seat.serves || seat.sequence > seat.committed + SNAPRIG_AHEAD) return;
    const struct engine *e = n->rig->engine;
    struct shard *shard = &e->shards[seat.shard];
    if (!engine_try(shard)) return;
    if (e->seating->rules(e->seating->ctx, shard)) {
        snprintf(key, sizeof key, "k%u", (unsigned)rng_below(&n->rng, SNAPRIG_KEYS));
        snprintf(value, sizeof value, "%0150llu", (unsigned long long)n->written++);
        bool del = rng_below(&n->rng, 8) == 0;
        struct op op = {.kind = del ? OP_DEL : OP_SET, .key = slice_str(key), .value = slice_str(value)};
        store_apply(shard->store, &op, NULL);
        e->seating->settle(e->seating->ctx, shard);
    }
    engine_release(n->rig->workers[0], shard);
}

static void snaprig_digest(struct snaprig_node *n)
{
    for (uint32_t i = 1; i < SNAPRIG_N_GROUPS; i++) {
        struct seat_info seat;
        uint32_t g = snaprig_groups[i];
        bool there = seats_look(n->seats, g, &seat) && !seat.spoilt && !seat.filling;
        struct store *s = there ? n->rig->engine->stores[seat.shard] : NULL;
        pthread_mutex_lock(&n->lock);
        n->applied[g] = there ? seat.applied : 0;
        n->digest[g] = there ? store_digest(s) : 0;
        n->keys[g] = there && s->dbs[0] ? s->dbs[0]->keys.entries : 0;
        pthread_mutex_unlock(&n->lock);
    }
    pthread_mutex_lock(&n->lock);
    n->applied[0] = n->state.applied;
    n->digest[0] = n->state.hash;
    n->keys[0] = n->state.commands;
    pthread_mutex_unlock(&n->lock);
    atomic_store(&n->digest_wanted, false);
}

static void *snaprig_work(void *arg)
{
    struct snaprig_node *n = arg;
    while (!atomic_load(&n->stop)) {
        bool any = rig_turn(n->rig, 0);
        for (unsigned i = 0; i < 8 && atomic_load(&n->writes); i++) snaprig_write(n, snaprig_groups[1 + i % 2]);
        if (atomic_load(&n->digest_wanted)) snaprig_digest(n);
        if (!any) usleep(200);
    }
    return NULL;
}

/* ---- nodes */

static void snaprig_address(const struct snaprig *r, uint64_t id, char out[32]) { snprintf(out, 32, "127.0.0.1:%u", r->nodes[id].port); }
static void snaprig_folder(const struct snaprig *r, uint64_t id, const char *what, char out[128]) { snprintf(out, 128, "%s/n%u-%s", r->dir, (unsigned)id, what); }

static void snaprig_open(struct snaprig_node *n)
{
    struct snaprig *r = n->all;
    char listen[32], dir[128];
    struct buf error = {0};
    n->rig = rig_new(1, SNAPRIG_SHARDS);
    n->walk = walk_new(n->rig->engine, NULL);
    snaprig_address(r, n->id, listen);
    snaprig_folder(r, n->id, "raft", dir);
    struct raftthread_options o = {.listen = listen, .dir = dir, .files = &file_disk, .writes = &file_disk, .snapshot_bytes = r->snapshot_bytes};
    o.links = (struct links_options){.cluster = "snapshots there", .node = n->id, .incarnation = ++n->incarnation, .log = &r->log};
    o.raft.reserve_bytes = 4096;
    o.raft.install_ms = 3000;
    o.log.segment_bytes = r->segment_bytes;
    struct raftthread_app app = snaprig_app;
    app.ctx = n;
    n->raft = raftthread_open(&o, &app, &error);
    if (!n->raft) fail_msg("%.*s", (int)error.len, error.p);
    struct seats_options so = {.engine = n->rig->engine, .raft = {n, snaprig_wake, snaprig_propose, snaprig_read}, .refill = snaprig_refill, .told = snaprig_told, .ctx = n};
    n->seats = seats_new(&so);
    snaprig_folder(r, n->id, "snapshots", dir);
    struct snaphost_options ho = {.dir = dir, .files = &file_disk, .walk = n->walk, .seats = n->seats, .raft = n->raft, .log = &r->log, .cluster = "snapshots there", .profile = COMPRESS_FAST,
                                  .ctx = n, .state = snaprig_get_state, .restore = snaprig_restore, .members = snaprig_get_members, .failed = snaprig_on_failed};
    n->host = snaphost_open(&ho, &error);
    if (!n->host) fail_msg("%.*s", (int)error.len, error.p);
    buf_fini(&error);
}

static void snaprig_create(struct snaprig_node *n)
{
    struct raftnode_member members[SNAPRIG_NODES];
    for (uint32_t i = 0; i < n->all->first; i++) members[i] = (struct raftnode_member){i + 1, RAFTNODE_VOTER};
    for (uint32_t i = 0; i < SNAPRIG_N_GROUPS; i++) {
        if (snaprig_groups[i] >= META_FIRST_DATA_GROUP) seats_add(n->seats, snaprig_groups[i]);
        raftthread_create(n->raft, snaprig_groups[i], members, n->all->first, (struct raftthread_answer){0});
    }
}

static void snaprig_start(struct snaprig *r, uint64_t id)
{
    struct snaprig_node *n = &r->nodes[id];
    struct raftthread_found found[SNAPRIG_GROUPS];
    struct buf error = {0};
    n->state = (struct snaprig_state){0};
    n->failed[0] = 0;
    memset(n->marked, 0, sizeof n->marked);
    snaprig_open(n);
    uint32_t there = raftthread_found(n->raft, found, SNAPRIG_GROUPS);
    for (uint32_t i = 0; i < there; i++)
        if (found[i].group >= META_FIRST_DATA_GROUP) seats_add(n->seats, found[i].group);
    if (there == 0) snaprig_create(n);
    for (uint64_t other = 1; other <= SNAPRIG_NODES; other++) {
        char address[32];
        snaprig_address(r, other, address);
        if (other != id) raftthread_peer_put(n->raft, other, address);
    }
    atomic_store(&n->stop, false);
    assert_int_equal(pthread_create(&n->worker, NULL, snaprig_work, n), 0);
    assert_int_equal(snaphost_start(n->host), 0);
    snaphost_recover(n->host, found, there);
    if (raftthread_start(n->raft, &error) != 0) fail_msg("%.*s", (int)error.len, error.p);
    buf_fini(&error);
    n->up = true;
}

static void snaprig_stop(struct snaprig *r, uint64_t id, uint32_t grace_ms)
{
    struct snaprig_node *n = &r->nodes[id];
    if (!n->up) return;
    n->up = false;
    atomic_store(&n->writes, false);
    raftthread_stop(n->raft, grace_ms);
    snaphost_stop(n->host); /* a walk that it gives up ends by the worker's hand */
    atomic_store(&n->stop, true);
    pthread_join(n->worker, NULL);
    walk_stop(n->walk);
    rig_settle(n->rig);
    raftthread_close(n->raft);
    snaphost_close(n->host);
    walk_free(n->walk);
    seats_free(n->seats);
    rig_free(n->rig);
    memset(n->leads, 0, sizeof n->leads);
}

static uint16_t snaprig_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 && getsockname(fd, (struct sockaddr *)&a, &n) == 0);
    close(fd);
    return ntohs(a.sin_port);
}

static struct snaprig *snaprig_new(uint32_t first)
{
    struct snaprig *r = mem_zalloc(sizeof *r);
    snprintf(r->dir, sizeof r->dir, "/tmp/snaprig-XXXXXX");
    CHECK(mkdtemp(r->dir));
    const char *log = getenv("SNAPRIG_LOG"); /* to look at what happens */
    CHECK(slog_open(&r->log, log ? log : "/dev/null", SLOG_TEXT, SLOG_VERBOSE) == 0);
    r->first = first;
    r->snapshot_bytes = 48 * 1024;
    r->segment_bytes = 1 << 20; /* an entry of a seat fits */
    for (uint64_t id = 1; id <= SNAPRIG_NODES; id++) {
        struct snaprig_node *n = &r->nodes[id];
        n->all = r;
        n->id = id;
        n->port = snaprig_port();
        rng_init(&n->rng, id * 977);
        pthread_mutex_init(&n->lock, NULL);
    }
    return r;
}

static void snaprig_free(struct snaprig *r)
{
    char command[128];
    for (uint64_t id = 1; id <= SNAPRIG_NODES; id++) {
        snaprig_stop(r, id, 0);
        pthread_mutex_destroy(&r->nodes[id].lock);
    }
    slog_close(&r->log);
    snprintf(command, sizeof command, "rm -rf %s", r->dir);
    CHECK(system(command) == 0);
    mem_free(r);
}

/* ---- looking */

static uint64_t snaprig_leader(struct snaprig *r, uint32_t group)
{
    uint64_t leader = 0;
    for (uint64_t id = 1; id <= SNAPRIG_NODES && !leader; id++) {
        struct snaprig_node *n = &r->nodes[id];
        pthread_mutex_lock(&n->lock);
        if (n->up && n->leads[group]) leader = id;
        pthread_mutex_unlock(&n->lock);
    }
    return leader;
}

static struct snaphost_info snaprig_info(struct snaprig *r, uint64_t id)
{
    struct snaphost_info info;
    snaphost_look(r->nodes[id].host, &info);
    return info;
}

static uint64_t snaprig_marked(struct snaprig *r, uint64_t id, uint32_t group)
{
    struct snaprig_node *n = &r->nodes[id];
    pthread_mutex_lock(&n->lock);
    uint64_t index = n->marked[group];
    pthread_mutex_unlock(&n->lock);
    return index;
}

static bool snaprig_has_failed(struct snaprig *r, uint64_t id)
{
    struct snaprig_node *n = &r->nodes[id];
    pthread_mutex_lock(&n->lock);
    bool failed = n->failed[0];
    pthread_mutex_unlock(&n->lock);
    return failed;
}

/* Where everybody is, for whoever waited in vain. */
static void snaprig_tell_group(struct snaprig_node *n, uint32_t g)
{
    struct seat_info seat = {0};
    struct raftnode_info raft = {0};
    snapwait_look(n->raft, g, &raft, &(struct snapwait_tether){0});
    seats_look(n->seats, g, &seat);
    fprintf(stderr, "  group %u: %s of term %u%s%s, log %u to %u, stored %u, commit %u, handed %u, snapshot %u, %u bytes, match", g, raft.state == RAFTNODE_LEADER ? "leader" : "follower", (unsigned)raft.term,
            raft.ready ? ", ready" : "", raft.installing ? ", installing" : "", (unsigned)raft.first, (unsigned)raft.last, (unsigned)raft.stored, (unsigned)raft.commit, (unsigned)raft.handed,
            (unsigned)raft.snapshot, (unsigned)raft.log_bytes);
    for (uint32_t i = 0; i < raft.members.n; i++) fprintf(stderr, " %u", (unsigned)raft.match[i]);
    if (g) fprintf(stderr, "; seat at %u%s%s%s, entries made %u, committed %u, proposing gave %d", (unsigned)seat.applied, seat.serves ? ", serves" : "", seat.filling ? ", filling" : "", seat.spoilt ? ", spoilt" : "", (unsigned)seat.sequence, (unsigned)seat.committed, n->proposed[g]);
    fprintf(stderr, "\n");
}

static void snaprig_tell(struct snaprig *r)
{
    for (uint64_t id = 1; id <= SNAPRIG_NODES; id++) {
        struct snaprig_node *n = &r->nodes[id];
        if (!n->up) continue;
        struct snaphost_info i = snaprig_info(r, id);
        fprintf(stderr, "node %u: taken %u, failed %u, fetched %u, filled %u; filling %u, fetching %u, sending %u, recovering %u\n", (unsigned)id, (unsigned)i.taken, (unsigned)i.failed, (unsigned)i.fetched,
                (unsigned)i.filled, i.filling, i.fetching, i.sending, i.recovering);
        for (uint32_t k = 0; k < SNAPRIG_N_GROUPS; k++) snaprig_tell_group(n, snaprig_groups[k]);
    }
}

#define SNAPRIG_AWAIT(condition) \
    do { \
        uint64_t snaprig_until = (uint64_t)clock_mono_us() + SNAPRIG_PATIENCE_MS * 1000ull; \
        while (!(condition)) { \
            if ((uint64_t)clock_mono_us() > snaprig_until) { \
                snaprig_tell(r); \
                fail_msg("line %d, in vain: %s", __LINE__, #condition); \
            } \
            usleep(3000); \
        } \
    } while (0)

static void snaprig_let_write(struct snaprig *r, bool writes)
{
    for (uint64_t id = 1; id <= SNAPRIG_NODES; id++)
        if (r->nodes[id].up) atomic_store(&r->nodes[id].writes, writes);
}

/* All that are up have the same, and somebody serves. */
static bool snaprig_alike(struct snaprig *r)
{
    const struct snaprig_node *one = NULL;
    bool alike = true;
    for (uint64_t id = 1; id <= SNAPRIG_NODES; id++) {
        struct snaprig_node *n = &r->nodes[id];
        if (!n->up) continue;
        atomic_store(&n->digest_wanted, true);
        SNAPRIG_AWAIT(!atomic_load(&n->digest_wanted));
        for (uint32_t i = 0; i < SNAPRIG_N_GROUPS; i++) {
            uint32_t g = snaprig_groups[i];
            alike &= n->applied[g] > 0 && snaprig_leader(r, g) && (!one || (one->applied[g] == n->applied[g] && one->digest[g] == n->digest[g] && one->keys[g] == n->keys[g]));
        }
        one = n;
    }
    return alike;
}

static void snaprig_await_alike(struct snaprig *r)
{
    snaprig_let_write(r, false);
    SNAPRIG_AWAIT(snaprig_alike(r));
}

/* ---- group 0 is written to from outside */

static void snaprig_add(struct snaprig *r, uint64_t number)
{
    uint64_t leader = snaprig_leader(r, 0);
    char data[1000] = {0};
    memcpy(data, &(uint64_t){htole64(number)}, 8);
    if (leader) raftthread_submit(r->nodes[leader].raft, 0, r->nodes[leader].term[0], slice_of(data, sizeof data), (struct raftthread_answer){0});
}
