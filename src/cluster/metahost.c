/* The two states, and the turn.
 *
 * A snapshot of a state is: u8 version (1), u64 term of the last entry that it has, and the snapshot of the state machine. */
#include "cluster/metahost.h"

#include "base/mem.h"
#include "cluster/metahost_own.h"

enum { STATE_VERSION = 1 };

/* ---- life */

static struct slice keep(char **at, struct slice s)
{
    struct slice kept = slice_of(*at, s.n);
    if (s.n) memcpy(*at, s.p, s.n);
    *at += s.n;
    return kept;
}

static void keep_self(struct metahost *h, const struct metacode_node *me)
{
    char *at = h->is_bytes = mem_alloc(me->peer.n + me->client.n + me->name.n + me->zone.n + 1);
    h->is = (struct metacode_node){.instance = me->instance, .peer = keep(&at, me->peer), .client = keep(&at, me->client), .name = keep(&at, me->name), .zone = keep(&at, me->zone)};
}

/* Founders know each other before anything is committed. */
static void keep_founding(struct metahost *h, const struct metaplace_cluster *c)
{
    metaplace_entries(c, &h->found[META_NODES_GROUP], &h->found[META_MAP_GROUP]);
    h->found_groups = metaplace_groups(c, &h->n_found_groups);
    for (uint32_t i = 0; i < c->n_nodes; i++)
        if (i + 1 != h->me) metahost_peers_put(h, i + 1, c->nodes[i].peer);
}

struct metahost *metahost_new(const struct metahost_options *o)
{
    CHECK(o->node && o->incarnation && o->incarnation <= UINT32_MAX);
    struct metahost *h = mem_zalloc(sizeof *h);
    h->me = o->node;
    h->incarnation = o->incarnation;
    h->now = h->started = o->now;
    h->seats = o->seats;
    memcpy(h->cluster, o->cluster, META_CLUSTER_ID);
    h->calls = o->calls;
    h->log = o->log;
    h->nodes = metanodes_new();
    h->groups = metagroups_new();
    h->joiner = wirecall_joiner_new(0);
    h->sequence[0] = h->sequence[1] = o->incarnation << 32;
    /* Not all nodes at the same moment. */
    h->status_at = o->now + o->seed % METAHOST_STATUS_MS;
    h->place_at = h->lose_at = o->now + METAHOST_PLACE_MS;
    for (uint32_t g = 0; g < META_FIRST_DATA_GROUP; g++) metahost_peers_group(h, g);
    keep_self(h, &o->me);
    if (o->founding) keep_founding(h, o->founding);
    return h;
}

void metahost_free(struct metahost *h)
{
    if (!h) return;
    metahost_ask_fini(h);
    metahost_question_fini(h);
    metanodes_free(h->nodes);
    metagroups_free(h->groups);
    wirecall_joiner_free(h->joiner);
    mem_free(h->is_bytes);
    mem_free(h->found_groups);
    mem_free(h->peers);
    mem_free(h->known);
    for (int i = 0; i < 2; i++) buf_fini(&h->found[i]);
    buf_fini(&h->scratch);
    mem_free(h);
}

static bool was_here_before(const struct metahost *h)
{
    struct raftnode_info info;
    for (uint32_t g = 0; g < h->n_found_groups; g++)
        if (h->calls.look(h->calls.ctx, g, &info) == 0) return true;
    return false;
}

/* All of them in one turn of the raft thread, and so in one batch of its log: there is no half of it after a crash. */
void metahost_found(struct metahost *h)
{
    if (was_here_before(h)) return;
    for (uint32_t g = 0; g < h->n_found_groups; g++) {
        const struct raftnode_members *m = &h->found_groups[g];
        if (!meta_members_has(m, h->me)) continue;
        int rc = h->calls.create(h->calls.ctx, g, m->m, m->n);
        if (rc < 0)
            slog(h->log, SLOG_WARNING, "a replica of the new cluster cannot be created", "group=%u rc=%d", g, rc);
        else
            metahost_peers_group(h, g)->here = true;
    }
}

void metahost_fail(struct metahost *h, const char *why)
{
    if (h->failed) return;
    h->failed = true;
    slog(h->log, SLOG_WARNING, "this node cannot be part of the cluster", "why=%s", why);
    h->calls.failed(h->calls.ctx, why);
}

bool metahost_founded(const struct metahost *h) { return h->nodes->version && h->groups->version; }

bool metahost_map_is_fresh(const struct metahost *h)
{
    const struct metahost_group *g = metahost_peers_group_known(h, META_MAP_GROUP);
    if (!h->groups->version || !g || !g->leader) return false;
    for (uint32_t i = 0; i < h->n_peers; i++)
        if (h->peers[i].map_version > h->groups->version && metahost_alive(h, h->peers[i].id)) return false;
    return true;
}

/* ---- entries */

static void apply(struct metahost *h, uint32_t group, struct slice data)
{
    struct meta_result r;
    struct metacode_entry e;
    bool mine = metacode_decode(&e, data) == META_DONE && e.proposer == h->me;
    uint64_t sequence = e.sequence;
    metacode_fini(&e);
    if (group == META_NODES_GROUP)
        metanodes_apply(h->nodes, data, &r);
    else
        metagroups_apply(h->groups, data, &r);
    if (r.code == META_FOREIGN) metahost_fail(h, r.why);
    if (r.code == META_MALFORMED) slog(h->log, SLOG_WARNING, "an entry of the cluster's log is malformed", "group=%u bytes=%zu", group, data.n);
    h->applied[group].changed |= r.code == META_DONE;
    if (mine) metahost_ask_answered(h, group, sequence, &r);
}

void metahost_committed(struct metahost *h, uint32_t group, const struct raftnode_entry *entries, uint32_t n)
{
    CHECK(group < META_FIRST_DATA_GROUP);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(entries[i].index > h->applied[group].index);
        if (entries[i].type == RAFTNODE_COMMAND && !h->failed) apply(h, group, entries[i].data);
        h->applied[group].index = entries[i].index;
        h->applied[group].term = entries[i].term;
    }
    h->dirty = true;
}

void metahost_truncated(struct metahost *h, uint32_t group, uint64_t index)
{
    (void)index;
    h->calls.rewind(h->calls.ctx, group, h->applied[group].index);
    metahost_ask_hurry(h, group);
}

/* ---- snapshots */

void metahost_state(struct metahost *h, uint32_t group, struct buf *out, uint64_t *index, uint64_t *term)
{
    CHECK(group < META_FIRST_DATA_GROUP);
    wirefield_add_u8(out, STATE_VERSION);
    le_add_u64(out, h->applied[group].term);
    if (group == META_NODES_GROUP)
        metanodes_snapshot(h->nodes, out);
    else
        metagroups_snapshot(h->groups, out);
    *index = h->applied[group].index;
    *term = h->applied[group].term;
}

static bool restore_nodes(struct metahost *h, struct slice bytes)
{
    const char *why = "";
    struct metanodes *m = metanodes_restore(bytes, &why);
    if (!m) return slog(h->log, SLOG_WARNING, "a snapshot cannot be used", "group=0 why=%s", why), false;
    metanodes_free(h->nodes);
    h->nodes = m;
    return true;
}

static bool restore_groups(struct metahost *h, struct slice bytes)
{
    struct buf why = {0};
    struct metagroups *m = metagroups_restore(bytes, &why);
    if (!m) slog(h->log, SLOG_WARNING, "a snapshot cannot be used", "group=1 why=%.*s", (int)why.len, why.p ? why.p : "");
    buf_fini(&why);
    if (!m) return false;
    metagroups_free(h->groups);
    h->groups = m;
    return true;
}

static void restore_nothing(struct metahost *h, uint32_t group)
{
    if (group == META_NODES_GROUP) {
        metanodes_free(h->nodes);
        h->nodes = metanodes_new();
    } else {
        metagroups_free(h->groups);
        h->groups = metagroups_new();
    }
}

bool metahost_restore(struct metahost *h, uint32_t group, struct slice state, uint64_t index)
{
    CHECK(group < META_FIRST_DATA_GROUP);
    struct wirefield in = {.rest = state};
    uint64_t term = 0;
    if (state.n == 0) {
        if (index) return false;
        restore_nothing(h, group);
    } else {
        wirefield_expect(&in, wirefield_u8(&in) == STATE_VERSION);
        term = wirefield_u64(&in);
        if (in.bad || !(group == META_NODES_GROUP ? restore_nodes(h, in.rest) : restore_groups(h, in.rest))) return false;
    }
    h->applied[group].index = index;
    h->applied[group].term = term;
    h->applied[group].changed = true;
    h->dirty = true;
    metahost_ask_restored(h, group);
    return true;
}

/* ---- what Raft says */

void metahost_role(struct metahost *h, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader)
{
    struct metahost_group *g = metahost_peers_group(h, group);
    if (state != RAFTNODE_LEADER || term != g->term) g->changing = false;
    g->here = true;
    g->state = state;
    g->term = term;
    g->leader = leader;
    h->dirty = true;
    if (group < META_FIRST_DATA_GROUP) metahost_ask_hurry(h, group);
    if (state == RAFTNODE_LEADER) h->status_at = h->now; /* everybody should know */
}

void metahost_members(struct metahost *h, uint32_t group, const struct raftnode_members *members)
{
    struct metahost_group *g = metahost_peers_group(h, group);
    g->here = true;
    g->members = *members;
    h->dirty = true;
}

void metahost_members_of(const struct metahost *h, uint32_t group, struct raftnode_members *out)
{
    const struct metahost_group *g = metahost_peers_group_known(h, group);
    *out = g ? g->members : (struct raftnode_members){0};
}

void metahost_changed(struct metahost *h, uint32_t group, uint64_t node, enum raftnode_role role, int rc)
{
    struct metahost_group *g = metahost_peers_group(h, group);
    g->changing = false;
    h->dirty = true;
    if (rc == 0 || rc == -EEXIST || (rc == -ENOENT && role == RAFTNODE_GONE)) return;
    g->rest_until = h->now + (rc == -EAGAIN ? METAHOST_TEND_MS : METAHOST_REST_MS);
    if (rc != -EAGAIN && rc != -EPERM) slog(h->log, SLOG_NOTICE, "a change of members failed", "group=%u node=%llu role=%d rc=%d", group, (unsigned long long)node, role, rc);
}

/* ---- the turn */

/* Operations that are new here, and those that ended. */
static void sync_ops(struct metahost *h)
{
    struct metahost_known_op now[META_OPS_MAX];
    for (uint32_t i = 0, at = 0; i < h->groups->n_ops; i++) {
        uint64_t op = h->groups->ops[i]->id;
        while (at < h->n_known_ops && h->known_ops[at].op < op) at++;
        bool known = at < h->n_known_ops && h->known_ops[at].op == op;
        now[i] = known ? h->known_ops[at] : (struct metahost_known_op){op, h->groups->version};
    }
    h->n_known_ops = h->groups->n_ops;
    memcpy(h->known_ops, now, h->n_known_ops * sizeof *now);
}

static void sync_map(struct metahost *h)
{
    sync_ops(h);
    if (!h->groups->map || h->groups->map->version == h->map_version) return;
    h->map_version = h->groups->map->version;
    h->calls.map(h->calls.ctx, spaces_ref(h->groups->map));
}

void metahost_is_gone(struct metahost *h, const char *why)
{
    if (h->failed) return;
    if (!h->leaving || !h->calls.left) {
        metahost_fail(h, why);
        return;
    }
    h->failed = true;
    h->calls.left(h->calls.ctx);
}

/* Whether the cluster knows this node as what it is. */
static void sync_self(struct metahost *h)
{
    const struct metanodes_node *n = metanodes_find(h->nodes, h->me);
    if (!h->nodes->version) return;
    if (memcmp(h->nodes->cluster, h->cluster, META_CLUSTER_ID) != 0) {
        metahost_fail(h, "the log is of another cluster");
    } else if (metanodes_gone(h->nodes, h->me)) {
        metahost_is_gone(h, "this node was declared gone: to be part of the cluster again it joins with an empty data directory");
    } else if (n && n->is.instance != h->is.instance) {
        metahost_fail(h, "the cluster knows another node by this number");
    } else {
        h->leaving = n && n->state == METACODE_DRAINING;
    }
}

static void look_at_states(struct metahost *h)
{
    if (h->applied[META_NODES_GROUP].changed) {
        sync_self(h);
        if (!h->failed) metahost_peers_sync(h);
    }
    if (h->applied[META_MAP_GROUP].changed && !h->failed) sync_map(h);
    h->applied[META_NODES_GROUP].changed = h->applied[META_MAP_GROUP].changed = false;
}

static void pass_time(struct metahost *h, uint64_t now)
{
    if (now <= h->now) return;
    if (now - h->now > METAHOST_PAUSE_MS) metahost_peers_pass(h, now - h->now);
    h->now = now;
}

void metahost_tick(struct metahost *h, uint64_t now)
{
    pass_time(h, now);
    if (h->failed) return;
    look_at_states(h);
    metahost_peers_tick(h);
    if (h->dirty || h->now >= h->tend_at) {
        h->dirty = false;
        h->tend_at = h->now + METAHOST_TEND_MS;
        metahost_tend(h);
    }
    if (h->now >= h->lose_at) {
        h->lose_at = h->now + METAHOST_PLACE_MS;
        metahost_place_gone(h);
    }
    if (h->now >= h->place_at) {
        h->place_at = h->now + METAHOST_PLACE_MS;
        metahost_place(h);
    }
    metahost_question_tick(h);
    metahost_ask_tick(h);
}

uint64_t metahost_next(const struct metahost *h)
{
    uint64_t next = metahost_ask_next(h);
    const uint64_t times[] = {h->status_at, h->tend_at, h->place_at, h->lose_at};
    if (h->failed) return UINT64_MAX;
    if (h->dirty || h->applied[0].changed || h->applied[1].changed) return h->now;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (times[i] < next) next = times[i];
    return next;
}

/* ---- looking */

const struct metanodes *metahost_nodes(const struct metahost *h) { return h->nodes; }
const struct metagroups *metahost_groups(const struct metahost *h) { return h->groups; }
void metahost_report(struct metahost *h, const struct metahost_report *r) { h->report = *r; }
