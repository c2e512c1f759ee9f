/* The node's side of the cluster's own groups: what they ask for is done here, and what is known of the cluster is shown. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/node_own.h"
#include "shard/engine.h"
#include "shard/topology.h"

/* ---- R: what the cluster's state asks of this node */

static int meta_propose(void *ctx, uint32_t group, uint64_t term, struct slice data, uint64_t *index)
{
    return raftthread_propose(((struct node *)ctx)->raft, group, term, data, index);
}

static int add_seat(struct node *n, uint32_t group)
{
    if (group < META_FIRST_DATA_GROUP) return 0;
    int rc = seats_add(n->seats, group);
    if (rc == -ENOSPC) slog(n->log, SLOG_WARNING, "no seat is free for another replica: cluster-seats is too small", "group=%u", group);
    return rc == -EEXIST ? 0 : rc;
}

static int meta_create(void *ctx, uint32_t group, const struct raftnode_member *members, uint32_t count)
{
    struct node *n = ctx;
    int rc = add_seat(n, group);
    if (rc == 0) raftthread_create(n->raft, group, members, count, (struct raftthread_answer){0});
    return rc;
}

static int meta_join(void *ctx, uint32_t group)
{
    struct node *n = ctx;
    int rc = add_seat(n, group);
    if (rc == 0) raftthread_join(n->raft, group, (struct raftthread_answer){0});
    return rc;
}

static void meta_drop(void *ctx, uint32_t group)
{
    struct node *n = ctx;
    raftthread_drop(n->raft, group, (struct raftthread_answer){0});
    if (group >= META_FIRST_DATA_GROUP) seats_remove(n->seats, group);
    if (group < META_GROUPS_MAX) atomic_store(&n->leaders[group], 0);
}

static void meta_transfer(void *ctx, uint32_t group, uint64_t to) { raftthread_transfer(((struct node *)ctx)->raft, group, to, (struct raftthread_answer){0}); }

struct change {
    struct node *node;
    uint32_t group;
    uint64_t member;
    enum raftnode_role role;
};

static void changed(void *ctx, uint64_t token, int rc, uint64_t index)
{
    struct change *c = ctx;
    metahost_changed(c->node->meta, c->group, c->member, c->role, rc);
    mem_free(c);
}

static int meta_change(void *ctx, uint32_t group, uint64_t member, enum raftnode_role role)
{
    struct node *n = ctx;
    struct change *c = mem_alloc(sizeof *c);
    *c = (struct change){n, group, member, role};
    raftthread_change(n->raft, group, member, role, (struct raftthread_answer){changed, c, 0});
    return 0;
}

static int meta_look(void *ctx, uint32_t group, struct raftnode_info *out) { return raftthread_inspect(((struct node *)ctx)->raft, group, out); }
static void meta_rewind(void *ctx, uint32_t group, uint64_t index) { raftthread_rewind(((struct node *)ctx)->raft, group, index, (struct raftthread_answer){0}); }

/* Kept in a file: a node that starts must reach the others before its log tells it where they are. */
static void keep_peers(struct node *n)
{
    int rc = nodefile_write_peers(n->o.files, n->dir, &n->peers);
    if (rc < 0) slog(n->log, SLOG_WARNING, "cannot write where the other nodes are", "file=%s/PEERS error=%s", n->dir, strerror(-rc));
}

static void meta_peer_put(void *ctx, uint64_t node, const char *address)
{
    struct node *n = ctx;
    if (node == n->who.id) return;
    raftthread_peer_put(n->raft, node, address);
    for (uint32_t i = 0; i < n->peers.n; i++)
        if (n->peers.of[i].id == node && strcmp(n->peers.of[i].address, address) == 0) return;
    nodefile_put_peer(&n->peers, node, address);
    keep_peers(n);
}

static void meta_peer_del(void *ctx, uint64_t node)
{
    struct node *n = ctx;
    raftthread_peer_del(n->raft, node);
    n->calls.down(n->calls.ctx, node); /* which the links do not say of a peer that they forget: its lanes end, too */
    nodefile_del_peer(&n->peers, node);
    keep_peers(n);
}

static void meta_send(void *ctx, uint64_t peer, struct slice frames) { raftthread_send(((struct node *)ctx)->raft, peer, frames); }

struct new_map {
    struct mail mail;
    struct space_map *map;
};

static void set_map(struct worker *w, struct mail *m)
{
    struct new_map *to = (struct new_map *)m;
    topology_follow(w->engine->topology, w, to->map); /* maps come from one thread, by this mailbox: they follow each other */
    mem_free(to);
}

static void meta_map(void *ctx, struct space_map *m)
{
    struct node *n = ctx;
    struct new_map *to = mem_alloc(sizeof *to);
    *to = (struct new_map){.mail.to_worker = set_map, .map = m};
    engine_send(n->engine, 0, &to->mail);
}

static void meta_failed(void *ctx, const char *why)
{
    struct node *n = ctx;
    n->calls.failed(n->calls.ctx, why);
}

static void meta_left(void *ctx)
{
    struct node *n = ctx;
    n->calls.left(n->calls.ctx);
}

static bool meta_reaches(void *ctx, uint64_t peer) { return raftthread_reaches(((struct node *)ctx)->raft, peer); }

static struct slice text_or(const char *s) { return slice_str(s ? s : ""); }

void node_make_meta(struct node *n)
{
    const struct nodefile *f = &n->file;
    struct metacode_node founders[NODEFILE_FOUNDERS_MAX];
    char names[NODEFILE_FOUNDERS_MAX][32], name[32];
    for (uint32_t i = 0; i < f->n_founders; i++) {
        snprintf(names[i], sizeof names[i], "node-%u", i + 1);
        founders[i] = (struct metacode_node){.instance = f->founders[i].instance, .peer = slice_str(f->founders[i].peer), .client = slice_str(f->founders[i].clients), .name = slice_str(names[i])};
    }
    struct metaplace_cluster first = {.seed = f->seed, .default_mode = SPACE_BUCKET, .shards = f->shards, .replication = f->replication, .nodes = founders, .n_nodes = f->n_founders};
    memcpy(first.id, f->cluster, META_CLUSTER_ID);
    snprintf(name, sizeof name, "node-%llu", (unsigned long long)n->who.id);
    struct metahost_options o = {
        .node = n->who.id,
        .incarnation = n->who.incarnation,
        .now = n->now,
        .seed = n->who.instance ^ n->who.incarnation,
        .seats = n->engine->route.shards - 1,
        .me = {.instance = n->who.instance,
               .peer = slice_str(n->o.advertise ? n->o.advertise : n->o.listen),
               .client = text_or(n->o.clients),
               .name = n->o.name && *n->o.name ? slice_str(n->o.name) : slice_str(name),
               .zone = text_or(n->o.zone)},
        .founding = f->n_founders ? &first : NULL,
        .calls = {n, meta_propose, meta_create, meta_join, meta_drop, meta_transfer, meta_change, meta_look, meta_rewind, meta_peer_put, meta_peer_del, meta_send, meta_map, meta_failed, meta_left, meta_reaches},
        .log = n->log,
    };
    memcpy(o.cluster, f->cluster, META_CLUSTER_ID);
    n->meta = metahost_new(&o);
    for (uint32_t i = 0; i < n->peers.n; i++) metahost_peer(n->meta, n->peers.of[i].id, n->peers.of[i].address);
}

/* ---- R: founding */

void node_found_tick(struct node *n, uint64_t now)
{
    struct buf frames = {0};
    if (n->meta || !nodefound_tick(&n->found, now, &frames)) return;
    for (uint32_t i = 0; i < n->file.n_founders; i++)
        if (n->file.founders[i].id != n->who.id) raftthread_send(n->raft, n->file.founders[i].id, buf_slice(&frames));
    buf_fini(&frames);
}

static void found(struct node *n)
{
    struct buf error = {0};
    n->file.founded = true;
    if (nodefile_write(n->o.files, n->dir, &n->file, &error) < 0) {
        buf_add_byte(&error, '\0');
        n->calls.failed(n->calls.ctx, error.p);
    } else {
        slog(n->log, SLOG_NOTICE, "the first nodes of the cluster have met", "nodes=%u", n->file.n_founders);
        node_make_meta(n);
        metahost_found(n->meta);
    }
    buf_fini(&error);
}

int node_found_frame(struct node *n, uint64_t from, const struct wire_frame *f)
{
    struct buf answer = {0};
    enum nodefound_step step;
    int rc = nodefound_frame(&n->found, from, f, &answer, &step);
    if (answer.len) raftthread_send(n->raft, from, buf_slice(&answer));
    buf_fini(&answer);
    if (rc < 0 || step == NODEFOUND_WAIT) return rc;
    if (step == NODEFOUND_READY) found(n);
    else n->calls.failed(n->calls.ctx, "the cluster was founded with another data directory of this node: remove the node from it, and let this one join as a new one");
    return 0;
}

/* ---- R: what others see */

static void count_nodes(const struct node *n, struct node_info *info)
{
    const struct metanodes *nodes = metahost_nodes(n->meta);
    for (uint32_t i = 0; i < nodes->n; i++) {
        if (nodes->nodes[i].state == METACODE_GONE) continue;
        bool alive = metahost_alive(n->meta, nodes->nodes[i].id);
        info->nodes++;
        info->nodes_alive += alive;
        info->nodes_reached += alive && metahost_reaches(n->meta, nodes->nodes[i].id);
    }
}

/* Leaders of groups that have a replica here are known by their own Raft; of the others, by what nodes report. */
static void count_groups(struct node *n, struct node_info *info)
{
    const struct metagroups *groups = metahost_groups(n->meta);
    for (uint32_t i = 0; i < groups->n; i++) {
        uint32_t g = groups->groups[i].id;
        uint64_t leader = metahost_leader(n->meta, g);
        info->groups++;
        info->groups_led += metahost_live_leader(n->meta, g) != 0;
        if (leader) atomic_store(&n->leaders[g], leader);
    }
    info->map_version = groups->map ? groups->map->version : 0;
    info->operations = groups->n_ops;
}

static void report(struct node *n)
{
    struct raftthread_stats raft;
    raftthread_stats(n->raft, &raft);
    struct metahost_report r = {.free_bytes = raft.capacity, .full = raft.chore_error != 0};
    for (uint32_t i = 1; i < n->engine->route.shards; i++) {
        const struct shard *s = &n->engine->shards[i];
        for (unsigned db = 0; db < STORE_DBS; db++) r.keys += STAT_GET(s->numbers.keys[db]);
        r.bytes += atomic_load_explicit(&s->bytes, memory_order_relaxed);
    }
    metahost_report(n->meta, &r);
}

/* With the lock. */
static void show_members(struct node *n)
{
    const struct metagroups *groups = metahost_groups(n->meta);
    n->members = mem_resize(n->members, (groups->n + 1) * sizeof *n->members);
    n->member_groups = mem_resize(n->member_groups, (groups->n + 1) * sizeof *n->member_groups);
    n->n_members = groups->n;
    for (uint32_t i = 0; i < groups->n; i++) {
        const struct metagroups_group *g = &groups->groups[i];
        n->member_groups[i] = g->id;
        n->members[i] = g->told.n ? g->told : g->wanted;
    }
}

/* From when on something was committed, a start without a log is refused. */
static void note_log(struct node *n)
{
    struct raftthread_stats raft;
    struct buf error = {0};
    if (n->file.has_log) return;
    raftthread_stats(n->raft, &raft);
    if (!raft.commits) return;
    n->file.has_log = true;
    if (nodefile_write(n->o.files, n->dir, &n->file, &error) < 0) {
        slog(n->log, SLOG_WARNING, "cannot write that this node has a log", "error=%.*s", (int)error.len, error.p);
        n->file.has_log = false;
    }
    buf_fini(&error);
}

void node_publish(struct node *n)
{
    struct node_info info = {.who = n->who};
    if (n->meta) {
        note_log(n);
        count_nodes(n, &info);
        count_groups(n, &info);
        report(n);
    }
    pthread_mutex_lock(&n->lock);
    n->info = info;
    if (n->meta) show_members(n);
    pthread_mutex_unlock(&n->lock);
}

/* ---- any thread */

struct seats *node_seats(struct node *n) { return n->seats; }
const struct termboard *node_board(const struct node *n) { return n->board; }
uint64_t node_id(const struct node *n) { return n->who.id; }
uint64_t node_leader(const struct node *n, uint32_t group) { return group < META_GROUPS_MAX ? atomic_load_explicit(&n->leaders[group], memory_order_relaxed) : 0; }

uint32_t node_replicas(struct node *n, uint32_t group, uint64_t *nodes, uint32_t max)
{
    uint32_t count = 0;
    pthread_mutex_lock(&n->lock);
    for (uint32_t i = 0; i < n->n_members; i++) {
        const struct raftnode_members *m = &n->members[i];
        if (n->member_groups[i] != group) continue;
        for (count = 0; count < m->n; count++)
            if (count < max) nodes[count] = m->m[count].node;
    }
    pthread_mutex_unlock(&n->lock);
    return count;
}

void node_leader_is(struct node *n, uint32_t group, uint64_t leader)
{
    if (group < META_GROUPS_MAX) atomic_store_explicit(&n->leaders[group], leader, memory_order_relaxed);
}

void node_send(struct node *n, uint64_t peer, struct slice frames) { raftthread_put(n->raft, peer, frames); }

void node_secret(struct node *n, const struct linksecret *secret) { raftthread_secret(n->raft, secret); }

void node_hurry(struct node *n)
{
    if (!raftthread_hurry(n->raft)) seats_hurry(n->seats);
}

void node_look(struct node *n, struct node_info *out)
{
    pthread_mutex_lock(&n->lock);
    *out = n->info;
    pthread_mutex_unlock(&n->lock);
    out->who = n->who;
    out->spread = atomic_load(&n->spread.sent);
    out->spread_dropped = atomic_load(&n->spread.dropped);
    raftthread_stats(n->raft, &out->raft);
    snaphost_look(n->snapshots, &out->snapshots);
}

bool node_is_up(struct node *n)
{
    struct node_info info;
    node_look(n, &info);
    return info.map_version && info.snapshots.recovering == 0;
}

struct question {
    struct node *node;
    enum metahost_question kind;
    uint32_t argc, timeout_ms;
    metahost_answer *answer;
    void *ctx;
    struct slice argv[];
};

static void ask_here(void *ctx)
{
    struct question *q = ctx;
    if (q->node->meta) metahost_ask(q->node->meta, q->kind, q->argv, q->argc, q->timeout_ms, q->answer, q->ctx);
    else q->answer(q->ctx, -EAGAIN, SLICE("the cluster is not founded yet: its first nodes have not all met"));
    mem_free(q);
}

void node_ask(struct node *n, enum metahost_question kind, const struct slice *argv, uint32_t argc, uint32_t timeout_ms, metahost_answer *answer, void *ctx)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < argc; i++) bytes += argv[i].n;
    struct question *q = mem_alloc(sizeof *q + argc * sizeof *argv + bytes);
    *q = (struct question){.node = n, .kind = kind, .argc = argc, .timeout_ms = timeout_ms, .answer = answer, .ctx = ctx};
    char *at = (char *)(q->argv + argc);
    for (uint32_t i = 0; i < argc; i++) {
        if (argv[i].n) memcpy(at, argv[i].p, argv[i].n);
        q->argv[i] = slice_of(at, argv[i].n);
        at += argv[i].n;
    }
    raftthread_run(n->raft, ask_here, q);
}

/* ---- operations that carry keys */

struct looking {
    struct node *node;
    void (*answer)(void *ctx, struct metahost_moves *m);
    void *ctx;
};

static void look_here(void *ctx)
{
    struct looking *l = ctx;
    l->answer(l->ctx, l->node->meta ? metahost_moves(l->node->meta) : NULL);
    mem_free(l);
}

void node_moves(struct node *n, void (*answer)(void *ctx, struct metahost_moves *m), void *ctx)
{
    raftthread_run(n->raft, look_here, mem_dup(&(struct looking){n, answer, ctx}, sizeof(struct looking)));
}

struct stepping {
    struct node *node;
    uint64_t op;
    enum metaops_step from, to;
    uint32_t timeout_ms;
    void (*done)(void *ctx, uint64_t version);
    void *ctx;
    size_t boundary_n;
    char boundary[];
};

static void step_here(void *ctx)
{
    struct stepping *s = ctx;
    if (s->node->meta) metahost_step(s->node->meta, s->op, s->from, s->to, slice_of(s->boundary, s->boundary_n), s->timeout_ms, s->done, s->ctx);
    else s->done(s->ctx, 0);
    mem_free(s);
}

void node_step(struct node *n, uint64_t op, enum metaops_step from, enum metaops_step to, struct slice boundary, uint32_t timeout_ms, void (*done)(void *ctx, uint64_t version), void *ctx)
{
    struct stepping *s = mem_alloc(sizeof *s + boundary.n);
    *s = (struct stepping){n, op, from, to, timeout_ms, done, ctx, boundary.n};
    if (boundary.n) memcpy(s->boundary, boundary.p, boundary.n);
    raftthread_run(n->raft, step_here, s);
}
